//! From a reply's Markdown to the messages of a platform: rendered, cut where they fit, nothing lost.

pub mod rich;
pub mod split;
pub mod telegram_html;

use rookery_messages::channel::{Capabilities, Markup, Unit};

use rich::Rich;

/// One message's text.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Piece {
    /// In the platform's markup.
    pub text: String,
    /// Without marks.
    pub plain: String,
}

/// The messages a text becomes, in order. None of them is blank, unless all of the text is.
pub fn pieces(text: &str, capabilities: &Capabilities) -> Vec<Piece> {
    let limit = capabilities.limit.unwrap_or(usize::MAX);
    let pieces = match capabilities.markup {
        Markup::Markdown if capabilities.limit.is_none() => vec![same(text.to_owned())],
        Markup::Markdown => {
            split::markdown(text, capabilities.unit, limit).into_iter().map(same).collect()
        }
        Markup::Plain => parts(&Rich::parse(text), capabilities.unit, limit)
            .into_iter()
            .map(|part| same(part.text))
            .collect(),
        // What is limited there is the text that is left once the tags are read.
        Markup::TelegramHtml => parts(&Rich::parse(text), capabilities.unit, limit)
            .into_iter()
            .map(|part| Piece { text: telegram_html::html(&part), plain: part.text })
            .collect(),
    };
    if pieces.is_empty() { vec![same("(nothing to show)".to_owned())] } else { pieces }
}

/// Plain text as one piece, not read as Markdown: notices and prompts of ours, cut to fit.
pub fn literal(text: &str, capabilities: &Capabilities) -> Piece {
    let limit = capabilities.limit.unwrap_or(usize::MAX);
    let text = text[..split::cut(text, capabilities.unit, limit)].trim_end().to_owned();
    match capabilities.markup {
        Markup::TelegramHtml => {
            let mut html = String::with_capacity(text.len());
            telegram_html::escape(&text, &mut html);
            Piece { text: html, plain: text }
        }
        Markup::Markdown | Markup::Plain => same(text),
    }
}

fn same(text: String) -> Piece {
    Piece { plain: text.clone(), text }
}

fn parts(rich: &Rich, unit: Unit, limit: usize) -> Vec<Rich> {
    let mut parts = Vec::new();
    let mut start = 0;
    while start < rich.text.len() {
        let mut end = start + split::cut(&rich.text[start..], unit, limit);
        // A block of code that fits into the next message as a whole isn't torn apart.
        if end < rich.text.len()
            && let Some(block) = rich.block_at(end)
            && block.start > start + (end - start) / 2
            && unit.measure(&rich.text[block.start..block.end]) <= limit
        {
            end = block.start;
        }
        let part = &rich.text[start..end];
        let kept = start + part.trim_end_matches('\n').len();
        if !part.trim().is_empty() {
            parts.push(rich.part(start, kept));
        }
        let rest = &rich.text[end..];
        start = end + (rest.len() - rest.trim_start_matches('\n').len());
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn telegram(limit: usize) -> Capabilities {
        Capabilities {
            limit: Some(limit),
            unit: Unit::Utf16,
            markup: Markup::TelegramHtml,
            ..Capabilities::default()
        }
    }

    // A055, R13
    #[test]
    fn formatting_that_is_cut_is_closed_and_opened_again_and_all_of_it_arrives() {
        let text = format!("para\n\n**{}**", "a".repeat(5_000));
        let pieces = pieces(&text, &telegram(4_096));
        assert_eq!(pieces.len(), 2);
        assert_eq!(pieces.iter().map(|p| p.plain.matches('a').count()).sum::<usize>(), 5_002);
        for piece in &pieces {
            assert!(Unit::Utf16.measure(&piece.plain) <= 4_096);
            assert_eq!(piece.text.matches("<b>").count(), piece.text.matches("</b>").count());
        }
        assert!(pieces[1].text.starts_with("<b>a") && pieces[1].text.ends_with("a</b>"));
        let odd = super::pieces("snake_case * 3 [x", &telegram(4_096));
        assert_eq!(odd, [same("snake_case * 3 [x".into())]);
    }

    // R13
    #[test]
    fn a_code_block_keeps_its_language_over_a_cut_and_is_not_torn_if_it_fits() {
        let code = "let x = 1;\n".repeat(12);
        let long = format!("```rust\n{}```", code.repeat(3));
        for piece in pieces(&long, &telegram(200)) {
            assert!(piece.text.starts_with("<pre><code class=\"language-rust\">"), "{piece:?}");
            assert!(piece.text.ends_with("</code></pre>"));
        }
        let text = format!("{}\n\n```rust\n{code}```", "word ".repeat(30));
        let pieces = pieces(&text, &telegram(200));
        assert_eq!(pieces.len(), 2, "{pieces:?}");
        assert!(pieces[1].plain.starts_with("let x") && pieces[1].plain.ends_with("1;"));
    }

    #[test]
    fn a_channel_without_a_limit_gets_the_text_as_it_is() {
        let text = format!("**x**\n\n{}", "y".repeat(100_000));
        assert_eq!(pieces(&text, &Capabilities::default()), [same(text)]);
        let plain = Capabilities { markup: Markup::Plain, ..Capabilities::default() };
        assert_eq!(pieces("**x** `y`", &plain)[0].text, "x y");
        assert_eq!(pieces(" \n ", &telegram(10))[0].text, "(nothing to show)");
        assert_eq!(literal("a <b> \n", &telegram(10)).text, "a &lt;b&gt;");
    }
}
