//! Unplanned ends become an observation and a row of the crash log.

use std::sync::Arc;

use rookery_messages::exit::ExitReason;
use rookery_messages::observe::Observation;
use rookery_messages::store::CrashRow;
use rookery_messages::tool::head;

use super::handle::ObserverHandle;
use crate::runtime::{ExitHook, ExitRecord};

/// Most bytes of a cause that are kept.
const CAUSE: usize = 2_000;

/// The directory's exit hook: whoever failed, panicked, did not start or was killed is observed and
/// given to `store_crash`, which must not block. Planned ends are neither.
pub fn exit_hook(
    observer: ObserverHandle,
    store_crash: impl Fn(CrashRow) + Send + Sync + 'static,
) -> ExitHook {
    Arc::new(move |record: &ExitRecord| {
        if !record.reason.is_abnormal() {
            return;
        }
        store_crash(crash_row(record));
        observer.observe(Observation::ActorExit {
            kind: record.kind,
            path: record.path.clone(),
            reason: record.reason.clone(),
            in_hand: record.in_hand,
        });
    })
}

/// Rows of the same kind, cause and location are counted together, so the cause leaves the place out.
fn crash_row(record: &ExitRecord) -> CrashRow {
    let (cause, location) = match &record.reason {
        ExitReason::Panicked { message, location } => {
            (format!("panicked: {message}"), Some(location.clone()).filter(|l| !l.is_empty()))
        }
        _ => (record.text(), None),
    };
    CrashRow {
        id: 0,
        kind: record.kind.to_owned(),
        path: record.path.clone(),
        cause: head(&cause, CAUSE).to_owned(),
        location,
        at: record.at,
        count: 1,
        message_in_hand: record.in_hand.map(str::to_owned),
    }
}
