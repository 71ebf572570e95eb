//! `time`: what the clock says, in a time zone.

use std::sync::Arc;

use jiff::tz::TimeZone;
use rookery_messages::BoxFuture;
use rookery_messages::time::Clock;
use rookery_messages::tool::{CallEffects, Tool, ToolContext, ToolResult, ToolSpec};
use serde_json::json;

use super::args::{self, Arguments};

/// The tool. Zone data is part of the program, so that it works where the system has none.
pub(super) struct Time {
    spec: Arc<ToolSpec>,
    clock: Arc<dyn Clock>,
}

impl Time {
    pub(super) fn new(clock: Arc<dyn Clock>) -> Self {
        let spec = super::spec(
            "time",
            "Tells the current date and time.",
            json!({"timezone": {
                "type": "string",
                "description": "IANA time zone name such as Europe/Berlin. Default: UTC.",
            }}),
            &[],
        );
        Self { spec, clock }
    }

    fn run(&self, arguments: &Arguments) -> Result<ToolResult, ToolResult> {
        let name = args::optional(arguments, "timezone")?.unwrap_or("UTC");
        let zone = TimeZone::get(name).map_err(|_| {
            ToolResult::failed(format!(
                "`timezone` `{}` is not known; use an IANA name such as Europe/Berlin",
                crate::policy::display::visible(name)
            ))
        })?;
        let now = self.clock.now().to_zoned(zone);
        let shown = now.strftime("%A, %Y-%m-%dT%H:%M:%S%:z");
        Ok(ToolResult::ok(format!("{shown} ({name})")))
    }
}

impl Tool for Time {
    fn spec(&self) -> Arc<ToolSpec> {
        Arc::clone(&self.spec)
    }

    fn effects(&self, _: &Arguments) -> CallEffects {
        CallEffects::read_only()
    }

    fn execute<'a>(
        &'a self,
        arguments: &'a Arguments,
        _: &'a ToolContext,
    ) -> BoxFuture<'a, ToolResult> {
        let result = self.run(arguments).unwrap_or_else(|failed| failed);
        Box::pin(std::future::ready(result))
    }
}
