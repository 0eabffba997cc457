//! G26: another generation of the script: built aside, judged whole, put in force at once.
//!
//! Explicit only, since agents may write in the folder of the script: a signal, a command, a
//! request of an admin, or `serve --watch` while somebody develops.
//!
//! **Invariant:** whatever is wrong with the new script, the old one stays in force; what is wrong
//! is kept for every page to show until a reload goes well.

mod difference;
pub mod earlier;
mod look;
mod sources;
mod unfit;
mod waiting;

use std::sync::{Arc, Mutex, PoisonError};

use camino::Utf8PathBuf;
use rusqlite::Connection;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tracing::{error, info, warn};

use crate::api::config::{ScriptView, Trouble};
use crate::base::{Actor, Error, Event, EventKind, JobId, Millis, Result, fault};
use crate::flows::assistant::right;
use crate::flows::automation::{handlers, schedules};
use crate::flows::check::{self, Purpose};
use crate::flows::perspectives::personas;
use crate::flows::repository::lanes;
use crate::flows::{Site, agents};
use crate::jobs::{self, BELL, Engines, Generation};
use crate::mail;
use crate::script::{Config, Diagnostic, Loaded, Report, ScriptFile, Severity};
use crate::store::Tx;

pub use difference::Difference;
use look::Look;
pub use sources::Around;
pub use unfit::would_strand;
pub use waiting::Lost;

/// Stores the text of a script, to show later what a job ran under.
pub type Keep = Arc<dyn Fn(&Config) -> Result<()> + Send + Sync>;
/// Returns notes for the operator about a valid script.
pub type Warn = Arc<dyn Fn(&Loaded) -> Vec<String> + Send + Sync>;

/// A handle to the state of the script besides its generations; clones share it.
#[derive(Clone)]
pub struct Script(Arc<Inner>);

struct Inner {
    /// The `PATH` for programs.
    path: String,
    keep: Keep,
    warn: Warn,
    /// One reload at a time.
    turn: tokio::sync::Mutex<()>,
    facts: Mutex<Facts>,
}

/// The state of the script, for pages and programs.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Facts {
    /// The active generation, from 1.
    pub generation: u64,
    /// When it was loaded.
    pub loaded_at: Millis,
    /// Who loaded it; `None` for the first.
    pub loaded_by: Option<String>,
    /// Its warnings.
    #[serde(skip)]
    pub warnings: Arc<Vec<String>>,
    /// Changes in the file that need a restart.
    pub needs_restart: Vec<String>,
    /// Why the last reload was refused; `None` after a successful one.
    pub trouble: Option<Trouble>,
}

/// The optional body of `POST /api/config/reload`.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ReloadRequest {
    /// Only report the differences.
    #[serde(default)]
    pub dry_run: bool,
    /// Cancel waiting jobs that the new script has no place for; otherwise they prevent the reload.
    #[serde(default)]
    pub drop: bool,
}

/// The result of a reload.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Reloaded {
    /// Whether the script is valid.
    pub ok: bool,
    /// Whether nothing was activated because of `dry_run`.
    pub dry_run: bool,
    /// The active generation.
    pub generation: u64,
    /// The digest of the new script; `None` if it is invalid.
    pub digest: Option<String>,
    /// The differences.
    pub difference: Option<Difference>,
    /// The errors.
    pub trouble: Option<Trouble>,
    /// Waiting jobs that the new script has no place for.
    pub lost: Vec<Lost>,
    /// The warnings.
    pub warnings: Vec<String>,
}

/// Most errors kept.
const ERRORS_KEPT: usize = 20;

impl Script {
    /// Returns the state for a first generation.
    pub fn new(path: String, keep: Keep, warn: Warn, (loaded, now): (&Loaded, Millis)) -> Script {
        let facts = Facts {
            generation: 1,
            loaded_at: now,
            loaded_by: None,
            warnings: Arc::new(warn(loaded)),
            needs_restart: Vec::new(),
            trouble: None,
        };
        let (turn, facts) = (tokio::sync::Mutex::default(), Mutex::new(facts));
        Script(Arc::new(Inner { path, keep, warn, turn, facts }))
    }

