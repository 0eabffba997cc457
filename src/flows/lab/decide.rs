//! A person's decisions in a test, on proposals and on what instances ask, by the functions behind
//! the page.

use serde_json::{Value, json};

use crate::base::{ApprovalId, BlobId, Error, ProposalId, Result, digest_hex};
use crate::documents::proposals::proposal;
use crate::documents::proposals::proposal::{STALE_BASE, SUPERSEDED};
use crate::flows::approvals;
use crate::flows::approvals::decide::{Answer, DecideRequest};
use crate::flows::lab::site::Ground;
use crate::flows::lab::{message, outside, runner};
use crate::flows::people::shown_names;
use crate::flows::proposals::{self, ProposalQuery, RejectRequest};
use crate::flows::proposals::{approve as approving, edit, rework as reworking};
use crate::script::lab::Step;

/// Approves a proposal, with an edited text if there is one, or what an instance asks; returns the
/// result.
pub(super) async fn approve(ground: &Ground, of: &Value, says: &Value) -> Result<Value> {
    if let Some(id) = asked(of)? {
        let changes = says.get("payload").map(message::json_of);
        let note = says["note"].as_str().map(str::to_owned);
        return decide(ground, &id, Answer::Approve, (changes, note)).await;
    }
    if let Some(name) = ["payload", "note"].iter().find(|it| says.get(**it).is_some()) {
        let message = format!("`{name}` is for what an instance asks, and that is a proposal");
        return Err(Error::invalid(message));
    }
    let mut id = meant(of)?;
    outside::look(ground).await?;
    ground.pass_over().await?;
    let mark = ground.mark();
    ground.take_a_moment();
    let (site, caller) = (&ground.site, &ground.caller);
    let text = |name: &str| says[name].as_str().map(str::to_owned);
    if let Some(text) = text("text") {
        let text_digest = find(ground, &id).await?.text_digest;
        let request = edit::EditRequest { text, text_digest, summary: None };
        let edited = edit::edit(site, caller, &id, request, None).await;
        id = edited.map_err(|it| newest(of, it))?.id;
    }
    let shown = find(ground, &id).await?;
    let request = approving::ApproveRequest {
        text_digest: shown.text_digest,
        base_source_sha: shown.base_source_sha,
        subject: text("subject"),
        body: text("body"),
    };
    let approved = approving::approve(site, caller, &id, request, None).await;
    let approved = json!(approved.map_err(|it| newest(of, it))?);
    outside::look(ground).await?;
    let commit: BlobId = approved["commit"].as_str().unwrap_or_default().parse()?;
    let mut told = decided(ground, &mark, &id).await?;
    told["commit"] = outside::commit_json(ground, &commit);
    Ok(told)
}

/// Rejects a proposal, or what an instance asks; returns the result.
pub(super) async fn reject(ground: &Ground, of: &Value, reason: &str) -> Result<Value> {
    if let Some(id) = asked(of)? {
        return decide(ground, &id, Answer::Reject, (None, Some(reason.to_owned()))).await;
    }
    let id = meant(of)?;
    ground.pass_over().await?;
    let mark = ground.mark();
    ground.take_a_moment();
    let request = RejectRequest { reason: reason.to_owned() };
    let rejected = proposals::reject(&ground.site, &ground.caller, &id, request).await;
    rejected.map_err(|it| newest(of, it))?;
    decided(ground, &mark, &id).await
}

/// Requests changes of a proposal, and runs that job to its end.
pub(super) async fn rework(ground: &mut Ground, (of, reason): (&Value, &str)) -> Result<Step> {
    let id = meant(of)?;
    let mark = ground.mark();
    ground.take_a_moment();
    let request = reworking::ReworkRequest { reason: reason.to_owned() };
    let asked = reworking::ask(&ground.site, &ground.caller, &id, request, None).await;
    let asked = asked.map_err(|it| newest(of, it))?;
    ground.tell().await?;
    runner::run_this(ground, &asked.job_id, mark).await
}

/// Returns the proposals of the site, newest first.
pub(super) async fn list(ground: &Ground) -> Result<Value> {
    let query = ProposalQuery::default();
    let page = proposals::list(&ground.site, &ground.caller, query).await?;
    let mut items = Vec::with_capacity(page.items.len());
    for it in page.items {
        items.push(shown(ground, &it.id).await?);
    }
    Ok(Value::Array(items))
}

/// Returns the request for a decision that a parked instance waits for.
fn asked(of: &Value) -> Result<Option<ApprovalId>> {
    of["approval_id"].as_str().map(str::parse).transpose()
}

/// Decides what an instance asks; its next leg then waits as a job.
async fn decide(
    ground: &Ground,
    id: &ApprovalId,
    answer: Answer,
    (changes, note): (Option<Value>, Option<String>),
) -> Result<Value> {
    ground.pass_over().await?;
    let mark = ground.mark();
    ground.take_a_moment();
    let (site, caller) = (&ground.site, &ground.caller);
    let version = approvals::show::show(site, caller, id).await?.approval.version;
    let request = DecideRequest { version, changes, note };
    let decided = approvals::decide::decide(site, caller, id, answer, request).await?;
    ground.tell().await?;
    let mut told = ground.effects(&mark).await?;
    told["approval"] = json!(decided);
    Ok(told)
}

/// Returns the proposal named by a job, a proposal or an id.
fn meant(of: &Value) -> Result<ProposalId> {
    if of.get("attempt").is_some() && of["proposal_id"].is_null() {
        return Err(Error::invalid("that job has no proposal")
            .hint("let its fake agent propose: { proposal = \"the whole new text\" }"));
    }
    let given = [&of["proposal_id"], &of["id"], of].into_iter().find_map(Value::as_str);
    given
        .unwrap_or_default()
        .parse()
        .map_err(|cause: Error| cause.hint("give what t.run returned, or one of t.proposals()"))
}

/// Adds to the refusal of a superseded proposal how to name the newest one.
fn newest(of: &Value, refusal: Error) -> Error {
    if refusal.code_str() != SUPERSEDED && refusal.code_str() != STALE_BASE {
        return refusal;
    }
    let is_of_job = of.get("attempt").is_some();
    let hint = match refusal.hint_str() {
        Some(hint) if is_of_job => format!("{hint}\nthe newest one is t.proposals()[1]"),
        _ => return refusal,
    };
    refusal.hint(hint)
}

async fn find(ground: &Ground, id: &ProposalId) -> Result<crate::documents::Proposal> {
    let id = id.clone();
    ground.site.store.read(move |c| proposal::find(c, &id)).await
}

async fn shown(ground: &Ground, id: &ProposalId) -> Result<Value> {
    let id = id.clone();
    let read = ground.site.store.read(move |c| {
        let found = shown_names::fill_proposal(c, proposal::find(c, &id)?)?;
        Ok((found, proposal::text(c, &id)?))
    });
    let (found, text) = read.await?;
    let mut shown = json!(found);
    debug_assert_eq!(found.text_digest, digest_hex(&text), "a proposal is its text");
    shown["text"] = json!(text);
    Ok(shown)
}

/// Calls the handlers of a decision, and returns what they did.
async fn decided(
    ground: &Ground,
    mark: &crate::flows::lab::wait::Mark,
    id: &ProposalId,
) -> Result<Value> {
    ground.tell().await?;
    let mut told = ground.effects(mark).await?;
    told["proposal"] = shown(ground, id).await?;
    Ok(told)
}
