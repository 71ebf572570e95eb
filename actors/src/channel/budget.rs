//! How fast a channel may send: one budget a chat, shared by messages, drafts and prompts.
//!
//! What is final goes first: while a final waits, a draft gets nothing. When the platform says to come
//! back later, nothing at all is sent to that chat before then (A054).

use std::collections::HashMap;
use std::time::Duration;

use parking_lot::Mutex;
use rookery_messages::channel::{SendAttempt, SendBudget};
use tokio::time::{Instant, sleep_until};

/// Longest wait within a send; a longer one is the outbox's to keep.
const PATIENCE: Duration = Duration::from_secs(5);
/// Longest time a platform is obeyed.
const LONGEST_BLOCK: Duration = Duration::from_secs(3_600);
/// Chats remembered before those at rest are forgotten.
const KEEP: usize = 4_096;

struct Chat {
    /// Not before, to keep the pace.
    next: Instant,
    /// Not before, because the platform said so.
    blocked: Instant,
    finals: usize,
}

/// The budgets of one channel's chats.
#[derive(Default)]
pub struct Budgets {
    chats: Mutex<HashMap<String, Chat>>,
}

impl Budgets {
    fn with<T>(&self, key: &str, act: impl FnOnce(&mut Chat, Instant) -> T) -> T {
        let now = Instant::now();
        let mut chats = self.chats.lock();
        if chats.len() >= KEEP && !chats.contains_key(key) {
            chats.retain(|_, chat| chat.finals > 0 || chat.next > now || chat.blocked > now);
        }
        let chat =
            chats.entry(key.to_owned()).or_insert(Chat { next: now, blocked: now, finals: 0 });
        act(chat, now)
    }

    /// Waits for a place for something final. An error says how long the platform wants nothing.
    pub async fn take(&self, budget: &SendBudget) -> Result<(), Duration> {
        let _waits = Waits::new(self, &budget.key);
        loop {
            let wait = self.with(&budget.key, |chat, now| {
                let blocked = chat.blocked.saturating_duration_since(now);
                if blocked > PATIENCE {
                    return Err(blocked);
                }
                let at = chat.next.max(chat.blocked);
                if at <= now {
                    chat.next = now + budget.gap;
                    return Ok(None);
                }
                Ok(Some(at))
            })?;
            match wait {
                None => return Ok(()),
                Some(at) => sleep_until(at).await,
            }
        }
    }

    /// A place for what may wait. An error says when to ask again.
    pub fn try_take(&self, budget: &SendBudget) -> Result<(), Instant> {
        self.with(&budget.key, |chat, now| {
            let at = chat.next.max(chat.blocked);
            if chat.finals > 0 {
                return Err(at.max(now + budget.gap.max(Duration::from_millis(50))));
            }
            if at > now {
                return Err(at);
            }
            chat.next = now + budget.gap;
            Ok(())
        })
    }

    /// What the platform said to a send.
    pub fn note(&self, budget: &SendBudget, attempt: &SendAttempt) {
        if let SendAttempt::Failed { retry_after: Some(after), .. } = attempt {
            let after = (*after).min(LONGEST_BLOCK);
            self.with(&budget.key, |chat, now| chat.blocked = chat.blocked.max(now + after));
        }
    }

    /// Whether the platform wants nothing in this chat now.
    pub fn is_blocked(&self, key: &str) -> bool {
        self.with(key, |chat, now| chat.blocked > now)
    }
}

/// A final that waits, for as long as it does.
struct Waits<'a> {
    budgets: &'a Budgets,
    key: &'a str,
}

impl<'a> Waits<'a> {
    fn new(budgets: &'a Budgets, key: &'a str) -> Self {
        budgets.with(key, |chat, _| chat.finals += 1);
        Self { budgets, key }
    }
}

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        self.budgets.with(self.key, |chat, _| chat.finals = chat.finals.saturating_sub(1));
    }
}

#[cfg(test)]
mod tests {
    use futures_util::poll;

    use super::*;

    fn chat(key: &str) -> SendBudget {
        SendBudget { key: key.to_owned(), gap: Duration::from_secs(1) }
    }

    fn told_to_wait(secs: u64) -> SendAttempt {
        let retry_after = Some(Duration::from_secs(secs));
        SendAttempt::Failed { cause: "slow down".into(), retry_after }
    }

    // A054
    #[tokio::test(start_paused = true)]
    async fn a_final_goes_before_drafts_and_each_chat_has_its_own_pace() {
        let budgets = Budgets::default();
        let (a, b) = (chat("a"), chat("b"));
        assert_eq!(budgets.try_take(&a), Ok(()));
        let again = budgets.try_take(&a).unwrap_err();
        assert_eq!(again, Instant::now() + Duration::from_secs(1));
        assert_eq!(budgets.try_take(&b), Ok(()));
        let mut take = Box::pin(budgets.take(&a));
        assert!(poll!(&mut take).is_pending());
        tokio::time::advance(Duration::from_millis(999)).await;
        assert!(poll!(&mut take).is_pending());
        tokio::time::advance(Duration::from_millis(2)).await;
        // Time has come, and the draft asks first: the final gets it all the same.
        assert!(budgets.try_take(&a).is_err());
        assert_eq!(take.await, Ok(()));
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(budgets.try_take(&a), Ok(()));
    }

    // A054
    #[tokio::test(start_paused = true)]
    async fn what_the_platform_asks_for_is_kept_for_that_chat_alone() {
        let budgets = Budgets::default();
        let (a, b) = (chat("a"), chat("b"));
        budgets.note(&a, &told_to_wait(33));
        assert!(budgets.is_blocked("a") && !budgets.is_blocked("b"));
        assert_eq!(budgets.take(&a).await, Err(Duration::from_secs(33)));
        assert_eq!(budgets.take(&b).await, Ok(()));
        tokio::time::advance(Duration::from_secs(30)).await;
        assert!(budgets.try_take(&a).is_err());
        let before = Instant::now();
        assert_eq!(budgets.take(&a).await, Ok(()));
        assert_eq!(before.elapsed().as_secs(), 3);
        budgets.note(&a, &told_to_wait(1_000_000));
        assert_eq!(budgets.take(&a).await, Err(LONGEST_BLOCK));
    }

    // I10
    #[tokio::test(start_paused = true)]
    async fn chats_at_rest_are_forgotten() {
        let budgets = Budgets::default();
        for n in 0..KEEP + 10 {
            budgets.try_take(&SendBudget { key: n.to_string(), gap: Duration::ZERO }).unwrap();
            tokio::time::advance(Duration::from_millis(1)).await;
        }
        assert!(budgets.chats.lock().len() <= KEEP);
    }
}
