//! The one error that crosses modules.

use std::borrow::Cow;
use std::error::Error as StdError;
use std::fmt;

/// Short for a result with this program's error.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// SQLITE_CORRUPT_VTAB.
const CORRUPT_VTAB: i32 = 267;

/// What the caller can do about an error; at once the HTTP status and the exit code of `wb-agent`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// The request is wrong in itself (400, exit 2).
    Invalid,
    /// No credential, or one that is not known (401, exit 3).
    Unauthenticated,
    /// Known, but not allowed (403, exit 3).
    Forbidden,
    /// The thing named does not exist (404, exit 4).
    NotFound,
    /// The present state does not allow it (409, exit 5).
    Conflict,
    /// A limit on size was passed (413, exit 2).
    TooLarge,
    /// The request was meant for another host (421, exit 2).
    Misdirected,
    /// Too much is waiting already; later it may succeed (429, exit 6).
    Busy,
    /// A thing that is needed is not there at the moment (503, exit 6).
    Unavailable,
    /// A fault of this program (500, exit 1).
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

    /// Returns the exit code of a command that ends with this error.
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

    /// Returns the `code` that an error of this kind has if nothing better is known.
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

/// An error: what can be done (`kind`), a stable word for programs (`code`), a message that names
/// the thing (lower case, no full stop), and a hint that says what the operator does next.
///
/// It is one pointer wide: nearly every function returns one, and what it holds would otherwise be
/// moved and dropped in the code of each.
#[derive(Debug)]
pub struct Error(Box<Told>);

/// What an error says.
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
    /// Returns an error whose code is the kind's own word.
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

    /// Returns a 409 with its code.
    pub fn conflict(code: &'static str, message: impl Into<String>) -> Error {
        Error::new(ErrorKind::Conflict, message).code(code)
    }

    /// Returns a 503.
    pub fn unavailable(message: impl Into<String>) -> Error {
        Error::new(ErrorKind::Unavailable, message)
    }

    /// Returns a 503 of a file that the disk did not take: `disk_full` or `read_only` where that is
    /// the reason.
    pub fn of_disk(message: impl Into<String>, cause: std::io::Error) -> Error {
        use std::io::ErrorKind as Kind;
        let error = Error::unavailable(message);
        let error = match cause.kind() {
            Kind::StorageFull | Kind::QuotaExceeded => {
                error.code("disk_full").hint("the disk is full: free some space")
            }
            Kind::ReadOnlyFilesystem => error
                .code("read_only")
                .hint("the disk is read-only: find the cause (dmesg) and remount it for writing"),
            Kind::PermissionDenied => error.hint("run the server as the owner of the file"),
            _ => error,
        };
        error.source(cause)
    }

    /// Returns a 500: a fault of this program.
    pub fn internal(message: impl Into<String>) -> Error {
        Error::new(ErrorKind::Internal, message)
    }

    /// Sets the stable word for programs.
    #[must_use]
    pub fn code(mut self, code: impl Into<Cow<'static, str>>) -> Error {
        self.0.code = code.into();
        self
    }

    /// Sets what the operator should do next.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Error {
        self.0.hint = Some(hint.into());
        self
    }

    /// Sets the input of a kind that it is about, so that a form can say it beside the field.
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

    /// Returns what the caller can do.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// Returns the stable word for programs.
    pub fn code_str(&self) -> &str {
        &self.0.code
    }

    /// Returns the message without hint and causes.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// Returns the hint.
    pub fn hint_str(&self) -> Option<&str> {
        self.0.hint.as_deref()
    }

    /// Returns the name of the input that it is about.
    pub fn input_str(&self) -> Option<&str> {
        self.0.input.as_deref()
    }

    /// Returns the message and all causes, joined by `: `; for the log and the command line.
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

/// Adds what was being done to an error of a library.
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
    /// A full or failing disk is `unavailable` with its own code; a broken rule of the schema and
    /// everything else is a fault of this program, because rules are checked before they can break.
    fn from(cause: rusqlite::Error) -> Error {
        use rusqlite::ErrorCode as Code;
        let error = match cause.sqlite_error_code() {
            Some(Code::DiskFull) => Error::unavailable("the disk is full")
                .code("disk_full")
                .hint("free some space; nothing that was acknowledged is lost"),
            Some(Code::ReadOnly) => {
                Error::unavailable("the database is read-only").code("read_only")
            }
            Some(Code::DatabaseBusy | Code::DatabaseLocked) => {
                Error::unavailable("the database is locked by another program")
                    .code("database_locked")
            }
            Some(Code::SystemIoFailure | Code::CannotOpen) => {
                Error::unavailable("the database cannot be read or written").code("disk_error")
            }
            // An index that SQLite does not keep itself, such as that of the search: its rows hold
            // together and what they say does not. It can be made anew.
            Some(Code::DatabaseCorrupt)
                if cause.sqlite_error().is_some_and(|it| it.extended_code == CORRUPT_VTAB) =>
            {
                Error::unavailable("an index of the database is damaged").code("index_damaged")
            }
            Some(Code::DatabaseCorrupt | Code::NotADatabase) => {
                Error::unavailable("the database is damaged").code("database_corrupt")
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
