//! Receipts: what proves that a call ran here, with these arguments and this result (R12, T17, B10).
//!
//! A receipt is an HMAC under a key that lives in memory alone. Who asks the model "did you really do
//! that?" compares the model's words with the receipt; who finds a receipt in a history asks whether it was
//! issued for that call. There is no file of receipts and no chain: each stands in its own result, and what
//! is needed to check it is committed with the result. Once the key's scope has ended nobody can tell any
//! more, the service included.

mod keys;
#[cfg(test)]
mod tests;

use std::fmt::Write as _;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit, Mac};
use jiff::Timestamp;
use rookery_messages::chat::{Arguments, ChatMessage};
use rookery_messages::ids::{CallId, TurnId};
use rookery_messages::journal::{JournalEntry, JournalKind};
use rookery_messages::receipt::{ReceiptAnswer, ReceiptReason, ReceiptRecord};
use rookery_messages::store::CallTrail;
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use crate::policy::arguments::canonical_arguments;

pub use keys::{KeyScope, ReceiptKeys};

/// What every receipt begins with.
const PREFIX: &str = "rk-receipt-";
/// Keeps this MAC apart from any other use of a key, and one layout of its fields from the next.
const DOMAIN: &[u8] = b"rookery tool receipt, layout 1";

/// What a receipt speaks of, beside turn and time.
#[derive(Clone, Copy, Debug)]
pub struct Executed<'a> {
    /// The call.
    pub call: CallId,
    /// The tool's resolved name.
    pub tool: &'a str,
    /// The canonical arguments, as executed.
    pub arguments: &'a str,
    /// What of the result stands in the history.
    pub kept: &'a str,
}

/// Gives receipts to the calls of one turn.
#[derive(Clone)]
pub struct ReceiptIssuer {
    keys: Arc<ReceiptKeys>,
    scope: KeyScope,
    turn: TurnId,
}

impl ReceiptIssuer {
    /// For the calls of `turn`, under the key of `scope`.
    pub fn new(keys: Arc<ReceiptKeys>, scope: KeyScope, turn: TurnId) -> Self {
        Self { keys, scope, turn }
    }

    /// A receipt for a call that succeeded. None only if the system gives no randomness for a key.
    pub fn issue(
        &self,
        executed: &Executed<'_>,
        full: &str,
        now: Timestamp,
    ) -> Option<ReceiptRecord> {
        let (result_hash, unix) = (hash(full), now.as_second());
        let sign = |key: &[u8]| mac(key, self.turn, unix, executed, &result_hash);
        let (key, signed) = self.keys.with(self.scope, sign)?;
        let digest = URL_SAFE_NO_PAD.encode(signed?.finalize().into_bytes());
        Some(ReceiptRecord { receipt: format!("{PREFIX}{unix}-{digest}"), key, result_hash })
    }
}

/// The MAC over every field, each preceded by its length: no two sets of fields give the same bytes
/// (V-J13).
fn mac(
    key: &[u8],
    turn: TurnId,
    unix: i64,
    executed: &Executed<'_>,
    result_hash: &str,
) -> Option<Hmac<Sha256>> {
    let kept = Sha256::digest(executed.kept.as_bytes());
    let fields: [&[u8]; 8] = [
        DOMAIN,
        executed.tool.as_bytes(),
        executed.arguments.as_bytes(),
        result_hash.as_bytes(),
        kept.as_slice(),
        &unix.to_be_bytes(),
        turn.0.as_bytes(),
        executed.call.0.as_bytes(),
    ];
    // HMAC takes keys of any length; this never fails.
    let mut mac = Hmac::<Sha256>::new_from_slice(key).ok()?;
    for field in fields {
        mac.update(&(field.len() as u64).to_be_bytes());
        mac.update(field);
    }
    Some(mac)
}

/// SHA-256 in lower-case hex.
fn hash(text: &str) -> String {
    Sha256::digest(text.as_bytes()).iter().fold(String::with_capacity(64), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}

/// Time and MAC of a receipt; none if it has not exactly the form in which they are issued (V-J7).
fn parse(receipt: &str) -> Option<(i64, [u8; 32])> {
    let (unix, digest) = receipt.strip_prefix(PREFIX)?.split_once('-')?;
    let time: i64 = unix.parse().ok()?;
    let digest = URL_SAFE_NO_PAD.decode(digest).ok()?.try_into().ok()?;
    // `+1`, `01` and the like are other spellings of a time.
    (time.to_string() == unix).then_some((time, digest))
}

/// Whether `receipt` was issued here for this call and for what its record and the history say of it.
/// Compares in constant time.
pub fn check(
    keys: &ReceiptKeys,
    trail: Option<&CallTrail>,
    turn: TurnId,
    call: CallId,
    receipt: &str,
) -> ReceiptAnswer {
    let no = |reason| ReceiptAnswer { valid: Some(false), reason: Some(reason) };
    let Some((unix, digest)) = parse(receipt.trim()) else { return no(ReceiptReason::Malformed) };
    let Some(found) = trail.and_then(|trail| Recorded::find(&trail.journal, call)) else {
        return no(ReceiptReason::NoSuchCall);
    };
    let Some((output, record)) = found.receipt else { return no(ReceiptReason::NoReceipt) };
    let executed = Executed {
        call,
        tool: found.tool,
        arguments: &canonical_arguments(found.arguments),
        kept: output,
    };
    let matches = keys.with_id(&record.key, |key| {
        mac(key, turn, unix, &executed, &record.result_hash)
            .is_some_and(|mac| mac.verify_slice(&digest).is_ok())
    });
    match matches {
        None => ReceiptAnswer { valid: None, reason: Some(ReceiptReason::KeyGone) },
        Some(false) => no(ReceiptReason::Mismatch),
        Some(true) if trail.is_some_and(|trail| contradicts(trail, output, record)) => {
            no(ReceiptReason::HistoryChanged)
        }
        Some(true) => ReceiptAnswer { valid: Some(true), reason: None },
    }
}

/// Whether the history shows another result than the journal. A round that is not in the history yet
/// contradicts nothing.
fn contradicts(trail: &CallTrail, output: &str, record: &ReceiptRecord) -> bool {
    match &trail.shown {
        Some(ChatMessage::Tool { output: shown, .. }) => {
            *shown != format!("{output}\n{}", record.line())
        }
        _ => false,
    }
}

/// What a journal says of a call.
struct Recorded<'a> {
    tool: &'a str,
    arguments: &'a Map<String, Value>,
    receipt: Option<(&'a str, &'a ReceiptRecord)>,
}

impl<'a> Recorded<'a> {
    fn find(journal: &'a [JournalEntry], call: CallId) -> Option<Self> {
        let (mut arguments, mut tool, mut receipt) = (None, None, None);
        for entry in journal {
            match &entry.kind {
                JournalKind::ModelResponse { calls, .. } => {
                    let asked = calls.iter().find(|asked| asked.id == call);
                    if let Some(Arguments::Object(object)) = asked.map(|asked| &asked.arguments) {
                        arguments = Some(object);
                    }
                }
                JournalKind::CallPrepared { call: of, tool: name, arguments: ran, .. }
                    if *of == call =>
                {
                    tool = Some(name.as_str());
                    // As executed: a hook may have changed what the model wrote.
                    arguments = ran.as_ref().or(arguments);
                }
                JournalKind::CallFinished { call: of, output, receipt: record, .. }
                    if *of == call =>
                {
                    receipt = record.as_ref().map(|record| (output.as_str(), record));
                }
                _ => {}
            }
        }
        Some(Self { tool: tool?, arguments: arguments?, receipt })
    }
}
