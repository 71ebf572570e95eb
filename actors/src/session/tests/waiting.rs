//! What becomes of messages that arrive while a turn runs, by policy.

use super::*;

fn steers(steering: Steering) -> Arrival {
    Arrival::Steers(Box::new(steering))
}

fn gathers(_: Steering) -> Arrival {
    Arrival::Gathers { quiet: Duration::from_secs(1), most: Duration::from_secs(5) }
}

fn waits(_: Steering) -> Arrival {
    Arrival::Waits
}

impl Rig {
    fn last_texts(&self) -> Vec<String> {
        let requests = self.provider.requests.lock();
        requests.last().unwrap().messages.iter().map(|m| m.text().to_owned()).collect()
    }

    /// A turn of Ann's that waits in a tool until it is let go.
    async fn busy(&mut self) -> (TurnId, Following) {
        self.script([asks(&[("read", json!({ "do": "wait" }))])]);
        let busy = self.arrives("ann", "m1", waits).await;
        self.began.recv().await.unwrap();
        busy
    }
}

// V-K11: and the message's own envelope has its end (I1)
#[tokio::test]
async fn a_steering_message_is_in_the_next_model_call_and_ends_as_merged() {
    let mut rig = Rig::plain().await;
    let (turn, mut events) = rig.busy().await;
    rig.script([says("both answered")]);
    let (steered, mut merged) = rig.arrives("ann", "m2", steers).await;
    rig.only("router").observe(Duration::from_secs(10)).await;
    rig.only("session").observe(Duration::from_secs(10)).await;
    rig.only("turn").observe(Duration::from_secs(10)).await;
    rig.gate.notify_one();
    assert_eq!(events.end().await, (Outcome::Answered, Some("both answered".into())));
    assert_eq!(merged.end().await.0, Outcome::Merged);
    assert_eq!(rig.record(steered).await.into, Some(turn));
    assert_eq!(rig.last_texts().last().unwrap(), "message m2");
    assert_eq!(rig.provider.requests.lock().len(), 2);
    rig.quiet().await;
}

// A009: without the policy, a message that waits changes nothing about the step in hand
#[tokio::test]
async fn a_message_that_waits_lets_the_other_calls_of_the_step_run_and_the_reply_out() {
    let mut rig = Rig::plain().await;
    let read = |what: &str| ("read", json!({ "do": what }));
    rig.script([asks(&[read("wait"), read("b"), read("c")]), says("one"), says("two")]);
    let (_, mut first) = rig.arrives("ann", "m1", waits).await;
    rig.began.recv().await.unwrap();
    let (_, mut second) = rig.arrives("ann", "m2", waits).await;
    rig.gate.notify_one();
    assert_eq!(first.end().await, (Outcome::Answered, Some("one".into())));
    assert_eq!(rig.runs.lock().len(), 3);
    assert_eq!(second.end().await, (Outcome::Answered, Some("two".into())));
    rig.quiet().await;
}

// I1: a steer is never lost
#[tokio::test]
async fn if_the_turn_ends_first_a_steering_message_becomes_the_next_turn() {
    let mut rig = Rig::plain().await;
    let (turn, mut events) = rig.busy().await;
    rig.script([says("its own answer")]);
    let (_, mut next) = rig.arrives("ann", "m2", steers).await;
    rig.only("session").observe(Duration::from_secs(10)).await;
    rig.stop(turn, StopReason::User);
    assert_eq!(events.end().await.0, Outcome::Cancelled);
    assert_eq!(next.end().await, (Outcome::Answered, Some("its own answer".into())));
    // And with nobody to steer it is a message like any other.
    rig.script([says("again")]);
    let (_, mut alone) = rig.arrives("ann", "m3", steers).await;
    assert_eq!(alone.end().await, (Outcome::Answered, Some("again".into())));
    rig.quiet().await;
}

#[tokio::test]
async fn somebody_elses_words_do_not_steer_a_turn() {
    let mut rig = Rig::plain().await;
    let (_, mut events) = rig.busy().await;
    rig.script([says("for ann"), says("for bob")]);
    let (_, mut bobs) = rig.arrives("bob", "m2", steers).await;
    rig.only("router").observe(Duration::from_secs(10)).await;
    rig.only("session").observe(Duration::from_secs(10)).await;
    rig.gate.notify_one();
    assert_eq!(events.end().await, (Outcome::Answered, Some("for ann".into())));
    assert_eq!(bobs.end().await, (Outcome::Answered, Some("for bob".into())));
    rig.quiet().await;
}

// A hint may come after its row was claimed
#[tokio::test]
async fn a_message_does_not_interrupt_its_own_turn() {
    let mut rig = Rig::plain().await;
    let (turn, mut events) = rig.busy().await;
    let conversation = rig.conversation;
    let arrival = Arrival::Interrupts(turn);
    rig.router.send(RouterMsg::Hint { conversation, arrival }).await.unwrap();
    rig.only("router").observe(Duration::from_secs(10)).await;
    rig.only("session").observe(Duration::from_secs(10)).await;
    rig.gate.notify_one();
    assert_eq!(events.end().await.0, Outcome::Answered);
    rig.script([asks(&[("read", json!({ "do": "hang" }))]), says("newer")]);
    let (_, mut older) = rig.arrives("ann", "m2", waits).await;
    rig.began.recv().await.unwrap();
    let interrupts = |steering: Steering| Arrival::Interrupts(steering.turn);
    let (_, mut newer) = rig.arrives("ann", "m3", interrupts).await;
    assert_eq!(older.end().await.0, Outcome::Cancelled);
    assert_eq!(newer.end().await, (Outcome::Answered, Some("newer".into())));
    rig.quiet().await;
}

