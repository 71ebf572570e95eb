//! Who is asked while a conversation shows images.

use rookery_messages::attachment::{Attachment, ImageFormat};
use rookery_messages::settings::{ProviderKind, ProviderSettings};

use super::*;

const PNG: &[u8] = b"\x89PNG\r\n\x1a\n and more";

fn eyes() -> Sight {
    let settings = ProviderSettings::new(ProviderKind::Openai, "m");
    Sight::of(&ProviderSettings { vision: Some(true), ..settings })
}

impl Rig {
    /// Another provider, with a script of its own.
    async fn provider(&mut self, name: &str, tool_mode: ToolMode) -> (Arc<Scripted>, ProfileRef) {
        let provider = Arc::new(Scripted::default());
        let args = ProviderArgs {
            name: name.to_owned(),
            provider: provider.clone(),
            max_concurrency: 4,
            requests_per_minute: None,
            max_retry_after: Duration::from_secs(300),
            ceiling: Arc::default(),
        };
        let spec = SpawnSpec::new(format!("provider-{name}"));
        let address = self.spawner.spawn::<ProviderActor>(spec, args).await.unwrap().address;
        let stop = address.clone();
        self.roots.push(Box::new(move || stop.stop(StopReason::Shutdown)));
        let sight = eyes();
        let name = name.to_owned();
        (
            provider,
            ProfileRef {
                name,
                address,
                max_attempts: 1,
                tool_mode,
                sight,
                ceiling: Arc::default(),
            },
        )
    }

    /// A message with so many pictures, which are there.
    async fn show(&self, id: &str, pictures: usize) -> (TurnId, Following) {
        let mut accept = self.message("home", id, "ws");
        let workspace = self.deps.agents[&AgentName::new("home")].gate.workspace().to_path_buf();
        for n in 0..pictures {
            let path = format!("{id}-{n}.png");
            std::fs::write(workspace.join(&path), PNG).unwrap();
            accept.inbound.attachments.push(Attachment {
                name: "picture".into(),
                path,
                media_type: ImageFormat::Png.media_type().into(),
                size: PNG.len() as u64,
            });
        }
        self.put(accept).await
    }

    /// Runs the next row with the agent as `change` makes it.
    async fn run_seeing(&self, change: impl FnOnce(&mut AgentBundle)) {
        let mut bundle = AgentBundle::clone(&self.deps.agents[&AgentName::new("home")]);
        change(&mut bundle);
        self.run_with(self.claim().await, Arc::new(bundle)).await;
        self.until(|directory| directory.of_kind("turn").is_empty()).await;
    }
}

fn offered(provider: &Scripted) -> Vec<(usize, usize)> {
    let requests = provider.requests.lock();
    requests.iter().map(|request| (request.images.len(), request.tools.len())).collect()
}

// R16, V-D23
#[tokio::test]
async fn while_there_are_images_one_that_sees_is_asked_and_tools_are_offered_its_way() {
    for (own, seeing) in [(ToolMode::Native, ToolMode::Text), (ToolMode::Text, ToolMode::Native)] {
        let mut rig = Rig::plain().await;
        rig.without_router().await;
        let (other, profile) = rig.provider("eyes", seeing).await;
        let route = |bundle: &mut AgentBundle| {
            let first = ProfileRef { tool_mode: own, ..bundle.chain[0].clone() };
            bundle.chain = Arc::new([first]);
            bundle.vision = Arc::new([profile.clone()]);
        };
        let (_, mut events) = rig.take("m1", "ws").await;
        rig.run_seeing(route).await;
        assert_eq!(events.end().await.0, Outcome::Answered);
        assert_eq!((offered(&rig.provider).len(), offered(&other).len()), (1, 0));
        let (_, mut events) = rig.show("m2", 2).await;
        rig.run_seeing(route).await;
        assert_eq!(events.end().await.0, Outcome::Answered);
        assert_eq!(offered(&rig.provider).len(), 1);
        let [(images, tools)] = offered(&other)[..] else { panic!("one request") };
        assert_eq!((images, tools > 0), (2, seeing == ToolMode::Native));
        let prompt = other.requests.lock()[0].messages[0].text().to_owned();
        assert_eq!(prompt.contains(text::TEXT_CALLS), seeing == ToolMode::Text);
        rig.quiet().await;
    }
}

// R16
#[tokio::test]
async fn if_nobody_who_sees_answers_the_agents_own_model_reads_where_the_images_are() {
    let mut rig = Rig::plain().await;
    rig.without_router().await;
    let (other, profile) = rig.provider("eyes", ToolMode::Native).await;
    let refused = ModelError::new(ModelErrorClass::Auth, "the key is refused");
    other.replies.lock().push_back(Err(refused));
    rig.script([says("I can't see it")]);
    let (_, mut events) = rig.show("m1", 1).await;
    rig.run_seeing(|bundle| bundle.vision = Arc::new([profile])).await;
    assert_eq!(events.end().await, (Outcome::Answered, Some("I can't see it".into())));
    assert_eq!((offered(&other)[0].0, offered(&rig.provider)[0].0), (1, 0));
    let told = rig.provider.requests.lock()[0].messages.last().unwrap().text().to_owned();
    assert_eq!(told, "message m1");
    rig.quiet().await;
}

// V-D24
#[tokio::test]
async fn with_strict_parsing_no_route_leads_to_one_that_knows_tools_as_text_only() {
    let runtime = RuntimeProfile { strict_tool_parsing: true, ..RuntimeProfile::default() };
    let mut rig = Rig::new(RiskProfile::default(), runtime).await;
    rig.without_router().await;
    let (other, profile) = rig.provider("eyes", ToolMode::Text).await;
    let (turn, mut events) = rig.show("m1", 1).await;
    rig.run_seeing(|bundle| bundle.vision = Arc::new([profile])).await;
    assert_eq!(events.end().await.0, Outcome::Failed);
    assert_eq!(rig.record(turn).await.error.unwrap().code, "provider_capability");
    assert_eq!((offered(&other).len(), offered(&rig.provider).len()), (0, 0));
    rig.quiet().await;
}

// V-C7
#[tokio::test]
async fn a_request_that_is_too_long_is_sent_again_with_fewer_images() {
    let rig = Rig::plain().await;
    rig.without_router().await;
    let too_long = ModelError::new(ModelErrorClass::ContextTooLong, "maximum context length");
    rig.script([Err(too_long), says("now it fits")]);
    let (_, mut events) = rig.show("m1", 20).await;
    rig.run_seeing(|bundle| {
        bundle.chain = Arc::new([ProfileRef { sight: eyes(), ..bundle.chain[0].clone() }]);
    })
    .await;
    assert_eq!(events.end().await, (Outcome::Answered, Some("now it fits".into())));
    let shown: Vec<usize> = offered(&rig.provider).into_iter().map(|(images, _)| images).collect();
    assert_eq!(shown.len(), 2);
    assert!(shown[0] == 16 && (1..=16 * 2 / 3).contains(&shown[1]), "{shown:?}");
    // Those that came last are shown; of the others it is said that they are not.
    let last = rig.provider.requests.lock()[1].clone();
    assert!(last.images.contains_key("m1-19.png"));
    let told = last.messages.last().unwrap().text();
    assert!(told.contains("[the image m1-0.png is not shown: only the newest"), "{told}");
    rig.quiet().await;
}
