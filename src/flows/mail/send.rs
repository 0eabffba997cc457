//! Sending: one call for every recipient. A message to an inbox becomes a job in the transaction
//! that accepts it.

use serde_json::{Value, json};

use crate::api::channels::PostRequest;
use crate::api::mail::{SendRequest, Sent, Sort};
use crate::base::limit::{MAIL_CATEGORY_CHARS_MAX, MAIL_PAIR_MAX, MAIL_QUEUE_MAX, MAIL_SENDS_MAX};
use crate::base::{Actor, Address, Error, ErrorKind, MailId, Result, fault, from_json, has_zero};
use crate::flows::channels::{self, Ground};
use crate::flows::mail::recipient::{self, Recipient};
use crate::flows::mail::show::require_visible_to;
use crate::flows::mail::{DEPTH_MAX, PAYLOAD_BYTES_MAX, SENDS_WINDOW_MS};
use crate::flows::people::refuse_disabled;
use crate::flows::requests::inputs;
use crate::flows::{Site, Works, agents, instances, kept_answer};
use crate::jobs::{self, Capacities, Job, NewJob};
use crate::mail::{self, NewMessage};
use crate::people::Caller;
use crate::script::Kind;
use crate::store::{Tx, idempotency};

/// Sends a message.
///
/// # Errors
/// `invalid`: `malformed_address`, `approval_is_no_target`, `bad_payload` with the place;
/// `not_found`: `no_recipient`, and a message to answer that the caller may not read;
/// `conflict`: `recipient_ended`, `not_deliverable`, `depth`;
/// `forbidden`: `viewer`, `not_granted`; `busy`: `queue_full`, `too_many_messages`, `daily_cap`.
pub async fn send(
    site: &Site,
    caller: &Caller,
    request: SendRequest,
    key: Option<idempotency::Key>,
) -> Result<Sent> {
    let by = match caller {
        Caller::Person { .. } => Actor::Person(caller.may_write()?.id.clone()),
        Caller::Job { id, .. } => Actor::Job(id.clone()),
    };
    if let Some(kept) = kept_answer(site, key.as_ref()).await? {
        return kept_sent(kept);
    }
    let draft = draft(site, by, request)?;
    if let Address::Channel(slug) = &draft.to {
        channels::await_turn(site, caller, slug).await?;
    }
    let (site, token) = (site.clone(), caller.job().ok().map(|(_, token)| token.to_owned()));
    let caller = caller.clone();
    let store = site.store.clone();
    let sent = store
        .write(move |tx| {
            let sender = token.as_deref().map(|token| jobs::fence(tx, token)).transpose()?;
            if let Some(key) = &key
                && let Some(kept) = idempotency::find(tx.connection(), key)?
            {
                return kept_sent(kept);
            }
            let sent = match &draft.to {
                Address::Channel(slug) => post(tx, &site, (&caller, slug), &draft.request)?,
                _ => {
                    if let Some(answered) = &draft.request.in_reply_to {
                        require_visible_to(tx.connection(), &caller, answered)?;
                    }
                    accept(tx, &site, &draft, sender.as_ref())?
                }
            };
            if let Some(key) = &key {
                idempotency::remember(tx, key, &json!(sent))?;
            }
            Ok(sent)
        })
        .await;
    if fault::is_off("send_tx") {
        fault::crash_point("message_written");
    }
    sent
}

/// A message to a channel is said there: by a member, and to everybody.
fn post(
    tx: &Tx<'_>,
    works: &Works,
    (caller, slug): (&Caller, &str),
    request: &SendRequest,
) -> Result<Sent> {
    let body = text_for_channel(request)?;
    let words = PostRequest { body, ..PostRequest::default() };
    let said = channels::post_in_room(tx, &Ground::of(works), (caller, slug), &words)?;
    let waiting = (!said.waiting.is_empty()).then(|| said.waiting.join("; "));
    Ok(Sent { waiting, ..posted(said.message_id) })
}

fn kept_sent(kept: Value) -> Result<Sent> {
    from_json(&kept)
        .map_err(|cause| Error::internal("a kept answer is none of a message").source(cause))
}

