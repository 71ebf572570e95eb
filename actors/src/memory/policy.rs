//! Which entries a turn is told unasked, by where it comes from (R5).

use rookery_messages::envelope::TurnOrigin;
use rookery_messages::ids::{AgentName, ConversationId};
use rookery_messages::memory::{Category, MemoryFilter, MemoryScope};

/// What a turn is told unasked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Injection {
    /// Nothing.
    Skip,
    /// What is remembered, but nothing of the conversation category.
    WithoutConversation,
    /// What is remembered.
    Everything,
}

/// What a turn of this origin is told. `session`: its conversation, if it has one; `suppressed`: whoever
/// began it wants no memory in it.
pub fn injection(
    origin: TurnOrigin,
    session: Option<ConversationId>,
    suppressed: bool,
) -> Injection {
    if suppressed {
        return Injection::Skip;
    }
    match origin {
        TurnOrigin::SubTurn => Injection::Skip,
        TurnOrigin::Cron | TurnOrigin::Daemon => Injection::WithoutConversation,
        TurnOrigin::Channel | TurnOrigin::Interactive | TurnOrigin::Direct => match session {
            Some(_) => Injection::Everything,
            None => Injection::WithoutConversation,
        },
    }
}

impl Injection {
    /// The entries of `agent` that may be told; none if nothing is.
    pub fn filter(self, agent: AgentName, session: Option<ConversationId>) -> Option<MemoryFilter> {
        let without = match self {
            Self::Skip => return None,
            Self::WithoutConversation => vec![Category::Conversation],
            Self::Everything => Vec::new(),
        };
        let filter = match session {
            Some(conversation) => MemoryFilter::of_turn(agent, conversation),
            None => MemoryFilter {
                scopes: Some(vec![MemoryScope::Agent]),
                ..MemoryFilter::of_turn(agent, ConversationId(uuid::Uuid::nil()))
            },
        };
        Some(MemoryFilter { without, ..filter })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: Option<ConversationId> = Some(ConversationId(uuid::Uuid::max()));
    const USERS: [TurnOrigin; 3] =
        [TurnOrigin::Channel, TurnOrigin::Interactive, TurnOrigin::Direct];
    const SCHEDULED: [TurnOrigin; 2] = [TurnOrigin::Cron, TurnOrigin::Daemon];

    // V-B1, R5
    #[test]
    fn a_sub_turn_and_one_of_unknown_origin_are_told_nothing() {
        let unknown: TurnOrigin = serde_json::from_str("\"from_the_moon\"").unwrap();
        for origin in [TurnOrigin::SubTurn, unknown, TurnOrigin::default()] {
            for session in [HERE, None] {
                assert_eq!(injection(origin, session, false), Injection::Skip);
            }
        }
        assert_eq!(Injection::Skip.filter(AgentName::new("home"), HERE), None);
    }

    // V-B2, R5
    #[test]
    fn a_scheduled_turn_is_told_nothing_of_conversations() {
        for origin in SCHEDULED {
            for session in [HERE, None] {
                assert_eq!(injection(origin, session, false), Injection::WithoutConversation);
            }
        }
        let filter = Injection::WithoutConversation.filter(AgentName::new("home"), HERE).unwrap();
        assert_eq!(filter.without, [Category::Conversation]);
    }

    // V-B3, V-B4, R5
    #[test]
    fn a_persons_turn_is_told_of_conversations_if_it_has_one() {
        for origin in USERS {
            assert_eq!(injection(origin, HERE, false), Injection::Everything);
            assert_eq!(injection(origin, None, false), Injection::WithoutConversation);
        }
        let with = Injection::Everything.filter(AgentName::new("home"), HERE).unwrap();
        assert!(with.without.is_empty());
        assert_eq!(
            with.scopes,
            Some(vec![MemoryScope::Session(HERE.unwrap()), MemoryScope::Agent])
        );
        let without = Injection::WithoutConversation.filter(AgentName::new("home"), None).unwrap();
        assert_eq!(without.scopes, Some(vec![MemoryScope::Agent]));
    }

    // V-B5, R5
    #[test]
    fn whoever_begins_a_turn_may_want_no_memory_in_it() {
        for origin in USERS.into_iter().chain(SCHEDULED) {
            assert_eq!(injection(origin, HERE, true), Injection::Skip);
        }
    }
}
