//! Telegram's reading of HTML, as far as it matters: which tags there are, that they nest, what is left.

const TAGS: [&str; 8] = ["b", "i", "s", "u", "code", "pre", "a", "blockquote"];

/// The text without its tags; an error, in Telegram's words, if it does not parse.
pub(super) fn read(html: &str) -> Result<String, String> {
    let mut text = String::new();
    let mut open: Vec<&str> = Vec::new();
    let mut rest = html;
    while let Some(c) = rest.chars().next() {
        if let Some(tag) = rest.strip_prefix('<') {
            let end =
                tag.find('>').ok_or("Bad Request: can't parse entities: unclosed start tag")?;
            let (inside, after) = (&tag[..end], &tag[end + 1..]);
            match inside.strip_prefix('/') {
                Some(name) if open.pop() == Some(name) => {}
                Some(name) => {
                    return Err(format!(
                        "Bad Request: can't parse entities: unmatched end tag {name}"
                    ));
                }
                None => {
                    let name = inside.split(' ').next().unwrap_or_default();
                    if !TAGS.contains(&name) {
                        return Err(format!(
                            "Bad Request: can't parse entities: unsupported start tag \"{name}\""
                        ));
                    }
                    open.push(name);
                }
            }
            rest = after;
        } else if let Some(entity) = rest.strip_prefix('&') {
            let (name, after) = entity
                .split_once(';')
                .ok_or("Bad Request: can't parse entities: unknown entity")?;
            text.push_str(match name {
                "lt" => "<",
                "gt" => ">",
                "amp" => "&",
                "quot" => "\"",
                _ => return Err("Bad Request: can't parse entities: unknown entity".to_owned()),
            });
            rest = after;
        } else {
            text.push(c);
            rest = &rest[c.len_utf8()..];
        }
    }
    match open.pop() {
        Some(name) => Err(format!("Bad Request: can't parse entities: can't find end tag {name}")),
        None => Ok(text),
    }
}

#[cfg(test)]
mod tests {
    use super::read;

    #[test]
    fn what_nests_is_read_and_what_does_not_is_refused() {
        let html = "a <b>b <i>c</i></b> &lt;<a href=\"x\">d</a>";
        assert_eq!(read(html).unwrap(), "a b c <d");
        for wrong in ["<b>", "</b>", "<b><i></b></i>", "<x>y</x>", "a & b", "&nbsp;", "a < b"] {
            assert!(read(wrong).unwrap_err().contains("can't parse entities"), "{wrong}");
        }
    }
}
