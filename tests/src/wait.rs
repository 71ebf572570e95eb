//! Bounded waiting: every wait of the harness names what it waits for and ends.

use std::future::Future;
use std::time::Duration;

/// Longest wait for anything that should come soon. Generous: machines that run tests are busy.
pub const PATIENCE: Duration = Duration::from_secs(30);
/// How often something is looked at that can't tell by itself.
const LOOK: Duration = Duration::from_millis(20);

tokio::task_local! { static SHORTER: Duration; }

/// In `future` nothing is waited for longer than `limit`: for what is expected not to come.
pub async fn impatient<T>(limit: Duration, future: impl Future<Output = T>) -> T {
    SHORTER.scope(limit, future).await
}

fn patience() -> Duration {
    SHORTER.try_with(|limit| *limit).unwrap_or(PATIENCE)
}

/// The future's value, or the test fails saying what did not happen.
pub async fn within<T>(what: &str, future: impl Future<Output = T>) -> T {
    within_time(what, patience(), future).await
}

/// As [`within`], with a limit of its own.
pub async fn within_time<T>(what: &str, limit: Duration, future: impl Future<Output = T>) -> T {
    match tokio::time::timeout(limit, future).await {
        Ok(value) => value,
        Err(_) => panic!("waited {limit:?} in vain for this: {what}"),
    }
}

/// Looks again and again until there is a value; fails with the last complaint.
pub async fn until<T, F>(what: &str, mut look: impl FnMut() -> F) -> T
where
    F: Future<Output = Result<T, String>>,
{
    let patience = patience();
    let deadline = tokio::time::Instant::now() + patience;
    let mut beat = tokio::time::interval(LOOK);
    loop {
        beat.tick().await;
        let complaint = match tokio::time::timeout_at(deadline, look()).await {
            Ok(Ok(value)) => return value,
            Ok(Err(complaint)) => complaint,
            Err(_) => "the look itself did not end".to_owned(),
        };
        assert!(
            tokio::time::Instant::now() < deadline,
            "waited {patience:?} in vain for this: {what}; last seen: {complaint}"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    #[should_panic(expected = "in vain for this: the moon; last seen: no moon")]
    async fn a_wait_ends_and_says_what_was_missing() {
        until::<(), _>("the moon", || async { Err("no moon".to_owned()) }).await;
    }

    #[tokio::test(start_paused = true)]
    #[should_panic(expected = "waited 2s in vain for this: the moon")]
    async fn who_is_impatient_waits_no_longer_than_they_say() {
        let moon = until::<(), _>("the moon", || async { Err("no moon".to_owned()) });
        impatient(Duration::from_secs(2), moon).await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_wait_gives_the_value_as_soon_as_it_is_there() {
        let mut looks = 0;
        let seen = until("three looks", || {
            looks += 1;
            let seen = if looks == 3 { Ok(looks) } else { Err(format!("{looks}")) };
            async move { seen }
        })
        .await;
        assert_eq!(seen, 3);
    }
}
