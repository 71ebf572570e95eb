//! What a person says as a message's content: text alone, or text and images in parts (OpenAI API
//! reference, "Create chat completion"; guide "Images and vision").

use rookery_messages::attachment::Attachment;
use serde::Serialize;

use crate::model::http::Ask;
use crate::model::wire::{data_url, images, is_data_url};

#[derive(Serialize)]
#[serde(untagged)]
pub(super) enum Content<'a> {
    Text(&'a str),
    Parts(Vec<Part<'a>>),
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Part<'a> {
    Text { text: &'a str },
    ImageUrl { image_url: ImageUrl },
}

#[derive(Serialize)]
pub(super) struct ImageUrl {
    url: String,
}

impl<'a> Content<'a> {
    /// Text alone stays plain: servers that know no images know no parts either.
    pub(super) fn of(ask: &Ask<'_>, text: &'a str, attachments: &[Attachment]) -> Self {
        let mut shown = images(ask, attachments).peekable();
        if shown.peek().is_none() {
            return Self::Text(text);
        }
        let shown = shown.map(|one| Part::ImageUrl { image_url: ImageUrl { url: data_url(one) } });
        Self::Parts(std::iter::once(Part::Text { text }).chain(shown).collect())
    }

    /// Whether there is something to read, and every image is one.
    pub(super) fn is_sound(&self) -> bool {
        match self {
            Self::Text(text) => !text.trim().is_empty(),
            Self::Parts(parts) => parts.iter().all(|part| match part {
                Part::Text { text } => !text.trim().is_empty(),
                Part::ImageUrl { image_url } => is_data_url(&image_url.url),
            }),
        }
    }
}
