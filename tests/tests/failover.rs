//! What happens when a provider can't, between profiles and over time: retries, fallbacks, cooldowns, what
//! people are told.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails at the place of the fault"
)]

use std::time::Duration;

use rookery_tests::service::Env;
use rookery_tests::wait::until;
use rookery_tests::{Config, MockModel, Reply, World, program};
use tokio::time::Instant;

/// A service whose `main` falls back to `spare`, which is another mock.
async fn with_spare(lines: &[&str]) -> (World, MockModel) {
    let spare = MockModel::start().await;
    let mut config = Config::new().provider("fallback = [\"spare\"]").extra(&format!(
        "[providers.spare]\nkind = \"openai\"\nmodel = \"spare\"\nmax_attempts = 2\nbase_url = \"{}\"",
        spare.base_url()
    ));
    for line in lines {
        config = config.provider(line);
    }
    (World::start(program!(), config).await, spare)
}

// V-L2, V-L4, V-L12
#[tokio::test]
async fn what_cannot_get_better_is_not_tried_again_and_the_next_profile_answers() {
    let (world, spare) = with_spare(&[]).await;
    for (word, status, message) in [
        ("unauthorized", 401, "no such key"),
        ("forbidden", 403, "not for you"),
        ("missing", 404, "no such model"),
        ("payment", 429, "You exceeded your current quota, please check your plan"),
    ] {
        world.model.script(word, [Reply::error(status, message)]);
        spare.script(word, [Reply::text("from the spare")]);
        let turn = world.api.say(word, word).await;
        assert_eq!(
            (turn.text(), world.model.requests_for(word).len()),
            ("from the spare", 1),
            "{word}"
        );
    }
    // The next answer is the first profile's again.
    world.model.script("fine", [Reply::text("from the main")]);
    assert_eq!(world.api.say("fine", "fine").await.text(), "from the main");
    world.finish().await;
}

// V-L1, V-E13, V-L13
#[tokio::test]
async fn a_passing_fault_before_any_text_is_tried_again_at_the_same_profile() {
    let world = World::start(program!(), Config::new()).await;
    world.model.script(
        "flaky",
        [Reply::error(500, "oops"), Reply::stream().cut(), Reply::text("there it is")],
    );
    let begun = Instant::now();
    let turn = world.api.say("a", "flaky").await;
    assert_eq!((turn.text(), world.model.requests_for("flaky").len()), ("there it is", 3));
    // Half of 250 ms and of 500 ms are waited at least.
    assert!(begun.elapsed() >= Duration::from_millis(375), "{:?}", begun.elapsed());
    // With one candidate alone its own words stay.
    world.model.script("down", (0..4).map(|_| Reply::error(500, "the kiln is cold")));
    let turn = world.api.say("b", "down").await;
    assert_eq!((turn.result(), turn.fault()), ("failed", "provider_server"));
    assert!(turn.error.unwrap().message.contains("the kiln is cold"));
    assert_eq!(world.model.requests_for("down").len(), 4);
    world.finish().await;
}

// A044, A045, V-L5, V-L11
#[tokio::test]
async fn a_profile_that_cools_down_is_skipped_until_it_has_cooled() {
    let (world, spare) = with_spare(&[]).await;
    world.model.script("first", [Reply::error(429, "slow down").header("retry-after", "2")]);
    for word in ["first", "second", "third"] {
        spare.rule(word, |_| Reply::text("from the spare"));
    }
    let begun = Instant::now();
    let mut ws = world.api.ws("watched").await;
    ws.say("w1", "first").await;
    let told = ws.until("ended").await;
    let notices: Vec<&str> = told
        .iter()
        .filter(|frame| frame["type"] == "notice")
        .map(|frame| frame["text"].as_str().unwrap())
        .collect();
    assert_eq!(notices, ["answered by provider spare (main: provider_rate_limited)"]);
    for word in ["second", "third"] {
        assert_eq!(world.api.say(word, word).await.text(), "from the spare");
    }
    assert!(begun.elapsed() < Duration::from_secs(2), "nobody waits while another can answer");
    assert_eq!(world.model.count(), 1, "being skipped is no call");
    world.model.rule("fourth", |_| Reply::text("from the main"));
    spare.rule("fourth", |_| Reply::text("from the spare"));
    until("the main profile serves again", || async {
        let turn = world.api.say("fourth", "fourth").await;
        if turn.text() == "from the main" { Ok(()) } else { Err(turn.text().to_owned()) }
    })
    .await;
    assert!(begun.elapsed() >= Duration::from_secs(2), "{:?}", begun.elapsed());
    world.finish().await;
}

// V-L6, A046
#[tokio::test]
async fn where_there_is_no_other_profile_people_hear_until_when_is_waited() {
    let world = World::start(program!(), Config::new()).await;
    world.model.script(
        "busy",
        [Reply::error(429, "slow down").header("retry-after", "4"), Reply::text("at last")],
    );
    let begun = Instant::now();
    let mut ws = world.api.ws("watched").await;
    ws.say("w1", "busy").await;
    let told = ws.until("ended").await;
    assert!(begun.elapsed() >= Duration::from_secs(4), "{:?}", begun.elapsed());
    let notice = told.iter().find(|frame| frame["type"] == "notice").unwrap();
    let text = notice["text"].as_str().unwrap();
    assert!(text.starts_with("waiting for provider main until 20"), "{text}");
    assert_eq!(told.last().unwrap()["reply"], "at last");
    world.finish().await;
}

