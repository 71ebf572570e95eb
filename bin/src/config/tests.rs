//! What operators see of a configuration, right or wrong.

use std::path::{Path, PathBuf};

use rookery_messages::settings::{AuthRole, AutonomyLevel, ProviderKind};
use toml::Value;

use super::*;

fn none() -> Environment {
    Environment::default()
}

fn read(text: &str, environment: &Environment) -> Result<Loaded, ConfigErrors> {
    load_text(Some(PathBuf::from("r.toml")), text, environment)
}

/// The error lines of a text that must not load.
fn lines(text: &str) -> Vec<String> {
    read(text, &none()).err().map(|errors| errors.lines()).unwrap_or_default()
}

pub(super) fn loaded(text: &str) -> Settings {
    read(text, &none()).unwrap().settings
}

const AGENT: &str = "[providers.main]\nkind = 'demo'\n[agents.home]\nprovider = 'main'\n";

#[test]
fn each_mistake_names_its_line_its_key_and_what_to_do() {
    let cases: &[(&str, &str)] = &[
        (
            "config_version = 1\n[gateway]\nlisten_on = '127.0.0.1:1'",
            "r.toml: line 3: gateway.listen_on: unknown key; the nearest known key is `gateway.listen`",
        ),
        (
            "[gatway]\nlisten = '127.0.0.1:1'",
            "r.toml: line 1: gatway: unknown key; the nearest known key is `gateway`",
        ),
        (
            "[channels.webhook.ci]\nsecrt = 'x'",
            "r.toml: line 2: channels.webhook.ci.secrt: unknown key; the nearest known key is `channels.webhook.ci.secret`",
        ),
        (
            "[[gateway.tokens]]\nname='a'\ntoken='0123456789abcdef'\nrole='admin'\nrol='x'",
            "r.toml: line 5: gateway.tokens[0].rol: unknown key; the nearest known key is `gateway.tokens[0].role`",
        ),
        (
            "\n\n[shutdown]\ndrain_secs = '20'",
            "r.toml: line 4: shutdown.drain_secs: must be a whole number, but is text",
        ),
        (
            "[shutdown]\ndrain_secs = -1",
            "r.toml: line 2: shutdown.drain_secs: must not be negative",
        ),
        (
            "[sessions]\nmax_attempts = 4294967296",
            "r.toml: line 2: sessions.max_attempts: must be at most 4294967295",
        ),
        // Nothing is like it: the list says enough.
        (
            "[store]\ndurability = 'x'",
            "r.toml: line 2: store.durability: must be one of \"power\" | \"process\"",
        ),
        ("data_dir = 3", "r.toml: line 1: data_dir: must be text, but is a whole number"),
        ("store = 3", "r.toml: line 1: store: must be a table, but is a whole number"),
        (
            "[store]\ndurability = 'powr'",
            "r.toml: line 2: store.durability: must be one of \"power\" | \"process\"; the nearest is \"power\"",
        ),
        (
            "[providers.main]\nmodel = 'm'",
            "r.toml: line 1: providers.main.kind: is missing; set it to \"openai\" | \"openai_responses\" | \"anthropic\" | \"gemini\" | \"ollama\" | \"demo\"",
        ),
        (
            "config_version = 2\nnew_key = 1",
            "r.toml: line 1: config_version: this binary knows config_version = 1 only; set it to 1, or use the binary this file was written for",
        ),
        (
            "[gateway]\nlisten = 'here'",
            "r.toml: line 2: gateway.listen: is not an address and port; write it like 127.0.0.1:7717 or [::1]:7717",
        ),
        (
            "[gateway]\nlisten = '0.0.0.0:7717'",
            "r.toml: line 2: gateway.listen: is off loopback, which needs tokens; add an entry to gateway.tokens, or listen on 127.0.0.1",
        ),
        (
            "[risk_profiles.default.network]\ndeny_hosts = ['http://a']",
            "r.toml: line 2: risk_profiles.default.network.deny_hosts: `http://a` is no host: write `example.org`, `*.example.org`, an address or a network such as `192.0.2.0/24`, without scheme, port or path",
        ),
        (
            "[risk_profiles.default.network]\nallow_private = ['*']",
            "r.toml: line 2: risk_profiles.default.network.allow_private: `*` is no private destination: write `10.1.0.0/16`, `127.0.0.1:8080`, `[::1]:8080` or `wiki.example:443`",
        ),
        (
            "[risk_profiles.default.network]\nallow_ports = [0]",
            "r.toml: line 2: risk_profiles.default.network.allow_ports: holds 0, which is no port; take it out",
        ),
        (
            "[risk_profiles.default.rate_limits.shell]\nper_minute = 1000000",
            "r.toml: line 2: risk_profiles.default.rate_limits.shell.per_minute: must be from 0 to 100000",
        ),
        (
            "[providers.main]\nkind = 'demo'\nmax_concurrency = 0",
            "r.toml: line 3: providers.main.max_concurrency: must be from 1 to 100000",
        ),
        (
            "[providers.main]\nkind = 'demo'\nrequests_per_minute = 0",
            "r.toml: line 3: providers.main.requests_per_minute: must be from 1 to 1000000",
        ),
        (
            "[providers.main]\nkind = 'demo'\nmax_output_tokens = 0",
            "r.toml: line 3: providers.main.max_output_tokens: must be from 1 to 10000000",
        ),
        (
            "[providers.main]\nkind = 'openai'",
            "r.toml: line 1: providers.main.model: is missing; set it to the model's name",
        ),
        (
            "[providers.main]\nkind = 'demo'\nfallback = ['man']",
            "r.toml: line 3: providers.main.fallback: there is no provider `man`; the nearest is `main`",
        ),
        (
            "[providers.main]\nkind = 'openai'\nmodel = 'm'\nbase_url = 'localhost:1'",
            "r.toml: line 4: providers.main.base_url: is not an http:// or https:// address",
        ),
        (
            "[providers.seeing]\nkind = 'openai'\nmodel = 'gpt-4o'\n[agents.home]\nvision_provider = 'seeng'",
            "r.toml: line 5: agents.home.vision_provider: there is no provider `seeng`; the nearest is `seeing`",
        ),
        (
            "[providers.blind]\nkind = 'openai'\nmodel = 'm'\n[agents.home]\nvision_provider = 'blind'",
            "r.toml: line 5: agents.home.vision_provider: names `blind`, whose model is not known to see images; if it does, set providers.blind.vision = true",
        ),
        (
            "[agents.home]\nprovider = 'dem'",
            "r.toml: line 2: agents.home.provider: there is no provider `dem`; the nearest is `demo`",
        ),
        (
            "[agents.home]\nprovider = 'demo'\nrisk_profile = 'defalt'",
            "r.toml: line 3: agents.home.risk_profile: there is no risk profile `defalt`; the nearest is `default`",
        ),
        (
            "[agents.home]\nprovider = 'demo'\nchannels = ['webhook.cy']\n[channels.webhook.ci]",
            "r.toml: line 3: agents.home.channels: there is no channel `webhook.cy`; the nearest is `webhook.ci`, or add its section",
        ),
        (
            "[agents.home]\nprovider = 'demo'\nworkspace = 'data/work'",
            "r.toml: line 3: agents.home.workspace: and data_dir lie within each other, so tools could reach the database and the admin token; move one of them",
        ),
        (
            "[agents.home]\nprovider = 'demo'\nworkspace = './x/..'",
            "r.toml: line 3: agents.home.workspace: and data_dir lie within each other, so tools could reach the database and the admin token; move one of them",
        ),
        (
            "[agents.'a b']\nprovider = 'demo'",
            "r.toml: line 1: agents.a b: names have 1 to 64 of a-z, A-Z, 0-9, `-` and `_`; rename it",
        ),
    ];
    for (text, expected) in cases {
        let lines = lines(text);
        assert!(lines.iter().any(|line| line == expected), "{text}\n{lines:#?}");
    }
}

