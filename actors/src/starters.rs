//! The actors that stand right below a supervisor, ready to be started.
//!
//! A supervisor starts them without knowing their types. The functions here are not generic, so that the
//! code of each actor, and of all that it starts, is compiled once, in this crate.

use std::sync::Arc;

use rookery_messages::address::AddressCell;

use crate::channel::{Intake, Receiver, Sender};
use crate::gateway::Gateway;
use crate::memory::MemoryActor;
use crate::model::ProviderActor;
use crate::observe::{ObserverActor, Recorder};
use crate::runtime::{ChildStarter, SpawnSpec, Starter, Supervised};
use crate::session::RouterActor;
use crate::store::StoreActor;
use crate::tool::mcp::McpActor;

/// Where messages to an actor go, whatever its incarnation.
pub type Cell<T> = Arc<AddressCell<<T as Supervised>::Msg>>;

/// Makes the arguments of an incarnation.
pub type MakeArgs<T> = Box<dyn Fn() -> <T as Supervised>::Args + Send + Sync>;

macro_rules! starters {
    ($($(#[$doc:meta])* $name:ident: $actor:ty;)*) => {$(
        $(#[$doc])*
        pub fn $name(spec: SpawnSpec, cell: &Cell<$actor>, args: MakeArgs<$actor>) -> Starter {
            ChildStarter::<$actor>::new(spec, args).behind(Arc::clone(cell)).into()
        }
    )*};
}

starters! {
    /// The store.
    store: StoreActor;
    /// Metrics, log, subscribers.
    observer: ObserverActor;
    /// Crashes and operators' deeds.
    recorder: Recorder;
    /// One provider profile.
    provider: ProviderActor;
    /// One MCP connection.
    mcp: McpActor;
    /// What is remembered.
    memory: MemoryActor;
    /// Sends replies out on one channel.
    sender: Sender;
    /// Takes messages in on one channel.
    intake: Intake;
    /// Listens to one channel's platform.
    receiver: Receiver;
    /// The router, and below it the conversations.
    sessions: RouterActor;
    /// HTTP, WebSocket, admin.
    gateway: Gateway;
}
