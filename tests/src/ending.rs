//! The report of a shutdown, held against its deadlines (I14).

use std::time::Duration;

use serde::Deserialize;

/// The phases, in order (DESIGN.md, section 8).
const PHASES: [&str; 7] = [
    "intakes stop",
    "sessions claim nothing",
    "turns finish",
    "the rest stops",
    "senders flush",
    "gateway",
    "store",
];
/// What a busy machine may take beyond a deadline.
const SLACK: Duration = Duration::from_secs(2);

/// One phase's line.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
struct Line {
    phase: String,
    end: String,
    took_ms: u64,
    deadline_ms: u64,
}

/// The lines of the newest shutdown in a log.
fn newest(log: &str) -> Vec<Line> {
    let mut lines: Vec<Line> = log
        .lines()
        .filter(|line| line.contains("\"shutdown phase ended\""))
        .filter_map(|line| serde_json::from_str(line).ok())
        .collect();
    let first = lines.iter().rposition(|line| line.phase == PHASES[0]).unwrap_or(lines.len());
    lines.drain(..first);
    lines
}

/// The newest shutdown in `log` has a line for each phase, in order; each ended within its deadline, none
/// failed, only turns were late, and the whole, which took `took`, stayed within their sum.
pub fn check_ending(log: &str, took: Duration) -> Result<(), String> {
    let lines = newest(log);
    let found: Vec<&str> = lines.iter().map(|line| line.phase.as_str()).collect();
    if found != PHASES {
        return Err(format!("the report of the shutdown has other phases: {found:?}"));
    }
    for line in &lines {
        if Duration::from_millis(line.took_ms) > Duration::from_millis(line.deadline_ms) + SLACK {
            return Err(format!("a phase took longer than it might: {line:?}"));
        }
        let well = line.end == "done"
            || line.end == "cut short"
            // Turns that take longer than the drain are told to stop.
            || (line.phase == "turns finish" && line.end == "timed out");
        if !well {
            return Err(format!("a phase went wrong: {line:?}"));
        }
    }
    let sum = Duration::from_millis(lines.iter().map(|line| line.deadline_ms).sum());
    if took > sum + SLACK {
        return Err(format!("the shutdown took {took:?}; the sum of its deadlines is {sum:?}"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn lines() -> Vec<Value> {
        let line = |phase: &&str| {
            json!({
                "level": "INFO", "message": "shutdown phase ended", "phase": phase, "end": "done",
                "took_ms": 10, "deadline_ms": 1_000, "detail": ""
            })
        };
        PHASES.iter().map(line).collect()
    }

    fn log(lines: &[Value]) -> String {
        let own: Vec<String> = lines.iter().map(Value::to_string).collect();
        format!("not json\n{}\n{{\"message\":\"other\"}}", own.join("\n"))
    }

    const SHORT: Duration = Duration::from_millis(70);

    #[test]
    fn a_shutdown_in_time_passes_whatever_an_earlier_one_was() {
        assert_eq!(check_ending(&log(&lines()), SHORT), Ok(()));
        let mut late = lines();
        late[2]["end"] = json!("timed out");
        late[2]["took_ms"] = json!(1_001);
        assert_eq!(check_ending(&log(&late), SHORT), Ok(()));
        late[6]["end"] = json!("failed");
        let both = format!("{}\n{}", log(&late), log(&lines()));
        assert_eq!(check_ending(&both, SHORT), Ok(()));
    }

    // I14
    #[test]
    fn a_late_a_failed_and_a_missing_phase_and_a_long_whole_are_seen() {
        type Change<'a> = &'a dyn Fn(&mut Vec<Value>);
        let broken: [(Change<'_>, Duration, &str); 5] = [
            (&|lines| lines[4]["took_ms"] = json!(3_001), SHORT, "longer than it might"),
            (&|lines| lines[6]["end"] = json!("timed out"), SHORT, "went wrong"),
            (&|lines| lines[5]["end"] = json!("failed"), SHORT, "went wrong"),
            (
                &|lines| {
                    lines.remove(3);
                },
                SHORT,
                "other phases",
            ),
            (&|_| (), Duration::from_millis(9_001), "the sum of its deadlines"),
        ];
        for (change, took, complaint) in broken {
            let mut lines = lines();
            change(&mut lines);
            let seen = check_ending(&log(&lines), took).unwrap_err();
            assert!(seen.contains(complaint), "{seen}");
        }
        assert!(check_ending("", SHORT).is_err());
    }
}
