//! How the program ends: the contract with scripts.

use std::process::ExitCode;

/// The exit codes (DESIGN.md, section 7).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Exit {
    /// Done.
    Ok,
    /// It did not work.
    Failed,
    /// The command line was wrong.
    Usage,
    /// Refused by policy or for want of rights.
    Refused,
    /// Nobody answers.
    Unreachable,
    /// The service answers, but is not ready.
    NotReady,
}

impl Exit {
    /// The number.
    pub fn code(self) -> u8 {
        match self {
            Self::Ok => 0,
            Self::Failed => 1,
            Self::Usage => 2,
            Self::Refused => 3,
            Self::Unreachable => 4,
            Self::NotReady => 5,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        ExitCode::from(exit.code())
    }
}

/// An end with something to say on standard error.
#[derive(Debug)]
pub struct Failure {
    /// The exit code.
    pub exit: Exit,
    /// What was tried and what to do.
    pub message: String,
}

impl Failure {
    /// A failure with its own code.
    pub fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self { exit, message: message.into() }
    }

    /// Exit code 1.
    pub fn failed(message: impl Into<String>) -> Self {
        Self::new(Exit::Failed, message)
    }
}

impl From<crate::config::ConfigErrors> for Failure {
    fn from(errors: crate::config::ConfigErrors) -> Self {
        Self::failed(crate::render::prose(&errors.to_string()))
    }
}

impl From<crate::client::ClientError> for Failure {
    fn from(error: crate::client::ClientError) -> Self {
        Self::new(error.exit(), crate::render::prose(&error.to_string()))
    }
}
