//! What a supervisor knows, and how it carries out decisions.
//!
//! Every handler changes the state and then calls [`SupervisorState::settle`], which takes the next
//! steps that are possible: one stop at a time, then the starts. Nothing waits inside a handler.

mod steps;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use rookery_actors::runtime::{
    ChildExit, ChildHandle, Ctx, Entry, Intent, PlaceOrder, Placeholder, Starter, TaskKey,
};
use rookery_messages::child::{ChildPolicy, Strategy};
use rookery_messages::exit::{ActorError, ExitReason, StopReason};
use rookery_messages::tree::{ActorStatus, LastExit};
use tokio::time::Instant;

use super::report::{
    ChildEnd, ChildReport, ChildStanding, ExitLine, StopLog, SupervisorReport, millis,
};
use super::spec::SupervisorSpec;
use super::{OrderRefused, SupervisorActor, SupervisorMsg};
use crate::strategy::{self, Decision, Exit, History, Member, Plan};

/// Exits kept on show.
const EXITS: usize = 64;

struct Live {
    handle: ChildHandle,
    /// Kept because an operator's intent is read after the incarnation has left the directory.
    entry: Option<Arc<Entry>>,
    since: Instant,
}

enum Phase {
    /// No incarnation; some [`Pending`] will start it.
    Down,
    Up(Live),
    /// This supervisor told it to stop, then.
    Stopping(Live, Instant),
    Parked,
    Forgotten,
}

struct Slot {
    policy: ChildPolicy,
    starter: Starter,
    phase: Phase,
    history: History,
    last_exit: Option<LastExit>,
    /// An operator's pause outlives the incarnation.
    paused: bool,
}

/// A restart under way. No child is in two of them.
struct Pending {
    number: u64,
    /// Still to be stopped, first the last of the list.
    stop: Vec<usize>,
    start: Vec<usize>,
    delay: Duration,
    timer: Option<TaskKey>,
    /// The delay is over.
    due: bool,
}

impl Pending {
    fn has(&self, index: usize) -> bool {
        self.start.contains(&index) || self.stop.contains(&index)
    }
}

/// What a supervisor does once its children are gone.
pub(super) enum After {
    End,
    Fail(ActorError),
}

struct Closing {
    reason: StopReason,
    then: After,
}

/// See the module's documentation.
pub struct SupervisorState {
    strategy: Strategy,
    sibling_stop: StopReason,
    slots: Vec<Slot>,
    pending: Vec<Pending>,
    numbers: u64,
    closing: Option<Closing>,
    exits: VecDeque<ExitLine>,
    stopped: Vec<ChildEnd>,
    stops: Option<Arc<StopLog>>,
}

type SupervisorCtx = Ctx<SupervisorActor>;

impl SupervisorState {
    pub(super) fn new(spec: SupervisorSpec) -> Result<Self, ActorError> {
        let mut slots: Vec<Slot> = Vec::with_capacity(spec.children.len());
        for child in spec.children {
            let segment = child.starter.segment();
            if slots.iter().any(|slot| slot.starter.segment() == segment) {
                return Err(ActorError::permanent(format!("two children are named {segment}")));
            }
            slots.push(Slot {
                policy: child.policy,
                starter: child.starter,
                phase: Phase::Down,
                history: History::default(),
                last_exit: None,
                paused: false,
            });
        }
        Ok(Self {
            strategy: spec.strategy,
            sibling_stop: spec.sibling_stop,
            slots,
            pending: Vec::new(),
            numbers: 0,
            closing: None,
            exits: VecDeque::new(),
            stopped: Vec::new(),
            stops: spec.stops,
        })
    }

    /// Starts all children, in order.
    pub(super) fn begin(&mut self) {
        if self.closing.is_none() {
            self.start_now((0..self.slots.len()).collect());
        }
    }

    /// A restart's delay is over. One that was cancelled or replaced is not found.
    pub(super) fn due(&mut self, number: u64) {
        if let Some(pending) = self.pending.iter_mut().find(|p| p.number == number) {
            pending.due = true;
        }
    }

