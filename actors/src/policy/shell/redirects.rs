//! Redirections and here-documents.

use tree_sitter::Node;

use super::finding::Weight;
use super::places::{self, Use};
use super::syntax::{children, document_word, text};
use super::walk::{Walk, after_target};
use super::word::{Word, begins_expansion};

impl Walk<'_> {
    pub(super) fn redirected(&mut self, node: Node<'_>, source: &str) {
        // A redirection that fails keeps its command from running: nothing it sets can be relied upon.
        self.perhaps(|walk| {
            walk.scope.held = true;
            let mut fed = walk.scope.fed;
            let mut more = Vec::new();
            let parts = children(node);
            let redirects = ["file_redirect", "herestring_redirect", "heredoc_redirect"];
            for part in parts.iter().filter(|part| redirects.contains(&part.kind())) {
                fed |= walk.redirect(*part, source);
                more.extend(after_target(*part));
            }
            walk.scope.fed = fed;
            let bodies: Vec<_> =
                parts.iter().filter(|part| !redirects.contains(&part.kind())).collect();
            match bodies[..] {
                [] if more.is_empty() => {}
                [body] if body.kind() == "command" => walk.command(*body, more, source),
                [body] if body.is_named() && more.is_empty() => walk.statement(*body, source),
                _ => walk.unclear("a redirection in it can't be read"),
            }
        });
    }

    /// A redirection. Says whether it feeds the command's input.
    pub(super) fn redirect(&mut self, node: Node<'_>, source: &str) -> bool {
        match node.kind() {
            "file_redirect" => self.file_redirect(node, source),
            "herestring_redirect" => {
                for part in children(node).into_iter().filter(Node::is_named) {
                    drop(self.word(part, source));
                }
                true
            }
            _ => {
                self.document(node, source);
                true
            }
        }
    }

    pub(super) fn file_redirect(&mut self, node: Node<'_>, source: &str) -> bool {
        let parts = children(node);
        let operator = parts.iter().find(|part| !part.is_named()).map_or("", Node::kind);
        let targets: Vec<_> = parts
            .iter()
            .filter(|part| part.is_named() && part.kind() != "file_descriptor")
            .collect();
        let target = match (operator, &targets[..]) {
            (">&-" | "<&-", []) => return false,
            (_, [target, ..]) if !operator.ends_with('-') => **target,
            _ => {
                self.unclear("a redirection in it can't be read");
                return false;
            }
        };
        let written = text(target, source);
        let descriptor = written == "-" || written.bytes().all(|b| b.is_ascii_digit());
        if matches!(operator, ">&" | "<&") && descriptor {
            return operator == "<&";
        }
        let used = match operator {
            "<" => Use::Read,
            ">" | ">>" | ">|" | "&>" | "&>>" | ">&" => Use::Write,
            _ => {
                self.unclear(&format!("the redirection `{operator}` is not judged"));
                return true;
            }
        };
        let word = self.word(target, source);
        let arguments = self.expanded(&word);
        let [argument] = &arguments[..] else {
            self.unclear("where it is redirected to depends on the files that are there");
            return true;
        };
        let Some(path) = argument.exact() else {
            self.unclear("where it is redirected to is only known when it runs");
            return true;
        };
        self.path(path, used);
        if used == Use::Write {
            self.write(path, "a redirection");
        }
        used == Use::Read
    }

    /// Something writes to a path.
    pub(super) fn write(&mut self, path: &str, who: &str) {
        let gate = self.rules.writing;
        if places::from_bases(path, &self.scope.bases)
            .any(|path| places::starts_later_at(gate, &path))
        {
            self.note(Weight::High, || {
                format!("{who} writes to `{path}`, which decides what runs later")
            });
        }
        if !matches!(path, "/dev/null" | "/dev/stdout" | "/dev/stderr") {
            self.note(Weight::Medium, || format!("{who} writes to `{path}`"));
        }
    }

    pub(super) fn document(&mut self, node: Node<'_>, source: &str) {
        let mut expanded = true;
        let mut after_operator = false;
        for part in children(node) {
            match part.kind() {
                "heredoc_start" => {
                    expanded =
                        document_word(text(part, source)).is_none_or(|(_, expanded)| expanded);
                }
                "heredoc_body" if expanded => self.document_body(part, source),
                "heredoc_body" | "heredoc_end" | "file_descriptor" | "comment" => {}
                "file_redirect" | "herestring_redirect" if after_target(part).is_empty() => {
                    self.redirect(part, source);
                }
                "&&" | "||" => after_operator = true,
                "<<" | "<<-" => {}
                "pipeline" => self.pipeline(part, source),
                _ if part.is_named() && after_operator => {
                    self.perhaps(|walk| walk.statement(part, source));
                }
                _ => self.unclear("a here-document in it can't be read"),
            }
        }
    }

    pub(super) fn document_body(&mut self, node: Node<'_>, source: &str) {
        let mut at = node.start_byte();
        let mut rest = String::new();
        for part in children(node) {
            match part.kind() {
                "heredoc_content" => continue,
                "simple_expansion"
                | "expansion"
                | "command_substitution"
                | "arithmetic_expansion" => {
                    let mut word = Word::default();
                    self.piece(part, source, true, &mut word);
                }
                _ => self.unclear("a here-document in it can't be read"),
            }
            rest.push_str(source.get(at..part.start_byte()).unwrap_or("`"));
            rest.push('\u{1}');
            at = part.end_byte();
        }
        rest.push_str(source.get(at..node.end_byte()).unwrap_or("`"));
        let mut chars = rest.chars().peekable();
        while let Some(c) = chars.next() {
            let next = chars.peek().copied();
            let odd = match c {
                '`' => true,
                '\\' => next.is_none_or(|next| next == '\n' || next == '\u{1}'),
                '$' => next.is_some_and(begins_expansion),
                _ => false,
            };
            if odd {
                return self
                    .unclear("a here-document in it holds what can't be told from an expansion");
            }
        }
    }
}
