//! The check of what is sent to a model, and the repair of histories that would fail it (I4).
//!
//! Providers refuse a conversation in which calls and results don't pair, and then refuse every later
//! request of it. Pairs are matched by our own call id; the provider's id is only what both halves
//! carry on the wire. Pure, one pass over the messages.

use std::collections::{HashMap, HashSet};

use rookery_messages::chat::{ChatMessage, OpaqueBlock, ToolCall, UserKind};
use rookery_messages::check_invariant;
use rookery_messages::ids::CallId;
use rookery_messages::tool::text;

/// Longest id a call may have on the wire (A047).
pub const MAX_WIRE_ID: usize = 64;

/// What is wrong with a request's messages.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum WireFault {
    /// Nobody asks anything (V-A15).
    #[error("the conversation has no user message, so there is nothing to answer: send one first")]
    NoUser,
    /// A system message that is not the first message.
    #[error("message {at} is a second system message, or stands behind others")]
    SystemNotLeading {
        /// Its place.
        at: usize,
    },
    /// The conversation begins with an assistant or tool message.
    #[error("message {at} comes before the first user message")]
    BeforeUser {
        /// Its place.
        at: usize,
    },
    /// A message with nothing in it.
    #[error("message {at} is blank")]
    Blank {
        /// Its place.
        at: usize,
    },
    /// A tool message that answers no call, or not the one whose turn it is.
    #[error("message {at} is a tool result without its call")]
    Orphan {
        /// Its place.
        at: usize,
    },
    /// A call without a result.
    #[error("the call `{wire_id}` has no result before message {at}")]
    Unresolved {
        /// The place its result should have.
        at: usize,
        /// Its id on the wire.
        wire_id: String,
    },
    /// Two calls with one id, or an id the wire can't carry.
    #[error("the call id `{wire_id}` of message {at} is not unique, or not usable")]
    WireId {
        /// Its place.
        at: usize,
        /// The id.
        wire_id: String,
    },
}

/// Repairs, then checks. Gives back the messages and how much had to be changed.
///
/// A fault that is left is ours, save the one that nothing can repair: no user message.
pub fn prepared(messages: Vec<ChatMessage>) -> Result<(Vec<ChatMessage>, u32), WireFault> {
    let (messages, changes) = repair(messages);
    verify(&messages)?;
    Ok((messages, changes))
}

/// The check at the last place before the wire: only the absence of a question is not our own fault.
fn verify(messages: &[ChatMessage]) -> Result<(), WireFault> {
    let checked = check(messages);
    let ours = checked.as_ref().err().filter(|fault| **fault != WireFault::NoUser);
    check_invariant!(I4, ours.is_none(), "a repaired request is malformed: {ours:?}");
    checked
}

/// Whether the messages are well-formed: at most one system message, leading; then a user message;
/// every call followed by its result, in order, under one id that is unique in the request; no blanks.
pub fn check(messages: &[ChatMessage]) -> Result<(), WireFault> {
    let mut wire_ids = HashSet::new();
    let mut calls = HashSet::new();
    let mut waiting: std::collections::VecDeque<&ToolCall> = std::collections::VecDeque::new();
    let mut asked = false;
    let mut any_user = false;
    for (at, message) in messages.iter().enumerate() {
        if let ChatMessage::Tool { call, wire_id, output, .. } = message {
            let expected = waiting.pop_front().ok_or(WireFault::Orphan { at })?;
            if expected.id != *call || expected.wire_id() != *wire_id {
                return Err(WireFault::Orphan { at });
            }
            if is_blank(output) {
                return Err(WireFault::Blank { at });
            }
            continue;
        }
        if let Some(call) = waiting.front() {
            return Err(WireFault::Unresolved { at, wire_id: call.wire_id() });
        }
        match message {
            ChatMessage::System { .. } if at > 0 => {
                return Err(WireFault::SystemNotLeading { at });
            }
            ChatMessage::System { text } if is_blank(text) => return Err(WireFault::Blank { at }),
            ChatMessage::System { .. } | ChatMessage::Tool { .. } => {}
            ChatMessage::User { text, .. } if is_blank(text) => {
                return Err(WireFault::Blank { at });
            }
            ChatMessage::User { kind, .. } => {
                any_user = true;
                asked |= *kind != UserKind::Breadcrumb;
            }
            ChatMessage::Assistant { .. } if !any_user => return Err(WireFault::BeforeUser { at }),
            ChatMessage::Assistant { text, calls, .. } if is_blank(text) && calls.is_empty() => {
                return Err(WireFault::Blank { at });
            }
            ChatMessage::Assistant { calls: asked_for, .. } => {
                for call in asked_for {
                    let wire_id = call.wire_id();
                    let usable = is_usable(&wire_id) && calls.insert(call.id);
                    if !usable || !wire_ids.insert(wire_id.clone()) {
                        return Err(WireFault::WireId { at, wire_id });
                    }
                    waiting.push_back(call);
                }
            }
        }
    }
    if let Some(call) = waiting.front() {
        return Err(WireFault::Unresolved { at: messages.len(), wire_id: call.wire_id() });
    }
    if asked { Ok(()) } else { Err(WireFault::NoUser) }
}

