//! The listening: one event after the other, each durable before the next acknowledgement.

use std::sync::Arc;
use std::time::Duration;

use rookery_messages::address::Address;
use rookery_messages::approval::{Approval, ApprovalState, Decision};
use rookery_messages::attachment::Attachment;
use rookery_messages::channel::{ChannelEvent, Incoming, Outgoing, ReceiveFault, Received};
use rookery_messages::envelope::{Inbound, TurnOrigin};
use rookery_messages::observe::Observation;
use rookery_messages::store::SpoolRow;
use rookery_messages::time::World;

use super::spool::Spool;
use super::{Admission, ReceiverArgs, ReceiverMsg, guard, press};
use crate::channel::render::literal;
use crate::channel::text::{MAX_TEXT_CHARS, check_id, check_text};
use crate::policy::display::clean_replacement;

/// First pause after a fault; doubles.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// Longest pause of our own.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// Longest pause a platform may ask for.
const LONGEST_RETRY_AFTER: Duration = Duration::from_secs(600);
/// Pause before a message that could not be made durable is tried again.
const STORE_PAUSE: Duration = Duration::from_millis(500);
/// Conflicts in a row before people are told.
const PATIENT_CONFLICTS: u32 = 3;

/// Whoever listens.
pub(super) struct Ear {
    pub(super) args: Arc<ReceiverArgs>,
    pub(super) spool: Arc<Spool>,
    pub(super) world: World,
    pub(super) actor: Address<ReceiverMsg>,
}

impl Ear {
    /// Listens until nothing will ever come; says why.
    pub(super) async fn listen(self) -> ReceiveFault {
        self.recall().await;
        let (mut faults, mut conflicts, mut told) = (0_u32, 0_u32, false);
        loop {
            let fault = match self.args.adapter.receive().await {
                Ok(batch) => {
                    if std::mem::take(&mut told) {
                        self.tell(ReceiverMsg::State(None)).await;
                    }
                    (faults, conflicts) = (0, 0);
                    match self.take_all(batch).await {
                        Ok(()) => continue,
                        Err(fault) => fault,
                    }
                }
                Err(fault) => fault,
            };
            let (pause, show) = match &fault {
                ReceiveFault::Permanent { .. } => return fault,
                ReceiveFault::Conflict { .. } => {
                    conflicts += 1;
                    // One is what a former connection leaves behind; it goes by itself (A057).
                    (self.pause(conflicts), conflicts >= PATIENT_CONFLICTS)
                }
                ReceiveFault::Passing { retry_after, .. } => {
                    faults += 1;
                    let asked = retry_after.unwrap_or_default().min(LONGEST_RETRY_AFTER);
                    (self.pause(faults).max(asked), true)
                }
            };
            if show && !std::mem::replace(&mut told, true) {
                self.tell(ReceiverMsg::State(Some(fault.to_string()))).await;
            }
            tokio::time::sleep(pause).await;
        }
    }

    fn pause(&self, times: u32) -> Duration {
        let ceiling = FIRST_PAUSE.saturating_mul(1 << times.clamp(1, 6).saturating_sub(1));
        let ceiling = ceiling.min(LONGEST_PAUSE);
        ceiling / 2 + self.world.jitter(ceiling / 2)
    }

    async fn tell(&self, message: ReceiverMsg) {
        // An error means that the actor ends, and this task with it.
        let _ = self.actor.send(message).await;
    }

    /// What a former life kept and did not finish.
    async fn recall(&self) {
        let rows = loop {
            match self.args.store.spooled(self.args.channel().clone()).await {
                Ok(rows) => break rows,
                Err(error) => {
                    tracing::warn!(%error, "the spool can't be read; nothing is received before it is");
                    tokio::time::sleep(STORE_PAUSE).await;
                }
            }
        };
        for row in rows {
            self.push(row.incoming).await;
        }
    }

    async fn push(&self, incoming: Incoming) {
        let conversation = incoming.conversation.clone();
        if self.spool.push(incoming).await {
            self.tell(ReceiverMsg::Work { conversation }).await;
        }
    }

    async fn take_all(&self, batch: Vec<Received>) -> Result<(), ReceiveFault> {
        let (mut taken, mut dropped) = (0, 0);
        let mut newest = None;
        for Received { token, event } in batch {
            match event {
                ChannelEvent::Message(incoming) => match self.message(*incoming).await {
                    Ok(()) => taken += 1,
                    Err(reason) => {
                        self.refused(reason);
                        dropped += 1;
                    }
                },
                ChannelEvent::Press(press) => {
                    press::press(&self.args, &self.world, &press).await;
                    taken += 1;
                }
                ChannelEvent::Ignored(reason) => {
                    self.refused(reason);
                    dropped += 1;
                }
            }
            newest = Some(token);
        }
        if taken + dropped > 0 {
            self.tell(ReceiverMsg::Took { taken, dropped }).await;
        }
        match newest {
            Some(token) => self.args.adapter.acknowledge(&token).await,
            None => Ok(()),
        }
    }

    fn refused(&self, reason: &'static str) {
        let surface = self.args.channel().to_string();
        self.args.observer.observe(Observation::Refused { surface, reason });
    }

