//! A configuration file for one test.

use std::fmt::Write as _;
use std::path::Path;

/// What a test changes about the default configuration: extra lines a section. `{dir}` in a line is the
/// test's folder, `{model}` the mock model's address.
///
/// The default: agent `home` at level `full` with provider `main` (the mock), channels `webhook.ci`, `cli`
/// and `ws`, durability `process`, conversations that leave memory after one idle second.
#[derive(Clone, Default)]
pub struct Config {
    level: Option<String>,
    store: Vec<String>,
    gateway: Vec<String>,
    shutdown: Vec<String>,
    sessions: Vec<String>,
    approvals: Vec<String>,
    provider: Vec<String>,
    agent: Vec<String>,
    risk: Vec<String>,
    runtime: Vec<String>,
    webhook: Vec<String>,
    extra: String,
}

macro_rules! line_setters {
    ($($(#[$doc:meta])* $name:ident),+ $(,)?) => {
        $(
            $(#[$doc])*
            pub fn $name(mut self, line: &str) -> Self {
                self.$name.push(line.to_owned());
                self
            }
        )+
    };
}

impl Config {
    /// The default.
    pub fn new() -> Self {
        Self::default()
    }

    /// The level of the risk profile: `readonly`, `supervised` or `full`.
    pub fn level(mut self, level: &str) -> Self {
        self.level = Some(level.to_owned());
        self
    }

    line_setters! {
        /// A line of `[store]`. A key given here replaces the default's.
        store,
        /// A line of `[gateway]`.
        gateway,
        /// A line of `[shutdown]`.
        shutdown,
        /// A line of `[sessions]`.
        sessions,
        /// A line of `[approvals]`.
        approvals,
        /// A line of `[providers.main]`.
        provider,
        /// A line of `[agents.home]`.
        agent,
        /// A line of `[risk_profiles.default]`.
        risk,
        /// A line of `[runtime_profiles.default]`.
        runtime,
        /// A line of `[channels.webhook.ci]`.
        webhook,
    }

    /// Text at the end of the file: whole sections.
    pub fn extra(mut self, text: &str) -> Self {
        self.extra.push_str(text);
        self.extra.push('\n');
        self
    }

    /// The file's text, for a service in `dir` that listens on `port` and calls the model at `model`.
    pub fn render(&self, dir: &Path, port: u16, model: &str) -> String {
        let dir = dir.display();
        let level = self.level.as_deref().unwrap_or("full");
        let mut text = format!("config_version = 1\ndata_dir = \"{dir}/data\"\n");
        let mut section = |name: &str, defaults: &[String], lines: &[String]| {
            let _ = writeln!(text, "\n[{name}]");
            for line in defaults.iter().filter(|default| !replaced(default, lines)).chain(lines) {
                let _ = writeln!(text, "{line}");
            }
        };
        section("store", &["durability = \"process\"".to_owned()], &self.store);
        section("gateway", &[format!("listen = \"127.0.0.1:{port}\"")], &self.gateway);
        section("shutdown", &["drain_secs = 5".to_owned()], &self.shutdown);
        section("sessions", &["idle_secs = 1".to_owned()], &self.sessions);
        section("approvals", &[], &self.approvals);
        let provider = [
            "kind = \"openai\"".to_owned(),
            format!("base_url = \"{model}\""),
            "api_key = \"key-for-the-mock-model\"".to_owned(),
            "model = \"mock\"".to_owned(),
        ];
        section("providers.main", &provider, &self.provider);
        let agent = [
            "provider = \"main\"".to_owned(),
            format!("workspace = \"{dir}/work\""),
            "channels = [\"webhook.ci\", \"cli\", \"ws\"]".to_owned(),
        ];
        section("agents.home", &agent, &self.agent);
        section("risk_profiles.default", &[format!("level = \"{level}\"")], &self.risk);
        section("runtime_profiles.default", &[], &self.runtime);
        section("channels.webhook.ci", &[], &self.webhook);
        text.push('\n');
        text.push_str(&self.extra);
        text.replace("{dir}", &dir.to_string()).replace("{model}", model)
    }
}

fn replaced(default: &str, lines: &[String]) -> bool {
    let key = |line: &str| line.split('=').next().unwrap_or_default().trim().to_owned();
    lines.iter().any(|line| key(line) == key(default))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_given_by_a_test_stands_in_its_section_and_replaces_the_default() {
        let text = Config::new()
            .level("supervised")
            .shutdown("drain_secs = 1")
            .runtime("parallel_tools = false")
            .risk("forbidden_paths = [\"{dir}/closed\"]")
            .extra("[mark]")
            .render(Path::new("/tmp/x"), 1234, "http://127.0.0.1:1/v1");
        assert!(text.contains("[shutdown]\ndrain_secs = 1\n"));
        assert!(!text.contains("drain_secs = 5"));
        assert!(text.contains("[runtime_profiles.default]\nparallel_tools = false\n"));
        assert!(text.contains("level = \"supervised\""));
        assert!(text.contains("listen = \"127.0.0.1:1234\""));
        assert!(text.contains("forbidden_paths = [\"/tmp/x/closed\"]"));
        assert!(text.ends_with("[mark]\n"));
    }
}