/// The messages in a form that passes [`check`] if anybody asked anything, and the number of changes.
pub fn repair(messages: Vec<ChatMessage>) -> (Vec<ChatMessage>, u32) {
    let mut repair = Repair::default();
    for (at, message) in messages.into_iter().enumerate() {
        repair.take(at, message);
    }
    repair.finish()
}

/// A message that stays, or a call message with the results found for it.
enum Entry {
    Plain(ChatMessage),
    Calls {
        text: String,
        calls: Vec<ToolCall>,
        interrupted: bool,
        opaque: Vec<OpaqueBlock>,
        results: Vec<Option<Found>>,
    },
}

/// A result, as it was found.
struct Found {
    /// The id it came under; it goes out under its call's.
    wire_id: String,
    name: String,
    output: String,
    outside: bool,
}

#[derive(Default)]
struct Repair {
    system: Vec<String>,
    entries: Vec<Entry>,
    /// Where a call stands: entry and slot.
    owner: HashMap<CallId, (usize, usize)>,
    any_user: bool,
    changes: u32,
}

impl Repair {
    fn changed(&mut self, by: usize) {
        self.changes = self.changes.saturating_add(u32::try_from(by).unwrap_or(u32::MAX));
    }

    fn take(&mut self, at: usize, message: ChatMessage) {
        match message {
            ChatMessage::System { text } => {
                // V-C12: all of them become one, in front.
                if at > 0 || is_blank(&text) {
                    self.changed(1);
                }
                if !is_blank(&text) {
                    self.system.push(text);
                }
            }
            ChatMessage::User { text, .. } if is_blank(&text) => self.changed(1),
            ChatMessage::User { .. } => {
                self.any_user = true;
                self.entries.push(Entry::Plain(message));
            }
            // V-A16
            ChatMessage::Assistant { .. } | ChatMessage::Tool { .. } if !self.any_user => {
                self.changed(1);
            }
            ChatMessage::Assistant { text, calls, interrupted, opaque } => {
                self.take_assistant(text, calls, interrupted, opaque);
            }
            ChatMessage::Tool { call, wire_id, name, output, outside } => {
                self.take_result(call, Found { wire_id, name, output, outside });
            }
        }
    }

    fn take_assistant(
        &mut self,
        text: String,
        mut calls: Vec<ToolCall>,
        interrupted: bool,
        mut opaque: Vec<OpaqueBlock>,
    ) {
        let before = calls.len();
        let mut own = HashSet::new();
        calls.retain(|call| !self.owner.contains_key(&call.id) && own.insert(call.id));
        self.changed(before - calls.len());
        if before != calls.len() {
            // They vouch for an answer that is another now: removed, not altered (A042).
            opaque.clear();
        }
        if calls.is_empty() {
            if is_blank(&text) {
                self.changed(usize::from(before == 0));
            } else {
                self.entries.push(Entry::Plain(ChatMessage::Assistant {
                    text,
                    calls,
                    interrupted,
                    opaque,
                }));
            }
            return;
        }
        if let Some(Entry::Calls { results, .. }) = self.entries.last()
            && results.iter().all(Option::is_none)
        {
            // V-C11: its results find no owner and go too.
            self.changed(1);
            return;
        }
        let entry = self.entries.len();
        self.owner.extend(calls.iter().enumerate().map(|(slot, call)| (call.id, (entry, slot))));
        let results = calls.iter().map(|_| None).collect();
        self.entries.push(Entry::Calls { text, calls, interrupted, opaque, results });
    }