    /// Returns the current state.
    pub fn facts(&self) -> Facts {
        self.0.facts.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn note(&self, change: impl FnOnce(&mut Facts)) {
        change(&mut self.0.facts.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

/// Reloads for a request: completes even if the client disconnects.
///
/// # Errors
/// As [`reload`].
pub async fn ask(site: &Site, by: Actor, request: ReloadRequest) -> Result<Reloaded> {
    let (repo, site) = (site.repo.clone(), site.clone());
    repo.run_to_end(async move { reload(&site, &by, request).await }).await
}

/// Reads the script again and activates it, or only reports the differences.
///
/// # Errors
/// `unavailable` if the database cannot be written; what is wrong with the script is in the answer.
pub async fn reload(site: &Site, by: &Actor, request: ReloadRequest) -> Result<Reloaded> {
    let _turn = site.script.0.turn.lock().await;
    let old = site.scripts.current();
    match read(site, &old).await {
        Ok(read) => replace(site, by, request, read).await,
        Err(trouble) => Ok(refused(site, &old, by, trouble, request.dry_run)),
    }
}

/// Activates a loaded script, or only reports the differences.
///
/// # Errors
/// As [`reload`].
pub(in crate::flows) async fn replace(
    site: &Site,
    by: &Actor,
    request: ReloadRequest,
    (loaded, engines): (Loaded, Engines),
) -> Result<Reloaded> {
    let old = site.scripts.current();
    let (config, needs_restart) = difference::settled(&old.config, &loaded.config);
    let mut warnings = (site.script.0.warn)(&loaded);
    let mut difference = Difference::of(&old.config, &config, needs_restart);
    let after = Config { site: loaded.config.site.clone(), ..config.clone() };
    let around = Arc::new(Around::of(&config, &site.repo).await?);
    let both = (after, config.clone());
    let Look { queued, lost, open, held, trouble } =
        look::look(site, &old, both, Arc::clone(&around), request.drop).await?;
    warnings.extend(open);
    difference.note_waiting(&old.config, &config, &queued);
    let digest = Some(config.digest.clone());
    let mut answer = Reloaded {
        ok: true,
        dry_run: request.dry_run,
        generation: old.number,
        digest,
        difference: Some(difference.clone()),
        trouble: None,
        lost: lost.clone(),
        warnings: warnings.clone(),
    };
    if let Some(trouble) = trouble {
        let refused = refused(site, &old, by, trouble, request.dry_run);
        return Ok(Reloaded { difference: answer.difference, lost, warnings, ..refused });
    }
    answer.warnings.extend(held);
    if request.dry_run {
        return Ok(answer);
    }
    (site.script.0.keep)(&config)?;
    let next = Generation::new(old.number + 1, Arc::new(config), loaded.vm, engines);
    answer.generation = next.number;
    let (fit, kept) = commit(site, &next, (by, &difference), around).await?;
    answer.warnings.extend(kept);
    let lanes = next.capacities().clone();
    // Earlier, a claim would start them under the old script.
    site.store.write(move |tx| unfit::release(tx, &fit, &lanes)).await?;
    waiting::drop_all(site, &lost, by).await?;
    fault::crash_point("after_reload");
    for warning in &answer.warnings {
        warn!("{warning}");
    }
    let (number, now, by) = (next.number, site.store.clock().now(), by.to_string());
    info!(
        digest = next.config.digest.as_str(),
        "generation {number} of the script is active, by {by}: {}",
        difference.sentence()
    );
    site.script.note(|facts| {
        *facts = Facts {
            generation: number,
            loaded_at: now,
            loaded_by: Some(by),
            warnings: Arc::new(warnings),
            needs_restart: difference.needs_restart.clone(),
            trouble: None,
        };
    });
    Ok(answer)
}

/// Checks the file on disk as a reload does, without activating it.
///
/// # Errors
/// `internal` if loading it panicked.
pub async fn judge(site: &Site, old: &Generation) -> Result<std::result::Result<Loaded, Report>> {
    let (path, wear) = (old.config.script.clone(), old.vm.wear().clone());
    let programs = site.script.0.path.clone();
    let judge = move || check::check(&path, &wear, &programs, Purpose::Reload);
    let judged = tokio::task::spawn_blocking(judge).await;
    judged.map_err(|cause| Error::internal("loading the script panicked").source(cause))
}

/// Loads and checks the script, and looks for its engines on this machine.
async fn read(
    site: &Site,
    old: &Arc<Generation>,
) -> std::result::Result<(Loaded, Engines), Trouble> {
    let now = site.store.clock().now();
    let trouble = |summary: String, mut errors: Vec<Diagnostic>| {
        errors.truncate(ERRORS_KEPT);
        Trouble { at: now, summary, errors }
    };
    let wrong = |cause: &Error| {
        let hint = cause.hint_str().unwrap_or_default();
        let error = Diagnostic::error("reload", cause.message().to_owned()).note(hint);
        trouble(cause.message().to_owned(), vec![error])
    };
    let file = old.config.script.file_name().unwrap_or("the script").to_owned();
    let loaded = match judge(site, old).await {
        Ok(Ok(loaded)) => loaded,
        Ok(Err(report)) => {
            let is_persona = |it: &Diagnostic| it.code == personas::BAD;
            let summary = match report.errors.iter().all(is_persona) {
                true => format!("the personas have {}", report.summary()),
                false => format!("{file} has {}", report.summary()),
            };
            return Err(trouble(summary, report.errors));
        }
        Err(cause) => return Err(wrong(&cause)),
    };
    let engines = Engines::resolve(&loaded.config, &site.script.0.path, &site.wb_agent);
    match engines {
        Ok(engines) => Ok((loaded, engines)),
        Err(cause) => Err(wrong(&cause)),
    }
}

fn refused(site: &Site, old: &Generation, by: &Actor, trouble: Trouble, dry_run: bool) -> Reloaded {
    if !dry_run {
        error!(
            "the script was not reloaded for {by}: {}; generation {} stays active",
            trouble.summary, old.number
        );
        for it in trouble.errors.iter().filter(|it| it.severity == Severity::Error) {
            it.to_string().lines().for_each(|line| error!("{line}"));
        }
        site.script.note(|facts| facts.trouble = Some(trouble.clone()));
    }
    Reloaded {
        ok: false,
        dry_run,
        generation: old.number,
        digest: None,
        difference: None,
        trouble: Some(trouble),
        lost: Vec::new(),
        warnings: Vec::new(),
    }
}

/// Records that a generation is active, and activates it; returns the jobs that fit it again, and
/// what to say of those that keep a lane.
async fn commit(
    site: &Site,
    next: &Generation,
    (by, changes): (&Actor, &Difference),
    around: Arc<Around>,
) -> Result<(Vec<JobId>, Option<String>)> {
    let event = Event::new(
        EventKind::ConfigReloaded,
        "config".to_owned(),
        by.clone(),
        json!({
            "generation": next.number, "digest": next.config.digest,
            "changes": changes.names(), "needs_restart": changes.needs_restart,
            "removed_kinds": changes.removed_kinds(),
        }),
    );
    let (written, ids, actor) = (next.clone(), site.ids.clone(), by.clone());
    let old = site.scripts.current();
    let hears = handlers::is_heard(&old);
    let moves = lanes::under(&site.works.at(Arc::new(next.clone()))).await?;
    let kept = lanes::warning(&moves);
    let write = move |tx: &Tx<'_>| {
        follow_names(tx, &written.config)?;
        lanes::tell(tx, &moves, written.capacities())?;
        let both = (Some(&*old.config), &*written.config);
        let fit = unfit::keep(tx, both, &around, written.capacities())?;
        jobs::refresh_all(tx, written.capacities())?;
        schedules::keep(tx, &written.config.schedules)?;
        agents::keep(tx, &written.config)?;
        right::end_runs(tx, &written.config, &actor, (&ids, written.capacities()))?;
        if !hears {
            // New handlers start with the next event.
            handlers::skip(tx)?;
        }
        tx.emit(event.clone().audited())?;
        Ok(fit)
    };
    let fit = site.store.write(write).await?;
    site.scripts.replace(next.clone());
    for bell in [BELL, schedules::BELL, handlers::BELL, mail::BELL] {
        site.store.bell(bell).notify_one();
    }
    Ok((fit, kept))
}

/// Renames the kinds of waiting jobs, determines their lanes again, and keeps those from starting
/// that the script has no place for: at startup nobody can be asked. The log names them.
///
/// # Errors
/// As reading and writing.
pub async fn begin(site: &Site) -> Result<()> {
    let (config, ids, lanes) =
        (Arc::clone(&site.config), site.ids.clone(), site.queue.capacities());
    let around = Around::of(&config, &site.repo).await?;
    let moves = lanes::under(&site.works).await?;
    let begin = move |tx: &Tx<'_>| {
        follow_names(tx, &config)?;
        lanes::tell(tx, &moves, &lanes)?;
        let fit = unfit::keep(tx, (None, &config), &around, &lanes)?;
        unfit::release(tx, &fit, &lanes)?;
        right::end_runs(tx, &config, &Actor::System, (&ids, &lanes))?;
        agents::keep(tx, &config)
    };
    site.store.write(begin).await?;
    let config = Arc::clone(&site.config);
    for sentence in site.store.read(move |c| stranded(c, &config)).await? {
        warn!("{sentence}");
    }
    Ok(())
}

/// Returns a sentence for each kind whose jobs wait until the script changes, and for each declared
/// agent that never runs.
///
/// # Errors
/// As any read.
pub fn stranded(c: &Connection, config: &Config) -> Result<Vec<String>> {
    let mut all = unfit::stranded(c, config)?;
    all.extend(taken(c, config)?);
    Ok(all)
}

/// Returns a sentence for each declared agent that never runs, because a successor has its name.
///
/// # Errors
/// As any read.
pub fn taken(c: &Connection, config: &Config) -> Result<Vec<String>> {
    Ok(agents::taken(c, config)?.iter().map(agents::Taken::sentence).collect())
}

/// Renames the kinds of waiting jobs; those that run count as jobs of the new kind.
///
/// # Errors
/// As any write.
fn follow_names(tx: &Tx<'_>, config: &Config) -> Result<()> {
    for kind in config.kinds.values() {
        if let Some(before) = &kind.was {
            let count = jobs::rename_kind(tx, before, &kind.name)?;
            if count > 0 {
                info!("{count} waiting jobs of kind \"{before}\" are of kind \"{}\"", kind.name);
            }
            jobs::note_kind_name(tx, before, &kind.name)?;
        }
    }
    config.kinds.keys().try_for_each(|name| jobs::forget_kind_name(tx, name))
}

/// The state of the script for pages and programs.
pub fn facts(site: &Site) -> ScriptView {
    let facts = site.script.facts();
    let current = site.scripts.current();
    ScriptView {
        generation: facts.generation,
        loaded_at: facts.loaded_at,
        loaded_by: facts.loaded_by,
        needs_restart: facts.needs_restart,
        trouble: facts.trouble,
        stuck: current.vm.stuck(),
        abandoned_threads: current.vm.wear().abandoned(),
    }
}

/// Returns the files of the active generation with their texts.
pub fn texts(site: &Site) -> Vec<(Utf8PathBuf, String)> {
    let config = Arc::clone(&site.scripts.current().config);
    let text = |file: &ScriptFile| (config.folder.join(&file.path), file.text.to_string());
    config.files.iter().map(text).collect()
}

/// The files to watch during development: the script and everything it reads.
pub fn files(site: &Site) -> Vec<Utf8PathBuf> {
    let config = Arc::clone(&site.scripts.current().config);
    config.files.iter().map(|file| config.folder.join(&file.path)).collect()
}
