//! What a run is allowed less than its agent (T2, V-D4).

use std::collections::BTreeSet;

/// The tools of one run. It only takes away: what policy refuses stays refused.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Narrowing {
    tools: Option<BTreeSet<String>>,
    /// Handed over by name: nothing has to be searched for first.
    handed: bool,
}

impl Narrowing {
    /// Only these tools. None at all is a narrowing, too.
    pub fn to<S: Into<String>>(tools: impl IntoIterator<Item = S>) -> Self {
        Self { tools: Some(tools.into_iter().map(Into::into).collect()), handed: false }
    }

    /// Exactly these tools, handed over: those that are announced by name only are live at once, and are
    /// announced no more (V-D20).
    pub fn handed<S: Into<String>>(tools: impl IntoIterator<Item = S>) -> Self {
        Self { handed: true, ..Self::to(tools) }
    }

    /// Whether a tool was handed over.
    pub fn hands(&self, tool: &str) -> bool {
        self.handed && self.admits(tool)
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
        Self { tools, handed: self.handed || other.handed }
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
