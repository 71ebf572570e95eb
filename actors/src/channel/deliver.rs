//! One outbox row on its way: rendered, cut, sent part by part, over the draft that people have seen.
//!
//! What the platform has is written down part by part, so that another try goes on where this one
//! stopped. A final never overtakes an edit of its draft, and needs no luck after a crash: the draft's
//! message stands in the store.

use std::sync::Arc;

use rookery_messages::approval::ApprovalState;
use rookery_messages::channel::{Capabilities, ChannelAdapter, Outgoing, SendAttempt, SendBudget};
use rookery_messages::ids::{ApprovalId, TurnId};
use rookery_messages::store::{OutboxPayload, OutboxRow, StoreError};

use super::budget::Budgets;
use super::draft::{Drafts, Prompts, Seen};
use super::prompt;
use super::render::{literal, pieces};
use crate::store::StoreClient;
use crate::turn::relay::remainder;

/// Stands before what may be a copy.
const REPEATED: &str = "(possibly repeated)\n\n";

/// What a channel's rows are delivered with.
#[derive(Clone)]
pub(super) struct Delivery {
    pub(super) adapter: Arc<dyn ChannelAdapter>,
    pub(super) capabilities: Arc<Capabilities>,
    pub(super) budgets: Arc<Budgets>,
    pub(super) drafts: Arc<Drafts>,
    pub(super) prompts: Arc<Prompts>,
    pub(super) store: StoreClient,
}

impl Delivery {
    /// One try of a row.
    pub(super) async fn row(&self, row: &OutboxRow) -> SendAttempt {
        let (text, seen) = match &row.message.payload {
            OutboxPayload::Notice { text, .. } => (text, Seen::default()),
            OutboxPayload::Reply { turn, text, .. } => match self.seen(*turn).await {
                Ok(seen) => (text, seen),
                Err(attempt) => return attempt,
            },
            OutboxPayload::Approval { turn, approval } => {
                return self.request(row, *turn, *approval).await;
            }
        };
        let rest = remainder(&seen.shown, text);
        if rest.trim().is_empty() && !seen.shown.is_empty() {
            return SendAttempt::Sent { external_id: seen.message };
        }
        let copy = row.possibly_repeated && row.progress.is_empty() && seen.message.is_none();
        // What takes the row as it is marks copies itself.
        let text = match self.capabilities.limit {
            Some(_) if copy => format!("{REPEATED}{rest}"),
            _ => rest.to_owned(),
        };
        self.parts(row, &text, seen.message).await
    }

    /// What people have seen of the turn; from now on they see no more of it before the answer.
    async fn seen(&self, turn: TurnId) -> Result<Seen, SendAttempt> {
        if !self.capabilities.streaming.is_in_chat() {
            return Ok(Seen::default());
        }
        if let Some(seen) = self.drafts.settle(turn).await {
            return Ok(seen);
        }
        match self.store.draft(turn).await {
            Ok(Some(row)) => Ok(Seen { closed: true, message: row.message, shown: row.shown }),
            Ok(None) => Ok(Seen::default()),
            Err(error) => {
                let cause = format!("what was shown of the answer can't be read: {error}");
                Err(SendAttempt::Failed { cause, retry_after: None })
            }
        }
    }

    /// A request as it stands now: its prompt, or in the prompt's place what became of it.
    async fn request(&self, row: &OutboxRow, turn: TurnId, id: ApprovalId) -> SendAttempt {
        let address = &row.message.address;
        let found = async {
            let approval = self.store.approval(id).await?;
            let message = self.store.prompt(row.message.channel.clone(), turn, id).await?;
            Ok::<_, StoreError>((approval, message))
        };
        let (approval, message) = match found.await {
            Ok((Some(approval), message)) => (approval, message),
            Ok((None, _)) => return SendAttempt::Sent { external_id: None },
            Err(error) => {
                let cause = format!("the request can't be read: {error}");
                return SendAttempt::Failed { cause, retry_after: None };
            }
        };
        let pending = approval.state == ApprovalState::Pending;
        if pending == message.is_some() {
            // It stands there already; or it was decided before anybody was asked here.
            return SendAttempt::Sent { external_id: None };
        }
        let (text, buttons) = match pending {
            true => (prompt::text(&approval), prompt::buttons(&approval)),
            false => (prompt::settled_text(&approval), Vec::new()),
        };
        if let Some(message) = &message {
            self.prompts.remove(&address.conversation, message);
        }
        let piece = literal(&text, &self.capabilities);
        let outgoing = Outgoing {
            address,
            text: &piece.text,
            plain: &piece.plain,
            edit: message.as_deref(),
            buttons: &buttons,
            row: None,
        };
        match self.send(&self.adapter.budget(address), &outgoing).await {
            SendAttempt::Sent { external_id: Some(shown) } if pending => {
                self.prompts.add(&address.conversation, &shown, id);
                SendAttempt::Sent { external_id: Some(shown) }
            }
            // The prompt is gone, and its buttons with it.
            SendAttempt::Sent { .. } | SendAttempt::Refused { .. } if !pending => {
                SendAttempt::Sent { external_id: None }
            }
            // The same change again is harmless.
            SendAttempt::Unknown { cause } if !pending => {
                SendAttempt::Failed { cause, retry_after: None }
            }
            other => other,
        }
    }

    async fn parts(&self, row: &OutboxRow, text: &str, draft: Option<String>) -> SendAttempt {
        let pieces = pieces(text, &self.capabilities);
        let budget = self.adapter.budget(&row.message.address);
        let mut sent = row.progress.clone();
        let mut draft = draft.filter(|_| sent.is_empty());
        while let Some(piece) = pieces.get(sent.len()) {
            let outgoing = Outgoing {
                address: &row.message.address,
                text: &piece.text,
                plain: &piece.plain,
                edit: draft.as_deref(),
                buttons: &[],
                row: Some(row),
            };
            match self.send(&budget, &outgoing).await {
                SendAttempt::Sent { external_id } => {
                    sent.push(external_id.or(draft.take()).unwrap_or_default());
                    draft = None;
                    if sent.len() < pieces.len()
                        && let Err(error) =
                            self.store.outbox_progress(row.message.id, sent.clone()).await
                    {
                        // Goes on: only a crash right now would send a part again.
                        tracing::warn!(row = %row.message.id, %error, "a sent part was not recorded");
                    }
                }
                // The draft is gone, or can't be changed any more.
                SendAttempt::Refused { .. } if draft.is_some() => draft = None,
                // The same change again is harmless.
                SendAttempt::Unknown { cause } if draft.is_some() => {
                    return SendAttempt::Failed { cause, retry_after: None };
                }
                other => return other,
            }
        }
        SendAttempt::Sent { external_id: sent.into_iter().next().filter(|id| !id.is_empty()) }
    }

    async fn send(&self, budget: &SendBudget, outgoing: &Outgoing<'_>) -> SendAttempt {
        if let Err(wait) = self.budgets.take(budget).await {
            let cause = "the platform asked for a pause in this chat".to_owned();
            return SendAttempt::Failed { cause, retry_after: Some(wait) };
        }
        let attempt = self.adapter.send(outgoing).await;
        self.budgets.note(budget, &attempt);
        attempt
    }
}
