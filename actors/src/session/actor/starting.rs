//! What becomes of a claimed row: a turn, or the reason why there is none.

use super::*;

/// Why a claimed row does not run here.
enum Unfit {
    /// Agent or channel are not configured now.
    Waits,
    /// A call of another turn runs it.
    NotOurs,
    /// It is a task that can't go on.
    Lost(String),
}

impl Session {
    pub(super) async fn start_turn(
        &mut self,
        ctx: &mut Ctx<SessionActor>,
        claim: Box<TurnClaim>,
    ) -> Result<(), ActorError> {
        // I3: only one at a time. The row stays open: it is claimed again once this turn is over.
        let alone = rookery_messages::check_invariant!(
            I3,
            self.running.is_none(),
            "a second turn of {} was claimed",
            self.conversation
        );
        if !alone {
            return Ok(());
        }
        let record = &claim.record;
        let (bundle, channel) = match self.runs_as(record) {
            Ok(found) => found,
            Err(Unfit::Lost(why)) => {
                self.lose(ctx, &claim, why);
                return Ok(());
            }
            Err(Unfit::Waits)
                if self.cancelled.take() == Some(record.id) || claim.cancel_requested =>
            {
                self.end_cancelled(ctx, &claim);
                return Ok(());
            }
            Err(Unfit::Waits) => {
                // The configuration changed under an open row. It waits, visibly, until both are back; having
                // been looked at is no attempt that crashed.
                tracing::error!(
                    turn = %record.id, agent = %record.agent, channel = %record.channel,
                    "an open turn's agent or channel is not configured any more; it waits until both are back"
                );
                self.give_back(ctx, &claim);
                return Ok(());
            }
            Err(Unfit::NotOurs) => {
                // Somebody wrote into the conversation of a turn that another one waits for.
                self.give_back(ctx, &claim);
                return Ok(());
            }
        };
        let bundle = self.answered_by(&claim, bundle);
        let turn = record.id;
        let cancelled = self.cancelled.take() == Some(turn) || claim.cancel_requested;
        let nothing_waits: Arc<AtomicBool> = Arc::default();
        let args = TurnArgs {
            claim,
            bundle,
            channel,
            deps: Arc::clone(&self.deps),
            nothing_waits: Arc::clone(&nothing_waits),
        };
        let spec = SpawnSpec::new(format!("turn/{turn}")).mailbox(256).grace(TURN_GRACE);
        match ctx.spawn::<TurnActor>(spec, args).await {
            Ok(child) => {
                if cancelled {
                    ctx.stop_child(child.handle.id, StopReason::User);
                }
                self.running = Some(Running {
                    id: child.handle.id,
                    turn,
                    address: child.address,
                    since: Instant::now(),
                    nothing_waits,
                });
            }
            Err(error) => {
                // Counts as an attempt; after the last one the store fails the turn.
                tracing::error!(%turn, %error, "a turn did not start");
                ctx.after(CLAIM_PAUSE, SessionMsg::Retry);
            }
        }
        Ok(())
    }

    /// The model its people chose answers first, if it is still to be had. If it is not, they are told.
    fn answered_by(&self, claim: &TurnClaim, bundle: Arc<AgentBundle>) -> Arc<AgentBundle> {
        let Some(profile) = claim.model.as_deref().filter(|_| claim.record.parent.is_none()) else {
            return bundle;
        };
        if let Some(chosen) = bundle.answered_by(profile) {
            return Arc::new(chosen);
        }
        let text = format!(
            "the model `{profile}` chosen for this conversation is not configured for this agent any more; \
             its own answers. /model shows what there is"
        );
        let notice = TurnEventKind::Notice { text };
        self.deps.hub.publish(self.conversation, claim.record.id, notice);
        bundle
    }

    /// The agent and channel a row runs with.
    fn runs_as(&self, record: &TurnRecord) -> Result<(Arc<AgentBundle>, ChannelFacts), Unfit> {
        if record.is_delegate() {
            return Err(Unfit::NotOurs);
        }
        let agent = self.deps.agents.get(&record.agent);
        let found = agent.zip(self.deps.channels.get(&record.channel));
        match (found, &record.parent) {
            (Some((agent, channel)), None) => Ok((Arc::clone(agent), channel.clone())),
            (Some((agent, channel)), Some(of)) => match granted(agent, of, &self.deps) {
                Ok(agent) => Ok((Arc::new(agent), channel.clone())),
                Err(why) => Err(Unfit::Lost(why)),
            },
            // A person's message waits for its agent; a task is told of as lost.
            (None, None) => Err(Unfit::Waits),
            (None, Some(_)) => Err(Unfit::Lost(format!(
                "its agent {} or channel {} is not configured any more",
                record.agent, record.channel
            ))),
        }
    }

