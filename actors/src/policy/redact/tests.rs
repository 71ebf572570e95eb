use proptest::prelude::*;
use serde_json::json;

use super::*;

fn clean(value: Value) -> Value {
    Redactor::default().clean_value(&value)
}

// V-H16, V-H17
#[test]
fn values_under_secret_keys_are_closed_in_any_case_and_at_any_depth() {
    let value = json!({
        "path": "notes.md",
        "API_KEY": "k1", "apiKey": "k2", "X-Api-Key": "k3", "Authorization": "Bearer k4",
        "nested": {"list": [{"dbPassword": "k5"}, {"cookie": ["k6", "k7"]}]},
        "client_secret": {"deep": "k8"}, "Token": 12345, "pin_secret": null, "secret": true,
        "max_tokens": 100, "author": "me", "keyboard": "qwerty", "tokenizer": "bpe",
    });
    assert_eq!(
        clean(value),
        json!({
            "path": "notes.md",
            "API_KEY": REDACTED, "apiKey": REDACTED, "X-Api-Key": REDACTED, "Authorization": REDACTED,
            "nested": {"list": [{"dbPassword": REDACTED}, {"cookie": REDACTED}]},
            "client_secret": REDACTED, "Token": REDACTED, "pin_secret": null, "secret": true,
            "max_tokens": 100, "author": "me", "keyboard": "qwerty", "tokenizer": "bpe",
        })
    );
}

// V-I19
#[test]
fn secrets_in_running_text_are_closed_and_the_rest_stays() {
    let cases = [
        ("PASSWORD=hunter2 next", "PASSWORD=[redacted] next"),
        ("a token: abc, b", "a token: [redacted], b"),
        (r#"{"api_key":"abc","n":1}"#, r#"{"api_key":"[redacted]","n":1}"#),
        ("export AWS_SECRET_ACCESS_KEY='ab cd'", "export AWS_SECRET_ACCESS_KEY='[redacted]'"),
        ("Authorization: Bearer abc.def", "Authorization: Bearer [redacted]"),
        ("curl -H 'Cookie: a=b; c=d'", "curl -H 'Cookie: [redacted]; c=d'"),
        ("GET /x?token=abc&page=2", "GET /x?token=[redacted]&page=2"),
        ("postgres://me:pa:ss@db/x", "postgres://me:[redacted]@db/x"),
        ("use sk-abcdef0123456789abcd now", "use [redacted] now"),
        // A098: a bot's token stands in its URLs
        (
            "https://h/bot123456789:AAEhBP0av28abcdefghijklmnopqrstuvwx/getMe",
            "https://h/bot123456789:[redacted]/getMe",
        ),
        ("id 123456789:AAEhBP0av28abcdefghijklmnopqrstuvwx", "id 123456789:[redacted]"),
        ("bearer abcdefghij", "bearer [redacted]"),
        ("-----BEGIN RSA PRIVATE KEY-----\nabc\n-----END RSA PRIVATE KEY-----\nx", "[redacted]\nx"),
        ("-----BEGIN OPENSSH PRIVATE KEY-----\ncut", "[redacted]"),
        ("-----BEGIN CERTIFICATE-----\nabc", "-----BEGIN CERTIFICATE-----\nabc"),
        ("if token == other {", "if token == other {"),
        ("token:\nnext", "token:\nnext"),
        ("max_tokens=100 keyboard=us", "max_tokens=100 keyboard=us"),
        ("grüße: 你好 = 1", "grüße: 你好 = 1"),
    ];
    for (raw, shown) in cases {
        assert_eq!(clean_text(raw), shown, "{raw:?}");
    }
}

// A098, I12
#[test]
fn a_configured_secret_is_found_in_every_form() {
    let secret = "s3cr3t/va+lue\"\\!é";
    let redactor = Redactor::new([secret, "abc"]);
    let basic = STANDARD_NO_PAD.encode(format!("user:{secret}"));
    let basic2 = STANDARD_NO_PAD.encode(format!("user2:{secret}:tail"));
    let basic3 = URL_SAFE_NO_PAD.encode(format!("me:{secret}"));
    let forms = [
        secret.to_owned(),
        percent(secret, true),
        percent(secret, false),
        json!({ "x": secret }).to_string(),
        STANDARD_NO_PAD.encode(secret),
        base64::engine::general_purpose::STANDARD.encode(secret),
        URL_SAFE_NO_PAD.encode(secret),
        basic,
        basic2,
        basic3,
    ];
    for form in forms {
        let text = format!("before {form} after");
        let shown = redactor.scrub(&text);
        assert!(shown.contains(REDACTED), "{text} → {shown}");
        assert!(!shown.contains("va"), "{text} → {shown}");
    }
    assert_eq!(
        redactor.scrub("abc stays: too short to look for"),
        "abc stays: too short to look for"
    );
    assert!(!format!("{redactor:?}").contains("s3cr3t"));
}

// V-H16
#[test]
fn a_summary_names_the_path_first_and_cuts_long_values() {
    let arguments = json!({"content": "x".repeat(500), "password": "p", "path": "a\u{202e}.md"});
    let Value::Object(arguments) = arguments else { panic!("an object") };
    let summary = Redactor::default().summary(&arguments);
    assert!(summary.starts_with("path=a\\u{202e}.md content=xxx"), "{summary}");
    assert!(summary.ends_with("… password=[redacted]"), "{summary}");
    assert!(summary.len() < 300, "{summary}");
}

#[test]
fn a_value_without_end_is_bounded() {
    let deep = (0..100).fold(json!("bottom"), |inner, _| json!([inner]));
    assert!(clean(deep).to_string().contains("too deep to show"));
    let shown = clean(json!("é".repeat(100_000)));
    assert!(shown.as_str().is_some_and(|text| text.len() < MAX_SHOWN_BYTES + 64));
}

proptest! {
    // V-H16, A136
    #[test]
    fn cleaning_never_panics_and_never_shows_an_assigned_password(
        before in "(\\PC|[=:\"' \\n]|password|token|://|@|Bearer |-----BEGIN ){0,30}",
        value in "[a-z0-9]{8,20}",
    ) {
        clean_text(&before);
        let shown = clean_text(&format!("{before}\npassword={value}"));
        prop_assert!(!shown.contains(&value), "{}", shown);
    }
}
