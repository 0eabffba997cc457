//! The error type shared by all modules.

use std::borrow::Cow;
use std::error::Error as StdError;
use std::fmt;

/// A result with this program's error.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// SQLITE_CORRUPT_VTAB.
const CORRUPT_VTAB: i32 = 267;

/// The code of a full disk.
pub const DISK_FULL: &str = "disk_full";
/// What is said of that where only a text is kept.
pub const NO_ROOM: &str = "the disk is full";
/// The code of a file or file system that cannot be written.
pub const READ_ONLY: &str = "read_only";
/// The code of a disk that cannot be read or written.
pub const DISK_ERROR: &str = "disk_error";
/// The code of a database that another program has locked.
pub const DATABASE_LOCKED: &str = "database_locked";
/// The code of a damaged database.
pub const DATABASE_CORRUPT: &str = "database_corrupt";
/// The code of a damaged full-text index, which can be rebuilt.
pub const INDEX_DAMAGED: &str = "index_damaged";

/// What the caller can do about an error; determines the HTTP status and the exit code of
/// `wb-agent`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// The request itself is wrong (400, exit 2).
    Invalid,
    /// The credential is missing or unknown (401, exit 3).
    Unauthenticated,
    /// Authenticated, but not allowed (403, exit 3).
    Forbidden,
    /// The thing named does not exist (404, exit 4).
    NotFound,
    /// The current state does not allow it (409, exit 5).
    Conflict,
    /// A size limit was exceeded (413, exit 2).
    TooLarge,
    /// The request was addressed to another host (421, exit 2).
    Misdirected,
    /// A queue is full; retrying later may succeed (429, exit 6).
    Busy,
    /// Something required is temporarily unavailable (503, exit 6).
    Unavailable,
    /// A bug in this program (500, exit 1).
    Internal,
}

impl ErrorKind {
    /// All kinds, for tables and tests.
    pub const ALL: [ErrorKind; 10] = [
        ErrorKind::Invalid,
        ErrorKind::Unauthenticated,
        ErrorKind::Forbidden,
        ErrorKind::NotFound,
        ErrorKind::Conflict,
        ErrorKind::TooLarge,
        ErrorKind::Misdirected,
        ErrorKind::Busy,
        ErrorKind::Unavailable,
        ErrorKind::Internal,
    ];

    /// Returns the HTTP status.
    pub fn status(self) -> u16 {
        match self {
            ErrorKind::Invalid => 400,
            ErrorKind::Unauthenticated => 401,
            ErrorKind::Forbidden => 403,
            ErrorKind::NotFound => 404,
            ErrorKind::Conflict => 409,
            ErrorKind::TooLarge => 413,
            ErrorKind::Misdirected => 421,
            ErrorKind::Busy => 429,
            ErrorKind::Unavailable => 503,
            ErrorKind::Internal => 500,
        }
    }

    /// Returns the exit code of a command that fails with this error.
    pub fn exit_code(self) -> u8 {
        match self {
            ErrorKind::Internal => 1,
            ErrorKind::Invalid | ErrorKind::TooLarge | ErrorKind::Misdirected => 2,
            ErrorKind::Unauthenticated | ErrorKind::Forbidden => 3,
            ErrorKind::NotFound => 4,
            ErrorKind::Conflict => 5,
            ErrorKind::Busy | ErrorKind::Unavailable => 6,
        }
    }

    /// Returns the kind of an HTTP status; an unknown 4xx is `Invalid`, any other is `Internal`.
    pub fn from_status(status: u16) -> ErrorKind {
        let known = Self::ALL.into_iter().find(|kind| kind.status() == status);
        known.unwrap_or(if (400..500).contains(&status) {
            ErrorKind::Invalid
        } else {
            ErrorKind::Internal
        })
    }

    /// Returns the default `code` of an error of this kind.
    pub fn word(self) -> &'static str {
        match self {
            ErrorKind::Invalid => "invalid",
            ErrorKind::Unauthenticated => "unauthenticated",
            ErrorKind::Forbidden => "forbidden",
            ErrorKind::NotFound => "not_found",
            ErrorKind::Conflict => "conflict",
            ErrorKind::TooLarge => "too_large",
            ErrorKind::Misdirected => "misdirected",
            ErrorKind::Busy => "busy",
            ErrorKind::Unavailable => "unavailable",
            ErrorKind::Internal => "internal",
        }
    }
}

/// An error: what can be done (`kind`), a stable code for programs (`code`), a message that names
/// the thing (lower case, no full stop), and a hint that tells the operator what to do next.
///
/// One pointer wide: nearly every function returns it, and a larger value would be moved and
/// dropped in the code of each of them.
#[derive(Debug)]
pub struct Error(Box<Told>);

/// The contents of an error.
#[derive(Debug)]
struct Told {
    kind: ErrorKind,
    code: Cow<'static, str>,
    message: String,
    hint: Option<String>,
    input: Option<Box<str>>,
    source: Option<Box<dyn StdError + Send + Sync>>,
}

