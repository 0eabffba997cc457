//! Posting a message: its number, its deliveries, and whether the channel
//! pauses, in one transaction.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::api::mail::Sort as MailSort;
use crate::base::{
    Actor, Address, Error, ErrorKind, Event, EventKind, Ids, JobId, Result, TurnId, fault,
};
use crate::channels::attachment::{self, Uploader};
use crate::channels::chain::{Cause, origin};
use crate::channels::channel::{self, Channel};
use crate::channels::kind::{ChannelType, Speaks};
use crate::channels::member::{self, Member};
use crate::channels::mention::mentions;
use crate::channels::message::{self, Sort, Spoken};
use crate::channels::pause::{self, Pause, Talk};
use crate::channels::waiting;
use crate::channels::wake::{self, CALLS, Listener, Said, Voice};
use crate::mail::{self, NewMessage};
use crate::store::Tx;

/// Longest text of a message, in characters.
pub const TEXT_CHARS_MAX: usize = 50_000;
/// How long a message counts toward the rate limits, in milliseconds.
const RATE_WINDOW_MS: i64 = 60_000;

/// Who posts.
#[derive(Clone, Debug)]
pub enum Author {
    /// A member: a person, or an agent by its job.
    Member {
        /// Its row.
        member: Box<Member>,
        /// The person, or the job of the agent.
        sender: Actor,
        /// Its address.
        from: Option<Address>,
    },
    /// A handler or a schedule of the script.
    Script(Actor),
    /// The server.
    System,
}

impl Author {
    fn voice(&self) -> Voice {
        match self {
            Author::Member { member, .. } if member.is_outside => Voice::Outside,
            Author::Member { member, .. } if member.is_person() => Voice::Person,
            Author::Member { .. } => Voice::Agent,
            Author::Script(_) => Voice::Script,
            Author::System => Voice::System,
        }
    }

    fn member(&self) -> Option<&Member> {
        match self {
            Author::Member { member, .. } => Some(member),
            _ => None,
        }
    }

    fn actor(&self) -> Actor {
        match self {
            Author::Member { member, .. } => member.member.clone(),
            Author::Script(actor) => actor.clone(),
            Author::System => Actor::System,
        }
    }
}

/// A message to post.
#[derive(Clone, Debug)]
pub struct NewPost {
    /// Its author.
    pub author: Author,
    /// Its type.
    pub sort: Sort,
    /// Its text.
    pub text: String,
    /// The handle of the member that it is addressed to.
    pub to: Option<String>,
    /// The number of the message that it replies to, for readers.
    pub in_reply_to: Option<i64>,
    /// The message that caused it.
    pub cause: Option<Cause>,
    /// The turn in which it is posted.
    pub turn: Option<TurnId>,
    /// Whether it is the answer of that turn.
    pub is_answer: bool,
    /// The job of the agent.
    pub job: Option<JobId>,
    /// Uploads of the author to send with it.
    pub attachments: Vec<i64>,
    /// How many jobs and messages of the script led to it, if the script wrote it.
    pub depth: u32,
}

impl NewPost {
    /// Returns a system message.
    pub fn system(text: impl Into<String>) -> NewPost {
        NewPost { sort: Sort::System, ..NewPost::by(Author::System, text) }
    }

    /// Returns a message of the script.
    pub fn by_script(actor: Actor, text: impl Into<String>, depth: u32) -> NewPost {
        NewPost { depth, ..NewPost::by(Author::Script(actor), text) }
    }

    fn by(author: Author, text: impl Into<String>) -> NewPost {
        NewPost {
            author,
            sort: Sort::Message,
            text: text.into(),
            to: None,
            in_reply_to: None,
            cause: None,
            turn: None,
            is_answer: false,
            job: None,
            attachments: Vec::new(),
            depth: 0,
        }
    }
}

