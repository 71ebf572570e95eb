//! Puts tool calls together from the pieces a stream gives (A027–A032, V-L18).
//!
//! Servers disagree about what names a call. The rules: an index names a call, unless the id or a
//! complete call says otherwise; without an index, a new id starts a call and a piece without id
//! belongs to the last one. An empty id or name counts as absent. Nothing is judged complete before
//! the stream is.

use std::collections::HashMap;

use rookery_messages::model::RawCall;
use serde_json::Value;

use crate::model::stream::{MAX_CALLS, whole_arguments};

#[derive(Debug, Default)]
pub(super) struct CallAssembler {
    calls: Vec<Building>,
    /// The latest call at an index.
    by_index: HashMap<u64, usize>,
}

#[derive(Debug, Default)]
struct Building {
    indexed: bool,
    id: Option<String>,
    name: String,
    arguments: String,
}

/// One entry of a `tool_calls` list.
struct Piece<'a> {
    index: Option<u64>,
    id: Option<&'a str>,
    name: Option<&'a str>,
    arguments: std::borrow::Cow<'a, str>,
}

/// Why the calls can't be used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum CallFault {
    /// More than [`MAX_CALLS`].
    TooMany,
    /// A call without a name.
    Nameless,
}

impl<'a> Piece<'a> {
    /// None for what holds nothing (null, or every field empty).
    fn read(entry: &'a Value) -> Option<Self> {
        let text = |value: Option<&'a Value>| {
            value.and_then(Value::as_str).filter(|text| !text.trim().is_empty())
        };
        let function = entry.get("function").unwrap_or(&Value::Null);
        let arguments = match function.get("arguments") {
            Some(Value::String(text)) => text.as_str().into(),
            // Some servers send the object itself instead of its text.
            Some(value @ Value::Object(_)) => value.to_string().into(),
            _ => "".into(),
        };
        let piece = Self {
            index: entry.get("index").and_then(Value::as_u64),
            id: text(entry.get("id")),
            name: text(function.get("name")),
            arguments,
        };
        let empty = piece.id.is_none() && piece.name.is_none() && piece.arguments.is_empty();
        (!empty).then_some(piece)
    }
}

impl Building {
    fn is_complete(&self) -> bool {
        // The cheap look first: the arguments may be long, and pieces many.
        self.arguments.trim_end().ends_with('}')
            && serde_json::from_str::<serde::de::IgnoredAny>(&self.arguments).is_ok()
    }

    /// Whether a piece that may belong here by its position does so by its content.
    fn takes(&self, piece: &Piece<'_>) -> bool {
        if let (Some(own), Some(other)) = (&self.id, piece.id)
            && own != other
        {
            return false;
        }
        let Some(name) = piece.name.filter(|_| !self.name.is_empty()) else {
            return true;
        };
        let complete = self.is_complete();
        if complete
            && (!piece.arguments.trim().is_empty() || self.id.is_none() && piece.id.is_some())
        {
            // A complete call followed by a name with arguments: another call (A028).
            return false;
        }
        // The same name again is a repetition; a different one is the rest of the name, if an index
        // says that it is the same call and no argument has come yet.
        name == self.name || !complete && piece.index.is_some() && self.arguments.trim().is_empty()
    }

    fn add(&mut self, piece: &Piece<'_>) {
        if self.id.is_none() {
            self.id = piece.id.map(str::to_owned);
        }
        if let Some(name) = piece.name
            && self.name != name
        {
            self.name.push_str(name);
        }
        self.arguments.push_str(&piece.arguments);
    }
}

impl CallAssembler {
    /// Takes one entry; gives back how many bytes it added, 0 if it held nothing.
    pub(super) fn push(&mut self, entry: &Value) -> Result<usize, CallFault> {
        let Some(piece) = Piece::read(entry) else {
            return Ok(0);
        };
        // No server counts so far: what follows can't be trusted either (V-L20).
        if piece.index.is_some_and(|index| index >= MAX_CALLS as u64) {
            return Err(CallFault::TooMany);
        }
        let at = match self.find(&piece) {
            Some(at) => at,
            None if self.calls.len() >= MAX_CALLS => return Err(CallFault::TooMany),
            None => {
                self.calls.push(Building::default());
                self.calls.len() - 1
            }
        };
        if let Some(index) = piece.index {
            self.by_index.insert(index, at);
            self.calls[at].indexed = true;
        }
        self.calls[at].add(&piece);
        let ids = piece.id.map_or(0, str::len) + piece.name.map_or(0, str::len);
        Ok((ids + piece.arguments.len()).max(1))
    }

    fn find(&self, piece: &Piece<'_>) -> Option<usize> {
        let last = self.calls.len().checked_sub(1);
        let by_id = |id: &str| self.calls.iter().rposition(|call| call.id.as_deref() == Some(id));
        let candidate = match (piece.index, piece.id) {
            (Some(index), id) => match self.by_index.get(&index).copied() {
                // One index for all calls: then the id tells them apart (A028).
                Some(at) => match id {
                    Some(id) if !self.fits(at, piece) && self.calls[at].id.is_some() => by_id(id),
                    _ => Some(at),
                },
                // An index that first appears on a call's later pieces.
                None => last.filter(|at| {
                    !self.calls[*at].indexed && piece.name.is_none() && self.fits(*at, piece)
                }),
            },
            (None, Some(id)) => by_id(id),
            (None, None) => last,
        };
        candidate.filter(|at| self.calls[*at].takes(piece))
    }

    /// Whether the piece's id, if any, is that of the call at `at`.
    fn fits(&self, at: usize, piece: &Piece<'_>) -> bool {
        piece.id.is_none_or(|id| self.calls[at].id.as_deref() == Some(id))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    /// The calls, now that the response is complete. `cut`: it ended at the output cap.
    pub(super) fn finish(self, cut: bool) -> Result<Vec<RawCall>, CallFault> {
        let last = self.calls.len().saturating_sub(1);
        let calls = self.calls.into_iter().enumerate().map(|(at, call)| {
            if call.name.is_empty() {
                return Err(CallFault::Nameless);
            }
            let arguments = whole_arguments(call.arguments, cut && at == last);
            Ok(RawCall { provider_id: call.id, name: call.name, arguments })
        });
        calls.collect()
    }
}
