//! Flows: stories that cross domains, one folder a subject. They are what HTTP and the command
//! line call.
//!
//! **Invariant:** no flow knows how it was called; it gets a `Caller` and values, and returns
//! values.
//! **Invariant:** what a job's token writes goes through `jobs::fence` first, in the same
//! transaction.

pub mod agents;
pub mod approvals;
pub mod assistant;
pub mod automation;
pub mod channels;
pub mod check;
mod clock;
pub mod decisions;
pub mod doctor;
pub mod instances;
pub mod jobs;
pub mod lab;
pub mod mail;
pub mod people;
pub mod perspectives;
pub mod proposals;
pub mod repository;
pub mod requests;
pub mod search;
pub mod site;
pub mod sources;
pub mod topics;
pub mod workspaces;

use std::ops::Deref;
use std::sync::Arc;

use camino::Utf8PathBuf;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::base::limit::{PAGE_ROWS_DEFAULT, PAGE_ROWS_MAX};
use crate::base::{Error, Ids, JobId, Result, fault, from_json};
use crate::chat;
use crate::documents::Repo;
use crate::jobs::{Generation, Generations, Queue, Shares, Viewer};
use crate::outbound;
use crate::people::Caller;
use crate::script::{Config, Vm};
use crate::store::{Store, idempotency};

/// The handles for operations on documents; cheap to clone.
#[derive(Clone)]
pub struct Works {
    /// The database.
    pub store: Store,
    /// The source of ids.
    pub ids: Ids,
    /// The script that was active when this handle was created, or renewed by [`Works::now`].
    pub config: Arc<Config>,
    /// The generations of the script.
    pub scripts: Generations,
    /// The generation that a request or a job holds; `None` in handles that live as long as the
    /// server, so that old generations can end.
    pub held: Option<Arc<Generation>>,
    /// The repository of the Sources.
    pub repo: Repo,
    /// Whether what is checked out there was looked at.
    pub freshness: repository::freshness::Freshness,
    /// The agents' client, absolute.
    pub wb_agent: Utf8PathBuf,
    /// The search index, and its pending changes.
    pub search: search::Index,
    /// Followers of the assistant's answers.
    pub chat: chat::Hub,
    /// The client for services on the web.
    pub outbound: outbound::Client,
    /// The connection to the gateway.
    pub gateway: chat::Gateway,
}

/// The running site.
#[derive(Clone)]
pub struct Site {
    /// The handles that need no queue.
    pub works: Works,
    /// The queue of jobs.
    pub queue: Queue,
    /// The program's metrics.
    pub meter: site::metrics::Meter,
    /// Warnings of the script and of the start.
    pub warnings: Arc<Vec<String>>,
    /// The state of the script besides its declarations, and how it is reloaded.
    pub script: automation::reload::Script,
}

impl Works {
    /// Returns the same handles with the active script, and holds it.
    #[must_use]
    pub fn now(&self) -> Works {
        self.at(self.scripts.current())
    }

    /// Returns the same handles with another generation of the script, and holds it.
    #[must_use]
    pub fn at(&self, generation: Arc<Generation>) -> Works {
        let config = Arc::clone(&generation.config);
        Works { config, held: Some(generation), ..self.clone() }
    }

    /// Returns the script that a job runs under; the active one if the job is not running.
    pub fn config_of(&self, job: &JobId) -> Arc<Config> {
        let held = self.scripts.of(job).filter(|_| !fault::is_off("pinned_kind"));
        held.map_or_else(|| Arc::clone(&self.config), |it| Arc::clone(&it.config))
    }

    /// Returns the VM of the script.
    pub fn vm(&self) -> Vm {
        match &self.held {
            Some(generation) => generation.vm.clone(),
            None => self.scripts.current().vm.clone(),
        }
    }

    /// Returns what the handlers of that script have requested.
    pub fn shares(&self) -> Shares {
        match &self.held {
            Some(generation) => generation.shares.clone(),
            None => self.scripts.current().shares.clone(),
        }
    }
}

impl Site {
    /// Returns the same site with the active script, so that a request sees one generation.
    #[must_use]
    pub fn now(&self) -> Site {
        let warnings = self.script.facts().warnings;
        Site { works: self.works.now(), warnings, ..self.clone() }
    }
}

impl Deref for Site {
    type Target = Works;
    fn deref(&self) -> &Works {
        &self.works
    }
}

/// Returns the stored response to a request with this key, before anything is checked again,
/// because what the request refers to may have changed.
///
/// # Errors
/// `conflict` with code `idempotency_conflict`.
pub(in crate::flows) async fn kept_answer(
    site: &Site,
    key: Option<&idempotency::Key>,
) -> Result<Option<Value>> {
    let Some(key) = key.cloned() else { return Ok(None) };
    site.store.read(move |c| idempotency::find(c, &key)).await
}

/// Parses a stored response.
///
/// # Errors
/// `internal` for one that is not.
fn as_answer<T: DeserializeOwned>(kept: Value) -> Result<T> {
    from_json(&kept)
        .map_err(|cause| Error::internal("a kept answer has not its shape").source(cause))
}

/// Serializes a response for storage.
///
/// # Errors
/// `internal` for one that JSON cannot hold.
fn as_kept(answer: &impl Serialize) -> Result<Value> {
    serde_json::to_value(answer)
        .map_err(|cause| Error::internal("an answer is not JSON").source(cause))
}

/// Returns which jobs a caller sees in lists. A job sees those of the site, where a list is open to
/// jobs.
fn viewer(caller: &Caller) -> Viewer {
    match caller {
        Caller::Person { person, .. } => Viewer::Person(person.id.clone()),
        Caller::Job { .. } => Viewer::Site,
    }
}

/// Returns the requested page size, or the default.
///
/// # Errors
/// `invalid` above the largest page and for 0.
pub fn page_limit(asked: Option<u32>) -> Result<u32> {
    match asked.unwrap_or(PAGE_ROWS_DEFAULT) {
        limit @ 1..=PAGE_ROWS_MAX => Ok(limit),
        limit => Err(Error::invalid(format!("limit {limit} is not between 1 and {PAGE_ROWS_MAX}"))
            .code("bad_parameter")
            .hint("request the next page with `after`")),
    }
}
