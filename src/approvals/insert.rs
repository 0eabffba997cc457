//! Inserts new approvals, within the limits of size and number.

use rusqlite::named_params;
use serde_json::{Value, json};

use crate::api::approvals::Approval;
use crate::api::approvals::Sort;
use crate::approvals::BELL;
use crate::approvals::approval::{Viewer, find};
use crate::base::limit::{
    APPROVAL_PAYLOAD_BYTES_MAX, APPROVAL_SCHEMA_BYTES_MAX, APPROVAL_TITLE_CHARS_MAX,
    APPROVALS_PENDING_MAX,
};
use crate::base::{
    Actor, Address, ApprovalId, Error, ErrorKind, Ids, JobId, Millis, PersonId, Result, is_segment,
};
use crate::store::Tx;

const PENDING_OF_REQUESTER: &str =
    "SELECT COUNT(*) FROM approvals WHERE requester = :requester AND state = 'pending'";
const INSERT: &str = "
    INSERT INTO approvals (id, channel, sort, private_to, title, payload_json, schema_json,
        requester, from_class, from_name, job_id, root_id, expires_ms, call_digest, created_ms)
    VALUES (:id, :channel, :sort, :private_to, :title, :payload, :schema,
        :requester, :from_class, :from_name, :job, :root, :expires, :digest, :now)";

pub(super) const STATEMENTS: &[(&str, &str)] =
    &[("approval::pending_of_requester", PENDING_OF_REQUESTER), ("approval::insert", INSERT)];

/// A new approval; its payload was validated against its schema.
#[derive(Clone, Debug)]
pub struct NewApproval {
    /// The label under which it is filed.
    pub channel: String,
    /// Its kind.
    pub sort: Sort,
    /// The request, in one line.
    pub title: String,
    /// The payload to be approved.
    pub payload: Value,
    /// The JSON schema of the payload.
    pub schema: Option<Value>,
    /// Who requests it.
    pub requester: Actor,
    /// The requester's address.
    pub from: Option<Address>,
    /// The requesting job and its root.
    pub job: Option<(JobId, JobId)>,
    /// When it expires.
    pub expires_at: Option<Millis>,
    /// The only person who sees and decides it.
    pub private_to: Option<PersonId>,
    /// The digest of the tool call that a permission is for.
    pub call_digest: Option<String>,
}

/// Inserts an approval.
///
/// # Errors
/// `invalid` with code `bad_channel` or `bad_title`; `too_large`; `busy` with code
/// `too_many_approvals`.
pub fn insert(tx: &Tx<'_>, ids: &Ids, new: &NewApproval) -> Result<Approval> {
    refuse_words(new)?;
    let payload = bounded("payload", &new.payload, APPROVAL_PAYLOAD_BYTES_MAX)?;
    let schema = new.schema.as_ref();
    let schema = schema.map(|it| bounded("schema", it, APPROVAL_SCHEMA_BYTES_MAX)).transpose()?;
    let of_requester = named_params! {":requester": new.requester};
    let pending: i64 =
        tx.prepare_cached(PENDING_OF_REQUESTER)?.query_row(of_requester, |row| row.get(0))?;
    if pending >= APPROVALS_PENDING_MAX {
        let message = format!("{pending} approvals of this requester are pending");
        return Err(Error::new(ErrorKind::Busy, message)
            .code("too_many_approvals")
            .hint("withdraw some, or wait for their decisions"));
    }
    let id: ApprovalId = ids.mint();
    let (job, root) = new.job.clone().unzip();
    tx.prepare_cached(INSERT)?.execute(named_params! {
        ":id": id, ":channel": new.channel, ":sort": new.sort, ":title": new.title,
        ":payload": payload, ":schema": schema, ":requester": new.requester,
        ":from_class": new.from.as_ref().and_then(Address::class),
        ":from_name": new.from.as_ref().map(Address::name), ":job": job, ":root": root,
        ":expires": new.expires_at, ":now": tx.now(), ":private_to": new.private_to,
        ":digest": new.call_digest,
    })?;
    let made = find(tx.connection(), &id, &Viewer::Program)?;
    made.record(tx, &new.requester, &json!({}))?;
    if made.expires_at.is_some() {
        tx.ring(BELL);
    }
    Ok(made)
}

fn refuse_words(new: &NewApproval) -> Result<()> {
    if !is_segment(&new.channel) {
        let message = "the channel of an approval is one word of letters, digits, `-` and `_`";
        return Err(Error::invalid(message).code("bad_channel").hint("as in --channel billing"));
    }
    let chars = new.title.chars().count();
    let wrong = match chars {
        _ if new.title.trim().is_empty() => "the title of an approval is empty".to_owned(),
        _ if new.title.chars().any(char::is_control) => {
            "the title of an approval is not a single line".to_owned()
        }
        ..=APPROVAL_TITLE_CHARS_MAX => return Ok(()),
        _ => format!("the title has {chars} characters, {APPROVAL_TITLE_CHARS_MAX} are allowed"),
    };
    Err(Error::invalid(wrong).code("bad_title").hint("ask in one line; details go in the payload"))
}

pub(super) fn bounded(what: &str, value: &Value, bytes_max: usize) -> Result<String> {
    let text = value.to_string();
    if text.len() <= bytes_max {
        return Ok(text);
    }
    let message = format!("the {what} has {} bytes, {bytes_max} are allowed", text.len());
    Err(Error::new(ErrorKind::TooLarge, message).hint("leave out what nobody decides by"))
}
