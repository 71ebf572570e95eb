//! From the SDK's types to ours. What is malformed costs its own entry, not the whole list or result.

use rmcp::model::{
    CallToolResult, ContentBlock, CustomResult, ListToolsResult, ResourceContents, Tool,
};
use serde_json::Value;

use crate::tool::mcp::client::{CallOutput, Hints, Page, Part, ToolInfo};

/// A page as the protocol has it.
pub(super) fn page(result: ListToolsResult) -> Page {
    Page { tools: result.tools.into_iter().map(tool).collect(), next: cursor(result.next_cursor) }
}

/// A page with an entry that is no tool (A103): the others are taken.
pub(super) fn loose_page(result: CustomResult) -> Option<Page> {
    let Value::Object(mut result) = result.0 else { return None };
    let Value::Array(entries) = result.remove("tools")? else { return None };
    let count = entries.len();
    let tools: Vec<ToolInfo> = entries.into_iter().filter_map(loose_tool).collect();
    if tools.len() < count {
        tracing::warn!(left_out = count - tools.len(), "a list of MCP tools has malformed entries");
    }
    let next = result.get("nextCursor").and_then(Value::as_str).map(str::to_owned);
    Some(Page { tools, next: cursor(next) })
}

/// Some servers end their list with an empty cursor.
fn cursor(cursor: Option<String>) -> Option<String> {
    cursor.filter(|cursor| !cursor.is_empty())
}

fn loose_tool(mut entry: Value) -> Option<ToolInfo> {
    // A missing or odd schema is what is malformed most often; it admits any arguments.
    let fields = entry.as_object_mut()?;
    if !fields.get("inputSchema").is_some_and(Value::is_object) {
        fields.insert("inputSchema".to_owned(), serde_json::json!({"type": "object"}));
    }
    fields.retain(|key, _| {
        matches!(key.as_str(), "name" | "description" | "inputSchema" | "annotations")
    });
    serde_json::from_value::<Tool>(entry).ok().map(tool)
}

fn tool(tool: Tool) -> ToolInfo {
    let hints = tool.annotations.as_ref().map(|hints| Hints {
        read_only: hints.read_only_hint,
        destructive: hints.destructive_hint,
        idempotent: hints.idempotent_hint,
        open_world: hints.open_world_hint,
    });
    ToolInfo {
        name: tool.name.into_owned(),
        description: tool
            .description
            .map(|text| text.into_owned())
            .or(tool.title)
            .unwrap_or_default(),
        schema: Value::Object(tool.input_schema.as_ref().clone()),
        hints: hints.unwrap_or_default(),
    }
}

/// A result as the protocol has it.
pub(super) fn output(result: CallToolResult) -> CallOutput {
    let mut parts: Vec<Part> = result.content.into_iter().map(part).collect();
    if parts.is_empty()
        && let Some(value) = result.structured_content
    {
        parts.push(Part::Text(value.to_string()));
    }
    CallOutput { parts, is_error: result.is_error == Some(true) }
}

/// A result with parts of a kind that nobody knows: they are given as they are.
pub(super) fn loose_output(result: CustomResult) -> Option<CallOutput> {
    let Value::Object(mut result) = result.0 else { return None };
    let is_error = result.get("isError") == Some(&Value::Bool(true));
    let Value::Array(entries) = result.remove("content")? else { return None };
    let parts = entries.into_iter().map(|entry| {
        serde_json::from_value::<ContentBlock>(entry.clone())
            .map_or_else(|_| Part::Text(entry.to_string()), part)
    });
    Some(CallOutput { parts: parts.collect(), is_error })
}

fn part(block: ContentBlock) -> Part {
    match block {
        ContentBlock::Text(text) => Part::Text(text.text),
        ContentBlock::Image(image) => {
            Part::Bytes { what: "image", data: image.data, mime: Some(image.mime_type) }
        }
        ContentBlock::Audio(audio) => {
            Part::Bytes { what: "audio", data: audio.data, mime: Some(audio.mime_type) }
        }
        ContentBlock::Resource(embedded) => match embedded.resource {
            ResourceContents::TextResourceContents { uri, text, .. } => {
                Part::Resource { uri, text }
            }
            ResourceContents::BlobResourceContents { blob, mime_type, .. } => {
                Part::Bytes { what: "resource", data: blob, mime: mime_type }
            }
            other => other_part(&other),
        },
        ContentBlock::ResourceLink(link) => {
            Part::Link { uri: link.uri, name: link.name, mime: link.mime_type }
        }
        other => other_part(&other),
    }
}

/// A part that a later version of the protocol brought.
fn other_part(part: &impl serde::Serialize) -> Part {
    Part::Text(serde_json::to_string(part).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    // A103
    #[test]
    fn a_malformed_entry_of_a_list_costs_that_entry_alone() {
        let page = loose_page(CustomResult(json!({
            "tools": [
                {"name": "good", "description": "d", "inputSchema": {"type": "object"}},
                {"description": "no name"},
                {"name": "odd", "inputSchema": true, "outputSchema": 7},
                5,
            ],
            "nextCursor": "2",
        })))
        .unwrap();
        let names: Vec<&str> = page.tools.iter().map(|tool| tool.name.as_str()).collect();
        assert_eq!((names, page.next.as_deref()), (vec!["good", "odd"], Some("2")));
        assert_eq!(page.tools[1].schema, json!({"type": "object"}));
        assert_eq!(loose_page(CustomResult(json!({"x": 1}))), None);
    }

    // A108
    #[test]
    fn parts_of_an_unknown_kind_are_given_as_they_are_and_the_failure_is_kept() {
        let output = loose_output(CustomResult(json!({
            "content": [{"type": "text", "text": "a"}, {"type": "hologram", "x": 1}],
            "isError": true,
        })))
        .unwrap();
        assert!(output.is_error);
        assert_eq!(
            output.parts,
            [Part::Text("a".to_owned()), Part::Text(r#"{"type":"hologram","x":1}"#.to_owned()),]
        );
    }

    // A108
    #[test]
    fn typed_parts_keep_their_order_and_kind() {
        let result: CallToolResult = serde_json::from_value(json!({"content": [
            {"type": "text", "text": "a"},
            {"type": "image", "data": "AA==", "mimeType": "image/png"},
            {"type": "resource", "resource": {"uri": "x:/y", "blob": "AQ=="}},
            {"type": "resource", "resource": {"uri": "x:/z", "text": "t"}},
            {"type": "resource_link", "uri": "x:/l", "name": "l"},
        ]}))
        .unwrap();
        let bytes = |what, data: &str, mime: Option<&str>| Part::Bytes {
            what,
            data: data.to_owned(),
            mime: mime.map(str::to_owned),
        };
        assert_eq!(
            output(result),
            CallOutput {
                parts: vec![
                    Part::Text("a".to_owned()),
                    bytes("image", "AA==", Some("image/png")),
                    bytes("resource", "AQ==", None),
                    Part::Resource { uri: "x:/z".to_owned(), text: "t".to_owned() },
                    Part::Link { uri: "x:/l".to_owned(), name: "l".to_owned(), mime: None },
                ],
                is_error: false,
            }
        );
    }
}
