//! The images of a conversation: which of them a request shows, and what stands for the others.
//!
//! Shown are those of the turn in work and of the few before it, the newest first, up to a number and a
//! size. Which these are is told by what was recorded of the files when they came, so that it can be known
//! without a look at them; the files are read right before the request is made, by the call's own task,
//! through the workspace's gate. What can't be shown is told in words, and never makes a request malformed
//! (I4). For a model that sees nothing, all there is stands in the texts already.

use std::collections::{BTreeMap, HashSet};
use std::io::Read as _;
use std::path::PathBuf;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rookery_messages::attachment::{Attachment, Image, Images};
use rookery_messages::chat::ChatMessage;
use rookery_messages::model::ModelRequest;
use rookery_messages::tool::{CallEffects, head};

use super::sight::Sight;
use crate::media::image_format;
use crate::policy::gate::Gate;
use crate::policy::paths::{PathError, PathGate};

/// Most images a request shows.
pub const MOST_IMAGES: usize = 16;
/// Most bytes of them: as base64 they stay below what any API takes as one request.
const MOST_BYTES: u64 = 10 << 20;
/// Turns whose images are shown: the one in work, and those right before it.
const TURNS: usize = 6;
/// About what an image costs in tokens, at most: APIs shrink larger ones first.
pub const TOKENS: u64 = 1_600;
/// Longest reason that is told, in bytes.
const MAX_REASON: usize = 200;

/// Which images of a conversation are to be shown.
#[derive(Debug, Default)]
pub struct Gallery<'a> {
    /// These, the newest first.
    shown: Vec<&'a Attachment>,
    /// These not, and why.
    left_out: Vec<(&'a Attachment, String)>,
}

impl<'a> Gallery<'a> {
    /// At most `most` of these messages' images.
    pub fn of(messages: &'a [ChatMessage], most: usize) -> Self {
        let mut gallery = Self::default();
        let (mut turns, mut bytes) = (1, 0);
        for message in messages.iter().rev() {
            let images = message.attachments().iter().rev().filter(|one| one.image().is_some());
            for image in images {
                if turns > TURNS {
                    gallery.leave_out(image, format!("it came more than {} turns ago", TURNS - 1));
                } else if gallery.shown.len() >= most {
                    gallery.leave_out(image, format!("only the newest {most} images are"));
                } else if bytes + image.size > MOST_BYTES {
                    let most = MOST_BYTES;
                    gallery.leave_out(image, format!("images are shown up to {most} bytes in all"));
                } else {
                    bytes += image.size;
                    gallery.shown.push(image);
                }
            }
            turns += usize::from(message.starts_turn());
        }
        gallery
    }

    fn leave_out(&mut self, image: &'a Attachment, why: String) {
        self.left_out.push((image, why));
    }

    /// Whether there is nothing to show.
    pub fn is_empty(&self) -> bool {
        self.shown.is_empty()
    }

    /// The paths of those to be shown.
    pub fn paths(&self) -> HashSet<&'a str> {
        self.shown.iter().map(|image| image.path.as_str()).collect()
    }
}

/// Where the files are, and how many of them are shown.
#[derive(Clone, Debug)]
pub struct ImageFolder {
    workspace: PathBuf,
    closed: Arc<[PathBuf]>,
    most: usize,
}

impl ImageFolder {
    /// The workspace of an agent's gate, with what is closed to whoever reads.
    pub fn of(gate: &Gate, most: usize) -> Self {
        Self {
            workspace: gate.workspace().to_path_buf(),
            closed: gate.forbidden_paths(&CallEffects::read_only()),
            most,
        }
    }

    /// The request as a model with this sight gets it: with its images, and a word on those it doesn't get.
    pub(super) async fn fill(&self, request: ModelRequest, sight: Sight) -> ModelRequest {
        let gallery = Gallery::of(&request.messages, self.most);
        if !sight.sees() || gallery.shown.is_empty() && gallery.left_out.is_empty() {
            return request;
        }
        let mut reasons: BTreeMap<String, String> =
            gallery.left_out.iter().map(|(image, why)| (image.path.clone(), why.clone())).collect();
        let wanted: Vec<String> = gallery.shown.iter().map(|image| image.path.clone()).collect();
        let folder = self.clone();
        let read = tokio::task::spawn_blocking(move || folder.read(wanted, sight)).await;
        let (images, unread) = match read {
            Ok(read) => read,
            Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
            // The service ends, and this call with it.
            Err(_) => Default::default(),
        };
        reasons.extend(unread);
        reasons.retain(|path, _| !images.contains_key(path));
        let mut messages = Arc::unwrap_or_clone(request.messages);
        for message in messages.iter_mut() {
            tell(message, &reasons);
        }
        ModelRequest { messages: Arc::new(messages), images: Arc::new(images), ..request }
    }

    /// The images at these paths, and why the others are none. Blocks.
    fn read(&self, paths: Vec<String>, sight: Sight) -> (Images, BTreeMap<String, String>) {
        let (mut images, mut unread) = (Images::new(), BTreeMap::new());
        let mut left = MOST_BYTES;
        let gate = PathGate::open(&self.workspace, &self.closed);
        for path in paths {
            let image = match &gate {
                Ok(gate) => read(gate, &path, sight, &mut left),
                Err(error) => Err(error.to_string()),
            };
            match image {
                Ok(image) => drop(images.insert(path, image)),
                Err(why) => drop(unread.insert(path, why)),
            }
        }
        (images, unread)
    }
}

/// Adds why images of a message are not shown.
fn tell(message: &mut ChatMessage, reasons: &BTreeMap<String, String>) {
    let ChatMessage::User { text, attachments, .. } = message else { return };
    for one in attachments.iter() {
        if let Some(why) = reasons.get(&one.path) {
            let why = head(why, MAX_REASON);
            text.push_str(&format!("\n[the image {} is not shown: {why}]", one.path));
        }
    }
}

/// A file may be another one than it was when it came, or gone: what counts is what is there.
fn read(gate: &PathGate, path: &str, sight: Sight, left: &mut u64) -> Result<Image, String> {
    let file = gate.resolve(path).and_then(|at| at.open_file()).map_err(|error| match error {
        PathError::NotFound { .. } => "the file is not there any more".to_owned(),
        error => error.to_string(),
    })?;
    let most = sight.most_bytes().min(*left);
    let mut bytes = Vec::new();
    let taken = file.take(most + 1).read_to_end(&mut bytes);
    let taken = taken.map_err(|error| format!("it can't be read: {error}"))? as u64;
    if taken > most {
        return Err(format!("it has more than the {most} bytes that this model may be sent"));
    }
    let format = image_format(&bytes).ok_or("the file is no image any more")?;
    if !sight.takes(format) {
        return Err(format!("this model takes no {}", format.media_type()));
    }
    *left -= taken;
    Ok(Image { format, data: STANDARD.encode(&bytes).into() })
}

#[cfg(test)]
mod tests;
