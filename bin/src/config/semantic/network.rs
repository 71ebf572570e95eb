//! Network rules: every entry can be read.

use rookery_actors::policy::network::{check_host_pattern, check_private_pattern};
use rookery_messages::settings::Settings;

use super::Findings;

pub(super) fn check(settings: &Settings, found: &mut Findings<'_>) {
    for (name, profile) in &settings.risk_profiles {
        let network = &profile.network;
        let hosts = network.allow_hosts.iter().flatten().map(|entry| ("allow_hosts", entry));
        let hosts = hosts.chain(network.deny_hosts.iter().map(|entry| ("deny_hosts", entry)));
        let hosts = hosts.map(|(key, entry)| (key, check_host_pattern(entry)));
        let private = network.allow_private.iter();
        let private = private.map(|entry| ("allow_private", check_private_pattern(entry)));
        for (key, checked) in hosts.chain(private) {
            if let Err(fault) = checked {
                let fault = crate::render::strict(&fault);
                found.add(&["risk_profiles", name, "network", key], fault);
            }
        }
        if network.allow_ports.contains(&0) {
            found.add(
                &["risk_profiles", name, "network", "allow_ports"],
                "holds 0, which is no port; take it out",
            );
        }
    }
}
