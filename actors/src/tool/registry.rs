//! The tools there are, by name.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use rookery_messages::tool::{Tool, ToolSpec};

use super::mcp::SEPARATOR;
use super::schema::Schemas;

/// Longest name that model providers accept.
const MAX_NAME_CHARS: usize = 64;

/// Why a tool was not registered.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum RegistryError {
    /// Its name can't be sent to a model.
    #[error("tool name `{0}` is not valid: use 1 to 64 letters, digits, `_` or `-`")]
    Name(String),
    /// The name is taken.
    #[error("there are two tools named `{0}`: rename one of them")]
    Duplicate(String),
}

/// Tools by name, in the order of their names: what a model is shown is the same every time (T4).
#[derive(Clone, Default)]
pub struct Registry {
    /// Shared by all copies, until one gets a tool of its own: a turn's registry is a copy of its agent's.
    tools: Arc<BTreeMap<Arc<str>, Arc<dyn Tool>>>,
    schemas: Arc<Schemas>,
}

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.tools.keys()).finish()
    }
}

impl Registry {
    /// A registry without tools.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a tool under the name its spec gives.
    pub fn insert(&mut self, tool: Arc<dyn Tool>) -> Result<(), RegistryError> {
        let name = tool.spec().name.clone();
        let valid = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
        if name.is_empty() || name.len() > MAX_NAME_CHARS || !name.chars().all(valid) {
            return Err(RegistryError::Name(name));
        }
        if self.tools.contains_key(name.as_str()) {
            return Err(RegistryError::Duplicate(name));
        }
        Arc::make_mut(&mut self.tools).insert(name.into(), tool);
        Ok(())
    }

    /// The tool a model means, with its own spelling of the name: exactly this name, else the only one
    /// that differs in case alone (V-F27), else the only server's tool that is called so without its
    /// server (V-D15). Policy is asked about the name returned here (V-D17).
    pub fn resolve(&self, name: &str) -> Option<(&str, &Arc<dyn Tool>)> {
        if let Some((own, tool)) = self.tools.get_key_value(name) {
            return Some((own, tool));
        }
        let mut alike = self.tools.iter().filter(|(own, _)| own.eq_ignore_ascii_case(name));
        match (alike.next(), alike.next()) {
            (Some((own, tool)), None) => return Some((own, tool)),
            (Some(_), Some(_)) => return None,
            (None, _) => {}
        }
        let short = |own: &'_ str, tool: &dyn Tool| {
            let rest =
                own.strip_prefix(tool.provider()).and_then(|own| own.strip_prefix(SEPARATOR));
            rest == Some(name)
        };
        let mut called = self.tools.iter().filter(|(own, tool)| short(own, &***tool));
        match (called.next(), called.next()) {
            (Some((own, tool)), None) => Some((own, tool)),
            _ => None,
        }
    }

    /// The specs of the tools that `admits`, shared, in the order of their names.
    pub fn specs(&self, admits: impl Fn(&str) -> bool) -> Vec<Arc<ToolSpec>> {
        self.tools.iter().filter(|(name, _)| admits(name)).map(|(_, tool)| tool.spec()).collect()
    }

    /// The compiled schemas of its tools.
    pub fn schemas(&self) -> &Schemas {
        &self.schemas
    }

    /// Whether it has no tool.
    pub fn is_empty(&self) -> bool {
        self.tools.is_empty()
    }

    /// All names, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.tools.keys().map(AsRef::as_ref)
    }
}

#[cfg(test)]
mod tests {
    use rookery_messages::BoxFuture;
    use rookery_messages::tool::{CallEffects, ToolContext, ToolResult};
    use serde_json::{Map, Value, json};

    use super::*;

    struct Named(Arc<ToolSpec>);

    impl Named {
        fn tool(name: &str) -> Arc<dyn Tool> {
            let (name, description) = (name.to_owned(), String::new());
            Arc::new(Self(Arc::new(ToolSpec { name, description, parameters: json!({}) })))
        }
    }

    impl Tool for Named {
        fn spec(&self) -> Arc<ToolSpec> {
            Arc::clone(&self.0)
        }
        fn effects(&self, _: &Map<String, Value>) -> CallEffects {
            CallEffects::read_only()
        }
        fn execute<'a>(
            &'a self,
            _: &'a Map<String, Value>,
            _: &'a ToolContext,
        ) -> BoxFuture<'a, ToolResult> {
            Box::pin(async { ToolResult::ok("") })
        }
    }

    struct Served(&'static str, Arc<ToolSpec>);

    impl Tool for Served {
        fn spec(&self) -> Arc<ToolSpec> {
            Arc::clone(&self.1)
        }
        fn provider(&self) -> &str {
            self.0
        }
        fn effects(&self, _: &Map<String, Value>) -> CallEffects {
            CallEffects::unknown()
        }
        fn execute<'a>(
            &'a self,
            _: &'a Map<String, Value>,
            _: &'a ToolContext,
        ) -> BoxFuture<'a, ToolResult> {
            Box::pin(async { ToolResult::ok("") })
        }
    }

    fn registry(names: &[&str]) -> Registry {
        let mut registry = Registry::new();
        for name in names {
            registry.insert(Named::tool(name)).expect("a new name");
        }
        registry
    }

    // V-F27
    #[test]
    fn a_name_in_another_case_means_the_only_tool_that_differs_by_it() {
        let registry = registry(&["Read", "write", "Write"]);
        let own = |name: &str| registry.resolve(name).map(|(own, _)| own.to_owned());
        assert_eq!(own("Read"), Some("Read".to_owned()));
        assert_eq!(own("READ"), Some("Read".to_owned()));
        assert_eq!(own("write"), Some("write".to_owned()));
        assert_eq!(own("WRITE"), None);
        assert_eq!(own("rea"), None);
    }

    // V-D15
    #[test]
    fn a_servers_tool_may_be_called_without_its_server_unless_that_is_ambiguous() {
        let mut registry = registry(&["time"]);
        for (provider, name) in [("a", "a__x"), ("b", "b__y"), ("a", "a__y"), ("a", "a__time")] {
            let spec = Named::tool(name).spec();
            registry.insert(Arc::new(Served(provider, spec))).unwrap();
        }
        let own = |name: &str| registry.resolve(name).map(|(own, _)| own.to_owned());
        assert_eq!(own("x"), Some("a__x".to_owned()));
        assert_eq!(own("y"), None);
        assert_eq!(own("time"), Some("time".to_owned()));
        assert_eq!(own("_x"), None);
        assert_eq!(own("z"), None);
    }

    // T4
    #[test]
    fn specs_come_in_one_order_and_are_shared() {
        let registry = registry(&["b", "c", "a"]);
        let specs = registry.specs(|name| name != "b");
        assert_eq!(specs.iter().map(|spec| spec.name.as_str()).collect::<Vec<_>>(), ["a", "c"]);
        assert!(Arc::ptr_eq(&specs[0], &registry.specs(|_| true)[0]));
    }

    #[test]
    fn a_bad_or_taken_name_is_refused() {
        let mut registry = registry(&["a"]);
        assert_eq!(registry.insert(Named::tool("a")), Err(RegistryError::Duplicate("a".into())));
        for name in ["", "a b", "ä", "a.b", &"x".repeat(65)] {
            assert_eq!(registry.insert(Named::tool(name)), Err(RegistryError::Name(name.into())));
        }
    }
}
