//! Time, ids and randomness come in by argument, so that tests can fix them.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use uuid::Uuid;

/// The wall clock. Monotonic waiting uses `tokio::time`, which tests can pause.
pub trait Clock: Send + Sync + 'static {
    /// Now, UTC.
    fn now(&self) -> Timestamp;
}

/// Source of fresh ids (UUID version 7, RFC 9562: they sort by creation time).
pub trait Ids: Send + Sync + 'static {
    /// A fresh id.
    fn next(&self) -> Uuid;
}

/// Source of randomness for jitter. Not for keys.
pub trait Rng: Send + Sync + 'static {
    /// Uniform in `0.0..1.0`.
    fn fraction(&self) -> f64;
}

/// The three sources an actor gets at its spawn.
#[derive(Clone)]
pub struct World {
    /// Wall clock.
    pub clock: Arc<dyn Clock>,
    /// Fresh ids.
    pub ids: Arc<dyn Ids>,
    /// Jitter.
    pub rng: Arc<dyn Rng>,
}

impl World {
    /// Wall-clock now, UTC.
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Full jitter: uniform between zero and `ceiling`.
    pub fn jitter(&self, ceiling: Duration) -> Duration {
        ceiling.mul_f64(self.rng.fraction().clamp(0.0, 1.0))
    }
}

/// RFC 3339, UTC, always with milliseconds: the form every API answer uses.
pub fn rfc3339_millis(at: Timestamp) -> String {
    format!("{at:.3}")
}

/// Serde form of a [`Timestamp`] as RFC 3339 with milliseconds.
pub mod millis {
    use jiff::Timestamp;
    use serde::{Deserialize, Deserializer, Serializer};

    /// Writes RFC 3339 with milliseconds.
    pub fn serialize<S: Serializer>(at: &Timestamp, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&super::rfc3339_millis(*at))
    }

    /// Reads RFC 3339.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Timestamp, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }

    /// The same for an optional time.
    pub mod option {
        use jiff::Timestamp;
        use serde::{Deserialize, Deserializer, Serializer};

        /// Writes RFC 3339 with milliseconds, or null.
        pub fn serialize<S: Serializer>(
            at: &Option<Timestamp>,
            serializer: S,
        ) -> Result<S::Ok, S::Error> {
            match at {
                Some(at) => serializer.serialize_some(&super::super::rfc3339_millis(*at)),
                None => serializer.serialize_none(),
            }
        }

        /// Reads RFC 3339, or null.
        pub fn deserialize<'de, D: Deserializer<'de>>(
            deserializer: D,
        ) -> Result<Option<Timestamp>, D::Error> {
            match Option::<String>::deserialize(deserializer)? {
                Some(text) => text.parse().map(Some).map_err(serde::de::Error::custom),
                None => Ok(None),
            }
        }
    }
}
