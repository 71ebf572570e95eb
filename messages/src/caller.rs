//! Who calls the API, as the gateway found out. Handlers find it in the request's extensions.

use crate::settings::AuthRole;

/// An authenticated caller.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Caller {
    /// The token's name, or `local` for a loopback caller without a token.
    pub name: String,
    /// What the caller may do.
    pub role: AuthRole,
    /// The surface: `admin`, `api`, `ws`, `webhook`.
    pub via: String,
}
