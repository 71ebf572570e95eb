//! The operators' acts on their way into the audit.

use std::sync::Arc;
use std::time::Duration;

use rookery_actors::memory;
use rookery_actors::observe::RecorderHandle;
use rookery_actors::policy::redact::Redactor;
use rookery_actors::store::StoreClient;
use rookery_messages::store::AuditRow;
use rookery_supervisors::admin;

/// How long an act waits for its row. What an operator ends may be what is stuck.
const ROW_LIMIT: Duration = Duration::from_secs(2);

/// Takes rows of acts. People give reasons in their own words: secrets are taken out.
#[derive(Clone)]
pub(super) struct Audit {
    recorder: RecorderHandle,
    store: StoreClient,
    redactor: Arc<Redactor>,
}

impl Audit {
    pub(super) fn new(
        recorder: RecorderHandle,
        store: StoreClient,
        redactor: Arc<Redactor>,
    ) -> Self {
        Self { recorder, store, redactor }
    }

    /// For acts on actors: the row is in the store before anything is done, for the act may end whoever
    /// would write it. Where the store can't write, the recorder tries further, and the log has it at last.
    pub(super) fn before_acts(&self) -> admin::AuditHook {
        let audit = self.clone();
        Arc::new(move |row| {
            let (audit, row) = (audit.clone(), audit.cleaned(row));
            Box::pin(async move {
                let writing = audit.store.audit(row.clone());
                match tokio::time::timeout(ROW_LIMIT, writing).await {
                    Ok(Ok(())) => {}
                    // Nothing was written: whoever comes later may.
                    Ok(Err(_)) => audit.recorder.audit(row),
                    Err(_) => tracing::warn!(
                        who = row.who,
                        action = row.action,
                        target_of = row.target,
                        "the store has not yet said that it has the row of an act"
                    ),
                }
            })
        })
    }

    /// For acts that end nobody.
    pub(super) fn rows(&self) -> memory::AuditHook {
        let audit = self.clone();
        Arc::new(move |row| audit.recorder.audit(audit.cleaned(row)))
    }

    fn cleaned(&self, mut row: AuditRow) -> AuditRow {
        row.detail = self.redactor.scrub_value(&row.detail);
        row
    }
}
