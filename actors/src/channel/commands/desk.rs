//! Who carries commands out.
//!
//! A command is an envelope like any message: one row, one end, one answer, and its platform's id is the
//! key, so that a redelivery does nothing twice (R3, I2). What has to be quick comes before the row: a
//! stop sets the turn's stop cell as soon as a reader has said which turn runs, and no writer's queue is
//! between them (R19).

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use parking_lot::Mutex;
use rookery_messages::address::Address;
use rookery_messages::approval::Decider;
use rookery_messages::channel::SenderMsg;
use rookery_messages::envelope::Inbound;
use rookery_messages::event::TurnEventKind;
use rookery_messages::ids::{AgentName, ChannelId, ConversationId, EnvelopeId, TurnId};
use rookery_messages::observe::Observation;
use rookery_messages::store::{
    Accept, AcceptOutcome, CommandAct, Desk as Facts, NewCommand, StoreError,
};
use rookery_messages::turn::Outcome;

use super::stop::{Stopper, running_turn};
use super::{Command, Wish, parse, texts};
use crate::channel::scope;
use crate::observe::ObserverHandle;

/// So many of the last commands are known without asking the store.
const REMEMBERED: usize = 4_096;

/// A model that may answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ModelName {
    /// The provider profile.
    pub profile: String,
    /// What the provider calls it.
    pub model: String,
}

/// What the desk is wired to.
pub struct DeskDeps {
    /// Stops turns; its parts are used for all else.
    pub stopper: Stopper,
    /// The models of each agent that may be chosen; the first is its own.
    pub models: HashMap<AgentName, Vec<ModelName>>,
    /// Channels whose answers are posted, and who posts them.
    pub posts: HashMap<ChannelId, Address<SenderMsg>>,
    /// Who is told.
    pub observer: ObserverHandle,
}

/// A command that was carried out, now or before.
#[derive(Clone, PartialEq, Debug)]
pub struct Answer {
    /// Its row.
    pub outcome: AcceptOutcome,
    /// What its sender reads. Of one that was known: nothing is said again.
    pub reply: Option<String>,
}

/// See the module's documentation.
pub struct Desk {
    deps: DeskDeps,
    /// The last commands. The store knows all of them; this is for a stop, which does not wait for it.
    recent: Mutex<VecDeque<(ChannelId, String)>>,
}

impl Desk {
    /// A desk.
    pub fn new(deps: DeskDeps) -> Arc<Self> {
        Arc::new(Self { deps, recent: Mutex::default() })
    }

    /// Stops turns.
    pub fn stopper(&self) -> &Stopper {
        &self.deps.stopper
    }

    /// Carries out what a message commands. None: it is a message like any other. The sender is allowed in
    /// the channel: that is the adapter's to check.
    pub async fn take(&self, inbound: &Inbound) -> Option<Result<Answer, StoreError>> {
        let command = parse(&inbound.text)?;
        Some(self.carry_out(inbound, command).await)
    }

    async fn carry_out(&self, inbound: &Inbound, command: Command) -> Result<Answer, StoreError> {
        let again = !self.remember(inbound);
        let facts = self.deps.stopper.store.desk(inbound).await?;
        if again && !facts.known {
            // Delivered twice at once: the first is being carried out.
            return Err(StoreError::Busy);
        }
        let written = async {
            let (act, reply) = match facts.known {
                true => (CommandAct::Nothing, String::new()),
                false => self.act(inbound, &command, &facts).await?,
            };
            self.write(inbound, act, reply).await
        };
        written.await.inspect_err(|_| {
            // Nothing of it is known to be written: sent again, it is carried out.
            self.forget(inbound);
        })
    }

