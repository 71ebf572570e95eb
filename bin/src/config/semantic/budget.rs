//! Budgets and prices: amounts that can be reckoned with, and no cost that nobody knows.

use std::collections::BTreeSet;

use rookery_messages::settings::{AgentSettings, Settings, SpendLimit};

use super::Findings;

/// More than anybody means.
const MOST: f64 = 1e9;

pub(super) fn check(settings: &Settings, found: &mut Findings<'_>) {
    limit(&settings.budget, &["budget"], found);
    for (name, profile) in &settings.runtime_profiles {
        let budget = &profile.budget;
        for (whose, of) in
            [("turn", &budget.turn), ("sender", &budget.sender), ("agent", &budget.agent)]
        {
            limit(of, &["runtime_profiles", name, "budget", whose], found);
        }
    }
    for (name, provider) in &settings.providers {
        let Some(price) = &provider.price else { continue };
        for (key, amount) in [("input", price.input), ("output", price.output)] {
            if !(0.0..=MOST).contains(&amount) {
                found.add(
                    &["providers", name, "price", key],
                    "is no price of a million tokens; it must be 0 or more",
                );
            }
        }
    }
    prices_are_known(settings, found);
}

fn limit(limit: &SpendLimit, path: &[&str], found: &mut Findings<'_>) {
    let at = |key| path.iter().copied().chain([key]).collect::<Vec<_>>();
    if limit.max_cost.is_some_and(|cost| !(0.0..=MOST).contains(&cost)) {
        found.add(&at("max_cost"), "is no amount; it must be 0 or more");
    }
}

/// A limit of cost over a provider without a price would never be reached.
fn prices_are_known(settings: &Settings, found: &mut Findings<'_>) {
    let mut missing = BTreeSet::new();
    for agent in settings.agents.values() {
        let profile = settings.runtime_profiles.get(&agent.runtime_profile);
        let limits = profile.map(|profile| {
            let budget = &profile.budget;
            [budget.turn, budget.sender, budget.agent]
        });
        let mut limits = limits.into_iter().flatten().chain([settings.budget]);
        if limits.any(|limit| limit.max_cost.is_some()) {
            missing.extend(reached(settings, agent).into_iter().filter(|name| {
                settings.providers.get(*name).is_some_and(|provider| provider.price.is_none())
            }));
        }
    }
    for name in missing {
        found.add(
            &["providers", name, "price"],
            "is missing, and a max_cost holds for agents that use it; set what a million tokens cost, \
             such as { input = 0.0, output = 0.0 }",
        );
    }
}

/// The providers an agent's turns may come to.
fn reached<'a>(settings: &'a Settings, agent: &'a AgentSettings) -> BTreeSet<&'a str> {
    let mut open: Vec<&str> =
        agent.models.iter().map(String::as_str).chain([agent.provider.as_str()]).collect();
    let mut reached = BTreeSet::new();
    while let Some(name) = open.pop() {
        if reached.insert(name)
            && let Some(provider) = settings.providers.get(name)
        {
            open.extend(provider.fallback.iter().map(String::as_str));
        }
    }
    reached
}