    pub(super) fn restart_child(
        &mut self,
        ctx: &SupervisorCtx,
        segment: &str,
        by: String,
    ) -> Result<(), OrderRefused> {
        let index = self.find(segment)?;
        match &self.slots[index].phase {
            Phase::Up(live) => match &live.entry {
                Some(entry) => entry.restart(StopReason::Operator(by)),
                None => return Err(OrderRefused::Busy),
            },
            Phase::Stopping(..) => return Err(OrderRefused::Busy),
            Phase::Down => {
                for pending in self.pending.iter_mut().filter(|p| p.has(index)) {
                    if let Some(timer) = pending.timer.take() {
                        ctx.abort(timer);
                    }
                    pending.due = true;
                }
            }
            Phase::Parked | Phase::Forgotten => {
                let slot = &mut self.slots[index];
                slot.history = History::default();
                slot.phase = Phase::Down;
                slot.starter.suspend();
                self.start_now(vec![index]);
            }
        }
        Ok(())
    }

    pub(super) fn stop_child(
        &mut self,
        ctx: &SupervisorCtx,
        segment: &str,
        by: String,
    ) -> Result<(), OrderRefused> {
        let index = self.find(segment)?;
        match &self.slots[index].phase {
            Phase::Up(live) => match &live.entry {
                Some(entry) => entry.stop(StopReason::Operator(by)),
                None => return Err(OrderRefused::Busy),
            },
            Phase::Stopping(..) => return Err(OrderRefused::Busy),
            Phase::Down => {
                for pending in &mut self.pending {
                    pending.start.retain(|&i| i != index);
                }
                self.park(ctx, index);
            }
            Phase::Parked | Phase::Forgotten => {}
        }
        Ok(())
    }

    /// A child's incarnation ended.
    pub(super) fn child_ended(&mut self, ctx: &mut SupervisorCtx, exit: &ChildExit) {
        let index = self.slots.iter().position(|slot| match &slot.phase {
            Phase::Up(live) | Phase::Stopping(live, _) => live.handle.id == exit.id,
            Phase::Down | Phase::Parked | Phase::Forgotten => false,
        });
        if let Some(index) = index {
            self.note_exit(ctx, index, &exit.reason);
        }
    }

    /// Begins to end: nothing is started any more, children are stopped one after the other.
    pub(super) fn close(&mut self, ctx: &SupervisorCtx, reason: StopReason, then: After) {
        for pending in self.pending.drain(..) {
            if let Some(timer) = pending.timer {
                ctx.abort(timer);
            }
        }
        if self.closing.is_none() {
            self.closing = Some(Closing { reason, then });
        }
    }

    /// The actor ends: children that did not get through the ordered stop are reported too.
    pub(super) fn note_end(&mut self, ctx: &SupervisorCtx) {
        for index in (0..self.slots.len()).rev() {
            let (exit, asked) = match &self.slots[index].phase {
                Phase::Up(live) => (live.handle.exit(), None),
                Phase::Stopping(live, asked) => (live.handle.exit(), Some(*asked)),
                Phase::Down | Phase::Parked | Phase::Forgotten => continue,
            };
            self.note_stopped(ctx, index, exit.unwrap_or(ExitReason::Killed), asked);
        }
        let is_root = ctx.directory().get(ctx.id()).is_none_or(|entry| entry.parent.is_none());
        for slot in &self.slots {
            // Whether there will be another incarnation of this supervisor is known above it.
            if is_root {
                slot.starter.close();
            } else {
                slot.starter.suspend();
            }
        }
    }

    pub(super) fn report(&self) -> SupervisorReport {
        let children = self.slots.iter().map(|slot| ChildReport {
            segment: slot.starter.segment().to_owned(),
            kind: slot.starter.kind(),
            standing: match slot.phase {
                Phase::Down => ChildStanding::Restarting,
                Phase::Up(_) => ChildStanding::Up,
                Phase::Stopping(..) => ChildStanding::Stopping,
                Phase::Parked => ChildStanding::Parked,
                Phase::Forgotten => ChildStanding::Forgotten,
            },
            generation: slot.starter.generation(),
            recent_restarts: slot.history.recent(),
            last_exit: slot.last_exit.clone(),
        });
        SupervisorReport {
            children: children.collect(),
            exits: self.exits.iter().cloned().collect(),
            stopped: self.stopped.clone(),
        }
    }

