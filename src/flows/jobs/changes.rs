//! A person's decision about changes made while a job ran: restore or keep them; and how they
//! explain a refused approval.

use rusqlite::Connection;
use serde::Deserialize;
use serde_json::{Value, json};
use tracing::{info, warn};

use crate::api::changes::{ChangeView, ChangesView, Kept, Outcome, Restored};
use crate::base::{Actor, Error, ErrorKind, Event, EventKind, JobId, Result, SourcePath, fault};
use crate::documents::changes::{Changes, ChangesRow, ChangesState, Wish, name_of, row};
use crate::documents::git::{
    CONTENT_FILTER, DETACHED_HEAD, INDEX_LOCKED, MERGE_IN_PROGRESS, UNBORN_HEAD,
};
use crate::documents::proposals::attempt;
use crate::documents::proposals::proposal::{self, STALE_BASE};
use crate::documents::snapshot::is_removable;
use crate::documents::{NOT_A_SOURCE, NOT_TEXT, SOURCE_DIRTY, SOURCE_EXISTS, SOURCE_GONE};
use crate::flows::jobs::{one_decision, steering_hold, tree_guard, unblock};
use crate::flows::requests::inputs;
use crate::flows::{Site, Works, viewer};
use crate::jobs;
use crate::people::{self, Caller};
use crate::process::{HARD_LINK, NOT_A_FILE, PATH_IS_LINK};

/// Most changes in a response.
const SHOWN_MAX: usize = 200;
/// Most open changes searched for the cause of a refusal, or for what a crash left.
const OPEN_MAX: u32 = 50;
/// How long the content needed to restore changes is held without a decision.
const HELD_MS: i64 = 30 * 24 * 3_600_000;
/// Most names in one request.
const NAMES_MAX: usize = 1_000;

/// The body of `POST /api/agent/jobs/{id}/restore`.
#[derive(Clone, Debug, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct RestoreRequest {
    /// Paths, branches, `HEAD` or `.git/NAME`; none means everything or nothing.
    #[serde(default)]
    pub names: Vec<String>,
    /// Without names: also move branches back that got commits meanwhile.
    #[serde(default)]
    pub commits: bool,
    /// Only report what would be done.
    #[serde(default)]
    pub dry_run: bool,
}

/// Restores what changed while a job ran, unless somebody changed it since.
///
/// # Errors
/// `not_found` with code `no_change` if nothing did; `conflict` with codes `job_running`,
/// `already_decided`, `changed_since`, `not_kept`; what git refuses.
pub async fn restore(
    site: &Site,
    caller: &Caller,
    id: &JobId,
    mut request: RestoreRequest,
) -> Result<Restored> {
    let by = Actor::Person(caller.may_decide()?.id.clone());
    if request.names.len() > NAMES_MAX {
        return Err(Error::invalid(format!("at most {NAMES_MAX} names at once")));
    }
    let was_named = !request.names.is_empty();
    let first = unblock::unblocked(site, caller, id, &mut request).await?;
    if request.dry_run && !first.is_empty() {
        let held_at = held_at(id);
        let restorable = first.iter().all(|it| it.outcome == Outcome::Ready);
        return Ok(Restored { items: first, restorable, restored: false, held_at });
    }
    let is_over = tree_guard::look_late(site, id).await? && !is_changed(site, id).await?;
    if is_over || (was_named && request.names.is_empty()) {
        let (items, held_at) = (first, held_at(id));
        return Ok(Restored { items, restorable: true, restored: is_over, held_at });
    }
    let mut found = undecided(site, caller, id).await?;
    found.changes.find_approved(&site.repo, &site.store).await?;
    if !request.dry_run {
        steering_hold::refuse_astray_but(site, is_removable).await?;
    }
    let kept = tree_guard::open_kept(site).await?;
    let wish = Wish {
        job: id.clone(),
        names: request.names,
        with_commits: request.commits,
        is_rehearsal: request.dry_run,
    };
    let (repo, named) = (site.repo.clone(), tree_guard::named_for(site, id));
    let is_all = wish.names.is_empty() && !wish.is_rehearsal;
    // As a task of its own: a client that disconnects must not interrupt git.
    let work = async move {
        let plan = found.changes.restore(&repo, &kept, &wish).await?;
        let is_part = !wish.is_rehearsal && !wish.names.is_empty();
        let steers = (&repo, &kept);
        let is_steady =
            is_part && found.changes.steers_as_before(steers, &wish.job, &named).await?;
        Ok((plan, is_steady))
    };
    let (plan, is_steady) = site.repo.run_to_end(work).await?;
    if is_steady {
        let asked = id.clone();
        site.store.write(move |tx| jobs::release_steering(tx, &asked)).await?;
        info!(job_id = %id, "what agents obey is as it was before job {id}");
    }
    let is_done = is_all && plan.is_done();
    if is_done {
        let asked = id.clone();
        site.store
            .write(move |tx| one_decision::decide(tx, &asked, ChangesState::Restored, &by))
            .await?;
        info!(job_id = %id, "what changed while job {id} ran was put back");
    }
    let restorable = plan.is_free();
    Ok(Restored {
        items: first.into_iter().chain(plan.items).collect(),
        restorable,
        restored: is_done,
        held_at: held_at(id),
    })
}

