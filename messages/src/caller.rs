//! Who asks: put into each request by the gateway's authentication, read by whoever must judge it.

use crate::settings::AuthRole;

/// The authenticated caller of a request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Caller {
    /// The token's name; `local` for a loopback caller without a token.
    pub name: String,
    /// What it may do.
    pub role: AuthRole,
    /// By which surface: `http`, `ws`, `cli` …
    pub via: String,
}
