//! Calls from outside: a body that was signed becomes the jobs that the script's function asks for.
//!
//! **Invariant:** nothing of a call is read, and no function is called, before its proof was
//! compared with the secret of its webhook.
//! **Invariant:** a call is taken whole or not at all, and the same body is taken once.

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tracing::{debug, info};

use crate::base::{Actor, Error, ErrorKind, JobId, Result, digest_hex, fault, truncate_chars};
use crate::flows::automation::effects::{self, Failure, Origin};
use crate::flows::check::external;
use crate::flows::{Site, kept_answer};
use crate::jobs::NewJob;
use crate::script::{Effect, Location, Webhook};
use crate::store::{Tx, idempotency};

/// Longest name of an event, in characters.
const EVENT_CHARS_MAX: usize = 200;
/// Bytes of a block of SHA-256.
const BLOCK_BYTES: usize = 64;

/// What a caller brought to prove that it knows the secret.
#[derive(Clone)]
pub enum Proof {
    /// The HMAC of the body, as `X-Hub-Signature-256` says it.
    Signature([u8; 32]),
    /// The secret itself, as `X-Gitlab-Token` says it.
    Token(String),
}

impl Proof {
    /// Reads what two headers say.
    ///
    /// # Errors
    /// `unauthenticated` with code `bad_signature`: none, both, or no `sha256=HEX`.
    pub fn of(signature: Option<String>, token: Option<String>) -> Result<Proof> {
        match (signature, token) {
            (Some(text), None) => {
                text.strip_prefix("sha256=").and_then(parse_hex).map(Proof::Signature)
            }
            (None, Some(token)) => Some(Proof::Token(token)),
            _ => None,
        }
        .ok_or_else(unproven)
    }

    fn holds(&self, secret: &str, body: &[u8]) -> bool {
        match self {
            Proof::Signature(given) => is_same(given, &hmac(secret.as_bytes(), body)),
            // Of equal length, whatever was sent.
            Proof::Token(given) => {
                is_same(&Sha256::digest(given).into(), &Sha256::digest(secret).into())
            }
        }
    }
}

/// A call as it came.
pub struct Incoming {
    /// Which webhook it is for.
    pub name: String,
    /// What it brought.
    pub proof: Proof,
    /// What the caller says has happened.
    pub event: Option<String>,
    /// JSON.
    pub body: Vec<u8>,
}

/// Takes a call: its jobs are accepted together. The same body again gets the same answer.
///
/// # Errors
/// `not_found` with code `no_webhook`; `unauthenticated` with code `bad_signature`; `unavailable`
/// with codes `secret_missing` and `script_stuck`; `invalid` with codes `not_json` and
/// `script_failed`; as asking for a job. Then no job was accepted.
pub async fn take(site: &Site, call: Incoming) -> Result<Value> {
    let webhook = prove(site, &call)?;
    take_proven(site, webhook, call.event, &call.body).await
}

/// Takes a call whose proof is right.
///
/// # Errors
/// As [`take`], but those of the proof.
pub(in crate::flows) async fn take_proven(
    site: &Site,
    webhook: &Webhook,
    event: Option<String>,
    body: &[u8],
) -> Result<Value> {
    let by = Actor::Webhook(webhook.name.clone());
    let key = idempotency::Key {
        actor: by.clone(),
        key: digest_hex(body),
        route: format!("POST /hooks/{}", webhook.name),
        body_digest: digest_hex(body),
    };
    if let Some(kept) = kept_answer(site, Some(&key)).await? {
        return Ok(kept);
    }
    let body: Value = serde_json::from_slice(body).map_err(|cause| {
        Error::invalid("the body is not JSON").code("not_json").hint(cause.to_string())
    })?;
    match accept(site, webhook, (event, body), (&by, key)).await {
        Ok(answer) => {
            info!("webhook {} was called: {answer}", webhook.name);
            Ok(answer)
        }
        Err((at, error)) => {
            refuse(site, webhook, at, &error).await?;
            Err(error)
        }
    }
}

/// Returns the webhook that a call is for, if its caller knows the secret.
fn prove<'a>(site: &'a Site, call: &Incoming) -> Result<&'a Webhook> {
    let Some(webhook) = site.config.webhooks.get(&call.name) else {
        let shown = truncate_chars(&call.name, 80);
        return Err(Error::not_found(format!("there is no webhook {shown}"))
            .code("no_webhook")
            .hint("the script declares it: wb.webhook \"NAME\" { … }"));
    };
    let secret = webhook.secret.read(&site.config.folder, &external::environment());
    let secret = secret.map_err(|cause| {
        // Which secret it is is nothing for a caller; the start and each reload have said it.
        debug!("webhook {}: {}", webhook.name, cause.message());
        Error::unavailable(format!("webhook {} has no secret", webhook.name))
            .code("secret_missing")
            .hint("the log of the server says which one it needs")
    })?;
    match call.proof.holds(&secret, &call.body) || fault::is_off("webhook_signature") {
        true => Ok(webhook),
        false => Err(unproven()),
    }
}

