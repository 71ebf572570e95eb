//! Whether a person who looks at a page would see an element: by its attributes, its inline style, and the
//! page's own simple style rules (A096). What is hidden is dropped: nobody meant it for the reader.

use std::collections::{BTreeMap, HashSet};

/// Further out than this, in pixels, nothing is seen.
const OFF_SCREEN_PX: f32 = 400.0;
/// Further than this from an edge is beyond the other one.
const FAR_PX: f32 = 5_000.0;
/// Text smaller than this, in pixels, isn't read.
const UNREADABLE_PX: f32 = 3.0;

/// Classes and ids that the page's style sheets hide.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct HiddenBy {
    classes: HashSet<String>,
    ids: HashSet<String>,
}

impl HiddenBy {
    /// Reads a style sheet. Only rules of one class or id alone count; those for another medium do not.
    pub(super) fn read(&mut self, sheet: &str) {
        let sheet = without_comments(sheet);
        let mut rest = sheet.as_str();
        while let Some((selectors, after)) = rest.split_once('{') {
            let selectors = selectors.rsplit(';').next().unwrap_or_default().trim();
            if selectors.starts_with('@') {
                rest = past_block(after);
                continue;
            }
            let (declarations, after) = after.split_once('}').unwrap_or((after, ""));
            if hides(declarations) {
                for selector in selectors.split(',').map(str::trim) {
                    self.add(selector);
                }
            }
            rest = after;
        }
    }

    fn add(&mut self, selector: &str) {
        let plain = |name: &&str| {
            !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || matches!(c, '-' | '_'))
        };
        if let Some(class) = selector.rsplit_once('.').map(|(_, class)| class).filter(plain) {
            self.classes.insert(class.to_owned());
        } else if let Some(id) = selector.rsplit_once('#').map(|(_, id)| id).filter(plain) {
            self.ids.insert(id.to_owned());
        }
    }

    /// Whether an element with these attributes is hidden.
    pub(super) fn is_hidden<'a>(
        &self,
        attributes: impl Iterator<Item = (&'a str, &'a str)>,
    ) -> bool {
        attributes.into_iter().any(|(name, value)| match name {
            "hidden" | "inert" => true,
            "aria-hidden" => value.trim().eq_ignore_ascii_case("true"),
            "style" => hides(&without_comments(value)),
            "class" => value.split_whitespace().any(|class| self.classes.contains(class)),
            "id" => self.ids.contains(value),
            _ => false,
        })
    }
}

/// What follows the block whose `{` was just passed.
fn past_block(text: &str) -> &str {
    let mut depth = 1;
    for (at, c) in text.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return &text[at + 1..];
        }
    }
    ""
}

fn without_comments(css: &str) -> String {
    let mut out = String::with_capacity(css.len());
    let mut rest = css;
    while let Some((before, after)) = rest.split_once("/*") {
        out.push_str(before);
        rest = after.split_once("*/").map_or("", |(_, after)| after);
    }
    out.push_str(rest);
    out
}

/// CSS escapes resolved (CSS Syntax, section 4.3.7): `d\69splay` is `display`.
fn unescaped(css: &str) -> String {
    let mut out = String::with_capacity(css.len());
    let mut chars = css.chars().peekable();
    while let Some(c) = chars.next() {
        if c != '\\' {
            out.push(c);
            continue;
        }
        let mut hex = String::new();
        while hex.len() < 6
            && let Some(digit) = chars.next_if(char::is_ascii_hexdigit)
        {
            hex.push(digit);
        }
        if hex.is_empty() {
            out.extend(chars.next());
            continue;
        }
        let _ends_the_escape = chars.next_if(|c| c.is_whitespace());
        let code = u32::from_str_radix(&hex, 16).ok().and_then(char::from_u32);
        out.push(code.unwrap_or('\u{fffd}'));
    }
    out
}

/// Whether these declarations keep an element from being seen.
fn hides(declarations: &str) -> bool {
    let declarations = unescaped(declarations).to_lowercase();
    let declared =
        declarations.split(';').filter_map(|one| one.split_once(':')).map(|(name, value)| {
            let value = value.replace("!important", "");
            (name.trim(), value.split_whitespace().collect::<Vec<_>>().join(" "))
        });
    // The last word on a property counts.
    let declared: BTreeMap<&str, String> = declared.collect();
    let value = |wanted: &str| declared.get(wanted).map(String::as_str);
    let positioned = matches!(value("position"), Some("absolute" | "fixed"));
    let clipped = matches!(value("overflow"), Some("hidden" | "clip" | "scroll" | "auto"));
    let color = value("color");
    let background = value("background-color").or_else(|| value("background"));
    declared.iter().any(|(name, value)| match *name {
        "display" => value == "none",
        "visibility" => matches!(value.as_str(), "hidden" | "collapse"),
        "content-visibility" => value == "hidden",
        "opacity" => number(value).is_some_and(|n| n < 0.1),
        "filter" => value.replace(' ', "").starts_with("opacity(0"),
        "font-size" => pixels(value).is_some_and(|px| px < UNREADABLE_PX),
        "font" => value
            .split([' ', '/'])
            .any(|part| part.starts_with('0') && pixels(part).is_some_and(|px| px < UNREADABLE_PX)),
        "text-indent" | "margin-left" | "margin-top" | "margin" => {
            pixels(value).is_some_and(|px| px < -OFF_SCREEN_PX)
        }
        "left" | "right" | "top" | "bottom" => {
            positioned && pixels(value).is_some_and(|px| !(-OFF_SCREEN_PX..=FAR_PX).contains(&px))
        }
        "transform" | "translate" | "scale" => is_moved_away(value),
        "clip" => positioned && value.replace(' ', "").starts_with("rect(0"),
        "clip-path" => {
            let value = value.replace(' ', "");
            value.starts_with("inset(50%")
                || value.starts_with("inset(100%")
                || value.starts_with("circle(0")
        }
        "width" | "height" | "max-width" | "max-height" => {
            clipped && pixels(value).is_some_and(|px| px.abs() <= 1.0)
        }
        "color" => value == "transparent" || background.is_some_and(|other| other == value),
        "background" | "background-color" => color.is_some_and(|color| color == value),
        _ => false,
    })
}

