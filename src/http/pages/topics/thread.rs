//! A Topic: its passage, the thread, its jobs, and its forms.

use askama::Template;
use serde::Deserialize;
use warp::filters::BoxedFilter;
use warp::reply::Response;

use crate::api::jobs::Holder;
use crate::api::proposals::{Proposal, ProposalStatus};
use crate::api::topics::{Message, Placement, PlacementState, Topic, TopicStatus};
use crate::base::{JobId, Millis, ProposalId, Result, TopicId};
use crate::documents::Selection;
use crate::documents::anchor::QUOTE_NOT_FOUND;
use crate::documents::topics::suggestion::blocks;
use crate::documents::topics::{placement, topic};
use crate::flows::topics::reattach::ReattachRequest;
use crate::flows::topics::{MessageRequest, ReasonRequest, TopicQuery};
use crate::flows::{self, Site};
use crate::http::pages::Frame;
use crate::http::pages::documents::passages::{self, line_of};
use crate::http::pages::parts::ansi::{self, Row, Style};
use crate::http::pages::parts::difference::BYTE_ORDER_MARK;
use crate::http::pages::parts::fields::Refused;
use crate::http::pages::parts::job::Job;
use crate::http::pages::parts::visible::{Name, Plain, Visible};
use crate::http::pages::parts::{form, holder, labels};
use crate::http::pages::topics::pending::{self, Pending};
use crate::http::pages::topics::start_job::{self, Start};
use crate::http::pages::topics::suggested_passage::{still_reads, words_in};
use crate::http::pages::topics::suggestion::{self, Part};
use crate::http::{Call, any_of, get, post, reply};
use crate::people::Caller;

/// Largest form of a message, a quote and its context: every byte may be percent-encoded.
const TOPIC_BODY_BYTES_MAX: usize = crate::base::limit::MESSAGE_BODY_BYTES_MAX;
/// Most other Topics of the document that are listed.
const OTHERS_SHOWN: u32 = 50;
/// Context around the passage, in characters on either side.
const AROUND_CHARS_MAX: usize = 320;
/// Longest passage that is shown whole, in characters.
const WORDS_CHARS_MAX: usize = 4_000;
/// Earlier places shown.
const PLACES_SHOWN: usize = 10;
/// Lines of a failed job's output.
const TAIL_LINES: usize = 12;
/// Ended jobs shown.
const ENDED_SHOWN: usize = 4;

#[derive(Template)]
#[template(path = "topic.html")]
struct TopicPage {
    frame: Frame,
    view: flows::topics::TopicPage,
    passage: Option<Passage>,
    /// Its passages in earlier versions, newest first.
    places: Vec<Placement>,
    messages: Vec<Said>,
    jobs: Vec<Worked>,
    more_jobs: usize,
    kinds: Vec<Start>,
    /// The job that must end before another one on the document starts.
    holder: Option<Holder>,
    /// The other open Topics of its document.
    others: Vec<Topic>,
    /// Its passage, if a suggestion can replace it.
    words: Option<String>,
    /// Its last suggestion, if it has no proposal.
    pending: Option<Pending>,
}

/// The Topic next to its document: the thread and its actions.
#[derive(Template)]
#[template(path = "beside.html")]
struct Beside<'p> {
    page: &'p TopicPage,
}

#[derive(Deserialize)]
struct Query {
    /// Whether it is shown next to its document.
    beside: Option<String>,
}

impl TopicPage {
    /// Returns the `data-live` value of the page's parts.
    fn live(&self) -> String {
        let topic = &self.view.topic;
        format!("topic:{} {}", topic.id, form::source_subject(topic.source_path.as_str()))
    }

    /// Returns the proposals awaiting a decision.
    fn waiting(&self) -> impl Iterator<Item = &Proposal> {
        self.view.proposals.iter().filter(|it| it.is_open())
    }

    /// Returns what can be done about a proposal: one that is decided is only read.
    fn verb_of(&self, proposal: &ProposalId) -> &'static str {
        if self.waiting().any(|it| it.id == *proposal) { "Review" } else { "View" }
    }

    /// Returns the kinds that need only a button to start.
    fn simple_kinds(&self) -> impl Iterator<Item = &Start> {
        self.kinds.iter().filter(|it| !it.asks())
    }

    /// Returns the name of the kind that turns a suggestion into a proposal at once.
    fn applying(&self) -> Option<&str> {
        self.kinds.iter().find(|it| it.applies).map(|it| it.name.as_str())
    }

    /// Returns whether there are ended jobs besides the latest one.
    fn has_earlier(&self) -> bool {
        self.more_jobs > 0 || self.jobs.iter().any(|it| !it.is_card)
    }

    /// Returns the state of the passage in the current text.
    fn place_words(&self) -> &'static str {
        match self.view.topic.placement.as_ref() {
            None => "The document can’t be read; this is the last known passage.",
            place => labels::placement_words(place),
        }
    }

    /// Returns whether the passage has changed since it was marked.
    fn is_reworded(&self) -> bool {
        let placement = self.view.topic.placement.as_ref();
        let is_other = placement
            .is_some_and(|it| !matches!(it.state, PlacementState::Exact | PlacementState::Shifted));
        is_other && self.passage.is_some()
    }
}