/// A message to be sent, with everything checked that needs no transaction.
pub(in crate::flows) struct Draft {
    by: Actor,
    to: Address,
    reply_to: Option<Address>,
    request: SendRequest,
    /// How many jobs and messages of the script led to it.
    depth: u32,
}

impl Draft {
    /// Returns the same message, to which so many jobs and messages of the script led.
    pub(in crate::flows) fn at_depth(self, depth: u32) -> Draft {
        Draft { depth, ..self }
    }

    /// Returns whether it starts a job: an inbox takes work.
    pub(in crate::flows) fn starts_job(&self) -> bool {
        matches!(self.to, Address::Inbox { .. })
    }
}

/// Checks a message, as far as that needs no transaction.
///
/// # Errors
/// `invalid` and `too_large`, as [`send`].
pub(in crate::flows) fn draft(site: &Site, by: Actor, request: SendRequest) -> Result<Draft> {
    let to: Address = request.to.parse()?;
    // Nobody may send there: no grant of a job can help.
    if let Address::Approval(_) = &to {
        return Err(recipient::no_target(&to));
    }
    let reply_to = request.reply_to.as_deref().map(str::parse::<Address>).transpose()?;
    if let Some(label @ Address::Approval(_)) = &reply_to {
        return Err(Error::invalid(format!("{label} is a label, not an address for replies"))
            .code("approval_is_no_target")
            .of_input("reply_to"));
    }
    let bytes = request.payload.to_string().len();
    if bytes > PAYLOAD_BYTES_MAX {
        let message =
            format!("the payload has {bytes} bytes as JSON, {PAYLOAD_BYTES_MAX} are allowed");
        return Err(Error::new(ErrorKind::TooLarge, message)
            .hint("write large content to a file and send its path"));
    }
    if has_zero(&request.payload) {
        let message = "the payload holds a zero byte, which no prompt and no variable takes";
        return Err(Error::invalid(message).code("bad_payload").hint("leave \\u0000 out"));
    }
    if let Some(word) = &request.category {
        let is_line = !word.chars().any(char::is_control);
        if !is_line || word.is_empty() || word.chars().count() > MAIL_CATEGORY_CHARS_MAX {
            let message =
                format!("a category is one line of at most {MAIL_CATEGORY_CHARS_MAX} characters");
            return Err(Error::invalid(message).code("bad_parameter").of_input("category"));
        }
    }
    if let Address::Inbox { .. } = &to {
        let kind = recipient::inbox(site, &to.name())?;
        if let Some(schema) = &recipient::of_kind(kind)?.schema {
            schema
                .require(&request.payload, "payload", "bad_payload")
                .map_err(|cause| cause.hint(format!("`wiki-browser inbox show {}`", kind.name)))?;
        }
    }
    Ok(Draft { by, to, reply_to, request, depth: 0 })
}

/// Sends a message of the script.
///
/// # Errors
/// As [`send`]. Nothing is written then.
pub(in crate::flows) fn send_of_script(tx: &Tx<'_>, site: &Site, draft: &Draft) -> Result<Sent> {
    match &draft.to {
        Address::Channel(slug) => say_in_channel(tx, site, slug, draft),
        _ => accept(tx, site, draft, None),
    }
}

/// Posts a message of the script in a channel.
fn say_in_channel(tx: &Tx<'_>, site: &Site, slug: &str, draft: &Draft) -> Result<Sent> {
    let depth = depth(tx, draft, None, false)?;
    let text = text_for_channel(&draft.request)?;
    let ground = Ground::of(site);
    let spoken = channels::post_as_script(tx, &ground, slug, (&draft.by, text, depth))?;
    Ok(posted(spoken.id))
}

/// Returns the text of a message for a channel, where replies go to the channel itself.
fn text_for_channel(request: &SendRequest) -> Result<String> {
    if request.reply_to.is_some() || request.in_reply_to.is_some() {
        let message = "what is said in a channel has no address for a reply";
        return Err(Error::invalid(message)
            .code("bad_parameter")
            .hint("leave out `in_reply_to` and `reply_to`: replies appear in the channel"));
    }
    Ok(match &request.payload {
        Value::String(text) => text.clone(),
        other => format!("{other:#}"),
    })
}