#[test]
fn every_mistake_is_reported_at_once() {
    let text = "datadir = 1\n[gateway]\nlisten = 1\n[shutdown]\ndrain = 2";
    assert_eq!(
        lines(text),
        [
            "r.toml: line 1: datadir: unknown key; the nearest known key is `data_dir`",
            "r.toml: line 3: gateway.listen: must be text, but is a whole number",
            "r.toml: line 5: shutdown.drain: unknown key; the nearest known key is `shutdown.drain_secs`",
        ]
    );
    let text = "[gateway]\nlisten = 'x'\nmax_connections = 0\n[approvals]\ntimeout_secs = 0";
    assert_eq!(lines(text).len(), 3);
}

#[test]
fn syntax_errors_name_the_line_and_show_none_of_the_text() {
    let shown = lines("a = 1\napi_key = 'sk-secret\nb = 2").join("\n");
    assert!(shown.starts_with("r.toml: line 2: not valid TOML: "), "{shown}");
    assert!(!shown.contains("sk-secret"), "{shown}");
    let shown = lines("[store]\n[store]").join("\n");
    assert_eq!(shown, "r.toml: line 2: not valid TOML: duplicate key");
}

#[test]
fn a_channel_has_exactly_one_owner() {
    let two = format!(
        "{AGENT}channels = ['cli']\n[agents.other]\nprovider = 'main'\nchannels = ['cli', 'ws']"
    );
    assert_eq!(
        lines(&two),
        [
            "r.toml: line 8: agents.other.channels: `cli` has more than one owner (home, other); leave it to one of them"
        ]
    );
    let none = format!("{AGENT}channels = ['cli']\n[channels.webhook.ci]\n");
    assert_eq!(
        lines(&none),
        [
            "r.toml: line 6: channels.webhook.ci: no agent owns it; add \"webhook.ci\" to the channels of one agent"
        ]
    );
    let twice = format!("{AGENT}channels = ['cli', 'cli']");
    assert_eq!(
        lines(&twice),
        ["r.toml: line 5: agents.home.channels: names `cli` 2 times; once is enough"]
    );
}

