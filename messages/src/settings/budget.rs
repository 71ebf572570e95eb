//! What turns may spend, and what a provider's tokens cost (B11).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::chat::Usage;

/// What a provider's tokens cost, a million of them, in a currency that is the same for all providers.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Price {
    /// A million tokens that are sent.
    pub input: f64,
    /// A million tokens that are received.
    pub output: f64,
}

impl Price {
    /// What so many tokens cost, in millionths, rounded up: nothing that costs is free.
    pub fn of(&self, usage: Usage) -> u64 {
        let micros = usage.input as f64 * self.input + usage.output as f64 * self.output;
        micros.ceil().max(0.0) as u64
    }
}

/// What may be spent at most. A key that is absent sets no limit.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SpendLimit {
    /// Tokens, sent and received.
    pub max_tokens: Option<u64>,
    /// Cost, by the prices of the providers.
    pub max_cost: Option<f64>,
}

impl SpendLimit {
    /// Whether it sets any.
    pub fn is_set(&self) -> bool {
        self.max_tokens.is_some() || self.max_cost.is_some()
    }

    /// The cost in millionths.
    pub fn max_micros(&self) -> Option<u64> {
        self.max_cost.map(|cost| (cost * 1e6) as u64)
    }
}

/// What turns of a runtime profile may spend. At a limit the next model call is refused before it is made.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct BudgetSettings {
    /// One turn, its delegates included.
    pub turn: SpendLimit,
    /// One sender of a channel, a day (UTC).
    pub sender: SpendLimit,
    /// One agent, a day (UTC).
    pub agent: SpendLimit,
}

/// A cost in millionths, written as an amount.
pub mod micros {
    use serde::{Deserialize, Deserializer, Serializer};

    /// Nothing to show.
    pub fn is_zero(micros: &u64) -> bool {
        *micros == 0
    }

    /// Millionths as an amount.
    pub fn serialize<S: Serializer>(micros: &u64, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(*micros as f64 / 1e6)
    }

    /// An amount as millionths.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
        let amount = f64::deserialize(deserializer)?;
        Ok((amount * 1e6).round().max(0.0) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cost_is_rounded_up_and_a_limit_down() {
        let price = Price { input: 3.0, output: 15.0 };
        assert_eq!(price.of(Usage { input: 1_000_000, output: 100_000 }), 4_500_000);
        assert_eq!(Price { input: 0.15, output: 0.6 }.of(Usage { input: 1, output: 0 }), 1);
        assert_eq!(Price { input: 0.0, output: 0.0 }.of(Usage { input: 9, output: 9 }), 0);
        let limit = SpendLimit { max_tokens: None, max_cost: Some(0.25) };
        assert_eq!((limit.max_micros(), limit.is_set()), (Some(250_000), true));
        assert!(!SpendLimit::default().is_set());
    }
}
