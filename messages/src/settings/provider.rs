//! Providers of models.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Price, Secret, defaults};

/// A provider's wire protocol.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ProviderKind {
    /// OpenAI-compatible chat completions.
    Openai,
    /// OpenAI's Responses.
    OpenaiResponses,
    /// Anthropic's Messages.
    Anthropic,
    /// Google's Gemini.
    Gemini,
    /// Ollama's own chat.
    Ollama,
    /// Built in, deterministic, offline.
    Demo,
}

/// How a model asks for tools.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ToolMode {
    /// By the provider's own tool calls. Calls written as text are understood too, unless parsing is
    /// strict.
    #[default]
    Native,
    /// As text: the tools and how to call them stand in the system prompt.
    Text,
}

/// How much a model is asked to think before it answers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ReasoningEffort {
    /// Not at all.
    None,
    /// A little.
    Low,
    /// Some.
    Medium,
    /// Much.
    High,
}

impl ReasoningEffort {
    /// The word on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
        }
    }
}

/// Which ids of tool calls a provider takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CallIdForm {
    /// Up to 64 characters.
    #[default]
    Any,
    /// Nine letters and digits, as Mistral has it.
    Short,
}

/// A model provider profile.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ProviderSettings {
    /// `openai` (compatible chat completions), `openai_responses`, `anthropic`, `gemini`, `ollama` or
    /// `demo`.
    pub kind: ProviderKind,
    /// Where it is, up to and including `/v1` (Gemini: `/v1beta`; Ollama: the host). Default: the
    /// kind's own.
    #[serde(default)]
    pub base_url: Option<String>,
    /// Its key.
    #[serde(default)]
    pub api_key: Option<Secret>,
    /// The model's name.
    #[serde(default)]
    pub model: String,
    /// How the model asks for tools: `native` or `text`, for models without tool calls of their own.
    #[serde(default)]
    pub tool_mode: ToolMode,
    /// How much the model is asked to think. Absent: nothing is said, the model's own default holds.
    #[serde(default)]
    pub reasoning_effort: Option<ReasoningEffort>,
    /// Most tokens of one answer. Absent: the provider's own limit; for Anthropic, which wants a number,
    /// 16384 and what it may think.
    #[serde(default)]
    pub max_output_tokens: Option<u64>,
    /// The window a model of kind `ollama` is loaded with, in tokens. Absent: the largest
    /// `max_context_tokens` that is set for agents that use it; else Ollama's own, which is small.
    #[serde(default)]
    pub num_ctx: Option<u64>,
    /// Ids of tool calls in requests of kind `openai`: `any`, or `short` for Mistral's.
    #[serde(default)]
    pub call_ids: CallIdForm,
    /// The model sees images. Absent: as far as its name tells.
    #[serde(default)]
    pub vision: Option<bool>,
    /// Profiles to try when this one fails, in order.
    #[serde(default)]
    pub fallback: Vec<String>,
    /// A stream that sends nothing for so many seconds has failed.
    #[serde(default = "defaults::idle_timeout_secs")]
    pub idle_timeout_secs: u64,
    /// Most calls at once.
    #[serde(default = "defaults::max_concurrency")]
    pub max_concurrency: usize,
    /// Tries of one call at this profile before the next in the chain.
    #[serde(default = "defaults::max_attempts")]
    pub max_attempts: u32,
    /// What its tokens cost. Needed by a `max_cost`.
    #[serde(default)]
    pub price: Option<Price>,
    /// Most calls begun in a minute. Absent: as many as come.
    #[serde(default)]
    pub requests_per_minute: Option<u32>,
    /// The longest wait in seconds that the provider may ask for (`Retry-After`); one that asks for days is asked
    /// again after this time.
    #[serde(default = "defaults::max_retry_after_secs")]
    pub max_retry_after_secs: u64,
}

impl ProviderSettings {
    /// A profile of which only kind and model are known; the rest is what a file gets that leaves it out.
    pub fn new(kind: ProviderKind, model: impl Into<String>) -> Self {
        Self {
            kind,
            base_url: None,
            api_key: None,
            model: model.into(),
            tool_mode: ToolMode::default(),
            reasoning_effort: None,
            max_output_tokens: None,
            num_ctx: None,
            call_ids: CallIdForm::default(),
            vision: None,
            fallback: Vec::new(),
            idle_timeout_secs: defaults::idle_timeout_secs(),
            max_concurrency: defaults::max_concurrency(),
            max_attempts: defaults::max_attempts(),
            price: None,
            requests_per_minute: None,
            max_retry_after_secs: defaults::max_retry_after_secs(),
        }
    }
}