#[test]
fn approvals_are_routed_to_a_chat_with_somebody_in_it_who_may_decide() {
    let bot =
        "[channels.telegram.main]\nbot_token = '123456789:AAEx-a-token-of-no-bot-at-all_0123'";
    let to = |route: &str, more: &str| {
        let channels = "channels = ['cli', 'ws', 'telegram.main']";
        format!("{AGENT}{channels}\napproval_route = '{route}'\n{bot}\n{more}")
    };
    let named = "approvers = ['7']";
    for (route, more) in
        [("telegram.main:7", ""), ("telegram.main:-1001", named), ("telegram.main:-1001/45", named)]
    {
        assert_eq!(lines(&to(route, more)), Vec::<String>::new(), "{route}");
    }
    let at = "r.toml: line 6: agents.home.approval_route: ";
    for (route, more, says) in [
        (
            "telegram.main",
            named,
            "`telegram.main` has many chats; name one, as in \"telegram.main:<chat id>\"",
        ),
        (
            "telegram.main:@ann",
            named,
            "`@ann` is no chat of `telegram.main`: a chat is named by its number, such as 123 or -100123, and a topic by -100123/45",
        ),
        (
            "telegram.main:-1001",
            "",
            "nobody is named who may decide in a group; set channels.telegram.main.approvers",
        ),
        (
            "telegram.mian:7",
            named,
            "there is no channel `telegram.mian`; the nearest is `telegram.main`; name one, or \"admin\", or leave the key out",
        ),
    ] {
        assert_eq!(lines(&to(route, more)), [format!("{at}{says}")], "{route}");
    }
}

#[test]
fn approvals_are_routed_to_people_who_are_who_they_say() {
    let all = "channels = ['cli', 'ws', 'webhook.ops']";
    let to = |route: &str, hook: &str| {
        format!("{AGENT}{all}\napproval_route = '{route}'\n[channels.webhook.ops]\n{hook}")
    };
    let signed = "secret = 'a-secret'\nreply_url = 'http://ops.example/'\napprovers = ['eve']";
    assert!(lines(&to("webhook.ops", signed)).is_empty());
    assert!(lines(&to("admin", "")).is_empty() && lines(&to("ws", "")).is_empty());
    assert_eq!(
        lines(&to("webhook.ops", "")),
        [
            "r.toml: line 6: agents.home.approval_route: `webhook.ops` has no secret, so anybody could answer; give it one",
            "r.toml: line 6: agents.home.approval_route: `webhook.ops` has no reply_url to post requests to; give it one",
        ]
    );
    assert_eq!(
        lines(&to("webhook.op", signed)),
        [
            "r.toml: line 6: agents.home.approval_route: there is no channel `webhook.op`; the nearest is `webhook.ops`; name one, or \"admin\", or leave the key out"
        ]
    );
}

#[test]
fn fallbacks_that_lead_back_are_refused() {
    let text = "[providers.a]\nkind='demo'\nfallback=['b']\n[providers.b]\nkind='demo'\nfallback=['c','a']\n[providers.c]\nkind='demo'";
    assert_eq!(
        lines(text),
        [
            "r.toml: line 3: providers.a.fallback: leads back to itself (a → b → a); take one of them out",
            "r.toml: line 6: providers.b.fallback: leads back to itself (b → a → b); take one of them out",
        ]
    );
    let diamond = "[providers.a]\nkind='demo'\nfallback=['b','c']\n[providers.b]\nkind='demo'\nfallback=['d']\n\
                   [providers.c]\nkind='demo'\nfallback=['d']\n[providers.d]\nkind='demo'";
    assert!(lines(diamond).is_empty());
}

