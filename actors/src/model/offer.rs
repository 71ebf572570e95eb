//! The tools of a request as the API is given them: schemas lowered once, refused tools left out.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use rookery_messages::tool::ToolSpec;
use serde_json::Value;

use super::openai::wire_tool;
use super::schema::{Lowered as LoweredSchema, lower};

/// Most lowered schemas kept.
const MOST_KEPT: usize = 4_096;
/// Most tools in quarantine.
const MOST_REFUSED: usize = 1_024;

/// One tool on offer.
#[derive(Clone)]
pub(super) struct Offer {
    pub(super) spec: Arc<ToolSpec>,
    /// Its schema, lowered.
    pub(super) parameters: Arc<Value>,
    /// As chat completions are told of it, as JSON: the same in every request.
    pub(super) wire: Arc<str>,
}

/// A spec, and its offer's schema and JSON.
type Lowered = (Weak<ToolSpec>, Arc<Value>, Arc<str>);

/// What one profile knows of tools. Shared by all its calls.
pub(super) struct Offers {
    /// Makes a schema one that the API takes.
    lower: fn(&Value) -> LoweredSchema,
    lowered: Mutex<HashMap<String, Lowered>>,
    /// The tools that the API refused, as they were (A105).
    refused: Mutex<HashMap<String, Arc<ToolSpec>>>,
}

impl Default for Offers {
    fn default() -> Self {
        Self::new(lower)
    }
}

impl Offers {
    /// For an API that takes schemas as `lower` makes them.
    pub(super) fn new(lower: fn(&Value) -> LoweredSchema) -> Self {
        Self { lower, lowered: Mutex::default(), refused: Mutex::default() }
    }

    /// The tools that are offered of these.
    pub(super) fn of(&self, tools: &[Arc<ToolSpec>]) -> Vec<Offer> {
        let refused = self.refused.lock();
        let offered = tools.iter().filter(|spec| {
            // A tool whose schema has changed gets another chance.
            refused.get(&spec.name).is_none_or(|known| known.parameters != spec.parameters)
        });
        let offered: Vec<_> = offered.cloned().collect();
        drop(refused);
        offered.into_iter().map(|spec| self.offer(spec)).collect()
    }

    /// The tools in quarantine, by name.
    pub(super) fn refused(&self) -> Vec<String> {
        let mut names: Vec<String> = self.refused.lock().keys().cloned().collect();
        names.sort_unstable();
        names
    }

    /// Leaves a tool out from now on.
    pub(super) fn refuse(&self, spec: &Arc<ToolSpec>) {
        let mut refused = self.refused.lock();
        if refused.len() < MOST_REFUSED {
            refused.insert(spec.name.clone(), Arc::clone(spec));
        }
    }

    fn offer(&self, spec: Arc<ToolSpec>) -> Offer {
        let mut kept = self.lowered.lock();
        if let Some((known, schema, wire)) = kept.get(&spec.name)
            && std::ptr::eq(known.as_ptr(), Arc::as_ptr(&spec))
        {
            return Offer { parameters: Arc::clone(schema), wire: Arc::clone(wire), spec };
        }
        let lowered = (self.lower)(&spec.parameters);
        if !lowered.loosened.is_empty() {
            let loosened: Vec<&str> = lowered.loosened.iter().map(String::as_str).collect();
            let loosened = loosened.join("; ");
            tracing::info!(tool = spec.name, loosened, "a schema was loosened for this provider");
        }
        let wire: Arc<str> = wire_tool(&spec, &lowered.schema).into();
        let schema = Arc::new(lowered.schema);
        if kept.len() >= MOST_KEPT {
            kept.retain(|_, (known, ..)| known.strong_count() > 0);
        }
        if kept.len() < MOST_KEPT {
            let entry = (Arc::downgrade(&spec), Arc::clone(&schema), Arc::clone(&wire));
            kept.insert(spec.name.clone(), entry);
        }
        Offer { parameters: schema, wire, spec }
    }
}

/// The tool that an answer with status 400 complains of: by its name in quotes, or by its place.
pub(super) fn blamed<'a>(body: &str, offers: &'a [Offer]) -> Option<&'a Offer> {
    let quote = |c: char| matches!(c, '\'' | '"' | '`' | '\\');
    let named = offers.iter().find(|offer| {
        body.match_indices(&offer.spec.name).any(|(at, name)| {
            body[..at].ends_with(quote) && body[at + name.len()..].starts_with(quote)
        })
    });
    named.or_else(|| {
        body.match_indices("tools").find_map(|(at, word)| {
            let rest = body[at + word.len()..].strip_prefix(['[', '.'])?;
            let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
            offers.get(digits.parse::<usize>().ok()?)
        })
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn spec(name: &str, parameters: Value) -> Arc<ToolSpec> {
        Arc::new(ToolSpec { name: name.to_owned(), description: String::new(), parameters })
    }

    fn names(offers: &[Offer]) -> Vec<&str> {
        offers.iter().map(|offer| offer.spec.name.as_str()).collect()
    }

    // A104
    #[test]
    fn a_schema_is_lowered_once_as_long_as_the_tool_is_the_same() {
        let offers = Offers::default();
        let tools = [spec("a", json!({"type": ["object", "null"]}))];
        let (first, second) = (offers.of(&tools), offers.of(&tools));
        assert!(Arc::ptr_eq(&first[0].parameters, &second[0].parameters));
        assert!(Arc::ptr_eq(&first[0].wire, &second[0].wire));
        assert_eq!(*first[0].parameters, json!({"type": "object", "properties": {}}));
        let changed = offers.of(&[spec("a", json!({"properties": {"x": true}}))]);
        assert_eq!(changed[0].parameters["properties"], json!({"x": {}}));
    }

    // A105
    #[test]
    fn a_refused_tool_is_left_out_until_its_schema_changes() {
        let offers = Offers::default();
        let bad = spec("s1_bad", json!({"type": "object"}));
        let tools = [spec("good", json!({})), Arc::clone(&bad)];
        offers.refuse(&bad);
        assert_eq!(names(&offers.of(&tools)), ["good"]);
        assert_eq!(offers.refused(), ["s1_bad"]);
        // Listed again, it is the same; mended, it is not.
        assert!(offers.of(&[spec("s1_bad", json!({"type": "object"}))]).is_empty());
        assert_eq!(names(&offers.of(&[spec("s1_bad", json!({"properties": {}}))])), ["s1_bad"]);
    }

    // A105
    #[test]
    fn the_tool_that_is_complained_of_is_found_by_name_or_place() {
        let offers = Offers::default();
        let tools = ["time", "s1_bad", "s1_bad_too"].map(|name| spec(name, json!({})));
        let offers = offers.of(&tools);
        let blamed = |body: &str| blamed(body, &offers).map(|offer| offer.spec.name.clone());
        for body in [
            "Invalid schema for function 's1_bad': array schema missing items",
            r#"{"error":{"message":"Invalid schema for function \"s1_bad\""}}"#,
            "tools.1.custom.input_schema: JSON schema is invalid",
            r#"{"error":{"param":"tools[1].function.parameters"}}"#,
        ] {
            assert_eq!(blamed(body).as_deref(), Some("s1_bad"), "{body}");
        }
        for body in ["the time is over", "tools[9] is bad", "too many tools"] {
            assert_eq!(blamed(body), None, "{body}");
        }
    }
}
