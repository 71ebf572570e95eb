//! Every secret of a configuration, for whoever keeps them out of what is shown (I12).

use rookery_messages::settings::{McpServerSettings, Secret, Settings};

/// All of them. A secret key that is missing here is found by the test below.
pub fn secrets(settings: &Settings) -> impl Iterator<Item = &Secret> {
    let keys = settings.providers.values().filter_map(|profile| profile.api_key.as_ref());
    let tokens = settings.gateway.tokens.iter().map(|token| &token.token);
    let webhooks = settings.channels.webhook.values().filter_map(|webhook| webhook.secret.as_ref());
    let telegram = settings.channels.telegram.values().map(|bot| &bot.bot_token);
    let hooks = settings.hooks.values().filter_map(|hook| hook.token.as_ref());
    let mcp = settings.mcp.servers.values().flat_map(of_server);
    let plain = settings.referenced.iter();
    keys.chain(tokens).chain(webhooks).chain(telegram).chain(hooks).chain(mcp).chain(plain)
}

fn of_server(server: &McpServerSettings) -> impl Iterator<Item = &Secret> {
    let oauth = server.oauth.as_ref().and_then(|oauth| oauth.client_secret.as_ref());
    server.env.values().chain(server.headers.values()).chain(oauth)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{key_table, tests::loaded};

    // I12
    #[test]
    fn no_key_of_the_schema_that_is_a_secret_is_forgotten() {
        let settings = loaded(
            r#"
            [providers.main]
            kind = "openai"
            api_key = "providers.<name>.api_key"
            model = "m"
            [[gateway.tokens]]
            name = "ops"
            role = "admin"
            token = "gateway.tokens[].token"
            [agents.home]
            provider = "main"
            hooks = ["h"]
            [channels.webhook.ci]
            secret = "channels.webhook.<alias>.secret"
            [channels.telegram.main]
            bot_token = "1:channels_telegram_alias_bot_token"
            [hooks.h]
            event = "before_model_call"
            url = "http://127.0.0.1:1/hook"
            token = "hooks.<name>.token"
            [mcp.servers.program]
            command = "true"
            env = { KEY = "mcp.servers.<name>.env.<name>" }
            [mcp.servers.remote]
            url = "https://mcp.example/mcp"
            headers = { X-Key = "mcp.servers.<name>.headers.<name>" }
            oauth = { grant = "client_credentials", client_id = "c", client_secret = "mcp.servers.<name>.oauth.client_secret" }
            "#,
        );
        let mut found: Vec<&str> = secrets(&settings).map(Secret::expose).collect();
        found.sort_unstable();
        let mut keys: Vec<String> = key_table()
            .into_iter()
            .filter(|row| row.kind.contains("secret"))
            // A bot's token has a form of its own.
            .map(|row| match row.name.as_str() {
                "channels.telegram.<alias>.bot_token" => {
                    "1:channels_telegram_alias_bot_token".into()
                }
                _ => row.name,
            })
            .collect();
        keys.sort_unstable();
        assert_eq!(found, keys, "add the key to `secrets`, and to this test");
    }
}
