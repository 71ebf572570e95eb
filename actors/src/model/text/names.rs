//! The names of the elements that matter, and the name at a `<`.

/// Longest tag name, namespace included.
const MAX_NAME: usize = 80;

/// What a tag's name says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    /// A call, under this alias.
    Call(&'static str),
    /// A declaration or a result: whatever it contains is inert (V-F9).
    Inert(&'static str),
    Other,
}

/// The names of calls, without case, `_` and `-`.
const CALLS: [&str; 5] = ["toolcall", "toolcalls", "invoke", "functioncall", "functioncalls"];
const INERT: [&str; 2] = ["tools", "toolresult"];

pub(super) fn kind(name: &str) -> Kind {
    let plain = plain(name);
    let of = |names: &[&'static str]| names.iter().copied().find(|known| *known == plain);
    of(&CALLS).map(Kind::Call).or_else(|| of(&INERT).map(Kind::Inert)).unwrap_or(Kind::Other)
}

/// Whether a name that ends with the text may have been meant as a call.
pub(super) fn begins_call(name: &str) -> bool {
    let plain = plain(name);
    plain.len() >= 4 && CALLS.iter().any(|known| known.starts_with(&plain))
}

fn plain(name: &str) -> String {
    let local = name.rsplit(':').next().unwrap_or(name);
    let letters = local.chars().filter(|c| !matches!(c, '_' | '-'));
    letters.map(|c| c.to_ascii_lowercase()).collect()
}

/// The name at a `<`.
#[derive(PartialEq, Eq, Debug)]
pub(super) enum Name<'a> {
    /// The text ends within it; this much is there.
    Open(&'a str),
    Read {
        closing: bool,
        name: &'a str,
        /// Where it ends.
        end: usize,
    },
    None,
}

pub(super) fn read_name(text: &str) -> Name<'_> {
    let bytes = text.as_bytes();
    let closing = bytes.get(1) == Some(&b'/');
    let start = 1 + usize::from(closing);
    let of_name = |byte: &u8| byte.is_ascii_alphanumeric() || b"_-.:".contains(byte);
    let Some(rest) = bytes.get(start..) else { return Name::Open("") };
    let length = rest.iter().take(MAX_NAME + 1).take_while(|byte| of_name(byte)).count();
    let name = &text[start..start + length];
    if length > MAX_NAME || name.starts_with(|c: char| !c.is_ascii_alphabetic()) {
        return Name::None;
    }
    match rest.get(length) {
        None => Name::Open(name),
        Some(b'>' | b'/' | b' ' | b'\t' | b'\r' | b'\n') if length > 0 => {
            Name::Read { closing, name, end: start + length }
        }
        Some(_) => Name::None,
    }
}
