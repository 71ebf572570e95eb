//! What is remembered from one conversation to the next.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Where memory is kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum MemoryBackend {
    /// A database file of its own.
    #[default]
    Sqlite,
    /// Nowhere: nothing is remembered, and no tool offers it.
    None,
}

/// What is remembered from one conversation to the next.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct MemorySettings {
    /// Where it is kept: `sqlite` or `none`.
    pub backend: MemoryBackend,
    /// The file. Default: `memory.db` in `data_dir`.
    pub path: Option<PathBuf>,
    /// Most entries an agent.
    pub max_entries: u64,
    /// Entries whose relevance is below so many percent are not told to a turn unasked.
    pub floor_percent: u32,
    /// The relevance of entries halves in so many days; that of the category `core` stays.
    pub half_life_days: u32,
    /// How long a turn waits for memory before it goes on without, in milliseconds.
    pub recall_timeout_ms: u64,
    /// Entries are found by their meaning too, not by their words alone. Absent: by their words. What is
    /// remembered, and what is asked, goes to that provider.
    pub embeddings: Option<EmbeddingSettings>,
}

/// Who turns texts into vectors, and what their likeness means.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EmbeddingSettings {
    /// The provider profile: its kind, address and key. Kinds `openai`, `openai_responses`, `gemini` and
    /// `ollama` can.
    pub provider: String,
    /// The embedding model's name.
    pub model: String,
    /// Numbers a vector. Absent: as many as the model likes.
    #[serde(default)]
    pub dimensions: Option<u32>,
    /// How long a question waits for its vector before it is answered by words alone, in milliseconds.
    #[serde(default = "timeout_ms")]
    pub timeout_ms: u64,
    /// Texts as unlike as this have nothing to do with each other, in percent of cosine. Fits OpenAI's
    /// models; others have other scales.
    #[serde(default = "unrelated_percent")]
    pub unrelated_percent: u32,
    /// Texts as like as this have all to do with each other, in percent of cosine.
    #[serde(default = "same_percent")]
    pub same_percent: u32,
}

fn timeout_ms() -> u64 {
    600
}

fn unrelated_percent() -> u32 {
    25
}

fn same_percent() -> u32 {
    65
}

impl Default for MemorySettings {
    fn default() -> Self {
        Self {
            backend: MemoryBackend::Sqlite,
            path: None,
            max_entries: 10_000,
            floor_percent: 40,
            half_life_days: 7,
            recall_timeout_ms: 1_000,
            embeddings: None,
        }
    }
}
