//! The process's environment, taken once, so that tests can give their own.

use std::collections::BTreeMap;

/// Environment variables by name. Has no `Debug`: values may be secrets.
#[derive(Clone, Default)]
pub struct Environment(BTreeMap<String, String>);

impl Environment {
    /// The process's own. Variables that are not UTF-8 are left out: none of ours may be.
    pub fn of_process() -> Self {
        Self(
            std::env::vars_os()
                .filter_map(|(name, value)| {
                    Some((name.into_string().ok()?, value.into_string().ok()?))
                })
                .collect(),
        )
    }

    /// A variable that is set and not empty.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// A variable that is set, maybe to nothing.
    pub fn get_set(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// Those whose names begin so, with what follows the prefix, in order of name.
    pub fn with_prefix<'a>(
        &'a self,
        prefix: &'a str,
    ) -> impl Iterator<Item = (&'a str, &'a str, &'a str)> {
        self.0.iter().filter_map(move |(name, value)| {
            Some((name.as_str(), name.strip_prefix(prefix)?, value.as_str()))
        })
    }
}

impl<const N: usize> From<[(&str, &str); N]> for Environment {
    fn from(variables: [(&str, &str); N]) -> Self {
        Self(variables.into_iter().map(|(n, v)| (n.to_owned(), v.to_owned())).collect())
    }
}