// I12
#[test]
fn tokens_are_long_enough_told_apart_and_never_shown() {
    let token = |name: &str, text: &str| {
        format!("[[gateway.tokens]]\nname='{name}'\ntoken='{text}'\nrole='viewer'\n")
    };
    let text = [
        token("a", "short-secret"),
        token("a", "0123456789abcdef"),
        token("b", "0123456789abcdef"),
    ];
    let lines = lines(&text.concat());
    assert_eq!(lines.len(), 3, "{lines:#?}");
    assert!(lines[0].contains("`a` has less than 16 characters"), "{lines:#?}");
    assert!(lines[1].contains("two tokens are named `a`"), "{lines:#?}");
    assert!(lines[2].contains("the token of `b` is also another's"), "{lines:#?}");
    assert!(!lines.concat().contains("short-secret") && !lines.concat().contains("0123456789"));
}

// I12
#[test]
fn a_secret_of_the_wrong_type_or_in_the_wrong_place_is_not_quoted() {
    let environment = Environment::from([("KEY", "full-of-secrets")]);
    let text = "[risk_profiles.default]\nlevel = '${env:KEY}'\n[providers.main]\nkind='openai'\nmodel='m'\napi_key = 987654321";
    let shown = read(text, &environment).unwrap_err().to_string();
    assert!(!shown.contains("full") || shown.contains("\"full\""), "{shown}");
    assert!(!shown.contains("full-of-secrets") && !shown.contains("987654321"), "{shown}");
    assert!(!shown.contains("the nearest is"), "{shown}");
}

#[test]
fn environment_and_files_are_resolved_inside_any_text() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("key");
    std::fs::write(&path, "from-file-with-$-and-${env:X}\n\n").unwrap();
    let environment = Environment::from([("NAME", "m-1"), ("EMPTY", "")]);
    let text = format!(
        "[providers.main]\nkind='openai'\nmodel='a-${{env:NAME}}-${{env:EMPTY}}b'\napi_key='${{file:{}}}'\n\
         [agents.home]\nprovider='main'\nsystem_prompt='say $${{env:NAME}} and $ and {{}}'",
        path.display()
    );
    let loaded = read(&text, &environment).unwrap();
    let provider = &loaded.settings.providers["main"];
    assert_eq!(provider.model, "a-m-1-b");
    assert_eq!(provider.api_key.as_ref().unwrap().expose(), "from-file-with-$-and-${env:X}\n");
    assert_eq!(
        loaded.settings.agents["home"].system_prompt.as_deref(),
        Some("say ${env:NAME} and $ and {}")
    );
    // A099
    assert_eq!(loaded.own_files, [PathBuf::from("r.toml"), path]);
}

// I12: a reference is how a secret gets into any key
#[test]
fn what_a_reference_stands_for_is_shown_in_no_key() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("secret");
    std::fs::write(&path, "from-the-file\n").unwrap();
    let environment =
        Environment::from([("MY_API_TOKEN", "from-the-environment"), ("REGION", "north-west")]);
    let text = format!(
        "[mcp.servers.f]\ncommand='npx'\nargs=['--header=Bearer ${{env:MY_API_TOKEN}}','${{file:{0}}}','${{env:REGION}}']\n\
         [providers.demo]\nkind='demo'\n[agents.home]\nprovider='demo'\nhooks=['h']\n\
         [hooks.h]\nevent='before_tool_call'\ncommand=['/bin/x','${{file:{0}}}']",
        path.display()
    );
    let settings = read(&text, &environment).unwrap().settings;
    for shown in [to_toml(&settings).unwrap(), to_json(&settings).unwrap().to_string()] {
        assert!(!shown.contains("from-the"), "{shown}");
        assert!(shown.contains("Bearer [secret]") && shown.contains("north-west"), "{shown}");
    }
    let known: Vec<&str> = secrets(&settings).map(|secret| secret.expose()).collect();
    assert!(known.contains(&"from-the-file") && known.contains(&"from-the-environment"));
}

#[test]
fn references_that_lead_nowhere_name_the_key_in_the_order_of_the_file() {
    let text = "[gateway]\nlisten='${env:NOT_SET}'\n[providers.main]\nkind='openai'\nmodel='${file:/not/there}'\n\
                base_url='${env:X'\n[agents.home]\nprovider='main'\nchannels=['${secret:x}']";
    assert_eq!(
        lines(text),
        [
            "r.toml: line 2: gateway.listen: the environment variable NOT_SET is not set; set it, or change the reference",
            "r.toml: line 5: providers.main.model: can't read the file /not/there: No such file or directory (os error 2); create it, or change the reference",
            "r.toml: line 6: providers.main.base_url: `${` has no closing `}`; write `$${` for a plain `${`",
            "r.toml: line 9: agents.home.channels[0]: `${…}` is neither `${env:NAME}` nor `${file:/path}`; write `$${` for a plain `${`",
        ]
    );
}

