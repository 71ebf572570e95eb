//! Tool results bounded before they enter the history (T20, V-J1–V-J4).

/// What an image stands as in a result's text.
const IMAGE_OPEN: &str = "[IMAGE:";

/// Most characters that the marker of a cut adds to a result.
pub const MAX_MARKER_CHARS: usize = 64;

/// `text`, cut to `max_chars` characters if it is longer: two thirds from its head, one third from its
/// tail, and between them a marker that says how many characters were left out. Zero is no limit.
///
/// A character is never cut (A136). An image marker, `[IMAGE:…]`, that a cut falls into goes whole: half a
/// picture is none. The marker comes on top of the limit, at most [`MAX_MARKER_CHARS`]. Ids and other
/// framing are no part of the text, so that no cut reaches them (V-J4).
pub fn truncate_result(text: &str, max_chars: usize) -> String {
    // The byte count is never below the character count.
    if max_chars == 0 || text.len() <= max_chars {
        return text.to_owned();
    }
    let total = text.chars().count();
    if total <= max_chars {
        return text.to_owned();
    }
    let head_chars = max_chars - max_chars / 3;
    let tail_chars = max_chars - head_chars;
    let (head_end, tail_start) = outside_images(
        text,
        byte_of_char(text, head_chars),
        byte_of_char(text, total - tail_chars),
    );
    let removed = text[head_end..tail_start].chars().count();
    format!("{}\n[… {removed} characters left out …]\n{}", &text[..head_end], &text[tail_start..])
}

/// The byte at which the character number `n` begins.
fn byte_of_char(text: &str, n: usize) -> usize {
    text.char_indices().nth(n).map_or(text.len(), |(at, _)| at)
}

/// Moves the two cuts out of the image markers they fall into: the head's back, the tail's forward.
fn outside_images(text: &str, mut head_end: usize, mut tail_start: usize) -> (usize, usize) {
    let mut from = 0;
    while let Some(open) = text[from..].find(IMAGE_OPEN).map(|at| from + at) {
        if open >= tail_start {
            break;
        }
        let Some(close) = text[open..].find(']').map(|at| open + at + 1) else { break };
        if open < head_end && head_end < close {
            head_end = open;
        }
        if open < tail_start && tail_start < close {
            tail_start = close;
        }
        from = close;
    }
    (head_end, tail_start)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    // V-J1
    #[test]
    fn a_short_result_or_no_limit_changes_nothing() {
        assert_eq!(truncate_result("12345", 5), "12345");
        assert_eq!(truncate_result("ääää", 4), "ääää");
        assert_eq!(truncate_result("12345", 0), "12345");
        assert_eq!(truncate_result("", 1), "");
    }

    // V-J2
    #[test]
    fn a_long_result_keeps_two_thirds_head_and_one_third_tail_and_says_what_is_missing() {
        let text = format!("{}{}{}", "h".repeat(20), "m".repeat(40), "t".repeat(10));
        assert_eq!(
            truncate_result(&text, 30),
            format!("{}\n[… 40 characters left out …]\n{}", "h".repeat(20), "t".repeat(10))
        );
    }

    // V-J3, A136
    #[test]
    fn a_cut_never_splits_a_character() {
        let text = format!("{}😀😀😀{}", "a".repeat(29_999), "z".repeat(10));
        for limit in [1, 2, 3, 29_999, 30_000, 30_001, 30_002, 30_011] {
            let cut = truncate_result(&text, limit);
            assert!(cut.chars().count() <= limit + MAX_MARKER_CHARS, "{limit}");
            assert!(cut.contains("characters left out"), "{limit}");
        }
        let cjk = "漢字".repeat(50_000);
        assert!(truncate_result(&cjk, 2_048).ends_with("漢字"));
    }

    // V-J3
    #[test]
    fn an_image_marker_is_kept_whole_or_left_out_whole() {
        let image = "[IMAGE:/tmp/a.png]";
        let text = format!("{}{image}{}{image}{}", "a".repeat(10), "b".repeat(100), "c".repeat(10));
        for limit in 1..text.len() {
            let cut = truncate_result(&text, limit);
            assert_eq!(
                cut.matches("[IMAGE:").count(),
                cut.matches(image).count(),
                "{limit}: {cut}"
            );
        }
        let (start, end) = (truncate_result(&text, 45), truncate_result(&text, 90));
        assert!(start.contains(image) && end.matches(image).count() == 2, "{start} {end}");
        let spanning = format!("ab[IMAGE:{}]cd", "x".repeat(1_000));
        assert_eq!(truncate_result(&spanning, 30), "ab\n[… 1008 characters left out …]\ncd");
        let unclosed = format!("{}[IMAGE:{}", "a".repeat(10), "b".repeat(100));
        assert!(truncate_result(&unclosed, 30).starts_with("aaaaaaaaaa[IMAGE:bbb\n"));
    }

    proptest! {
        // A136, V-J1, V-J2, V-J3
        #[test]
        fn any_text_and_limit_give_a_bounded_result_that_counts_what_is_missing(
            text in "(\\PC|\\[IMAGE:|\\]|😀|\\n|a){0,300}",
            limit in 0_usize..400,
        ) {
            let cut = truncate_result(&text, limit);
            let total = text.chars().count();
            if limit == 0 || total <= limit {
                prop_assert_eq!(cut, text);
            } else {
                prop_assert!(cut.chars().count() <= limit + MAX_MARKER_CHARS);
                let marker = cut.rfind("\n[… ").map(|at| &cut[at..]);
                let removed: Option<usize> = marker
                    .and_then(|marker| marker.split(' ').nth(1))
                    .and_then(|n| n.parse().ok());
                let marker_chars = marker
                    .and_then(|marker| marker.find("…]\n").map(|end| marker[..end + "…]\n".len()].chars().count()));
                prop_assert_eq!(
                    removed.zip(marker_chars).map(|(removed, marker)| removed + cut.chars().count() - marker),
                    Some(total)
                );
            }
        }
    }
}