/// The passage of a Topic with its context.
struct Passage {
    before: Visible,
    words: Visible,
    after: Visible,
    line: usize,
}

/// A message on the page.
pub(in crate::http::pages) struct Said {
    pub(in crate::http::pages) message: Message,
    pub(in crate::http::pages) parts: Vec<Part>,
    /// What the message decided about a proposal.
    pub(in crate::http::pages) verdict: Option<String>,
}

impl Said {
    /// Shows a message of a Topic with a passage.
    pub(in crate::http::pages) fn of(
        message: Message,
        document: &str,
        words: Option<&str>,
    ) -> Said {
        let name = format!("m{}", message.sequence);
        let parts = suggestion::parts(&name, &message.body, document, words);
        Said { parts, message, verdict: None }
    }

    /// Shows messages of a Topic, with each suggestion next to the passage at its time.
    pub(in crate::http::pages) async fn all(
        site: &Site,
        topic: &Topic,
        messages: Vec<Message>,
    ) -> Result<Vec<Said>> {
        let (id, path) = (&topic.id, &topic.source_path);
        let suggests = |it: &Message| !blocks(&it.body).0.is_empty();
        let times = messages.iter().filter(|it| suggests(it)).map(|it| it.created_at).collect();
        let mut words =
            flows::proposals::suggestions::words_at(site, id, path, times).await?.into_iter();
        let quote = topic.anchor.as_ref().map(|it| it.quote.as_str());
        let said = messages.into_iter().map(|message| {
            let then = if suggests(&message) { words.next().flatten() } else { None };
            Said::of(message, path.as_str(), then.as_deref().or(quote))
        });
        Ok(said.collect())
    }

    /// Describes a person's message with a proposal.
    fn judge(&mut self, proposals: &[Proposal]) {
        let Some(id) = &self.message.proposal_id else { return };
        let Some(about) = proposals.iter().find(|it| it.id == *id) else { return };
        if self.message.author.job().is_some() {
            return;
        }
        let is_reason = about.reason.as_deref().map(str::trim) == Some(self.message.body.trim());
        let verb = match about.status == ProposalStatus::Rejected && is_reason {
            true => "Rejected",
            false => "Requested changes to",
        };
        self.verdict = Some(format!("{verb} revision {}", about.revision_number));
    }
}

/// A job in the thread.
struct Worked {
    job: Job,
    sentence: String,
    elapsed_ms: Option<i64>,
    /// The end of its output if it failed.
    tail: Vec<Row>,
    /// Whether it is shown in full, and not as one of the earlier ones.
    is_card: bool,
}

impl Worked {
    fn of(job: Job, now: Millis) -> Worked {
        let tail = job.error_tail.as_deref().filter(|_| job.has_failed()).unwrap_or_default();
        let tail = labels::ending(tail, TAIL_LINES);
        Worked {
            sentence: labels::job_sentence(&job, now),
            elapsed_ms: labels::elapsed_ms(&job, now),
            tail: ansi::rows(&tail, Style::default(), false).0,
            is_card: false,
            job,
        }
    }

    /// Shows running jobs and the last ended one in full; next to a running one, the ended one only
    /// if it failed and is not being retried.
    fn choose(jobs: &mut [Worked]) {
        let is_busy = jobs.iter().any(|it| it.job.is_active());
        let repeated: Vec<JobId> = jobs
            .iter()
            .filter(|it| it.job.is_active())
            .filter_map(|it| it.job.retry_of.clone())
            .collect();
        if let Some(last) = jobs.iter_mut().find(|it| !it.job.is_active()) {
            last.is_card = !is_busy || last.has_failed() && !repeated.contains(&last.job.id);
        }
        for job in jobs.iter_mut().filter(|it| it.job.is_active()) {
            job.is_card = true;
        }
    }

