//! Observations as log lines, with the ids of their turn and actor as fields.
//!
//! Arguments and results stay out of the log; whoever emits an observation has cleaned its secrets.

use rookery_messages::observe::{Observation, Observer};
use rookery_messages::turn::{CallState, Outcome};

/// Writes one line a turn's start and end, a tool call, a failed model call, an actor's crash, and
/// whatever else an operator would look for.
#[derive(Clone, Copy, Debug, Default)]
pub struct LogObserver;

impl Observer for LogObserver {
    fn observe(&self, observation: &Observation) {
        match observation {
            Observation::TurnStarted { .. } | Observation::TurnEnded { .. } => turn(observation),
            Observation::ModelCall { .. }
            | Observation::ToolCall { .. }
            | Observation::Gate { .. }
            | Observation::Hook { .. }
            | Observation::Loop { .. }
            | Observation::Approval { .. }
            | Observation::Trimmed { .. }
            | Observation::OverBudget { .. }
            | Observation::Recalled { .. }
            | Observation::Repaired { .. } => step(observation),
            Observation::Accepted { .. }
            | Observation::Refused { .. }
            | Observation::StoreFailed { .. }
            | Observation::MeaningFailed { .. }
            | Observation::Delivery { .. }
            | Observation::ActorExit { .. } => surroundings(observation),
            // Its end is the line.
            Observation::ToolCallStart { .. } | Observation::Cost { .. } => {}
        }
    }
}

fn turn(observation: &Observation) {
    match observation {
        Observation::TurnStarted { scope, attempt } => tracing::info!(
            turn = %scope.turn,
            conversation = %scope.conversation_id,
            channel = %scope.channel,
            agent = %scope.agent,
            attempt,
            "turn started"
        ),
        Observation::TurnEnded { scope, outcome, duration, usage, error } => {
            let error = error.as_deref();
            let (outcome_word, duration_ms) = (outcome.as_str(), duration.as_millis() as u64);
            let (input_tokens, output_tokens) = (usage.input, usage.output);
            if *outcome == Outcome::Failed {
                tracing::warn!(
                    turn = %scope.turn,
                    conversation = %scope.conversation_id,
                    channel = %scope.channel,
                    agent = %scope.agent,
                    outcome = outcome_word,
                    duration_ms,
                    input_tokens,
                    output_tokens,
                    error,
                    "turn ended"
                );
            } else {
                tracing::info!(
                    turn = %scope.turn,
                    conversation = %scope.conversation_id,
                    channel = %scope.channel,
                    agent = %scope.agent,
                    outcome = outcome_word,
                    duration_ms,
                    input_tokens,
                    output_tokens,
                    error,
                    "turn ended"
                );
            }
        }
        _ => {}
    }
}

fn step(observation: &Observation) {
    match observation {
        Observation::ModelCall { scope, provider, error: Some(class), duration, .. } => {
            tracing::warn!(
                turn = %scope.turn,
                provider,
                error = class.code(),
                duration_ms = duration.as_millis() as u64,
                "model call failed"
            );
        }
        Observation::ModelCall { scope, provider, duration, usage, .. } => {
            tracing::debug!(
                turn = %scope.turn,
                provider,
                duration_ms = duration.as_millis() as u64,
                input_tokens = usage.input,
                output_tokens = usage.output,
                "model call ended"
            );
        }
        Observation::ToolCall { scope, call, tool, state, duration, .. } => {
            let (state_word, duration_ms) = (state.as_str(), duration.as_millis() as u64);
            if matches!(state, CallState::Failed | CallState::Unknown) {
                tracing::warn!(
                    turn = %scope.turn,
                    call = %call,
                    tool,
                    state = state_word,
                    duration_ms,
                    "tool call ended"
                );
            } else {
                tracing::info!(
                    turn = %scope.turn,
                    call = %call,
                    tool,
                    state = state_word,
                    duration_ms,
                    "tool call ended"
                );
            }
        }
        Observation::Gate { scope, tool, decision } => {
            tracing::debug!(turn = %scope.turn, tool, decision, "call judged");
        }
        Observation::Hook { scope, hook, event, result, duration } => {
            let duration_ms = duration.as_millis() as u64;
            tracing::debug!(turn = %scope.turn, hook, event, result, duration_ms, "hook asked");
        }
        Observation::Loop { scope, pattern, verdict } => {
            tracing::warn!(turn = %scope.turn, pattern, verdict, "turn goes round in circles");
        }
        Observation::Approval { scope, decision } => {
            tracing::info!(turn = %scope.turn, decision, "approval decided");
        }
        Observation::Trimmed { scope, dropped } => {
            tracing::info!(turn = %scope.turn, dropped, "history trimmed");
        }
        Observation::OverBudget { scope } => {
            tracing::warn!(turn = %scope.turn, "a budget ended the turn");
        }
        Observation::Recalled { scope, success, entries, duration, error } => {
            let duration_ms = duration.as_millis() as u64;
            if *success {
                tracing::debug!(turn = %scope.turn, entries, duration_ms, "memory recalled");
            } else {
                tracing::warn!(turn = %scope.turn, error, duration_ms, "memory did not answer");
            }
        }
        Observation::Repaired { scope, changes } => {
            tracing::warn!(turn = %scope.turn, changes, "history mended");
        }
        _ => {}
    }
}

fn surroundings(observation: &Observation) {
    match observation {
        Observation::Accepted { channel, duplicate, rejected } => {
            tracing::debug!(channel = %channel, duplicate, rejected, "message received");
        }
        Observation::Refused { surface, reason } => {
            tracing::info!(surface, reason, "inbound refused");
        }
        Observation::StoreFailed { code } => tracing::error!(code, "store failed"),
        // One line an outage; the metric counts.
        Observation::MeaningFailed { provider, what, cause, first: true, .. } => {
            tracing::warn!(provider, what, cause, "memory goes by words alone");
        }
        Observation::Delivery { channel, result: "sent", .. } => {
            tracing::debug!(channel = %channel, result = "sent", "delivery tried");
        }
        Observation::Delivery { channel, result, cause } => {
            tracing::warn!(channel = %channel, result, cause, "delivery tried");
        }
        Observation::ActorExit { kind, path, reason, in_hand } => {
            tracing::error!(actor = path, kind, reason = %reason, in_hand, "actor crashed");
        }
        _ => {}
    }
}
