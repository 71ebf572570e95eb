//! The walk over a parsed text: every statement, in the order in which a shell runs it.
//!
//! It follows what can be followed for certain: the folder that `cd` leads to, and variables that are
//! assigned once, before they are used. Whatever depends on a branch, a loop or a failure counts both ways.

use std::collections::{HashMap, HashSet};

use tree_sitter::Node;

use super::finding::{Finding, Weight};
use super::places::{Place, Use};
use super::syntax::{children, parse, text};
use super::word::{Argument, Certainty, Word};
use super::{closed, places, table};
use crate::policy::paths::PathGate;

/// How many texts may stand within each other (`sh -c "sh -c ..."`).
const MAX_TEXTS: u32 = 6;

/// Why a path isn't looked up any more.
pub(super) const AFTER_LINKS: &str = "something in it may make links, and where its other paths lead is only known then; run that in a call \
     of its own";

/// What others may do to the workspace between a judgement and the end of what was judged.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub enum Amid {
    /// Nothing that matters.
    #[default]
    Quiet,
    /// Files may come and go.
    Changes,
    /// A command changes things: it may make links too.
    Commands,
}

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
    /// What may go on in the workspace before it starts, and while it runs.
    pub amid: Amid,
}

/// Judges a command: the heaviest thing that it does.
pub fn judge(command: &str, rules: Rules<'_>) -> Finding {
    let mut walk = Walk {
        rules,
        found: Finding::nothing(),
        scope: Scope { bases: rules.bases.to_vec(), ..Scope::default() },
        functions: HashMap::new(),
        assigned: HashMap::new(),
        worded: HashSet::new(),
        links: Links {
            made: rules.amid == Amid::Commands,
            brought_in: rules.amid == Amid::Commands,
            changed: rules.amid > Amid::Quiet,
            ..Links::default()
        },
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
    /// Functions that are surely defined by now, and the folders their bodies were judged for.
    pub(super) functions: HashMap<String, Vec<String>>,
    /// How often each name is assigned in the text at hand.
    pub(super) assigned: HashMap<String, u32>,
    /// Words that stand in the text as they are where a name may be assigned; they are counted as such.
    pub(super) worded: HashSet<String>,
    pub(super) links: Links,
    pub(super) texts: u32,
}

/// What was made of links so far, in the order in which things run.
#[derive(Default)]
pub(super) struct Links {
    /// Something that may make links has run, so that paths may lead elsewhere than they did when looked up.
    pub(super) made: bool,
    /// How many things around what is looked at run at the same time as others.
    pub(super) parallel: u32,
    /// Something that writes what an archive, a patch or a copied folder says has run: it may be a repository.
    pub(super) brought_in: bool,
    /// Something that changes files has run: what patterns find, and which folders there are, is only known then.
    pub(super) changed: bool,
    /// One of those that may still run uses a path.
    pub(super) used: bool,
}

/// What is true at one point of the text.
#[derive(Clone, Default, Debug)]
pub(super) struct Scope {
    /// The folders a command may stand in.
    pub(super) bases: Vec<String>,
    /// Variables whose values are known.
    pub(super) vars: HashMap<String, Vec<String>>,
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
        self.links.changed |= weight >= Weight::Medium;
        self.found.add(weight, reason);
    }

    /// It may run what nothing is known of: of high risk, and no list of programs admits it.
    pub(super) fn may_run(&mut self, reason: impl FnOnce() -> String) {
        let listed = self.rules.allowed.is_some_and(|list| !list.iter().any(|name| name == "*"));
        self.note(if listed { Weight::Unclear } else { Weight::High }, reason);
    }

    pub(super) fn unclear(&mut self, why: &str) {
        self.note(Weight::Unclear, || format!("the command can't be judged: {why}"));
    }

    pub(super) fn closed(&mut self, path: &str) {
        let e = crate::policy::paths::PathError::Forbidden { path: path.to_owned() };
        self.note(Weight::Closed, || e.to_string());
    }

    /// Something that may make links. `used`: something that runs at the same time uses paths. `of_git`: it
    /// is git, which writes to no repository's settings by itself.
    pub(super) fn makes_links(&mut self, used: bool, of_git: bool) {
        self.links.made = true;
        self.links.brought_in |= !of_git;
        if used {
            self.unclear(AFTER_LINKS);
        }
    }

    /// Runs `step`, which runs while other things do; `for_good`: they go on behind it.
    fn at_once(&mut self, for_good: bool, step: impl FnOnce(&mut Self)) {
        let before = std::mem::take(&mut self.links.used);
        self.links.parallel += 1;
        step(self);
        self.links.parallel -= 1;
        self.links.used = before || (self.links.used && (for_good || self.links.parallel > 0));
    }

    /// A path that the command uses.
    pub(super) fn path(&mut self, written: &str, used: Use) {
        if !places::is_sink(written) {
            if self.links.made {
                self.unclear(AFTER_LINKS);
            }
            self.links.used |= self.links.parallel > 0;
        }
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
        let worded = std::mem::take(&mut self.worded);
        self.texts += 1;
        self.scope.vars.clear();
        self.functions.clear();
        self.assigned.clear();
        self.count_assignments(tree.root_node(), source);
        self.statements(tree.root_node(), source);
        self.texts -= 1;
        if self.texts > 0 {
            (self.scope, self.functions, self.assigned) = outer;
            self.worded = worded;
        }
    }

    pub(super) fn count_assignments(&mut self, root: Node<'_>, source: &str) {
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
                "command" if !only_reads(&parts, source) => {
                    parts.iter().filter(|part| part.kind() == "word").for_each(|part| {
                        let word = text(*part, source);
                        count(word);
                        self.worded.insert(word.to_owned());
                    })
                }
                _ => {}
            }
            open.extend(parts);
        }
    }

    /// Runs `step` so that nothing it changes lasts: a subshell, a branch, a loop.
    pub(super) fn aside(&mut self, step: impl FnOnce(&mut Self)) {
        let before = self.scope.clone();
        step(self);
        self.scope = before;
    }

    /// Runs `step`, which may or may not happen.
    pub(super) fn perhaps(&mut self, step: impl FnOnce(&mut Self)) {
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
    pub(super) fn statements(&mut self, node: Node<'_>, source: &str) {
        let parts = children(node);
        for (n, part) in parts.iter().enumerate() {
            if !part.is_named() {
                continue;
            }
            match parts.get(n + 1).map(Node::kind) {
                Some("&") => {
                    self.at_once(true, |walk| {
                        walk.aside(|walk| walk.statement(*part, source));
                    });
                }
                _ => self.statement(*part, source),
            }
        }
    }

    pub(super) fn statement(&mut self, node: Node<'_>, source: &str) {
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

    pub(super) fn list(&mut self, node: Node<'_>, source: &str) {
        let parts = children(node);
        let [left, _, right] = parts[..] else {
            return self.unclear("a list in it has parts that are not known");
        };
        self.statement(left, source);
        self.perhaps(|walk| walk.statement(right, source));
    }

    pub(super) fn pipeline(&mut self, node: Node<'_>, source: &str) {
        let first = children(node).first().is_some_and(Node::is_named);
        self.at_once(false, |walk| {
            let stages = children(node).into_iter().filter(Node::is_named);
            for (n, stage) in stages.enumerate() {
                walk.aside(|walk| {
                    walk.scope.fed |= n > 0 || !first;
                    walk.statement(stage, source);
                });
            }
        });
    }

    /// `if`, `elif`, `else`: what one branch sets is unknown to the next.
    pub(super) fn branches(&mut self, node: Node<'_>, source: &str) {
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

    pub(super) fn looped(&mut self, mut step: impl FnMut(&mut Self)) {
        let (made, changed) = (self.links.made, self.links.changed);
        let mut once = |walk: &mut Self| {
            walk.scope.held = true;
            step(walk);
        };
        self.aside(&mut once);
        // What one round makes is there in the next.
        if (self.links.made && !made) || (self.links.changed && !changed) {
            self.aside(once);
        }
    }

    pub(super) fn for_each(&mut self, node: Node<'_>, source: &str) {
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
                    let word = self.word(*part, source);
                    let arguments = self.expanded(&word);
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

    pub(super) fn case(&mut self, node: Node<'_>, source: &str) {
        for part in children(node).into_iter().filter(Node::is_named) {
            match part.kind() {
                "case_item" => self.perhaps(|walk| walk.case_item(part, source)),
                "comment" => {}
                _ => drop(self.word(part, source)),
            }
        }
    }

    pub(super) fn case_item(&mut self, node: Node<'_>, source: &str) {
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

    pub(super) fn function(&mut self, node: Node<'_>, source: &str) {
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
            bodies = 0;
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
            self.functions.insert(name.to_owned(), self.scope.bases.clone());
        }
    }

    /// A simple command. `more` are words of it that stand behind a redirection.
    pub(super) fn command<'t>(&mut self, node: Node<'t>, mut more: Vec<Node<'t>>, source: &str) {
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
}

/// The words behind the target of a redirection: the grammar takes them for targets too.
pub(super) fn after_target(node: Node<'_>) -> Vec<Node<'_>> {
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
