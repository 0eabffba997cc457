//! Editing a proposed text before approval: the text in a form, and changes of the proposal in the
//! meantime.
//!
//! **Invariant:** no answer loses a text that was sent: it stands in the form again.

use std::ops::Range;

use askama::Template;
use serde::Deserialize;
use warp::filters::BoxedFilter;
use warp::reply::Response;

use crate::api::proposals::{self, ProposalStatus, Revision};
use crate::base::{Error, ProposalId, Result};
use crate::documents::commit::made_subject;
use crate::documents::compare::merge::{Merged, merge};
use crate::documents::proposals::proposal;
use crate::documents::topics::suggestion;
use crate::flows::proposals::ProposalAgainst;
use crate::flows::proposals::edit::EditRequest;
use crate::flows::{self, Site};
use crate::http::pages::Frame;
use crate::http::pages::parts::difference::Difference;
use crate::http::pages::parts::visible::{Name, Plain, Visible};
use crate::http::pages::parts::{form, labels};
use crate::http::pages::proposals::review;
use crate::http::{Call, any_of, get, post, reply};
use crate::people::Caller;

/// An edited text as a form.
const BODY_BYTES_MAX: usize = crate::base::limit::PROPOSAL_BODY_BYTES_MAX;

#[derive(Template)]
#[template(path = "edit.html")]
struct EditPage {
    frame: Frame,
    view: proposals::ProposalPage,
    text: String,
    /// What it changes, in one line.
    summary: String,
    /// The changes that the text would make.
    preview: Difference,
    /// The earlier revision that the text is based on.
    carried: Option<Carried>,
    /// Why the text was not saved.
    refusal: Option<String>,
}