    /// The row can't run here now: it is left as it is, and looked at again later.
    fn give_back(&mut self, ctx: &mut Ctx<SessionActor>, claim: &TurnClaim) {
        self.waits = true;
        let store = self.deps.store.clone();
        let (turn, fence) = (claim.record.id, claim.fence);
        let conversation = claim.record.conversation_id;
        ctx.task(async move {
            if let Err(error) = store.release_turn(turn, conversation, fence).await {
                tracing::warn!(%turn, %error, "a turn that can't run now could not be given back");
            }
            tokio::time::sleep(UNCONFIGURED_PAUSE).await;
            Some(SessionMsg::Retry)
        });
    }

    /// A turn whose agent or channel is not configured any more is ended without it.
    fn end_cancelled(&mut self, ctx: &mut Ctx<SessionActor>, claim: &TurnClaim) {
        let record = claim.record.clone();
        let finish = TurnFinish {
            outcome: Outcome::Cancelled,
            reply: None,
            error: None,
            usage: record.usage,
        };
        let commit = ending(claim, finish, ctx.world().now());
        let (store, hub) = (self.deps.store.clone(), Arc::clone(&self.deps.hub));
        self.waits = true;
        ctx.task(async move {
            match commit_patiently(&store, commit).await {
                Ok(_) => {
                    let ended = TurnEventKind::Ended {
                        outcome: Outcome::Cancelled,
                        reply: None,
                        usage: record.usage,
                        error: None,
                        into: None,
                    };
                    hub.publish(record.conversation_id, record.id, ended);
                }
                Err(error) => {
                    tracing::warn!(turn = %record.id, %error, "a cancelled turn's end was not written");
                }
            }
            Some(SessionMsg::Retry)
        });
    }

    /// A task that can't go on is lost, with its reason (T24).
    fn lose(&mut self, ctx: &mut Ctx<SessionActor>, claim: &TurnClaim, why: String) {
        let record = &claim.record;
        tracing::warn!(task = %record.id, %why, "a background task is lost");
        let finish = TurnFinish {
            outcome: Outcome::Failed,
            reply: None,
            error: Some(TurnError::new("lost", why.clone())),
            usage: record.usage,
        };
        let commit = ending(claim, finish, ctx.world().now());
        let (store, hub) = (self.deps.store.clone(), Arc::clone(&self.deps.hub));
        let (task, parent) = (record.id, record.parent.clone());
        self.waits = true;
        ctx.task(async move {
            match commit_patiently(&store, commit).await {
                Ok(_) => {
                    if let Some(of) = parent {
                        let text = notice(task, TaskState::Lost, &why);
                        hub.publish(of.root, of.turn, TurnEventKind::Notice { text });
                    }
                }
                Err(error) => tracing::warn!(%task, %error, "a lost task's end was not written"),
            }
            Some(SessionMsg::Retry)
        });
    }

    /// The store failed a turn after its last attempt: its record, notice and dead letter are durable.
    pub(super) fn given_up(&self, record: &TurnRecord) {
        let scope = TurnScope {
            turn: record.id,
            conversation_id: record.conversation_id,
            channel: record.channel.clone(),
            agent: record.agent.clone(),
        };
        let voice = TurnVoice::new(scope, Arc::clone(&self.deps.hub), self.deps.observer.clone());
        voice.tell(TurnEventKind::Ended {
            outcome: Outcome::Failed,
            reply: None,
            usage: record.usage,
            error: record.error.clone(),
            into: None,
        });
        voice.observe(|scope| Observation::TurnEnded {
            scope,
            outcome: Outcome::Failed,
            duration: Duration::ZERO,
            usage: record.usage,
            error: record.error.as_ref().map(|error| error.code.clone()),
        });
        if let Some(sender) =
            self.deps.channels.get(&record.channel).and_then(|channel| channel.sender.as_ref())
        {
            // A sender that is full or restarting looks at the outbox by itself.
            let _ = sender.try_send(rookery_messages::channel::SenderMsg::Due);
        }
    }
}

/// The commit that ends a claimed turn without running it.
fn ending(claim: &TurnClaim, finish: TurnFinish, now: Timestamp) -> TurnCommit {
    let TurnRecord { id, conversation_id, .. } = claim.record;
    let mut commit = TurnCommit::new(id, conversation_id, claim.fence, now);
    commit.entries.push(JournalEntry {
        attempt: claim.fence.attempt,
        seq: 1,
        kind: JournalKind::Ended { finish: finish.clone() },
    });
    commit.finish = Some(finish);
    commit
}
