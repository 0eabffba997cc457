//! Perspectives: a Source as a persona sees it, made by a job when somebody asks, and kept for the
//! versions that it was made from.
//!
//! A view is fresh while Source and persona are the ones that it was made from; otherwise it is
//! stale, and shown as that until there is a newer one.

pub mod personas;

use std::borrow::Cow;
use std::collections::HashMap;

use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::api::perspectives::{Requested, View, ViewKept, ViewList, ViewText};
use crate::base::{BlobId, Error, JobId, Result, SourcePath};
use crate::documents::perspectives::{self, Perspective, Versions};
use crate::flows::perspectives::personas::Found;
use crate::flows::repository::renames;
use crate::flows::requests::{inputs, new_job};
use crate::flows::{Site, kept_answer};
use crate::jobs::{self, Job, Verb};
use crate::people::Caller;
use crate::script::{Input, InputType, Kind, Produces};
use crate::store::idempotency;

/// The code of a missing view.
pub const NO_PERSPECTIVE: &str = "no_perspective";

/// Most jobs searched for one that already generates a view.
const ACTIVE_SEEN: u32 = 20;
/// How long an unneeded view is kept.
const KEPT_MS: i64 = 7 * 24 * 3_600_000;

/// The body of `POST /api/perspectives`.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct PutRequest {
    /// The Source.
    pub source_path: SourcePath,
    /// The name of the persona.
    pub persona: String,
    /// The version of the Source: the job's own.
    pub source_sha: BlobId,
    /// The version of the persona: the job's own.
    pub persona_sha: BlobId,
    /// The view, as Markdown.
    pub text: String,
}

/// Stores the view of a running job. It is shown once the job has succeeded.
///
/// # Errors
/// `conflict` with codes `job_ended`, `wrong_version` for versions that are not the job's own, and
/// `already_stored`; `forbidden` with code `not_granted`; `too_large`; `invalid` with codes
/// `empty_text` and `not_text`.
pub async fn put(site: &Site, caller: &Caller, request: PutRequest) -> Result<ViewKept> {
    let token = caller.job()?.1.to_owned();
    let bytes = request.text.len();
    let of = Versions {
        source_path: request.source_path,
        persona: request.persona,
        source_sha: request.source_sha,
        persona_sha: request.persona_sha,
    };
    let answer = ViewKept {
        source_path: of.source_path.clone(),
        persona: of.persona.clone(),
        source_sha: of.source_sha.clone(),
        persona_sha: of.persona_sha.clone(),
        bytes,
    };
    let works = site.works.clone();
    site.store
        .write(move |tx| {
            let job = jobs::fence(tx, &token)?;
            job.require_source(&of.source_path, Verb::View)?;
            job.require_persona(&of.persona)?;
            // With all its inputs, including long ones.
            let job = jobs::find(tx.connection(), &jobs::Viewer::Program, &job.id)?;
            require_own(&works, &job, InputType::Blob, of.source_path.as_str(), &of.source_sha)?;
            require_own(&works, &job, InputType::Hash, &of.persona, &of.persona_sha)?;
            let source_path = renames::since_start(tx.connection(), &job, &of.source_path)?;
            let of = Versions { source_path, ..of.clone() };
            perspectives::put(tx, &job.id, &of, &request.text)
        })
        .await?;
    Ok(answer)
}

fn require_own(
    works: &super::Works,
    job: &Job,
    ty: InputType,
    of: &str,
    given: &BlobId,
) -> Result<()> {
    let own = personas::own_versions(works, job, ty, of);
    if own.iter().any(|it| it == given.as_str()) || crate::base::fault::is_off("own_versions") {
        return Ok(());
    }
    let message = format!("{given} is not the version of {of} that job {} was given", job.id);
    Err(Error::conflict("wrong_version", message)
        .hint("pass the hashes from the prompt unchanged; if the source has changed, stop"))
}

/// A Source and a persona.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ViewQuery {
    /// The Source.
    pub source_path: SourcePath,
    /// The name of the persona.
    pub persona: String,
}

/// A Source's version and the personas of the site, now.
struct Present {
    path: SourcePath,
    blob: BlobId,
}

impl Present {
    async fn of(site: &Site, path: &SourcePath) -> Result<Present> {
        let (blob, _) = renames::present(site, path).await?;
        Ok(Present { path: path.clone(), blob })
    }

