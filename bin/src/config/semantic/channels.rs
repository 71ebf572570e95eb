//! Channels: each exists and has exactly one owner.

use rookery_actors::channel::telegram::{address, channel_id, is_token};
use rookery_messages::settings::Settings;

use crate::config::ChatRoute;

use super::{Findings, NOT_A_URL, counts, is_http_url, unknown};

/// Channels that need no section.
const BUILT_IN: [&str; 2] = ["cli", "ws"];

pub(super) fn check(settings: &Settings, found: &mut Findings<'_>) {
    let known: Vec<String> = BUILT_IN
        .iter()
        .map(|name| (*name).to_owned())
        .chain(settings.channels.webhook.keys().map(|alias| format!("webhook.{alias}")))
        .chain(settings.channels.telegram.keys().map(|alias| format!("telegram.{alias}")))
        .collect();
    check_owners(settings, &known, found);
    check_webhooks(settings, found);
    check_telegram(settings, found);
}

fn check_owners(settings: &Settings, known: &[String], found: &mut Findings<'_>) {
    for (name, agent) in &settings.agents {
        let path = ["agents", name.as_str(), "channels"];
        for (channel, count) in counts(agent.channels.iter().map(String::as_str)) {
            if !known.iter().any(|one| one == channel) {
                let missing = unknown("channel", channel, known.iter());
                found.add(&path, format!("{missing}, or add its section"));
            }
            if count > 1 {
                let channel = crate::render::strict(channel);
                found.add(&path, format!("names `{channel}` {count} times; once is enough"));
            }
        }
    }
    for channel in known {
        let owners: Vec<&str> = settings
            .agents
            .iter()
            .filter(|(_, agent)| agent.channels.contains(channel))
            .map(|(name, _)| name.as_str())
            .collect();
        let (platform, alias) = channel.split_once('.').unwrap_or((channel, ""));
        match owners.as_slice() {
            [_] => {}
            [] => found.add(
                &["channels", platform, alias],
                format!("no agent owns it; add \"{channel}\" to the channels of one agent"),
            ),
            [_, second, ..] => found.add(
                &["agents", second, "channels"],
                format!(
                    "`{channel}` has more than one owner ({}); leave it to one of them",
                    owners.join(", ")
                ),
            ),
        }
    }
}

/// Approvals go where people are connected, or to a webhook that posts them and knows who answers.
pub(super) fn check_route(
    settings: &Settings,
    route: &str,
    path: &[&str],
    found: &mut Findings<'_>,
) {
    if BUILT_IN.contains(&route) {
        return;
    }
    if let Some(chat) = ChatRoute::parse(route)
        && settings.channels.telegram.contains_key(chat.alias)
    {
        return check_chat(settings, chat, path, found);
    }
    let named: Vec<String> = BUILT_IN
        .iter()
        .map(|name| (*name).to_owned())
        .chain(settings.channels.webhook.keys().map(|alias| format!("webhook.{alias}")))
        .chain(settings.channels.telegram.keys().map(|alias| format!("telegram.{alias}")))
        .collect();
    let alias = route.strip_prefix("webhook.");
    let Some(webhook) = alias.and_then(|alias| settings.channels.webhook.get(alias)) else {
        // A chat's number is no part of a channel's name.
        let channel = route.split_once(':').map_or(route, |(channel, _)| channel);
        let missing = unknown("channel", channel, named.iter());
        found.add(path, format!("{missing}; name one, or \"admin\", or leave the key out"));
        return;
    };
    // Whoever answers has to be who they say.
    if webhook.secret.is_none() {
        found.add(
            path,
            format!(
                "`{}` has no secret, so anybody could answer; give it one",
                crate::render::strict(route)
            ),
        );
    }
    if webhook.reply_url.is_none() {
        found.add(
            path,
            format!(
                "`{}` has no reply_url to post requests to; give it one",
                crate::render::strict(route)
            ),
        );
    }
}

/// One chat, and somebody in it who may decide.
fn check_chat(settings: &Settings, route: ChatRoute<'_>, path: &[&str], found: &mut Findings<'_>) {
    let channel = format!("telegram.{}", route.alias);
    let Some(chat) = route.chat else {
        let text = format!("`{channel}` has many chats; name one, as in \"{channel}:<chat id>\"");
        return found.add(path, text);
    };
    if let Err(why) = address(&channel_id(route.alias), chat) {
        let chat = crate::render::strict(chat);
        return found.add(path, format!("`{chat}` is no chat of `{channel}`: {why}"));
    }
    if route.approvers(settings).is_none() {
        let text =
            format!("nobody is named who may decide in a group; set channels.{channel}.approvers");
        found.add(path, text);
    }
}

fn check_telegram(settings: &Settings, found: &mut Findings<'_>) {
    for (alias, bot) in &settings.channels.telegram {
        let path = |key| ["channels", "telegram", alias.as_str(), key];
        if !is_token(bot.bot_token.expose()) {
            // What stands there is not shown: it may hold the token among other words (A098).
            found.add(
                &path("bot_token"),
                "is no bot token; write it alone, like 123456:ABC-def, as BotFather gives it",
            );
        }
        if !is_http_url(&bot.api_base_url) {
            found.add(&path("api_base_url"), NOT_A_URL);
        }
        let lists =
            [("allowed_users", Some(&bot.allowed_users)), ("approvers", bot.approvers.as_ref())];
        for (key, list) in lists {
            for entry in list.into_iter().flatten() {
                let any = key == "allowed_users" && entry == "*";
                // Names are their owners' to change; numbers are not.
                if !any && entry.parse::<i64>().is_err() {
                    let entry = crate::render::strict(entry);
                    found.add(&path(key), format!("`{entry}` is no numeric id; write the number"));
                }
            }
        }
    }
}

fn check_webhooks(settings: &Settings, found: &mut Findings<'_>) {
    for (alias, webhook) in &settings.channels.webhook {
        let path = |key| ["channels", "webhook", alias.as_str(), key];
        if webhook.secret.as_ref().is_some_and(|secret| secret.expose().is_empty()) {
            found.add(&path("secret"), "is empty; give it a text, or leave the key out");
        }
        if webhook.reply_url.as_deref().is_some_and(|url| !is_http_url(url)) {
            found.add(&path("reply_url"), NOT_A_URL);
        }
        if webhook.secret.is_none() && found.is_written(&["channels", "webhook", alias]) {
            found.warn(
                &["channels", "webhook", alias],
                if settings.gateway.tokens.is_empty() {
                    "has no secret: everybody on this machine may post to it, and behind a proxy on this \
                     machine everybody the proxy lets through; give it a `secret`, or configure gateway.tokens"
                } else {
                    "has no secret: only callers with one of gateway.tokens may post to it, and who they say \
                     they are is not checked; give it a `secret`"
                },
            );
        }
    }
}
