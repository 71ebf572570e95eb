//! A draft at work: one thing on its way to the platform at a time, the newest state next.
//!
//! Events are taken in as they come, whatever the platform's speed: the stream never waits for a chat
//! (latest wins). What is shown goes out at most once an interval and within the chat's budget, and a last
//! time when the text stops. Prompts go before drafts. Typing is shown while the turn works.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use rookery_messages::approval::{Approval, ApprovalState};
use rookery_messages::channel::{Outgoing, SendAttempt, Streaming};
use rookery_messages::event::TurnEventKind;
use rookery_messages::ids::ApprovalId;
use rookery_messages::store::DraftRow;
use tokio::time::{Instant, sleep_until};

use super::DraftArgs;
use crate::channel::prompt;
use crate::channel::render::{Piece, literal, pieces};
use crate::channel::view::View;
use crate::observe::HubItem;

/// Pause after a prompt could not be shown.
const PROMPT_PAUSE: Duration = Duration::from_secs(2);
/// How long an end waits for prompts to be taken back.
const END_LIMIT: Duration = Duration::from_secs(10);
/// Longest wait without a look.
const LOOK_AGAIN: Duration = Duration::from_secs(30);

/// What came of the thing on its way.
enum Done {
    /// The view was shown; or it must not be tried again.
    Shown { piece: Option<Piece>, over: bool },
    /// A prompt was shown.
    Asked { approval: Box<Approval>, message: Option<String>, again: bool },
    /// A prompt was taken back.
    Settled,
    /// Typing was shown.
    Typed,
}

struct Live {
    args: DraftArgs,
    view: View,
    dirty: bool,
    /// Nothing more is shown of the text.
    mute: bool,
    shown: Option<Piece>,
    next_edit: Instant,
    next_typing: Instant,
    not_before: Instant,
    ask: VecDeque<Box<Approval>>,
    settle: VecDeque<(Box<Approval>, String)>,
    /// Requests that stand in the chat, by the message they stand in.
    open: HashMap<ApprovalId, (Box<Approval>, String)>,
    waiting: usize,
}

/// Shows a turn until it ends.
pub(super) async fn run(args: DraftArgs) {
    let mut events =
        args.hub.subscribe(args.live.conversation_id, args.live.next_seq.checked_sub(1));
    recall(&args).await;
    let now = Instant::now();
    let mut live = Live {
        view: View::default(),
        dirty: false,
        mute: false,
        shown: None,
        next_edit: now,
        next_typing: now,
        not_before: now,
        ask: VecDeque::new(),
        settle: VecDeque::new(),
        open: HashMap::new(),
        waiting: 0,
        args,
    };
    let mut on_its_way: Option<BoxFuture<'static, Done>> = None;
    loop {
        if on_its_way.is_none() {
            on_its_way = live.next();
        }
        let wake = live.wake();
        tokio::select! {
            item = events.next() => match item {
                HubItem::Event(event) => {
                    let own = event.turn == live.args.live.turn;
                    if own && matches!(event.kind, TurnEventKind::Ended { .. }) {
                        break;
                    }
                    live.take(own, &event.kind);
                }
                // What was missed will be in the answer; what is shown until then has a hole, so that
                // only what the turn does is shown.
                HubItem::Gap { .. } => {
                    if has_ended(&live.args).await {
                        break;
                    }
                    live.mute = true;
                }
            },
            done = async { match on_its_way.as_mut() {
                Some(way) => way.await,
                None => std::future::pending().await,
            } } => {
                on_its_way = None;
                live.done(done);
            }
            () = sleep_until(wake), if on_its_way.is_none() => {}
        }
    }
    // An edit that is on its way must not land after the answer.
    let _ = tokio::time::timeout(END_LIMIT, async {
        if let Some(way) = on_its_way.take() {
            let done = way.await;
            live.done(done);
        }
        live.take_prompts_back().await;
    })
    .await;
}

/// A draft of a former life is gone on with.
async fn recall(args: &DraftArgs) {
    if !args.capabilities.streaming.is_in_chat() {
        return;
    }
    // Unreadable, a second draft would be begun: the answer then takes that one over.
    if let Ok(Some(row)) = args.store.draft(args.live.turn).await {
        let mut seen = args.slot.lock().await;
        seen.message = row.message;
        seen.shown = row.shown;
    }
}

async fn has_ended(args: &DraftArgs) -> bool {
    let turn = args.store.turn(args.live.turn).await;
    matches!(turn, Ok(Some(record)) if record.outcome.is_some())
}

impl Live {
    fn take(&mut self, own: bool, event: &TurnEventKind) {
        if let TurnEventKind::Approval { approval } = event
            && self.args.capabilities.buttons
            && (own || approval.asked_for.is_some())
        {
            self.take_approval(approval);
        }
        if own && self.view.take(event) {
            self.dirty = true;
        }
    }