    fn has_failed(&self) -> bool {
        self.job.has_failed()
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NewMessage {
    key: String,
    #[serde(default)]
    body: String,
    /// The replacement text.
    suggestion: Option<String>,
    /// The passage that was typed over.
    over: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NewPlace {
    quote: String,
    #[serde(default)]
    source_path: String,
    #[serde(default)]
    prefix: String,
    #[serde(default)]
    suffix: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Why {
    #[serde(default)]
    reason: String,
}

pub(in crate::http::pages) fn routes(site: &Site) -> BoxedFilter<(Response,)> {
    any_of([
        get("/topics/{id}", site, show),
        post("/topics/{id}/messages", site, message),
        post("/topics/{id}/jobs", site, start_job::start),
        post("/topics/{id}/anchor", site, reattach),
        post("/topics/{id}/discard", site, async |site, call| {
            set_status(site, call, TopicStatus::Discarded).await
        }),
        post("/topics/{id}/reopen", site, async |site, call| {
            set_status(site, call, TopicStatus::Open).await
        }),
    ])
}

/// Returns the address of a Topic.
pub(in crate::http::pages) fn at(id: &TopicId) -> String {
    format!("/topics/{id}")
}

async fn show(site: Site, call: Call) -> Result<Response> {
    let seen = Frame::of(&site, &call, "/topics")?;
    let (id, query): (TopicId, Query) = (call.param("id")?, call.query()?);
    let page = page(&site, seen, &id, None).await?;
    if query.beside.is_none() {
        return reply::page(&page);
    }
    let html = Beside { page: &page }.render().map_err(reply::unwritten)?;
    Ok(reply::html(html))
}

/// Shows the Topic again after a kind's form was refused, with the typed values and the error.
pub(in crate::http::pages) async fn refused(
    site: &Site,
    seen: (Frame, Caller),
    id: &TopicId,
    refused: Refused,
) -> Result<Response> {
    reply::refused(&page(site, seen, id, Some(&refused)).await?, &refused.cause)
}

async fn page(
    site: &Site,
    (mut frame, caller): (Frame, Caller),
    id: &TopicId,
    refused: Option<&Refused>,
) -> Result<TopicPage> {
    let mut view = flows::topics::show(site, &caller, id).await?;
    let path = view.topic.source_path.clone();
    frame.name_documents(site, [path.as_str()]).await;
    // If the document is missing or cannot be shown, the quote remains.
    let text = site.repo.present(&path).await.map_or_else(|_| String::new(), |(_, text)| text);
    let passage = passages::place(&view.topic).and_then(|it| passage(&text, it));
    let words = words_in(&text, &view.topic);
    let found: Vec<Job> = std::mem::take(&mut view.jobs).into_iter().map(Job::from).collect();
    let shown = found.iter().filter(|it| it.is_active()).count() + ENDED_SHOWN;
    let more_jobs = found.len().saturating_sub(shown);
    let mut jobs = found;
    jobs.sort_by_key(|it| !it.is_active());
    let jobs = jobs.into_iter().take(shown).map(|it| Worked::of(it, frame.now()));
    let mut jobs: Vec<Worked> = jobs.collect();
    Worked::choose(&mut jobs);
    let messages = std::mem::take(&mut view.messages);
    let mut messages = Said::all(site, &view.topic, messages).await?;
    messages.iter_mut().for_each(|it| it.judge(&view.proposals));
    let is_deleted = view.topic.source_deleted.is_some();
    let holder = holder::of(site, &caller, &path).await?;
    let is_busy = jobs.iter().any(|it| it.job.is_active());
    let obstacle = (is_busy, holder.as_ref());
    let pending = pending::pending(site, &caller, &view, &messages, obstacle).await?;
    let query = TopicQuery {
        source_path: Some(path),
        status: Some(TopicStatus::Open.to_string()),
        limit: Some(OTHERS_SHOWN),
        ..TopicQuery::default()
    };
    let others = flows::topics::list(site, &caller, query).await?;
    let others: Vec<Topic> = others.items.into_iter().filter(|it| it.id != view.topic.id).collect();
    let asked = id.clone();
    let mut places = site.store.read(move |c| placement::history(c, &asked)).await?;
    places.reverse();
    places.truncate(PLACES_SHOWN);
    let kinds = match is_deleted {
        // No job can start on a missing document.
        true => Vec::new(),
        false => start_job::starts(site, caller.person()?, &others, refused).await,
    };
    Ok(TopicPage {
        kinds,
        holder,
        messages,
        frame,
        view,
        passage,
        places,
        jobs,
        more_jobs,
        others,
        words,
        pending,
    })
}

/// Returns where a form of a Topic leads back to: the list, if the Topic no longer exists.
pub(in crate::http::pages) fn back(site: &Site, id: &TopicId) -> String {
    let is_there = site.store.look(|c| topic::find(c, id, None)).is_ok();
    if is_there { at(id) } else { form::TOPICS.to_owned() }
}

/// Cuts the passage of a Topic out of the text, with its context.
fn passage(text: &str, range: std::ops::Range<usize>) -> Option<Passage> {
    let (before, words, after) =
        (text.get(..range.start)?, text.get(range.clone())?, text.get(range.end..)?);
    // The rest of its paragraph, cut if it is long.
    let start = before.rfind("\n\n").map_or(0, |it| it + 2);
    let cut = before.char_indices().rev().nth(AROUND_CHARS_MAX).map_or(0, |(at, _)| at);
    let mut lead = &before[start.max(cut)..];
    if cut == 0 && start == 0 {
        lead = lead.strip_prefix(BYTE_ORDER_MARK).unwrap_or(lead);
    }
    let is_cut = cut > start;
    if is_cut {
        lead = lead.find(' ').map_or(lead, |it| &lead[it + 1..]);
    }
    let mark = if is_cut { "… " } else { "" };
    let after = after.find("\n\n").map_or(after, |end| &after[..end]);
    Some(Passage {
        before: Visible(format!("{mark}{lead}")),
        words: Visible(labels::beginning(words, WORDS_CHARS_MAX)),
        after: Visible(labels::beginning(after.trim_end(), AROUND_CHARS_MAX)),
        line: line_of(text, range.start),
    })
}

async fn message(site: Site, mut call: Call) -> Result<Response> {
    let (sent, digest): (NewMessage, _) = call.form_with_digest(2 * TOPIC_BODY_BYTES_MAX).await?;
    let key = call.key_of_form(sent.key, digest)?;
    let (id, caller): (TopicId, _) = (call.param("id")?, call.caller()?);
    let body = form::text(&sent.body);
    let words = sent.suggestion.as_deref().map(form::text);
    let request = MessageRequest { body: body.clone(), suggestion: words.clone(), propose: false };
    let made = match sent.over {
        Some(over) if words.is_some() => {
            still_reads(&site, &caller, (&id, &over), key.clone()).await
        }
        _ => Ok(()),
    };
    let made = match made {
        Ok(()) => {
            flows::topics::post_message(&site, &caller, &id, request, Some(key.clone())).await
        }
        Err(cause) => Err(cause),
    };
    if made.is_ok() && words.is_some() {
        // The Topic shows why the job was refused; the suggestion waits there.
        flows::proposals::apply::apply(&site, &caller, &id, (), Some(&key)).await;
    }
    let body = words.map_or(body.clone(), |words| format!("{body}\n\n{words}"));
    let to = |it: crate::documents::Message| format!("{}#message-{}", at(&id), it.sequence);
    form::answer(made, to, back(&site, &id), Some(body))
}

async fn reattach(site: Site, mut call: Call) -> Result<Response> {
    let sent: NewPlace = call.form(2 * TOPIC_BODY_BYTES_MAX).await?;
    let (id, caller): (TopicId, _) = (call.param("id")?, call.caller()?);
    let quote = form::text(&sent.quote).trim_matches('\n').to_owned();
    let source_path = form::optional(&sent.source_path).map(|it| it.parse()).transpose()?;
    let request = |quote: String| ReattachRequest {
        selection: Selection::Words {
            blob: None,
            quote,
            prefix: form::text(&sent.prefix),
            suffix: form::text(&sent.suffix),
        },
        source_path: source_path.clone(),
        reason: None,
    };
    let done = flows::topics::reattach::reattach(&site, &caller, &id, request(quote.clone())).await;
    let done = match done {
        // As when a Topic is opened: in a document with `\r
        // `, the passage has those.
        Err(cause) if cause.code_str() == QUOTE_NOT_FOUND && quote.contains('\n') => {
            let again = request(quote.replace('\n', "\r\n"));
            flows::topics::reattach::reattach(&site, &caller, &id, again).await
        }
        done => done,
    };
    form::answer(done, |_| at(&id), back(&site, &id), Some(quote))
}

async fn set_status(site: Site, mut call: Call, to: TopicStatus) -> Result<Response> {
    let sent: Why = call.form(TOPIC_BODY_BYTES_MAX).await?;
    let (id, caller): (TopicId, _) = (call.param("id")?, call.caller()?);
    let reason = form::optional(&sent.reason);
    let request = ReasonRequest { reason: reason.clone() };
    let done = match to {
        TopicStatus::Open => flows::topics::reopen(&site, &caller, &id, request).await,
        _ => flows::topics::discard(&site, &caller, &id, request).await.map(|it| it.topic),
    };
    form::answer(done, |_| at(&id), back(&site, &id), reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_shown_with_what_stands_around_them() {
        let text = format!("# Head\n\n{}before the words after it\n\nOther\n", "long ".repeat(200));
        let start = text.find("the words").unwrap();
        let found = passage(&text, start..start + 9).unwrap();
        assert_eq!((found.words.0.as_str(), found.line), ("the words", 3));
        assert!(found.before.0.starts_with("… long long") && found.before.0.ends_with("before "));
        assert_eq!(found.after.0, " after it");
        assert!(passage("ü", 1..2).is_none(), "not within a character");
    }
}