#[test]
fn the_environment_overrides_the_file() {
    let environment = Environment::from([
        ("ROOKERY__GATEWAY__LISTEN", "127.0.0.1:0"),
        ("ROOKERY__SHUTDOWN__DRAIN_SECS", "3"),
        ("ROOKERY__PROVIDERS__MAIN__FALLBACK", "['other-one']"),
        ("ROOKERY__PROVIDERS__MAIN__API_KEY", "123456"),
        ("ROOKERY__PROVIDERS__OTHER_ONE__MAX_CONCURRENCY", "7"),
        ("ROOKERY__RUNTIME_PROFILES__DEFAULT__PARALLEL_TOOLS", "false"),
        ("ROOKERY__CHANNELS__WEBHOOK__CI__SECRET", "${env:S}"),
        ("ROOKERY__GATEWAY__TOKENS", "[{name='a', token='0123456789abcdef', role='operator'}]"),
        ("S", "from elsewhere"),
    ]);
    let text = "[gateway]\nlisten='127.0.0.1:9'\n[providers.Main]\nkind='openai'\nmodel='m'\n[providers.other-one]\nkind='demo'\n[channels.webhook.ci]";
    let settings = read(text, &environment).unwrap().settings;
    assert_eq!(settings.gateway.listen, "127.0.0.1:0");
    assert_eq!(settings.gateway.tokens[0].role, AuthRole::Operator);
    assert_eq!(settings.shutdown.drain_secs, 3);
    assert_eq!(settings.providers["Main"].fallback, ["other-one"]);
    assert_eq!(settings.providers["Main"].api_key.as_ref().unwrap().expose(), "123456");
    assert_eq!(settings.providers["other-one"].max_concurrency, 7);
    assert!(!settings.runtime_profiles["default"].parallel_tools);
    let secret = settings.channels.webhook["ci"].secret.as_ref().unwrap();
    assert_eq!(secret.expose(), "from elsewhere");
}

#[test]
fn an_override_that_is_wrong_names_its_variable() {
    let environment = Environment::from([
        ("ROOKERY__GATEWAY__LISTN", "x"),
        ("ROOKERY__SHUTDOWN__DRAIN_SECS", "soon"),
        ("ROOKERY__DATA_DIR__X", "1"),
        ("ROOKERY__", "1"),
    ]);
    assert_eq!(
        read("data_dir = 'd'", &environment).unwrap_err().lines(),
        [
            "environment variable ROOKERY__: names no key; write it like ROOKERY__GATEWAY__LISTEN",
            "environment variable ROOKERY__DATA_DIR__X: data_dir: is not a table, it has no key `x`",
            "environment variable ROOKERY__GATEWAY__LISTN: gateway.listn: unknown key; the nearest known key is `gateway.listen`",
            "environment variable ROOKERY__SHUTDOWN__DRAIN_SECS: shutdown.drain_secs: must be a whole number, but is text",
        ]
    );
}

#[test]
fn with_nothing_configured_home_owns_every_channel_and_the_demo_answers() {
    let settings = loaded("");
    let home = &settings.agents["home"];
    assert_eq!(home.channels, ["cli", "ws", "webhook.ci"]);
    assert_eq!(home.workspace.as_deref(), Some(Path::new("work/home")));
    assert_eq!((home.provider.as_str(), settings.agents.len()), ("demo", 1));
    assert_eq!(settings.providers["demo"].kind, ProviderKind::Demo);
    assert_eq!(settings.risk_profiles["default"].level, AutonomyLevel::Supervised);
    assert!(settings.channels.webhook["ci"].secret.is_none());
    assert_eq!(settings.store.path.as_deref(), Some(Path::new("data/rookery.db")));
}

#[test]
fn an_openai_key_in_the_environment_makes_its_provider() {
    let environment = Environment::from([
        ("OPENAI_API_KEY", "sk-1"),
        ("ROOKERY_MODEL", "m-1"),
        ("OPENAI_BASE_URL", "http://127.0.0.1:1/v1"),
    ]);
    let settings = read("", &environment).unwrap().settings;
    let provider = &settings.providers[&settings.agents["home"].provider];
    assert_eq!(provider.kind, ProviderKind::Openai);
    assert_eq!(provider.model, "m-1");
    assert_eq!(provider.base_url.as_deref(), Some("http://127.0.0.1:1/v1"));
    assert_eq!(provider.api_key.as_ref().unwrap().expose(), "sk-1");
}

