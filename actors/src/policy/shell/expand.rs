//! Variables, and what words become.

use tree_sitter::Node;

use super::finding::Weight;
use super::syntax::{children, text};
use super::table::{self, Variable};
use super::walk::{Walk, after_target};
use super::word::{Argument, Item, Word};

impl Walk<'_> {
    /// Judges an assignment by its name.
    pub(super) fn named(&mut self, name: &str, exported: bool) {
        match (table::variable(name), exported) {
            (Variable::Loader, _) => self.note(Weight::Refused, || {
                format!(
                    "the command sets `{name}`, which decides what programs load or run; leave it out"
                )
            }),
            (Variable::Special, _) => {
                self.unclear(&format!("it sets `{name}`, to which the shell gives a meaning of its own"));
            }
            (Variable::Own, true) => self.note(Weight::High, || {
                format!("the command sets `{name}` for a program, and what it does there isn't known")
            }),
            (Variable::Own | Variable::Harmless, _) => {}
        }
    }

    /// Remembers the values of a variable that is assigned nowhere else.
    pub(super) fn know(&mut self, name: &str, values: Option<Vec<String>>) {
        let once = self.assigned.get(name) == Some(&1);
        match values.filter(|_| once && table::variable(name) == Variable::Own) {
            Some(values) => self.scope.vars.insert(name.to_owned(), values),
            None => self.scope.vars.remove(name),
        };
    }

    pub(super) fn assignment(&mut self, node: Node<'_>, source: &str) {
        let value = self.value(node, source);
        let name = children(node).first().map_or("", |name| text(*name, source));
        self.named(name, false);
        self.know(name, value.map(|value| vec![value]));
    }

    /// The value of an assignment, if it is known.
    pub(super) fn value(&mut self, node: Node<'_>, source: &str) -> Option<String> {
        let parts = children(node);
        let value = match &parts[..] {
            [name, equals] if name.kind() == "variable_name" && equals.kind() == "=" => {
                Word::default()
            }
            [name, equals, value] if name.kind() == "variable_name" && equals.kind() == "=" => {
                self.word(*value, source)
            }
            _ => {
                self.unclear("an assignment in it is not a plain one");
                return None;
            }
        };
        let mut text = String::new();
        for item in value.items {
            match item {
                Item::Char('~', false) | Item::OneOf(..) | Item::Unknown(_) | Item::Number => {
                    return None;
                }
                Item::Char(c, _) => text.push(c),
            }
        }
        Some(text)
    }

    pub(super) fn declaration(&mut self, node: Node<'_>, source: &str) {
        for (n, part) in children(node).into_iter().enumerate() {
            match (n, part.kind()) {
                (0, "export") | (0, "local") => {}
                (_, "variable_assignment") => {
                    self.value(part, source);
                    let name = children(part).first().map_or("", |name| text(*name, source));
                    self.named(name, true);
                    self.scope.vars.remove(name);
                }
                (_, "variable_name") => self.named(text(part, source), true),
                _ => self.unclear("a declaration in it is not a plain one"),
            }
        }
    }

    pub(super) fn unset(&mut self, node: Node<'_>, source: &str) {
        for (n, part) in children(node).into_iter().enumerate() {
            match (n, part.kind()) {
                (0, "unset") => {}
                (_, "variable_name") => {
                    let name = text(part, source);
                    self.named(name, false);
                    self.scope.vars.remove(name);
                    self.functions.remove(name);
                }
                _ => self.unclear("an `unset` in it is not a plain one"),
            }
        }
    }

    pub(super) fn root(&self) -> &std::path::Path {
        self.rules.paths.workspace()
    }

    /// Reads a word. Substitutions in it are judged on the way.
    pub(super) fn word(&mut self, node: Node<'_>, source: &str) -> Word {
        let mut word = Word::default();
        self.piece(node, source, false, &mut word);
        word
    }

    pub(super) fn odd_word(&mut self, word: &mut Word) {
        self.unclear("a word in it can't be read");
        word.items.push(Item::Unknown(false));
    }

    pub(super) fn piece(&mut self, node: Node<'_>, source: &str, quoted: bool, word: &mut Word) {
        let written = text(node, source);
        match node.kind() {
            "word" | "number" | "extglob_pattern" | "regex" | "test_operator" => {
                if word.push_bare(written).is_err() {
                    self.odd_word(word);
                }
            }
            "concatenation" => {
                for part in children(node) {
                    self.piece(part, source, quoted, word);
                }
            }
            "raw_string" => match written.strip_prefix('\'').and_then(|w| w.strip_suffix('\'')) {
                Some(inner) if !inner.contains('\'') => word.push_quoted(inner),
                _ => self.odd_word(word),
            },
            "ansi_c_string" => word.items.push(Item::Unknown(true)),
            "string" => self.string(node, source, word),
            "brace_expression" => {
                if word.push_bare(written).is_err() {
                    self.odd_word(word);
                }
            }
            "simple_expansion" => self.variable(written.trim_start_matches('$'), quoted, word),
            "expansion" => self.expansion(written, quoted, word),
            "arithmetic_expansion" => self.arithmetic(written, word),
            "command_substitution" => {
                self.substitution(node, source);
                word.items.push(Item::Unknown(quoted));
            }
            "process_substitution" => {
                self.aside(|walk| {
                    walk.scope.fed |= written.starts_with('>');
                    walk.statements(node, source);
                });
                word.push_quoted("/dev/fd/63");
            }
            "==" | "=~" => word.push_quoted(written),
            _ => self.odd_word(word),
        }
    }

    pub(super) fn string(&mut self, node: Node<'_>, source: &str, word: &mut Word) {
        let end = node.end_byte() - 1;
        let mut at = node.start_byte() + 1;
        let parts = children(node);
        let inner = parts.iter().filter(|part| part.is_named() && part.kind() != "string_content");
        // An empty string is a word all the same.
        let mut fine = text(node, source).len() > 1;
        for part in inner {
            let before = source.get(at..part.start_byte());
            fine &= before.is_some_and(|before| word.push_double_quoted(before).is_ok());
            self.piece(*part, source, true, word);
            at = part.end_byte();
        }
        fine &= source.get(at..end).is_some_and(|rest| word.push_double_quoted(rest).is_ok());
        if !fine {
            self.odd_word(word);
        }
    }

    pub(super) fn variable(&mut self, name: &str, quoted: bool, word: &mut Word) {
        let known = match name {
            "?" | "#" | "$" | "!" => return word.items.push(Item::Number),
            "@" | "*" => return word.items.push(Item::Unknown(false)),
            "HOME" if !self.assigned.contains_key("HOME") => {
                Some(vec![self.root().display().to_string()])
            }
            "PWD" if !self.assigned.contains_key("PWD") => match &self.scope.bases[..] {
                [base] => Some(vec![self.root().join(base).display().to_string()]),
                _ => None,
            },
            name => self.scope.vars.get(name).cloned(),
        };
        word.items.push(match known {
            Some(values) => Item::OneOf(values, quoted),
            None => Item::Unknown(quoted),
        });
    }

    /// `${...}`: only forms that run nothing and assign nothing.
    pub(super) fn expansion(&mut self, written: &str, quoted: bool, word: &mut Word) {
        let Some(inner) = written.strip_prefix("${").and_then(|rest| rest.strip_suffix('}')) else {
            return self.odd_word(word);
        };
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let inner_name = inner.strip_prefix('#').unwrap_or(inner);
        let length = inner_name.find(|c| !is_name(c)).unwrap_or(inner_name.len());
        let (name, rest) = inner_name.split_at(length);
        if name.is_empty() {
            return self.odd_word(word);
        }
        if rest.is_empty() {
            return match inner.starts_with('#') {
                true => word.items.push(Item::Number),
                false => self.variable(name, quoted, word),
            };
        }
        let operators = [":-", "-", "##", "#", "%%", "%", ":+", "+"];
        let operand = operators.iter().find_map(|operator| rest.strip_prefix(operator));
        let plain = |c: char| c.is_ascii_alphanumeric() || " ._/*:,@+-".contains(c);
        match operand.filter(|_| !inner.starts_with('#')) {
            Some(operand) if operand.chars().all(plain) => word.items.push(Item::Unknown(quoted)),
            _ => self.odd_word(word),
        }
    }

    /// `$((...))` of numbers and of variables that are numbers: a shell evaluates what it finds in others.
    pub(super) fn arithmetic(&mut self, written: &str, word: &mut Word) {
        let inner = written.strip_prefix("$((").and_then(|rest| rest.strip_suffix("))"));
        let Some(inner) = inner else {
            return self.odd_word(word);
        };
        let names = inner.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
        let names = names.filter(|name| name.starts_with(|c: char| !c.is_ascii_digit()));
        let numbers = |values: &Vec<String>| {
            values
                .iter()
                .all(|value| !value.is_empty() && value.bytes().all(|b| b.is_ascii_digit()))
        };
        let known = |name: &str| self.scope.vars.get(name).is_some_and(numbers);
        let plain = |c: char| c.is_ascii_alphanumeric() || "_ +-*/%()<>&|^!?:$".contains(c);
        let steps = inner.contains("++") || inner.contains("--");
        if !steps
            && names.into_iter().all(known)
            && inner.chars().all(plain)
            && !inner.contains("$(")
        {
            word.items.push(Item::Number);
        } else {
            self.odd_word(word);
        }
    }

    pub(super) fn substitution(&mut self, node: Node<'_>, source: &str) {
        let written = text(node, source);
        if written.starts_with('`') && written.contains('\\') {
            return self.unclear("a backslash between backticks is not judged");
        }
        self.aside(|walk| {
            for part in children(node).into_iter().filter(Node::is_named) {
                match part.kind() {
                    "file_redirect" if after_target(part).is_empty() => {
                        walk.redirect(part, source);
                    }
                    _ => walk.statement(part, source),
                }
            }
        });
    }

    /// The arguments that a simple command's words become.
    pub(super) fn arguments(&self, words: &[Word]) -> Vec<Argument> {
        words.iter().flat_map(|word| self.expanded(word)).collect()
    }

    /// The arguments that a word becomes. Once files may have come to be, a pattern may find what looks like
    /// an option.
    pub(super) fn expanded(&self, word: &Word) -> Vec<Argument> {
        if self.links.changed && word.finds_options() {
            return vec![word.loose()];
        }
        word.arguments(&self.scope.bases, self.root())
    }
}
