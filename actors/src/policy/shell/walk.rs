//! The walk over a parsed text: every statement, in the order in which a shell runs it.
//!
//! It follows what can be followed for certain: the folder that `cd` leads to, and variables that are
//! assigned once, before they are used. Whatever depends on a branch, a loop or a failure counts both ways.

use std::collections::{HashMap, HashSet};

use tree_sitter::Node;

use super::closed;
use super::finding::{Finding, Weight};
use super::places::{self, Place, Use};
use super::syntax::{children, document_word, parse, text};
use super::table::{self, Variable};
use super::word::{Argument, Certainty, Item, Word, begins_expansion};
use crate::policy::paths::PathGate;

/// How many texts may stand within each other (`sh -c "sh -c ..."`).
const MAX_TEXTS: u32 = 6;

/// What a command is judged by.
#[derive(Clone, Copy, Debug)]
pub struct Rules<'a> {
    /// The path gate of the agent's workspace, for paths of which it isn't known what becomes of them.
    pub always: &'a PathGate,
    /// For what is read.
    pub paths: &'a PathGate,
    /// For what is written.
    pub writing: &'a PathGate,
    /// The profile's `allowed_commands`.
    pub allowed: Option<&'a [String]>,
    /// The folders the command may start in, relative to the workspace; `""` is the workspace.
    pub bases: &'a [String],
}

/// Judges a command: the heaviest thing that it does.
pub fn judge(command: &str, rules: Rules<'_>) -> Finding {
    let mut walk = Walk {
        rules,
        found: Finding::nothing(),
        scope: Scope { bases: rules.bases.to_vec(), ..Scope::default() },
        functions: HashSet::new(),
        assigned: HashMap::new(),
        texts: 0,
    };
    if let Some(path) = closed::find(command, rules.bases, rules.always) {
        walk.closed(path);
    }
    if command.trim().is_empty() {
        walk.note(Weight::Unclear, || "the command is empty".to_owned());
    }
    walk.program(command);
    walk.found
}

/// The walk and what it knows.
pub(super) struct Walk<'a> {
    pub(super) rules: Rules<'a>,
    pub(super) found: Finding,
    pub(super) scope: Scope,
    /// Functions that are surely defined by now; their bodies were judged.
    pub(super) functions: HashSet<String>,
    /// How often each name is assigned in the text at hand.
    assigned: HashMap<String, u32>,
    texts: u32,
}

/// What is true at one point of the text.
#[derive(Clone, Default, Debug)]
pub(super) struct Scope {
    /// The folders a command may stand in.
    pub(super) bases: Vec<String>,
    /// Variables whose values are known.
    vars: HashMap<String, Vec<String>>,
    /// Its input comes from a pipe, a file or the text.
    pub(super) fed: bool,
    /// A change of folder can't be followed here.
    pub(super) held: bool,
}

/// A simple command as written.
pub(super) struct Simple {
    pub(super) words: Vec<Word>,
    /// Variables are set for it, or its input or output is redirected: the shell may give it up.
    pub(super) burdened: bool,
}

