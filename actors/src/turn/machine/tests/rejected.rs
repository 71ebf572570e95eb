//! Replies with calls that can't be read.

use super::*;

fn rejected(iteration: u32, partial: &str) -> Input {
    let end = ModelEnd::Rejected {
        why: "its JSON can't be read".into(),
        partial: partial.into(),
        usage: Usage { input: 10, output: 5 },
    };
    Input::Model(ModelReport { iteration, spent: Usage::default(), end })
}

/// Steps, and lets every commit succeed; gives the commits and the model calls asked for.
fn settled(machine: &mut Machine, input: Input) -> (Vec<TurnCommit>, Vec<u32>) {
    let world = world();
    let (mut commits, mut models) = (Vec::new(), Vec::new());
    let mut inputs = std::collections::VecDeque::from([input]);
    while let Some(input) = inputs.pop_front() {
        for effect in machine.step(input, &world) {
            match effect {
                Effect::Commit { seq, commit, .. } => {
                    commits.push(*commit);
                    let ack = CommitAck::default();
                    inputs.push_back(Input::Committed { seq, result: Ok(ack) });
                }
                Effect::CallModel { iteration, .. } => models.push(iteration),
                _ => {}
            }
        }
    }
    (commits, models)
}

// V-F16, V-F17, V-F18
#[test]
fn unreadable_calls_are_complained_about_twice_in_any_life_of_the_turn_then_apologised_for() {
    let mut first = machine(RuntimeProfile { max_tool_iterations: 1, ..Default::default() });
    settled(&mut first, Input::Begin);
    let (commits, models) = settled(&mut first, rejected(1, "One moment."));
    assert_eq!(models, [2]);
    assert_eq!(commits[0].usage, Some(Usage { input: 10, output: 5 }));
    assert_eq!(commits[0].messages[0].message, ChatMessage::assistant("One moment."));
    let complaint = commits[0].messages[1].message.clone();
    assert!(complaint.text().starts_with(text::MALFORMED_CALL_PREFIX), "{complaint:?}");
    assert!(complaint.text().contains("Its JSON can't be read."), "{complaint:?}");
    // A later life finds the complaint in the history.
    let history = first.history().to_vec();
    let resume = Resume { history, usage: first.usage(), ..Resume::default() };
    let mut second = Machine::new(first.facts.clone(), resume);
    settled(&mut second, Input::Begin);
    assert_eq!(settled(&mut second, rejected(1, "")).1, [2]);
    let (commits, models) = settled(&mut second, rejected(2, ""));
    assert_eq!(models, [] as [u32; 0]);
    let finish = commits[0].finish.clone().unwrap();
    assert_eq!(finish.outcome, Outcome::Answered);
    assert_eq!(finish.reply.as_deref(), Some(text::MALFORMED_CALL_APOLOGY));
    assert_eq!(finish.usage, Usage { input: 30, output: 15 });
}

// V-F16, I6
#[test]
fn a_stop_that_meets_an_unreadable_call_ends_the_turn() {
    let mut machine = machine(RuntimeProfile::default());
    settled(&mut machine, Input::Begin);
    settled(&mut machine, Input::Stop(StopReason::User));
    let (commits, models) = settled(&mut machine, rejected(1, "One moment."));
    assert_eq!(models, [] as [u32; 0]);
    assert_eq!(commits[0].finish.clone().unwrap().outcome, Outcome::Cancelled);
}
