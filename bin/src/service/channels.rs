//! What each configured channel is made of.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use rookery_actors::channel::commands::{Desk, MENU};
use rookery_actors::channel::pairing::Door;
use rookery_actors::channel::telegram::{BotCommand, TelegramAdapter, address, channel_id};
use rookery_actors::channel::webhook::WebhookAdapter;
use rookery_actors::channel::{
    BotRules, IntakeHandle, Prompts, PullAdapter, ReceiverArgs, ReceiverStatus,
};
use rookery_actors::observe::ObserverHandle;
use rookery_actors::policy::redact::Redactor;
use rookery_actors::store::StoreClient;
use rookery_actors::turn::{AskedAt, AskedChat, ChannelFacts};
use rookery_messages::address::{Address, AddressCell};
use rookery_messages::channel::{ChannelAdapter, IntakeMsg, QueuePolicy, SenderMsg};
use rookery_messages::ids::{AgentName, ChannelId};
use rookery_messages::session::RouterMsg;
use rookery_messages::settings::{
    OnUnknown, OwnChannelSettings, Settings, TelegramSettings, WebhookSettings,
};
use rookery_messages::time::World;
use rookery_supervisors::root::Cells;

use crate::config::ChatRoute;

/// How receiving goes, by channel.
pub(super) type Receivers = BTreeMap<ChannelId, Arc<ReceiverStatus>>;

fn webhook<'a>(settings: &'a Settings, id: &ChannelId) -> Option<&'a WebhookSettings> {
    settings.channels.webhook.get(id.as_str().strip_prefix("webhook.")?)
}

fn telegram<'a>(settings: &'a Settings, id: &ChannelId) -> Option<&'a TelegramSettings> {
    settings.channels.telegram.get(id.as_str().strip_prefix("telegram.")?)
}

/// What every channel decides for its conversations.
#[derive(Clone, Copy)]
pub(super) struct Rules {
    pub(super) queue: QueuePolicy,
    pub(super) queue_limit: u32,
    pub(super) debounce: Duration,
    pub(super) on_unknown: OnUnknown,
}

pub(super) fn rules(settings: &Settings, id: &ChannelId) -> Rules {
    let own = |channel: &OwnChannelSettings| {
        (channel.queue, channel.queue_limit, channel.debounce_ms, OnUnknown::Resend)
    };
    let (queue, queue_limit, debounce_ms, on_unknown) =
        match (webhook(settings, id), telegram(settings, id)) {
            (Some(hook), _) => (hook.queue, hook.queue_limit, hook.debounce_ms, hook.on_unknown),
            (None, Some(bot)) => (bot.queue, bot.queue_limit, bot.debounce_ms, bot.on_unknown),
            (None, None) if id.as_str() == "cli" => own(&settings.channels.cli),
            (None, None) => own(&settings.channels.ws),
        };
    Rules { queue, queue_limit, debounce: Duration::from_millis(debounce_ms), on_unknown }
}

/// Who is let in; none where callers have tokens.
pub(super) fn door(
    settings: &Settings,
    id: &ChannelId,
    store: &StoreClient,
    world: &World,
) -> Option<Arc<Door>> {
    let (allowed, pairs) = match (webhook(settings, id), telegram(settings, id)) {
        (Some(hook), _) => (&hook.allowed_users, hook.pairing),
        (None, Some(bot)) => (&bot.allowed_users, bot.pairing),
        (None, None) => return None,
    };
    Some(Door::new(id.clone(), allowed.clone(), pairs, store.clone(), world.clone()))
}

pub(super) fn sender_address(cells: &Cells, id: &ChannelId) -> Option<Address<SenderMsg>> {
    cells.senders.get(id).map(|cell| Address::new(Arc::clone(cell)))
}