/// Removes what interrupted restores left beside files. What fails is logged: the next restore
/// tries again.
pub async fn clear_spares(works: &Works) {
    let work = async {
        let open = works.store.read(|c| row::open(c, OPEN_MAX)).await?;
        let kept = tree_guard::open_kept(works).await?;
        for it in open {
            it.changes.clear_spares(&works.repo, &kept, &it.job).await?;
        }
        Ok::<_, Error>(())
    };
    if let Err(cause) = work.await {
        warn!("what interrupted restores left is not removed: {}", cause.chain());
    }
}

/// Keeps what changed while a job ran: no file is touched, and agents are no longer held.
///
/// # Errors
/// As [`restore`].
pub async fn keep(site: &Site, caller: &Caller, id: &JobId) -> Result<Kept> {
    let by = Actor::Person(caller.may_decide()?.id.clone());
    if keep_unseen(site, caller, id, &by).await? {
        return Ok(Kept { kept: true, held_at: None });
    }
    let _decision = site.repo.looks().decision().await;
    let found = undecided(site, caller, id).await?;
    let (asked, actor) = (id.clone(), by.clone());
    site.store
        .write(move |tx| one_decision::decide(tx, &asked, ChangesState::Kept, &actor))
        .await?;
    info!(job_id = %id, "what changed while job {id} ran is kept");
    if let Some((_, is)) = found.changes.folder.clone() {
        site.repo.accept_git_folder(Some(is)).await?;
    }
    one_decision::keep_alike(site, id, &found.changes, &by).await;
    Ok(Kept { kept: true, held_at: Some(held_at(id)) })
}

