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

/// What follows the next unescaped delimiter. Whether a bracket hides one depends on the `sed`, so that a
/// bracket expression is only followed where all of them read it alike.
fn up_to(text: &str, delimiter: char) -> Option<&str> {
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '\\' => drop(chars.next()?),
            c if c == delimiter => return Some(&text[at + c.len_utf8()..]),
            '[' => {
                let end = bracket(&text[at..], delimiter)?;
                while chars.clone().next().is_some_and(|(next, _)| next < at + end) {
                    chars.next();
                }
            }
            _ => {}
        }
    }
    None
}

/// How long the bracket expression is that `text` begins with, if it is a plain one: no `]` or backslash in
/// it, no delimiter, and of what has brackets itself only `[:CLASS:]`.
fn bracket(text: &str, delimiter: char) -> Option<usize> {
    let mut at = if text.starts_with("[^") { 2 } else { 1 };
    if text[at..].starts_with(']') {
        return None;
    }
    loop {
        let rest = &text[at..];
        let c = rest.chars().next().filter(|c| *c != delimiter && *c != '\\')?;
        if c == ']' {
            return Some(at + 1);
        }
        at += match c {
            '[' => {
                let class = rest.strip_prefix("[:").filter(|_| delimiter != ':')?;
                let letters = class.bytes().take_while(u8::is_ascii_lowercase).count();
                if letters == 0 || !class[letters..].starts_with(":]") {
                    return None;
                }
                letters + 4
            }
            c => c.len_utf8(),
        };
    }
}

/// A command ends here.
fn ends(text: &str) -> Option<&str> {
    let text = text.trim_start_matches(' ');
    (text.is_empty() || text.starts_with([';', '}'])).then_some(text)
}

/// Whether an `awk` program neither runs programs nor opens files of its own.
pub(super) fn awk_only_prints(program: &str) -> bool {
    let reaches = [
        "system", "getline", "close", "fflush", "ARGV", "ARGC", "ENVIRON", "PROCINFO", "SYMTAB",
        "FUNCTAB",
    ];
    let pipes = program.replace("||", "").contains(['|', '@']);
    let writes = program.contains('>') && program.contains("print");
    !pipes && !writes && !reaches.iter().any(|word| program.contains(word))
}

/// Whether a `jq` program only works on what it is given: modules are files it looks for by itself.
pub(super) fn jq_only_filters(program: &str) -> bool {
    let words = program.split(|c: char| !(c.is_alphanumeric() || c == '_'));
    !words.into_iter().any(|word| matches!(word, "import" | "include" | "modulemeta"))
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
            "s/[[:space:]]*$//",
            "/[^0-9a-f]/d",
            "s/[a-z]/[x]/",
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
            "s/[]/]/;y/e;id/exid/",
            "s/[^]/]/;y/e;id/exid/",
            "s/[[:alpha:]/]/;y/e;id/exid/",
            "s/[[.a.]/]/;y/e;id/exid/",
            "s/[\\]/]/;y/e;id/exid/",
            "/[]/p;y/]/wqw/",
            "s/a/[/;s/]/b/e",
            "s:[[:alpha:]]:x:",
        ] {
            assert!(!sed_only_edits(script), "{script}");
        }
    }

    #[test]
    fn a_jq_program_that_takes_modules_is_told_from_one_that_filters() {
        for program in [".", ".items[] | .name", "map(select(.a > 1))", "$ENV.PATH"] {
            assert!(jq_only_filters(program), "{program}");
        }
        for program in [
            "import \"x\" as $d {search:\"/etc\"}; $d",
            "include \"x\"; .",
            "\"x\"|modulemeta",
            "#\nimport\"x\" as x; .",
        ] {
            assert!(!jq_only_filters(program), "{program}");
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