    fn versions(&self, found: &Found) -> Versions {
        Versions {
            source_path: self.path.clone(),
            persona: found.persona.name.clone(),
            source_sha: self.blob.clone(),
            persona_sha: found.sha.clone(),
        }
    }

    /// Returns the state of a persona's view; the persona may be missing or invalid.
    fn view(
        &self,
        c: &rusqlite::Connection,
        name: &str,
        found: Option<&Found>,
    ) -> Result<(View, Option<Perspective>)> {
        let fresh = match found {
            Some(found) => perspectives::find(c, &self.versions(found))?,
            None => None,
        };
        let stored = match fresh {
            Some(fresh) => Some(fresh),
            None => perspectives::newest(c, &self.path, name)?,
        };
        let mut changed = Vec::new();
        if let Some(stored) = &stored {
            if stored.source_sha != self.blob {
                changed.push(Cow::Borrowed("source"));
            }
            match found {
                None => changed.push(Cow::Borrowed("persona_gone")),
                Some(found) if found.sha != stored.persona_sha => {
                    changed.push(Cow::Borrowed("persona"));
                }
                Some(_) => {}
            }
        }
        let state = match (&stored, changed.is_empty()) {
            (None, _) => "none",
            (Some(_), true) => "fresh",
            (Some(_), false) => "stale",
        };
        let making = match found {
            Some(found) if state != "fresh" => making(c, &self.versions(found), None)?,
            _ => None,
        };
        let view = View {
            source_path: self.path.clone(),
            persona: name.to_owned(),
            about: found.and_then(|it| it.persona.about.clone()),
            state: Cow::Borrowed(state),
            changed,
            source_sha: stored.as_ref().map(|it| it.source_sha.clone()),
            persona_sha: stored.as_ref().map(|it| it.persona_sha.clone()),
            job_id: stored.as_ref().map(|it| it.job_id.clone()),
            created_at: stored.as_ref().map(|it| it.created_at),
            bytes: stored.as_ref().map(|it| it.bytes),
            making,
        };
        Ok((view, stored))
    }
}

/// Returns the waiting or running job that generates the view of these versions. A waiting job gets
/// the versions at its start; a running one has fixed ones.
fn making(c: &rusqlite::Connection, of: &Versions, kind: Option<&Kind>) -> Result<Option<JobId>> {
    let active = jobs::active_of_persona(
        c,
        &jobs::Viewer::Program,
        &of.source_path,
        &of.persona,
        ACTIVE_SEEN,
    )?;
    let is_it = |job: &Job| {
        let is_of_kind = kind.is_none_or(|it| it.name == job.kind);
        let grants = job.require_source(&of.source_path, Verb::View);
        let shas = [&of.source_sha, &of.persona_sha].map(|it| Value::String(it.to_string()));
        let has_begun = job.status == jobs::Status::Running && has_versions(job);
        let is_current = shas.iter().all(|sha| job.inputs.values().any(|it| it == sha));
        is_of_kind && grants.is_ok() && job.ending_at.is_none() && (!has_begun || is_current)
    };
    Ok(active.into_iter().find(is_it).map(|it| it.id))
}

/// Returns whether versions were computed for a job: then it has started on them.
fn has_versions(job: &Job) -> bool {
    job.inputs.values().any(|it| it.as_str().is_some_and(|it| it.parse::<BlobId>().is_ok()))
}

/// The query of `GET /api/perspectives`.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ListQuery {
    /// The Source.
    pub source_path: SourcePath,
}

/// Returns the views of a Source, one per persona that is for it or has one, and the kinds that
/// generate views. Without such a kind, only existing views are returned.
///
/// # Errors
/// As the Source; `forbidden` for jobs.
pub async fn list(site: &Site, caller: &Caller, path: &SourcePath) -> Result<ViewList> {
    caller.person()?;
    let present = Present::of(site, path).await?;
    let personas = personas::all(site).await?;
    let kinds: Vec<String> = makers(site).map(|it| it.name.clone()).collect();
    let can_make = !kinds.is_empty();
    let views = site.store.read(move |c| {
        let mut views = Vec::new();
        let mut known = perspectives::personas_of(c, &present.path)?;
        for listed in &personas {
            let found = listed.found.as_ref().ok();
            let is_for = found.is_some_and(|it| it.persona.is_for(&present.path));
            let has_view = known.contains(&listed.name);
            known.retain(|it| *it != listed.name);
            if has_view || (is_for && can_make) {
                let found = found.filter(|_| is_for);
                views.push(present.view(c, &listed.name, found)?.0);
            }
        }
        for gone in known {
            views.push(present.view(c, &gone, None)?.0);
        }
        Ok(views)
    });
    Ok(ViewList { items: views.await?, next: None, kinds })
}

