//! Lines from standard input, read by a thread that may block.

use std::collections::VecDeque;
use std::io::{BufRead, Read};

use tokio::sync::mpsc;

use crate::exit::Failure;

/// Longest line, in bytes: what a request body may be by default.
const LONGEST: u64 = 1_048_576;

/// Most lines held while the connection is lost.
const MOST_HELD: usize = 64;
/// Leaves the chat.
pub(super) const QUIT: &str = "/quit";

/// What standard input gives.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Input {
    /// A line without its end.
    Line(String),
    /// There is no more.
    Over,
    /// It can't be read.
    Failed(String),
}

/// The lines that were typed, in order. While nobody can be told, they are held.
pub(super) struct Lines {
    source: Option<mpsc::Receiver<Input>>,
    held: VecDeque<Input>,
}

impl Lines {
    /// From standard input; `None` reads nothing.
    pub(super) fn of(source: Option<mpsc::Receiver<Input>>) -> Self {
        Self { source, held: VecDeque::new() }
    }

    /// The next line; never, where nothing is read. Cancel safe.
    pub(super) async fn next(&mut self) -> Input {
        match self.held.pop_front() {
            Some(input) => input,
            None => self.read().await,
        }
    }

    /// Holds what is typed, until somebody wants to leave. Cancel safe.
    pub(super) async fn hold(&mut self) {
        loop {
            if self.held.len() >= MOST_HELD {
                return std::future::pending().await;
            }
            let input = self.read().await;
            if matches!(&input, Input::Line(line) if line.trim() == QUIT) {
                return;
            }
            let last = !matches!(input, Input::Line(_));
            self.held.push_back(input);
            if last {
                self.source = None;
            }
        }
    }

    /// What was typed and is given to nobody.
    pub(super) fn unsent(&mut self) -> Vec<String> {
        if let Some(source) = &mut self.source {
            self.held.extend(std::iter::from_fn(|| source.try_recv().ok()));
        }
        let lines = self.held.drain(..).filter_map(|input| match input {
            Input::Line(line) if !line.trim().is_empty() => Some(line),
            _ => None,
        });
        lines.collect()
    }

    async fn read(&mut self) -> Input {
        match &mut self.source {
            Some(lines) => lines.recv().await.unwrap_or(Input::Over),
            None => std::future::pending().await,
        }
    }
}

/// Starts reading. The thread ends with the input, or when nobody takes lines any more; one that waits
/// in a read ends with the process.
pub(super) fn lines() -> Result<mpsc::Receiver<Input>, Failure> {
    let (sender, receiver) = mpsc::channel(16);
    std::thread::Builder::new()
        .name("stdin".to_owned())
        .spawn(move || {
            let mut stdin = std::io::stdin().lock();
            loop {
                let input = read_line(&mut stdin);
                let last = !matches!(input, Input::Line(_));
                if sender.blocking_send(input).is_err() || last {
                    return;
                }
            }
        })
        .map_err(|error| Failure::failed(format!("can't read standard input: {error}")))?;
    Ok(receiver)
}

fn read_line(reader: &mut impl BufRead) -> Input {
    let mut bytes = Vec::new();
    match reader.by_ref().take(LONGEST).read_until(b'\n', &mut bytes) {
        Err(error) => Input::Failed(error.to_string()),
        Ok(0) => Input::Over,
        Ok(_) => {
            let complete = bytes.ends_with(b"\n");
            if !complete && bytes.len() as u64 == LONGEST {
                return Input::Failed("a line is longer than 1 MiB".to_owned());
            }
            let text = String::from_utf8_lossy(&bytes);
            Input::Line(text.trim_end_matches(['\n', '\r']).to_owned())
        }
    }
}

/// What somebody said to an approval's prompt.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Answer {
    Yes,
    No,
    Always,
    /// Always, in every conversation of the agent.
    AlwaysForAgent,
    /// Yes to all that are shown together.
    AllYes,
    /// No to all that are shown together.
    AllNo,
    /// Give a result instead; its text is asked for next.
    Replace,
}

/// Reads an answer. All that is not clearly something else is *no*; so is an input that ended or failed.
pub(super) fn answer(input: &Input) -> Answer {
    let Input::Line(line) = input else { return Answer::No };
    match line.trim().to_lowercase().as_str() {
        "y" | "yes" => Answer::Yes,
        "a" | "always" => Answer::Always,
        "agent" | "always agent" => Answer::AlwaysForAgent,
        "all" | "yes all" => Answer::AllYes,
        "none" | "no all" => Answer::AllNo,
        "r" | "replace" | "e" | "edit" => Answer::Replace,
        _ => Answer::No,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // V-H7
    #[test]
    fn only_clear_words_approve() {
        let read = |line: &str| answer(&Input::Line(line.to_owned()));
        for line in ["y", "Y", "yes", "YES", " Yes "] {
            assert_eq!(read(line), Answer::Yes, "{line:?}");
        }
        for line in ["a", "A", "always", "ALWAYS"] {
            assert_eq!(read(line), Answer::Always, "{line:?}");
        }
        for line in ["r", "replace", "E", "edit"] {
            assert_eq!(read(line), Answer::Replace, "{line:?}");
        }
        assert_eq!(read("always agent"), Answer::AlwaysForAgent);
        assert_eq!((read("All"), read("none")), (Answer::AllYes, Answer::AllNo));
        for line in ["", " ", "n", "no", "yep", "yes!", "ya", "ok", "1", "y y", "ｙ"] {
            assert_eq!(read(line), Answer::No, "{line:?}");
        }
        assert_eq!(answer(&Input::Over), Answer::No);
    }

    #[tokio::test]
    async fn lines_are_held_until_somebody_can_be_told_and_what_nobody_was_told_is_known() {
        let (sender, receiver) = mpsc::channel(8);
        let mut lines = Lines::of(Some(receiver));
        for line in ["one", " ", "two", "/quit", "three"] {
            sender.try_send(Input::Line(line.to_owned())).unwrap();
        }
        // Ends at `/quit`, and only there.
        lines.hold().await;
        assert_eq!(lines.next().await, Input::Line("one".to_owned()));
        assert_eq!(lines.unsent(), ["two", "three"]);
        assert_eq!(lines.unsent(), Vec::<String>::new());
    }

    // V-H8
    #[test]
    fn a_terminal_that_cannot_be_read_means_no() {
        struct Broken;
        impl Read for Broken {
            fn read(&mut self, _: &mut [u8]) -> std::io::Result<usize> {
                Err(std::io::Error::other("gone"))
            }
        }
        let input = read_line(&mut std::io::BufReader::new(Broken));
        assert_eq!(input, Input::Failed("gone".to_owned()));
        assert_eq!(answer(&input), Answer::No);
    }

    #[test]
    fn lines_end_at_breaks_and_the_input_ends_once() {
        let mut reader = std::io::Cursor::new(b"one\r\n\ntwo".to_vec());
        let mut next = || read_line(&mut reader);
        assert_eq!(next(), Input::Line("one".to_owned()));
        assert_eq!(next(), Input::Line(String::new()));
        assert_eq!(next(), Input::Line("two".to_owned()));
        assert_eq!(next(), Input::Over);
        let mut long = std::io::Cursor::new(vec![b'x'; LONGEST as usize + 1]);
        assert!(matches!(read_line(&mut long), Input::Failed(_)));
    }
}
