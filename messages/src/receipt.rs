//! Receipts of tool results: data only. How they are made and checked stands in the `actors` crate.

use serde::{Deserialize, Serialize};

/// What is kept of a call's receipt, committed with its result: enough to check it against the history
/// while its key lives, also if the result was cut (V-J11).
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ReceiptRecord {
    /// `rk-receipt-<unix>-<base64url>`.
    pub receipt: String,
    /// Which key made it. Says nothing of the key itself.
    pub key: String,
    /// SHA-256 of the full result, before it was cut; lower-case hex.
    pub result_hash: String,
}

impl ReceiptRecord {
    /// The line a model and a person read below the result.
    pub fn line(&self) -> String {
        format!("[receipt: {}]", self.receipt)
    }
}

/// What is asked of a receipt: `POST /admin/v1/receipts/verify`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReceiptQuestion {
    /// The receipt, as it stands in the result.
    pub receipt: String,
    /// The turn it is said to belong to.
    pub turn: String,
    /// The call it is said to belong to.
    pub call: String,
}

/// What is said of a receipt.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ReceiptAnswer {
    /// It was issued here for this call and its recorded result, or not; none if that can't be told any more.
    pub valid: Option<bool>,
    /// Why it is not valid, or can't be told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<ReceiptReason>,
}

/// Why a receipt is not valid, or can't be checked.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReceiptReason {
    /// It, the turn's id or the call's id has not the right form.
    Malformed,
    /// The turn has no such call.
    NoSuchCall,
    /// The call got no receipt: it did not succeed, or receipts were off.
    NoReceipt,
    /// It was not issued for this call, these arguments and this result.
    Mismatch,
    /// The history shows another result than was recorded.
    HistoryChanged,
    /// The key's scope has ended; nobody can tell any more.
    KeyGone,
}

impl ReceiptReason {
    /// The word in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Malformed => "malformed",
            Self::NoSuchCall => "no_such_call",
            Self::NoReceipt => "no_receipt",
            Self::Mismatch => "mismatch",
            Self::HistoryChanged => "history_changed",
            Self::KeyGone => "key_gone",
        }
    }
}
