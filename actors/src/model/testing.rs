//! Pieces that the tests of all providers share.

use std::collections::VecDeque;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rookery_messages::attachment::{Attachment, Image, ImageFormat, Images};
use rookery_messages::chat::{Arguments, ChatMessage, OpaqueBlock, Origin, ToolCall, Usage};
use rookery_messages::ids::CallId;
use rookery_messages::model::{FinishReason, ModelDelta, ModelErrorClass, RawCall};
use rookery_messages::settings::{ProviderKind, ProviderSettings};
use rookery_messages::tool::ToolSpec;
use serde_json::{Value, json};
use uuid::Uuid;

use super::error::Upstream;
use super::http::{Ask, Dialect, Ease, Unsendable};
use super::offer::Offers;
use super::stream::Reading;

pub(super) fn origin_of<D: Dialect>(model: &str) -> Origin {
    Origin { profile: "main".to_owned(), kind: D::KIND.to_owned(), model: model.to_owned() }
}

pub(super) fn settings(model: &str) -> ProviderSettings {
    // The kind is the dialect's own affair here.
    ProviderSettings::new(ProviderKind::Demo, model)
}

/// The body of a request, as the provider's own check lets it pass.
pub(super) fn sent<D: Dialect>(
    settings: &ProviderSettings,
    messages: &[ChatMessage],
    tools: &[Arc<ToolSpec>],
    ease: Ease,
) -> Result<Value, Unsendable> {
    let origin = origin_of::<D>(&settings.model);
    let offers = Offers::new(D::lower).of(tools);
    let images = images_of(messages);
    let ask = Ask { origin: &origin, messages, images: &images, offers: &offers, ease: &ease };
    Ok(serde_json::from_slice(&D::new(settings).body(&ask)?)?)
}

/// An image as it would be recorded.
pub(super) fn image(path: &str, format: ImageFormat) -> Attachment {
    Attachment {
        name: path.to_owned(),
        path: path.to_owned(),
        media_type: format.media_type().to_owned(),
        size: 9,
    }
}

/// The images of these messages; the bytes of each are its path.
pub(super) fn images_of(messages: &[ChatMessage]) -> Images {
    let attached = messages.iter().flat_map(ChatMessage::attachments);
    let shown = attached.filter_map(|one| {
        let (format, data) = (one.image()?, STANDARD.encode(&one.path).into());
        Some((one.path.clone(), Image { format, data }))
    });
    shown.collect()
}

pub(super) fn call(id: u128, provider_id: Option<&str>, name: &str, arguments: &str) -> ToolCall {
    ToolCall {
        id: CallId(Uuid::from_u128(id)),
        provider_id: provider_id.map(str::to_owned),
        name: name.to_owned(),
        arguments: Arguments::parse(arguments),
    }
}

pub(super) fn asks(text: &str, calls: &[ToolCall], opaque: Vec<OpaqueBlock>) -> ChatMessage {
    ChatMessage::Assistant {
        text: text.to_owned(),
        calls: calls.to_vec(),
        interrupted: false,
        opaque,
    }
}

pub(super) fn result(call: &ToolCall, output: &str) -> ChatMessage {
    ChatMessage::Tool {
        call: call.id,
        wire_id: call.wire_id(),
        name: call.name.clone(),
        output: output.to_owned(),
        outside: false,
    }
}

pub(super) fn system(text: &str) -> ChatMessage {
    ChatMessage::System { text: text.to_owned() }
}

pub(super) fn tool(name: &str) -> Arc<ToolSpec> {
    Arc::new(ToolSpec {
        name: name.to_owned(),
        description: "does it".to_owned(),
        parameters: json!({"type": "object", "properties": {"a": {"type": "string"}}}),
    })
}

pub(super) fn upstream() -> Upstream {
    Upstream::new("main", None)
}

pub(super) fn said(text: &str) -> ModelDelta {
    ModelDelta::Text(text.to_owned())
}

pub(super) fn thought(text: &str) -> ModelDelta {
    ModelDelta::Thinking(text.to_owned())
}

pub(super) fn used(input: u64, output: u64) -> ModelDelta {
    ModelDelta::Usage(Usage { input, output })
}

pub(super) fn raw(id: &str, name: &str, arguments: &str) -> RawCall {
    RawCall {
        provider_id: (!id.is_empty()).then(|| id.to_owned()),
        name: name.to_owned(),
        arguments: arguments.to_owned(),
    }
}

pub(super) fn ended(finish: FinishReason, calls: Vec<RawCall>) -> ModelDelta {
    ModelDelta::Ended { calls, finish }
}

/// What a reader makes of these events: deltas, and the class of the error if there is one.
pub(super) fn read<R: Reading>(
    mut reader: R,
    events: &[Value],
) -> (Vec<ModelDelta>, Option<ModelErrorClass>) {
    let mut out = VecDeque::new();
    let mut failed = None;
    for event in events {
        if let Err(error) = reader.push(None, &event.to_string(), &mut out) {
            failed = Some(error);
            break;
        }
    }
    let ended = match failed {
        Some(error) => Err(error),
        None => reader.end(),
    };
    out.extend(reader.untold_usage().map(ModelDelta::Usage));
    let class = ended.map(|end| out.push_back(end)).err().map(|error| error.class);
    (out.into(), class)
}
