//! Answers to approvals that come as a channel's messages: `/approve <id>` and its like.
//!
//! A control acts at once; no turn is made of it and no queue holds it. Only a signed channel's count: who
//! answers has to be who they say.

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use rookery_messages::approval::{Decider, GrantScope};
use rookery_messages::envelope::Inbound;
use rookery_messages::ids::ApprovalId;
use rookery_messages::tool::head;
use serde_json::json;

use super::approvals::{Choice, Word, choice, settle};
use super::deps::Shared;
use super::error::ApiError;

/// Most bytes of a wrong id that are shown.
const LONGEST_SHOWN: usize = 80;

/// An answer.
#[derive(Debug)]
pub(super) struct Control {
    approval: ApprovalId,
    choice: Choice,
}

/// How an answer is written.
const USAGE: &str = "an answer is `/approve <id>`, `/always <id> [agent]`, `/deny <id> [reason]` or `/replace <id> text`";

/// Reads an answer: a word, an id, and what the word takes. None: it is a message like any other. What
/// begins with an answer's word and is none is refused; it never becomes a turn (A088).
pub(super) fn parse(text: &str) -> Option<Result<Control, ApiError>> {
    let text = text.trim();
    let (word, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    if !["/approve", "/always", "/deny", "/replace"].contains(&word) {
        return None;
    }
    let rest = rest.trim_start();
    let (id, rest) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
    let rest = rest.trim();
    let said = (!rest.is_empty()).then(|| rest.to_owned());
    let usage = || Err(ApiError::bad_request("invalid_field", USAGE));
    let Ok(approval) = id.parse::<ApprovalId>() else {
        return Some(if id.is_empty() {
            usage()
        } else {
            let message = format!("`{}` is not an approval's id; {USAGE}", head(id, LONGEST_SHOWN));
            Err(ApiError::bad_request("invalid_field", message)
                .hint("copy the id from the request, or from `rookery approvals list`"))
        });
    };
    let choice = match (word, rest) {
        ("/approve", "") => choice(Word::Approve, None, None, None),
        ("/always", "") => choice(Word::Always, None, None, None),
        ("/always", "agent") => choice(Word::Always, None, None, Some(GrantScope::Agent)),
        ("/deny", _) => choice(Word::Deny, None, said, None),
        ("/replace", _) => choice(Word::Replace, said, None, None),
        // A yes with more words than a yes has is none (V-H7).
        _ => return Some(usage()),
    };
    Some(choice.map(|choice| Control { approval, choice }))
}

/// Makes the answer stand. A request that isn't asked in this channel does not exist here.
pub(super) async fn answer(
    shared: &Shared,
    inbound: &Inbound,
    control: Control,
) -> Result<Response, ApiError> {
    let unknown = || ApiError::not_found("approval");
    let approval = shared.deps.store.approval(control.approval).await?.ok_or_else(unknown)?;
    let here = approval.channel == inbound.channel
        || approval.route.as_ref().is_some_and(|route| route.channel == inbound.channel);
    if !here {
        return Err(unknown());
    }
    let decider = Decider { who: inbound.sender.id.clone(), via: inbound.channel.to_string() };
    let decided = settle(shared, &approval, control.choice, decider, false).await?;
    Ok((StatusCode::OK, Json(json!({ "approval": decided }))).into_response())
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "01890a5d-ac96-774b-bcce-b302099a8057";

    // A088
    #[test]
    fn only_a_word_and_an_id_make_an_answer() {
        for text in [
            format!("/approve {ID}"),
            format!("  /always   {ID}  "),
            format!("/always {ID} agent"),
            format!("/deny {ID}"),
            format!("/deny {ID} not on a friday"),
            format!("/replace {ID} nothing found"),
        ] {
            assert!(matches!(parse(&text), Some(Ok(_))), "{text}");
        }
        for text in [
            format!("/approve {ID} and more"),
            format!("/always {ID} all"),
            format!("/replace {ID}"),
            "/approve".to_owned(),
            " /deny ".to_owned(),
            "/approve it".to_owned(),
            format!("/always {ID}0"),
        ] {
            assert!(matches!(parse(&text), Some(Err(_))), "{text}");
        }
        for text in ["/approved", "approve", "", &format!("approve {ID}"), &format!("/stop {ID}")] {
            assert!(parse(text).is_none(), "{text}");
        }
    }
}
