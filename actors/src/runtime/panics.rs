//! Panic text and location, kept from the hook until the catch on the same thread.

use std::any::Any;
use std::cell::RefCell;
use std::panic;
use std::sync::Once;

/// What a panic said, and where.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PanicReport {
    /// Its message.
    pub message: String,
    /// `file:line:column`; empty if the hook was not installed.
    pub location: String,
}

thread_local! {
    static LAST: RefCell<Option<PanicReport>> = const { RefCell::new(None) };
}

static INSTALL: Once = Once::new();

/// Installs the hook once per process; every spawn does so. It only remembers: the actor that
/// panicked is reported by its host, with its path and the message in hand.
pub fn install() {
    INSTALL.call_once(|| {
        let previous = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            let report = PanicReport {
                message: payload_text(info.payload()),
                location: info.location().map(ToString::to_string).unwrap_or_default(),
            };
            LAST.with(|last| *last.borrow_mut() = Some(report));
            if !rookery_messages::address::is_in_handler() {
                previous(info);
            }
        }));
    });
}

/// The report of a panic just caught on this thread.
pub(super) fn report(payload: &(dyn Any + Send)) -> PanicReport {
    LAST.with(|last| last.borrow_mut().take())
        .unwrap_or_else(|| PanicReport { message: payload_text(payload), location: String::new() })
}

fn payload_text(payload: &(dyn Any + Send)) -> String {
    payload
        .downcast_ref::<&'static str>()
        .map(|text| (*text).to_owned())
        .or_else(|| payload.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "a panic without text".to_owned())
}
