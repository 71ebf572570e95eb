//! A command's output, bounded: its beginning and its end (V-M23).

use std::collections::VecDeque;

/// Bytes kept from the beginning.
const HEAD_BYTES: usize = 768 * 1_024;
/// Bytes kept from the end. Together 1 MiB.
const TAIL_BYTES: usize = 256 * 1_024;

/// What is kept of an output of any length.
#[derive(Default)]
pub(super) struct Kept {
    head: Vec<u8>,
    tail: VecDeque<u8>,
    left_out: u64,
}

impl Kept {
    /// Takes the next bytes.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        let room = HEAD_BYTES - self.head.len();
        let (head, rest) = bytes.split_at(bytes.len().min(room));
        self.head.extend_from_slice(head);
        self.tail.extend(rest);
        let over = self.tail.len().saturating_sub(TAIL_BYTES);
        self.tail.drain(..over);
        self.left_out += over as u64;
    }

    /// All of it as text; bytes that are no UTF-8 become U+FFFD. A cut splits no character.
    pub(super) fn into_text(mut self) -> String {
        if self.left_out == 0 {
            self.head.extend(self.tail);
            return String::from_utf8_lossy(&self.head).into_owned();
        }
        let mut left_out = self.left_out;
        let mut drop_from_head = 0;
        if let Err(e) = std::str::from_utf8(&self.head)
            && let Some(last) = self.head.utf8_chunks().last()
            && e.error_len().is_none()
        {
            drop_from_head = last.invalid().len();
        }
        self.head.truncate(self.head.len() - drop_from_head);
        left_out += drop_from_head as u64;
        // At most three bytes continue a character that began before the cut.
        let continues = |byte: &&u8| **byte & 0b1100_0000 == 0b1000_0000;
        let split = self.tail.iter().take(3).take_while(continues).count();
        self.tail.drain(..split);
        left_out += split as u64;
        let head = String::from_utf8_lossy(&self.head);
        let tail = String::from_utf8_lossy(self.tail.make_contiguous());
        format!("{head}\n[… {left_out} bytes of output left out …]\n{tail}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // V-M23, A136
    #[test]
    fn a_long_output_keeps_its_beginning_and_end_and_splits_no_character() {
        let mut kept = Kept::default();
        let text = "€".repeat(700_000);
        for chunk in text.as_bytes().chunks(1_000) {
            kept.push(chunk);
        }
        let shown = kept.into_text();
        assert!(!shown.contains('\u{fffd}'));
        assert!(shown.starts_with("€€") && shown.ends_with("€€"));
        let left_out: usize = shown
            .split("[… ")
            .nth(1)
            .and_then(|rest| rest.split(' ').next())
            .and_then(|n| n.parse().ok())
            .expect("the marker says how much is missing");
        assert_eq!(left_out + shown.matches('€').count() * 3, text.len());
        assert!(shown.len() <= 1_024 * 1_024 + 64);
    }

    #[test]
    fn an_output_that_fits_is_kept_as_it_is() {
        let mut kept = Kept::default();
        let text = "ä".repeat(HEAD_BYTES / 2 + 100);
        kept.push(text.as_bytes());
        assert_eq!(kept.into_text(), text);
        let mut kept = Kept::default();
        kept.push(b"a\xff\n");
        assert_eq!(kept.into_text(), "a\u{fffd}\n");
    }
}
