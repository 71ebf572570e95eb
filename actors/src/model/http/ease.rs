//! What a request is sent without, after an answer with status 400 refused it.
//!
//! Each relief is tried once a request, so that they can't multiply; what describes the model and not the
//! conversation is kept for later requests.

/// Smallest output cap that is worth a request.
const LEAST_OUTPUT: u64 = 256;
/// Tokens left free beside what a provider counted, since the next count may differ (A052).
const MARGIN: u64 = 64;

/// See the module's documentation.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(in crate::model) struct Ease {
    /// No reasoning is asked for (V-L25).
    pub(in crate::model) no_reasoning: bool,
    /// Opaque blocks are not given back (A042).
    pub(in crate::model) no_opaque: bool,
    /// Opaque blocks are not asked for.
    pub(in crate::model) no_state: bool,
    /// No images go along.
    pub(in crate::model) no_images: bool,
    /// The model sees none, whatever its name and its profile say.
    pub(in crate::model) is_blind: bool,
    /// The output cap, where the configured one is too large.
    pub(in crate::model) output_cap: Option<u64>,
    /// The cap holds for the model, not for this conversation only.
    pub(in crate::model) caps_model: bool,
}

/// What a request has beside text and tools.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Holds {
    /// Opaque blocks of who is asked.
    pub(super) opaque: bool,
    /// Images.
    pub(super) images: bool,
}

/// How providers say that a model sees no images at all, apart from one that can't be read.
const BLIND: [&str; 8] = [
    "not support images",
    "not support image input",
    "not support vision",
    "images are not supported",
    "image input is not supported",
    "image_url is only supported",
    "unknown variant `image_url`",
    "not a multimodal",
];

impl Ease {
    /// What to leave out in addition, given the refusal's body. None if nothing would help.
    pub(super) fn after(&self, body: &str, holds: Holds) -> Option<Self> {
        let words = body.to_lowercase();
        let said = |list: &[&str]| list.iter().any(|word| words.contains(word));
        if said(&["schema"]) {
            // A tool's own fault, whatever else it is called.
            return None;
        }
        if !self.no_images
            && holds.images
            && said(&["image", "vision", "multimodal", "inline_data"])
        {
            return Some(Self { no_images: true, is_blind: said(&BLIND), ..*self });
        }
        if !self.no_state && said(&["encrypted content is not supported"]) {
            return Some(Self { no_state: true, ..*self });
        }
        if !self.no_opaque
            && said(&["signature", "thinking", "thought", "encrypted", "reasoning"])
            && holds.opaque
        {
            return Some(Self { no_opaque: true, ..*self });
        }
        if self.output_cap.is_none()
            && let Some((cap, caps_model)) = smaller_cap(&words)
        {
            return Some(Self { output_cap: Some(cap), caps_model, ..*self });
        }
        if !self.no_reasoning && said(&["reasoning", "thinking", "effort"]) {
            return Some(Self { no_reasoning: true, ..*self });
        }
        None
    }

    /// What holds for later requests too.
    pub(super) fn lasting(self) -> Self {
        Self {
            no_opaque: false,
            no_images: self.is_blind,
            output_cap: self.output_cap.filter(|_| self.caps_model),
            ..self
        }
    }
}