    fn take_result(&mut self, call: CallId, mut found: Found) {
        let is_last = |entry: usize| entry + 1 == self.entries.len();
        let place = self.owner.get(&call).map(|&(entry, slot)| (entry, slot, is_last(entry)));
        let Some((entry, slot, in_place)) = place else {
            // V-C10
            return self.changed(1);
        };
        let Some(Entry::Calls { calls, results, .. }) = self.entries.get_mut(entry) else {
            return self.changed(1);
        };
        if results[slot].is_some() {
            // A second result of one call.
            return self.changed(1);
        }
        // Out of order: a later slot is filled already, or another message came between.
        let moved = !in_place || results[slot + 1..].iter().any(Option::is_some);
        let blank = is_blank(&found.output);
        if blank {
            text::NO_OUTPUT.clone_into(&mut found.output);
        }
        let misnamed = found.wire_id != calls[slot].wire_id();
        results[slot] = Some(found);
        self.changed(usize::from(moved) + usize::from(blank) + usize::from(misnamed));
    }

    fn finish(mut self) -> (Vec<ChatMessage>, u32) {
        let mut out = Vec::with_capacity(self.entries.len() + 1);
        if !self.system.is_empty() {
            out.push(ChatMessage::System { text: self.system.join("\n\n") });
        }
        let mut used = HashSet::new();
        for entry in std::mem::take(&mut self.entries) {
            match entry {
                Entry::Plain(message) => out.push(message),
                Entry::Calls { text, mut calls, interrupted, opaque, results } => {
                    for call in &mut calls {
                        self.give_unique_id(call, &mut used);
                    }
                    let mut answers = Vec::with_capacity(calls.len());
                    for (call, found) in calls.iter().zip(results) {
                        answers.push(self.answer(call, found));
                    }
                    out.push(ChatMessage::Assistant { text, calls, interrupted, opaque });
                    out.append(&mut answers);
                }
            }
        }
        (out, self.changes)
    }

    /// A047: providers reuse their ids over turns, and one's ids may be unusable at another.
    fn give_unique_id(&mut self, call: &mut ToolCall, used: &mut HashSet<String>) {
        let wire_id = call.wire_id();
        if is_usable(&wire_id) && used.insert(wire_id) {
            return;
        }
        self.changed(1);
        call.provider_id = None;
        let own = call.wire_id();
        let mut wire_id = own.clone();
        let mut number = 1_u32;
        while !used.insert(wire_id.clone()) {
            number += 1;
            wire_id = format!("{own}_{number}");
        }
        call.provider_id = (wire_id != own).then_some(wire_id);
    }

    fn answer(&mut self, call: &ToolCall, found: Option<Found>) -> ChatMessage {
        let wire_id = call.wire_id();
        let (name, output, outside) = match found {
            Some(found) => (found.name, found.output, found.outside),
            None => {
                self.changed(1);
                // Whether it had begun isn't known here, so it is said that it may have.
                (call.name.clone(), text::INTERRUPTED_RUNNING.to_owned(), false)
            }
        };
        ChatMessage::Tool { call: call.id, wire_id, name, output, outside }
    }
}

fn is_blank(text: &str) -> bool {
    text.trim().is_empty()
}

fn is_usable(wire_id: &str) -> bool {
    !wire_id.is_empty()
        && wire_id.len() <= MAX_WIRE_ID
        && wire_id.chars().all(|c| c.is_ascii_graphic())
}

#[cfg(test)]
#[path = "wire_check_tests.rs"]
mod tests;