fn makers(site: &Site) -> impl Iterator<Item = &Kind> {
    site.config.kinds.values().filter(|it| it.produces == Some(Produces::Perspective))
}

/// Returns a view with its text; if it is stale, the newest.
///
/// # Errors
/// As the Source; `not_found` with code `no_perspective` if there is none, and `no_persona`;
/// `forbidden` for jobs.
pub async fn show(site: &Site, caller: &Caller, query: &ViewQuery) -> Result<ViewText> {
    caller.person()?;
    let present = Present::of(site, &query.source_path).await?;
    let found = persona_of(site, &query.persona, &query.source_path).await;
    let name = query.persona.clone();
    let (found, refusal) = match found {
        Ok(found) => (Some(found), None),
        Err(cause) => (None, Some(cause)),
    };
    let shown = site.store.read(move |c| {
        let (view, stored) = present.view(c, &name, found.as_ref())?;
        let body = stored.map(|it| perspectives::body(c, &it.job_id)).transpose()?;
        Ok((view, body))
    });
    let (view, body) = shown.await?;
    let Some(body) = body else {
        let message = format!("{} has no view of {}", view.persona, view.source_path);
        let none = Error::not_found(message).code(NO_PERSPECTIVE);
        return Err(refusal.unwrap_or_else(|| {
            none.hint("request it: wiki-browser perspective request, or use the button on the page")
        }));
    };
    Ok(ViewText { view, body })
}

async fn persona_of(site: &Site, name: &str, path: &SourcePath) -> Result<Found> {
    let found = personas::find(&site.repo, &site.config.folder, name).await?;
    personas::require_all_for(std::slice::from_ref(&found.persona), std::slice::from_ref(path))?;
    Ok(found)
}

/// The body of `POST /api/perspectives/request`.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ViewRequest {
    /// The Source.
    pub source_path: SourcePath,
    /// The name of the persona.
    pub persona: String,
    /// The kind, if the script declares several.
    #[serde(default)]
    pub kind: Option<String>,
}

/// Returns the view if it is fresh, otherwise the one job that generates it: a second request gets
/// the same job.
///
/// # Errors
/// `invalid` with codes `no_perspective_kind` and `not_for_source`; `unavailable` with code
/// `stopping`; those of asking for a job.
pub async fn request(
    site: &Site,
    caller: &Caller,
    request: ViewRequest,
    key: Option<idempotency::Key>,
) -> Result<Requested> {
    let person = caller.may_write()?;
    let kind = kind_for(site, request.kind.as_deref())?;
    site.freshness.catch_up(&site.repo).await?;
    let present = Present::of(site, &request.source_path).await?;
    let found = persona_of(site, &request.persona, &request.source_path).await?;
    let versions = present.versions(&found);
    let kept = kept_answer(site, key.as_ref()).await?;
    let answered = match &kept {
        Some(kept) => kept["job_id"].as_str().map(str::parse).transpose()?.map(|id| (id, false)),
        None => {
            let checked = inputs::check(site, kind, &sent(kind, &request)).await?;
            let by = crate::base::Actor::Person(person.id.clone());
            let new = new_job::new_job(site, kind, checked, by).await?;
            start(site, kind, new, versions.clone(), key).await?
        }
    };
    let shown = site.store.read(move |c| present.view(c, &found.persona.name, Some(&found)));
    let (job_id, is_new) = match answered {
        Some((id, is_new)) => (Some(id), is_new),
        None => (None, false),
    };
    Ok(Requested { job_id, is_new, perspective: shown.await?.0 })
}

/// Returns the inputs of a kind for a request.
fn sent(kind: &Kind, request: &ViewRequest) -> Map<String, Value> {
    let first = |ty| kind.inputs.iter().find(|it: &&Input| it.ty == ty);
    let source = kind.source_input(|_| true).map(|it| (it, request.source_path.to_string()));
    let persona = first(InputType::Persona).map(|it| (it, request.persona.clone()));
    let pairs = [source, persona].into_iter().flatten();
    pairs.map(|(input, value)| (input.name.clone(), Value::String(value))).collect()
}

