//! Proposals: their list, the review of one, and the decision.

use std::collections::BTreeMap;

use askama::Template;
use serde::Deserialize;
use warp::filters::BoxedFilter;
use warp::reply::Response;

use crate::base::{BlobId, Error, ProposalId, Result, TopicId};
use crate::documents::topic;
use crate::flows::approve::ApproveRequest;
use crate::flows::edit::EditRequest;
use crate::flows::proposals::{ProposalAgainst, ProposalQuery, RejectRequest};
use crate::flows::rework::ReworkRequest;
use crate::flows::{self, Site};
use crate::http::pages::changes::{Change, Sort, changes};
use crate::http::pages::view::{Fate, List, Proposal, ProposalView, read};
use crate::http::pages::visible::Visible;
use crate::http::pages::{Frame, form, words};
use crate::http::{Call, any_of, get, post, reply};

/// A decision with a reason or a commit's subject.
const DECISION_BODY_BYTES_MAX: usize = crate::base::limit::DECISION_BODY_BYTES_MAX;
/// An edited text as a form.
const EDIT_BODY_BYTES_MAX: usize = crate::base::limit::PROPOSAL_BODY_BYTES_MAX;
/// Characters of a passage in the list of fates.
const PASSAGE_CHARS_MAX: usize = 240;

/// A proposal in a list.
pub(super) struct ProposalRow {
    pub(super) proposal: Proposal,
    /// What the Topic that it settles is called.
    pub(super) title: String,
}

#[derive(Template)]
#[template(path = "proposals.html")]
struct ProposalsPage {
    frame: Frame,
    status: Option<String>,
    proposals: Vec<ProposalRow>,
    is_first: bool,
    next: Option<String>,
}

#[derive(Template)]
#[template(path = "proposal.html")]
struct ProposalPage {
    frame: Frame,
    view: ProposalView,
    changes: Vec<Change>,
    added: usize,
    removed: usize,
}

