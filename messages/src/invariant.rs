//! Checks of the numbered invariants (DESIGN.md, section 9).
//!
//! A violation is counted in production and panics under test, so that a bug has a number.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The invariants that are checked inline.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(usize)]
pub enum Invariant {
    /// At most one turn of a conversation runs; a stale (epoch, attempt) never writes.
    I3 = 0,
    /// Every call gets exactly one outcome, in order; every provider request is well-formed.
    I4,
    /// Every live actor has a live parent up to the root.
    I9,
    /// Depths stay under their caps.
    I10,
}

impl Invariant {
    /// All of them, in order.
    pub const ALL: [Self; 4] = [Self::I3, Self::I4, Self::I9, Self::I10];

    /// The number, as metrics show it.
    pub fn name(self) -> &'static str {
        match self {
            Self::I3 => "I3",
            Self::I4 => "I4",
            Self::I9 => "I9",
            Self::I10 => "I10",
        }
    }
}

static COUNTS: [AtomicU64; 4] =
    [AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0)];
static STRICT: AtomicBool = AtomicBool::new(false);

thread_local! {
    static TOLERATED: Cell<u32> = const { Cell::new(0) };
    static SEEN: Cell<[u64; 4]> = const { Cell::new([0; 4]) };
}

/// While it lives, violations on this thread are counted and don't panic: for the tests that break an
/// invariant on purpose and see its check fire.
#[derive(Debug)]
pub struct Tolerate(());

impl Tolerate {
    /// Until it is dropped.
    pub fn on_this_thread() -> Self {
        TOLERATED.set(TOLERATED.get() + 1);
        SEEN.set([0; 4]);
        Self(())
    }

    /// How often `invariant` was found broken on this thread since then.
    pub fn seen(&self, invariant: Invariant) -> u64 {
        SEEN.get()[invariant as usize]
    }
}

impl Drop for Tolerate {
    fn drop(&mut self) {
        TOLERATED.set(TOLERATED.get() - 1);
    }
}

/// From now on a violation panics. Tests call this; the service never does.
pub fn set_strict(strict: bool) {
    STRICT.store(strict, Ordering::Relaxed);
}

/// How often `invariant` was found broken in this process.
pub fn violations(invariant: Invariant) -> u64 {
    COUNTS[invariant as usize].load(Ordering::Relaxed)
}

/// Counts one violation; panics when strict. Use [`check_invariant!`](crate::check_invariant).
#[allow(clippy::panic, reason = "strict mode exists to fail a test at the place of the fault")]
pub fn violated(invariant: Invariant, detail: &str) {
    COUNTS[invariant as usize].fetch_add(1, Ordering::Relaxed);
    let mut seen = SEEN.get();
    seen[invariant as usize] += 1;
    SEEN.set(seen);
    if STRICT.load(Ordering::Relaxed) && TOLERATED.get() == 0 {
        panic!("invariant {} violated: {detail}", invariant.name());
    }
}

/// Checks a condition that an invariant promises.
///
/// `check_invariant!(I10, depth <= cap, "depth {depth} over {cap}")` gives back whether it held.
#[macro_export]
macro_rules! check_invariant {
    ($id:ident, $cond:expr, $($detail:tt)+) => {{
        let held: bool = $cond;
        if !held {
            $crate::invariant::violated($crate::invariant::Invariant::$id, &format!($($detail)+));
        }
        held
    }};
}
