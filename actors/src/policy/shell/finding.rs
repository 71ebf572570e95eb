//! What was found in a command.

/// How much stands against a command. The heaviest finding decides; the order is the order of weight.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Weight {
    /// It only reads, inside the workspace.
    Low,
    /// It changes things in the workspace.
    Medium,
    /// It reaches outside, can't be taken back, or isn't known.
    High,
    /// What it would do can't be told from its text.
    Unclear,
    /// It is refused, whoever says yes.
    Refused,
    /// A program in it is not in `allowed_commands`.
    NotListed,
    /// It touches a closed path.
    Closed,
}

/// The heaviest thing found, and why.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Finding {
    /// How heavy.
    pub weight: Weight,
    /// What was found, naming the words that matter. Empty if nothing was.
    pub reason: String,
    /// What it would run is named in files that no yes to it is bound to: none can stand for later.
    pub unbound: bool,
}

impl Finding {
    /// Nothing found.
    pub(super) fn nothing() -> Self {
        Self { weight: Weight::Low, reason: String::new(), unbound: false }
    }

    /// Keeps the heavier of the two; of equal ones the first.
    pub(super) fn add(&mut self, weight: Weight, reason: impl FnOnce() -> String) {
        if weight > self.weight {
            *self = Self { weight, reason: reason(), unbound: self.unbound };
        }
    }
}
