//! The review of a proposal: the request, the changes, their effects, and the decision.

use askama::Template;
use serde::Deserialize;
use warp::filters::BoxedFilter;
use warp::reply::Response;

use crate::api::jobs::Status;
use crate::api::proposals::{self, Fate, How, ProposalStatus, Revision};
use crate::api::sources::SourceState;
use crate::api::topics::{Message, Topic};
use crate::base::{BlobId, Error, JobId, ProposalId, Result};
use crate::documents::proposals::proposal;
use crate::documents::topics::suggestion::{self, Suggestion};
use crate::flows::proposals::approve::ApproveRequest;
use crate::flows::proposals::rework::ReworkRequest;
use crate::flows::proposals::{ProposalAgainst, RejectRequest};
use crate::flows::{self, Site};
use crate::http::markdown::Html;
use crate::http::pages::Frame;
use crate::http::pages::documents::passages::{self, line_of};
use crate::http::pages::parts::difference::Difference;
use crate::http::pages::parts::job::Job;
use crate::http::pages::parts::labels::Tone;
use crate::http::pages::parts::reading::Reading;
use crate::http::pages::parts::visible::{Name, Plain, Visible};
use crate::http::pages::parts::{form, labels};
use crate::http::pages::proposals::edit;
use crate::http::pages::topics::suggested_passage::still_reads;
use crate::http::pages::topics::suggestion::{Part, written};
use crate::http::pages::topics::thread::Said;
use crate::http::{Call, any_of, get, post, reply};
use crate::people::Caller;

/// Largest form of a decision, with a reason or a commit message.
const DECISION_BODY_BYTES_MAX: usize = crate::base::limit::DECISION_BODY_BYTES_MAX;
/// Characters of a passage in the list of fates.
const PASSAGE_CHARS_MAX: usize = 240;
/// Messages shown from the end of the thread, besides the first.
const MESSAGES_SHOWN: usize = 2;

#[derive(Template)]
#[template(path = "proposal.html")]
struct ProposalPage {
    frame: Frame,
    view: proposals::ProposalPage,
    query: Query,
    difference: Difference,
    /// The rendered view, if requested and not too large.
    reading: Option<Reading>,
    /// The start and the end of the thread.
    asked: Vec<Said>,
    /// The number of messages in between.
    left_out: usize,
    quote: Option<String>,
    maker: Option<Job>,
    fates: Vec<FateShown>,
    /// The agent's summary.
    summary: Option<Html>,
    /// The text of the last suggestion, if the job only applies suggestions.
    suggested: Option<String>,
    /// Whether these words are those of an edit, whose other changes stay.
    is_edited: bool,
    /// Whether its Topic has no place in the document that such a job could change.
    is_unplaced: bool,
}

/// The fate of another Topic, and its place.
struct FateShown {
    fate: Fate,
    tone: Tone,
    /// The line of its passage in the new text.
    line: Option<usize>,
    /// Its new passage, if it differs.
    after: Option<String>,
}

/// Returns the name of the model of a job's agent, if its engine reported it.
fn model(job: &Job) -> Option<&str> {
    job.usage.as_ref()?.get("model")?.as_str()
}

/// Returns names and addresses of people in trailers of the commit.
fn named(trailers: &[String]) -> Vec<(&str, &str)> {
    let split = |it: &'_ String| it.rfind(" <").unwrap_or(it.len());
    trailers.iter().map(|it| it.split_at(split(it))).collect()
}

