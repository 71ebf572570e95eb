//! What a test sent and what it was told, held against what the service says of itself.

use std::collections::HashMap;

use serde::Deserialize;

/// `GET /admin/v1/ledger`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
pub struct Ledger {
    /// Messages taken.
    pub accepted: u64,
    /// Ended with a reply.
    pub answered: u64,
    /// Ended without, by policy.
    pub silent: u64,
    /// Failed, and the sender was told.
    pub failed: u64,
    /// Stopped.
    pub cancelled: u64,
    /// Not taken, and the sender was told.
    pub rejected: u64,
    /// Nobody came in time.
    pub expired: u64,
    /// Answered by another's turn.
    pub merged: u64,
    /// Not ended yet.
    pub open: u64,
}

impl Ledger {
    /// Every accepted envelope has one terminal state or is open (I1).
    pub fn adds_up(&self) -> Result<(), String> {
        let ended = self.answered
            + self.silent
            + self.failed
            + self.cancelled
            + self.rejected
            + self.expired
            + self.merged;
        if ended + self.open == self.accepted {
            Ok(())
        } else {
            Err(format!(
                "the ledger doesn't add up: {ended} ended and {} open, {self:?}",
                self.open
            ))
        }
    }
}

/// Which turn each of the test's messages got.
#[derive(Default)]
pub struct Book {
    turns: HashMap<(String, String), String>,
    messages: HashMap<String, (String, String)>,
}

impl Book {
    /// Takes down an answer of the service: this message of this channel has this turn. One message, one
    /// turn, and no turn for two messages (I2).
    pub fn note(&mut self, channel: &str, message: &str, turn: &str) -> Result<(), String> {
        let key = (channel.to_owned(), message.to_owned());
        let known = self.turns.entry(key.clone()).or_insert_with(|| turn.to_owned());
        if known != turn {
            return Err(format!(
                "message {message} of {channel} has two turns: {known} and {turn}"
            ));
        }
        let owner = self.messages.entry(turn.to_owned()).or_insert_with(|| key.clone());
        if *owner != key {
            return Err(format!("turn {turn} stands for two messages: {owner:?} and {key:?}"));
        }
        Ok(())
    }

    /// Every turn the test knows of.
    pub fn turns(&self) -> Vec<String> {
        self.messages.keys().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHOLE: Ledger = Ledger {
        accepted: 7,
        answered: 1,
        silent: 1,
        failed: 1,
        cancelled: 1,
        rejected: 1,
        expired: 1,
        merged: 1,
        open: 0,
    };

    // I1
    #[test]
    fn a_lost_or_doubled_envelope_breaks_the_ledger() {
        assert_eq!(WHOLE.adds_up(), Ok(()));
        assert_eq!(Ledger { accepted: 8, open: 1, ..WHOLE }.adds_up(), Ok(()));
        assert!(Ledger { accepted: 8, ..WHOLE }.adds_up().is_err());
        assert!(Ledger { answered: 2, ..WHOLE }.adds_up().is_err());
    }

    // I2
    #[test]
    fn a_second_turn_for_a_message_is_seen() {
        let mut book = Book::default();
        assert_eq!(book.note("webhook.ci", "m1", "t1"), Ok(()));
        assert_eq!(book.note("webhook.ci", "m1", "t1"), Ok(()));
        assert_eq!(book.note("webhook.b", "m1", "t2"), Ok(()));
        assert!(book.note("webhook.ci", "m1", "t3").is_err());
        assert!(book.note("webhook.ci", "m2", "t1").is_err());
        assert_eq!(book.turns().len(), 2);
    }
}