impl Walk<'_> {
    pub(super) fn note(&mut self, weight: Weight, reason: impl FnOnce() -> String) {
        self.found.add(weight, reason);
    }

    pub(super) fn unclear(&mut self, why: &str) {
        self.note(Weight::Unclear, || format!("the command can't be judged: {why}"));
    }

    fn closed(&mut self, path: &str) {
        let e = crate::policy::paths::PathError::Forbidden { path: path.to_owned() };
        self.note(Weight::Closed, || e.to_string());
    }

    /// A path that the command uses.
    pub(super) fn path(&mut self, written: &str, used: Use) {
        let gate = match used {
            Use::Read => self.rules.paths,
            Use::Write => self.rules.writing,
        };
        match places::look(gate, written, &self.scope.bases, used) {
            Place::Inside => {}
            Place::Unclear(why) => self.note(Weight::Unclear, || why),
            Place::Outside(why) => self.note(Weight::Refused, || why),
            Place::Closed(why) => self.note(Weight::Closed, || why),
        }
    }

    /// A whole text: the command itself, or one that a word of it holds.
    pub(super) fn program(&mut self, source: &str) {
        if self.texts >= MAX_TEXTS {
            return self.unclear("too many texts stand within each other");
        }
        let tree = match parse(source) {
            Ok(tree) => tree,
            Err(why) => return self.unclear(&why),
        };
        let outer = (self.scope.clone(), self.functions.clone(), self.assigned.clone());
        self.texts += 1;
        self.scope.vars.clear();
        self.assigned.clear();
        self.count_assignments(tree.root_node(), source);
        self.statements(tree.root_node(), source);
        self.texts -= 1;
        if self.texts > 0 {
            (self.scope, self.functions, self.assigned) = outer;
        }
    }

    fn count_assignments(&mut self, root: Node<'_>, source: &str) {
        let mut open = vec![root];
        while let Some(node) = open.pop() {
            let parts = children(node);
            let mut count = |name: &str| *self.assigned.entry(name.to_owned()).or_default() += 1;
            match node.kind() {
                "variable_assignment" | "for_statement" | "unset_command" => parts
                    .iter()
                    .filter(|part| part.kind() == "variable_name")
                    .for_each(|part| count(text(*part, source))),
                // `read`, and whatever else may take a name.
                "command" if !only_reads(&parts, source) => parts
                    .iter()
                    .filter(|part| part.kind() == "word")
                    .for_each(|part| count(text(*part, source))),
                _ => {}
            }
            open.extend(parts);
        }
    }

    /// Runs `step` so that nothing it changes lasts: a subshell, a branch, a loop.
    fn aside(&mut self, step: impl FnOnce(&mut Self)) {
        let before = self.scope.clone();
        step(self);
        self.scope = before;
    }

    /// Runs `step`, which may or may not happen.
    fn perhaps(&mut self, step: impl FnOnce(&mut Self)) {
        let before = self.scope.clone();
        step(self);
        let after = std::mem::replace(&mut self.scope, before);
        for base in after.bases {
            if !self.scope.bases.contains(&base) {
                self.scope.bases.push(base);
            }
        }
        if self.scope.bases.len() > 16 {
            self.unclear("it changes its folder too often");
        }
    }

    /// The statements of a node, one after the other.
    fn statements(&mut self, node: Node<'_>, source: &str) {
        let parts = children(node);
        for (n, part) in parts.iter().enumerate() {
            if !part.is_named() {
                continue;
            }
            match parts.get(n + 1).map(Node::kind) {
                Some("&") => self.aside(|walk| walk.statement(*part, source)),
                _ => self.statement(*part, source),
            }
        }
    }

    fn statement(&mut self, node: Node<'_>, source: &str) {
        match node.kind() {
            "comment" => {}
            "command" => self.command(node, Vec::new(), source),
            "list" => self.list(node, source),
            "pipeline" => self.pipeline(node, source),
            "negated_command" => self.statements(node, source),
            "redirected_statement" => self.redirected(node, source),
            "variable_assignment" => self.assignment(node, source),
            "variable_assignments" => self.statements(node, source),
            "subshell" => self.aside(|walk| walk.statements(node, source)),
            "compound_statement" if node.child(0).is_some_and(|c| c.kind() == "{") => {
                self.statements(node, source);
            }
            "if_statement" => self.perhaps(|walk| walk.branches(node, source)),
            "while_statement" => self.looped(|walk| walk.statements(node, source)),
            "do_group" => self.statements(node, source),
            "for_statement" => self.looped(|walk| walk.for_each(node, source)),
            "case_statement" => self.case(node, source),
            "function_definition" => self.function(node, source),
            "test_command" => self.test(node, source),
            "declaration_command" => self.declaration(node, source),
            "unset_command" => self.unset(node, source),
            kind => self.unclear(&format!("`{kind}` is not judged")),
        }
    }

    fn list(&mut self, node: Node<'_>, source: &str) {
        let parts = children(node);
        let [left, _, right] = parts[..] else {
            return self.unclear("a list in it has parts that are not known");
        };
        self.statement(left, source);
        self.perhaps(|walk| walk.statement(right, source));
    }

    fn pipeline(&mut self, node: Node<'_>, source: &str) {
        let first = children(node).first().is_some_and(Node::is_named);
        let stages = children(node).into_iter().filter(Node::is_named);
        for (n, stage) in stages.enumerate() {
            self.aside(|walk| {
                walk.scope.fed |= n > 0 || !first;
                walk.statement(stage, source);
            });
        }
    }

    /// `if`, `elif`, `else`: what one branch sets is unknown to the next.
    fn branches(&mut self, node: Node<'_>, source: &str) {
        for part in children(node).into_iter().filter(Node::is_named) {
            match part.kind() {
                "elif_clause" | "else_clause" => {
                    self.scope.vars.clear();
                    self.branches(part, source);
                }
                _ => self.statement(part, source),
            }
        }
    }

    fn looped(&mut self, step: impl FnOnce(&mut Self)) {
        self.aside(|walk| {
            walk.scope.held = true;
            step(walk);
        });
    }

    fn for_each(&mut self, node: Node<'_>, source: &str) {
        let parts = children(node);
        if parts.first().is_none_or(|part| part.kind() != "for") {
            return self.unclear("`select` is not judged");
        }
        let mut values = Some(Vec::new());
        let mut name = "";
        let listed = parts.iter().any(|part| part.kind() == "in");
        for part in parts.iter().filter(|part| part.is_named()) {
            match part.kind() {
                "variable_name" => name = text(*part, source),
                "do_group" | "compound_statement" | "comment" => {}
                _ => {
                    let arguments =
                        self.word(*part, source).arguments(&self.scope.bases, self.root());
                    let known = arguments.iter().all(Argument::is_known);
                    values = values.filter(|_| known);
                    if let Some(values) = &mut values {
                        values.extend(arguments.into_iter().map(|argument| argument.text));
                    }
                }
            }
        }
        self.named(name, false);
        self.know(name, values.filter(|_| listed));
        for part in parts
            .into_iter()
            .filter(|part| matches!(part.kind(), "do_group" | "compound_statement"))
        {
            self.statement(part, source);
        }
    }

    fn case(&mut self, node: Node<'_>, source: &str) {
        for part in children(node).into_iter().filter(Node::is_named) {
            match part.kind() {
                "case_item" => self.perhaps(|walk| walk.case_item(part, source)),
                "comment" => {}
                _ => drop(self.word(part, source)),
            }
        }
    }

    fn case_item(&mut self, node: Node<'_>, source: &str) {
        let mut pattern = true;
        for part in children(node) {
            match part.kind() {
                ")" => pattern = false,
                _ if !part.is_named() => {}
                _ if pattern => drop(self.word(part, source)),
                _ => self.statement(part, source),
            }
        }
    }

    fn function(&mut self, node: Node<'_>, source: &str) {
        let parts = children(node);
        let name =
            parts.iter().find(|part| part.kind() == "word").map_or("", |part| text(*part, source));
        let plain = name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
        if !plain
            || name.is_empty()
            || table::entry(name).is_some()
            || super::simple::is_builtin(name)
        {
            return self.unclear("it defines a function by the name of a known command");
        }
        let mut bodies = 0;
        self.looped(|walk| {
            walk.scope.vars.clear();
            for part in &parts {
                match part.kind() {
                    "compound_statement" | "subshell" | "if_statement" | "test_command" => {
                        bodies += 1;
                        walk.statement(*part, source);
                    }
                    "word" | "comment" => {}
                    _ if !part.is_named() => {}
                    _ => walk.unclear("a function with a redirection is not judged"),
                }
            }
        });
        let top = node.parent().is_some_and(|parent| parent.kind() == "program");
        let background = node.next_sibling().is_some_and(|next| next.kind() == "&");
        if bodies == 1 && top && !background {
            self.functions.insert(name.to_owned());
        }
    }

    /// A simple command. `more` are words of it that stand behind a redirection.
    fn command<'t>(&mut self, node: Node<'t>, mut more: Vec<Node<'t>>, source: &str) {
        let before = self.scope.fed;
        let mut simple = Simple { words: Vec::new(), burdened: false };
        for part in children(node) {
            match part.kind() {
                "variable_assignment" => {
                    simple.burdened = true;
                    self.value(part, source);
                    let name = children(part).first().map_or("", |name| text(*name, source));
                    self.named(name, true);
                }
                "command_name" => match &children(part)[..] {
                    [name] => simple.words.push(self.word(*name, source)),
                    _ => self.unclear("the command word can't be read"),
                },
                "file_redirect" | "herestring_redirect" => {
                    simple.burdened = true;
                    self.scope.fed |= self.redirect(part, source);
                    more.extend(after_target(part));
                }
                "comment" => {}
                _ => {
                    let word = self.word(part, source);
                    simple.words.push(word);
                }
            }
        }
        simple.burdened |= !more.is_empty();
        if !more.is_empty() && simple.words.is_empty() {
            self.unclear("a redirection in it can't be read");
        }
        for part in more {
            let word = self.word(part, source);
            simple.words.push(word);
        }
        self.simple(simple);
        self.scope.fed = before;
    }

    fn redirected(&mut self, node: Node<'_>, source: &str) {
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
    fn redirect(&mut self, node: Node<'_>, source: &str) -> bool {
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

    fn file_redirect(&mut self, node: Node<'_>, source: &str) -> bool {
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
        let arguments = self.word(target, source).arguments(&self.scope.bases, self.root());
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
        if places::starts_later(path) {
            self.note(Weight::High, || {
                format!("{who} writes to `{path}`, which decides what runs later")
            });
        }
        if !matches!(path, "/dev/null" | "/dev/stdout" | "/dev/stderr") {
            self.note(Weight::Medium, || format!("{who} writes to `{path}`"));
        }
    }

    fn document(&mut self, node: Node<'_>, source: &str) {
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

    fn document_body(&mut self, node: Node<'_>, source: &str) {
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

    /// Judges an assignment by its name.
    fn named(&mut self, name: &str, exported: bool) {
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
    fn know(&mut self, name: &str, values: Option<Vec<String>>) {
        let once = self.assigned.get(name) == Some(&1);
        match values.filter(|_| once && table::variable(name) == Variable::Own) {
            Some(values) => self.scope.vars.insert(name.to_owned(), values),
            None => self.scope.vars.remove(name),
        };
    }

    fn assignment(&mut self, node: Node<'_>, source: &str) {
        let value = self.value(node, source);
        let name = children(node).first().map_or("", |name| text(*name, source));
        self.named(name, false);
        self.know(name, value.map(|value| vec![value]));
    }

    /// The value of an assignment, if it is known.
    fn value(&mut self, node: Node<'_>, source: &str) -> Option<String> {
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
                Item::Char('~', false) | Item::OneOf(..) | Item::Unknown(_) => return None,
                Item::Char(c, _) => text.push(c),
            }
        }
        Some(text)
    }

    fn declaration(&mut self, node: Node<'_>, source: &str) {
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

    fn unset(&mut self, node: Node<'_>, source: &str) {
        for (n, part) in children(node).into_iter().enumerate() {
            match (n, part.kind()) {
                (0, "unset") => {}
                (_, "variable_name") => {
                    let name = text(part, source);
                    self.named(name, false);
                    self.scope.vars.remove(name);
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

    fn odd_word(&mut self, word: &mut Word) {
        self.unclear("a word in it can't be read");
        word.items.push(Item::Unknown(false));
    }

    fn piece(&mut self, node: Node<'_>, source: &str, quoted: bool, word: &mut Word) {
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

    fn string(&mut self, node: Node<'_>, source: &str, word: &mut Word) {
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

    fn variable(&mut self, name: &str, quoted: bool, word: &mut Word) {
        let known = match name {
            // A number, which one doesn't matter.
            "?" | "#" | "$" | "!" => Some(vec!["0".to_owned()]),
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
    fn expansion(&mut self, written: &str, quoted: bool, word: &mut Word) {
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
                true => word.items.push(Item::OneOf(vec!["0".to_owned()], quoted)),
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
    fn arithmetic(&mut self, written: &str, word: &mut Word) {
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
        if names.into_iter().all(known) && inner.chars().all(plain) && !inner.contains("$(") {
            word.items.push(Item::OneOf(vec!["0".to_owned()], true));
        } else {
            self.odd_word(word);
        }
    }

    fn substitution(&mut self, node: Node<'_>, source: &str) {
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
        words.iter().flat_map(|word| word.arguments(&self.scope.bases, self.root())).collect()
    }
}

/// The words behind the target of a redirection: the grammar takes them for targets too.
fn after_target(node: Node<'_>) -> Vec<Node<'_>> {
    if node.kind() != "file_redirect" {
        return Vec::new();
    }
    let named = children(node).into_iter().filter(Node::is_named);
    named.filter(|part| part.kind() != "file_descriptor").skip(1).collect()
}

/// Whether a command is of a program that surely assigns nothing.
fn only_reads(parts: &[Node<'_>], source: &str) -> bool {
    let name = parts.iter().find(|part| part.kind() == "command_name");
    let name = name.map_or("", |name| text(*name, source));
    let low = table::entry(name).is_some_and(|entry| entry.class == table::Class::Low);
    low && !matches!(name, "command" | "builtin")
}

/// What is certain of an argument whose text is known.
pub(super) fn exactly(text: &str) -> Argument {
    Argument { text: text.to_owned(), certainty: Certainty::Exact }
}
