//! The actor runtime: the only place that touches `ractor` or starts a task.
//!
//! Every actor implements [`Supervised`]; `Host` drives it; [`Ctx`] is what it may do; [`Spawner`] and
//! [`Ctx::spawn`] are the only ways to create one; [`Directory`] knows all that live. The sharp edges of
//! `ractor` are handled here once, each by a test in `tests.rs`.

mod ctx;
mod directory;
mod entry;
mod host;
mod panics;
mod spawn;
mod starter;
mod supervised;
mod tasks;
mod world;

#[cfg(test)]
mod tests;

pub use ctx::{ChildHandle, Ctx};
pub use directory::{
    Cleaner, Directory, ExitHook, ExitRecord, PlaceControl, PlaceOrder, Placeholder,
};
pub use entry::{Entry, Intent};
pub use panics::{PanicReport, install as install_panic_hook};
pub use spawn::{Child, SpawnError, SpawnSpec, Spawner};
pub use starter::{ChildStarter, Parent, StartChild, Starter};
pub use supervised::{ChildExit, Supervised};
pub use tasks::TaskKey;
pub use world::system_world;
