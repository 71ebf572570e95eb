//! Gives back the memory of code that only the start needed.
//!
//! The kernel maps code in pieces around what is run. Reading the command line and the configuration, and
//! building the tree, touch most of the program once; what an idle service runs is a small part of it.
//! Dropped pages stay in the page cache, and are mapped again when they are run again.

/// Drops the program's own code from what counts as its memory. Best effort: without it the service is
/// larger, and that is all.
#[cfg(target_os = "linux")]
pub(super) fn startup_code() {
    let Ok(program) = std::fs::read_link("/proc/self/exe") else { return };
    let Ok(maps) = std::fs::read_to_string("/proc/self/maps") else { return };
    let program = program.to_string_lossy();
    for (start, len) in maps.lines().filter_map(|line| code_of(line, &program)) {
        drop_pages(start, len);
    }
}

/// Elsewhere nothing is known of what is mapped.
#[cfg(not(target_os = "linux"))]
pub(super) fn startup_code() {}

/// Start and length of a mapping (proc_pid_maps(5)), if it is code of `program` that nobody can write to.
fn code_of(line: &str, program: &str) -> Option<(usize, usize)> {
    let (range, rest) = line.split_once(' ')?;
    let (permissions, rest) = rest.split_once(' ')?;
    // Offset, device and inode come before the path, which may hold spaces.
    let path = rest.splitn(4, ' ').nth(3)?.trim_start();
    let (start, end) = range.split_once('-')?;
    let start = usize::from_str_radix(start, 16).ok()?;
    let end = usize::from_str_radix(end, 16).ok()?;
    (permissions == "r-xp" && path == program).then(|| (start, end.saturating_sub(start)))
}

#[cfg(target_os = "linux")]
#[allow(unsafe_code, reason = "madvise has no safe form; its range is checked by `code_of`")]
fn drop_pages(start: usize, len: usize) {
    // SAFETY: the range is a private mapping of the program's file that can't be written to. Its pages are
    // therefore those of the file, and are read from it again, the same, when they are next touched.
    let _ = unsafe { libc::madvise(start as *mut libc::c_void, len, libc::MADV_DONTNEED) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_code_of_the_program_itself_that_nobody_can_write_to_is_dropped() {
        let line = |range: &str, permissions: &str, path: &str| {
            format!("{range} {permissions} 00add000 fe:00 6079004                    {path}")
        };
        let range = "55ebe985b000-55ebe985d000";
        let program = "/opt/rookery bin/rookery";
        let of = |line: &str| code_of(line, program);
        assert_eq!(of(&line(range, "r-xp", program)), Some((0x55eb_e985_b000, 0x2000)));
        assert_eq!(of(&line(range, "r--p", program)), None, "relocated data is not in the file");
        assert_eq!(of(&line(range, "rw-p", program)), None);
        assert_eq!(of(&line(range, "rwxp", program)), None);
        assert_eq!(of(&line(range, "r-xp", "/usr/lib/libc.so.6")), None);
        assert_eq!(of("7ffd1000-7ffd3000 r-xp 00000000 00:00 0"), None);
        assert_eq!(of("garbage"), None);
    }
}
