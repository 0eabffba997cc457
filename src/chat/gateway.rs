//! A handle to the gateway: whether it runs, and how to reach it.
//!
//! **Invariant:** callers ring a bell; only one loop starts and ends the gateway.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use camino::{Utf8Path, Utf8PathBuf};
use serde_json::Value;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use crate::base::{Context, Error, ErrorKind, PersonId, Result, truncate_chars};
use crate::outbound::{self, Answer, Failure, Local};
use crate::process::JobFolder;

/// Its folder below the data folder.
pub const GATEWAY_FOLDER: &str = "services/pi-gateway";
/// Its socket, in that folder.
const SOCKET: &str = "gateway.sock";
/// The folder with people's sign-ins, which only it writes.
const AUTH: &str = "auth";
/// Largest sign-in file.
const AUTH_BYTES_MAX: u64 = 256 * 1024;
/// How long it may take to start.
const READY_MAX: Duration = Duration::from_secs(30);
/// Longest wait for a short response.
const ANSWER_MAX: Duration = Duration::from_secs(40);
/// Largest short response.
const ANSWER_BYTES_MAX: usize = 64 * 1024;

/// A handle to the gateway.
#[derive(Clone, Debug)]
pub struct Gateway(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    standing: watch::Sender<Standing>,
    bell: Notify,
    /// How often it was requested.
    asked: AtomicU64,
    used_at: Mutex<Instant>,
}

/// The state of the gateway.
#[derive(Clone, Debug)]
pub enum Standing {
    /// Not needed.
    Asleep,
    /// Starting, or waiting before the next start.
    Starting,
    /// Running.
    Ready(Access),
    /// Cannot be started: the number of the newest request it answers, the reason, and a hint.
    Broken(u64, String, String),
}

/// How to reach it.
#[derive(Clone, Debug)]
pub struct Access {
    socket: Utf8PathBuf,
    token: Arc<str>,
}

impl Default for Gateway {
    fn default() -> Gateway {
        Gateway(Arc::new(Inner {
            standing: watch::Sender::new(Standing::Asleep),
            bell: Notify::new(),
            asked: AtomicU64::new(0),
            used_at: Mutex::new(Instant::now()),
        }))
    }
}

impl Access {
    /// Returns the access to a gateway with this folder.
    pub fn of(folder: &Utf8Path, token: &str) -> Access {
        Access { socket: folder.join(SOCKET), token: token.into() }
    }

    /// Sends a request; returns when the response begins.
    ///
    /// # Errors
    /// As [`outbound::call`].
    pub async fn send(
        &self,
        what: (&str, &str),
        json: Bytes,
        wait: Duration,
    ) -> std::result::Result<Answer, Failure> {
        let to = Local { socket: &self.socket, token: &self.token };
        outbound::call(to, what, json, wait).await
    }

    /// Returns whether it responds.
    pub async fn is_well(&self, wait: Duration) -> bool {
        let answer = self.send(("GET", "/health"), Bytes::new(), wait).await;
        answer.is_ok_and(|it| it.status() == 200)
    }
}

impl Gateway {
    /// Starts it if necessary; returns when it is ready.
    ///
    /// # Errors
    /// `unavailable` with code `gateway_down`.
    pub async fn access(&self) -> Result<Access> {
        let down =
            |why: String, hint: String| Error::unavailable(why).code("gateway_down").hint(hint);
        let mut standing = self.0.standing.subscribe();
        let number = self.0.asked.fetch_add(1, Ordering::SeqCst) + 1;
        self.note_use();
        self.ring();
        let found = tokio::time::timeout(READY_MAX, async {
            loop {
                match standing.borrow_and_update().clone() {
                    Standing::Ready(access) => return Ok(access),
                    Standing::Broken(answers, why, hint) if answers >= number => {
                        return Err(down(why, hint));
                    }
                    _ => {}
                }
                if standing.changed().await.is_err() {
                    return Err(down("the server is stopping".to_owned(), String::new()));
                }
            }
        });
        let late = |_| {
            let hint = "its log is in data/services/pi-gateway; try again in a minute";
            down("the gateway does not answer".to_owned(), hint.to_owned())
        };
        found.await.map_err(late)?
    }

    /// Rings its bell: somebody needs it.
    pub fn ring(&self) {
        self.0.bell.notify_one();
    }

