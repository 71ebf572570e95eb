//! Real HTTP and WebSocket on loopback, the real store on a file, a router that only listens.

mod approvals;
mod bad_input;
mod commands;
mod hooks;
mod pairings;
mod rig;
mod roles;
mod sockets;
mod streams;
mod turns;
