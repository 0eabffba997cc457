//! Calls from outside: a body that was signed becomes the jobs that the script's function asks for.
//!
//! **Invariant:** nothing of a call is read, and no function is called, before its proof was
//! compared with the secret of its webhook.
//! **Invariant:** a call is taken whole or not at all, and the same body is taken once.

use serde_json::{Value, json};
use tracing::{debug, info};

use crate::api::config::WebhookTaken;
use crate::base::{Actor, Error, ErrorKind, JobId, Result, digest_hex, fault, truncate_chars};
use crate::flows::automation::effects::{self, Failure, Origin, Wish};
use crate::flows::automation::webhook_proof::{Proof, unproven};
use crate::flows::check::external;
use crate::flows::{Site, as_answer, as_kept, kept_answer};
use crate::jobs::LANE_BUSY;
use crate::script::{Location, SECRET_MISSING, Webhook};
use crate::store::{Tx, idempotency};

/// Longest name of an event, in characters.
const EVENT_CHARS_MAX: usize = 200;

/// A received call.
pub struct Incoming {
    /// The webhook's name.
    pub name: String,
    /// What it brought.
    pub proof: Proof,
    /// The event named by the sender.
    pub event: Option<String>,
    /// JSON.
    pub body: Vec<u8>,
}

/// Handles a call: its jobs are accepted together. The same body again gets the same response.
///
/// # Errors
/// `not_found` with code `no_webhook`; `unauthenticated` with code `bad_signature`; `unavailable`
/// with codes `secret_missing` and `script_stuck`; `invalid` with codes `not_json` and
/// `script_failed`; as asking for a job. Then no job was accepted.
pub async fn take(site: &Site, call: Incoming) -> Result<WebhookTaken> {
    let webhook = prove(site, &call)?;
    take_proven(site, webhook, call.event, &call.body).await
}

/// Handles a call with a valid proof.
///
/// # Errors
/// As [`take`], but those of the proof.
pub(in crate::flows) async fn take_proven(
    site: &Site,
    webhook: &Webhook,
    event: Option<String>,
    body: &[u8],
) -> Result<WebhookTaken> {
    let by = Actor::Webhook(webhook.name.clone());
    let key = idempotency::Key {
        actor: by.clone(),
        key: digest_hex(body),
        route: format!("POST /hooks/{}", webhook.name),
        body_digest: digest_hex(body),
    };
    if let Some(kept) = kept_answer(site, Some(&key)).await? {
        return as_answer(kept);
    }
    let body: Value = serde_json::from_slice(body).map_err(|cause| {
        Error::invalid("the body is not JSON").code("not_json").hint(cause.to_string())
    })?;
    match accept(site, webhook, (event, body), (&by, key)).await {
        Ok(answer) => {
            info!("webhook {} was called: {}", webhook.name, json!(answer));
            Ok(answer)
        }
        Err((at, error)) => {
            refuse(site, webhook, at, &error).await?;
            Err(error)
        }
    }
}

/// Returns the webhook of a call, if the caller knows its secret.
fn prove<'a>(site: &'a Site, call: &Incoming) -> Result<&'a Webhook> {
    let Some(webhook) = site.config.webhooks.get(&call.name) else {
        let shown = truncate_chars(&call.name, 80);
        return Err(Error::not_found(format!("no webhook {shown}"))
            .code("no_webhook")
            .hint("declare it in the script: wb.webhook \"NAME\" { … }"));
    };
    let secret = webhook.secret.read(&site.config.folder, &external::environment());
    let secret = secret.map_err(|cause| {
        // The caller does not learn which secret is missing, and could fill the log: `doctor` says.
        debug!("webhook {}: {}", webhook.name, cause.message());
        Error::unavailable(format!("webhook {} has no secret", webhook.name))
            .code(SECRET_MISSING)
            .hint("`wiki-browser doctor` names the secret it needs")
    })?;
    match call.proof.holds(&secret, &call.body) || fault::is_off("webhook_signature") {
        true => Ok(webhook),
        false => Err(unproven()),
    }
}

/// Calls the function, and accepts its effects in one transaction; an error has a position.
async fn accept(
    site: &Site,
    webhook: &Webhook,
    (event, body): (Option<String>, Value),
    (by, key): (&Actor, idempotency::Key),
) -> std::result::Result<WebhookTaken, (Location, Error)> {
    let event = event.map(|it| truncate_chars(&it, EVENT_CHARS_MAX));
    let now = site.store.clock().now();
    let arg = json!({"name": webhook.name, "event": event, "now": now, "body": body});
    let slot = &webhook.enqueue;
    let wanted = site.vm().tell(&function(webhook), slot, arg).await;
    let mut wishes: Vec<Wish> = Vec::new();
    for effect in wanted.map_err(|cause| (slot.at.clone(), cause))? {
        match effects::wish(site, effect, (by, 0), (&function(webhook), None)).await {
            (_, Ok(wish)) => wishes.push(wish),
            (at, Err(cause)) => return Err((at, cause)),
        }
    }
    if wishes.is_empty() {
        // The function ignored the call, which leaves no trace and may be repeated.
        return Ok(WebhookTaken { jobs: Vec::new() });
    }
    let works = site.clone();
    let write = move |tx: &Tx<'_>| {
        // The same call sent twice at once is handled once.
        if let Some(kept) = idempotency::find(tx.connection(), &key)? {
            return as_answer(kept);
        }
        // A refused effect rolls back those accepted before it.
        let mut accepted: Vec<JobId> = Vec::new();
        for wish in &wishes {
            match effects::grant(tx, &works, wish) {
                Ok(granted) => accepted.extend(granted),
                Err(cause) => return Err(of_this_call(cause, &accepted)),
            }
        }
        let answer = WebhookTaken { jobs: accepted };
        idempotency::remember(tx, &key, &as_kept(&answer)?)?;
        Ok(answer)
    };
    site.store.write(write).await.map_err(|cause| (slot.at.clone(), cause))
}

/// Says of a lane that the call's own job has taken that this will not pass: that job is not kept.
fn of_this_call(cause: Error, accepted: &[JobId]) -> Error {
    let is_own = |id: &JobId| cause.message().contains(&id.to_string());
    if cause.code_str() != LANE_BUSY || !accepted.iter().any(is_own) {
        return cause;
    }
    let message = "the function asked for two jobs of one lane, whose kind takes one at a time";
    Error::conflict(LANE_BUSY, message)
        .hint("ask for one of them, or write on_busy = \"queue\" into the kind")
        .source(cause)
}

/// Records a failed call, unless it may be retried soon.
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