    /// What has to be done before the row, what is to be done with it, and what is said.
    async fn act(
        &self,
        inbound: &Inbound,
        command: &Command,
        facts: &Facts,
    ) -> Result<(CommandAct, String), StoreError> {
        if let Some(text) = texts::of_nothing(command) {
            return Ok((CommandAct::Nothing, text));
        }
        let known = self.deps.models.get(&inbound.agent).map(Vec::as_slice).unwrap_or_default();
        let find = |name: &str| {
            let of = |model: &&ModelName| model.profile == name || model.model == name;
            known.iter().find(of)
        };
        let chosen = facts.model.as_deref().and_then(find);
        Ok(match command {
            Command::Stop { all } => (CommandAct::Nothing, self.stop(inbound, *all, facts).await?),
            Command::New => (CommandAct::BeginAnew, texts::anew(facts.running.is_some())),
            Command::Status => {
                let waits_for = facts
                    .running
                    .as_ref()
                    .and_then(|turn| running_turn(&self.deps.stopper.directory, turn.id))
                    .and_then(|entry| entry.waiting_on());
                let model = chosen.or(known.first()).map(texts::named).unwrap_or_default();
                (CommandAct::Nothing, texts::status(facts, &model, waits_for.as_deref()))
            }
            Command::Model(Wish::Show) => (CommandAct::Nothing, texts::models(known, chosen)),
            Command::Model(Wish::Reset) => {
                let text = known.first().map(texts::chosen).unwrap_or_default();
                (CommandAct::UseModel(None), text)
            }
            Command::Model(Wish::Choose(name)) => match find(name) {
                Some(model) => {
                    let profile = Some(model.profile.clone());
                    (CommandAct::UseModel(profile), texts::chosen(model))
                }
                None => (CommandAct::Nothing, texts::unknown_model(name, known)),
            },
            Command::Help
            | Command::Misused { .. }
            | Command::Unaddressed
            | Command::Unknown { .. } => (CommandAct::Nothing, texts::help()),
        })
    }

    async fn stop(
        &self,
        inbound: &Inbound,
        all: bool,
        facts: &Facts,
    ) -> Result<String, StoreError> {
        let stopper = &self.deps.stopper;
        let by = || Decider { who: inbound.sender.id.clone(), via: inbound.channel.to_string() };
        // What waits goes first: none of it may begin in the place of the one that is stopped.
        let running = facts.running.as_ref().map(|turn| turn.id);
        if !all && let Some(turn) = running {
            stopper.stop_running(turn);
        }
        let mut dropped = 0;
        for turn in facts.waiting.iter().filter(|_| all) {
            stopper.cancel(*turn, by()).await?;
            dropped += 1;
        }
        if let Some(turn) = running {
            stopper.cancel(turn, by()).await?;
        }
        let left = if all { 0 } else { facts.waiting.len() };
        Ok(texts::stopped(usize::from(running.is_some()), dropped, left))
    }

    async fn write(
        &self,
        inbound: &Inbound,
        act: CommandAct,
        reply: String,
    ) -> Result<Answer, StoreError> {
        let world = &self.deps.stopper.world;
        let turn = TurnId(world.ids.next());
        let command = NewCommand {
            accept: Accept {
                inbound: inbound.clone(),
                envelope: EnvelopeId(world.ids.next()),
                turn,
                conversation_id: ConversationId(world.ids.next()),
                queue_limit: u32::MAX,
                child: None,
                claim: None,
                at: world.now(),
            },
            act,
            reply: reply.clone(),
            post: self.deps.posts.contains_key(&inbound.channel),
        };
        let mut outcome = self.deps.stopper.store.command(command).await?;
        // A request whose first answer was lost finds its own row.
        outcome.duplicate = outcome.envelope.turn != turn;
        if outcome.duplicate {
            return Ok(Answer { outcome, reply: None });
        }
        self.announce(&outcome, &reply);
        Ok(Answer { outcome, reply: Some(reply) })
    }

    /// The row is durable: whoever follows the conversation sees it, and a channel that posts has it.
    fn announce(&self, outcome: &AcceptOutcome, reply: &str) {
        let envelope = &outcome.envelope;
        let hub = &self.deps.stopper.hub;
        let tell = |kind| hub.publish(envelope.conversation_id, envelope.turn, kind);
        let id = scope::bare(&envelope.inbound.external_id).to_owned();
        tell(TurnEventKind::Accepted { id, duplicate: false });
        tell(TurnEventKind::Ended {
            outcome: Outcome::Answered,
            reply: Some(reply.to_owned()),
            usage: Default::default(),
            error: None,
            into: None,
        });
        let channel = envelope.inbound.channel.clone();
        if let Some(sender) = self.deps.posts.get(&channel) {
            // A full mailbox is fine: the sender looks by itself now and then.
            let _ = sender.try_send(SenderMsg::Due);
        }
        let accepted = Observation::Accepted { channel, duplicate: false, rejected: false };
        self.deps.observer.observe(accepted);
    }

    /// Whether it is new here.
    fn remember(&self, inbound: &Inbound) -> bool {
        let key = (inbound.channel.clone(), inbound.external_id.clone());
        let mut recent = self.recent.lock();
        if recent.contains(&key) {
            return false;
        }
        if recent.len() == REMEMBERED {
            recent.pop_front();
        }
        recent.push_back(key);
        true
    }

    fn forget(&self, inbound: &Inbound) {
        self.recent
            .lock()
            .retain(|(channel, id)| (channel, id) != (&inbound.channel, &inbound.external_id));
    }
}
