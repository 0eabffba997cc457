//! G26: another generation of the script: built aside, judged whole, put in force at once.
//!
//! Explicit only, since agents may write in the folder of the script: a signal, a command, a
//! request of an admin, or `serve --watch` while somebody develops.
//!
//! **Invariant:** whatever is wrong with the new script, the old one stays in force; what is wrong
//! is kept for every page to show until a reload goes well.

mod difference;
mod waiting;

use std::sync::{Arc, Mutex, PoisonError};

use camino::Utf8PathBuf;
use rusqlite::Connection;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tracing::{error, info, warn};

use crate::api::config::{ScriptView, Trouble};
use crate::base::{Actor, Context, Error, ErrorKind, Event, EventKind, Millis, Result, fault};
use crate::flows::automation::{handlers, schedules};
use crate::flows::check::{self, Purpose};
use crate::flows::perspectives::personas;
use crate::flows::{Site, agents};
use crate::jobs::{self, BELL, Engines, Generation};
use crate::mail;
use crate::script::{Config, Diagnostic, Loaded, Report, ScriptFile, Severity};
use crate::store::Tx;

pub use difference::Difference;
pub use waiting::Lost;

/// Keeps the text of a script for whoever asks later what a job ran under.
pub type Keep = Arc<dyn Fn(&Config) -> Result<()> + Send + Sync>;
/// Returns what the operator should know about a script that is right.
pub type Warn = Arc<dyn Fn(&Loaded) -> Vec<String> + Send + Sync>;

/// A handle to what is known of the script beside its generations; clones share it.
#[derive(Clone)]
pub struct Script(Arc<Inner>);

struct Inner {
    /// Where bare names of programs are looked up.
    path: String,
    keep: Keep,
    warn: Warn,
    /// One reload at a time.
    turn: tokio::sync::Mutex<()>,
    facts: Mutex<Facts>,
}

/// What is known of the script, for pages and programs.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Facts {
    /// Which generation is in force, from 1.
    pub generation: u64,
    /// When it was loaded.
    pub loaded_at: Millis,
    /// Who had it loaded; nobody for the first.
    pub loaded_by: Option<String>,
    /// What the operator should know although it is in force.
    #[serde(skip)]
    pub warnings: Arc<Vec<String>>,
    /// What the file says that only a restart puts in force.
    pub needs_restart: Vec<String>,
    /// Why the last reload was refused; nothing once one went well.
    pub trouble: Option<Trouble>,
}

/// The body of `POST /api/config/reload`; it may be empty.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ReloadRequest {
    /// Only say what would be different.
    #[serde(default)]
    pub dry_run: bool,
    /// Cancel waiting jobs for which the new script has no place; without it they keep the script
    /// from being reloaded.
    #[serde(default)]
    pub drop: bool,
}

/// What a reload came to.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Reloaded {
    /// Whether the script is right.
    pub ok: bool,
    /// Whether nothing was put in force because nobody wanted it.
    pub dry_run: bool,
    /// The generation in force now.
    pub generation: u64,
    /// The digest of what was read; nothing if it is wrong.
    pub digest: Option<String>,
    /// What is different, or would be.
    pub difference: Option<Difference>,
    /// What is wrong.
    pub trouble: Option<Trouble>,
    /// Waiting jobs for which the new script has no place.
    pub lost: Vec<Lost>,
    /// What is hardly meant.
    pub warnings: Vec<String>,
}

/// Most errors that are kept.
const ERRORS_KEPT: usize = 20;

impl Script {
    /// Returns what is known of a first generation.
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

