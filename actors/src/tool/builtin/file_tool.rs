//! What the tools that work on files have in common: arguments are read first, the work is done in a task that
//! may block.

use std::marker::PhantomData;
use std::sync::Arc;

use rookery_messages::BoxFuture;
use rookery_messages::tool::{CallEffects, Tool, ToolContext, ToolResult, ToolSpec};

use super::args::Arguments;
use super::files::{self, FileWork};

/// A tool that works on files of the workspace.
pub(super) trait FileTool: Send + Sync + 'static {
    /// Its arguments, read.
    type Wanted: Send + 'static;

    /// What the model is told.
    fn spec() -> Arc<ToolSpec>;

    /// What this very call would do.
    fn effects(arguments: &Arguments) -> CallEffects;

    /// Reads the arguments; `Err` is the call's result.
    fn wanted(arguments: &Arguments) -> Result<Self::Wanted, ToolResult>;

    /// Does it. May block; looks at [`FileWork::go_on`] now and then.
    fn work(wanted: &Self::Wanted, files: &FileWork) -> Result<ToolResult, ToolResult>;
}

/// A [`FileTool`] as the registry takes it.
pub(super) struct OnFiles<T> {
    spec: Arc<ToolSpec>,
    tool: PhantomData<fn() -> T>,
}

impl<T: FileTool> OnFiles<T> {
    pub(super) fn tool() -> Arc<dyn Tool> {
        Arc::new(Self { spec: T::spec(), tool: PhantomData })
    }
}

impl<T: FileTool> Tool for OnFiles<T> {
    fn spec(&self) -> Arc<ToolSpec> {
        Arc::clone(&self.spec)
    }

    fn effects(&self, arguments: &Arguments) -> CallEffects {
        T::effects(arguments)
    }

    fn execute<'a>(
        &'a self,
        arguments: &'a Arguments,
        cx: &'a ToolContext,
    ) -> BoxFuture<'a, ToolResult> {
        Box::pin(async move {
            match T::wanted(arguments) {
                Ok(wanted) => files::blocking(cx, move |files| T::work(&wanted, files)).await,
                Err(failed) => failed,
            }
        })
    }
}
