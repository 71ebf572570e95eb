//! Bodies in braces that are no JSON: `{tool => "shell", args => {--command "ls"}}`.

use serde_json::{Map, Value};

/// How deep braces nest.
const MAX_DEPTH: usize = 8;

/// The whole text as one such body.
pub(super) fn read(text: &str) -> Option<Map<String, Value>> {
    let mut reader = Reader { rest: text.trim() };
    let map = reader.block(0)?;
    reader.rest.trim().is_empty().then_some(map)
}

struct Reader<'a> {
    rest: &'a str,
}

impl Reader<'_> {
    fn skip(&mut self) {
        self.rest = self.rest.trim_start_matches(|c: char| c.is_whitespace() || c == ',');
    }

    fn takes(&mut self, mark: &str) -> bool {
        let Some(rest) = self.rest.strip_prefix(mark) else { return false };
        self.rest = rest;
        true
    }

    fn block(&mut self, depth: usize) -> Option<Map<String, Value>> {
        if depth >= MAX_DEPTH || !self.takes("{") {
            return None;
        }
        let mut map = Map::new();
        loop {
            self.skip();
            if self.takes("}") {
                return Some(map);
            }
            let key = match self.scalar()? {
                Value::String(key) => key.trim_start_matches("--").to_owned(),
                other => other.to_string(),
            };
            self.skip();
            let _ = self.takes("=>") || self.takes(":") || self.takes("=");
            self.skip();
            let value = if self.rest.starts_with('{') {
                Value::Object(self.block(depth + 1)?)
            } else {
                self.scalar()?
            };
            map.insert(key, value);
        }
    }

    fn scalar(&mut self) -> Option<Value> {
        match self.rest.chars().next()? {
            '"' => {
                let mut values =
                    serde_json::Deserializer::from_str(self.rest).into_iter::<String>();
                let text = values.next()?.ok()?;
                let read = values.byte_offset();
                self.rest = &self.rest[read..];
                Some(Value::String(text))
            }
            '\'' => {
                let (text, rest) = self.rest[1..].split_once('\'')?;
                self.rest = rest;
                Some(Value::String(text.to_owned()))
            }
            _ => {
                let ends = |c: char| c.is_whitespace() || "{},=:\"'".contains(c);
                let end = self.rest.find(ends).unwrap_or(self.rest.len());
                if end == 0 {
                    return None;
                }
                let (word, rest) = self.rest.split_at(end);
                self.rest = rest;
                Some(serde_json::from_str(word).unwrap_or_else(|_| Value::String(word.to_owned())))
            }
        }
    }
}
