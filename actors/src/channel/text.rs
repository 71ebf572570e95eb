//! Texts and ids from outside, checked once at the edge.

/// Longest id, in characters.
pub const MAX_ID_CHARS: usize = 256;
/// Longest message, in characters.
pub const MAX_TEXT_CHARS: usize = 200_000;

/// Why a text or an id is not taken.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum TextError {
    /// Nothing to read (V-A1).
    #[error("`{0}` is blank; say something")]
    Blank(&'static str),
    /// It holds a NUL character.
    #[error("`{0}` holds a NUL character; remove it")]
    Nul(&'static str),
    /// An id holds a control character.
    #[error("`{0}` holds a control character; remove it")]
    Control(&'static str),
    /// It is too long.
    #[error("`{field}` has {length} characters, {limit} are allowed; shorten it")]
    TooLong {
        /// The field.
        field: &'static str,
        /// What was sent.
        length: usize,
        /// What is allowed.
        limit: usize,
    },
    /// It begins with what is kept for names we make.
    #[error("`{0}` begins with `~`, which is reserved; choose another id")]
    Reserved(&'static str),
}

impl TextError {
    /// Short stable word for the API.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Blank(_) => "blank",
            Self::Nul(_) => "nul_character",
            Self::Control(_) => "control_character",
            Self::TooLong { .. } => "too_long",
            Self::Reserved(_) => "reserved_id",
        }
    }
}

/// Whether a text can be a JSON object. Our types would be read from arrays too, which nobody means.
pub fn is_object(text: &str) -> bool {
    !text.trim_start().starts_with(['[', '"'])
}

fn bounded(field: &'static str, text: &str, limit: usize) -> Result<(), TextError> {
    let length = text.chars().count();
    if length > limit {
        return Err(TextError::TooLong { field, length, limit });
    }
    Ok(())
}

/// Checks a message's text.
pub fn check_text(field: &'static str, text: &str) -> Result<(), TextError> {
    if text.trim().is_empty() {
        return Err(TextError::Blank(field));
    }
    if text.contains('\0') {
        return Err(TextError::Nul(field));
    }
    bounded(field, text, MAX_TEXT_CHARS)
}

/// Checks an id of a message, sender or conversation.
pub fn check_id(field: &'static str, id: &str) -> Result<(), TextError> {
    if id.trim().is_empty() {
        return Err(TextError::Blank(field));
    }
    if id.contains('\0') {
        return Err(TextError::Nul(field));
    }
    if id.chars().any(char::is_control) {
        return Err(TextError::Control(field));
    }
    bounded(field, id, MAX_ID_CHARS)
}

/// Checks a conversation's id: like any id, and not one of the names we make for scopes.
pub fn check_conversation(field: &'static str, id: &str) -> Result<(), TextError> {
    check_id(field, id)?;
    if super::scope::is_scoped(id) {
        return Err(TextError::Reserved(field));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    // V-A1
    #[test]
    fn blank_broken_and_oversized_texts_are_refused_by_name() {
        let long = "é".repeat(MAX_TEXT_CHARS + 1);
        let cases = [
            ("", Some("blank")),
            (" \t\n\u{3000}", Some("blank")),
            ("a\0b", Some("nul_character")),
            (long.as_str(), Some("too_long")),
            ("line\nnext\tgrüße 😀", None),
        ];
        for (text, code) in cases {
            assert_eq!(check_text("text", text).err().map(|e| e.code()), code);
        }
    }

    #[test]
    fn ids_are_short_single_lines_and_conversations_leave_our_prefix_alone() {
        let long = "x".repeat(MAX_ID_CHARS + 1);
        let cases = [
            ("", Some("blank")),
            ("a\0", Some("nul_character")),
            ("a\nb", Some("control_character")),
            (long.as_str(), Some("too_long")),
            ("a/b c%20?#é", None),
        ];
        for (id, code) in cases {
            assert_eq!(check_id("id", id).err().map(|e| e.code()), code);
        }
        let reserved = check_conversation("conversation", "~ci/main").map_err(|e| e.code());
        assert_eq!(reserved, Err("reserved_id"));
        assert_eq!(check_conversation("conversation", "main~"), Ok(()));
    }
}
