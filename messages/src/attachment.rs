//! Files that come with messages, and the images among them that models are sent.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// A file that came with a message and was put into the agent's workspace.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct Attachment {
    /// What its sender calls it; only shown.
    pub name: String,
    /// Where it is, relative to the workspace.
    pub path: String,
    /// What its first bytes said it is when it came; what the platform says is no more than a claim.
    pub media_type: String,
    /// Its size in bytes.
    pub size: u64,
}

impl Attachment {
    /// What kind of image it was when it came, if it was one that models are sent.
    pub fn image(&self) -> Option<ImageFormat> {
        ImageFormat::ALL.into_iter().find(|format| format.media_type() == self.media_type)
    }
}

/// The kinds of images that models are sent.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ImageFormat {
    /// PNG.
    Png,
    /// JPEG.
    Jpeg,
    /// GIF; of a moving one models see a part.
    Gif,
    /// WebP.
    Webp,
}

impl ImageFormat {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Png, Self::Jpeg, Self::Gif, Self::Webp];

    /// Its media type, as every API writes it.
    pub fn media_type(self) -> &'static str {
        match self {
            Self::Png => "image/png",
            Self::Jpeg => "image/jpeg",
            Self::Gif => "image/gif",
            Self::Webp => "image/webp",
        }
    }
}

/// An image as a request carries it.
#[derive(Clone, PartialEq, Eq)]
pub struct Image {
    /// What its bytes say it is.
    pub format: ImageFormat,
    /// Its bytes in base64 (RFC 4648, section 4), padded.
    pub data: Arc<str>,
}

impl fmt::Debug for Image {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Image({}, {} characters)", self.format.media_type(), self.data.len())
    }
}

/// The images of a request, by the paths of their attachments.
pub type Images = BTreeMap<String, Image>;