// I1: every id has its end; the debounce is bounded
#[tokio::test(start_paused = true)]
async fn messages_in_quick_succession_are_answered_together() {
    let change = |setup: &mut Setup| setup.together = [ChannelId::new("ws")].into();
    let (profile, runtime) = (RiskProfile::default(), RuntimeProfile::default());
    let rig = Rig::in_world(system_world(), true, profile, runtime, change).await;
    // The sweep at the start would find the first row by itself.
    let router = rig.only("router");
    rig.until_slowly(|_| router.task_count() == 1).await;
    let began = tokio::time::Instant::now();
    let mut ends = Vec::new();
    for n in 0..8 {
        ends.push(rig.arrives("ann", &format!("m{n}"), gathers).await);
        tokio::time::sleep(Duration::from_millis(900)).await;
    }
    // Each came before the last one's time was over, and all in all they waited no longer than five.
    rig.until_slowly(|_| rig.provider.requests.lock().len() == 2).await;
    let (first, mut answered) = ends.remove(0);
    assert_eq!(answered.end().await.0, Outcome::Answered);
    let mut together = 1;
    for (row, end) in &mut ends {
        match end.end().await.0 {
            Outcome::Merged if rig.record(*row).await.into == Some(first) => together += 1,
            Outcome::Merged | Outcome::Answered => {}
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(together, 6, "five seconds are six messages");
    let requests = rig.provider.requests.lock().len();
    assert_eq!(requests, 2, "the rest go together too");
    assert!(began.elapsed() < Duration::from_secs(10));
    rig.quiet().await;
}

// A005
#[tokio::test]
async fn a_message_that_came_while_a_turn_hung_is_answered_after_its_visible_end() {
    let runtime = RuntimeProfile { progress_timeout_secs: 1, ..RuntimeProfile::default() };
    let rig = Rig::new(RiskProfile::default(), runtime).await;
    *rig.provider.hang_after.lock() = Some(1);
    rig.script([says("half an ans"), says("second")]);
    let (turn, mut first) = rig.arrives("ann", "m1", waits).await;
    first.until(|kind| matches!(kind, TurnEventKind::Delta { .. })).await;
    let (_, mut second) = rig.arrives("ann", "m2", waits).await;
    assert_eq!(first.end().await.0, Outcome::Failed);
    let error = rig.record(turn).await.error.unwrap();
    assert!(error.code == "deadline" && error.message.contains("no progress"), "{error:?}");
    assert_eq!(second.end().await, (Outcome::Answered, Some("second".into())));
    rig.quiet().await;
}

// A022: whenever a message comes around the end of a turn, it is taken up
#[tokio::test(start_paused = true)]
async fn a_message_at_any_moment_around_the_end_of_a_turn_is_answered() {
    let (profile, runtime) = (RiskProfile::default(), RuntimeProfile::default());
    let rig = Rig::in_world(system_world(), true, profile, runtime, |_| {}).await;
    for moment in 0..120 {
        let (_, mut first) = rig.arrives("ann", &format!("a{moment}"), waits).await;
        for _ in 0..moment {
            tokio::task::yield_now().await;
        }
        let (_, mut second) = rig.arrives("ann", &format!("b{moment}"), waits).await;
        let end = tokio::time::timeout(Duration::from_secs(5), async {
            (first.end().await.0, second.end().await.0)
        });
        // The sweep, after ten seconds, would hide a lost hint.
        let ends = end.await.unwrap_or_else(|_| panic!("stuck at moment {moment}"));
        assert_eq!(ends, (Outcome::Answered, Outcome::Answered));
    }
    rig.quiet().await;
}

// V-E5: nothing of the model's reasoning is in what people read
#[tokio::test]
async fn reasoning_goes_to_thinking_events_and_nowhere_else() {
    let rig = Rig::plain().await;
    let Ok(mut deltas) = says("Hi") else { unreachable!() };
    deltas.insert(0, Ok(ModelDelta::Thinking("I should greet".into())));
    rig.script([Ok(deltas)]);
    let (_, mut events) = rig.arrives("ann", "m1", waits).await;
    assert_eq!(events.end().await, (Outcome::Answered, Some("Hi".into())));
    let mut thought = String::new();
    let mut said = String::new();
    for event in &events.seen {
        match &event.kind {
            TurnEventKind::Thinking { text } => thought.push_str(text),
            TurnEventKind::Delta { text } => said.push_str(text),
            _ => {}
        }
    }
    assert_eq!((thought.as_str(), said.as_str()), ("I should greet", "Hi"));
    let history = rig.store.messages(ChannelId::new("ws"), "c1".into(), 10).await.unwrap().unwrap();
    assert!(history.iter().all(|m| !m.message.text().contains("greet")));
    rig.quiet().await;
}