    fn find(&self, segment: &str) -> Result<usize, OrderRefused> {
        if self.closing.is_some() {
            return Err(OrderRefused::Stopping);
        }
        let found = self.slots.iter().position(|slot| slot.starter.segment() == segment);
        found.ok_or(OrderRefused::Unknown)
    }

    fn start_now(&mut self, start: Vec<usize>) {
        self.numbers += 1;
        self.pending.push(Pending {
            number: self.numbers,
            stop: Vec::new(),
            start,
            delay: Duration::ZERO,
            timer: None,
            due: true,
        });
    }

    /// Records an end and decides what follows.
    fn note_exit(&mut self, ctx: &mut SupervisorCtx, index: usize, reason: &ExitReason) {
        let slot = &mut self.slots[index];
        // From now on sends say `Restarting`, until there is an incarnation or none is to come.
        slot.starter.suspend();
        let generation = slot.starter.generation();
        let (live, asked) = match std::mem::replace(&mut slot.phase, Phase::Down) {
            Phase::Up(live) => (Some(live), None),
            Phase::Stopping(live, asked) => (Some(live), Some(asked)),
            Phase::Down | Phase::Parked | Phase::Forgotten => (None, None),
        };
        let at = ctx.world().now();
        let entry = live.as_ref().and_then(|live| live.entry.as_ref());
        slot.paused = entry.map_or(slot.paused, |entry| entry.is_paused());
        let in_hand = entry.filter(|_| reason.is_abnormal()).and_then(|entry| entry.in_hand());
        slot.last_exit = Some(LastExit {
            at,
            reason: reason.clone(),
            text: reason.to_string(),
            in_hand: in_hand.map(|(message, _)| message.to_owned()),
        });
        let then = if self.closing.is_some() {
            self.note_stopped(ctx, index, reason.clone(), asked);
            "the supervisor stops".to_owned()
        } else if asked.is_some() || self.pending.iter().any(|p| p.stop.contains(&index)) {
            self.stopped_with_group(ctx, index)
        } else {
            let intent = entry.map_or(Intent::None, |entry| entry.intent());
            let lived = live.as_ref().map_or(Duration::ZERO, |live| live.since.elapsed());
            // Whoever was told to stop and had to be killed was stopped all the same.
            let asked = live.as_ref().and_then(|live| live.handle.stop_asked());
            let asked = asked.filter(|_| reason.is_abnormal());
            let wanted = asked.map(|reason| ExitReason::Stopped { reason });
            let reason = wanted.as_ref().unwrap_or(reason);
            self.judge(ctx, &Exit { child: index, reason, intent, lived })
        };
        if self.exits.len() == EXITS {
            self.exits.pop_front();
        }
        self.exits.push_back(ExitLine {
            at,
            segment: self.slots[index].starter.segment().to_owned(),
            generation,
            reason: reason.to_string(),
            then,
        });
    }

    /// A member of a group is down: it waits for the group's start, unless it is temporary.
    fn stopped_with_group(&mut self, ctx: &SupervisorCtx, index: usize) -> String {
        for pending in &mut self.pending {
            pending.stop.retain(|&i| i != index);
        }
        if self.pending.iter().any(|p| p.start.contains(&index)) {
            self.place(ctx, index, ActorStatus::Restarting);
            "restart with its siblings".to_owned()
        } else {
            self.forget(ctx, index);
            "forgotten".to_owned()
        }
    }

