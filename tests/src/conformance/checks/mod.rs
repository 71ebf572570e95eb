//! What every channel promises, one function each.

mod answering;
mod asking;
mod bots;
mod receiving;
mod showing;

pub(super) use answering::*;
pub(super) use asking::*;
pub(super) use bots::*;
pub(super) use receiving::*;
pub(super) use showing::*;