/// Lets agents start although the changes cannot be determined or the job is still running: the
/// current state is accepted. Returns whether there was anything to decide.
async fn keep_unseen(site: &Site, caller: &Caller, id: &JobId, by: &Actor) -> Result<bool> {
    let (asked, viewer) = (id.clone(), viewer(caller));
    let (job, is_held, is_open) = site
        .store
        .read(move |c| {
            let is_held = jobs::holding(c)?.contains(&asked);
            let job = jobs::find(c, &viewer, &asked)?;
            // While it runs, a change may be in the way of approvals before it holds agents.
            let may_be = is_held || !job.status.is_final();
            let is_open = may_be && row::find(c, &asked)?.is_none();
            Ok((job, is_held, is_open))
        })
        .await?;
    inputs::refuse_private(&job)?;
    if !is_open {
        return Ok(false);
    }
    let mut kept = Changes::default();
    if job.status.is_final() {
        match tree_guard::look_late(site, id).await {
            // By now there may be something to decide.
            Ok(_) if is_changed(site, id).await? => return Ok(false),
            Ok(_) => {}
            Err(cause) => {
                info!(job_id = %id, "kept unseen: {}", cause.chain());
                site.repo.accept_git_folder(None).await?;
            }
        }
    }
    let _decision = site.repo.looks().decision().await;
    if !job.status.is_final() {
        match one_decision::accept(site, id).await? {
            Some(found) if is_held || !found.agent_files.is_empty() => kept = found,
            _ => return Ok(false),
        }
    }
    let (asked, actor) = (id.clone(), by.clone());
    site.store
        .write(move |tx| {
            for job in one_decision::lost_with(tx.connection(), &asked)? {
                jobs::release_steering(tx, &job)?;
                let data = json!({"id": job, "changes": ChangesState::Kept});
                let (subject, by) = (format!("job:{job}"), actor.clone());
                let event = Event::new(EventKind::ChangesDecided, subject, by, data);
                tx.emit(event.audited())?;
            }
            Ok(())
        })
        .await?;
    info!(job_id = %id, "what changed while job {id} ran is kept");
    if let Some((_, is)) = kept.folder.clone() {
        site.repo.accept_git_folder(Some(is)).await?;
    }
    one_decision::keep_alike(site, id, &kept, by).await;
    Ok(true)
}

async fn is_changed(site: &Site, id: &JobId) -> Result<bool> {
    let asked = id.clone();
    Ok(site.store.read(move |c| row::find(c, &asked)).await?.is_some())
}

/// Returns the undecided changes of a job.
async fn undecided(site: &Site, caller: &Caller, id: &JobId) -> Result<ChangesRow> {
    let (asked, viewer) = (id.clone(), viewer(caller));
    let (job, found) = site
        .store
        .read(move |c| Ok((jobs::find(c, &viewer, &asked)?, row::find(c, &asked)?)))
        .await?;
    inputs::refuse_private(&job)?;
    if !job.status.is_final() {
        return Err(Error::conflict("job_running", format!("job {id} has not ended"))
            .hint("put the files back by hand, or wait until it ends, or cancel it"));
    }
    let Some(found) = found else {
        let message = format!("nothing of the repository changed while job {id} ran");
        return Err(Error::not_found(message).code("no_change"));
    };
    match found.state {
        ChangesState::Open => Ok(found),
        state => Err(Error::conflict("already_decided", format!("it is already {state}"))
            .hint(format!("both states are in {}", held_at(id)))),
    }
}

fn held_at(id: &JobId) -> String {
    format!("refs/wiki-browser/jobs/{id}")
}

/// Returns the changes for a job's response; `None` if there were none.
///
/// # Errors
/// As any read.
pub(in crate::flows) fn view(c: &Connection, id: &JobId) -> Result<Option<ChangesView>> {
    let Some(found) = row::find(c, id)? else { return Ok(None) };
    let by = found.decided_by.as_ref().map(|it| people::display_name(c, it)).transpose()?;
    let all = &found.changes;
    let head = all.tip.iter().map(|(was, is)| {
        change("HEAD".to_owned(), "moved", (json!(name_of(was)), json!(name_of(is))))
    });
    let folder = all.folder.iter().map(|(was, is)| {
        change(".git".to_owned(), "replaced", (json!(was.shown()), json!(is.shown())))
    });
    let refs = all.refs.iter().map(|it| {
        let how = match (&it.before, &it.after) {
            (None, _) => "created",
            (_, None) => "deleted",
            _ => "moved",
        };
        change(it.name.clone(), how, (json!(it.before), json!(it.after)))
    });
    let files = all
        .files
        .iter()
        .map(|it| change(it.path.clone(), &it.how, (json!(it.before), json!(it.after))));
    let private = all.private.iter().map(|it| {
        let name = format!(".git/{}", it.name);
        change(name, "changed", (json!(it.before), json!(it.after)))
    });
    let total =
        folder.len() + head.len() + all.refs.len() + all.files.len() + all.private.len() + all.more;
    let items: Vec<ChangeView> =
        folder.chain(head).chain(refs).chain(files).chain(private).take(SHOWN_MAX).collect();
    Ok(Some(ChangesView {
        state: found.state,
        more: total - items.len(),
        items,
        also_running: all.others.iter().cloned().collect(),
        decided_by_name: by,
        decided_at: found.decided_at,
        held_at: all.is_held.then(|| held_at(id)),
    }))
}