    /// Records that it is being used.
    pub fn note_use(&self) {
        *self.0.used_at.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    /// Returns how long it has been unused.
    pub fn unused(&self) -> Duration {
        self.0.used_at.lock().unwrap_or_else(PoisonError::into_inner).elapsed()
    }

    /// Waits for the bell; returns the number of the newest request.
    pub async fn rung(&self) -> u64 {
        self.0.bell.notified().await;
        self.0.asked.load(Ordering::SeqCst)
    }

    /// Sets its state.
    pub fn stand(&self, standing: Standing) {
        self.0.standing.send_replace(standing);
    }

    /// Returns its state.
    pub fn standing(&self) -> Standing {
        self.0.standing.borrow().clone()
    }

    /// Sends a request with a short response.
    ///
    /// # Errors
    /// `unavailable` with code `gateway_down`; its refusals, with their own codes.
    pub async fn ask(&self, method: &str, path: &str, body: &Value) -> Result<Value> {
        let access = self.access().await?;
        let lost = |cause: Failure| {
            let message = format!("the gateway does not answer: {cause:?}");
            Error::unavailable(truncate_chars(&message, 300)).code("gateway_down")
        };
        let json = Bytes::from(body.to_string());
        let answer = access.send((method, path), json, ANSWER_MAX).await.map_err(lost)?;
        let status = answer.status();
        let text = answer.text(ANSWER_BYTES_MAX, ANSWER_MAX).await.map_err(lost)?;
        let told: Value = serde_json::from_str(&text)
            .context(ErrorKind::Unavailable, || "the gateway answers no JSON".to_owned())?;
        if status == 200 {
            return Ok(told);
        }
        let said = truncate_chars(told["message"].as_str().unwrap_or("it says not why"), 400);
        Err(match (status, told["kind"].as_str()) {
            (404, _) => Error::not_found(said).code("no_login"),
            (409, _) => Error::conflict("login_ended", said),
            (400, _) => Error::invalid(said).code("bad_parameter"),
            (_, Some("login_failed")) => Error::unavailable(said).code("login_failed"),
            _ => Error::unavailable(said).code("gateway_down"),
        })
    }
}

/// Returns whether a person is signed in to a provider. The file belongs to the gateway, so nothing
/// else in it is checked.
///
/// # Errors
/// `unavailable` if the file cannot be read.
pub fn is_signed_in(data: &Utf8Path, person: &PersonId, provider: &str) -> Result<bool> {
    let Some(folder) = JobFolder::open(&data.join(GATEWAY_FOLDER).join(AUTH))? else {
        return Ok(false);
    };
    let bytes = folder.read(&format!("{person}.json"), AUTH_BYTES_MAX)?;
    let all: Option<Value> = bytes.and_then(|it| serde_json::from_slice(&it).ok());
    Ok(all.is_some_and(|it| it[provider].is_object()))
}

/// Returns whether a person has a sign-in to any provider.
///
/// # Errors
/// `unavailable` if the file cannot be read.
pub fn has_sign_in(data: &Utf8Path, person: &PersonId) -> Result<bool> {
    let Some(folder) = JobFolder::open(&data.join(GATEWAY_FOLDER).join(AUTH))? else {
        return Ok(false);
    };
    Ok(folder.read(&format!("{person}.json"), AUTH_BYTES_MAX)?.is_some())
}

/// Removes the sign-ins of a person while no gateway runs.
///
/// # Errors
/// `unavailable` if the file cannot be removed.
pub fn forget_sign_in(data: &Utf8Path, person: &PersonId) -> Result<()> {
    let path = data.join(GATEWAY_FOLDER).join(AUTH);
    let Some(folder) = JobFolder::open(&path)? else { return Ok(()) };
    let failed = || format!("cannot remove the sign-in of {person} in {path}");
    folder.remove(&format!("{person}.json")).context(ErrorKind::Unavailable, failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An earlier failure must not answer a new request.
    #[tokio::test]
    async fn an_old_failure_answers_no_new_request() {
        let gateway = Gateway::default();
        let broken =
            |number| Standing::Broken(number, "not there".to_owned(), "install".to_owned());
        gateway.stand(broken(0));
        let (found, ()) = tokio::join!(gateway.access(), async {
            let number = gateway.rung().await;
            gateway.stand(Standing::Starting);
            gateway.stand(broken(number));
        });
        let refused = found.unwrap_err();
        assert_eq!((refused.code_str(), refused.hint_str()), ("gateway_down", Some("install")));
        let (found, ()) = tokio::join!(gateway.access(), async {
            gateway.rung().await;
            gateway.stand(Standing::Ready(Access::of("/x".into(), "t")));
        });
        assert_eq!(found.unwrap().socket, "/x/gateway.sock");
    }
}