#[derive(Clone, Debug, Default, Deserialize)]
struct Query {
    /// The diff is against this revision instead of the base.
    against: Option<String>,
    /// The number of another requested revision.
    to: Option<String>,
    /// `split`, `unified` or `rendered`.
    view: Option<String>,
    /// The first row of a later page.
    from: Option<usize>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Approve {
    key: String,
    text_digest: String,
    base_source_sha: BlobId,
    #[serde(default)]
    subject: String,
    #[serde(default)]
    body: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Reject {
    reason: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Rework {
    key: String,
    #[serde(default)]
    reason: String,
    /// The text itself, if no agent wrote one.
    suggestion: Option<String>,
    /// The passage that it replaces, as the page shows it; empty if it is not known.
    #[serde(default)]
    over: String,
}

pub(in crate::http::pages) fn routes(site: &Site) -> BoxedFilter<(Response,)> {
    any_of([
        get("/proposals/{id}", site, show),
        post("/proposals/{id}/approve", site, approve),
        post("/proposals/{id}/reject", site, reject),
        post("/proposals/{id}/rework", site, rework),
    ])
}

impl ProposalPage {
    /// Returns the address of this page in another view.
    fn seen(&self, view: &str) -> String {
        let path = format!("/proposals/{}", self.view.proposal.id);
        form::address(&path, &[("against", self.query.against.as_deref()), ("view", Some(view))])
    }

    /// Returns the address of the next page of a long diff.
    fn next_part(&self) -> Option<String> {
        let next = self.difference.next?.to_string();
        let path = format!("/proposals/{}", self.view.proposal.id);
        let query = [
            ("against", self.query.against.as_deref()),
            ("view", self.query.view.as_deref()),
            ("from", Some(next.as_str())),
        ];
        Some(form::address(&path, &query))
    }

    /// Returns the `data-live` value of the page's parts.
    fn live(&self) -> String {
        live(&self.view)
    }

    fn messages_between(&self) -> String {
        labels::count_of(self.left_out, "message", "messages")
    }

    fn mode(&self) -> &str {
        match self.query.view.as_deref() {
            Some("rendered") if self.reading.is_some() => "rendered",
            Some("split") => "split",
            Some("unified") => "unified",
            _ => "auto",
        }
    }

    /// Returns the closed Topic without which nothing but a rejection is possible.
    fn closed_topic(&self) -> Option<&Topic> {
        std::iter::once(&self.view.topic).chain(&self.view.further_topics).find(|it| !it.is_open())
    }

    /// Returns whether changes can be requested.
    fn is_reworkable(&self) -> bool {
        let it = &self.view;
        it.rework_job_id.is_none() && it.proposal.job_id.is_some() && self.closed_topic().is_none()
    }

    /// Returns whether its text is edited by hand, here or on the command line.
    fn is_editable(&self) -> bool {
        let it = &self.view;
        it.proposal.is_open() && it.rework_job_id.is_none() && self.closed_topic().is_none()
    }

    /// Returns whether the form for that can keep the text as it is.
    fn has_editor(&self) -> bool {
        edit::has_one_line_end(&self.view.text)
    }

    fn changes(&self) -> usize {
        self.reading.as_ref().map_or(self.difference.changes, |it| it.changes)
    }

    /// Returns whether a person can still decide.
    fn is_undecided(&self) -> bool {
        matches!(self.view.proposal.status.as_str(), "open" | "stale")
    }

    /// Returns whether the document already has this text from another change.
    fn is_there(&self) -> bool {
        self.view.base.head_blob.as_ref() == Some(&self.view.proposal.proposed_sha)
    }

    /// Returns how many other Topics have a given fate.
    fn fated(&self, tone: Tone) -> usize {
        self.fates.iter().filter(|it| it.tone == tone).count()
    }

    /// Returns the previous revision.
    fn before(&self) -> Option<&Revision> {
        let number = self.view.proposal.revision_number;
        self.view
            .revisions
            .iter()
            .filter(|it| it.revision_number < number)
            .max_by_key(|it| it.revision_number)
    }
}

/// Returns everything about a proposal, for parts of its pages that follow events.
pub(in crate::http::pages) fn live(view: &proposals::ProposalPage) -> String {
    let it = &view.proposal;
    let source = form::source_subject(it.source_path.as_str());
    let jobs = it.job_id.iter().chain(&view.rework_job_id).map(|it| format!(" job:{it}"));
    format!("proposal:{} topic:{} {source}{}", it.id, view.topic.id, jobs.collect::<String>())
}

async fn show(site: Site, call: Call) -> Result<Response> {
    let (mut frame, caller) = Frame::of(&site, &call, "/decisions")?;
    let id: ProposalId = call.param("id")?;
    let mut query: Query = call.query()?;
    query.against = query.against.filter(|it| it != "base" && !it.is_empty());
    let asked = ProposalAgainst { against: query.against.clone() };
    let view = flows::proposals::show(&site, &caller, &id, asked).await?;
    let to = query.to.take().and_then(|it| it.parse::<i64>().ok());
    let other = view.revisions.iter().find(|it| Some(it.revision_number) == to);
    if let Some(other) = other.filter(|it| it.id != view.proposal.id) {
        let to = format!("/proposals/{}", other.id);
        let own = other.revision_number.to_string();
        let against = query.against.as_deref().filter(|it| *it != own);
        let kept = [("against", against), ("view", query.view.as_deref())];
        return reply::see_other(&form::address(&to, &kept));
    }
    let old = match &view.against {
        None => view.base_text.clone(),
        Some(earlier) => {
            let earlier = earlier.id.clone();
            site.store.read(move |c| proposal::text(c, &earlier)).await?
        }
    };
    let topic = view.topic.id.clone();
    let thread = flows::topics::show(&site, &caller, &topic).await?;
    let quote = passage(&site, &thread.topic).await;
    let maker = maker(&site, &caller, view.proposal.job_id.as_ref()).await?;
    let own = view.proposal.id.clone();
    let mut suggested = suggested(&site, maker.as_ref(), &thread.messages);
    let edited = match suggested {
        Some(_) => flows::proposals::revised::words(&site, &own).await?,
        None => None,
    };
    let is_edited = edited.is_some();
    suggested = edited.or(suggested);
    let is_unplaced = suggested.is_some() && labels::has_no_place(thread.topic.placement.as_ref());
    let (asked, left_out) = excerpt(thread.messages);
    let path = view.proposal.source_path.clone();
    frame.name_documents(&site, [path.as_str()]).await;
    let asked = Said::all(&site, &view.topic, asked).await?;
    let summary = view.proposal.summary.as_deref();
    let summary = summary.map(|it| written("summary", it, path.as_str()));
    let is_rendered = query.view.as_deref() == Some("rendered");
    let (new, from) = (view.text.clone(), query.from.unwrap_or(0));
    let (difference, reading) = compared(old, new, from, is_rendered).await?;
    let fates = view.fate.iter().map(|it| fate(it, &view.text)).collect();
    reply::page(&ProposalPage {
        difference,
        reading,
        quote,
        summary,
        suggested,
        is_edited,
        is_unplaced,
        frame,
        query,
        asked,
        left_out,
        maker,
        fates,
        view,
    })
}

/// Returns the words of a Topic in the current text, or else the last known ones. The stored ones
/// follow a change of the document a little later than the page does.
async fn passage(site: &Site, topic: &Topic) -> Option<String> {
    let known = topic.anchor.as_ref().map(|it| it.quote.clone());
    let now = async {
        let place = passages::place(topic)?;
        let (blob, text) = site.repo.present(&topic.source_path).await.ok()?;
        let placed_in = &topic.placement.as_ref()?.blob;
        text.get(place).filter(|_| *placed_in == blob).map(str::to_owned)
    };
    now.await.or(known)
}

/// Compares two texts on a blocking thread, because large ones take a while.
async fn compared(
    old: String,
    new: String,
    from: usize,
    is_rendered: bool,
) -> Result<(Difference, Option<Reading>)> {
    let work = tokio::task::spawn_blocking(move || {
        let reading = if is_rendered { Reading::of(&old, &new) } else { None };
        (Difference::of(&old, &new, from), reading)
    });
    work.await.map_err(|cause| Error::internal("comparing two texts failed").source(cause))
}

/// Returns the first and the last messages of a thread, and how many are between them.
fn excerpt(messages: Vec<Message>) -> (Vec<Message>, usize) {
    let last = messages.len().saturating_sub(MESSAGES_SHOWN).max(1);
    let left_out = last - 1;
    let all = messages.into_iter().enumerate();
    (all.filter(|(at, _)| *at == 0 || *at >= last).map(|(_, it)| it).collect(), left_out)
}

async fn maker(site: &Site, caller: &Caller, job: Option<&JobId>) -> Result<Option<Job>> {
    let Some(job) = job else { return Ok(None) };
    Ok(Some(flows::jobs::show(site, caller, job).await?.into()))
}

fn fate(it: &Fate, text: &str) -> FateShown {
    let place = it.after.as_ref().and_then(|it| Some(it.start?..it.end?));
    let words = place.as_ref().and_then(|it| text.get(it.clone()));
    FateShown {
        fate: it.clone(),
        tone: labels::fate_state(it).0,
        line: place.as_ref().filter(|it| !it.is_empty()).map(|it| line_of(text, it.start)),
        after: words
            .filter(|words| **words != it.quote)
            .map(|it| labels::beginning(it, PASSAGE_CHARS_MAX)),
    }
}

async fn approve(site: Site, mut call: Call) -> Result<Response> {
    let (sent, digest): (Approve, _) = call.form_with_digest(DECISION_BODY_BYTES_MAX).await?;
    let key = call.key_of_form(sent.key, digest)?;
    let (id, caller): (ProposalId, _) = (call.param("id")?, call.caller()?);
    let request = ApproveRequest {
        text_digest: sent.text_digest,
        base_source_sha: sent.base_source_sha,
        subject: form::optional(&sent.subject),
        body: form::optional(&sent.body),
    };
    let at = format!("/proposals/{id}");
    let typed = [request.subject.clone(), request.body.clone()].into_iter().flatten();
    let typed = Some(typed.collect::<Vec<_>>().join("\n\n")).filter(|it| !it.is_empty());
    let done = flows::proposals::approve::approve(&site, &caller, &id, request, Some(key)).await;
    form::answer(done, |_| at.clone(), at.clone(), typed)
}

async fn reject(site: Site, mut call: Call) -> Result<Response> {
    let sent: Reject = call.form(DECISION_BODY_BYTES_MAX).await?;
    let (id, caller): (ProposalId, _) = (call.param("id")?, call.caller()?);
    let reason = form::text(&sent.reason).trim().to_owned();
    let request = RejectRequest { reason: reason.clone() };
    let done = flows::proposals::reject(&site, &caller, &id, request).await;
    let at = format!("/proposals/{id}");
    form::answer(done, |_| at.clone(), at.clone(), Some(reason))
}

async fn rework(site: Site, mut call: Call) -> Result<Response> {
    let (sent, digest): (Rework, _) = call.form_with_digest(DECISION_BODY_BYTES_MAX).await?;
    let key = call.key_of_form(sent.key, digest)?;
    let (id, caller): (ProposalId, _) = (call.param("id")?, call.caller()?);
    let reason = form::text(&sent.reason).trim().to_owned();
    let words = sent.suggestion.as_deref().map(form::text);
    let typed = words.iter().fold(reason.clone(), |typed, it| format!("{typed}\n\n{it}"));
    let reason = match &words {
        None => Ok(reason),
        Some(words) => suggestion::message(&reason, words),
    };
    let asked = async {
        let request = ReworkRequest { reason: reason? };
        if words.is_some() && !sent.over.is_empty() {
            let own = id.clone();
            let topic = site.store.read(move |c| Ok(proposal::find(c, &own)?.topic_id)).await?;
            still_reads(&site, &caller, (&topic, &sent.over), key.clone()).await?;
        }
        flows::proposals::rework::ask(&site, &caller, &id, request, Some(key)).await
    };
    let asked = asked.await;
    // The next revision replaces this one there when it arrives.
    let at = || format!("/proposals/{id}");
    form::answer(asked, |_| at(), at(), Some(typed))
}

/// Returns the text of the suggestions that a proposal applies.
fn suggested(site: &Site, maker: Option<&Job>, messages: &[Message]) -> Option<String> {
    let kind = site.config.kinds.get(&maker?.kind)?;
    if !flows::proposals::suggestions::applies(&site.config, kind) {
        return None;
    }
    let last = messages.iter().rev().find_map(|it| suggestion::last(&it.body));
    Some(match last {
        Some(Suggestion::Text(words)) => words,
        _ => String::new(),
    })
}
