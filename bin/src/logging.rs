//! Where logs go: JSON lines on standard error, or in a file while a terminal shows other things.

use std::borrow::Cow;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::panic::PanicHookInfo;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use parking_lot::RwLock;
use rookery_actors::policy::redact::Redactor;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;

use crate::config::Environment;
use crate::exit::Failure;

/// Where logs go.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Destination {
    /// Standard error.
    Stderr,
    /// Appended to this file, mode 0600.
    File(PathBuf),
}

impl Destination {
    /// The log file of a data folder.
    pub fn file_in(data_dir: &Path) -> Self {
        Self::File(data_dir.join("rookery.log"))
    }
}

/// What is taken out of every line: like the log itself, one for the process.
static SECRETS: RwLock<Option<Arc<Redactor>>> = RwLock::new(None);

/// From now on lines are written without these secrets (I12). Whoever logs a text of its own has cleaned
/// it; this is for the texts of panics and of libraries.
pub fn scrub_with(redactor: &Arc<Redactor>) {
    *SECRETS.write() = Some(Arc::clone(redactor));
}

fn scrub(text: &str) -> Cow<'_, str> {
    match SECRETS.read().as_ref() {
        Some(redactor) if redactor.holds_any(text) => Cow::Owned(redactor.scrub(text)),
        _ => Cow::Borrowed(text),
    }
}

/// Writes each line, which comes in one piece, without the secrets.
struct Scrubbed<W>(W);

impl<W: io::Write> io::Write for Scrubbed<W> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.0.write_all(scrub(&String::from_utf8_lossy(line)).as_bytes())?;
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

struct Scrubbing<M>(M);

impl<'a, M: MakeWriter<'a>> MakeWriter<'a> for Scrubbing<M> {
    type Writer = Scrubbed<M::Writer>;

    fn make_writer(&'a self) -> Self::Writer {
        Scrubbed(self.0.make_writer())
    }
}

/// Whatever a connection to an MCP server has to say, its actor says in a line of ours.
const USUAL_FILTER: &str = "info,ractor=warn,rmcp=off";

/// Starts logging and records panics; no line holds a secret. `RUST_LOG` filters; default `info`.
pub fn start(
    destination: &Destination,
    environment: &Environment,
    secrets: Redactor,
) -> Result<(), Failure> {
    scrub_with(&Arc::new(secrets));
    let filter = match environment.get("RUST_LOG") {
        Some(text) => EnvFilter::try_new(text).map_err(|error| {
            Failure::failed(format!(
                "RUST_LOG is not a filter: {error}; write it like `info` or `rookery=debug,info`"
            ))
        })?,
        // Every actor has a span in ractor; ours are named in the lines themselves, by turn and path.
        None => EnvFilter::new(USUAL_FILTER),
    };
    let builder = tracing_subscriber::fmt().json().flatten_event(true).with_env_filter(filter);
    let started = match destination {
        Destination::Stderr => builder.with_writer(Scrubbing(io::stderr)).try_init(),
        Destination::File(path) => {
            let file = open(path).map_err(|error| {
                Failure::failed(format!(
                    "can't write the log {}: {error}; make data_dir writable, or choose another",
                    path.display()
                ))
            })?;
            builder.with_writer(Scrubbing(Mutex::new(file))).try_init()
        }
    };
    started.map_err(|error| Failure::failed(format!("can't start logging: {error}")))?;
    std::panic::set_hook(Box::new(record_panic));
    Ok(())
}

/// Opens a log for appending. One left with wider rights is narrowed: logs hold what people wrote.
fn open(path: &Path) -> io::Result<File> {
    if let Some(folder) = path.parent() {
        make_private(folder)?;
    }
    let file = OpenOptions::new().append(true).create(true).mode(0o600).open(path)?;
    file.set_permissions(std::fs::Permissions::from_mode(0o600))?;
    Ok(file)
}

/// Makes the data folder if it isn't there. What is logged and stored in it is for the service's user alone.
pub fn make_private(folder: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

/// A panic with its place. The main thread's ends the program, so people are told as well.
fn record_panic(panic: &PanicHookInfo<'_>) {
    let message = panic.payload_as_str().unwrap_or("a panic without a text");
    let location = panic.location().map(ToString::to_string).unwrap_or_default();
    let thread = std::thread::current();
    tracing::error!(message, location, thread = thread.name(), "panic");
    if thread.name() == Some("main") {
        let message = crate::render::prose(&scrub(message));
        crate::output::to_stderr(&format!(
            "error: a fault of the program: {message} at {location}\n"
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // I12
    #[test]
    fn a_line_of_the_log_holds_no_secret_whoever_wrote_it() {
        #[derive(Clone, Default)]
        struct Lines(Arc<parking_lot::Mutex<Vec<u8>>>);
        impl io::Write for Lines {
            fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
                self.0.lock().write(bytes)
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let lines = Lines::default();
        let writer = lines.clone();
        let writer = Scrubbing(move || writer.clone());
        let subscriber = tracing_subscriber::fmt().json().with_writer(writer).finish();
        scrub_with(&Arc::new(Redactor::new(["a \"canary\" of the log"])));
        tracing::subscriber::with_default(subscriber, || {
            // What the hook does, without taking it from the other tests of this process.
            let panic = std::panic::catch_unwind(|| panic!("with a \"canary\" of the log in it"));
            let message = *panic.unwrap_err().downcast::<&str>().unwrap();
            tracing::error!(message, "panic");
            tracing::error!(error = ?Some("a \"canary\" of the log"), "other words");
        });
        let text = String::from_utf8(lines.0.lock().clone()).unwrap();
        assert_eq!(text.matches("[redacted]").count(), 2, "{text}");
        assert!(text.contains("other words") && !text.contains("canary"), "{text}");
    }

    #[test]
    fn a_log_is_appended_to_and_readable_by_its_owner_alone() {
        let dir = tempfile::tempdir().unwrap();
        let Destination::File(path) = Destination::file_in(&dir.path().join("new")) else {
            panic!("not a file");
        };
        std::fs::create_dir(dir.path().join("new")).unwrap();
        std::fs::write(&path, "before\n").unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
        io::Write::write_all(&mut open(&path).unwrap(), b"after\n").unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "before\nafter\n");
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }
}
