//! One-time codes: eight letters and digits that are hard to mistake for each other.

use rookery_messages::ids::ChannelId;
use sha2::{Digest, Sha256};

/// Crockford's 32: no `I`, `L`, `O`, `U`.
const ALPHABET: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";

/// Letters and digits of a code: 40 random bits.
pub const CODE_LENGTH: usize = 8;

/// A new code.
pub(super) fn fresh() -> Result<String, getrandom::Error> {
    let mut bytes = [0_u8; CODE_LENGTH];
    getrandom::fill(&mut bytes)?;
    Ok(bytes.iter().map(|byte| char::from(ALPHABET[usize::from(byte & 31)])).collect())
}

/// The code that a message is, if it is one and nothing else: `/pair` before it, dashes, spaces and the
/// letters people mistake for digits are understood.
pub(super) fn read(text: &str) -> Option<String> {
    let text = text.trim();
    let (bare, asked) = match text.split_once(char::is_whitespace) {
        // Platforms open a chat by a link with `/start <code>`.
        Some((word, rest)) if matches!(word.split('@').next(), Some("/pair" | "/start")) => {
            (rest, true)
        }
        _ => (text, false),
    };
    let mut code = String::with_capacity(CODE_LENGTH);
    for c in bare.chars() {
        match c.to_ascii_uppercase() {
            '-' | ' ' => {}
            'O' => code.push('0'),
            'I' | 'L' => code.push('1'),
            c if c.is_ascii() && ALPHABET.contains(&(c as u8)) => code.push(c),
            _ if asked => return Some(String::new()),
            _ => return None,
        }
        if code.len() > CODE_LENGTH && !asked {
            return None;
        }
    }
    // Whoever asks to be paired with something else than a code guesses too.
    (asked || code.len() == CODE_LENGTH).then_some(code)
}

/// What is stored of a code.
pub(super) fn hash(channel: &ChannelId, code: &str) -> String {
    let digest = Sha256::digest(format!("{channel}\n{code}"));
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}
