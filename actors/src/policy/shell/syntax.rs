//! The parse, and what is checked of it before anything is read from it.
//!
//! The grammar is a third party's, made for editors: it recovers from what it can't read, and it knows
//! dialects. So only kinds of nodes that are understood here are let through, every byte has to belong to
//! one of them, and here-documents are counted again.

use std::ops::ControlFlow;

use tree_sitter::{Node, ParseOptions, Parser, Tree};

use crate::policy::display::is_hidden;

/// Longest text that is read, in bytes.
const MAX_BYTES: usize = 16_384;
/// Most characters that may open or part something: what the parser takes for a text that it can't read
/// grows with the square of their number.
const MAX_MARKS: usize = 600;
/// Deepest nesting of nodes.
const MAX_DEPTH: usize = 96;
/// Most nodes.
const MAX_NODES: usize = 20_000;
/// How often the parser may report progress (about every hundred of its steps) before it is stopped.
const MAX_PROGRESS: u32 = 2_000;

const KINDS: &[&str] = &[
    "program",
    "list",
    "pipeline",
    "command",
    "command_name",
    "word",
    "number",
    "string",
    "string_content",
    "raw_string",
    "ansi_c_string",
    "concatenation",
    "brace_expression",
    "simple_expansion",
    "expansion",
    "variable_name",
    "special_variable_name",
    "command_substitution",
    "process_substitution",
    "arithmetic_expansion",
    "binary_expression",
    "unary_expression",
    "parenthesized_expression",
    "ternary_expression",
    "redirected_statement",
    "file_redirect",
    "file_descriptor",
    "herestring_redirect",
    "heredoc_redirect",
    "heredoc_start",
    "heredoc_body",
    "heredoc_content",
    "heredoc_end",
    "variable_assignment",
    "variable_assignments",
    "subshell",
    "compound_statement",
    "do_group",
    "if_statement",
    "elif_clause",
    "else_clause",
    "for_statement",
    "while_statement",
    "case_statement",
    "case_item",
    "extglob_pattern",
    "regex",
    "function_definition",
    "negated_command",
    "test_command",
    "test_operator",
    "declaration_command",
    "unset_command",
    "comment",
];

/// Kinds between whose children a newline would end the command.
const ONE_LINE: &[&str] = &["command", "declaration_command", "unset_command", "file_redirect"];
/// Kinds whose children touch each other.
const SOLID: &[&str] = &["concatenation", "variable_assignment", "brace_expression"];

/// Parses a text; an error says why it can't be judged.
pub(super) fn parse(text: &str) -> Result<Tree, String> {
    if text.len() > MAX_BYTES {
        return Err(format!("it is longer than {MAX_BYTES} bytes, which is more than is judged"));
    }
    if let Some(c) = text.chars().find(|&c| is_hidden(c) && !matches!(c, '\n' | '\t')) {
        return Err(format!("it holds the hidden character U+{:04X}", u32::from(c)));
    }
    // What a shell takes for one word there, a reader of it, and the grammar, may take for two.
    let joins = |at: usize| !text[..at].ends_with(|c: char| c.is_whitespace());
    if text.match_indices("\\\n").any(|(at, _)| at > 0 && joins(at)) {
        return Err("a line of it is continued within a word".to_owned());
    }
    if text.bytes().filter(|b| b"({[`|;&<\"".contains(b)).nth(MAX_MARKS).is_some() {
        return Err("it has more parts than are judged".to_owned());
    }
    let tree = run(text).ok_or_else(|| "the shell grammar can't read it in time".to_owned())?;
    check(&tree, text)?;
    Ok(tree)
}

