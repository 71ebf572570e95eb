//! Scripts of `sed` and `awk` that surely run nothing and write nothing. What isn't surely so is not.

/// Whether a `sed` script only edits what passes through: addresses with `p d q =`, and `s` and `y`
/// without the flags that run or write.
pub(super) fn sed_only_edits(script: &str) -> bool {
    script.split('\n').all(|line| {
        let mut rest = line.trim_start();
        loop {
            rest = rest.trim_start_matches([' ', ';']);
            if rest.is_empty() {
                return true;
            }
            match sed_command(rest) {
                Some(after) => rest = after,
                None => return false,
            }
        }
    })
}

/// One command; what follows it.
fn sed_command(text: &str) -> Option<&str> {
    let mut rest = sed_address(text)?;
    if let Some(second) = rest.strip_prefix(',') {
        rest = sed_address(second.trim_start())?;
    }
    rest = rest.trim_start_matches(' ');
    rest = rest.strip_prefix('!').unwrap_or(rest);
    let mut chars = rest.chars();
    let command = chars.next()?;
    let after = chars.as_str();
    match command {
        'p' | 'd' | '=' | 'P' | 'D' | 'g' | 'G' | 'h' | 'H' | 'x' | 'n' | 'N' => ends(after),
        'q' => ends(after.trim_start_matches(|c: char| c.is_ascii_digit() || c == ' ')),
        's' | 'y' => {
            let delimiter = after.chars().next().filter(|c| "/|#,:@%!".contains(*c))?;
            let after = up_to(&after[1..], delimiter)?;
            let after = up_to(after, delimiter)?;
            let flags = if command == 's' { "gpiI0123456789" } else { "" };
            ends(after.trim_start_matches(|c: char| flags.contains(c)))
        }
        _ => None,
    }
}

/// A line number, `$` or a pattern, or nothing.
fn sed_address(text: &str) -> Option<&str> {
    if let Some(pattern) = text.strip_prefix('/') {
        return up_to(pattern, '/').map(|rest| rest.strip_prefix('I').unwrap_or(rest));
    }
    Some(match text.strip_prefix('$') {
        Some(rest) => rest,
        None => text.trim_start_matches(|c: char| c.is_ascii_digit() || matches!(c, '~' | '+')),
    })
}

/// What follows the next unescaped delimiter. A bracket expression may hide one: not followed.
fn up_to(text: &str, delimiter: char) -> Option<&str> {
    let mut escaped = false;
    let mut bracket = false;
    for (at, c) in text.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '[' => bracket = true,
            ']' => bracket = false,
            c if c == delimiter => {
                return (!bracket).then_some(&text[at + c.len_utf8()..]);
            }
            _ => {}
        }
    }
    None
}

/// A command ends here.
fn ends(text: &str) -> Option<&str> {
    let text = text.trim_start_matches(' ');
    (text.is_empty() || text.starts_with([';', '}'])).then_some(text)
}

/// Whether an `awk` program neither runs programs nor opens files of its own.
pub(super) fn awk_only_prints(program: &str) -> bool {
    let reaches = ["system", "getline", "close", "fflush", "ARGV", "ARGC", "ENVIRON", "PROCINFO"];
    let pipes = program.replace("||", "").contains(['|', '@']);
    let writes = program.contains('>') && program.contains("print");
    !pipes && !writes && !reaches.iter().any(|word| program.contains(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sed_script_that_runs_or_writes_is_told_from_one_that_edits() {
        for script in [
            "1p",
            "$d",
            "1,5p",
            "/foo/d",
            "/a/,/b/p",
            "s/a/b/",
            "s/a/b/g;s|c|d|I",
            "2q",
            "y/ab/cd/",
            "1!d",
            "/foo/Ip",
            "s/[0-9]/x/",
            "=",
            "1d; 2d",
            "s,/usr,/opt,g",
        ] {
            assert!(sed_only_edits(script), "{script}");
        }
        for script in [
            "1e id",
            "e",
            "s/a/id/e",
            "s/a/b/w x",
            "w /tmp/x",
            "r /etc/passwd",
            "1r x",
            "R x",
            "W x",
            "s/a/b/ge",
            "/a/{e id\n}",
            "a\\\ntext",
            "s/[/]a/x/e",
            "s/a/b",
            "b x",
            "1~2e id",
            "F;e",
        ] {
            assert!(!sed_only_edits(script), "{script}");
        }
    }

    #[test]
    fn an_awk_program_that_runs_or_opens_is_told_from_one_that_prints() {
        for program in
            ["{print $1}", "$3 > 5", "NR==1 || NR==2 {print}", "/foo/ {n++} END {print n}"]
        {
            assert!(awk_only_prints(program), "{program}");
        }
        for program in [
            "{system(\"id\")}",
            "{print | \"sh\"}",
            "{print > \"x\"}",
            "BEGIN{\"id\"|getline x}",
            "BEGIN{while((getline l < \"/etc/passwd\")>0) print l}",
            "BEGIN{ARGV[1]=\"/etc/passwd\"}",
            "@load \"x\"",
            "BEGIN{f=\"system\";@f(\"id\")}",
        ] {
            assert!(!awk_only_prints(program), "{program}");
        }
    }
}