/// Asks the function, and accepts what it wants in one transaction; an error has its place.
async fn accept(
    site: &Site,
    webhook: &Webhook,
    (event, body): (Option<String>, Value),
    (by, key): (&Actor, idempotency::Key),
) -> std::result::Result<Value, (Location, Error)> {
    let event = event.map(|it| truncate_chars(&it, EVENT_CHARS_MAX));
    let now = site.store.clock().now();
    let arg = json!({"name": webhook.name, "event": event, "now": now, "body": body});
    let slot = &webhook.enqueue;
    let wanted = site.vm().tell(&function(webhook), slot, arg).await;
    let mut jobs: Vec<NewJob> = Vec::new();
    for effect in wanted.map_err(|cause| (slot.at.clone(), cause))? {
        let Effect::Enqueue { request, at } = effect;
        match effects::job(site, request, by, 0).await {
            Ok(new) => jobs.push(new),
            Err(cause) => return Err((at, cause)),
        }
    }
    if jobs.is_empty() {
        // The function passed it over. It may come as often as it likes: it leaves nothing.
        return Ok(json!({"jobs": []}));
    }
    let works = site.clone();
    let write = move |tx: &Tx<'_>| {
        // What was sent twice at once is taken once.
        if let Some(kept) = idempotency::find(tx.connection(), &key)? {
            return Ok(kept);
        }
        // One that is refused takes back those that were accepted before it.
        let mut accepted: Vec<JobId> = Vec::new();
        for new in &jobs {
            accepted.extend(effects::accept(tx, &works, new)?);
        }
        let answer = json!({"jobs": accepted});
        idempotency::remember(tx, &key, &answer)?;
        Ok(answer)
    };
    site.store.write(write).await.map_err(|cause| (slot.at.clone(), cause))
}

/// Writes down that nothing came of a call; not of one that may come again in a moment.
async fn refuse(site: &Site, webhook: &Webhook, at: Location, error: &Error) -> Result<()> {
    if matches!(error.kind(), ErrorKind::Busy | ErrorKind::Unavailable | ErrorKind::Internal) {
        return Ok(());
    }
    let origin = Origin { function: function(webhook), at };
    let failure = Failure::new(&origin, "a call", error);
    failure.log();
    site.store.write(move |tx| failure.write(tx)).await
}

fn function(webhook: &Webhook) -> String {
    format!("webhook.{}", webhook.name)
}

fn unproven() -> Error {
    Error::new(ErrorKind::Unauthenticated, "the call is not signed with the webhook's secret")
        .code("bad_signature")
        .hint("sign the body: X-Hub-Signature-256: sha256=HMAC, or send X-Gitlab-Token")
}

fn parse_hex(text: &str) -> Option<[u8; 32]> {
    let mut bytes = [0; 32];
    if text.len() != 2 * bytes.len() || !text.bytes().all(|it| it.is_ascii_hexdigit()) {
        return None;
    }
    for (at, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(text.get(2 * at..2 * at + 2)?, 16).ok()?;
    }
    Some(bytes)
}

/// Compares all bytes, so that the time tells nothing of where they differ.
fn is_same(one: &[u8; 32], other: &[u8; 32]) -> bool {
    one.iter().zip(other).fold(0, |all, (a, b)| all | (a ^ b)) == 0
}

/// Returns the HMAC of RFC 2104 with SHA-256.
fn hmac(key: &[u8], text: &[u8]) -> [u8; 32] {
    let mut block = [0; BLOCK_BYTES];
    match key.len() > BLOCK_BYTES {
        true => block[..32].copy_from_slice(&Sha256::digest(key)),
        false => block[..key.len()].copy_from_slice(key),
    }
    let pad = |with: u8| block.map(|it| it ^ with);
    let inner = Sha256::new().chain_update(pad(0x36)).chain_update(text).finalize();
    Sha256::new().chain_update(pad(0x5c)).chain_update(inner).finalize().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The cases 1, 2 and 6 of RFC 4231.
    #[test]
    fn a_body_is_signed_as_the_rfc_says() {
        let long = vec![0xaa; 131];
        let cases: [(&[u8], &[u8], &str); 3] = [
            (
                &[0x0b; 20],
                b"Hi There",
                "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7",
            ),
            (
                b"Jefe",
                b"what do ya want for nothing?",
                "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843",
            ),
            (
                &long,
                b"Test Using Larger Than Block-Size Key - Hash Key First",
                "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54",
            ),
        ];
        for (key, text, expected) in cases {
            assert_eq!(parse_hex(expected), Some(hmac(key, text)));
        }
    }

    #[test]
    fn a_proof_is_one_header_that_can_be_read() {
        let right = format!("sha256={}", "0a".repeat(32));
        assert!(Proof::of(Some(right.clone()), None).is_ok());
        assert!(Proof::of(None, Some("x".to_owned())).is_ok());
        for (signature, token) in [
            (None, None),
            (Some(right.clone()), Some("x".to_owned())),
            (Some(right[7..].to_owned()), None),
            (Some(format!("{right}0")), None),
            (Some(format!("sha256={}", "+1".repeat(32))), None),
            (Some(format!("sha256={}", "é".repeat(32))), None),
        ] {
            let said = format!("{signature:?} {token:?}");
            let refused = Proof::of(signature, token).map(|_| ()).unwrap_err();
            assert_eq!(refused.code_str(), "bad_signature", "{said}");
        }
        assert!(Proof::Token("s3cret".to_owned()).holds("s3cret", b""));
        assert!(!Proof::Token("s3cre".to_owned()).holds("s3cret", b""));
    }
}