fn posted(message_id: MailId) -> Sent {
    let state = "confirmed".to_owned();
    Sent { message_id, job_id: None, instance: None, state, waiting: None }
}

/// Writes a message and what follows from it.
fn accept(tx: &Tx<'_>, site: &Site, draft: &Draft, sender: Option<&Job>) -> Result<Sent> {
    let c = tx.connection();
    // What a job starts counts for whoever asked for that job.
    let asked_by = sender.map_or(&draft.by, |it| &it.requested_by);
    refuse_disabled(c, asked_by)?;
    if let Some(job) = sender {
        refuse_too_many(tx, job, &draft.to)?;
        if !may_answer(tx, job, draft)? {
            job.require_address(&draft.to)?;
        }
        let own = instances::address_of_job(job);
        if let Some(to) = draft.reply_to.as_ref().filter(|it| Some(*it) != own.as_ref()) {
            job.require_address(to).map_err(|cause| cause.of_input("reply_to"))?;
        }
    }
    let recipient = recipient::resolve(site, c, &draft.to)?;
    if let Some(to) = &draft.reply_to {
        recipient::resolve(site, c, to).map_err(|cause| cause.of_input("reply_to"))?;
    }
    let starts_job = matches!(recipient, Recipient::Inbox(_));
    let message = NewMessage {
        sort: Sort::Message,
        sender: draft.by.clone(),
        from: instances::address_of(c, &draft.by)?,
        to: draft.to.clone(),
        payload: draft.request.payload.clone(),
        category: draft.request.category.clone(),
        in_reply_to: draft.request.in_reply_to.clone(),
        reply_to: draft.reply_to.clone(),
        depth: depth(tx, draft, sender, starts_job)?,
        job_id: sender.map(|it| it.id.clone()),
        approval_id: None,
    };
    if let Recipient::Inbox(name) = &recipient {
        let kind = recipient::inbox(site, name)?;
        // The message has no id yet, and needs none to be refused.
        let new = new_job(site, kind, message.depth, (None, asked_by));
        site.queue.admit(tx, &new)?;
        jobs::require_room(tx, &new)?;
    }
    if let Recipient::Agent(name) = &recipient {
        refuse_full(tx, name)?;
    }
    let lanes = site.queue.capacities();
    write(tx, site, &message, (&recipient, asked_by), &lanes)
}

/// Writes a message to a resolved recipient.
pub(super) fn write(
    tx: &Tx<'_>,
    works: &Works,
    message: &NewMessage,
    (recipient, asked_by): (&Recipient, &Actor),
    lanes: &Capacities,
) -> Result<Sent> {
    let id = mail::send(tx, &works.ids, message)?;
    let written = (&id, &message.sender);
    match recipient {
        // The switch's: its job is left for later.
        Recipient::Inbox(_) if fault::is_off("send_tx") => Ok(queued(id)),
        Recipient::Inbox(name) => {
            fault::crash_point("message_written");
            let kind = recipient::inbox(works, name)?;
            let new = new_job(works, kind, message.depth, (Some(&id), asked_by));
            let job = jobs::enqueue(tx, &works.ids, lanes, &new)?;
            mail::deliver_to_job(tx, written, &message.to, (&job, "job"))?;
            let instance = instances::address(&kind.name, &job);
            Ok(Sent {
                message_id: id,
                job_id: Some(job),
                instance: Some(instance),
                state: "confirmed".to_owned(),
                waiting: None,
            })
        }
        Recipient::Agent(name) => {
            let to = Address::Agent(name.clone());
            mail::deliver(tx, written, &to, None, None)?;
            tx.ring(mail::BELL);
            let by_whom = (&*works.config, tx.now());
            let waiting = match &message.sender {
                // What keeps an agent, and what its program printed, is for people.
                Actor::Job(_) => None,
                _ => agents::why_waiting(tx.connection(), by_whom, (name.as_str(), true))?,
            };
            Ok(Sent { waiting, ..queued(id) })
        }
        Recipient::Instance => {
            mail::deliver(tx, written, &message.to, None, None)?;
            Ok(queued(id))
        }
        Recipient::Person(person) => {
            mail::deliver(tx, written, &message.to, None, Some(person))?;
            Ok(queued(id))
        }
    }
}

