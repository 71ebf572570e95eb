//! The MCP client: servers' tools as tools of ours.
//!
//! One actor a server ([`McpActor`]) owns the connection's life; a [`Link`] is what the rest of the
//! service sees of it, without a message: its status, its tools, and the session that calls go over. A
//! call is made by the tool's own task, so that a server that hangs or dies costs that call alone. The
//! protocol itself is the official SDK's, behind [`Connector`] and [`Session`].

mod actor;
mod artifact;
mod catalog;
mod client;
mod filter;
mod grant;
mod link;
mod listing;
mod names;
mod result;
mod sdk;
mod search;
mod tool;

#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;

pub use actor::{McpActor, McpArgs, McpMsg};
pub use client::{
    CallError, CallOutput, CallRequest, Connection, Connector, Events, Hints, Page, Part, Session,
    ToolInfo,
};
pub use filter::Filter;
pub use grant::{GrantedTool, McpGrant, ServerGrant};
pub use link::{Link, Status};
pub use names::{policy_name, wire_name};
pub use sdk::{HttpTarget, SdkConnector, StdioTarget, Target};
pub use search::{SEARCH_TOOL, Stub, activated_by, stub_section};
pub use tool::McpTool;

pub(crate) use names::SEPARATOR;
pub(crate) use search::{Activation, ToolSearch};
