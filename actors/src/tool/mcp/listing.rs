//! When a server's list is read again. Pure: the actor carries it out (A106, A107).
//!
//! Announcements are collected for a moment; one reading runs at a time, and what is announced
//! meanwhile is read once more afterwards. An empty list after one that was not is read again before it
//! is believed.

/// What the actor is to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Step {
    /// Nothing.
    Nothing,
    /// Wait for more announcements, then call [`Listing::begin`].
    Debounce,
    /// Read the list now, then call [`Listing::ended`].
    Read,
    /// Wait a little, then call [`Listing::begin`]: the list was empty.
    Recheck,
    /// The list that was read is the server's.
    Accept,
    /// It is, and another announcement came meanwhile: publish it, then [`Step::Debounce`].
    AcceptAndDebounce,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum State {
    #[default]
    Idle,
    /// A timer runs.
    Waiting,
    Reading {
        again: bool,
    },
}

/// The readings of one connection.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Listing {
    state: State,
    rechecking: bool,
}

impl Listing {
    /// The connection is up: its first reading.
    pub(super) fn first(&mut self) -> Step {
        *self = Self { state: State::Reading { again: false }, rechecking: false };
        Step::Read
    }

    /// The server says that its list changed.
    pub(super) fn announced(&mut self) -> Step {
        match self.state {
            State::Idle => {
                self.state = State::Waiting;
                Step::Debounce
            }
            State::Waiting => Step::Nothing,
            State::Reading { .. } => {
                self.state = State::Reading { again: true };
                Step::Nothing
            }
        }
    }

    /// The wait is over.
    pub(super) fn begin(&mut self) -> Step {
        match self.state {
            State::Waiting => {
                self.state = State::Reading { again: false };
                Step::Read
            }
            State::Idle | State::Reading { .. } => Step::Nothing,
        }
    }

    /// A reading ended with so many tools, where so many were known.
    pub(super) fn ended(&mut self, found: usize, known: usize) -> Step {
        let State::Reading { again } = self.state else { return Step::Nothing };
        if found == 0 && known > 0 && !self.rechecking {
            self.rechecking = true;
            self.state = State::Waiting;
            return Step::Recheck;
        }
        self.rechecking = false;
        if again {
            self.state = State::Waiting;
            Step::AcceptAndDebounce
        } else {
            self.state = State::Idle;
            Step::Accept
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // A106, A107
    #[test]
    fn a_burst_of_announcements_is_one_reading_and_one_more_for_what_came_meanwhile() {
        let mut listing = Listing::default();
        assert_eq!(listing.announced(), Step::Debounce);
        for _ in 0..4 {
            assert_eq!(listing.announced(), Step::Nothing);
        }
        assert_eq!(listing.begin(), Step::Read);
        assert_eq!(listing.announced(), Step::Nothing);
        assert_eq!(listing.announced(), Step::Nothing);
        assert_eq!(listing.ended(3, 3), Step::AcceptAndDebounce);
        assert_eq!(listing.begin(), Step::Read);
        assert_eq!(listing.ended(4, 3), Step::Accept);
        assert_eq!(listing.announced(), Step::Debounce);
    }

    // A107
    #[test]
    fn an_empty_list_after_one_that_was_not_is_believed_the_second_time() {
        let mut listing = Listing::default();
        listing.announced();
        listing.begin();
        assert_eq!(listing.ended(0, 3), Step::Recheck);
        assert_eq!(listing.announced(), Step::Nothing);
        assert_eq!(listing.begin(), Step::Read);
        assert_eq!(listing.ended(0, 3), Step::Accept);
        // One that was empty before is nothing new.
        listing.announced();
        listing.begin();
        assert_eq!(listing.ended(0, 0), Step::Accept);
    }

    #[test]
    fn a_first_list_may_be_empty() {
        let mut listing = Listing::default();
        assert_eq!(listing.first(), Step::Read);
        assert_eq!(listing.ended(0, 0), Step::Accept);
    }
}
