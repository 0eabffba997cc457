//! The files of a person's sign-in: the account that is connected, and a sign-in in progress.

use std::fmt;

use camino::Utf8Path;
use serde::{Deserialize, Serialize};

use crate::base::{Context, Error, ErrorKind, Millis, Result, random_token};
use crate::process::JobFolder;

/// The file with the account.
const ACCOUNT: &str = "linkedin.json";
/// The file with the sign-in in progress.
const PENDING: &str = "linkedin.pending";
/// The same, once it is used.
const USED: &str = "linkedin.pending.aside";
/// Largest of these files, in bytes.
const BYTES_MAX: u64 = 64 * 1024;
/// How long a sign-in may take.
const PENDING_MS: i64 = 10 * 60 * 1_000;

/// A connected account.
#[derive(Clone, Serialize, Deserialize)]
pub struct Account {
    pub(super) token: String,
    /// Its person, `urn:li:person:…`.
    pub(super) urn: String,
    /// The person's name at LinkedIn.
    pub name: String,
    /// The granted permissions.
    pub scopes: Vec<String>,
    /// When the sign-in expires.
    pub expires_at: Millis,
    /// Whether LinkedIn has refused the sign-in since.
    #[serde(default)]
    pub is_refused: bool,
}

impl fmt::Debug for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Account {{ urn: {} }}", self.urn)
    }
}

/// A sign-in in progress. Its `state` comes back with LinkedIn's answer, which proves that the
/// person who finishes the sign-in began it.
#[derive(Clone, Serialize, Deserialize)]
pub struct Pending {
    /// The random word.
    pub state: String,
    /// When it expires.
    pub until: Millis,
}

impl Account {
    /// Returns the account of a person's folder, if one is connected.
    ///
    /// # Errors
    /// `unavailable` if the file cannot be read.
    pub fn load(folder: &Utf8Path) -> Result<Option<Account>> {
        read(folder, ACCOUNT)
    }

    /// Returns whether another value is the same sign-in.
    pub fn is_same(&self, other: &Account) -> bool {
        self.token == other.token
    }

    /// Returns it as one that LinkedIn has refused.
    #[must_use]
    pub fn refused(self) -> Account {
        Account { is_refused: true, ..self }
    }

    /// Stores it.
    ///
    /// # Errors
    /// `unavailable` if it cannot be written.
    pub fn keep(&self, folder: &Utf8Path) -> Result<()> {
        write(folder, ACCOUNT, self)
    }

    /// Removes the account and a sign-in in progress. Returns whether an account was connected.
    ///
    /// # Errors
    /// `unavailable` if a file cannot be removed.
    pub fn forget(folder: &Utf8Path) -> Result<bool> {
        let Some(files) = JobFolder::open(folder)? else { return Ok(false) };
        let was_there = files.read(ACCOUNT, BYTES_MAX)?.is_some();
        for name in [ACCOUNT, PENDING, USED] {
            let failed = || format!("cannot remove {name} in {folder}");
            files.remove(name).context(ErrorKind::Unavailable, failed)?;
        }
        Ok(was_there)
    }
}

impl Pending {
    /// Begins a sign-in, which ends an earlier one.
    ///
    /// # Errors
    /// `unavailable` if it cannot be written.
    pub fn begin(folder: &Utf8Path, now: Millis) -> Result<Pending> {
        let pending = Pending { state: random_token("")?, until: now.plus(PENDING_MS) };
        write(folder, PENDING, &pending)?;
        Ok(pending)
    }

    /// Returns the sign-in in progress.
    ///
    /// # Errors
    /// `unavailable` if the file cannot be read.
    pub fn load(folder: &Utf8Path, now: Millis) -> Result<Option<Pending>> {
        Ok(read::<Pending>(folder, PENDING)?.filter(|it| it.until > now))
    }

    /// Uses up the sign-in in progress, if it has this state.
    ///
    /// # Errors
    /// `conflict` with code `login_ended` if it has another, has expired or was used.
    pub fn finish(folder: &Utf8Path, state: &str, now: Millis) -> Result<()> {
        let ended = || {
            Error::conflict("login_ended", "this sign-in has expired, or is not yours")
                .hint("connect LinkedIn again")
        };
        let files = JobFolder::open(folder)?.ok_or_else(ended)?;
        let is_right = |it: &Pending| it.until > now && it.state == state;
        // The state of an earlier sign-in, or of somebody else, ends nothing.
        read(folder, PENDING)?.filter(is_right).ok_or_else(ended)?;
        // Only one of two requests can rename the file.
        files.put_aside(PENDING).map_err(|_| ended())?;
        let pending: Option<Pending> = read(folder, USED)?;
        files.remove(USED).context(ErrorKind::Unavailable, || format!("cannot remove {USED}"))?;
        pending.filter(is_right).map(|_| ()).ok_or_else(ended)
    }
}

fn read<T: for<'a> Deserialize<'a>>(folder: &Utf8Path, name: &str) -> Result<Option<T>> {
    let Some(files) = JobFolder::open(folder)? else { return Ok(None) };
    let Some(bytes) = files.read(name, BYTES_MAX)? else { return Ok(None) };
    // A damaged file is no sign-in; the next one replaces it.
    Ok(serde_json::from_slice(&bytes).ok())
}

fn write<T: Serialize>(folder: &Utf8Path, name: &str, value: &T) -> Result<()> {
    let text = serde_json::to_string(value)
        .map_err(|cause| Error::internal("a sign-in is not JSON").source(cause))?;
    JobFolder::make(folder)?.put(name, text.as_bytes())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_sign_in_is_finished_once_by_its_state_and_in_time() {
        let folder = tempfile::tempdir().unwrap();
        let folder = Utf8Path::from_path(folder.path()).unwrap();
        let now = Millis(1_000_000);
        let refused = |state: &str, now| {
            Pending::finish(folder, state, now).unwrap_err().code_str().to_owned()
        };
        assert_eq!(refused("x", now), "login_ended");
        let mut begun = Pending::begin(folder, now).unwrap();
        assert_eq!(refused("x", now), "login_ended");
        let earlier = std::mem::replace(&mut begun, Pending::begin(folder, now).unwrap());
        assert_eq!(refused(&earlier.state, now), "login_ended");
        assert!(Pending::load(folder, now).unwrap().is_some());
        assert!(Pending::load(folder, now.plus(PENDING_MS)).unwrap().is_none());
        assert_eq!(refused(&begun.state, now.plus(PENDING_MS)), "login_ended");
        Pending::finish(folder, &begun.state, now).unwrap();
        assert_eq!(refused(&begun.state, now), "login_ended");
    }

    #[test]
    fn an_account_is_private_and_goes_when_it_is_told_to() {
        let folder = tempfile::tempdir().unwrap();
        let folder = Utf8Path::from_path(folder.path()).unwrap();
        assert!(Account::load(folder).unwrap().is_none() && !Account::forget(folder).unwrap());
        let account = Account {
            token: "secret".to_owned(),
            urn: "urn:li:person:a".to_owned(),
            name: "Ada".to_owned(),
            scopes: Vec::new(),
            expires_at: Millis(5),
            is_refused: false,
        };
        account.keep(folder).unwrap();
        let mode = std::fs::metadata(folder.join(ACCOUNT)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let found = Account::load(folder).unwrap().unwrap();
        assert_eq!((found.token.as_str(), found.name.as_str()), ("secret", "Ada"));
        assert!(!format!("{found:?}").contains("secret"));
        assert!(Account::forget(folder).unwrap());
        assert!(Account::load(folder).unwrap().is_none());
    }
}
