//! The real gateway, for channels whose messages come in by it.

use std::collections::HashMap;
use std::net::TcpListener;
use std::sync::Arc;

use rookery_actors::channel::commands::{Desk, DeskDeps, Stopper};
use rookery_actors::channel::pairing::Door;
use rookery_actors::gateway::{GatewayArgs, GatewayDeps, Probes, Readiness, Tokens};
use rookery_messages::channel::ChannelAdapter;
use rookery_messages::ids::ChannelId;

use super::{Bench, Platform};

pub(super) fn args<P: Platform>(
    bench: &Bench<P>,
    adapter: Arc<dyn ChannelAdapter>,
    listener: Arc<TcpListener>,
) -> GatewayArgs {
    let settings = bench.platform.settings();
    let sender = bench.sender.as_ref().map(|sender| sender.address.clone());
    let doors = settings.channels.webhook.iter().map(|(alias, hook)| {
        let channel = ChannelId::new(format!("webhook.{alias}"));
        let (store, world) = (bench.store.clone(), bench.world.clone());
        let allowed = hook.allowed_users.clone();
        (channel.clone(), Door::new(channel, allowed, hook.pairing, store, world))
    });
    let desk = Desk::new(DeskDeps {
        stopper: Stopper {
            directory: Arc::clone(bench.spawner.directory()),
            store: bench.store.clone(),
            hub: Arc::clone(&bench.hub),
            router: bench.router.clone(),
            world: bench.world.clone(),
        },
        models: HashMap::new(),
        posts: HashMap::new(),
        observer: bench.observer.clone(),
    });
    let ready = || Readiness { ready: true, components: Vec::new() };
    let deps = GatewayDeps {
        redactor: Arc::default(),
        store: bench.store.clone(),
        hub: Arc::clone(&bench.hub),
        directory: Arc::clone(bench.spawner.directory()),
        router: bench.router.clone(),
        intakes: HashMap::from([(bench.channel.clone(), bench.intake_handle())]),
        workspaces: HashMap::new(),
        outlets: HashMap::from([(bench.channel.clone(), adapter)]),
        senders: sender.map(|sender| (bench.channel.clone(), sender)).into_iter().collect(),
        observer: bench.observer.clone(),
        doors: doors.collect(),
        desk,
        world: bench.world.clone(),
        probes: Probes {
            metrics: Arc::new(|| Box::pin(async { String::new() })),
            ready: Arc::new(ready),
            live: Arc::new(|| true),
        },
        tokens: Tokens::configured(&settings.gateway.tokens),
        receipts: Arc::default(),
        extra: Vec::new(),
        settings: Arc::new(settings),
    };
    GatewayArgs { deps: Arc::new(deps), listener }
}