#[test]
fn an_anthropic_key_in_the_environment_makes_its_provider_if_there_is_no_openai_key() {
    let provider = |environment: &Environment| {
        let settings = read("", environment).unwrap().settings;
        settings.providers[&settings.agents["home"].provider].clone()
    };
    let anthropic = ("ANTHROPIC_API_KEY", "sk-ant-1");
    let made = provider(&Environment::from([anthropic, ("ROOKERY_MODEL", "m-1")]));
    assert_eq!((made.kind, made.model.as_str()), (ProviderKind::Anthropic, "m-1"));
    assert_eq!(made.api_key.as_ref().unwrap().expose(), "sk-ant-1");
    let both = provider(&Environment::from([anthropic, ("OPENAI_API_KEY", "sk-1")]));
    assert_eq!(both.kind, ProviderKind::Openai);
}

#[test]
fn what_is_configured_is_completed_and_not_changed() {
    // Providers alone: home takes the one called main.
    let settings = loaded("[providers.a]\nkind='demo'\n[providers.main]\nkind='demo'");
    assert_eq!(settings.agents["home"].provider, "main");
    // An agent alone: the demo needs no section, the default webhook is there.
    let settings = loaded("[agents.ada]\nprovider='demo'");
    assert_eq!(settings.agents["ada"].channels, ["cli", "ws", "webhook.ci"]);
    // An agent that lists channels gets those, and the built-in ones nobody lists.
    let settings = loaded(&format!("{AGENT}channels=['webhook.ci']"));
    assert_eq!(settings.agents["home"].channels, ["webhook.ci", "cli", "ws"]);
    let settings = loaded(&format!("{AGENT}channels=['cli']"));
    assert!(settings.channels.webhook.is_empty());
    // Webhooks alone: home owns them.
    let settings = loaded("[channels.webhook.b]\n[channels.webhook.a]");
    assert_eq!(settings.agents["home"].channels, ["cli", "ws", "webhook.a", "webhook.b"]);
}

#[test]
fn a_provider_made_by_default_has_the_numbers_a_file_gets() {
    let made = loaded("").providers["demo"].clone();
    let read = loaded("[providers.demo]\nkind='demo'").providers["demo"].clone();
    assert_eq!(format!("{made:?}"), format!("{read:?}"));
}

#[test]
fn a_file_that_is_named_and_not_there_is_an_error() {
    let errors = load(Some(Path::new("/not/there.toml")), &none()).unwrap_err();
    let text = errors.to_string();
    assert!(text.contains("/not/there.toml") && text.contains("--config"), "{text}");
}

// I12
#[test]
fn the_effective_configuration_shows_no_secret() {
    let text = "[[gateway.tokens]]\nname='a'\ntoken='token-token-token'\nrole='admin'\n\
                [providers.main]\nkind='openai'\nmodel='m'\napi_key='key-key-key'\nbase_url='http://u:pass-pass@h/v1?k=query-query'\n\
                [agents.home]\nprovider='main'\nsystem_prompt='the key is key-key-key'\n\
                [channels.webhook.ci]\nsecret='hook-hook'\nreply_url='http://h/hook-hook'";
    let settings = loaded(text);
    let toml = to_toml(&settings).unwrap();
    let json = to_json(&settings).unwrap().to_string();
    let debug = format!("{settings:?}");
    for shown in [&toml, &json] {
        for secret in ["token-token", "key-key", "hook-hook", "pass-pass", "query-query"] {
            assert!(!shown.contains(secret), "{secret}: {shown}");
        }
        assert!(shown.contains("[secret]") && shown.contains("drain_secs"), "{shown}");
    }
    assert!(!debug.contains("token-token"), "{debug}");
    // What is shown is itself a configuration of the right form.
    let shown: Value = toml::from_str(&toml).unwrap();
    assert_eq!(shown["agents"]["home"]["channels"][0].as_str(), Some("cli"));
}