    fn judge(&mut self, ctx: &mut SupervisorCtx, exit: &Exit<'_>) -> String {
        let members: Vec<_> = self
            .slots
            .iter()
            .map(|slot| Member {
                policy: &slot.policy,
                wanted: matches!(slot.phase, Phase::Down | Phase::Up(_) | Phase::Stopping(..)),
            })
            .collect();
        let history = &self.slots[exit.child].history;
        let fraction = ctx.world().rng.fraction();
        let verdict =
            strategy::decide(self.strategy, &members, history, exit, Instant::now(), fraction);
        self.slots[exit.child].history = verdict.history;
        match verdict.decision {
            Decision::Restart(plan) => {
                let text = format!("restart in {} ms", plan.delay.as_millis());
                self.schedule(ctx, exit.child, plan);
                text
            }
            Decision::Park | Decision::Shelve => {
                self.park(ctx, exit.child);
                "parked".to_owned()
            }
            Decision::Forget => {
                self.forget(ctx, exit.child);
                "forgotten".to_owned()
            }
            Decision::Escalate => {
                let child = self.slots[exit.child].starter.segment();
                let message = format!("{child} could not be kept running: {}", exit.reason);
                let permanent = exit.reason.is_permanent();
                let error = ActorError { message, permanent };
                self.close(ctx, self.sibling_stop.clone(), After::Fail(error));
                "escalated".to_owned()
            }
            Decision::Finish => {
                self.close(ctx, StopReason::ParentEnded, After::End);
                "the supervisor has done its work".to_owned()
            }
        }
    }

    /// Takes up a plan. It swallows restarts under way that it overlaps.
    fn schedule(&mut self, ctx: &SupervisorCtx, child: usize, plan: Plan) {
        self.numbers += 1;
        let Plan { mut stop, mut start, delay } = plan;
        self.pending.retain(|old| {
            if !start.iter().chain(&stop).any(|&index| old.has(index)) {
                return true;
            }
            if let Some(timer) = old.timer {
                ctx.abort(timer);
            }
            stop.extend(&old.stop);
            start.extend(&old.start);
            false
        });
        stop.sort_unstable();
        stop.dedup();
        let alive = |phase: &Phase| matches!(phase, Phase::Up(_) | Phase::Stopping(..));
        stop.retain(|&index| alive(&self.slots[index].phase));
        start.sort_unstable();
        start.dedup();
        for &index in &start {
            if index == child || matches!(self.slots[index].phase, Phase::Down) {
                self.place(ctx, index, ActorStatus::Restarting);
            }
        }
        let number = self.numbers;
        self.pending.push(Pending { number, stop, start, delay, timer: None, due: false });
    }

    fn note_stopped(
        &mut self,
        ctx: &SupervisorCtx,
        index: usize,
        reason: ExitReason,
        asked: Option<Instant>,
    ) {
        let starter = &self.slots[index].starter;
        let end = ChildEnd {
            path: format!("{}/{}", ctx.path(), starter.segment()),
            kind: starter.kind(),
            reason,
            took_ms: asked.map_or(0, |at| millis(at.elapsed())),
        };
        if let Some(log) = &self.stops {
            log.add(end.clone());
        }
        self.stopped.push(end);
    }

    fn park(&mut self, ctx: &SupervisorCtx, index: usize) {
        let slot = &mut self.slots[index];
        slot.phase = Phase::Parked;
        slot.starter.close();
        self.place(ctx, index, ActorStatus::Parked);
    }

    fn forget(&mut self, ctx: &SupervisorCtx, index: usize) {
        let slot = &mut self.slots[index];
        slot.phase = Phase::Forgotten;
        slot.starter.close();
        ctx.directory().unplace(&format!("{}/{}", ctx.path(), slot.starter.segment()));
    }

    fn place(&self, ctx: &SupervisorCtx, index: usize, status: ActorStatus) {
        let slot = &self.slots[index];
        let (address, segment) = (ctx.address(), slot.starter.segment().to_owned());
        ctx.directory().place(Placeholder {
            path: format!("{}/{segment}", ctx.path()),
            kind: slot.starter.kind(),
            status,
            generation: slot.starter.generation(),
            last_exit: slot.last_exit.clone(),
            parent: ctx.id(),
            control: Arc::new(move |order| {
                let (segment, reply) = (segment.clone(), None);
                let message = match order {
                    PlaceOrder::Restart { by } => SupervisorMsg::Restart { segment, by, reply },
                    PlaceOrder::Stop { by } => SupervisorMsg::Stop { segment, by, reply },
                };
                address.try_send(message).is_ok()
            }),
        });
    }
}