/// The cap that would fit, from what a provider says of the one it refuses, and whether it is the model's.
fn smaller_cap(words: &str) -> Option<(u64, bool)> {
    let numbers_in = |text: &str| -> Vec<u64> {
        text.split(|c: char| !c.is_ascii_digit()).filter_map(|digits| digits.parse().ok()).collect()
    };
    let after = |mark: &str| words.find(mark).map(|at| &words[at + mark.len()..]);
    let fits = |limit: u64, input: u64| {
        let cap = limit.checked_sub(input)?.checked_sub(MARGIN)?;
        (cap >= LEAST_OUTPUT).then_some((cap, false))
    };
    // "input length and `max_tokens` exceed context limit: 197202 + 21333 > 200000"
    if let Some(rest) = after("exceed context limit:")
        && let [input, _, limit, ..] = numbers_in(rest)[..]
    {
        return fits(limit, input);
    }
    // "maximum context length is 32768 tokens. However, you requested 32769 tokens (30100 in the
    // messages, 2669 in the completion)"
    if let Some(rest) = after("maximum context length is")
        && rest.contains("in the completion")
        && let [limit, _, input, ..] = numbers_in(rest)[..]
    {
        return fits(limit, input);
    }
    // "max_tokens: 16384 > 8192, which is the maximum allowed number of output tokens"
    // "max_tokens is too large: 100000. This model supports at most 16384 completion tokens"
    let of_model = words.contains("maximum allowed number of output tokens")
        || words.contains("supports at most") && words.contains("completion tokens");
    if of_model && let Some(rest) = after("max_tokens").or_else(|| after("max_completion_tokens")) {
        let numbers = numbers_in(rest);
        let (asked, most) = (numbers.first()?, numbers.get(1)?);
        return (most < asked && *most >= LEAST_OUTPUT).then_some((*most, true));
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(ease: Ease, body: &str, opaque: bool) -> Option<Ease> {
        ease.after(body, Holds { opaque, images: false })
    }

    // A052
    #[test]
    fn the_cap_that_fits_is_read_from_the_refusal_with_a_margin() {
        for (words, want) in [
            (
                "input length and `max_tokens` exceed context limit: 197202 + 21333 > 200000, decrease",
                Some((2_734, false)),
            ),
            (
                "This model's maximum context length is 32768 tokens. However, you requested 32769 tokens (30100 in the messages, 2669 in the completion).",
                Some((2_604, false)),
            ),
            (
                "max_tokens: 16384 > 8192, which is the maximum allowed number of output tokens for x",
                Some((8_192, true)),
            ),
            (
                "max_tokens is too large: 100000. This model supports at most 16384 completion tokens",
                Some((16_384, true)),
            ),
            ("exceed context limit: 199999 + 21333 > 200000", None),
            ("prompt is too long: 210000 tokens > 200000 maximum", None),
        ] {
            assert_eq!(smaller_cap(&words.to_lowercase()), want, "{words}");
        }
    }

    // A042, V-L25
    #[test]
    fn each_relief_is_tried_once() {
        let signature = "messages.1.content.0: Invalid `signature` in `thinking` block";
        let first = after(Ease::default(), signature, true).unwrap();
        assert_eq!(first, Ease { no_opaque: true, ..Ease::default() });
        let second = after(first, signature, true).unwrap();
        assert!(second.no_opaque && second.no_reasoning);
        assert_eq!(after(second, signature, true), None);
        let effort = "Function tools with reasoning_effort are not supported";
        let eased = after(Ease::default(), effort, false).unwrap();
        assert_eq!(eased, Ease { no_reasoning: true, ..Ease::default() });
        assert_eq!(after(eased, effort, false), None);
        assert_eq!(after(Ease::default(), "model not found", true), None);
    }

    // I4
    #[test]
    fn refused_images_are_left_out_and_a_model_that_sees_none_is_not_sent_any_again() {
        let after = |ease: Ease, body: &str| ease.after(body, Holds { images: true, opaque: true });
        for blind in [
            "Invalid content type. image_url is only supported by certain models.",
            "Failed to deserialize: messages[1]: unknown variant `image_url`, expected `text`",
            "this model does not support image input",
        ] {
            let eased = after(Ease::default(), blind).unwrap();
            assert!(eased.no_images && eased.lasting().no_images, "{blind}");
            assert_eq!(after(eased, blind), None, "{blind}");
        }
        for unreadable in [
            "messages.0.content.1.image.source.base64: image exceeds 5 MB maximum",
            "You uploaded an unsupported image. Please make sure your image is below 20 MB",
            "Could not process image",
            "Unable to process input image. Please retry",
        ] {
            let eased = after(Ease::default(), unreadable).unwrap();
            assert!(eased.no_images && !eased.lasting().no_images, "{unreadable}");
        }
        // Without images in it a request is not refused for them.
        assert_eq!(Ease::default().after("bad image", Holds::default()), None);
    }

    // A052
    #[test]
    fn what_concerns_one_conversation_is_not_kept() {
        let words =
            "max_tokens: 16384 > 8192, which is the maximum allowed number of output tokens";
        let model = after(Ease::default(), words, false).unwrap();
        assert_eq!(model.lasting(), model);
        let words = "exceed context limit: 100000 + 21333 > 120000";
        let conversation = after(Ease::default(), words, false).unwrap();
        assert_eq!(conversation.output_cap, Some(19_936));
        assert_eq!(conversation.lasting(), Ease::default());
        let opaque = Ease { no_opaque: true, no_reasoning: true, ..Ease::default() };
        assert_eq!(opaque.lasting(), Ease { no_reasoning: true, ..Ease::default() });
    }
}