/// Posts a message in an open channel.
///
/// # Errors
/// `invalid`: `empty_text`, `unknown_mention`; `too_large`; `forbidden`: `chair_only`;
/// `conflict`: `channel_not_active`, `member_muted`.
pub fn post(
    tx: &Tx<'_>,
    ids: &Ids,
    (channel, kind): (i64, &ChannelType),
    new: &NewPost,
) -> Result<Spoken> {
    let mut channel = channel::find(tx.connection(), channel)?;
    let voice = new.author.voice();
    let members = member::of_channel(tx.connection(), channel.number)?;
    let called = admit(&channel, kind, &members, new)?;
    if voice == Voice::Person && channel.paused.is_some_and(|(why, _)| why.ends_with_a_line()) {
        channel::resume(tx, &channel, &new.author.actor())?;
        channel = channel::find(tx.connection(), channel.number)?;
    }
    let spoken = write(tx, ids, &channel, new)?;
    attach(tx, &spoken, new)?;
    let mentioned: Vec<&Member> =
        members.iter().filter(|it| is_called(it, &called, voice, new)).collect();
    for member in mentioned.iter().filter(|it| !it.has_left()) {
        message::mention(tx, &member.member, channel.number, spoken.sequence)?;
    }
    deliver(tx, (&channel, kind), (&members, &called), (new, &spoken))?;
    tell(tx, &channel, &spoken, &new.author.actor())?;
    if voice == Voice::Agent
        && let Some(why) = pause::pause(&kind.limits, &talk(tx, &channel, &spoken)?)
    {
        pause(tx, ids, (&channel, kind), why)?;
    }
    Ok(spoken)
}

/// Adds a line of the site to a channel that has ended: nobody is woken.
///
/// # Errors
/// As any write.
pub fn add_late_line(tx: &Tx<'_>, ids: &Ids, channel: &Channel, line: &NewPost) -> Result<()> {
    let spoken = write(tx, ids, channel, line)?;
    tell(tx, channel, &spoken, &line.author.actor())
}

/// Pauses a channel and announces it there, once.
///
/// # Errors
/// As any write.
pub fn pause(
    tx: &Tx<'_>,
    ids: &Ids,
    (channel, kind): (&Channel, &ChannelType),
    why: Pause,
) -> Result<()> {
    if fault::is_off("guards") || !channel::pause(tx, channel, why, &Actor::System)? {
        return Ok(());
    }
    let line = NewPost::system(why.sentence(&kind.limits));
    post(tx, ids, (channel.number, kind), &line).map(drop)
}

/// Refuses a message that may not be posted; returns the mentions that are known here.
fn admit(
    channel: &Channel,
    kind: &ChannelType,
    members: &[Member],
    new: &NewPost,
) -> Result<BTreeSet<String>> {
    channel.require_open()?;
    let is_empty = new.text.trim().is_empty() && new.attachments.is_empty();
    if is_empty || new.text.contains('\0') {
        return Err(
            Error::invalid("the message is empty, or has a zero byte in it").code("empty_text")
        );
    }
    if new.text.chars().count() > TEXT_CHARS_MAX {
        let message = format!("a message can have at most {TEXT_CHARS_MAX} characters");
        return Err(Error::new(ErrorKind::TooLarge, message)
            .hint("put a long text into a document, and name its path"));
    }
    if let Some(member) = new.author.member() {
        if member.has_left() {
            let message = format!("{} has left {}", member.handle, channel.slug);
            return Err(Error::new(ErrorKind::Forbidden, message).code("not_a_member"));
        }
        if !member.is_active() && !new.is_answer {
            let message = format!("{} is muted in {}", member.handle, channel.slug);
            return Err(Error::conflict("member_muted", message).hint(match member.agent {
                Some(_) => "wb-agent channel unmute".to_owned(),
                None => format!("wiki-browser channel unmute {} {}", channel.slug, member.handle),
            }));
        }
        if kind.speaks == Speaks::Chair && !member.is_chair {
            let message = format!("only the chair can write in a {}", kind.name);
            return Err(Error::new(ErrorKind::Forbidden, message).code("chair_only"));
        }
    }
    let is_known = |word: &str| {
        CALLS.contains(&word)
            || members.iter().filter(|it| !it.has_left()).any(|it| {
                it.handle.eq_ignore_ascii_case(word)
                    || it.agent.as_deref().is_some_and(|agent| agent.eq_ignore_ascii_case(word))
            })
    };
    let mut called = match new.author {
        // A report that somebody joined does not mention them.
        Author::System => BTreeSet::new(),
        _ => mentions(&new.text),
    };
    called.retain(|word| is_known(word));
    if let Some(to) = &new.to {
        let to = to.trim_start_matches('@').to_ascii_lowercase();
        if !is_known(&to) {
            let here: Vec<&str> =
                members.iter().filter(|it| !it.has_left()).map(|it| it.handle.as_str()).collect();
            let message = format!("no member is called {}", to.escape_debug());
            return Err(Error::invalid(message)
                .code("unknown_mention")
                .of_input("to")
                .hint(format!("members: {}", here.join(", "))));
        }
        called.insert(to);
    }
    Ok(called)
}