fn run(text: &str) -> Option<Tree> {
    let mut parser = Parser::new();
    parser.set_language(&tree_sitter_bash::LANGUAGE.into()).ok()?;
    let mut reports = 0;
    let mut progress = |state: &tree_sitter::ParseState| {
        reports += 1;
        // It need not recover from what is refused anyway.
        if reports > MAX_PROGRESS || state.has_error() {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    };
    let options = ParseOptions::new().progress_callback(&mut progress);
    parser.parse_with_options(&mut |at, _| &text.as_bytes()[at..], None, Some(options))
}

/// The children of a node, in order.
pub(super) fn children(node: Node<'_>) -> Vec<Node<'_>> {
    let mut cursor = node.walk();
    node.children(&mut cursor).collect()
}

/// The text of a node.
pub(super) fn text<'s>(node: Node<'_>, source: &'s str) -> &'s str {
    source.get(node.byte_range()).unwrap_or("")
}

fn check(tree: &Tree, source: &str) -> Result<(), String> {
    let root = tree.root_node();
    if root.has_error() {
        return Err("the shell grammar can't read it".to_owned());
    }
    let mut open = vec![(root, 0)];
    let mut nodes = 0;
    let mut leaves = Vec::new();
    let mut documents = Vec::new();
    while let Some((node, depth)) = open.pop() {
        nodes += 1;
        if nodes > MAX_NODES || depth > MAX_DEPTH {
            return Err("it is nested too deeply, or too long".to_owned());
        }
        if node.is_error()
            || node.is_missing()
            || (node.is_named() && !KINDS.contains(&node.kind()))
        {
            return Err(format!("`{}` is not judged", node.kind()));
        }
        check_gaps(node, source)?;
        match node.kind() {
            "comment" => check_comment(node, source)?,
            "heredoc_redirect" => {
                check_document(node, source)?;
                documents.push(node.start_position().row);
            }
            _ => {}
        }
        let whole = matches!(node.kind(), "string" | "heredoc_body");
        if node.child_count() == 0 || whole {
            leaves.push(node.byte_range());
        }
        open.extend(children(node).into_iter().map(|child| (child, depth + 1)));
    }
    documents.sort_unstable();
    if documents.windows(2).any(|two| two[0] == two[1]) {
        return Err("two here-documents begin on one line".to_owned());
    }
    leaves.sort_unstable_by_key(|range| (range.start, range.end));
    let mut at = 0;
    for leaf in leaves {
        if leaf.start > at && !is_blank(source.get(at..leaf.start)) {
            return Err("a part of it belongs to no command that is understood".to_owned());
        }
        at = at.max(leaf.end);
    }
    match is_blank(source.get(at..)) {
        true => Ok(()),
        false => Err("a part of it belongs to no command that is understood".to_owned()),
    }
}

/// Blanks, ends of lines, and lines that go on.
fn is_blank(gap: Option<&str>) -> bool {
    gap.is_some_and(|gap| {
        gap.replace("\\\n", "").bytes().all(|b| matches!(b, b' ' | b'\t' | b'\n'))
    })
}

fn check_gaps(node: Node<'_>, source: &str) -> Result<(), String> {
    let one_line = ONE_LINE.contains(&node.kind());
    let solid = SOLID.contains(&node.kind());
    if !one_line && !solid {
        return Ok(());
    }
    for two in children(node).windows(2) {
        let gap = source.get(two[0].end_byte()..two[1].start_byte()).unwrap_or("\n");
        let redirect = matches!(two[1].kind(), "file_redirect" | "herestring_redirect")
            || node.kind() == "file_redirect";
        if (solid && !gap.is_empty())
            || (one_line && gap.replace("\\\n", "").contains('\n'))
            // Words that touch are one word to a shell.
            || (one_line && gap.is_empty() && !redirect)
        {
            return Err("its words can't be told apart".to_owned());
        }
    }
    Ok(())
}

fn check_comment(node: Node<'_>, source: &str) -> Result<(), String> {
    let before = source.get(..node.start_byte()).and_then(|text| text.chars().next_back());
    let begins =
        before.is_none_or(|c| matches!(c, ' ' | '\t' | '\n' | ';' | '&' | '|' | '(' | ')'));
    if !begins || text(node, source).contains('\n') {
        return Err("a comment in it can't be told from a command".to_owned());
    }
    Ok(())
}

/// A here-document ends where a shell says it does: at the first line that is its word.
fn check_document(node: Node<'_>, source: &str) -> Result<(), String> {
    let odd = || "a here-document in it can't be followed".to_owned();
    let parts = children(node);
    let part = |kind: &str| parts.iter().find(|child| child.kind() == kind).copied();
    let start = part("heredoc_start").ok_or_else(odd)?;
    let end = part("heredoc_end").ok_or_else(odd)?;
    let (word, _) = document_word(text(start, source)).ok_or_else(odd)?;
    let row = start.start_position().row;
    let on_opener = parts
        .iter()
        .filter(|child| !matches!(child.kind(), "heredoc_body" | "heredoc_end"))
        .all(|child| child.end_position().row == row);
    let tabs = parts.first().is_some_and(|child| child.kind() == "<<-");
    let line = |line: &str| match tabs {
        true => line.trim_start_matches('\t') == word,
        false => line == word,
    };
    let last = source.split('\n').skip(row + 1).position(line).map(|n| row + 1 + n);
    let ends = text(end, source).trim_start_matches('\t') == word;
    if !on_opener || !ends || last != Some(end.end_position().row) {
        return Err(odd());
    }
    Ok(())
}

/// The word that ends a here-document, and whether what stands in it is expanded.
pub(super) fn document_word(start: &str) -> Option<(&str, bool)> {
    let quoted = |quote: char| start.strip_prefix(quote).and_then(|rest| rest.strip_suffix(quote));
    let (word, expanded) = match quoted('\'').or_else(|| quoted('"')) {
        Some(word) => (word, false),
        None => (start, true),
    };
    let plain = word.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    (plain && !word.is_empty() && word.len() <= 64).then_some((word, expanded))
}