/// A text that was written for an earlier revision.
struct Carried {
    revision_number: i64,
    /// The number of conflicting places; then the text is as typed, without the later revision.
    conflicts: usize,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Sent {
    key: String,
    text_digest: String,
    text: String,
    /// What it changes; who edited which revision if it is empty.
    #[serde(default)]
    summary: String,
    /// The version of the document with whose lines the page says that the text conflicts.
    #[serde(default)]
    conflict: String,
    /// Whether to only preview the change.
    preview: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Query {
    /// The earlier revision that the text is based on, and is rebased from.
    from: Option<ProposalId>,
}

pub(in crate::http::pages) fn routes(site: &Site) -> BoxedFilter<(Response,)> {
    any_of([get("/proposals/{id}/edit", site, show), post("/proposals/{id}/edit", site, edit)])
}

impl EditPage {
    fn live(&self) -> String {
        review::live(&self.view)
    }

    /// Returns the version of the document that changed the same lines; nothing if none did.
    fn conflict(&self) -> &str {
        self.view.conflict.as_ref().map_or("", |it| it.current_sha.as_str())
    }

    /// Fails if the page has not said yet whose lines an edit takes out.
    fn refuse_unseen(&self, seen: &str) -> Result<()> {
        if ["", seen].contains(&self.conflict()) {
            return Ok(());
        }
        let message = "the same lines of the document have changed since you began to type";
        Err(Error::conflict("source_changed", message)
            .hint("look at the conflict, then save again"))
    }

    /// Returns whether a text can be saved as its next revision.
    fn is_editable(&self) -> bool {
        let is_open = self.view.proposal.is_open() && self.view.topic.is_open();
        is_open && self.view.rework_job_id.is_none()
    }

    /// Returns where the text differs from the document, in UTF-16 units: from the first to the
    /// last differing line.
    fn change(&self) -> Range<usize> {
        changed_lines(&form::text(&self.view.base_text), &form::text(&self.text))
    }

    /// Returns whether the text contains characters that reorder others.
    fn turns_words(&self) -> bool {
        let turns = |it| matches!(it, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        self.text.contains(turns)
    }

    /// Returns whether the form has unsaved text.
    fn is_unsaved(&self) -> bool {
        form::text(&self.view.text) != form::text(&self.text)
    }

    /// Returns the revision that superseded this one.
    fn later(&self) -> Option<&Revision> {
        let next = self.view.proposal.superseded_by.as_ref()?;
        let all = || self.view.revisions.iter();
        all()
            .find(|it| it.status == ProposalStatus::Open)
            .or_else(|| all().find(|it| it.id == *next))
    }

    /// Returns where a text is rebased onto a later revision.
    fn carry_at(&self, later: &Revision) -> String {
        let at = format!("/proposals/{}/edit", later.id);
        form::address(&at, &[("from", Some(self.view.proposal.id.as_str()))])
    }

    /// Returns where to see the changes of a later revision.
    fn against_at(&self, later: &Revision) -> String {
        let number = self.view.proposal.revision_number.to_string();
        form::address(&format!("/proposals/{}", later.id), &[("against", Some(number.as_str()))])
    }
}

async fn present(site: &Site, caller: &Caller, id: &ProposalId) -> Result<proposals::ProposalPage> {
    flows::proposals::show(site, caller, id, ProposalAgainst::default()).await
}

async fn show(site: Site, call: Call) -> Result<Response> {
    let (mut frame, caller) = Frame::of(&site, &call, "/decisions")?;
    let id: ProposalId = call.param("id")?;
    let view = present(&site, &caller, &id).await?;
    if let Err(cause) = LineEnds::of(&view.text) {
        let back = format!("/proposals/{id}");
        return form::answer(Err(cause), |()| back.clone(), back.clone(), None);
    }
    frame.name_documents(&site, [view.proposal.source_path.as_str()]).await;
    let text = view.text.clone();
    let preview = compared(&view.base_text, &text).await?;
    let summary = view.subject.clone();
    reply::page(&EditPage { frame, view, text, summary, preview, carried: None, refusal: None })
}

async fn edit(site: Site, mut call: Call) -> Result<Response> {
    let (mut frame, caller) = Frame::of(&site, &call, "/decisions")?;
    let Query { from } = call.query()?;
    let (sent, digest): (Sent, _) = call.form_with_digest(BODY_BYTES_MAX).await?;
    let key = call.key_of_form(sent.key, digest)?;
    let id: ProposalId = call.param("id")?;
    let typed = form::text(&sent.text);
    let shown = async {
        let view = present(&site, &caller, &id).await?;
        let ends = LineEnds::of(&view.text)?;
        let (text, carried) = match &from {
            Some(from) => carry(&site, from, &view, &typed).await?,
            None => (typed.clone(), None),
        };
        Ok::<_, Error>((ends.put(&text), carried, view))
    };
    let (text, carried, view) = match shown.await {
        Ok(shown) => shown,
        Err(cause) => {
            let back = format!("/proposals/{id}");
            return form::answer(Err(cause), |()| back.clone(), back.clone(), Some(typed));
        }
    };
    frame.name_documents(&site, [view.proposal.source_path.as_str()]).await;
    let preview = compared(&view.base_text, &text).await?;
    let summary = summary_of(&view, &text, sent.summary.trim());
    let mut page = EditPage { frame, view, text, summary, preview, carried, refusal: None };
    if sent.preview.is_some() || page.carried.is_some() {
        return reply::page(&page);
    }
    let text = page.text.clone();
    let summary = form::optional(&page.summary);
    let request = EditRequest { text, text_digest: sent.text_digest, summary };
    let made = match page.refuse_unseen(&sent.conflict) {
        Ok(()) => flows::proposals::edit::edit(&site, &caller, &id, request, Some(key)).await,
        Err(cause) => Err(cause),
    };
    match made {
        Ok(made) => reply::see_other(&format!("/proposals/{}", made.id)),
        Err(cause) => {
            // Another revision may have arrived between the first check and the second.
            if let Ok(fresh) = present(&site, &caller, &id).await {
                page.view = fresh;
            }
            let hint = cause.hint_str().map(|it| format!(": {it}")).unwrap_or_default();
            page.refusal = Some(format!("{}{hint}", cause.message()));
            reply::refused(&page, &cause)
        }
    }
}

/// Rebases a person's changes from an earlier revision onto a later one. In case of a conflict, the
/// text stays as typed, without conflict markers.
async fn carry(
    site: &Site,
    from: &ProposalId,
    view: &proposals::ProposalPage,
    typed: &str,
) -> Result<(String, Option<Carried>)> {
    let from = from.clone();
    let find =
        move |c: &rusqlite::Connection| Ok((proposal::find(c, &from)?, proposal::text(c, &from)?));
    let (was, base) = site.store.read(find).await?;
    if was.topic_id != view.topic.id {
        let message = format!("proposal {} is not a revision of this one", was.id);
        return Err(Error::invalid(message).code("bad_form"));
    }
    let (base, later, typed) = (form::text(&base), form::text(&view.text), typed.to_owned());
    let work = tokio::task::spawn_blocking(move || match merge(&base, &later, &typed) {
        Merged::Clean(text) => (text, 0),
        Merged::Conflicts(conflicts) => (typed, conflicts.count),
    });
    let (text, conflicts) = work.await.map_err(interrupted)?;
    Ok((text, Some(Carried { revision_number: was.revision_number, conflicts })))
}

/// Returns what an edit changes: as typed. A summary that was made of the words of the earlier
/// revision, and left as it was, is made again.
fn summary_of(view: &proposals::ProposalPage, text: &str, typed: &str) -> String {
    let made = |new: &str| made_subject(&suggestion::title(&view.base_text, new));
    let is_made = typed == view.subject && typed == made(&view.text);
    if is_made && text != view.text { made(text) } else { typed.to_owned() }
}

/// Returns the lines of a text between the common start and end with another one, in UTF-16 units.
fn changed_lines(old: &str, new: &str) -> Range<usize> {
    let (before, after): (Vec<&str>, Vec<&str>) =
        (old.split_inclusive('\n').collect(), new.split_inclusive('\n').collect());
    let same = before.iter().zip(&after).take_while(|(a, b)| a == b).count();
    let tails = before[same..].iter().rev().zip(after[same..].iter().rev());
    let tail = tails.take_while(|(a, b)| a == b).count();
    let units = |lines: &[&str]| lines.concat().encode_utf16().count();
    let start = units(&after[..same]);
    let changed = after[same..after.len() - tail].concat();
    start..start + changed.trim_end_matches('\n').encode_utf16().count()
}

/// Compares two texts on a blocking thread, because large ones take a while.
async fn compared(old: &str, new: &str) -> Result<Difference> {
    let (old, new) = (old.to_owned(), new.to_owned());
    let work = tokio::task::spawn_blocking(move || Difference::of(&old, &new, 0));
    work.await.map_err(interrupted)
}

fn interrupted(cause: tokio::task::JoinError) -> Error {
    Error::internal("comparing texts failed").source(cause)
}

/// Returns whether a browser can edit a text without changing its line ends.
pub(super) fn has_one_line_end(text: &str) -> bool {
    LineEnds::of(text).is_ok()
}

/// The line ends of a text. A browser sends all of them as CR LF.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LineEnds {
    Lf,
    CrLf,
}

impl LineEnds {
    /// Refuses a text that a browser would change.
    fn of(text: &str) -> Result<LineEnds> {
        let (all, pairs) = (text.matches('\n').count(), text.matches("\r\n").count());
        match (text.matches('\r').count() == pairs, pairs) {
            (true, 0) => Ok(LineEnds::Lf),
            (true, pairs) if pairs == all => Ok(LineEnds::CrLf),
            _ => Err(Error::conflict("mixed_line_ends", "the text mixes line endings")
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
    fn the_change_is_found_in_units_of_a_browser() {
        let changed = |old, new| {
            let units: Vec<u16> = str::encode_utf16(new).collect();
            String::from_utf16(&units[changed_lines(old, new)]).unwrap()
        };
        assert_eq!(changed("a\n👩\nb\nc\n", "a\n👩\nB\nc\n"), "B");
        assert_eq!(changed("a\nb\n", "a\n👩\nnew\nb\n"), "👩\nnew");
        assert_eq!(changed("a\nb\nc\n", "a\nc\n"), "");
        assert_eq!(changed("a\n", "a\n"), "");
        assert_eq!(changed("", "x"), "x");
    }

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