// V-L7, V-L9, A050
#[tokio::test]
async fn when_nobody_can_answer_the_error_names_all_and_quotes_none() {
    let (world, spare) = with_spare(&["max_attempts = 3"]).await;
    let secret = "sk-test-0123456789abcdef";
    world.model.script("hopeless", (0..3).map(|_| Reply::stream().finish("stop").done()));
    spare.script("hopeless", [Reply::error(401, &format!("bad key {secret}"))]);
    let turn = world.api.say("a", "hopeless").await;
    assert_eq!((turn.result(), turn.fault()), ("failed", "provider_auth"));
    let message = turn.error.unwrap().message;
    assert_eq!(
        message,
        "no provider could answer (main: provider_empty, spare: provider_auth); see the log for what they said"
    );
    // Tries of one don't multiply with those of the other.
    assert_eq!((world.model.count(), spare.count()), (3, 1));
    // The next message starts clean.
    world.model.script("again", [Reply::text("fine")]);
    assert_eq!(world.api.say("a", "again").await.text(), "fine");
    world.finish().await;
}

// V-L25
#[tokio::test]
async fn a_model_that_takes_no_reasoning_with_tools_is_asked_once_more_without() {
    let config = Config::new().provider("reasoning_effort = \"high\"");
    let world = World::start(program!(), config).await;
    let refusal = "Function tools with reasoning_effort are not supported for this model";
    world.model.script("think", [Reply::error(400, refusal), Reply::text("thoughtless")]);
    assert_eq!(world.api.say("a", "think").await.text(), "thoughtless");
    let efforts: Vec<_> = world
        .model
        .requests_for("think")
        .iter()
        .map(|body| body["reasoning_effort"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(efforts, ["high", "none"]);
    // The second refusal is the last word.
    world.model.script("more", [Reply::error(400, refusal), Reply::text("never")]);
    let turn = world.api.say("a", "more").await;
    assert_eq!(
        (turn.fault(), world.model.requests_for("more").len()),
        ("provider_invalid_request", 1)
    );
    world.finish().await;
}

// A052
#[tokio::test]
async fn an_output_cap_that_is_too_large_is_made_smaller_once() {
    let config = Config::new().provider("max_output_tokens = 2669");
    let world = World::start(program!(), config).await;
    let refusal = "This model's maximum context length is 32768 tokens. However, you requested 32769 tokens \
                   (30100 in the messages, 2669 in the completion). Please reduce the length.";
    world.model.script("long", [Reply::error(400, refusal), Reply::text("it fits")]);
    assert_eq!(world.api.say("a", "long").await.text(), "it fits");
    let caps: Vec<_> =
        world.model.requests_for("long").iter().map(|body| body["max_tokens"].clone()).collect();
    assert_eq!(caps, [2_669, 2_604]);
    world.finish().await;
}

// R17
#[tokio::test]
async fn every_protocol_goes_through_the_proxy_of_the_environment() {
    for kind in ["openai", "openai_responses", "anthropic", "gemini", "ollama"] {
        // The mock stands for the proxy: it is asked for an address that does not exist.
        let proxy = MockModel::start().await;
        let env = Env::from([
            ("http_proxy".to_owned(), proxy.base_url().replace("/v1", "")),
            ("no_proxy".to_owned(), "127.0.0.1".to_owned()),
        ]);
        let config = Config::new()
            .provider(&format!("kind = \"{kind}\""))
            .provider("base_url = \"http://model.invalid/v1\"")
            .provider("max_attempts = 1");
        let world = World::start_with(program!(), config, env).await;
        let turn = world.api.say("a", "hello").await;
        // Only one path is known there; what counts is who was asked.
        let want = if kind == "openai" { "answered" } else { "failed" };
        assert_eq!(turn.result(), want, "{kind}: {turn:?}");
        if kind != "openai" {
            assert_eq!(turn.fault(), "provider_invalid_request", "{kind}: {turn:?}");
        }
        world.finish().await;
    }
}

// V-C7, V-L11
#[tokio::test]
async fn what_one_profile_was_found_not_to_take_goes_to_the_next_at_once_and_whole() {
    let (world, spare) = with_spare(&[]).await;
    let long = |name: &str| format!("{name} {}", "lorem ipsum ".repeat(400));
    world.model.script("alpha", [Reply::error(400, "This model's maximum context length is 900")]);
    spare.script("alpha", [Reply::text("read")]);
    assert_eq!(world.api.say("c", &long("alpha")).await.text(), "read");
    spare.script("beta", [Reply::text("read too")]);
    assert_eq!(world.api.say("c", &long("beta")).await.text(), "read too");
    assert!(world.model.requests_for("beta").is_empty());
    assert!(spare.requests_for("beta")[0].to_string().contains("alpha"), "nothing is left out");
    // What is short is the first profile's again.
    assert_eq!(world.api.say("d", "short").await.text(), "you said: short");
    assert_eq!(world.model.requests_for("short").len(), 1);
    world.finish().await;
}