#[test]
fn the_key_table_is_complete() {
    let rows = key_table();
    let row = |name: &str| rows.iter().find(|row| row.name == name).unwrap();
    assert_eq!(row("gateway.listen").default_text().as_deref(), Some("\"127.0.0.1:7717\""));
    assert_eq!(row("gateway.tokens[].token").kind, "secret text");
    assert!(row("gateway.tokens[].token").required);
    assert_eq!(
        row("providers.<name>.kind").kind,
        "\"openai\" | \"openai_responses\" | \"anthropic\" | \"gemini\" | \"ollama\" | \"demo\""
    );
    assert_eq!(row("channels.webhook.<alias>.queue_limit").default, Some(20.into()));
    assert_eq!(row("risk_profiles.<name>.allowed_tools").default, None);
    assert!(rows.iter().all(|row| !row.meaning.is_empty()));
    // Every key of a complete configuration is in the table.
    let everything = toml::Value::try_from(loaded(&uncommented())).unwrap();
    let mut keys = Vec::new();
    leaves("", &everything, &mut keys);
    for key in keys {
        assert!(rows.iter().any(|row| row.name == key), "{key}");
    }
}

/// The names of all values, in the form of the key table.
fn leaves(prefix: &str, value: &Value, keys: &mut Vec<String>) {
    match value {
        Value::Table(table) => {
            for (name, below) in table {
                let name = match prefix {
                    "providers" | "agents" | "risk_profiles" | "runtime_profiles"
                    | "mcp.servers" | "mcp_bundles" | "hooks" => "<name>",
                    _ if prefix.ends_with(".env") || prefix.ends_with(".headers") => "<name>",
                    "risk_profiles.<name>.rate_limits" => "<name>",
                    "channels.webhook" | "channels.telegram" => "<alias>",
                    _ => name,
                };
                let key =
                    if prefix.is_empty() { name.to_owned() } else { format!("{prefix}.{name}") };
                leaves(&key, below, keys);
            }
        }
        Value::Array(list) if list.first().is_some_and(Value::is_table) => {
            for entry in list {
                leaves(&format!("{prefix}[]"), entry, keys);
            }
        }
        _ => keys.push(prefix.to_owned()),
    }
}

/// The example with every key set: `#key` becomes `key`, prose stays.
fn uncommented() -> String {
    let keys = |line: &str| match line.strip_prefix('#') {
        Some(rest) if rest.starts_with(|c: char| c.is_ascii_lowercase() || c == '[') => {
            // References stand for secrets; here any text does.
            rest.replace("${env:", "0123456789-${env:")
        }
        _ => line.to_owned(),
    };
    let text: Vec<String> = EXAMPLE.lines().map(keys).collect();
    text.join("\n").replace("${env:", "$${env:")
}

#[test]
fn the_example_has_every_key_and_passes_the_check_both_ways() {
    let as_it_stands = loaded(EXAMPLE);
    assert_eq!(to_toml(&as_it_stands).unwrap(), to_toml(&loaded("")).unwrap());

    let full = document::parse(&uncommented()).ok().unwrap().to_value();
    let mut set = Vec::new();
    leaves("", &full, &mut set);
    let missing: Vec<String> =
        key_table().into_iter().map(|row| row.name).filter(|name| !set.contains(name)).collect();
    assert_eq!(missing, Vec::<String>::new());
    loaded(&uncommented());
}

#[test]
fn the_example_states_the_real_defaults() {
    let full = document::parse(&uncommented()).ok().unwrap().to_value();
    for row in key_table() {
        let Some(default) = row.default_text().filter(|_| !row.name.contains('<')) else {
            continue;
        };
        if row.name.contains("[]") {
            continue;
        }
        let stated = row.name.split('.').fold(&full, |value, key| &value[key]);
        assert_eq!(stated.to_string(), default, "{}", row.name);
    }
}

mod mcp;
mod memory;

#[test]
fn one_kind_of_mistake_does_not_hide_the_others_and_none_is_made_up() {
    let found = lines(
        "[shutdown]\ndrain_secs = '20'\n[sessions]\nmax_active = 0\n[agents.home]\nprovider = 'dem'\n\
         risk_profil = 'x'\n[agents.two]\nprovider = 7\nchannels = 'ws'\n[providers.main]\nkind = 'x'\n\
         [risk_profiles.default.network]\nallow_ports = [99999, 0]\n",
    );
    let places: Vec<_> = found.iter().filter_map(|line| line.split(": ").nth(2)).collect();
    assert_eq!(
        places,
        [
            "shutdown.drain_secs",
            "sessions.max_active",
            "agents.home.provider",
            "agents.home.risk_profil",
            "agents.two.provider",
            "agents.two.channels",
            "providers.main.kind",
            "risk_profiles.default.network.allow_ports[0]",
        ],
        "{found:#?}"
    );
}