fn change(name: String, how: &str, (before, after): (Value, Value)) -> ChangeView {
    ChangeView { name, how: how.to_owned(), before, after }
}

/// Refuses to commit to a branch that was checked out while a job ran, or to a repository that is
/// another one since, until a person accepts it.
///
/// # Errors
/// `conflict` with codes `branch_switched`, `planted_repository`.
pub(in crate::flows) async fn refuse_switched(works: &Works) -> Result<()> {
    steering_hold::refuse_astray(works).await?;
    if fault::is_off("restore_offer") {
        return Ok(());
    }
    let found = all_open(works).await?;
    if found.is_empty() {
        return Ok(());
    }
    let head = works.repo.head_at_rest().await?;
    for found in found {
        let Some((was, is)) = found.changes.switched_from() else { continue };
        if is.branch.as_ref() != Some(&head.branch) {
            continue;
        }
        let (job, was) = (&found.job, name_of(was));
        let message =
            format!("{} is checked out instead of {was} since job {job} ran", head.branch);
        return Err(Error::conflict("branch_switched", message).hint(offer(job)));
    }
    Ok(())
}

/// Returns whether a Source was changed while a job ran, without a decision so far.
///
/// # Errors
/// As any read.
pub(in crate::flows) async fn is_undecided(works: &Works, path: &SourcePath) -> Result<bool> {
    if fault::is_off("restore_offer") {
        return Ok(false);
    }
    let name = works.repo.git_path(path);
    let is_about = |it: &ChangesRow| it.changes.files.iter().any(|file| file.path == name);
    Ok(all_open(works).await?.iter().any(is_about))
}

/// Explains that a Source holds the text of an approval that failed or was interrupted, and how to
/// restore the Source.
async fn half_done(works: &Works, path: &SourcePath, refusal: Error) -> Error {
    let found = async {
        let (blob, _) = works.repo.text(path).await?;
        let asked = path.clone();
        works.store.read(move |c| attempt::unfinished(c, &asked, &blob)).await
    };
    // A missing file, or one that is not text, comes from no approval.
    let Ok(Some(proposal)) = found.await else { return refusal };
    let name = works.repo.git_path(path);
    let what =
        format!("{path} holds the text of proposal {proposal}, whose approval was not finished");
    let asked = proposal.clone();
    let begun = works.store.read(move |c| proposal::refuse_unfinished(c, &asked)).await;
    let hint = match (begun, refusal.code_str()) {
        // It will be finished: whatever is put back now would be written again.
        (Err(cause), _) => cause.hint_str().unwrap_or_default().to_owned(),
        (Ok(()), SOURCE_EXISTS) => format!("`rm -- '{name}'` at the top of the tree removes it"),
        (Ok(()), _) => {
            format!("`git checkout HEAD -- '{name}'` at the top of the tree puts it back")
        }
    };
    let code = refusal.code_str().to_owned();
    Error::new(refusal.kind(), what).code(code).hint(hint).source(refusal)
}

