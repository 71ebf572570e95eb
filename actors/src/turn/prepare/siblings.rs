//! What the calls of one response may do to each other: they run at the same time.

use crate::policy::shell::Amid;

/// What stands beside one call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Beside {
    /// No other call changes anything.
    pub(super) alone: bool,
    /// What the others may do to the workspace.
    pub(super) amid: Amid,
}

/// What each call of a response may do.
pub(super) struct Siblings {
    each: Vec<Option<Amid>>,
    changing: usize,
    files: usize,
    commands: usize,
}

impl Siblings {
    /// From what each call may do; none: it only reads.
    pub(super) fn of(each: impl Iterator<Item = Option<Amid>>) -> Self {
        let each: Vec<_> = each.collect();
        let count = |wanted: Amid| each.iter().filter(|one| **one == Some(wanted)).count();
        let (files, commands) = (count(Amid::Changes), count(Amid::Commands));
        Self { changing: each.iter().flatten().count(), files, commands, each }
    }

    /// What stands beside the call at this place.
    pub(super) fn of_one(&self, index: usize) -> Beside {
        let own = self.each.get(index).copied().flatten();
        let others = |all: usize, kind: Amid| all > usize::from(own == Some(kind));
        let amid = if others(self.commands, Amid::Commands) {
            Amid::Commands
        } else if others(self.files, Amid::Changes) {
            Amid::Changes
        } else {
            Amid::Quiet
        };
        // As for a grant that is bound to files: one that changes things, be it this one, is no matter.
        Beside { alone: self.changing <= 1, amid }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_stands_beside_the_others_and_not_beside_itself() {
        let amid = |each: &[Option<Amid>]| -> Vec<Amid> {
            let siblings = Siblings::of(each.iter().copied());
            (0..each.len()).map(|index| siblings.of_one(index).amid).collect()
        };
        let (quiet, changes, commands) = (Amid::Quiet, Amid::Changes, Amid::Commands);
        assert_eq!(amid(&[Some(commands)]), [quiet]);
        assert_eq!(amid(&[Some(commands), None]), [quiet, commands]);
        assert_eq!(amid(&[Some(commands), Some(quiet), None]), [quiet, commands, commands]);
        assert_eq!(amid(&[Some(changes), Some(changes)]), [changes, changes]);
        assert_eq!(amid(&[Some(changes), Some(commands)]), [commands, changes]);
    }
}
