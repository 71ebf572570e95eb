//! Which models see images, and what of them their APIs take.

use rookery_messages::attachment::ImageFormat::{self, Gif, Jpeg, Png, Webp};
use rookery_messages::settings::{ProviderKind, ProviderSettings};

/// Most bytes of one image that an API takes in a request, where it says no less.
const MOST_BYTES: u64 = 5 << 20;
/// Anthropic counts 5 MiB of base64.
const MOST_BYTES_ANTHROPIC: u64 = (5 << 20) / 4 * 3;

/// What a profile's model sees.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Sight {
    formats: &'static [ImageFormat],
    most_bytes: u64,
}

impl Sight {
    /// What the model of a profile sees: what its operator says, else what its name tells.
    pub fn of(settings: &ProviderSettings) -> Self {
        if settings.vision.unwrap_or_else(|| sees(&settings.model)) {
            Self::of_kind(settings.kind)
        } else {
            Self::default()
        }
    }

    /// What the APIs take (guides "Images and vision" of OpenAI, "Vision" of Anthropic, "Image
    /// understanding" of Gemini; Ollama decodes no GIF, and WebP in its newest versions only).
    fn of_kind(kind: ProviderKind) -> Self {
        match kind {
            ProviderKind::Openai | ProviderKind::OpenaiResponses => {
                Self { formats: &ImageFormat::ALL, most_bytes: MOST_BYTES }
            }
            ProviderKind::Anthropic => {
                Self { formats: &[Png, Jpeg, Gif, Webp], most_bytes: MOST_BYTES_ANTHROPIC }
            }
            ProviderKind::Gemini => Self { formats: &[Png, Jpeg, Webp], most_bytes: MOST_BYTES },
            ProviderKind::Ollama => Self { formats: &[Png, Jpeg], most_bytes: MOST_BYTES },
            ProviderKind::Demo => Self::default(),
        }
    }

    /// Whether it sees anything.
    pub fn sees(self) -> bool {
        !self.formats.is_empty()
    }

    /// Whether it takes images of this kind.
    pub(super) fn takes(self, format: ImageFormat) -> bool {
        self.formats.contains(&format)
    }

    /// The largest image it takes, in bytes.
    pub(super) fn most_bytes(self) -> u64 {
        self.most_bytes
    }
}

/// Beginnings of the names of families that see. Names of routers have an owner in front.
const SEE: &[&str] = &[
    "gpt-4o",
    "chatgpt-4o",
    "gpt-4.1",
    "gpt-4.5",
    "gpt-4-turbo",
    "gpt-5",
    "o1",
    "o3",
    "o4",
    "claude-3",
    "claude-opus-",
    "claude-sonnet-",
    "claude-haiku-",
    "gemini-",
    "gemma-3",
    "gemma3",
    "llama-4",
    "llama4",
    "llama-3.2-11b",
    "llama-3.2-90b",
    "pixtral",
    "mistral-small-3.1",
    "mistral-small-3.2",
    "mistral-small3",
    "mistral-medium-3",
    "llava",
    "bakllava",
    "moondream",
    "minicpm-v",
    "internvl",
    "grok-4",
];

/// Beginnings of the names of those among them that don't.
const BLIND: &[&str] = &[
    "o1-mini",
    "o1-preview",
    "o3-mini",
    "gpt-4o-audio",
    "gemini-embedding",
    "gemma-3-1b",
    "gemma-3-270m",
    "gemma3:1b",
    "gemma3:270m",
];

/// Whether a model sees, as far as its name tells. What nobody knows does not: an image that is not sent
/// costs less than a refused request.
fn sees(model: &str) -> bool {
    let model = model.trim().to_ascii_lowercase();
    let name = model.rsplit('/').next().unwrap_or_default();
    let begins = |list: &[&str]| list.iter().any(|family| name.starts_with(family));
    // `qwen2.5vl:7b`, `qwen3-vl-30b`, `llama3.2-vision`, `phi-4-multimodal`
    let mut words = name.split(|c: char| !c.is_ascii_alphanumeric());
    let says_so =
        words.any(|word| matches!(word, "vision" | "multimodal" | "vlm") || word.ends_with("vl"));
    says_so || begins(SEE) && !begins(BLIND)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_models_name_tells_whether_it_sees() {
        for name in [
            "gpt-4o-mini",
            "gpt-4.1",
            "gpt-5-mini",
            "o3",
            "o4-mini",
            "claude-sonnet-4-5",
            "claude-3-haiku-20240307",
            "anthropic/claude-opus-4.1",
            "models/gemini-2.5-flash",
            "gemma3:12b",
            "qwen2.5vl:7b",
            "Qwen/Qwen3-VL-30B-A3B-Instruct",
            "llama3.2-vision",
            "mistralai/pixtral-12b",
            "microsoft/phi-4-multimodal-instruct",
        ] {
            assert!(sees(name), "{name}");
        }
        for name in [
            "gpt-3.5-turbo",
            "gpt-4",
            "gpt-oss:20b",
            "o1-mini",
            "o3-mini",
            "claude-2.1",
            "gemma3:1b",
            "llama3.1",
            "deepseek-chat",
            "qwen3",
            "test-model",
            "",
        ] {
            assert!(!sees(name), "{name}");
        }
    }

    #[test]
    fn an_operators_word_counts_more_than_a_name_and_each_api_takes_its_own() {
        let settings = |kind, model: &str, vision| {
            Sight::of(&ProviderSettings { vision, ..ProviderSettings::new(kind, model) })
        };
        let own = settings(ProviderKind::Openai, "my-model", Some(true));
        assert!(own.sees() && own.takes(Gif));
        assert!(!settings(ProviderKind::Openai, "gpt-4o", Some(false)).sees());
        assert!(!settings(ProviderKind::Demo, "demo", Some(true)).sees());
        let gemini = settings(ProviderKind::Gemini, "gemini-2.5-pro", None);
        assert!(gemini.takes(Webp) && !gemini.takes(Gif));
        let anthropic = settings(ProviderKind::Anthropic, "claude-sonnet-4-5", None);
        assert_eq!(anthropic.most_bytes().div_ceil(3) * 4, 5 << 20);
    }
}
