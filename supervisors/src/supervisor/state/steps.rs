//! The steps a supervisor takes: stops, one at a time, then starts; at the end the ordered stop.

use std::time::Duration;

use rookery_messages::child::Strategy;
use rookery_messages::exit::{ActorError, StopReason};
use tokio::time::Instant;

use super::{After, Live, Pending, Phase, Slot, SupervisorCtx, SupervisorState};
use crate::strategy;
use crate::supervisor::SupervisorMsg;
use crate::supervisor::spec::KILL_MARGIN;

/// Kept of a supervisor's own deadline, so that it ends before it is ended.
const OWN_MARGIN: Duration = Duration::from_millis(200);

impl SupervisorState {
    /// Takes the steps that are possible now.
    pub(in crate::supervisor) async fn settle(
        &mut self,
        ctx: &mut SupervisorCtx,
    ) -> Result<(), ActorError> {
        while self.closing.is_none() {
            self.drive_stops(ctx);
            let ready = |p: &Pending| p.due && p.stop.is_empty();
            let Some(position) = self.pending.iter().position(ready) else { break };
            let start = self.pending.swap_remove(position).start;
            for (done, &index) in start.iter().enumerate() {
                if matches!(self.slots[index].phase, Phase::Down) {
                    self.start(ctx, index).await;
                }
                if self.closing.is_some() || self.hold_back(index, &start[done + 1..]) {
                    break;
                }
            }
        }
        self.close_step(ctx)
    }

    async fn start(&mut self, ctx: &mut SupervisorCtx, index: usize) {
        let slot = &self.slots[index];
        let (starter, grace) = (slot.starter.clone(), slot.policy.grace);
        match starter.start(ctx.as_parent(), grace, slot.last_exit.clone()).await {
            Ok(handle) => {
                ctx.adopt(handle.clone());
                let entry = ctx.directory().get(handle.id);
                if let Some(entry) = entry.as_ref().filter(|_| slot.paused) {
                    entry.set_paused(true);
                }
                let live = Live { handle, entry, since: Instant::now() };
                self.slots[index].phase = Phase::Up(live);
            }
            Err(error) => self.note_exit(ctx, index, &error.as_exit()),
        }
    }

    /// After a failed start under a group strategy those not yet started wait for the next try.
    fn hold_back(&mut self, failed: usize, rest: &[usize]) -> bool {
        if self.strategy == Strategy::OneForOne {
            return false;
        }
        let Some(pending) = self.pending.iter_mut().find(|p| p.start.contains(&failed)) else {
            return false;
        };
        pending.start.extend(rest);
        pending.start.sort_unstable();
        pending.start.dedup();
        true
    }

    /// One stop at a time in each restart, then its delay.
    fn drive_stops(&mut self, ctx: &mut SupervisorCtx) {
        for position in 0..self.pending.len() {
            let pending = &self.pending[position];
            let stopping = |&index: &usize| matches!(self.slots[index].phase, Phase::Stopping(..));
            if pending.stop.iter().any(stopping) {
                continue;
            }
            match pending.stop.last().copied() {
                // It stays in the list until its end is seen.
                Some(index) => {
                    let deadline = Instant::now() + self.slots[index].policy.grace;
                    self.tell_to_stop(index, self.sibling_stop.clone(), deadline);
                }
                None if pending.timer.is_none() && !pending.due => {
                    let (delay, number) = (pending.delay, pending.number);
                    self.pending[position].timer = ctx.after(delay, SupervisorMsg::Due { number });
                }
                None => {}
            }
        }
    }

    fn tell_to_stop(&mut self, index: usize, reason: StopReason, deadline: Instant) {
        let slot = &mut self.slots[index];
        slot.phase = match std::mem::replace(&mut slot.phase, Phase::Down) {
            Phase::Up(live) => {
                live.handle.stop_by(reason, Some(deadline));
                Phase::Stopping(live, Instant::now())
            }
            other => other,
        };
    }

    /// Stops the next child, or ends when none is left.
    fn close_step(&mut self, ctx: &mut SupervisorCtx) -> Result<(), ActorError> {
        let Some(closing) = &self.closing else { return Ok(()) };
        if self.slots.iter().any(|slot| matches!(slot.phase, Phase::Stopping(..))) {
            return Ok(());
        }
        let up = |slot: &Slot| matches!(slot.phase, Phase::Up(_));
        if let Some(index) = self.slots.iter().rposition(up) {
            let reason = closing.reason.clone();
            let earlier = self.slots[..index].iter().filter(|slot| up(slot));
            let others = earlier.map(|slot| slot.policy.grace + KILL_MARGIN).sum();
            let deadline = stop_deadline(ctx.deadline(), self.slots[index].policy.grace, others);
            self.tell_to_stop(index, reason, deadline);
            return Ok(());
        }
        match self.closing.take().map(|closing| closing.then) {
            Some(After::Fail(error)) => Err(error),
            Some(After::End) | None => {
                ctx.end();
                Ok(())
            }
        }
    }
}

/// When a child has to be gone in an ordered stop, so that those after it get their time too.
fn stop_deadline(own: Option<Instant>, grace: Duration, others: Duration) -> Instant {
    let now = Instant::now();
    let Some(own) = own else { return now + grace };
    let left = own.saturating_duration_since(now);
    let left = left.saturating_sub(OWN_MARGIN.min(left / 10));
    let share = strategy::stop_share(left, grace + KILL_MARGIN, others);
    now + share.saturating_sub(KILL_MARGIN.min(share / 2))
}
