//! The threads and the client, on a backend of real files or one that misbehaves on purpose.

mod client;
mod threads;
