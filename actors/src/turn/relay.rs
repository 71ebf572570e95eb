//! What of a text a client has not seen yet.

/// What remains of `whole` for somebody who was shown `streamed` (V-E3): the suffix if `streamed` is its
/// beginning, nothing if they are the same but for white space, all of it if they differ.
pub fn remainder<'a>(streamed: &str, whole: &'a str) -> &'a str {
    if let Some(rest) = whole.strip_prefix(streamed) {
        return rest;
    }
    let mut seen = streamed.chars().filter(|c| !c.is_whitespace());
    let mut rest = whole.char_indices().filter(|(_, c)| !c.is_whitespace());
    loop {
        match (seen.next(), rest.next()) {
            (Some(a), Some((_, b))) if a == b => {}
            (None, None) => return "",
            (None, Some((at, _))) => return &whole[at..],
            _ => return whole,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::remainder;

    // V-E3, V-E2
    #[test]
    fn the_remainder_is_suffix_empty_or_whole() {
        for (streamed, whole, rest) in [
            ("", "Hello", "Hello"),
            ("Hel", "Hello", "lo"),
            ("Hello", "Hello", ""),
            ("Hello \n", "Hello", ""),
            ("He llo", "Hello wörld", "wörld"),
            ("Bye", "Hello", "Hello"),
            ("Hello there", "Hello", "Hello"),
        ] {
            assert_eq!(remainder(streamed, whole), rest, "{streamed:?} {whole:?}");
        }
    }
}
