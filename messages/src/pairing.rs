//! Pairing: how somebody who is not on a channel's list comes to be allowed.
//!
//! An operator has a one-time code made for a channel and gives it to the person by another way; whoever
//! sends it there is allowed from then on, until the pairing is taken back.

use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::approval::Decider;
use crate::ids::ChannelId;

/// Somebody who paired.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Pairing {
    /// The channel.
    pub channel: ChannelId,
    /// The platform's id of the sender.
    pub sender: String,
    /// What people called them then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub display: Option<String>,
    /// When.
    #[serde(with = "crate::time::millis")]
    pub paired_at: Timestamp,
    /// Who had the code made.
    pub made_by: String,
}

/// A code as it is shown, once, to whoever had it made.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct PairCode {
    /// The channel it is for.
    pub channel: ChannelId,
    /// The code.
    pub code: String,
    /// It is void from then on.
    #[serde(with = "crate::time::millis")]
    pub expires_at: Timestamp,
}

/// A change to who is paired.
#[derive(Clone, Debug)]
pub enum PairingWrite {
    /// Keep a new code; void ones of the channel go.
    NewCode {
        /// The channel.
        channel: ChannelId,
        /// The code's hash.
        hash: String,
        /// Who has it made.
        by: Decider,
        /// Now.
        at: Timestamp,
        /// It is void from then on.
        expires_at: Timestamp,
    },
    /// Somebody who is not allowed says something.
    Knock(Knock),
    /// Take a pairing back.
    Revoke {
        /// The channel.
        channel: ChannelId,
        /// The sender.
        sender: String,
        /// Who.
        by: Decider,
        /// Now.
        at: Timestamp,
    },
}

/// Somebody who is not allowed says something.
#[derive(Clone, Debug)]
pub struct Knock {
    /// The channel.
    pub channel: ChannelId,
    /// The platform's id of the sender.
    pub sender: String,
    /// What people call them.
    pub display: Option<String>,
    /// The hash of the code they sent, if they sent one.
    pub hash: Option<String>,
    /// Now.
    pub at: Timestamp,
    /// How much guessing is borne.
    pub bounds: KnockBounds,
}

/// How much guessing is borne.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KnockBounds {
    /// Wrong codes of one sender …
    pub tries: u32,
    /// … and of all senders of the channel …
    pub channel_tries: u32,
    /// … within this time lock it for as long.
    pub lock: Duration,
    /// A stranger is told how to get access so often at most.
    pub tell_every: Duration,
}

/// What came of a knock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Knocked {
    /// The code is right: they are paired, and the code is used up.
    Paired,
    /// They are paired already.
    Known,
    /// The code is wrong, void or used up.
    Wrong {
        /// Tries that are left.
        left: u32,
    },
    /// Too many were wrong; nothing is looked at before then.
    Locked {
        /// Until when.
        until: Timestamp,
    },
    /// No code.
    Stranger {
        /// They have not been told today how to get access.
        tell: bool,
    },
}