#[test]
fn a_name_that_is_no_tool_never_leaves_the_tool_that_was_meant_free() {
    for key in ["excluded_tools", "always_ask"] {
        let found = lines(&format!("[risk_profiles.default]\n{key} = ['shel']"));
        assert_eq!(
            found,
            [format!(
                "r.toml: line 2: risk_profiles.default.{key}: there is no tool `shel`; the nearest is `shell`, and `rookery tools` lists all"
            )]
        );
    }
    let found = lines("[risk_profiles.default.rate_limits.shel]\nper_minute = 1");
    assert!(found.len() == 1 && found[0].contains("the nearest is `shell`"), "{found:?}");
    let found = lines("[risk_profiles.default]\nexcluded_tools = ['files__write']");
    assert!(found.len() == 1 && found[0].contains("MCP server `files`"), "{found:?}");
    // Names that only open something are told, and stop nothing.
    let text = "[risk_profiles.default]\nallowed_tools = ['time', 'tim']\nauto_approve = ['fil_write']\n\
                allowed_commands = ['git status', 'ls']\n[runtime_profiles.default]\nduplicate_exempt = ['x']\n";
    let warnings = read(text, &none()).unwrap().warning_lines();
    assert_eq!(warnings.len(), 4, "{warnings:#?}");
    assert!(warnings.iter().any(|line| line.contains("`git status`")), "{warnings:#?}");
    let every = "[risk_profiles.default]\nexcluded_tools = ['delegate', 'spawn_subagent', 'tasks', \
                 'tool_search', 'memory_store', 'ask_user', 'shell']";
    assert!(read(every, &none()).unwrap().warnings.is_empty());
}

#[test]
fn a_webhook_anybody_may_post_to_is_warned_of_where_somebody_wrote_it() {
    let warned = |text: &str| read(text, &none()).unwrap().warning_lines();
    let tokens = "[[gateway.tokens]]\nname='a'\ntoken='0123456789abcdef'\nrole='admin'\n";
    let open = warned("[channels.webhook.ci]\nqueue_limit = 3");
    assert!(open.len() == 1 && open[0].contains("everybody on this machine"), "{open:?}");
    let closed = warned(&format!("[channels.webhook.ci]\nqueue_limit = 3\n{tokens}"));
    assert!(closed.len() == 1 && closed[0].contains("line 1: channels.webhook.ci: "), "{closed:?}");
    assert!(warned("").is_empty() && warned("[channels.webhook.ci]\nsecret = 'x'").is_empty());
}

#[test]
fn an_agent_that_names_no_provider_gets_the_one_there_is() {
    let environment = Environment::from([("ROOKERY__AGENTS__HOME__SYSTEM_PROMPT", "be brief")]);
    let settings = load_text(None, "", &environment).unwrap().settings;
    assert_eq!(settings.agents["home"].provider, "demo");
    let text = "[providers.zed]\nkind = 'demo'\n[agents.home]\nchannels = ['cli']";
    assert_eq!(loaded(text).agents["home"].provider, "zed");
}

#[test]
fn a_client_needs_only_what_it_uses_of_the_configuration() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("r.toml");
    let text = "data_dir = 'd'\n[gateway]\nlisten = '127.0.0.1:9'\n[providers.main]\nkind = 'openai'\n\
                model = 'm'\napi_key = '${env:NOT_HERE}'\n";
    std::fs::write(&file, text).unwrap();
    assert!(load(Some(&file), &none()).is_err());
    let needed = ["gateway.listen", "data_dir"];
    let settings = load_for_client(Some(&file), &none(), &needed).unwrap();
    assert_eq!(
        (settings.gateway.listen.as_str(), settings.data_dir.as_path()),
        ("127.0.0.1:9", Path::new("d"))
    );
    std::fs::write(&file, text.replace("'d'", "'${env:NOR_HERE}'")).unwrap();
    let errors = load_for_client(Some(&file), &none(), &needed).unwrap_err();
    assert!(errors.to_string().contains("NOR_HERE"), "{errors}");
    assert!(load_for_client(Some(&file), &none(), &["gateway.listen"]).is_ok());
}

#[test]
fn names_of_a_proxy_are_plain_and_need_tokens() {
    let tokens = "[[gateway.tokens]]\nname='a'\ntoken='0123456789abcdef'\nrole='admin'\n";
    let with = |hosts: &str| format!("[gateway]\nhosts = {hosts}\n{tokens}");
    assert!(read(&with("['rookery.example.com']"), &none()).is_ok());
    let found = lines(&with("['https://a.example', 'a.example:443']"));
    assert!(found.len() == 2 && found[0].contains("`https://a.example` is no name"), "{found:?}");
    let found = lines("[gateway]\nhosts = ['a.example']");
    assert!(found.len() == 1 && found[0].contains("gateway.tokens"), "{found:?}");
}