impl Error {
    /// Returns an error with the default code of its kind.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Error {
        Error(Box::new(Told {
            kind,
            code: Cow::Borrowed(kind.word()),
            message: message.into(),
            hint: None,
            input: None,
            source: None,
        }))
    }

    /// Returns a 400.
    pub fn invalid(message: impl Into<String>) -> Error {
        Error::new(ErrorKind::Invalid, message)
    }

    /// Returns a 404.
    pub fn not_found(message: impl Into<String>) -> Error {
        Error::new(ErrorKind::NotFound, message)
    }

    /// Returns a 409 with this code.
    pub fn conflict(code: &'static str, message: impl Into<String>) -> Error {
        Error::new(ErrorKind::Conflict, message).code(code)
    }

    /// Returns a 503.
    pub fn unavailable(message: impl Into<String>) -> Error {
        Error::new(ErrorKind::Unavailable, message)
    }

    /// Returns a 503 for a file that could not be written: `disk_full` or `read_only` if that is
    /// the cause.
    pub fn of_disk(message: impl Into<String>, cause: std::io::Error) -> Error {
        use std::io::ErrorKind as Kind;
        let error = Error::unavailable(message);
        let error = match cause.kind() {
            Kind::StorageFull | Kind::QuotaExceeded => {
                error.code(DISK_FULL).hint("the disk is full: free some space")
            }
            Kind::FileTooLarge => {
                let hint = "a file may not grow: raise its limit (`ulimit -f`, `LimitFSIZE=`)";
                error.code(DISK_FULL).hint(hint)
            }
            Kind::ReadOnlyFilesystem => error
                .code(READ_ONLY)
                .hint("the disk is read-only: find the cause (dmesg) and remount it for writing"),
            Kind::PermissionDenied => error.hint("run the server as the owner of the file"),
            _ => error,
        };
        error.source(cause)
    }

    /// Returns a 500: a bug in this program.
    pub fn internal(message: impl Into<String>) -> Error {
        Error::new(ErrorKind::Internal, message)
    }

    /// Sets the stable code for programs.
    #[must_use]
    pub fn code(mut self, code: impl Into<Cow<'static, str>>) -> Error {
        self.0.code = code.into();
        self
    }

    /// Sets the hint: what the operator should do next.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Error {
        self.0.hint = Some(hint.into());
        self
    }

    /// Sets the job input at fault, so that a form can show the message beside its field.
    #[must_use]
    pub fn of_input(mut self, name: &str) -> Error {
        self.0.input = Some(name.into());
        self
    }

    /// Sets the error that caused this one.
    #[must_use]
    pub fn source(mut self, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Error {
        self.0.source = Some(source.into());
        self
    }

    /// Returns the kind.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// Returns the stable code.
    pub fn code_str(&self) -> &str {
        &self.0.code
    }

    /// Returns the message, without hint and causes.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// Returns the hint.
    pub fn hint_str(&self) -> Option<&str> {
        self.0.hint.as_deref()
    }

    /// Returns the name of the job input at fault.
    pub fn input_str(&self) -> Option<&str> {
        self.0.input.as_deref()
    }

    /// Returns the message and all causes, joined by `: `, for the log and the command line.
    pub fn chain(&self) -> String {
        let mut text = self.0.message.clone();
        let mut next = StdError::source(self);
        while let Some(cause) = next {
            let cause_text = cause.to_string();
            if !text.ends_with(&cause_text) {
                text.push_str(": ");
                text.push_str(&cause_text);
            }
            next = cause.source();
        }
        text
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.0.source.as_deref().map(|it| it as &(dyn StdError + 'static))
    }
}

/// Adds context to another library's error.
pub trait Context<T> {
    /// Wraps an error as the source of one with this kind and message.
    fn context(self, kind: ErrorKind, message: impl FnOnce() -> String) -> Result<T>;
}

impl<T, E: Into<Box<dyn StdError + Send + Sync>>> Context<T> for std::result::Result<T, E> {
    fn context(self, kind: ErrorKind, message: impl FnOnce() -> String) -> Result<T> {
        self.map_err(|cause| Error::new(kind, message()).source(cause))
    }
}

impl From<rusqlite::Error> for Error {
    /// A full or failing disk becomes `unavailable` with its own code. Everything else, including a
    /// violated constraint, is a bug in this program: constraints are checked before writing.
    fn from(cause: rusqlite::Error) -> Error {
        use rusqlite::ErrorCode as Code;
        let error = match cause.sqlite_error_code() {
            Some(Code::DiskFull) => Error::unavailable(NO_ROOM)
                .code(DISK_FULL)
                .hint("free some space; nothing that was acknowledged is lost"),
            Some(Code::ReadOnly) => Error::unavailable("the database is read-only").code(READ_ONLY),
            Some(Code::DatabaseBusy | Code::DatabaseLocked) => {
                Error::unavailable("the database is locked by another program")
                    .code(DATABASE_LOCKED)
            }
            Some(Code::SystemIoFailure | Code::CannotOpen) => {
                Error::unavailable("the database cannot be read or written").code(DISK_ERROR)
            }
            // The index of a virtual table, such as the full-text index: its pages are intact, but
            // their contents are not. It can be rebuilt.
            Some(Code::DatabaseCorrupt)
                if cause.sqlite_error().is_some_and(|it| it.extended_code == CORRUPT_VTAB) =>
            {
                Error::unavailable("an index of the database is damaged").code(INDEX_DAMAGED)
            }
            Some(Code::DatabaseCorrupt | Code::NotADatabase) => {
                Error::unavailable("the database is damaged").code(DATABASE_CORRUPT)
            }
            _ => Error::internal("a statement failed"),
        };
        error.source(cause)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_leads_back_to_its_kind() {
        for kind in ErrorKind::ALL {
            assert_eq!(ErrorKind::from_status(kind.status()), kind);
        }
        assert_eq!(ErrorKind::from_status(418), ErrorKind::Invalid);
        assert_eq!(ErrorKind::from_status(599), ErrorKind::Internal);
    }

    #[test]
    fn the_chain_names_every_cause_once() {
        let inner = std::io::Error::other("no such file");
        let error = Error::unavailable("cannot read a.md").source(inner);
        assert_eq!(error.chain(), "cannot read a.md: no such file");
        assert_eq!(error.to_string(), "cannot read a.md");
    }
}