fn is_moved_away(value: &str) -> bool {
    let value = value.replace(' ', "");
    if matches!(value.as_str(), "scale(0)" | "scale(0,0)" | "0" | "scalex(0)" | "scaley(0)") {
        return true;
    }
    let arguments = value.split_once('(').map_or(value.as_str(), |(_, rest)| rest);
    value.starts_with("translate")
        && arguments
            .trim_end_matches(')')
            .split(',')
            .any(|part| pixels(part).is_some_and(|px| px < -OFF_SCREEN_PX))
}

fn number(value: &str) -> Option<f32> {
    match value.strip_suffix('%') {
        Some(percent) => percent.trim().parse::<f32>().ok().map(|n| n / 100.0),
        None => value.parse().ok(),
    }
}

/// A length in pixels, roughly: relative units by their usual size.
fn pixels(value: &str) -> Option<f32> {
    let value = value.trim();
    let end = value
        .find(|c: char| !(c.is_ascii_digit() || matches!(c, '.' | '-' | '+')))
        .unwrap_or(value.len());
    let (count, unit) = value.split_at(end);
    let count: f32 = count.parse().ok()?;
    let size = match unit.trim() {
        "" | "px" => 1.0,
        "em" | "rem" | "ex" | "ch" => 16.0,
        "pt" => 1.33,
        "vw" | "vh" => 10.0,
        "%" => 4.0,
        "cm" => 38.0,
        "in" => 96.0,
        _ if count == 0.0 => 1.0,
        _ => return None,
    };
    Some(count * size)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hidden(style: &str) -> bool {
        HiddenBy::default().is_hidden([("style", style)].into_iter())
    }

    // A096
    #[test]
    fn every_usual_way_to_hide_text_is_seen_through() {
        for style in [
            "display:none",
            "DISPLAY : NONE !important",
            "display:/* */none",
            "d\\69splay:none",
            "d\\000069 splay: none",
            "color:red;display:none",
            "visibility:hidden",
            "visibility: collapse",
            "content-visibility:hidden",
            "opacity:0",
            "opacity: 0.01",
            "opacity:0%",
            "filter: opacity(0)",
            "font-size:0",
            "font-size: 0px",
            "font-size:1px",
            "font-size: 0.1em",
            "font: 0/0 a",
            "text-indent:-9999px",
            "text-indent: -100em",
            "position:absolute;left:-9999px",
            "position: fixed; top: -1000px",
            "left:-9999px;position:absolute",
            "position:absolute;left:99999px",
            "margin-left:-9999px",
            "transform:translateX(-9999px)",
            "transform: translate(0, -200vh)",
            "transform: scale(0)",
            "clip:rect(0,0,0,0);position:absolute",
            "clip-path: inset(50%)",
            "height:0;overflow:hidden",
            "width:1px;height:1px;overflow:hidden",
            "max-height:0;overflow:hidden",
            "color:transparent",
            "color:#fff;background:#fff",
            "background-color: white; color: white",
        ] {
            assert!(hidden(style), "{style}");
        }
    }

    #[test]
    fn what_is_seen_stays() {
        for style in [
            "",
            "display:block",
            "display:none;display:block",
            "color:red",
            "opacity:0.5",
            "font-size:12px",
            "font-size:100%",
            "font: 14px/1.5 Arial",
            "position:absolute;left:0;top:0",
            "position:absolute;right:20px",
            "left:-9999px",
            "margin-left:-15px",
            "transform: rotate(90deg)",
            "transform: translateX(-50%)",
            "height:0",
            "width:100%;overflow:hidden",
            "color:white;background:black",
            "display",
            "\\",
        ] {
            assert!(!hidden(style), "{style}");
        }
    }

    // A096
    #[test]
    fn attributes_and_the_pages_own_rules_count() {
        let mut by = HiddenBy::default();
        by.read(
            "/* c */ .a, p.b { display:none } #c{visibility:hidden} .d{color:red}\n\
             @import url(x); .g{opacity:0} @media print { .e { display:none } } .f > x {display:none} \
             .h{font-size:0",
        );
        let is = |name, value| by.is_hidden([(name, value)].into_iter());
        for (name, value) in [
            ("hidden", ""),
            ("hidden", "until-found"),
            ("aria-hidden", "TRUE"),
            ("class", "x a"),
            ("class", "b"),
            ("class", "g"),
            ("class", "h"),
            ("id", "c"),
        ] {
            assert!(is(name, value), "{name}={value}");
        }
        for (name, value) in
            [("aria-hidden", "false"), ("class", "d e f"), ("id", "a"), ("title", "hidden")]
        {
            assert!(!is(name, value), "{name}={value}");
        }
    }
}
