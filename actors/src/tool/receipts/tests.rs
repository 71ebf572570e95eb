use std::sync::Arc;

use proptest::prelude::*;
use rookery_messages::chat::{ToolCall, Usage};
use rookery_messages::ids::ConversationId;
use rookery_messages::tool::Effects;
use rookery_messages::turn::CallState;
use serde_json::json;
use uuid::Uuid;

use super::*;

const TURN: u128 = 7;

fn call(n: u128) -> CallId {
    CallId(Uuid::from_u128(n))
}

fn turn(n: u128) -> TurnId {
    TurnId(Uuid::from_u128(n))
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

/// One call as it ran: what the journal has of it, and its receipt.
#[derive(Clone)]
struct Ran {
    tool: String,
    arguments: Map<String, Value>,
    full: String,
    kept: String,
}

fn ran() -> Ran {
    let Value::Object(arguments) = json!({"command": "date", "n": 1}) else { panic!() };
    Ran { tool: "shell".into(), arguments, full: "monday".into(), kept: "monday".into() }
}

fn issue(keys: &Arc<ReceiptKeys>, ran: &Ran, n: u128, second: i64) -> ReceiptRecord {
    let issuer = ReceiptIssuer::new(keys.clone(), KeyScope::Process, turn(TURN));
    let arguments = canonical_arguments(&ran.arguments);
    let executed =
        Executed { call: call(n), tool: &ran.tool, arguments: &arguments, kept: &ran.kept };
    issuer.issue(&executed, &ran.full, at(second)).unwrap()
}

/// The journal and history of a turn with one call, as they would stand.
fn trail(ran: &Ran, n: u128, receipt: Option<ReceiptRecord>) -> CallTrail {
    let entries = [
        JournalKind::ModelResponse {
            iteration: 1,
            text: String::new(),
            calls: vec![ToolCall {
                id: call(n),
                provider_id: None,
                name: ran.tool.clone(),
                arguments: Arguments::Object(ran.arguments.clone()),
            }],
            usage: Usage::default(),
            opaque: Vec::new(),
        },
        JournalKind::CallPrepared {
            call: call(n),
            tool: ran.tool.clone(),
            state: CallState::Planned,
            arguments: None,
            effects: Effects::Once,
            output: None,
            same_as: None,
            brings_in: false,
        },
        JournalKind::CallFinished {
            call: call(n),
            state: CallState::Succeeded,
            output: ran.kept.clone(),
            receipt: receipt.clone(),
        },
    ];
    let line = receipt.map(|record| format!("\n{}", record.line())).unwrap_or_default();
    CallTrail {
        journal: (0..)
            .zip(entries)
            .map(|(seq, kind)| JournalEntry { attempt: 1, seq, kind })
            .collect(),
        shown: Some(ChatMessage::Tool {
            call: call(n),
            wire_id: "w".into(),
            name: ran.tool.clone(),
            outside: false,
            output: format!("{}{line}", ran.kept),
        }),
    }
}

fn answer(valid: Option<bool>, reason: Option<ReceiptReason>) -> ReceiptAnswer {
    ReceiptAnswer { valid, reason }
}

fn no(reason: ReceiptReason) -> ReceiptAnswer {
    answer(Some(false), Some(reason))
}

const YES: ReceiptAnswer = ReceiptAnswer { valid: Some(true), reason: None };

// V-J6, B10
#[test]
fn the_same_call_gives_the_same_receipt_and_any_changed_field_makes_it_invalid() {
    let keys: Arc<ReceiptKeys> = Arc::default();
    let ran = ran();
    let record = issue(&keys, &ran, 1, 1_000);
    assert_eq!(record, issue(&keys, &ran, 1, 1_000));
    let receipt = record.receipt.clone();
    assert!(receipt.starts_with("rk-receipt-1000-") && receipt.len() == 16 + 43, "{receipt}");
    let good = trail(&ran, 1, Some(record.clone()));
    assert_eq!(check(&keys, Some(&good), turn(TURN), call(1), &receipt), YES);

    let changes: [fn(&mut Ran); 4] = [
        |ran| ran.tool = "Shell".into(),
        |ran| ran.arguments["command"] = json!("date -u"),
        |ran| ran.arguments["n"] = json!("1"),
        |ran| ran.kept = "tuesday".into(),
    ];
    for change in changes {
        let mut other = ran.clone();
        change(&mut other);
        let changed = trail(&other, 1, Some(record.clone()));
        let said = check(&keys, Some(&changed), turn(TURN), call(1), &receipt);
        assert_eq!(said, no(ReceiptReason::Mismatch));
    }
    let other_result = ReceiptRecord { result_hash: hash("tuesday"), ..record.clone() };
    let changed = trail(&ran, 1, Some(other_result));
    let said = check(&keys, Some(&changed), turn(TURN), call(1), &receipt);
    assert_eq!(said, no(ReceiptReason::Mismatch));
    let later = receipt.replace("-1000-", "-1001-");
    assert_eq!(check(&keys, Some(&good), turn(TURN), call(1), &later), no(ReceiptReason::Mismatch));
    assert_eq!(check(&keys, Some(&good), turn(8), call(1), &receipt), no(ReceiptReason::Mismatch));
    // The same receipt on another call of the turn.
    let moved = trail(&ran, 2, Some(record));
    assert_eq!(
        check(&keys, Some(&moved), turn(TURN), call(2), &receipt),
        no(ReceiptReason::Mismatch)
    );
}

// V-J6: as executed, not as the model wrote them.
#[test]
fn arguments_that_a_hook_changed_are_those_the_receipt_speaks_of() {
    let keys: Arc<ReceiptKeys> = Arc::default();
    let written = ran();
    let mut executed = written.clone();
    executed.arguments["command"] = json!("date -u");
    let record = issue(&keys, &executed, 1, 1_000);
    let receipt = record.receipt.clone();
    let mut changed = trail(&written, 1, Some(record));
    let said = check(&keys, Some(&changed), turn(TURN), call(1), &receipt);
    assert_eq!(said, no(ReceiptReason::Mismatch));
    for entry in &mut changed.journal {
        if let JournalKind::CallPrepared { arguments, .. } = &mut entry.kind {
            *arguments = Some(executed.arguments.clone());
        }
    }
    assert_eq!(check(&keys, Some(&changed), turn(TURN), call(1), &receipt), YES);
}

// V-J12, B10
#[test]
fn two_identical_calls_in_one_second_get_distinct_receipts() {
    let keys: Arc<ReceiptKeys> = Arc::default();
    let (first, second) = (issue(&keys, &ran(), 1, 5), issue(&keys, &ran(), 2, 5));
    assert_ne!(first.receipt, second.receipt);
    let trail = trail(&ran(), 1, Some(first));
    let said = check(&keys, Some(&trail), turn(TURN), call(1), &second.receipt);
    assert_eq!(said, no(ReceiptReason::Mismatch));
}

// V-J11
#[test]
fn a_result_that_was_cut_is_verified_by_the_hash_of_the_full_one() {
    let keys: Arc<ReceiptKeys> = Arc::default();
    let full = "0123456789".repeat(100);
    let kept = crate::tool::truncate::truncate_result(&full, 30);
    let ran = Ran { full: full.clone(), kept, ..ran() };
    let record = issue(&keys, &ran, 1, 1);
    assert_eq!(record.result_hash, hash(&full));
    let receipt = record.receipt.clone();
    let good = trail(&ran, 1, Some(record.clone()));
    assert_eq!(check(&keys, Some(&good), turn(TURN), call(1), &receipt), YES);
    // What is left of it can't be exchanged either, in the journal or in the history alone.
    let forged = Ran { kept: ran.kept.replace('0', "1"), ..ran.clone() };
    let changed = trail(&forged, 1, Some(record));
    let said = check(&keys, Some(&changed), turn(TURN), call(1), &receipt);
    assert_eq!(said, no(ReceiptReason::Mismatch));
    let half = CallTrail { shown: changed.shown, ..good.clone() };
    let said = check(&keys, Some(&half), turn(TURN), call(1), &receipt);
    assert_eq!(said, no(ReceiptReason::HistoryChanged));
    // A round that is not in the history yet contradicts nothing.
    let early = CallTrail { shown: None, ..good };
    assert_eq!(check(&keys, Some(&early), turn(TURN), call(1), &receipt), YES);
}

// T17, B10: a key that is gone can't tell, whatever is asked; what has no receipt is no mystery.
#[test]
fn after_the_keys_end_nobody_can_tell_and_a_call_without_receipt_has_none() {
    let keys: Arc<ReceiptKeys> = Arc::default();
    let record = issue(&keys, &ran(), 1, 1);
    let receipt = record.receipt.clone();
    let good = trail(&ran(), 1, Some(record));
    let next_life = ReceiptKeys::default();
    let gone = answer(None, Some(ReceiptReason::KeyGone));
    assert_eq!(check(&next_life, Some(&good), turn(TURN), call(1), &receipt), gone);
    let bare = trail(&ran(), 1, None);
    let said = check(&keys, Some(&bare), turn(TURN), call(1), &receipt);
    assert_eq!(said, no(ReceiptReason::NoReceipt));
    let said = check(&keys, Some(&good), turn(TURN), call(9), &receipt);
    assert_eq!(said, no(ReceiptReason::NoSuchCall));
    assert_eq!(check(&keys, None, turn(TURN), call(1), &receipt), no(ReceiptReason::NoSuchCall));
}

// T17: a conversation's key and the process's are two.
#[test]
fn a_receipt_is_bound_to_the_key_of_its_scope() {
    let keys: Arc<ReceiptKeys> = Arc::default();
    let scope = KeyScope::Conversation(ConversationId(Uuid::from_u128(3)));
    let issuer = ReceiptIssuer::new(keys.clone(), scope, turn(TURN));
    let ran = ran();
    let arguments = canonical_arguments(&ran.arguments);
    let executed =
        Executed { call: call(1), tool: &ran.tool, arguments: &arguments, kept: &ran.kept };
    let own = issuer.issue(&executed, &ran.full, at(1)).unwrap();
    let shared = issue(&keys, &ran, 1, 1);
    assert!(own.key != shared.key && own.receipt != shared.receipt);
    let good = trail(&ran, 1, Some(own.clone()));
    assert_eq!(check(&keys, Some(&good), turn(TURN), call(1), &own.receipt), YES);
    keys.rest(ConversationId(Uuid::from_u128(3)));
    let gone = answer(None, Some(ReceiptReason::KeyGone));
    assert_eq!(check(&keys, Some(&good), turn(TURN), call(1), &own.receipt), gone);
}

// V-J7
#[test]
fn malformed_receipts_are_refused_without_a_panic() {
    let keys: Arc<ReceiptKeys> = Arc::default();
    let record = issue(&keys, &ran(), 1, 1_000);
    let good = trail(&ran(), 1, Some(record.clone()));
    let digest = record.receipt.rsplit_once("1000-").unwrap().1.to_owned();
    let bad = [
        String::new(),
        "rk-receipt-".into(),
        "rk-receipt-1000".into(),
        "rk-receipt-1000-".into(),
        format!("rk-receipt--{digest}"),
        format!("rk-receipt-+1000-{digest}"),
        format!("rk-receipt-01000-{digest}"),
        format!("rk-receipt-99999999999999999999-{digest}"),
        format!("rk-receipt-1000-{digest}="),
        format!("rk-receipt-1000-{}", &digest[1..]),
        format!("rk-receipt-1000-{digest}A"),
        format!("RK-RECEIPT-1000-{digest}"),
        format!("receipt-1000-{digest}"),
        format!("rk-receipt-1000-ä{digest}"),
        "\0".repeat(10_000),
    ];
    for receipt in bad {
        let said = check(&keys, Some(&good), turn(TURN), call(1), &receipt);
        assert_eq!(said, no(ReceiptReason::Malformed), "{receipt:?}");
    }
}

proptest! {
    // V-J7
    #[test]
    fn whatever_stands_there_is_answered(text in "(rk-receipt-)?[-0-9A-Za-z_+=é\\n]{0,80}") {
        let keys: Arc<ReceiptKeys> = Arc::default();
        let good = trail(&ran(), 1, Some(issue(&keys, &ran(), 1, 1_000)));
        let said = check(&keys, Some(&good), turn(TURN), call(1), &text);
        prop_assert_eq!(said.valid, Some(false));
    }

    // V-J13
    #[test]
    fn no_shift_between_two_fields_gives_the_same_receipt(
        text in "[a-z:|,\"{}0-9]{2,20}",
        left in 0_usize..20,
        right in 0_usize..20,
    ) {
        let (left, right) = (left.min(text.len()), right.min(text.len()));
        prop_assume!(left != right);
        let signed = |at: usize, fields: fn(&'_ str, &'_ str) -> [String; 4]| {
            let [tool, arguments, full, kept] = fields(&text[..at], &text[at..]);
            let executed =
                Executed { call: call(1), tool: &tool, arguments: &arguments, kept: &kept };
            mac(b"key", turn(1), 1, &executed, &full).unwrap().finalize().into_bytes()
        };
        let shifts: [fn(&str, &str) -> [String; 4]; 3] = [
            |a, b| [a.into(), b.into(), String::new(), String::new()],
            |a, b| [String::new(), a.into(), b.into(), String::new()],
            |a, b| [String::new(), String::new(), a.into(), b.into()],
        ];
        for fields in shifts {
            prop_assert_ne!(signed(left, fields), signed(right, fields));
        }
    }
}