    /// Returns what is known now.
    pub fn facts(&self) -> Facts {
        self.0.facts.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn note(&self, change: impl FnOnce(&mut Facts)) {
        change(&mut self.0.facts.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

/// Reloads for a request: who leaves meanwhile has asked all the same, and what was committed is
/// put in force.
///
/// # Errors
/// As [`reload`].
pub async fn ask(site: &Site, by: Actor, request: ReloadRequest) -> Result<Reloaded> {
    let (repo, site) = (site.repo.clone(), site.clone());
    repo.run_to_end(async move { reload(&site, &by, request).await }).await
}

/// Reads the script again and puts it in force, or says what would be different.
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

/// Puts a script that was read in force, or says what would be different.
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
    let warnings = (site.script.0.warn)(&loaded);
    let mut difference = Difference::of(&old.config, &config, needs_restart);
    let (before, after) = (Arc::clone(&old.config), config.clone());
    let look = move |c: &Connection| {
        let lost = waiting::lost(c, &before, &after)?;
        Ok((waiting::counts(c, &before)?, lost))
    };
    let (queued, lost) = site.store.read(look).await?;
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
    if !lost.is_empty() && !request.drop {
        let (at, errors) = (site.store.clock().now(), waiting::errors(&lost, &config));
        let trouble = Trouble { at, summary: waiting::summary(&lost), errors };
        let refused = refused(site, &old, by, trouble, request.dry_run);
        return Ok(Reloaded { difference: answer.difference, lost, ..refused });
    }
    if request.dry_run {
        return Ok(answer);
    }
    (site.script.0.keep)(&config)?;
    let next = Generation::new(old.number + 1, Arc::new(config), loaded.vm, engines);
    answer.generation = next.number;
    commit(site, &next, by, &difference).await?;
    waiting::drop_all(site, &lost, by).await?;
    fault::crash_point("after_reload");
    for warning in &warnings {
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

/// Judges the file on disk as a reload does, and puts nothing in force.
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

/// Evaluates and judges the script, and looks whether its engines are on this machine.
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

/// Writes down that a generation is in force, and puts it there.
async fn commit(site: &Site, next: &Generation, by: &Actor, changes: &Difference) -> Result<()> {
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
    let written = next.clone();
    let hears = handlers::is_heard(&site.scripts.current());
    let write = move |tx: &Tx<'_>| {
        follow_names(tx, &written.config)?;
        jobs::refresh_all(tx, written.capacities())?;
        schedules::keep(tx, &written.config.schedules)?;
        agents::keep(tx, &written.config)?;
        if !hears {
            // Handlers that were not there hear of what happens from here on.
            handlers::skip(tx)?;
        }
        tx.emit(event.clone().audited())
    };
    let written = site.store.write(write).await;
    written.context(ErrorKind::Unavailable, || "the reload is not written down".to_owned())?;
    site.scripts.replace(next.clone());
    for bell in [BELL, schedules::BELL, handlers::BELL, mail::BELL] {
        site.store.bell(bell).notify_one();
    }
    Ok(())
}

/// Has waiting jobs go on under the names that their kinds have now, and says which of them wait
/// for a kind that the script of this start does not have: nobody is there to be asked.
///
/// # Errors
/// As reading and writing.
pub async fn begin(site: &Site) -> Result<()> {
    let config = Arc::clone(&site.config);
    let begin = move |tx: &Tx<'_>| {
        follow_names(tx, &config)?;
        agents::keep(tx, &config)
    };
    site.store.write(begin).await?;
    let queued = site.store.read(|c| jobs::queue_counts(c, &jobs::Viewer::Site)).await?.queued;
    for (kind, count) in queued.iter().filter(|it| !site.config.kinds.contains_key(&it.0)) {
        // Names of kinds have no slash.
        let (what, was) = match kind.contains('/') {
            true => ("inbox", String::new()),
            false => ("kind", format!("was = \"{kind}\" in another kind takes them over, ")),
        };
        warn!(
            "{count} jobs of {what} \"{kind}\" wait until the script has that {what} again; \
             {was}wiki-browser job cancel --kind {kind} cancels them"
        );
    }
    Ok(())
}

/// Has waiting jobs go on under the names that their kinds have now.
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
        }
    }
    Ok(())
}

/// What the pages and programs are told of the script beside what it declares.
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

/// Returns the files of the generation in force, each with the text that was read.
pub fn texts(site: &Site) -> Vec<(Utf8PathBuf, String)> {
    let config = Arc::clone(&site.scripts.current().config);
    let text = |file: &ScriptFile| (config.folder.join(&file.path), file.text.to_string());
    config.files.iter().map(text).collect()
}

/// What has to be watched while somebody develops: the script and all that it has read.
pub fn files(site: &Site) -> Vec<Utf8PathBuf> {
    let config = Arc::clone(&site.scripts.current().config);
    config.files.iter().map(|file| config.folder.join(&file.path)).collect()
}
