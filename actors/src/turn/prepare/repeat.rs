//! A command that was asked about in vain is not asked about again (T12).

use rookery_messages::approval::{Approval, Decision};
use rookery_messages::ids::CallId;
use rookery_messages::tool::{SlotOutcome, Verdict, text};
use rookery_messages::turn::{CallState, TurnError};

/// Whether the turn asked about the same command before, for another call, and was not told yes
/// (V-G14). One that was approved may be asked about again (V-G15): that is for the person to say.
pub(super) fn asked_in_vain(approvals: &[Approval], tool: &str, hash: &str, call: CallId) -> bool {
    approvals
        .iter()
        .filter(|asked| asked.call != call && asked.tool == tool && asked.arguments_hash == hash)
        .max_by_key(|asked| asked.asked_at)
        .is_some_and(|last| !matches!(last.decision, Some(Decision::Approve | Decision::Always)))
}

/// The turn ends: asking for ever is what the guard is there against.
pub(super) fn ends_turn(tool: &str) -> Verdict {
    Verdict::EndsTurn {
        outcome: SlotOutcome::unrun(CallState::Denied, text::REPEATED_UNAPPROVED),
        error: TurnError::new(
            "repeated_request",
            format!(
                "the model asked for the same `{tool}` call again although it was not approved, so the \
                 turn was ended; say what to do in its place"
            ),
        ),
    }
}

#[cfg(test)]
mod tests {
    use jiff::{SignedDuration, Timestamp};
    use rookery_messages::approval::{ApprovalState, Risk};
    use rookery_messages::ids::{ApprovalId, ChannelId, ConversationId, TurnId};
    use uuid::Uuid;

    use super::*;

    fn asked(n: u128, decision: Option<Decision>) -> Approval {
        let at = Timestamp::UNIX_EPOCH + SignedDuration::from_secs(i64::try_from(n).unwrap());
        Approval {
            id: ApprovalId(Uuid::from_u128(n)),
            turn: TurnId(Uuid::nil()),
            conversation_id: ConversationId(Uuid::nil()),
            channel: ChannelId::new("ws"),
            call: CallId(Uuid::from_u128(n)),
            tool: "shell".into(),
            arguments: serde_json::json!({}),
            arguments_hash: "h".into(),
            risk: Risk::High,
            reason: String::new(),
            asked_at: at,
            expires_at: at,
            approvers: Vec::new(),
            asked_for: None,
            summary: String::new(),
            offer: None,
            batch: None,
            route: None,
            state: decision.as_ref().map_or(ApprovalState::Pending, Decision::state),
            decision,
            decided_by: None,
            decided_at: None,
        }
    }

    // T12, V-G14, V-G15
    #[test]
    fn a_command_is_asked_about_again_only_if_it_was_approved_the_last_time() {
        let next = CallId(Uuid::from_u128(99));
        let vain = |approvals: &[Approval]| asked_in_vain(approvals, "shell", "h", next);
        let deny = || Some(Decision::Deny { reason: None });
        assert!(!vain(&[]));
        for no in [deny(), Some(Decision::NoAnswer), Some(Decision::Cancelled)] {
            assert!(vain(&[asked(1, no)]));
        }
        assert!(vain(&[asked(1, Some(Decision::Replace { replacement: "x".into() }))]));
        assert!(!vain(&[asked(1, Some(Decision::Approve))]));
        assert!(!vain(&[asked(2, Some(Decision::Always)), asked(1, deny())]));
        assert!(vain(&[asked(2, deny()), asked(1, Some(Decision::Approve))]));
        let own = [asked(99, None)];
        assert!(!vain(&own), "its own request, shown again after a restart");
        assert!(!asked_in_vain(&[asked(1, deny())], "shell", "other", next));
        assert!(!asked_in_vain(&[asked(1, deny())], "mcp__shell", "h", next));
    }
}
