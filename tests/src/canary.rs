//! Values that stand for secrets, and the search for them in whatever a service shows (I12, T25).

use sha2::{Digest, Sha256};

/// How much of a canary must be met to be found: its beginning or its end.
const PART: usize = 12;

/// One value nobody may see. Its letters look like no key of any make: only who knows it can find it.
#[derive(Clone, Debug)]
pub struct Canary {
    /// What it stands for.
    pub name: String,
    /// The value.
    pub value: String,
}

impl Canary {
    /// 36 letters that depend on the name alone.
    pub fn new(name: &str) -> Self {
        Self { name: name.to_owned(), value: letters(name) }
    }

    /// The same with characters in its middle that every encoding writes in its own way.
    pub fn awkward(name: &str) -> Self {
        let letters = letters(name);
        let (begin, end) = letters.split_at(18);
        Self { name: name.to_owned(), value: format!("{begin}\"\\ /+%&{end}") }
    }

    /// In the form that a platform gives its tokens.
    pub fn numbered(name: &str) -> Self {
        Self { name: name.to_owned(), value: format!("7261839405:{}", letters(name)) }
    }

    /// What is searched for: either end of it as it is, which no escape changes, or all of it in base64,
    /// wherever in a longer text it began.
    fn forms(&self) -> Vec<String> {
        let value = &self.value;
        let ends = [&value[..PART], &value[value.len() - PART..]];
        let mut forms: Vec<String> = ends.into_iter().map(str::to_owned).collect();
        for before in 0..3 {
            let mut bytes = vec![0_u8; before];
            bytes.extend_from_slice(value.as_bytes());
            let encoded = base64(&bytes);
            forms.push(encoded[before + usize::from(before > 0)..][..2 * PART].to_owned());
        }
        forms
    }

    /// Where it is found in a text, with what stands around it.
    fn found(&self, text: &[u8]) -> Option<String> {
        self.forms().iter().find_map(|form| {
            let at = text.windows(form.len()).position(|part| part == form.as_bytes())?;
            let around = &text[at.saturating_sub(100)..text.len().min(at + 80)];
            Some(String::from_utf8_lossy(around).into_owned())
        })
    }
}

fn letters(name: &str) -> String {
    let digest = [Sha256::digest(name.as_bytes()), Sha256::digest(format!("{name}."))].concat();
    digest.iter().take(36).map(|byte| char::from(b'a' + byte % 26)).collect()
}

fn base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let digit = |bits: u32| char::from(ALPHABET[(bits & 63) as usize]);
    let whole = bytes.chunks_exact(3).flat_map(|three| {
        let bits = u32::from(three[0]) << 16 | u32::from(three[1]) << 8 | u32::from(three[2]);
        [digit(bits >> 18), digit(bits >> 12), digit(bits >> 6), digit(bits)]
    });
    whole.collect()
}

/// What was shown: each surface by its name.
#[derive(Default)]
pub struct Shown(Vec<(String, Vec<u8>)>);

impl Shown {
    /// Adds a surface. One that shows nothing at all was not reached by the test.
    pub fn add(&mut self, name: &str, content: impl Into<Vec<u8>>) {
        let content = content.into();
        assert!(!content.is_empty(), "{name} shows nothing");
        self.0.push((name.to_owned(), content));
    }

    /// Which canaries are where.
    pub fn finds(&self, canaries: &[Canary]) -> Vec<String> {
        let mut finds = Vec::new();
        for (surface, content) in &self.0 {
            for canary in canaries {
                if let Some(around) = canary.found(content) {
                    finds.push(format!("{} in {surface}: …{around}…", canary.name));
                }
            }
        }
        finds
    }

    /// Fails with all finds if any canary is anywhere.
    pub fn assert_none(&self, canaries: &[Canary]) {
        let finds = self.finds(canaries);
        assert!(finds.is_empty(), "{} leaks:\n{}", finds.len(), finds.join("\n"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // I12
    #[test]
    fn a_planted_canary_is_found_whole_cut_escaped_or_encoded_and_nothing_else_is() {
        let canary = Canary::awkward("planted");
        let value = &canary.value;
        let json = serde_json::to_string(value).unwrap();
        let planted = [
            value.clone(),
            format!("before {value} after"),
            value[..PART + 2].to_owned(),
            format!("…{}", &value[value.len() - PART..]),
            json.clone(),
            serde_json::to_string(&json).unwrap(),
            value.replace('"', "%22").replace(' ', "+"),
            base64(format!("user:{value}  ").as_bytes()),
            base64(format!("users:{value}  ").as_bytes()),
            base64(format!("{value}  ").as_bytes()),
        ];
        for text in planted {
            let mut shown = Shown::default();
            shown.add("here", text.clone().into_bytes());
            assert_eq!(shown.finds(std::slice::from_ref(&canary)).len(), 1, "{text}");
            assert!(shown.finds(&[Canary::new("other")]).is_empty());
        }
        let mut shown = Shown::default();
        shown.add("here", &value.as_bytes()[..PART - 1]);
        shown.assert_none(&[canary]);
    }

    #[test]
    fn base64_is_what_everybody_means_by_it() {
        assert_eq!(base64(b"Many hands make "), "TWFueSBoYW5kcyBtYWtl");
    }
}