    /// Takes a message; it is durable, or done with, when this returns.
    async fn message(&self, mut incoming: Incoming) -> Result<(), &'static str> {
        if let Some(reason) = guard::refuses(&self.args, &incoming) {
            return Err(reason);
        }
        // R4: before everything else. What follows costs, answers, or leaves a trace.
        match self.args.admit.admit(&incoming).await {
            Admission::Allowed => {}
            Admission::Refused { reason, say } => {
                self.say(&incoming, say).await;
                return Err(reason);
            }
        }
        check_id("id", &incoming.external_id).map_err(|_| "bad_id")?;
        if guard::ends_chain(&self.args, &self.world, &incoming).await {
            return Err("bot_chain");
        }
        incoming.text = readable(&incoming.text);
        if self.answers_question(&incoming).await {
            return Ok(());
        }
        if self.is_command(&incoming).await {
            return Ok(());
        }
        // Whatever comes behind a message whose attachments are on their way waits for it.
        let waits = self.spool.holds(&incoming.conversation);
        if waits || incoming.album.is_some() || !incoming.attachments.is_empty() {
            self.keep(incoming).await;
            return Ok(());
        }
        check_text("text", &incoming.text).map_err(|_| "nothing_to_read")?;
        accept(&self.args, incoming, Vec::new()).await;
        Ok(())
    }

    async fn is_command(&self, incoming: &Incoming) -> bool {
        let Some(commands) = self.args.commands.as_ref().filter(|_| incoming.text.starts_with('/'))
        else {
            return false;
        };
        let inbound = inbound(&self.args, incoming.clone());
        loop {
            match commands.offer(&inbound).await {
                Ok(done) => return done,
                Err(error) => {
                    tracing::warn!(%error, "a command could not be taken; it is tried again");
                    tokio::time::sleep(STORE_PAUSE).await;
                }
            }
        }
    }

    /// Into the spool, so that the platform may forget it.
    async fn keep(&self, incoming: Incoming) {
        let row = SpoolRow {
            channel: self.args.channel().clone(),
            incoming: incoming.clone(),
            at: self.world.now(),
        };
        loop {
            match self.args.store.spool(row.clone()).await {
                Ok(true) => return self.push(incoming).await,
                Ok(false) => return self.keep_known(incoming).await,
                Err(error) => {
                    tracing::warn!(%error, "a message could not be kept; it is tried again");
                    tokio::time::sleep(STORE_PAUSE).await;
                }
            }
        }
    }

    /// It was there already: delivered again, it is in work or was accepted. Or the answer to the first
    /// write was lost, and nobody works on it.
    async fn keep_known(&self, incoming: Incoming) {
        if self.spool.holds(&incoming.conversation) {
            return;
        }
        let open = match self.args.store.spooled(self.args.channel().clone()).await {
            Ok(rows) => rows.iter().any(|row| row.incoming.external_id == incoming.external_id),
            // Worked on twice, it is accepted once.
            Err(_) => true,
        };
        if open {
            self.push(incoming).await;
        }
    }

    /// A reply to a question's prompt is the answer, and not a message (A088).
    async fn answers_question(&self, incoming: &Incoming) -> bool {
        let found = incoming
            .reply_to
            .as_ref()
            .and_then(|message| self.args.prompts.find(&incoming.conversation, message));
        let Some(id) = found else { return false };
        let asked = self.args.store.approval(id).await;
        let open = |asked: &Approval| asked.is_question() && asked.state == ApprovalState::Pending;
        let Ok(Some(asked)) = asked else { return false };
        if !open(&asked) || incoming.text.trim().is_empty() {
            return false;
        }
        let text = self.args.redactor.scrub(&clean_replacement(&incoming.text));
        let decision = Decision::Replace { replacement: text };
        let said = press::decide(&self.args, &self.world, &asked, decision, &incoming.sender).await;
        if let Err(why) = said {
            self.say(incoming, Some(why)).await;
        }
        true
    }

    /// Tells a sender something, once, as well as it goes.
    async fn say(&self, incoming: &Incoming, text: Option<String>) {
        let Some(text) = text else { return };
        let piece = literal(&text, &self.args.adapter.capabilities());
        let address = inbound(&self.args, incoming.clone()).reply_address();
        let outgoing = Outgoing {
            address: &address,
            text: &piece.text,
            plain: &piece.plain,
            edit: None,
            buttons: &[],
            row: None,
        };
        let attempt = self.args.adapter.send(&outgoing).await;
        tracing::debug!(?attempt, "a sender was told");
    }
}

/// Cut to what a turn takes, without what nobody can read.
fn readable(text: &str) -> String {
    text.chars().filter(|c| *c != '\0').take(MAX_TEXT_CHARS).collect()
}

/// Accepts a message, however long the store takes.
pub(super) async fn accept(args: &ReceiverArgs, incoming: Incoming, attachments: Vec<Attachment>) {
    let inbound = Inbound { attachments, ..inbound(args, incoming) };
    loop {
        match args.intake.receive(inbound.clone()).await {
            Ok(_) => return,
            Err(error) => {
                tracing::warn!(%error, channel = %args.channel(), "a message was not taken; it is tried again");
                tokio::time::sleep(STORE_PAUSE).await;
            }
        }
    }
}

pub(super) fn inbound(args: &ReceiverArgs, incoming: Incoming) -> Inbound {
    let text = match &incoming.quote {
        Some(quote) => format!("[in reply to: {quote}]\n{}", incoming.text),
        None => incoming.text,
    };
    Inbound {
        channel: args.channel().clone(),
        external_id: incoming.external_id,
        sender: incoming.sender,
        conversation: incoming.conversation,
        thread: incoming.thread,
        text,
        attachments: Vec::new(),
        origin: TurnOrigin::Channel,
        agent: args.intake.agent.clone(),
    }
}
