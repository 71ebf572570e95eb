//! What a process holds: memory, handles, threads (I13).

/// One reading from `/proc`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Level {
    /// Resident memory, in KiB.
    pub rss_kib: u64,
    /// Open file descriptors.
    pub fds: usize,
    /// Threads.
    pub threads: u64,
}

impl Level {
    /// Of a process that lives.
    pub fn of(pid: u32) -> Self {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        let field = |name: &str| -> u64 {
            status
                .lines()
                .find_map(|line| line.strip_prefix(name))
                .and_then(|rest| rest.split_whitespace().next())
                .and_then(|number| number.parse().ok())
                .unwrap_or_else(|| panic!("/proc/{pid}/status has no {name}"))
        };
        Self {
            rss_kib: field("VmRSS:"),
            fds: std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count(),
            threads: field("Threads:"),
        }
    }

    /// Says what has not come back to the level of `before`, within what a pool may keep.
    pub fn back_to(&self, before: &Level, slack: &Slack) -> Result<(), String> {
        let mut over = Vec::new();
        if self.fds > before.fds + slack.fds {
            over.push(format!("{} handles, {} before", self.fds, before.fds));
        }
        if self.threads > before.threads + slack.threads {
            over.push(format!("{} threads, {} before", self.threads, before.threads));
        }
        if self.rss_kib > before.rss_kib + slack.rss_kib {
            over.push(format!("{} KiB, {} before", self.rss_kib, before.rss_kib));
        }
        if over.is_empty() { Ok(()) } else { Err(over.join("; ")) }
    }
}

/// What may stay above the level.
#[derive(Clone, Copy, Debug)]
pub struct Slack {
    /// Memory, in KiB.
    pub rss_kib: u64,
    /// Handles.
    pub fds: usize,
    /// Threads.
    pub threads: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    // I13
    #[test]
    fn a_leak_of_any_kind_is_named() {
        let before = Level { rss_kib: 1_000, fds: 10, threads: 4 };
        let slack = Slack { rss_kib: 100, fds: 1, threads: 0 };
        assert_eq!(before.back_to(&before, &slack), Ok(()));
        let leaks = [
            (Level { rss_kib: 1_101, ..before }, "KiB"),
            (Level { fds: 12, ..before }, "handles"),
            (Level { threads: 5, ..before }, "threads"),
        ];
        for (after, word) in leaks {
            assert!(after.back_to(&before, &slack).unwrap_err().contains(word));
        }
    }

    #[test]
    fn our_own_level_can_be_read() {
        let level = Level::of(std::process::id());
        assert!(level.rss_kib > 0 && level.fds > 2 && level.threads > 0, "{level:?}");
    }
}
