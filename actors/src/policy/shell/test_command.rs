//! `[ ... ]` and `[[ ... ]]`: they only look, but a shell evaluates some of what they are given.

use tree_sitter::Node;

use super::finding::Weight;
use super::syntax::{children, text};
use super::walk::Walk;
use super::word::{Argument, Certainty};

const BOTH: &[&str] = &["[", "]", "[[", "]]", "=", "==", "!=", "!"];
const NUMBERS: &[&str] = &["-eq", "-ne", "-lt", "-le", "-gt", "-ge"];
const LOOKS: &[&str] = &[
    "-a", "-b", "-c", "-d", "-e", "-f", "-g", "-h", "-k", "-p", "-r", "-s", "-t", "-u", "-w", "-x",
    "-L", "-O", "-G", "-N", "-S", "-n", "-z", "-nt", "-ot", "-ef", "-o",
];

impl Walk<'_> {
    /// A word of `test`, where `--` means nothing: some operators evaluate the word behind them.
    pub(super) fn test_word(&mut self, argument: &Argument) {
        let text = &*argument.text;
        if argument.certainty == Certainty::Loose {
            return self
                .unclear("an argument of `test` can become several; quote it, or write it out");
        }
        if matches!(text, "-v" | "-R") {
            self.note(Weight::High, || format!("`test {text}` evaluates what it is given"));
        }
    }

    /// The words of `test`. One that isn't known may be an operator, unless one follows it.
    pub(super) fn test_words(&mut self, arguments: &[Argument]) {
        for (n, argument) in arguments.iter().enumerate() {
            self.test_word(argument);
            let may_be = !argument.is_known() && matches!(&*argument.text, "" | "-");
            let compared = |next: &Argument| {
                matches!(&*next.text, "=" | "==" | "!=" | ")" | "-nt" | "-ot" | "-ef" | "-a" | "-o")
                    || NUMBERS.contains(&&*next.text)
            };
            if may_be && arguments.get(n + 1).is_some_and(|next| !compared(next)) {
                self.unclear("an operator of `test` is only known when it runs");
            }
        }
    }

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
                    let arguments = self.expanded(&arguments);
                    arguments.iter().for_each(|argument| self.test_word(argument));
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