    fn take_approval(&mut self, approval: &Approval) {
        if approval.state == ApprovalState::Pending {
            let known = self.open.contains_key(&approval.id)
                || self.ask.iter().any(|asked| asked.id == approval.id);
            if !known {
                self.ask.push_back(Box::new(approval.clone()));
            }
            self.waiting += usize::from(!known);
            return;
        }
        self.waiting = self.waiting.saturating_sub(1);
        self.ask.retain(|asked| asked.id != approval.id);
        if let Some((_, message)) = self.open.remove(&approval.id) {
            self.settle.push_back((Box::new(approval.clone()), message));
        }
    }

    /// What goes out next, if anything may now.
    fn next(&mut self) -> Option<BoxFuture<'static, Done>> {
        let now = Instant::now();
        let budget = self.args.adapter.budget(&self.args.live.address);
        if now >= self.not_before && (!self.settle.is_empty() || !self.ask.is_empty()) {
            match self.args.budgets.try_take(&budget) {
                Err(at) => self.not_before = at,
                Ok(()) => {
                    if let Some((approval, message)) = self.settle.pop_front() {
                        return Some(settle(self.args.clone(), approval, message).boxed());
                    }
                    let approval = self.ask.pop_front()?;
                    return Some(ask(self.args.clone(), approval).boxed());
                }
            }
        }
        if self.wants_typing() && now >= self.next_typing {
            self.next_typing = now + self.args.capabilities.typing.unwrap_or(LOOK_AGAIN);
            let args = self.args.clone();
            if !args.budgets.is_blocked(&budget.key) {
                return Some(
                    async move {
                        args.adapter.typing(&args.live.address).await;
                        Done::Typed
                    }
                    .boxed(),
                );
            }
        }
        if self.dirty && !self.mute && now >= self.next_edit && now >= self.not_before {
            return self.show(now, &budget);
        }
        None
    }

    fn show(
        &mut self,
        now: Instant,
        budget: &rookery_messages::channel::SendBudget,
    ) -> Option<BoxFuture<'static, Done>> {
        match self.args.capabilities.streaming {
            Streaming::None | Streaming::Live => {
                self.mute = true;
                None
            }
            Streaming::Draft { interval } => {
                let Some(piece) = self.view.draft(&self.args.capabilities) else {
                    self.dirty = false;
                    return None;
                };
                if self.shown.as_ref() == Some(&piece) {
                    // A053: what stands there already is not sent again.
                    self.dirty = false;
                    return None;
                }
                if let Err(at) = self.args.budgets.try_take(budget) {
                    self.next_edit = at;
                    return None;
                }
                self.dirty = false;
                self.next_edit = now + interval;
                Some(edit(self.args.clone(), piece).boxed())
            }
            Streaming::Paragraphs => {
                self.dirty = false;
                Some(paragraphs(self.args.clone(), self.view.clone()).boxed())
            }
        }
    }

    fn done(&mut self, done: Done) {
        match done {
            Done::Shown { piece, over } => {
                if piece.is_some() {
                    self.shown = piece;
                } else if !over {
                    self.dirty = true;
                }
                self.mute |= over;
            }
            Done::Asked { approval, message, again } => {
                if let Some(message) = message {
                    let conversation = &self.args.live.address.conversation;
                    self.args.prompts.add(conversation, &message, approval.id);
                    self.open.insert(approval.id, (approval, message));
                } else if again {
                    self.ask.push_front(approval);
                    self.not_before = Instant::now() + PROMPT_PAUSE;
                }
            }
            Done::Settled | Done::Typed => {}
        }
    }

    /// Whoever waits for a person is not typing.
    fn wants_typing(&self) -> bool {
        self.args.capabilities.typing.is_some() && self.waiting == 0
    }

    fn wake(&self) -> Instant {
        let mut at = Instant::now() + LOOK_AGAIN;
        if self.wants_typing() {
            at = at.min(self.next_typing);
        }
        if self.dirty && !self.mute {
            at = at.min(self.next_edit.max(self.not_before));
        }
        if !self.settle.is_empty() || !self.ask.is_empty() {
            at = at.min(self.not_before);
        }
        at
    }

    /// The turn has ended: nobody need decide any more, and no button is left to press.
    async fn take_prompts_back(&mut self) {
        let left = std::mem::take(&mut self.settle);
        let withdrawn = std::mem::take(&mut self.open).into_values();
        for (approval, message) in left.into_iter().chain(withdrawn) {
            settle(self.args.clone(), approval, message).await;
        }
    }
}

