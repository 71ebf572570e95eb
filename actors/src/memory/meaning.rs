//! Meanings: texts as vectors, and what their likeness says.
//!
//! A vector is kept at unit length, so that the likeness of two texts is the product of theirs. The scale
//! makes it a relevance like that of words: absolute, so that the best of a bad lot scores low (R6).

use std::time::Duration;

use rookery_messages::BoxFuture;
use rookery_messages::model::{ModelError, ModelErrorClass};

/// Most numbers of a vector.
pub const MAX_DIMENSIONS: usize = 16_384;

/// Turns texts into vectors.
pub trait Embedder: Send + Sync + 'static {
    /// The provider profile that is asked.
    fn profile(&self) -> &str;

    /// The model. Vectors of two models have nothing to do with each other.
    fn model(&self) -> &str;

    /// How many numbers a vector has, if that is settled.
    fn dimensions(&self) -> Option<usize>;

    /// A vector for each text, in order, within `limit`. Its errors hold no secret.
    fn embed<'a>(
        &'a self,
        texts: &'a [String],
        limit: Duration,
    ) -> BoxFuture<'a, Result<Vec<Vec<f32>>, ModelError>>;
}

/// What the likeness of two texts says, `-1.0..=1.0`. Models differ in what they give unrelated texts.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Likeness {
    /// From here down they have nothing to do with each other.
    pub unrelated: f64,
    /// From here up all.
    pub same: f64,
}

impl Likeness {
    /// As a relevance, `0.0..=1.0`.
    pub fn relevance(self, cosine: f64) -> f64 {
        let width = (self.same - self.unrelated).max(f64::EPSILON);
        ((cosine - self.unrelated) / width).clamp(0.0, 1.0)
    }
}

/// A question's vector, and how it is compared.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Question {
    pub(super) model: String,
    pub(super) vector: Vec<f32>,
    pub(super) likeness: Likeness,
}

impl Question {
    /// The relevance of an entry whose stored vector this is; none if the two can't be compared.
    pub(super) fn relevance(&self, stored: &[u8]) -> Option<f64> {
        if stored.len() != self.vector.len() * 4 {
            return None;
        }
        let numbers = stored.as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes));
        let product: f32 = numbers.zip(&self.vector).map(|(a, b)| a * b).sum();
        Some(self.likeness.relevance(f64::from(product)))
    }
}

/// A vector's bytes, as they are stored.
pub(super) fn stored(vector: &[f32]) -> Vec<u8> {
    vector.iter().flat_map(|number| number.to_le_bytes()).collect()
}

/// The same vector at unit length; none if it has no direction.
pub(super) fn unit(vector: &[f32]) -> Option<Vec<f32>> {
    let square: f64 = vector.iter().map(|number| f64::from(*number).powi(2)).sum();
    let length = square.sqrt();
    let usable = length.is_finite() && length > 0.0;
    usable.then(|| vector.iter().map(|number| (f64::from(*number) / length) as f32).collect())
}

/// Vectors as they came, checked and at unit length.
pub(super) fn checked(
    vectors: &[Vec<f32>],
    texts: usize,
    dimensions: Option<usize>,
) -> Result<Vec<Vec<f32>>, ModelError> {
    let wrong = |what: String| Err(ModelError::new(ModelErrorClass::Protocol, what));
    if vectors.len() != texts {
        return wrong(format!("{} vectors came for {texts} texts", vectors.len()));
    }
    let wanted = dimensions.or(vectors.first().map(Vec::len)).unwrap_or_default();
    if let Some(other) = vectors.iter().find(|vector| vector.len() != wanted) {
        return wrong(format!(
            "a vector of {} numbers came where {wanted} were awaited; check memory.embeddings.dimensions",
            other.len()
        ));
    }
    if wanted == 0 || wanted > MAX_DIMENSIONS {
        return wrong(format!("vectors of {wanted} numbers can't be used"));
    }
    let units: Option<Vec<Vec<f32>>> = vectors.iter().map(|vector| unit(vector)).collect();
    match units {
        Some(units) => Ok(units),
        None => wrong("a vector came that has no direction".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LIKENESS: Likeness = Likeness { unrelated: 0.25, same: 0.65 };

    // R6
    #[test]
    fn likeness_is_a_relevance_of_its_own_and_not_a_rank() {
        for (cosine, relevance) in [(-1.0, 0.0), (0.2, 0.0), (0.45, 0.5), (0.65, 1.0), (1.0, 1.0)] {
            assert!((LIKENESS.relevance(cosine) - relevance).abs() < 1e-9, "{cosine}");
        }
    }

    #[test]
    fn vectors_that_cannot_be_used_are_refused_with_what_to_look_at() {
        let of = |vectors: &[Vec<f32>], dimensions| {
            checked(vectors, 2, dimensions).map_err(|error| error.message)
        };
        assert!(of(&[vec![3.0, 4.0]], None).unwrap_err().contains("1 vectors came for 2 texts"));
        let two = [vec![3.0, 4.0], vec![0.0, 2.0]];
        assert_eq!(of(&two, None).unwrap(), [vec![0.6, 0.8], vec![0.0, 1.0]]);
        assert!(of(&two, Some(3)).unwrap_err().contains("memory.embeddings.dimensions"));
        assert!(of(&[vec![1.0], vec![1.0, 2.0]], None).is_err());
        assert!(of(&[vec![], vec![]], None).is_err());
        for none in [0.0, f32::NAN, f32::INFINITY] {
            assert!(of(&[vec![none, 0.0], vec![1.0, 1.0]], None).is_err(), "{none}");
        }
    }

    proptest! {
        #[test]
        fn whatever_is_compared_the_relevance_is_in_its_range(
            a in prop::collection::vec(any::<f32>(), 1..20), b in prop::collection::vec(-9f32..9.0, 1..20),
        ) {
            let Some(vector) = unit(&a) else { return Ok(()) };
            let question = Question { model: "m".into(), vector, likeness: LIKENESS };
            let found = unit(&b).and_then(|b| question.relevance(&stored(&b)));
            prop_assert_eq!(found.is_some(), a.len() == b.len() && unit(&b).is_some());
            prop_assert!(found.is_none_or(|found| (0.0..=1.0).contains(&found)));
            let same = question.relevance(&stored(&question.vector)).unwrap();
            prop_assert!(same > 0.99, "{}", same);
        }
    }
}