pub(super) fn facts(settings: &Settings, id: &ChannelId, cells: &Cells) -> ChannelFacts {
    let (webhook, telegram) = (webhook(settings, id), telegram(settings, id));
    ChannelFacts {
        posts_replies: telegram.is_some()
            || webhook.is_some_and(|webhook| webhook.reply_url.is_some()),
        // Somebody sits at a terminal, a web page or a chat; a webhook only posts.
        can_ask: webhook.is_none(),
        approvers: match id.as_str() {
            "ws" => settings.channels.ws.approvers.clone(),
            "cli" => settings.channels.cli.approvers.clone(),
            _ => telegram
                .and_then(|bot| bot.approvers.clone())
                .or_else(|| webhook.and_then(|webhook| webhook.approvers.clone())),
        },
        sender: sender_address(cells, id),
    }
}

/// Where an agent's approvals are asked, from the word in its section. The configuration was checked.
pub(super) fn asked_at(settings: &Settings, word: &str) -> Result<AskedAt, String> {
    let Some(route) = ChatRoute::parse(word) else { return Ok(AskedAt::new(word)) };
    let id = channel_id(route.alias);
    let address = address(&id, route.chat.unwrap_or_default())?;
    let approvers = route.approvers(settings).unwrap_or_default();
    Ok(AskedAt::Chat(AskedChat { address, approvers }))
}

pub(super) fn adapter(
    settings: &Settings,
    id: &ChannelId,
    world: &World,
) -> Result<Arc<dyn ChannelAdapter>, String> {
    if let Some(bot) = telegram(settings, id) {
        let menu = MENU.map(|(name, description)| BotCommand { name, description });
        return Ok(Arc::new(TelegramAdapter::new(id.clone(), bot, &menu)?));
    }
    match webhook(settings, id).and_then(|webhook| Some((webhook, webhook.reply_url.as_deref()?))) {
        Some((webhook, url)) => {
            let secret = webhook.secret.clone();
            Ok(Arc::new(WebhookAdapter::new(id.clone(), url, secret, world.clone())?))
        }
        None if matches!(id.as_str(), "ws" | "cli") => Ok(Arc::new(PullAdapter::live(id.clone()))),
        None => Ok(Arc::new(PullAdapter::new(id.clone()))),
    }
}

/// What a receiver is wired to.
pub(super) struct Ear<'a> {
    pub(super) adapter: Arc<dyn ChannelAdapter>,
    pub(super) intake: Option<&'a Arc<AddressCell<IntakeMsg>>>,
    pub(super) prompts: Arc<Prompts>,
    pub(super) desk: Arc<Desk>,
    pub(super) door: Option<Arc<Door>>,
    pub(super) sender: Option<Address<SenderMsg>>,
    pub(super) store: StoreClient,
    pub(super) router: Address<RouterMsg>,
    pub(super) redactor: Arc<Redactor>,
    pub(super) observer: ObserverHandle,
    pub(super) statuses: &'a mut Receivers,
}

/// Whoever listens to the platform; none where messages come by the gateway.
pub(super) fn receiver(
    settings: &Settings,
    id: &ChannelId,
    owner: Option<&AgentName>,
    ear: Ear<'_>,
) -> Option<ReceiverArgs> {
    let bot = telegram(settings, id)?;
    let agent = owner?.clone();
    let workspace = super::plan::workspace(agent.as_str(), settings.agents.get(agent.as_str())?);
    let status: Arc<ReceiverStatus> = Arc::default();
    ear.statuses.insert(id.clone(), Arc::clone(&status));
    Some(ReceiverArgs {
        adapter: ear.adapter,
        admit: ear.door?,
        commands: Some(ear.desk),
        bots: BotRules { allow: bot.allow_bots, chain: bot.bot_chain_limit },
        intake: IntakeHandle { address: Address::new(Arc::clone(ear.intake?)), agent },
        workspace,
        grant_for: Duration::from_secs(settings.approvals.grant_secs),
        prompts: ear.prompts,
        sender: ear.sender,
        store: ear.store,
        router: ear.router,
        redactor: ear.redactor,
        observer: ear.observer,
        status,
    })
}