impl ProposalPage {
    /// Returns the new words of a Topic, where they differ from its quote.
    fn words_after(&self, fate: &Fate) -> Option<String> {
        let after = fate.after.as_ref()?;
        let words = self.view.text.get(after.start?..after.end?)?;
        (words != fate.quote).then(|| words::beginning(words, PASSAGE_CHARS_MAX))
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Approve {
    key: String,
    text_digest: String,
    base_source_sha: BlobId,
    #[serde(default)]
    subject: String,
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
    reason: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Edit {
    key: String,
    text_digest: String,
    text: String,
}

#[derive(Template)]
#[template(path = "edit.html")]
struct EditPage {
    frame: Frame,
    view: ProposalView,
}

pub(super) fn routes(site: &Site) -> BoxedFilter<(Response,)> {
    any_of([
        get("/proposals", site, list),
        get("/proposals/{id}", site, show),
        post("/proposals/{id}/approve", site, approve),
        post("/proposals/{id}/reject", site, reject),
        post("/proposals/{id}/rework", site, rework),
        get("/proposals/{id}/edit", site, edit_form),
        post("/proposals/{id}/edit", site, edit),
    ])
}

/// Returns proposals as a list shows them: with the titles of their Topics.
pub(super) async fn rows(site: &Site, proposals: Vec<Proposal>) -> Result<Vec<ProposalRow>> {
    let ids: Vec<TopicId> =
        proposals.iter().map(|it| it.topic_id.parse()).collect::<Result<_>>()?;
    let find = move |c: &rusqlite::Connection| {
        let mut titles = BTreeMap::new();
        for id in ids {
            titles.insert(id.to_string(), topic::find(c, &id, None)?.title);
        }
        Ok(titles)
    };
    let titles = site.store.read(find).await?;
    let row = |proposal: Proposal| ProposalRow {
        title: titles.get(&proposal.topic_id).cloned().unwrap_or_default(),
        proposal,
    };
    Ok(proposals.into_iter().map(row).collect())
}

async fn list(site: Site, call: Call) -> Result<Response> {
    let (frame, caller) = Frame::of(&site, &call, "/proposals")?;
    let asked: ProposalQuery = call.query()?;
    let (status, is_first) = (asked.status.clone(), asked.after.is_none());
    let source_path = asked.source_path.as_ref().map(ToString::to_string);
    let topic_id = asked.topic_id.as_ref().map(ToString::to_string);
    let limit = asked.limit.map(|it| it.to_string());
    let found: List<Proposal> = read(flows::proposals::list(&site, &caller, asked).await?)?;
    let next = found.next.map(|next| {
        let query = [
            ("status", status.as_deref()),
            ("source_path", source_path.as_deref()),
            ("topic_id", topic_id.as_deref()),
            ("after", Some(next.as_str())),
            ("limit", limit.as_deref()),
        ];
        form::address("/proposals", &query)
    });
    let proposals = rows(&site, found.items).await?;
    reply::page(&ProposalsPage { frame, status, proposals, is_first, next })
}

async fn show(site: Site, call: Call) -> Result<Response> {
    let (frame, caller) = Frame::of(&site, &call, "/proposals")?;
    let id: ProposalId = call.param("id")?;
    let query: ProposalAgainst = call.query()?;
    let view: ProposalView = read(flows::proposals::show(&site, &caller, &id, query).await?)?;
    let changes = changes(&view.diff);
    let count = |sort| changes.iter().filter(|it| it.sort == sort).count();
    let (added, removed) = (count(Sort::Added), count(Sort::Removed));
    reply::page(&ProposalPage { frame, view, changes, added, removed })
}

async fn approve(site: Site, mut call: Call) -> Result<Response> {
    let (sent, digest): (Approve, _) = call.form_with_digest(DECISION_BODY_BYTES_MAX).await?;
    let key = call.key_of_form(sent.key, digest)?;
    let (id, caller): (ProposalId, _) = (call.param("id")?, call.caller()?);
    let request = ApproveRequest {
        text_digest: sent.text_digest,
        base_source_sha: sent.base_source_sha,
        subject: form::optional(&sent.subject),
        body: None,
    };
    let at = format!("/proposals/{id}");
    let typed = request.subject.clone();
    let done = flows::approve::approve(&site, &caller, &id, request, Some(key)).await;
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
    let request = ReworkRequest { reason: reason.clone() };
    let asked = flows::rework::ask(&site, &caller, &id, request, Some(key)).await;
    let to = |it: serde_json::Value| format!("/jobs/{}", it["job_id"].as_str().unwrap_or_default());
    form::answer(asked, to, format!("/proposals/{id}"), Some(reason))
}

async fn edit_form(site: Site, call: Call) -> Result<Response> {
    let (frame, caller) = Frame::of(&site, &call, "/proposals")?;
    let id: ProposalId = call.param("id")?;
    let shown = flows::proposals::show(&site, &caller, &id, ProposalAgainst::default()).await?;
    let view: ProposalView = read(shown)?;
    LineEnds::of(&view.text)?;
    reply::page(&EditPage { frame, view })
}

async fn edit(site: Site, mut call: Call) -> Result<Response> {
    let (sent, digest): (Edit, _) = call.form_with_digest(EDIT_BODY_BYTES_MAX).await?;
    let key = call.key_of_form(sent.key, digest)?;
    let (id, caller): (ProposalId, _) = (call.param("id")?, call.caller()?);
    let typed = form::text(&sent.text);
    let edited = async {
        let shown = flows::proposals::show(&site, &caller, &id, ProposalAgainst::default()).await?;
        let view: ProposalView = read(shown)?;
        let text = LineEnds::of(&view.text)?.put(&typed);
        let request = EditRequest { text, text_digest: sent.text_digest, summary: None };
        flows::edit::edit(&site, &caller, &id, request, Some(key)).await
    };
    let to = |it: crate::documents::Proposal| format!("/proposals/{}", it.id);
    form::answer(edited.await, to, format!("/proposals/{id}"), Some(typed))
}

/// The line ends of a text. A browser sends every one as `\r\n`, whatever it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LineEnds {
    Lf,
    CrLf,
}

impl LineEnds {
    /// Refuses a text that a browser would not give back as it was.
    fn of(text: &str) -> Result<LineEnds> {
        let (all, pairs) = (text.matches('\n').count(), text.matches("\r\n").count());
        match (text.matches('\r').count() == pairs, pairs) {
            (true, 0) => Ok(LineEnds::Lf),
            (true, pairs) if pairs == all => Ok(LineEnds::CrLf),
            _ => Err(Error::conflict("mixed_line_ends", "the text has line ends of several sorts")
                .hint("edit it on the command line: wiki-browser proposal edit ID < FILE")),
        }
    }

    fn put(self, text: &str) -> String {
        match self {
            LineEnds::Lf => text.to_owned(),
            LineEnds::CrLf => text.replace('\n', "\r\n"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_edited_text_keeps_its_line_ends() {
        for (text, ends) in [("a\nb", LineEnds::Lf), ("", LineEnds::Lf), ("a\r\n", LineEnds::CrLf)]
        {
            assert_eq!(LineEnds::of(text).unwrap(), ends);
            assert_eq!(ends.put(&form::text(text)), text);
        }
        for mixed in ["a\nb\r\n", "a\rb\n", "a\r\nb\r", "\r"] {
            assert_eq!(LineEnds::of(mixed).unwrap_err().code_str(), "mixed_line_ends");
        }
    }
}
