//! What stands in `deploy/` fits the program: commands, configuration, probes, times, names of metrics.

use std::collections::BTreeSet;

use clap::Parser;

use crate::cli::Cli;
use crate::config::{self, Environment};

const UNIT: &str = include_str!("../../deploy/systemd/rookery.service");
const CONTAINER: &str = include_str!("../../deploy/Dockerfile");
const CLUSTER: &str = include_str!("../../deploy/kubernetes/rookery.yaml");
const RULES: &str = include_str!("../../deploy/prometheus/rules.yml");
const BOARD: &str = include_str!("../../deploy/grafana/rookery.json");
const README: &str = include_str!("../../deploy/README.md");
const METRICS: &str = include_str!("../../actors/src/observe/metrics.rs");

/// What the phases after the drain may take together, in seconds.
const AFTER_DRAIN: u64 = 1 + 1 + 16 + 5 + 6 + 30;

/// The command lines of a text that begin with the program.
fn parses(line: &str) {
    let words = line.split_whitespace().map(|word| word.trim_matches(['"', '\'']));
    if let Err(error) = Cli::try_parse_from(words) {
        panic!("{line}: {error}");
    }
}

fn value_of<'a>(text: &'a str, key: &str) -> &'a str {
    let line = text.lines().find_map(|line| line.trim().strip_prefix(key));
    line.unwrap_or_else(|| panic!("no {key}")).trim()
}

/// The items of a list of texts as YAML and Dockerfiles write it on one line.
fn items(list: &str) -> Vec<String> {
    let from = list.find('[').unwrap_or_else(|| panic!("no list: {list}"));
    let to = list.rfind(']').unwrap_or_else(|| panic!("no end: {list}"));
    serde_json::from_str(&list[from..=to]).unwrap_or_else(|error| panic!("{list}: {error}"))
}

#[test]
fn the_systemd_unit_runs_the_program_and_lets_it_end_in_time() {
    for key in ["ExecStartPre=", "ExecStart="] {
        let line = value_of(UNIT, key);
        parses(&line.replacen("/usr/local/bin/", "", 1));
    }
    assert_eq!(value_of(UNIT, "Type="), "notify");
    let watchdog: u64 = value_of(UNIT, "WatchdogSec=").parse().unwrap();
    assert!(watchdog > rookery_supervisors::health::STUCK_AFTER.as_secs(), "{watchdog}");
    let stop: u64 = value_of(UNIT, "TimeoutStopSec=").parse().unwrap();
    let drain = rookery_messages::settings::ShutdownSettings::default().drain_secs;
    assert!(stop > drain + AFTER_DRAIN, "{stop}");
}

#[test]
fn the_container_runs_commands_there_are() {
    let lists: Vec<_> = CONTAINER
        .lines()
        .filter(|line| !line.starts_with('#'))
        .filter(|line| line.contains("CMD [") || line.contains("ENTRYPOINT ["))
        .collect();
    assert_eq!(lists.len(), 3, "{lists:?}");
    for line in lists {
        let mut words = items(line);
        words.retain(|word| !matches!(word.as_str(), "tini" | "--"));
        if words.first().is_none_or(|word| word != "rookery") {
            words.insert(0, "rookery".to_owned());
        }
        parses(&words.join(" "));
    }
}

#[test]
fn the_cluster_s_manifest_holds_a_configuration_that_loads_probes_that_are_commands_and_time_to_end()
 {
    let after = CLUSTER.split_once("rookery.toml: |\n").unwrap().1;
    let file: String = after
        .lines()
        .take_while(|line| line.starts_with("    "))
        .map(|line| format!("{}\n", line.trim_start()))
        .collect();
    let secret = "0123456789abcdef";
    let environment = Environment::from([
        ("OPS_TOKEN", "ops-0123456789abcdef"),
        ("VIEW_TOKEN", "view-0123456789abcdef"),
        ("WEBHOOK_SECRET", secret),
        ("MODEL_KEY", secret),
    ]);
    let loaded = config::load_text(None, &file, &environment).unwrap();
    assert!(loaded.warnings.is_empty(), "{:?}", loaded.warning_lines());
    let probes: Vec<_> = CLUSTER.lines().filter(|line| line.contains("command: [")).collect();
    assert_eq!(probes.len(), 3);
    for line in probes {
        parses(&items(line).join(" "));
    }
    let args = CLUSTER.lines().find(|line| line.contains("args: [")).unwrap();
    parses(&format!("rookery {}", items(args).join(" ")));
    let grace: u64 = value_of(CLUSTER, "terminationGracePeriodSeconds:").parse().unwrap();
    assert!(grace > loaded.settings.shutdown.drain_secs + AFTER_DRAIN, "{grace}");
}

/// Words of a text that may be names of our metrics, without what their kind adds.
fn metrics_in(text: &str) -> BTreeSet<String> {
    text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'))
        .filter_map(|word| word.strip_prefix("rookery_"))
        .map(|name| {
            let ends = ["_total", "_bucket", "_sum", "_count"];
            let bare = ends.iter().find_map(|end| name.strip_suffix(end));
            bare.unwrap_or(name).to_owned()
        })
        .collect()
}

#[test]
fn rules_and_board_speak_of_metrics_there_are() {
    let source = METRICS.split("#[cfg(test)]").next().unwrap();
    for (file, text) in [("rules", RULES), ("board", BOARD)] {
        let names = metrics_in(text);
        assert!(names.len() >= 8, "{file}: {names:?}");
        for name in names {
            assert!(source.contains(&format!("\"{name}\"")), "{file}: rookery_{name}");
        }
    }
    let board: serde_json::Value = serde_json::from_str(BOARD).unwrap();
    assert!(board["panels"].as_array().is_some_and(|panels| panels.len() > 10));
}

#[test]
fn the_commands_that_are_advised_are_commands_there_are() {
    let mut seen = 0;
    for text in [UNIT, RULES, README] {
        for quoted in text.split('`').skip(1).step_by(2) {
            let line = quoted.split(" · ").next().unwrap_or(quoted);
            let holes = ["<", "…", "("];
            if line.starts_with("rookery ") && !holes.iter().any(|hole| line.contains(hole)) {
                parses(line);
                seen += 1;
            }
        }
    }
    assert!(seen > 8, "{seen}");
}