fn queued(message_id: MailId) -> Sent {
    let state = "queued".to_owned();
    Sent { message_id, job_id: None, instance: None, state, waiting: None }
}

fn refuse_full(tx: &Tx<'_>, agent: &str) -> Result<()> {
    let (waiting, _) = mail::count_for_agent(tx.connection(), agent)?;
    if waiting < MAIL_QUEUE_MAX {
        return Ok(());
    }
    let message = format!("{waiting} messages wait for agent:{agent} already");
    Err(Error::new(ErrorKind::Busy, message)
        .code("queue_full")
        .hint(format!("see its state: `wiki-browser agent show {agent}`")))
}

/// Returns the job that a message to an inbox starts.
fn new_job(works: &Works, kind: &Kind, depth: u32, (id, by): (Option<&MailId>, &Actor)) -> NewJob {
    NewJob {
        grants: inputs::grants(kind, &Default::default()),
        depth,
        message_id: id.cloned(),
        priority: kind.priority,
        ..NewJob::plain(&kind.name, &works.config.digest, by.clone())
    }
}

/// Refuses a job that sends too much within a minute: to all, or as an agent to another one, which
/// may answer each message, and so on.
fn refuse_too_many(tx: &Tx<'_>, job: &Job, to: &Address) -> Result<()> {
    let since = tx.now().plus(-SENDS_WINDOW_MS);
    let is_to_agent = matches!(to, Address::Agent(_) | Address::Instance { .. });
    if is_to_agent && instances::address_of_job(job).is_some() {
        let sent = mail::recent_of_job_to(tx.connection(), (&job.id, to), (since, tx.now()))?;
        if sent >= MAIL_PAIR_MAX {
            let message =
                format!("job {} has sent {sent} messages to {to} within a minute", job.id);
            return Err(Error::new(ErrorKind::Busy, message)
                .code("too_many_messages")
                .hint("wait a minute; one message can carry more than one thing"));
        }
    }
    let sent = mail::recent_of_job(tx.connection(), &job.id, (since, tx.now()))?;
    if sent < MAIL_SENDS_MAX {
        return Ok(());
    }
    let message = format!("job {} has sent {sent} messages within a minute", job.id);
    Err(Error::new(ErrorKind::Busy, message)
        .code("too_many_messages")
        .hint("wait a minute; one message can carry more than one thing"))
}

/// Returns whether a job answers a message that it received: replies need no grant.
fn may_answer(tx: &Tx<'_>, job: &Job, draft: &Draft) -> Result<bool> {
    let Some(answered) = &draft.request.in_reply_to else { return Ok(false) };
    let message = mail::find(tx.connection(), answered)?;
    let own = instances::address_of_job(job);
    let was_told =
        Some(&message.to) == own.as_ref() || job.message_id.as_ref() == Some(&message.id);
    Ok(was_told && message.answer_to() == Some(&draft.to))
}

/// How many jobs led to a message: those of the message that started its sender, and one more if
/// it starts another.
fn depth(tx: &Tx<'_>, draft: &Draft, sender: Option<&Job>, starts_job: bool) -> Result<u32> {
    let Some(sender) = sender else {
        if draft.depth <= DEPTH_MAX || fault::is_off("script_depth") {
            return Ok(draft.depth);
        }
        let message = format!("{DEPTH_MAX} jobs and messages of the script led to one another");
        return Err(Error::conflict("script_depth", message)
            .hint("a handler must not trigger itself through the messages it sends"));
    };
    let before = jobs::depth_of(tx.connection(), &sender.id)?;
    let depth = before + u32::from(starts_job);
    if depth <= DEPTH_MAX {
        return Ok(depth);
    }
    let message = format!("{before} jobs led to job {} already, one by the other", sender.id);
    Err(Error::conflict("depth", message).hint("reply to the sender instead of starting another"))
}
