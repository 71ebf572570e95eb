//! What SQLite says, as the store's typed errors: by result code, never by text.

use rookery_messages::store::StoreError;
use rusqlite::ffi;

/// Why a request was not done: SQLite's error, or a refusal of ours.
#[derive(Debug)]
pub(super) enum Fault {
    /// SQLite failed, or a stored value can't be read.
    Sql(rusqlite::Error),
    /// The request is refused; nothing is wrong with the database.
    Refused(StoreError),
}

/// The result of a step inside the transaction.
pub(super) type Result<T> = std::result::Result<T, Fault>;

impl From<rusqlite::Error> for Fault {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sql(error)
    }
}

impl From<StoreError> for Fault {
    fn from(error: StoreError) -> Self {
        Self::Refused(error)
    }
}

impl From<serde_json::Error> for Fault {
    fn from(error: serde_json::Error) -> Self {
        Self::Refused(StoreError::Failed(format!("a value can't be written as json: {error}")))
    }
}

impl From<Fault> for StoreError {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Sql(error) => store_error(&error),
            Fault::Refused(error) => error,
        }
    }
}

/// Maps an error of SQLite. The codes are those of <https://www.sqlite.org/rescode.html>.
pub(super) fn store_error(error: &rusqlite::Error) -> StoreError {
    use rusqlite::ErrorCode as Code;

    let text = error.to_string();
    let code = match error {
        rusqlite::Error::SqliteFailure(code, _) => code,
        rusqlite::Error::SqlInputError { error, .. } => error,
        // A stored value that is not what we wrote: somebody or something changed the file.
        rusqlite::Error::FromSqlConversionFailure(..)
        | rusqlite::Error::InvalidColumnType(..)
        | rusqlite::Error::IntegralValueOutOfRange(..)
        | rusqlite::Error::Utf8Error(..) => return StoreError::Corrupt(text),
        _ => return StoreError::Failed(text),
    };
    // The file system itself says that the file is damaged.
    if code.extended_code == ffi::SQLITE_IOERR_CORRUPTFS {
        return StoreError::Corrupt(text);
    }
    match code.code {
        Code::DiskFull => StoreError::Full(text),
        Code::DatabaseBusy
        | Code::DatabaseLocked
        | Code::FileLockingProtocolFailed
        | Code::SystemIoFailure
        | Code::ReadOnly
        | Code::CannotOpen
        | Code::PermissionDenied => StoreError::Unavailable(text),
        Code::DatabaseCorrupt | Code::NotADatabase => StoreError::Corrupt(text),
        Code::ConstraintViolation => StoreError::Conflict(text),
        _ => StoreError::Failed(text),
    }
}

/// Maps an error of the file system around the database.
pub(super) fn file_error(what: &str, error: &std::io::Error) -> StoreError {
    let text = format!("{what}: {error}");
    match error.kind() {
        std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => {
            StoreError::Full(text)
        }
        _ => StoreError::Unavailable(text),
    }
}
