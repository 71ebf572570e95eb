//! What has to be known of the lines before a fence.

/// Remembers the line in work and the last one that was not blank.
#[derive(Debug)]
pub(super) struct Lines {
    /// Nothing but white space stands in this line so far.
    pub(super) blank: bool,
    word: String,
    here: bool,
    before: bool,
}

/// Longest word that is told apart.
const MAX_WORD: usize = 16;

impl Default for Lines {
    fn default() -> Self {
        Self { blank: true, word: String::new(), here: false, before: false }
    }
}

impl Lines {
    /// Takes text that was released.
    pub(super) fn read(&mut self, text: &str) {
        for byte in text.bytes() {
            if byte.is_ascii_alphabetic() {
                self.blank = false;
                if self.word.len() < MAX_WORD {
                    self.word.push(char::from(byte.to_ascii_lowercase()));
                }
                continue;
            }
            self.end_word();
            if byte == b'\n' {
                if !self.blank {
                    self.before = self.here;
                }
                self.here = false;
                self.blank = true;
            } else if !byte.is_ascii_whitespace() {
                self.blank = false;
            }
        }
    }

    fn end_word(&mut self) {
        self.here |= is_example(&self.word);
        self.word.clear();
    }

    /// Whether the last line with anything in it presents what follows as an example (V-E11).
    pub(super) fn presents_example(&self) -> bool {
        if self.blank { self.before } else { self.here || is_example(&self.word) }
    }
}

fn is_example(word: &str) -> bool {
    matches!(word, "example" | "examples")
}

/// Whether the word stands in a text.
pub(super) fn says_example(text: &str) -> bool {
    text.split(|c: char| !c.is_ascii_alphabetic())
        .any(|word| is_example(&word.to_ascii_lowercase()))
}
