//! The effective configuration for eyes: secrets never (I12).

use rookery_messages::settings::{Secret, Settings};
use serde_json::Value;

const HIDDEN: &str = "[secret]";

/// As TOML.
pub fn to_toml(settings: &Settings) -> Result<String, toml::ser::Error> {
    // By way of TOML's own values: those leave absent keys out.
    let mut value = toml::Value::try_from(settings)?;
    let secrets = longest_first(settings);
    clean_toml(&mut value, &secrets);
    toml::to_string_pretty(&value)
}

/// As JSON; absent keys are null.
pub fn to_json(settings: &Settings) -> Result<Value, serde_json::Error> {
    let mut value = serde_json::to_value(settings)?;
    let secrets = longest_first(settings);
    clean_json(&mut value, &secrets);
    Ok(value)
}

/// Every configured secret, longest first, so that one within another leaves no rest.
fn longest_first(settings: &Settings) -> Vec<&str> {
    let all = super::secrets(settings).map(Secret::expose);
    let mut all: Vec<&str> = all.filter(|text| !text.is_empty()).collect();
    all.sort_by_key(|text| std::cmp::Reverse(text.len()));
    all
}

fn clean_toml(value: &mut toml::Value, secrets: &[&str]) {
    match value {
        toml::Value::String(text) => *text = clean(text, secrets),
        toml::Value::Array(list) => list.iter_mut().for_each(|entry| clean_toml(entry, secrets)),
        toml::Value::Table(table) => {
            table.iter_mut().for_each(|(_, entry)| clean_toml(entry, secrets));
        }
        _ => {}
    }
}

fn clean_json(value: &mut Value, secrets: &[&str]) {
    match value {
        Value::String(text) => *text = clean(text, secrets),
        Value::Array(list) => list.iter_mut().for_each(|entry| clean_json(entry, secrets)),
        Value::Object(map) => map.values_mut().for_each(|entry| clean_json(entry, secrets)),
        _ => {}
    }
}

fn clean(text: &str, secrets: &[&str]) -> String {
    // A secret shorter than this is a word that may stand in any text: blanking it would only
    // garble the rest and tell where it occurs.
    let telling = secrets.iter().filter(|secret| secret.len() >= 6);
    redact_url(&telling.fold(text.to_owned(), |text, secret| text.replace(secret, HIDDEN)))
}

/// An address without the parts that may be secret: user, password, query. Other text is left as it is.
pub fn redact_url(text: &str) -> String {
    let Ok(mut url) = reqwest::Url::parse(text) else {
        return text.to_owned();
    };
    let has_login = !url.username().is_empty() || url.password().is_some();
    if !url.has_host() || (!has_login && url.query().is_none()) {
        return text.to_owned();
    }
    let login = if has_login { "[secret]@" } else { "" };
    let query = if url.query().is_some() { "?[secret]" } else { "" };
    url.set_query(None);
    // Both only fail for addresses without a host, which returned above.
    let _ = url.set_username("");
    let _ = url.set_password(None);
    let plain = url.as_str();
    match plain.split_once("://") {
        Some((scheme, rest)) => format!("{scheme}://{login}{rest}{query}"),
        None => HIDDEN.to_owned(),
    }
}
