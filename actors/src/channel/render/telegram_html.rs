//! Text with marks as Telegram's HTML (Bot API, "HTML style").
//!
//! `pre` and `code` hold no other tag there, quotes and links don't nest; so each stretch of text carries
//! only what may stand together, and tags close in the order they were opened.

use super::rich::{Mark, Rich, Style};

/// The HTML of a text.
pub fn html(rich: &Rich) -> String {
    let mut edges: Vec<usize> = rich.marks.iter().flat_map(|mark| [mark.start, mark.end]).collect();
    edges.extend([0, rich.text.len()]);
    edges.sort_unstable();
    edges.dedup();
    let mut out = String::with_capacity(rich.text.len() + rich.text.len() / 4);
    let mut open: Vec<&Mark> = Vec::new();
    let mut next = 0;
    let mut active: Vec<&Mark> = Vec::new();
    for pair in edges.windows(2) {
        let (start, end) = (pair[0], pair[1]);
        active.retain(|mark| mark.end > start);
        while let Some(mark) = rich.marks.get(next).filter(|mark| mark.start <= start) {
            active.push(mark);
            next += 1;
        }
        let wanted = together(&active);
        let kept = open.iter().zip(&wanted).take_while(|(a, b)| std::ptr::eq(**a, **b)).count();
        for mark in open.drain(kept..).rev() {
            out.push_str(closing(&mark.style));
        }
        for mark in &wanted[kept..] {
            opening(&mark.style, &mut out);
        }
        open = wanted;
        escape(&rich.text[start..end], &mut out);
    }
    for mark in open.into_iter().rev() {
        out.push_str(closing(&mark.style));
    }
    out
}

/// What may stand together, outermost first.
fn together<'a>(active: &[&'a Mark]) -> Vec<&'a Mark> {
    let of = |wanted: fn(&Style) -> bool| active.iter().copied().find(|mark| wanted(&mark.style));
    if let Some(block) = of(|style| matches!(style, Style::Block(_))) {
        return vec![block];
    }
    let quote = of(|style| *style == Style::Quote);
    if let Some(code) = of(|style| *style == Style::Code) {
        return quote.into_iter().chain([code]).collect();
    }
    [
        quote,
        of(|style| matches!(style, Style::Link(_))),
        of(|style| *style == Style::Bold),
        of(|style| *style == Style::Italic),
        of(|style| *style == Style::Strike),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn opening(style: &Style, out: &mut String) {
    match style {
        Style::Quote => out.push_str("<blockquote>"),
        Style::Link(address) => {
            out.push_str("<a href=\"");
            escape(address, out);
            out.push_str("\">");
        }
        Style::Bold => out.push_str("<b>"),
        Style::Italic => out.push_str("<i>"),
        Style::Strike => out.push_str("<s>"),
        Style::Code => out.push_str("<code>"),
        Style::Block(None) => out.push_str("<pre>"),
        Style::Block(Some(language)) => {
            out.push_str("<pre><code class=\"language-");
            escape(language, out);
            out.push_str("\">");
        }
    }
}

fn closing(style: &Style) -> &'static str {
    match style {
        Style::Quote => "</blockquote>",
        Style::Link(_) => "</a>",
        Style::Bold => "</b>",
        Style::Italic => "</i>",
        Style::Strike => "</s>",
        Style::Code => "</code>",
        Style::Block(None) => "</pre>",
        Style::Block(Some(_)) => "</code></pre>",
    }
}

/// `&`, `<`, `>` and `"` as entities.
pub fn escape(text: &str, out: &mut String) {
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            c => out.push(c),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(markdown: &str) -> String {
        html(&Rich::parse(markdown))
    }

    #[test]
    fn marks_become_tags_and_text_is_escaped() {
        for (markdown, expected) in [
            ("a < b & **c \"d\"**", "a &lt; b &amp; <b>c &quot;d&quot;</b>"),
            ("**a *b* c**", "<b>a <i>b</i> c</b>"),
            ("**a `b` c**", "<b>a </b><code>b</code><b> c</b>"),
            (
                "[a **b**](https://x.example/?a=1&b=2)",
                "<a href=\"https://x.example/?a=1&amp;b=2\">a <b>b</b></a>",
            ),
            ("> q **b**\n>\n> > deeper", "<blockquote>q <b>b</b>\n\ndeeper</blockquote>"),
            (
                "```rust\nlet a = &b;\n```",
                "<pre><code class=\"language-rust\">let a = &amp;b;</code></pre>",
            ),
            ("```\n**x**\n```", "<pre>**x**</pre>"),
        ] {
            assert_eq!(of(markdown), expected, "{markdown}");
        }
    }

    proptest! {
        // Whatever is written, every tag is closed in order, and none stands within `pre` or `code`.
        #[test]
        fn tags_nest(markdown in r"[*_~`>\[\]()#\-\n a-c<&h:/]{0,80}") {
            let html = of(&markdown);
            let mut open: Vec<String> = Vec::new();
            for part in html.split('<').skip(1) {
                let tag = part.split('>').next().unwrap_or_default();
                if let Some(name) = tag.strip_prefix('/') {
                    let opened = open.pop();
                    prop_assert_eq!(opened.as_deref(), Some(name), "{}", &html);
                } else {
                    let name = tag.split(' ').next().unwrap_or_default().to_owned();
                    let within = open.last().is_some_and(|outer| outer == "code" || outer == "pre");
                    prop_assert!(!within || (name == "code" && tag.contains("class")), "{}", html);
                    open.push(name);
                }
            }
            prop_assert!(open.is_empty(), "{}", html);
        }
    }
}
