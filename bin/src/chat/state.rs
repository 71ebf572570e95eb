//! The chat's state machine. Pure: frames, input and signals in; steps out.

use std::collections::VecDeque;

use rookery_messages::approval::{ADMIN_ROUTE, Approval, ApprovalState};
use rookery_messages::event::{TurnEvent, TurnEventKind};
use rookery_messages::ids::{ApprovalId, CallId, TurnId};
use rookery_messages::turn::{CallState, Outcome, TurnRecord, TurnState};

use super::frames::{ClientFrame, Refusal, ServerFrame};
use super::input::{Answer, Input, QUIT, answer};
use super::view::{View, ending, is_denied};
use crate::exit::Exit;
use crate::render::{prose, strict};

const HELP: &str = "/stop stops the turn that runs, /new forgets the history, /status and /model tell and choose, /quit leaves, /help shows this; Ctrl-C stops, twice leaves; all else is sent";

/// Turns that have ended and are remembered.
const REMEMBERED: usize = 256;

/// How the chat is used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Mode {
    /// Somebody sits there: all events are shown.
    Interactive,
    /// Each line of standard input is a message; replies go to standard output.
    Lines,
    /// One message, one reply.
    Once,
}

/// What is to be done.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Step {
    /// Send a frame.
    Send(ClientFrame),
    /// Write to standard output.
    Out(String),
    /// Write to standard error.
    Err(String),
    /// Ask for a turn's record.
    Fetch(TurnId),
    /// End.
    Leave(Exit),
}

/// What the next line of input is for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Asking {
    Message,
    Answer,
    Replacement,
}

/// A message that is not known to be accepted; it is sent again after a lost connection.
struct Waiting {
    id: String,
    text: String,
}

pub(super) struct Chat {
    mode: Mode,
    /// Somebody can answer a prompt. Without it no call that asks runs, unless it is asked elsewhere (V-H8).
    can_ask: bool,
    view: View,
    /// Makes this chat's message ids its own.
    nonce: String,
    submitted: u64,
    waiting: VecDeque<Waiting>,
    /// Turns that have not ended, as far as is known, oldest first.
    turns: Vec<TurnId>,
    /// The last that have: their ends stand on the screen, and events of theirs that come again are old.
    over: VecDeque<TurnId>,
    last_seq: Option<u64>,
    approvals: VecDeque<Approval>,
    /// Decisions that may not have arrived; each is made at most once by the service (I7).
    decided: Vec<(ApprovalId, TurnId, ClientFrame)>,
    asking: Asking,
    /// A cancel was sent for this turn.
    stopping: Option<TurnId>,
    input_over: bool,
    failed: bool,
    denied: bool,
}

impl Chat {
    pub(super) fn new(mode: Mode, can_ask: bool, styled: bool, nonce: String) -> Self {
        Self {
            mode,
            can_ask,
            view: View::new(styled),
            nonce,
            submitted: 0,
            waiting: VecDeque::new(),
            turns: Vec::new(),
            over: VecDeque::new(),
            last_seq: None,
            approvals: VecDeque::new(),
            decided: Vec::new(),
            asking: Asking::Message,
            stopping: None,
            input_over: false,
            failed: false,
            denied: false,
        }
    }

    /// Whether a line of input has a use now. Lines that are messages wait for the reply before.
    pub(super) fn wants_input(&self) -> bool {
        let asked = self.asking != Asking::Message;
        !self.input_over
            && match self.mode {
                Mode::Interactive => true,
                Mode::Lines => asked || self.is_idle(),
                Mode::Once => asked,
            }
    }

    /// The oldest turn that has not ended.
    pub(super) fn oldest_turn(&self) -> Option<TurnId> {
        self.turns.first().copied()
    }

    fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.turns.is_empty()
    }

    /// The first connection is there.
    pub(super) fn started(&mut self) -> Vec<Step> {
        let mut steps = Vec::new();
        if self.mode == Mode::Interactive {
            let line = self.view.line(HELP);
            steps.push(Step::Out(line));
        }
        self.settle(&mut steps);
        steps
    }

    /// Sends a message.
    pub(super) fn submit(&mut self, text: &str) -> Vec<Step> {
        self.submitted += 1;
        let id = format!("{}-{}", self.nonce, self.submitted);
        let frame = ClientFrame::Message { id: id.clone(), text: text.to_owned() };
        self.waiting.push_back(Waiting { id, text: text.to_owned() });
        vec![Step::Send(frame)]
    }

    /// The connection is there again: what was missed is asked for, what may be lost is sent again.
    pub(super) fn reconnected(&self) -> Vec<Step> {
        let resume = self.last_seq.map(|seq| Step::Send(ClientFrame::Resume { seq }));
        let messages = self.waiting.iter().map(|waiting| {
            Step::Send(ClientFrame::Message { id: waiting.id.clone(), text: waiting.text.clone() })
        });
        let decisions = self.decided.iter().map(|(_, _, frame)| Step::Send(frame.clone()));
        let cancel = self.stopping.map(|turn| Step::Send(ClientFrame::Cancel { turn }));
        let turns = self.turns.iter().map(|turn| Step::Fetch(*turn));
        resume.into_iter().chain(messages).chain(decisions).chain(cancel).chain(turns).collect()
    }

    /// Something worth saying about the connection.
    pub(super) fn note(&mut self, text: &str) -> Vec<Step> {
        let line = self.view.line(&format!("({})", prose(text)));
        vec![self.show(line)]
    }

    /// A frame came.
    pub(super) fn frame(&mut self, frame: ServerFrame) -> Vec<Step> {
        match frame {
            ServerFrame::Event(event) => self.event(*event),
            ServerFrame::Gap { seq } => {
                self.last_seq = seq.or(self.last_seq);
                let mut steps = self.note("some output was missed");
                steps.extend(self.turns.iter().map(|turn| Step::Fetch(*turn)));
                steps
            }
            ServerFrame::Error(refusal) => self.refused(&refusal),
            ServerFrame::Unknown => Vec::new(),
        }
    }

    /// A turn's record, as asked for.
    pub(super) fn fetched(&mut self, record: TurnRecord) -> Vec<Step> {
        if record.state != TurnState::Ended || !self.turns.contains(&record.id) {
            return Vec::new();
        }
        self.denied |= record.calls.iter().any(|call| call.state == CallState::Denied);
        self.ended(
            record.id,
            &TurnEventKind::Ended {
                outcome: record.outcome.unwrap_or(Outcome::Failed),
                reply: record.reply,
                usage: record.usage,
                error: record.error,
                into: record.into,
            },
        )
    }

    /// A turn that was asked for is not there: nothing will come of it.
    pub(super) fn lost(&mut self, turn: TurnId, cause: &str) -> Vec<Step> {
        self.failed = true;
        let mut steps = self.note(cause);
        self.forget(turn);
        self.settle(&mut steps);
        steps
    }

    /// A line, or the input's end.
    pub(super) fn input(&mut self, input: &Input) -> Vec<Step> {
        self.view.entered();
        let mut steps = match self.asking {
            Asking::Answer => self.answered(answer(input)),
            Asking::Replacement => self.replaced(input),
            Asking::Message => match input {
                Input::Line(line) => self.message(line),
                Input::Over | Input::Failed(_) => Vec::new(),
            },
        };
        if !matches!(input, Input::Line(_)) {
            self.input_over = true;
            // Nobody is left to answer the others either.
            while self.asking != Asking::Message {
                steps.extend(self.decide("deny", None));
            }
        }
        match input {
            Input::Line(_) | Input::Over => {}
            Input::Failed(cause) => {
                self.failed = true;
                steps.extend(self.note(&format!("standard input can't be read: {cause}")));
            }
        }
        if !steps.iter().any(|step| matches!(step, Step::Leave(_))) {
            self.settle(&mut steps);
        }
        steps
    }

    fn message(&mut self, line: &str) -> Vec<Step> {
        let text = line.trim();
        if self.mode == Mode::Interactive {
            match text {
                QUIT => return vec![Step::Leave(Exit::Ok)],
                "/stop" => return self.stop(),
                "/help" => {
                    let line = self.view.line(HELP);
                    return vec![self.show(line)];
                }
                _ => {}
            }
        }
        if text.is_empty() { Vec::new() } else { self.submit(line) }
    }

    /// Ctrl-C: stops the turn; again, or with nothing to stop, leaves.
    pub(super) fn interrupt(&mut self) -> Vec<Step> {
        if self.turns.is_empty() || self.stopping.is_some() {
            let exit = if self.mode == Mode::Interactive { Exit::Ok } else { Exit::Failed };
            return vec![Step::Leave(exit)];
        }
        self.stop()
    }

    fn stop(&mut self) -> Vec<Step> {
        let Some(turn) = self.oldest_turn() else {
            return self.note("nothing runs");
        };
        self.stopping = Some(turn);
        self.drop_approvals(|approval| approval.turn == turn);
        let mut steps = vec![Step::Send(ClientFrame::Cancel { turn })];
        steps.extend(self.note("stopping; Ctrl-C again leaves"));
        steps
    }

    fn event(&mut self, event: TurnEvent) -> Vec<Step> {
        self.last_seq = Some(event.seq);
        let mut steps = Vec::new();
        let ours = self.turns.contains(&event.turn);
        let over = self.over.contains(&event.turn);
        match &event.kind {
            TurnEventKind::Accepted { id, duplicate } => {
                let known = self.waiting.len();
                self.waiting.retain(|waiting| waiting.id != *id);
                let is_mine = self.waiting.len() < known;
                if is_mine {
                    self.over.retain(|turn| *turn != event.turn);
                } else if over {
                    return steps;
                }
                if (is_mine || self.mode == Mode::Interactive) && !ours {
                    self.turns.push(event.turn);
                }
                // Its turn may have ended while nobody listened.
                if *duplicate {
                    steps.push(Step::Fetch(event.turn));
                }
            }
            _ if over || (!ours && self.mode != Mode::Interactive) => {}
            TurnEventKind::Ended { .. } => return self.ended(event.turn, &event.kind),
            // Of another conversation, asked here too: it is no turn of ours to wait for or to stop.
            TurnEventKind::Approval { approval } if !ours && approval.route.is_some() => {
                self.approval(approval, &mut steps);
            }
            kind => {
                if !ours {
                    self.turns.push(event.turn);
                }
                self.denied |= is_denied(kind);
                match kind {
                    TurnEventKind::Approval { approval } => self.approval(approval, &mut steps),
                    TurnEventKind::ToolResult { call, .. } => self.settled_call(*call, &mut steps),
                    _ => {}
                }
                self.show_event(kind, &mut steps);
            }
        }
        steps
    }

    fn show_event(&mut self, kind: &TurnEventKind, steps: &mut Vec<Step>) {
        let streams = matches!(kind, TurnEventKind::Delta { .. } | TurnEventKind::Thinking { .. });
        if streams && self.mode != Mode::Interactive {
            return;
        }
        let text = self.view.event(kind);
        if !text.is_empty() {
            steps.push(self.show(text));
        }
    }

    fn ended(&mut self, turn: TurnId, kind: &TurnEventKind) -> Vec<Step> {
        let mut steps = Vec::new();
        if self.over.len() == REMEMBERED {
            self.over.pop_front();
        }
        self.over.push_back(turn);
        if let TurnEventKind::Ended { outcome, .. } = kind {
            self.failed |=
                !matches!(outcome, Outcome::Answered | Outcome::Silent | Outcome::Merged);
        }
        match kind {
            TurnEventKind::Ended { outcome, reply, error, .. }
                if self.mode != Mode::Interactive =>
            {
                if let Some(reply) = reply {
                    steps.push(Step::Out(format!("{}\n", prose(reply.trim_end_matches('\n')))));
                }
                if error.is_some() || reply.is_none() {
                    steps.push(Step::Err(format!("{}\n", ending(*outcome, error.as_ref()))));
                }
            }
            _ => steps.push(Step::Out(self.view.event(kind))),
        }
        self.forget(turn);
        self.settle(&mut steps);
        steps
    }

    fn forget(&mut self, turn: TurnId) {
        self.turns.retain(|one| *one != turn);
        self.decided.retain(|(_, of, _)| *of != turn);
        self.drop_approvals(|approval| approval.turn == turn);
        if self.stopping == Some(turn) {
            self.stopping = None;
        }
    }

    /// Requests nobody need decide any more; the prompt of the first goes with it.
    fn drop_approvals(&mut self, gone: impl Fn(&Approval) -> bool) -> bool {
        let first = self.approvals.front().is_some_and(&gone);
        self.approvals.retain(|approval| !gone(approval));
        if first {
            self.asking = Asking::Message;
        }
        first
    }

    fn approval(&mut self, approval: &Approval, steps: &mut Vec<Step>) {
        if approval.state != ApprovalState::Pending {
            let first = self.approvals.front().is_some_and(|one| one.id == approval.id);
            let waited = self.approvals.iter().any(|one| one.id == approval.id);
            self.drop_approvals(|one| one.id == approval.id);
            if waited {
                let text = format!("{} is {}", approval.tool, approval.stands());
                steps.extend(self.note(&text));
            }
            if first {
                self.ask(steps);
            }
            return;
        }
        let known = self.decided.iter().any(|(id, _, _)| *id == approval.id)
            || self.approvals.iter().any(|one| one.id == approval.id);
        if known || self.stopping == Some(approval.turn) {
            return;
        }
        if approval.route.is_some() && (!self.can_ask || self.input_over) {
            // Others are asked: it is theirs, and not ours to refuse.
            let text = self.view.approval(approval);
            steps.push(self.show(text));
            steps.extend(self.note(&elsewhere(approval)));
            return;
        }
        self.approvals.push_back(approval.clone());
        if self.can_ask && !self.input_over {
            if self.asking == Asking::Message {
                self.ask(steps);
            } else if self.asking == Asking::Answer && self.together().len() > 1 {
                // One more of those that are asked about: all are seen before the first is decided.
                let text = self.view.approval(approval);
                steps.push(self.show(text));
                self.question(steps);
            }
            return;
        }
        self.asking = Asking::Answer;
        let text = self.view.approval(approval);
        steps.push(self.show(text));
        steps.extend(self.note("nobody can be asked here, so it is not run"));
        steps.extend(self.decide("nobody_asked", None));
    }

    /// A call ended, so that nobody need decide about it.
    fn settled_call(&mut self, call: CallId, steps: &mut Vec<Step>) {
        if self.drop_approvals(|approval| approval.call == call) {
            self.ask(steps);
        }
    }

    /// Asks about the first request, if there is one.
    fn ask(&mut self, steps: &mut Vec<Step>) {
        let Some(approval) = self.approvals.front().cloned() else { return };
        if approval.is_question() {
            // A text is the answer; none declines.
            self.asking = Asking::Replacement;
            let text = self.view.question(&approval) + &self.view.prompt("your answer: ");
            steps.push(self.show(text));
            return;
        }
        self.asking = Asking::Answer;
        let text = self.view.approval(&approval);
        steps.push(self.show(text));
        self.question(steps);
    }

    fn question(&mut self, steps: &mut Vec<Step>) {
        let Some(first) = self.approvals.front() else { return };
        let mut text = "[y]es / [n]o / ".to_owned();
        if first.offer.is_some() {
            text.push_str("[a]lways / ");
        }
        text.push_str("[r]eplace");
        let together = self.together().len();
        if together > 1 {
            let place = first.batch.map_or(1, |batch| batch.position);
            text = format!("({place}) {text} / [all] {together} yes / [none] of {together}");
        }
        let text = self.view.prompt(&format!("{text}: "));
        steps.push(self.show(text));
    }

    /// Those that are shown together with the first, itself included.
    fn together(&self) -> Vec<ApprovalId> {
        let Some(first) = self.approvals.front() else { return Vec::new() };
        let same = |one: &&Approval| match (&one.batch, &first.batch) {
            (Some(one), Some(first)) => one.id == first.id,
            _ => one.id == first.id,
        };
        self.approvals.iter().filter(same).map(|one| one.id).collect()
    }

    fn answered(&mut self, answer: Answer) -> Vec<Step> {
        match answer {
            Answer::Yes => self.decide("approve", None),
            Answer::No => self.decide("deny", None),
            Answer::Always | Answer::AlwaysForAgent if !self.can_grant() => {
                let mut steps = self.note("always is not offered for this call");
                self.question(&mut steps);
                steps
            }
            Answer::Always => self.decide_as("always", None, Some("conversation")),
            Answer::AlwaysForAgent => self.decide_as("always", None, Some("agent")),
            Answer::AllYes => self.decide_all("approve"),
            Answer::AllNo => self.decide_all("deny"),
            Answer::Replace => {
                self.asking = Asking::Replacement;
                let text = self.view.prompt("result to give instead: ");
                vec![self.show(text)]
            }
        }
    }

    /// A text replaces the result; none is a refusal.
    fn replaced(&mut self, input: &Input) -> Vec<Step> {
        match input {
            Input::Line(text) if !text.trim().is_empty() => {
                self.decide("replace", Some(text.clone()))
            }
            _ => self.decide("deny", None),
        }
    }

    /// Whether *always* is offered for the first request.
    fn can_grant(&self) -> bool {
        self.approvals.front().is_some_and(|approval| approval.offer.is_some())
    }

    fn decide(&mut self, decision: &'static str, replacement: Option<String>) -> Vec<Step> {
        self.decide_as(decision, replacement, None)
    }

    fn decide_as(
        &mut self,
        decision: &'static str,
        replacement: Option<String>,
        scope: Option<&'static str>,
    ) -> Vec<Step> {
        let together = self.together().len();
        let mut steps = self.send_decision(decision, replacement, scope);
        if together > 1 {
            // The others stand on the screen already.
            self.asking = Asking::Answer;
            self.question(&mut steps);
        } else {
            self.ask(&mut steps);
        }
        steps
    }

    /// The same for all that are shown together.
    fn decide_all(&mut self, decision: &'static str) -> Vec<Step> {
        let mut steps = Vec::new();
        for _ in self.together() {
            steps.extend(self.send_decision(decision, None, None));
        }
        self.ask(&mut steps);
        steps
    }

    fn send_decision(
        &mut self,
        decision: &'static str,
        replacement: Option<String>,
        scope: Option<&'static str>,
    ) -> Vec<Step> {
        self.asking = Asking::Message;
        let Some(approval) = self.approvals.pop_front() else { return Vec::new() };
        self.denied |= matches!(decision, "deny" | "nobody_asked");
        let frame = ClientFrame::Approval { id: approval.id, decision, replacement, scope };
        self.decided.push((approval.id, approval.turn, frame.clone()));
        vec![Step::Send(frame)]
    }

    fn refused(&mut self, refusal: &Refusal) -> Vec<Step> {
        let text = format!("error: {} ({})", prose(&refusal.message), strict(&refusal.code));
        let line = self.view.line(&text);
        let mut steps = vec![self.show(line)];
        let known = self.waiting.len();
        match &refusal.id {
            Some(id) => self.waiting.retain(|waiting| waiting.id != *id),
            // Without an id it is about what was sent last; a message, unless a turn is under way.
            None if self.turns.is_empty() => {
                self.waiting.pop_front();
            }
            None => {}
        }
        if self.waiting.len() < known {
            self.failed = true;
            self.settle(&mut steps);
        }
        steps
    }

    /// With nothing under way: ends if it is time, else prompts.
    fn settle(&mut self, steps: &mut Vec<Step>) {
        if self.asking != Asking::Message {
            return;
        }
        if !self.approvals.is_empty() {
            self.ask(steps);
            return;
        }
        if !self.is_idle() {
            return;
        }
        let over = match self.mode {
            Mode::Once => self.submitted > 0,
            Mode::Lines | Mode::Interactive => self.input_over,
        };
        if over {
            steps.push(Step::Leave(self.exit()));
        } else if self.mode == Mode::Interactive {
            let text = self.view.prompt("> ");
            steps.push(self.show(text));
        }
    }

    fn exit(&self) -> Exit {
        match self.mode {
            Mode::Interactive => Exit::Ok,
            _ if self.failed => Exit::Failed,
            _ if self.denied => Exit::Refused,
            _ => Exit::Ok,
        }
    }

    /// What ends an open line, so that the shell's prompt gets its own.
    pub(super) fn leave_line(&mut self) -> String {
        if self.mode == Mode::Interactive { self.view.fresh_line() } else { String::new() }
    }

    /// For people: beside the replies where those are for a program.
    fn show(&self, text: String) -> Step {
        if self.mode == Mode::Interactive { Step::Out(text) } else { Step::Err(text) }
    }
}

/// Where a request waits that nobody is asked about here.
fn elsewhere(approval: &Approval) -> String {
    let place = match approval.route.as_ref().map(|route| route.channel.as_str()) {
        None | Some(ADMIN_ROUTE) => {
            format!("by operators: rookery approvals approve {}", approval.id)
        }
        Some(channel) => format!("at {}", strict(channel)),
    };
    format!("nobody is asked here; it waits for an answer {place}")
}