/// Adds to a refusal the job that may have caused it, if its changes are undecided, and how to
/// restore them.
pub(in crate::flows) async fn explain(
    works: &Works,
    path: Option<&SourcePath>,
    refusal: Error,
) -> Error {
    if !matches!(refusal.kind(), ErrorKind::Conflict | ErrorKind::NotFound | ErrorKind::Invalid)
        || fault::is_off("restore_offer")
    {
        return refusal;
    }
    let refusal = match (refusal.code_str(), path) {
        (SOURCE_DIRTY | SOURCE_EXISTS, Some(path)) => half_done(works, path, refusal).await,
        _ => refusal,
    };
    let found = match open(works).await {
        Ok(found) => found,
        Err(cause) => {
            tracing::warn!("changes cannot be read: {}", cause.chain());
            return refusal;
        }
    };
    let code = refusal.code_str().to_owned();
    let is_about = |git_path: &str| match path {
        Some(path) => works.repo.git_path(path) == git_path,
        None => refusal.message().split(' ').any(|word| git_path.ends_with(word)),
    };
    let Some(found) = found.iter().find(|it| is_cause(&it.changes, is_about, &code)) else {
        return refusal;
    };
    let job = &found.job;
    let message = format!("{}; that came about while job {job} ran", refusal.message());
    let hint = match refusal.hint_str() {
        Some(hint) => format!("{}; or: {hint}", offer(job)),
        None => offer(job),
    };
    let explained = Error::new(refusal.kind(), message).code(code).hint(hint);
    let explained = match refusal.input_str() {
        Some(input) => explained.of_input(input),
        None => explained,
    };
    explained.source(refusal)
}

fn offer(job: &JobId) -> String {
    format!(
        "`wiki-browser job restore {job}` puts it back, `wiki-browser job keep {job}` leaves it"
    )
}

/// Returns whether these changes may have caused a refusal.
fn is_cause(changes: &Changes, is_about: impl Fn(&str) -> bool, code: &str) -> bool {
    let is_touched = changes.files.iter().any(|it| is_about(&it.path));
    let has_private = |words: &[&str]| {
        let is_one = |name: &str| words.iter().any(|word| name.ends_with(word));
        changes.private.iter().any(|it| is_one(&it.name))
    };
    match code {
        INDEX_LOCKED => has_private(&[".lock"]),
        MERGE_IN_PROGRESS => {
            is_touched
                || has_private(&[
                    "_HEAD",
                    "rebase-merge",
                    "rebase-apply",
                    "sequencer",
                    "BISECT_LOG",
                ])
        }
        DETACHED_HEAD | UNBORN_HEAD => changes.tip.is_some() || !changes.refs.is_empty(),
        SOURCE_DIRTY | SOURCE_GONE | HARD_LINK | PATH_IS_LINK | NOT_TEXT | NOT_A_FILE
        | NOT_A_SOURCE | STALE_BASE | CONTENT_FILTER => {
            let attributes = changes.files.iter().any(|it| it.path.ends_with(".gitattributes"));
            is_touched || (code == CONTENT_FILTER && attributes)
        }
        _ => false,
    }
}

/// Returns the newest changes without a decision, among which a cause is looked for.
async fn open(works: &Works) -> Result<Vec<ChangesRow>> {
    works.store.read(|c| row::open(c, OPEN_MAX)).await
}

/// Returns all changes without a decision: what one of them forbids stays forbidden.
async fn all_open(works: &Works) -> Result<Vec<ChangesRow>> {
    works.store.read(|c| row::open(c, u32::MAX)).await
}

/// Releases changes without a decision after a month, and content that is no longer needed.
///
/// # Errors
/// As git or the database.
pub(in crate::flows) async fn let_go(works: &Works) -> Result<()> {
    let before = works.store.clock().now().plus(-HELD_MS);
    for job in works.store.read(move |c| row::old(c, before)).await? {
        works.repo.let_go(&held_at(&job)).await?;
        let expired = works
            .store
            .write(move |tx| row::decide(tx, &job, ChangesState::Expired, &Actor::System));
        expired.await?;
    }
    let (kept, needed) = (tree_guard::open_kept(works).await?, works.repo.looks().needed());
    let pruned = tokio::task::spawn_blocking(move || kept.prune(&needed)).await;
    pruned.map_err(|cause| Error::internal("pruning panicked").source(cause))?
}
