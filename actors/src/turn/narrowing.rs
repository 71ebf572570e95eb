//! What a run is allowed less than its agent (T2, V-D4).

use std::collections::BTreeSet;

/// The tools of one run. It only takes away: what policy refuses stays refused.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Narrowing {
    tools: Option<BTreeSet<String>>,
}

impl Narrowing {
    /// Only these tools. None at all is a narrowing, too.
    pub fn to<S: Into<String>>(tools: impl IntoIterator<Item = S>) -> Self {
        Self { tools: Some(tools.into_iter().map(Into::into).collect()) }
    }

    /// Whether a tool, by its resolved name, is left.
    pub fn admits(&self, tool: &str) -> bool {
        self.tools.as_ref().is_none_or(|tools| tools.contains(tool))
    }

    /// What both leave: a run below this one can't get back what was taken.
    pub fn and(&self, other: &Self) -> Self {
        let tools = match (&self.tools, &other.tools) {
            (None, tools) | (tools, None) => tools.clone(),
            (Some(one), Some(two)) => Some(one.intersection(two).cloned().collect()),
        };
        Self { tools }
    }
}

#[cfg(test)]
mod tests {
    use super::Narrowing;

    // V-D3, V-D4
    #[test]
    fn narrowings_keep_what_all_of_them_keep() {
        let free = Narrowing::default();
        let some = Narrowing::to(["read", "write"]);
        assert!(free.admits("shell") && some.admits("read") && !some.admits("shell"));
        let both = some.and(&Narrowing::to(["write", "shell"]));
        assert_eq!(both, Narrowing::to(["write"]));
        assert_eq!((free.and(&some), some.and(&free)), (some.clone(), some.clone()));
        let none = some.and(&Narrowing::to::<&str>([]));
        assert!(!none.admits("read") && none != free);
    }
}
