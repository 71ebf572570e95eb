//! The process's environment, taken once, so that tests can give their own.

use std::collections::BTreeMap;

use rookery_actors::policy::redact::is_secret_key;

/// A shorter value of a variable is not taken for a secret.
const SHORTEST_SECRET: usize = 8;

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

    /// The values of variables whose names say that they are secrets. A short value is a switch
    /// (`USE_TOKEN=true`) and one that is a path says where the secret lies; both are words of innocent text.
    pub fn secrets(&self) -> impl Iterator<Item = &str> {
        self.0
            .iter()
            .filter(|(name, value)| {
                is_secret_key(name) && value.len() >= SHORTEST_SECRET && !value.starts_with('/')
            })
            .map(|(_, value)| value.as_str())
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

#[cfg(test)]
mod tests {
    use super::*;

    // I12
    #[test]
    fn a_variable_whose_name_says_so_is_a_secret_unless_it_is_a_switch_or_a_path() {
        let environment = Environment::from([
            ("AWS_SECRET_ACCESS_KEY", "canary-of-a-cloud"),
            ("TOKEN_FILE", "/run/secrets/token"),
            ("USE_TOKEN", "true"),
            ("HOME", "/home/rookery"),
            ("LANG", "en_GB.UTF-8"),
        ]);
        assert_eq!(environment.secrets().collect::<Vec<_>>(), ["canary-of-a-cloud"]);
    }
}