fn is_called(member: &Member, called: &BTreeSet<String>, voice: Voice, new: &NewPost) -> bool {
    let is_author = new.author.member().is_some_and(|it| it.member == member.member);
    let may_call_all = !voice.is_guarded() || new.author.member().is_some_and(|it| it.is_chair);
    let is_named = |word: &str| called.contains(&word.to_ascii_lowercase());
    !is_author
        && (is_named(&member.handle)
            || member.agent.as_deref().is_some_and(is_named)
            || (member.is_chair && is_named("chair"))
            || (may_call_all && is_named("all")))
}

/// Writes the message and its number.
fn write(tx: &Tx<'_>, ids: &Ids, channel: &Channel, new: &NewPost) -> Result<Spoken> {
    let voice = match new.author.voice() {
        Voice::Person => "person",
        Voice::Agent => "agent",
        Voice::Outside => "outside",
        Voice::Script if new.author.actor() == Actor::Script => "script",
        // Nothing in the channel led to it.
        Voice::Script => "clock",
        Voice::System => "system",
    };
    let sequence = match fault::is_off("post_tx") {
        // Counts the rows, not the numbers that were given out.
        true => message::before(tx.connection(), channel.number, None, 1)?
            .last()
            .map_or(1, |it| it.sequence + 1),
        false => message::take_sequence(tx, channel.number, voice)?,
    };
    let origin = origin(new.cause.as_ref(), channel.guard_from);
    let hop = origin.hop.max(new.depth);
    let goes_on = new.cause.as_ref().filter(|_| origin.root.is_some());
    let (sender, from) = match &new.author {
        Author::Member { sender, from, .. } => (sender.clone(), from.clone()),
        Author::Script(actor) => (actor.clone(), None),
        Author::System => (Actor::System, None),
    };
    let id = mail::send(
        tx,
        ids,
        &NewMessage {
            sort: MailSort::Message,
            sender,
            from,
            to: Address::Channel(channel.slug.clone()),
            payload: Value::String(new.text.clone()),
            category: None,
            in_reply_to: goes_on.map(|it| it.id.clone()),
            reply_to: None,
            depth: hop,
            job_id: new.job.clone(),
            approval_id: None,
        },
    )?;
    let answers = match new.is_answer {
        true => new.cause.as_ref().map(|it| it.sequence),
        false => new.in_reply_to,
    };
    let spoken = Spoken {
        root: origin.root.unwrap_or_else(|| id.clone()),
        id,
        channel: channel.number,
        sequence,
        sort: new.sort,
        author: new.author.actor(),
        handle: new.author.member().map(|it| it.handle.clone()),
        agent: new.author.member().and_then(|it| it.agent.clone()),
        turn_id: new.turn.clone(),
        answers,
        hop,
        created_at: tx.now(),
    };
    // An answer to a message that is gone answers nothing.
    let is_answer = new.is_answer && answers.is_some();
    message::insert(tx, &spoken, (new.cause.as_ref().map(|it| &it.id), is_answer))?;
    Ok(spoken)
}

