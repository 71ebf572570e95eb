//! Writing to standard output and error. A reader that went away is not a failure of ours.

use std::io::{self, Write};

use crate::exit::Failure;

/// To standard output, at once.
pub fn to_stdout(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure::failed(format!("can't write the output: {error}")))
        }
        _ => Ok(()),
    }
}

/// To standard error, at once. Where this fails there is no place left to say so.
pub fn to_stderr(text: &str) {
    let mut err = io::stderr().lock();
    let _ = err.write_all(text.as_bytes()).and_then(|()| err.flush());
}