/// Shows the view in the turn's one message.
async fn edit(args: DraftArgs, piece: Piece) -> Done {
    let mut seen = args.slot.lock().await;
    if seen.closed {
        return Done::Shown { piece: None, over: true };
    }
    let outgoing = Outgoing {
        address: &args.live.address,
        text: &piece.text,
        plain: &piece.plain,
        edit: seen.message.as_deref(),
        buttons: &[],
        row: None,
    };
    let first = seen.message.is_none();
    let attempt = args.adapter.send(&outgoing).await;
    args.budgets.note(&args.adapter.budget(&args.live.address), &attempt);
    match attempt {
        SendAttempt::Sent { external_id } if first => {
            seen.message = external_id;
            note(&args, &seen).await;
            // Without an id there is nothing to change later.
            Done::Shown { piece: Some(piece), over: seen.message.is_none() }
        }
        SendAttempt::Sent { .. } => Done::Shown { piece: Some(piece), over: false },
        SendAttempt::Failed { .. } => Done::Shown { piece: None, over: false },
        SendAttempt::Unknown { .. } if !first => Done::Shown { piece: None, over: false },
        // Perhaps there is a message that can't be named: another would be one too many.
        SendAttempt::Unknown { .. } | SendAttempt::Refused { .. } => {
            Done::Shown { piece: None, over: true }
        }
    }
}

/// Sends the complete paragraphs that were not sent yet, for good.
async fn paragraphs(args: DraftArgs, view: View) -> Done {
    let mut seen = args.slot.lock().await;
    if seen.closed {
        return Done::Shown { piece: None, over: true };
    }
    if !view.text().starts_with(&seen.shown) {
        // Another text was begun.
        seen.shown.clear();
    }
    let Some(part) = view.paragraphs(&seen.shown) else {
        let piece = Piece { text: seen.shown.clone(), plain: String::new() };
        return Done::Shown { piece: Some(piece), over: false };
    };
    let budget = args.adapter.budget(&args.live.address);
    for piece in pieces(part.trim_matches('\n'), &args.capabilities) {
        if args.budgets.take(&budget).await.is_err() {
            return Done::Shown { piece: None, over: true };
        }
        let outgoing = Outgoing {
            address: &args.live.address,
            text: &piece.text,
            plain: &piece.plain,
            edit: None,
            buttons: &[],
            row: None,
        };
        let attempt = args.adapter.send(&outgoing).await;
        args.budgets.note(&budget, &attempt);
        if !matches!(attempt, SendAttempt::Sent { .. }) {
            // The answer will say all that was not shown; nothing is said twice here.
            return Done::Shown { piece: None, over: true };
        }
    }
    seen.shown.push_str(part);
    note(&args, &seen).await;
    Done::Shown {
        piece: Some(Piece { text: seen.shown.clone(), plain: String::new() }),
        over: false,
    }
}

async fn note(args: &DraftArgs, seen: &super::Seen) {
    let row =
        DraftRow { turn: args.live.turn, message: seen.message.clone(), shown: seen.shown.clone() };
    if let Err(error) = args.store.note_draft(row).await {
        // Known in this life; after a crash the answer would be a message of its own.
        tracing::warn!(turn = %args.live.turn, %error, "a draft could not be recorded");
    }
}

async fn ask(args: DraftArgs, approval: Box<Approval>) -> Done {
    let piece = literal(&prompt::text(&approval), &args.capabilities);
    let buttons = prompt::buttons(&approval);
    let outgoing = Outgoing {
        address: &args.live.address,
        text: &piece.text,
        plain: &piece.plain,
        edit: None,
        buttons: &buttons,
        row: None,
    };
    let attempt = args.adapter.send(&outgoing).await;
    args.budgets.note(&args.adapter.budget(&args.live.address), &attempt);
    match attempt {
        SendAttempt::Sent { external_id } => {
            Done::Asked { approval, message: external_id, again: false }
        }
        // A prompt that perhaps stands there twice is better than one that nobody sees.
        SendAttempt::Failed { .. } | SendAttempt::Unknown { .. } => {
            Done::Asked { approval, message: None, again: true }
        }
        SendAttempt::Refused { cause } => {
            tracing::warn!(approval = %approval.id, %cause, "a request for approval can't be shown in its chat");
            Done::Asked { approval, message: None, again: false }
        }
    }
}

async fn settle(args: DraftArgs, approval: Box<Approval>, message: String) -> Done {
    args.prompts.remove(&args.live.address.conversation, &message);
    let piece = literal(&prompt::settled_text(&approval), &args.capabilities);
    let outgoing = Outgoing {
        address: &args.live.address,
        text: &piece.text,
        plain: &piece.plain,
        edit: Some(&message),
        buttons: &[],
        row: None,
    };
    let attempt = args.adapter.send(&outgoing).await;
    args.budgets.note(&args.adapter.budget(&args.live.address), &attempt);
    Done::Settled
}