/// In one transaction, so that two simultaneous requests start one job.
async fn start(
    site: &Site,
    kind: &Kind,
    new: jobs::NewJob,
    versions: Versions,
    key: Option<idempotency::Key>,
) -> Result<Option<(JobId, bool)>> {
    let (ids, queue, kind) = (site.ids.clone(), site.queue.clone(), kind.clone());
    site.store
        .write(move |tx| {
            let c = tx.connection();
            let answer = if perspectives::find(c, &versions)?.is_some() {
                None
            } else if let Some(id) = making(c, &versions, Some(&kind))?
                && !crate::base::fault::is_off("one_view")
            {
                Some((id, false))
            } else {
                queue.admit(tx, &new)?;
                Some((jobs::enqueue(tx, &ids, &queue.capacities(), &new)?, true))
            };
            if let Some(key) = &key
                && idempotency::find(c, key)?.is_none()
            {
                let job = answer.as_ref().map(|(id, _)| id);
                idempotency::remember(tx, key, &json!({"job_id": job}))?;
            }
            Ok(answer)
        })
        .await
}

/// Returns the kind that generates views: the requested one, `perspective`, or the only one.
fn kind_for<'a>(site: &'a Site, asked: Option<&str>) -> Result<&'a Kind> {
    let kinds: Vec<&Kind> = makers(site).collect();
    let named = |name: &str| kinds.iter().find(|it| it.name == name).copied();
    let refuse = |message: String| {
        let names: Vec<&str> = kinds.iter().map(|it| it.name.as_str()).collect();
        let hint = match names.is_empty() {
            true => "wiki-browser new kind perspective --produces perspective adds one".to_owned(),
            false => format!("one of: {}", names.join(", ")),
        };
        Err(Error::invalid(message).code("no_perspective_kind").hint(hint))
    };
    match (asked, kinds.as_slice()) {
        (Some(name), _) => match named(name) {
            Some(kind) => Ok(kind),
            None => {
                let shown = crate::base::truncate_chars(name, 80);
                refuse(format!("no kind \"{shown}\" makes perspectives"))
            }
        },
        (None, []) => refuse("no kind makes perspectives".to_owned()),
        (None, [only]) => Ok(only),
        (None, _) => match named("perspective") {
            Some(kind) => Ok(kind),
            None => refuse("several kinds make perspectives".to_owned()),
        },
    }
}

/// Deletes unneeded views that are older than a week; returns how many. Needed are the views of
/// current versions, and the newest one of each persona while Source and persona exist. For a
/// Source with uncommitted changes nothing is deleted, because its last version may come back.
///
/// # Errors
/// As reading the repository, the personas or the database.
pub async fn prune(works: &super::Works, dry_run: bool) -> Result<u64> {
    let before = works.store.clock().now().plus(-KEPT_MS);
    let old = works.store.read(move |c| perspectives::older_than(c, before)).await?;
    if old.is_empty() {
        return Ok(0);
    }
    let personas = personas::all(works).await?;
    let sources = works.repo.list_sources().await?;
    let sources: HashMap<_, _> = sources.into_iter().map(|it| (it.path.clone(), it)).collect();
    let mut gone = Vec::new();
    for view in old {
        let source = sources.get(&view.source_path);
        let persona = personas.iter().find(|it| it.name == view.persona);
        let is_needed = match (source, persona) {
            (Some(source), Some(persona)) => {
                let sha = persona.found.as_ref().ok().map(|it| &it.sha);
                source.state != crate::documents::SourceState::Clean
                    || (source.blob == view.source_sha && sha == Some(&view.persona_sha))
                    || is_newest(works, &view).await?
            }
            _ => false,
        };
        if !is_needed {
            gone.push(view.job_id);
        }
    }
    let count = u64::try_from(gone.len()).unwrap_or(u64::MAX);
    if dry_run || gone.is_empty() {
        return Ok(count);
    }
    works
        .store
        .write(move |tx| {
            let mut dropped = 0;
            for job in &gone {
                dropped += perspectives::drop_view(tx, job)?;
            }
            Ok(u64::try_from(dropped).unwrap_or(u64::MAX))
        })
        .await
}

async fn is_newest(works: &super::Works, view: &Perspective) -> Result<bool> {
    let (path, name) = (view.source_path.clone(), view.persona.clone());
    let newest = works.store.look(|c| perspectives::newest(c, &path, &name))?;
    Ok(newest.is_some_and(|it| it.job_id == view.job_id))
}