/// Sends the uploads of a message with it.
fn attach(tx: &Tx<'_>, spoken: &Spoken, new: &NewPost) -> Result<()> {
    if new.attachments.is_empty() {
        return Ok(());
    }
    let by = new.author.member().map(|member| match (&member.member, &member.agent) {
        (Actor::Person(id), _) if member.is_outside => Some(Uploader::Outsider(id.clone())),
        (Actor::Person(id), _) => Some(Uploader::Person(id.clone())),
        (_, agent) => agent.clone().map(Uploader::Agent),
    });
    match by.flatten() {
        Some(by) => attachment::send(tx, (spoken.channel, &spoken.id), &by, &new.attachments),
        None => {
            let message = "only members attach files";
            Err(Error::new(ErrorKind::Forbidden, message)
                .code("not_a_member")
                .hint("write a document, and name its path in the message"))
        }
    }
}

/// Writes a delivery for each agent that receives the message.
fn deliver(
    tx: &Tx<'_>,
    (channel, kind): (&Channel, &ChannelType),
    (members, called): (&[Member], &BTreeSet<String>),
    (new, spoken): (&NewPost, &Spoken),
) -> Result<()> {
    let author = new.author.member();
    let asks = match &new.cause {
        Some(cause) => mail::find(tx.connection(), &cause.id)?
            .payload
            .as_str()
            .is_some_and(|text| text.contains('?')),
        None => false,
    };
    let said = Said {
        voice: new.author.voice(),
        is_chair: author.is_some_and(|it| it.is_chair),
        sort: new.sort,
        text: &new.text,
        mentions: called,
        answers_a_question: asks,
    };
    let others: Vec<&Member> = members
        .iter()
        .filter(|it| it.is_active() && author.is_none_or(|author| !is_own(author, it)))
        .collect();
    for listener in &others {
        let Some(agent) = &listener.agent else { continue };
        if spoken.agent.as_ref() == Some(agent) {
            continue;
        }
        let who = Listener {
            handle: &listener.handle,
            agent,
            is_chair: listener.is_chair,
            is_only_other: others.len() == 1,
        };
        let is_let = said.voice != Voice::Outside || channel.outside_wakes;
        let wakes = is_let && wake::wakes((kind.speaks, kind.wakes), &said, &who);
        waiting::make_room(tx, agent, channel.number, wakes)?;
        mail::deliver_in_room(tx, &spoken.id, agent, channel.number, wakes)?;
    }
    Ok(())
}

/// Returns whether a member wrote the message itself. A successor in its seat receives it.
fn is_own(author: &Member, member: &Member) -> bool {
    author.member == member.member && author.agent == member.agent
}

fn talk(tx: &Tx<'_>, channel: &Channel, spoken: &Spoken) -> Result<Talk> {
    let c = tx.connection();
    let since = tx.now().plus(-RATE_WINDOW_MS);
    let (of_all, of_author) =
        message::recent(c, channel.number, &spoken.author, (since, tx.now()))?;
    let from = channel.guard_from;
    Ok(Talk {
        hop: spoken.hop,
        without_person: channel::find(c, channel.number)?.agent_messages,
        per_root: message::of_root(c, &spoken.root, &spoken.author, from)?,
        pair: of_author,
        channel: of_all,
    })
}

/// Returns whether a member has reached its rate limit. Agents also share the channel's.
///
/// # Errors
/// As any read.
pub fn is_too_fast(
    tx: &Tx<'_>,
    channel: &Channel,
    kind: &ChannelType,
    member: &Member,
) -> Result<bool> {
    let (c, when) = (tx.connection(), (tx.now().plus(-RATE_WINDOW_MS), tx.now()));
    if member.is_person() {
        let own = message::recent_of(c, channel.number, &member.member, when)?;
        return Ok(own >= kind.limits.pair);
    }
    let (of_all, own) = message::recent(c, channel.number, &member.member, when)?;
    Ok(own >= kind.limits.pair || of_all >= kind.limits.channel)
}

/// Emits that a message was posted: ids only.
fn tell(tx: &Tx<'_>, channel: &Channel, spoken: &Spoken, by: &Actor) -> Result<()> {
    let data = json!({
        "channel": channel.id, "number": channel.number, "sequence": spoken.sequence,
        "message_id": spoken.id, "type": spoken.sort.as_str(),
    });
    let subject = format!("channel:{}", channel.id);
    tx.emit(Event::new(EventKind::ChannelMessage, subject, by.clone(), data))
}
