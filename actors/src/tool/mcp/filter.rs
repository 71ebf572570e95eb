//! Filter groups: which MCP tools a turn is shown (T6). They hide schemas; they never grant anything.

use globset::{Glob, GlobSet, GlobSetBuilder};
use rookery_messages::settings::{FilterMode, ToolFilterGroup};

/// Names of tools, with `*` and `?`.
#[derive(Clone, Debug, Default)]
pub(super) struct Patterns(GlobSet);

impl Patterns {
    pub(super) fn new<'a>(patterns: impl IntoIterator<Item = &'a String>) -> Self {
        let mut set = GlobSetBuilder::new();
        for pattern in patterns {
            let glob = Glob::new(pattern).or_else(|_| Glob::new(&globset::escape(pattern)));
            if let Ok(glob) = glob {
                set.add(glob);
            }
        }
        Self(set.build().unwrap_or_default())
    }

    /// Whether one of a tool's names is meant.
    pub(super) fn name_any(&self, names: [&str; 2]) -> bool {
        names.iter().any(|name| self.0.is_match(name))
    }
}

#[derive(Clone, Debug)]
struct Group {
    tools: Patterns,
    mode: FilterMode,
    /// In lower case.
    keywords: Vec<String>,
}

/// An agent's groups.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    groups: Vec<Group>,
}

/// The groups, as one message makes them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Shown {
    /// None: there are no groups, so nothing is hidden.
    groups: Option<Vec<Patterns>>,
    always: Vec<Patterns>,
}

impl Filter {
    /// From an agent's settings.
    pub fn new(groups: &[ToolFilterGroup]) -> Self {
        let groups = groups.iter().map(|group| Group {
            tools: Patterns::new(&group.tools),
            mode: group.mode,
            keywords: group.keywords.iter().map(|word| word.to_lowercase()).collect(),
        });
        Self { groups: groups.collect() }
    }

    /// What a turn that answers `message` is shown.
    pub(crate) fn for_message(&self, message: &str) -> Shown {
        if self.groups.is_empty() {
            return Shown::default();
        }
        let message = message.to_lowercase();
        let applies = |group: &&Group| match group.mode {
            FilterMode::Always => true,
            FilterMode::Dynamic => group.keywords.iter().any(|word| message.contains(word)),
        };
        let tools = |group: &Group| group.tools.clone();
        let always = self.groups.iter().filter(|group| group.mode == FilterMode::Always);
        Shown {
            groups: Some(self.groups.iter().filter(applies).map(tools).collect()),
            always: always.map(tools).collect(),
        }
    }
}

impl Shown {
    /// Whether a tool of these names is shown.
    pub(crate) fn shows(&self, names: [&str; 2]) -> bool {
        let Some(groups) = &self.groups else { return true };
        groups.iter().any(|patterns| patterns.name_any(names))
    }

    /// Whether an `always` group names it: then it is live from the first model call on (V-D20).
    pub(crate) fn always(&self, names: [&str; 2]) -> bool {
        self.always.iter().any(|patterns| patterns.name_any(names))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(mode: FilterMode, tools: &[&str], keywords: &[&str]) -> ToolFilterGroup {
        let own = |list: &[&str]| list.iter().map(|one| (*one).to_owned()).collect();
        ToolFilterGroup { mode, tools: own(tools), keywords: own(keywords) }
    }

    fn shows(filter: &Filter, message: &str, name: &str) -> bool {
        filter.for_message(message).shows([name, name])
    }

    // V-D18
    #[test]
    fn with_groups_a_tool_that_none_names_is_hidden_and_without_groups_none_is() {
        let filter = Filter::new(&[group(FilterMode::Always, &["files__read_*"], &[])]);
        assert!(shows(&filter, "", "files__read_text"));
        assert!(!shows(&filter, "", "files__write"));
        assert!(!shows(&filter, "", "web__get"));
        assert!(shows(&Filter::new(&[]), "", "web__get"));
    }

    // V-D19
    #[test]
    fn a_dynamic_group_is_shown_when_a_keyword_stands_in_the_message_in_any_case() {
        let filter =
            Filter::new(&[group(FilterMode::Dynamic, &["mail__*"], &["Inbox", "übersicht"])]);
        assert!(shows(&filter, "please look at my INBOX", "mail__list"));
        assert!(shows(&filter, "eine ÜBERSICHT", "mail__list"));
        assert!(!shows(&filter, "hello", "mail__list"));
    }

    // V-D20
    #[test]
    fn an_always_group_says_so_of_its_tools_alone() {
        let filter = Filter::new(&[
            group(FilterMode::Always, &["a__*"], &[]),
            group(FilterMode::Dynamic, &["b__*"], &["word"]),
        ]);
        let shown = filter.for_message("word");
        assert!(shown.always(["a__x", "a__x"]) && !shown.always(["b__x", "b__x"]));
        assert!(shown.shows(["b__x", "b__x"]));
    }
}
