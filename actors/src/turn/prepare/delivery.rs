//! Where something is delivered, if the model didn't say: where the turn came from (V-G9).

use rookery_messages::ids::ChannelId;
use rookery_messages::tool::DeliveryFields;
use serde_json::{Map, Value};

/// Where a turn came from, and where else its agent may deliver.
pub(super) struct Place<'a> {
    pub(super) channel: &'a ChannelId,
    pub(super) conversation: &'a str,
    /// The agent's own channels.
    pub(super) permitted: &'a [ChannelId],
}

/// Fills in what is not set. An explicit channel is kept if the agent may use it. What is no text at all
/// is left to the check of the schema.
pub(super) fn fill(
    fields: DeliveryFields,
    arguments: &mut Map<String, Value>,
    place: &Place<'_>,
) -> Result<(), String> {
    let origin = place.channel.as_str();
    match arguments.get(fields.channel) {
        value if is_unset(value) => set(arguments, fields.channel, origin),
        Some(Value::String(channel)) if channel == origin => {}
        Some(Value::String(channel)) => {
            if !place.permitted.iter().any(|id| id.as_str() == channel) {
                return Err(format!(
                    "field `{}` names a channel that is not this agent's; leave it out to answer where \
                     the message came from",
                    fields.channel
                ));
            }
            // Another channel has conversations of its own.
            return Ok(());
        }
        _ => return Ok(()),
    }
    if is_unset(arguments.get(fields.conversation)) {
        set(arguments, fields.conversation, place.conversation);
    }
    Ok(())
}

fn is_unset(value: Option<&Value>) -> bool {
    match value {
        None | Some(Value::Null) => true,
        Some(Value::String(text)) => text.is_empty(),
        Some(_) => false,
    }
}

fn set(arguments: &mut Map<String, Value>, field: &str, value: &str) {
    arguments.insert(field.to_owned(), Value::String(value.to_owned()));
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const FIELDS: DeliveryFields = DeliveryFields { channel: "channel", conversation: "chat" };

    fn filled(arguments: Value) -> Result<Value, String> {
        let own = [ChannelId::new("cli"), ChannelId::new("webhook.ci")];
        let place = Place { channel: &ChannelId::new("ws"), conversation: "ann", permitted: &own };
        let Value::Object(mut arguments) = arguments else { panic!("no object") };
        fill(FIELDS, &mut arguments, &place).map(|()| Value::Object(arguments))
    }

    // V-G9
    #[test]
    fn what_is_not_set_is_where_the_turn_came_from_and_an_explicit_channel_is_kept_if_permitted() {
        let origin = json!({ "channel": "ws", "chat": "ann" });
        for unset in [json!({}), json!({ "channel": null, "chat": "" }), json!({ "channel": "ws" })]
        {
            assert_eq!(filled(unset), Ok(origin.clone()));
        }
        let named = json!({ "channel": "ws", "chat": "bob" });
        assert_eq!(filled(named.clone()), Ok(named));
        let other = json!({ "channel": "webhook.ci", "chat": "build" });
        assert_eq!(filled(other.clone()), Ok(other));
        let refused = filled(json!({ "channel": "telegram.private" })).unwrap_err();
        assert!(refused.contains("field `channel`"), "{refused}");
        let wrong = json!({ "channel": 7 });
        assert_eq!(filled(wrong.clone()), Ok(wrong), "the schema says what is wrong with it");
    }
}
