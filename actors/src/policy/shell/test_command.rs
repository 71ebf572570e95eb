//! `[ ... ]` and `[[ ... ]]`: they only look, but a shell evaluates some of what they are given.

use tree_sitter::Node;

use super::syntax::{children, text};
use super::walk::Walk;
use super::word::Certainty;

const BOTH: &[&str] = &["[", "]", "[[", "]]", "=", "==", "!=", "!"];
const NUMBERS: &[&str] = &["-eq", "-ne", "-lt", "-le", "-gt", "-ge"];
const LOOKS: &[&str] = &[
    "-a", "-b", "-c", "-d", "-e", "-f", "-g", "-h", "-k", "-p", "-r", "-s", "-t", "-u", "-w", "-x",
    "-L", "-O", "-G", "-N", "-S", "-n", "-z", "-nt", "-ot", "-ef", "-o",
];

impl Walk<'_> {
    /// A test. What is in it is told apart by its operators, so these must be sure.
    pub(super) fn test(&mut self, node: Node<'_>, source: &str) {
        let double = node.child(0).is_some_and(|first| first.kind() == "[[");
        let mut open = vec![node];
        while let Some(node) = open.pop() {
            match node.kind() {
                "test_command"
                | "binary_expression"
                | "unary_expression"
                | "parenthesized_expression" => open.extend(children(node)),
                "test_operator" => {
                    let operator = text(node, source);
                    // Between double brackets a number is evaluated, whatever it came from.
                    let fine =
                        LOOKS.contains(&operator) || (!double && NUMBERS.contains(&operator));
                    if !fine {
                        self.unclear(&format!("the test `{operator}` is not judged"));
                    }
                }
                operator if !node.is_named() => {
                    if !BOTH.contains(&operator) && !LOOKS.contains(&operator) {
                        self.unclear(&format!("`{operator}` in a test is not judged"));
                    }
                }
                _ => {
                    let arguments = self.word(node, source);
                    let arguments = arguments.arguments(&self.scope.bases, self.root());
                    let loose = |a: &super::word::Argument| a.certainty == Certainty::Loose;
                    if !double && (arguments.len() != 1 || arguments.iter().any(loose)) {
                        self.unclear(
                            "a test has words that are only known when it runs; quote them",
                        );
                    }
                }
            }
        }
    }
}
