//! Numbers within what the service can keep to.

use std::ops::RangeInclusive;

use rookery_messages::settings::Settings;

use super::Findings;

/// Ten years: longer waits are mistakes, and far below what a clock can add.
const LONG_SECS: u64 = 315_360_000;

pub(super) fn check(settings: &Settings, found: &mut Findings<'_>) {
    let mut range = |path: &[&str], value: u64, allowed: RangeInclusive<u64>| {
        if !allowed.contains(&value) {
            found.add(path, format!("must be from {} to {}", allowed.start(), allowed.end()));
        }
    };
    let gateway = &settings.gateway;
    let body = gateway.body_limit_bytes as u64;
    range(&["gateway", "body_limit_bytes"], body, 1_024..=1_073_741_824);
    range(&["gateway", "max_connections"], gateway.max_connections as u64, 1..=1_000_000);
    range(&["shutdown", "drain_secs"], settings.shutdown.drain_secs, 0..=86_400);
    let sessions = &settings.sessions;
    range(&["sessions", "idle_secs"], sessions.idle_secs, 1..=LONG_SECS);
    range(&["sessions", "max_active"], sessions.max_active as u64, 1..=10_000_000);
    range(&["sessions", "max_attempts"], sessions.max_attempts.into(), 1..=100);
    range(&["approvals", "timeout_secs"], settings.approvals.timeout_secs, 1..=LONG_SECS);
    range(&["approvals", "grant_secs"], settings.approvals.grant_secs, 1..=LONG_SECS);
    let memory = &settings.memory;
    range(&["memory", "max_entries"], memory.max_entries, 1..=10_000_000);
    range(&["memory", "floor_percent"], memory.floor_percent.into(), 0..=100);
    range(&["memory", "half_life_days"], memory.half_life_days.into(), 1..=36_500);
    range(&["memory", "recall_timeout_ms"], memory.recall_timeout_ms, 1..=60_000);
    for (name, provider) in &settings.providers {
        let path = |key| ["providers", name.as_str(), key];
        range(&path("idle_timeout_secs"), provider.idle_timeout_secs, 1..=86_400);
        range(&path("max_concurrency"), provider.max_concurrency as u64, 1..=100_000);
        range(&path("max_attempts"), provider.max_attempts.into(), 1..=100);
        range(&path("max_retry_after_secs"), provider.max_retry_after_secs, 1..=3_600);
        if let Some(most) = provider.requests_per_minute {
            range(&path("requests_per_minute"), most.into(), 1..=1_000_000);
        }
        if let Some(most) = provider.max_output_tokens {
            range(&path("max_output_tokens"), most, 1..=10_000_000);
        }
    }
    for (name, profile) in &settings.runtime_profiles {
        let path = |key| ["runtime_profiles", name.as_str(), key];
        range(&path("max_tool_iterations"), profile.max_tool_iterations.into(), 1..=10_000);
        range(&path("stop_grace_ms"), profile.stop_grace_ms, 0..=600_000);
        range(&path("progress_timeout_secs"), profile.progress_timeout_secs, 0..=LONG_SECS);
        range(&path("step_timeout_secs"), profile.step_timeout_secs, 0..=LONG_SECS);
        let delegation = &profile.delegation;
        let below = |key| ["runtime_profiles", name.as_str(), "delegation", key];
        range(&below("max_depth"), delegation.max_depth.into(), 0..=16);
        range(&below("max_children"), delegation.max_children.into(), 1..=1_000);
        range(&below("max_tasks"), delegation.max_tasks.into(), 1..=1_000);
        range(&below("max_iterations"), delegation.max_iterations.into(), 1..=10_000);
        let loops = &profile.loop_detection;
        let path = |key| ["runtime_profiles", name.as_str(), "loop_detection", key];
        for (key, times) in [
            ("repeats", loops.repeats),
            ("cycles", loops.cycles),
            ("no_progress", loops.no_progress),
        ] {
            range(&path(key), times.into(), 2..=1_000);
        }
        range(&path("window"), loops.window.into(), 1..=10_000);
    }
    for (alias, bot) in &settings.channels.telegram {
        let path = ["channels", "telegram", alias.as_str(), "bot_chain_limit"];
        range(&path, bot.bot_chain_limit.into(), 1..=1_000);
    }
    for (name, hook) in &settings.hooks {
        range(&["hooks", name.as_str(), "timeout_ms"], hook.timeout_ms, 1..=600_000);
    }
    for (name, profile) in &settings.risk_profiles {
        for (tool, limit) in &profile.rate_limits {
            let path = ["risk_profiles", name.as_str(), "rate_limits", tool, "per_minute"];
            range(&path, limit.per_minute.into(), 0..=100_000);
        }
    }
    for (name, server) in &settings.mcp.servers {
        let path = |key| ["mcp", "servers", name.as_str(), key];
        range(&path("connect_timeout_secs"), server.connect_timeout_secs, 1..=3_600);
        range(&path("call_timeout_secs"), server.call_timeout_secs, 1..=86_400);
    }
    for (alias, webhook) in &settings.channels.webhook {
        let path = |key| ["channels", "webhook", alias.as_str(), key];
        range(&path("queue_limit"), webhook.queue_limit.into(), 1..=1_000_000);
        range(&path("debounce_ms"), webhook.debounce_ms, 0..=60_000);
    }
    for (name, channel) in [("cli", &settings.channels.cli), ("ws", &settings.channels.ws)] {
        let path = |key| ["channels", name, key];
        range(&path("queue_limit"), channel.queue_limit.into(), 1..=1_000_000);
        range(&path("debounce_ms"), channel.debounce_ms, 0..=60_000);
    }
    for (alias, bot) in &settings.channels.telegram {
        let path = |key| ["channels", "telegram", alias.as_str(), key];
        range(&path("queue_limit"), bot.queue_limit.into(), 1..=1_000_000);
        range(&path("debounce_ms"), bot.debounce_ms, 0..=60_000);
        range(&path("draft_interval_ms"), bot.draft_interval_ms, 100..=60_000);
        range(&path("poll_timeout_secs"), bot.poll_timeout_secs, 1..=600);
        range(&path("max_attachment_bytes"), bot.max_attachment_bytes, 1..=2_147_483_648);
    }
}
