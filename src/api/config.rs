//! The active script, and its schedules.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use camino::Utf8PathBuf;
use serde::{Deserialize, Serialize};

use crate::base::{JobId, Millis};
use crate::script::Diagnostic;

/// The active configuration.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(rename = "ScriptConfig"))]
pub struct ConfigView {
    /// The version of the program.
    pub version: String,
    /// The digest of the script.
    pub digest: String,
    /// The site.
    pub site: SiteView,
    /// Who writes the commits.
    pub identity: IdentityView,
    /// Limits on what runs at once.
    pub limits: LimitsView,
    /// The types of channels, by name.
    pub channel_types: Vec<String>,
    /// The engines.
    pub engines: Vec<EngineName>,
    /// The kinds of jobs.
    pub kinds: Vec<KindView>,
    /// Warnings.
    pub warnings: Vec<String>,
    /// Whether the script's functions are switched off.
    pub script_stuck: bool,
    /// The state of the script besides its declarations.
    pub script: ScriptView,
    /// The schedules.
    pub schedules: Vec<ScheduleBrief>,
    /// The events with handlers.
    pub handlers: Vec<HandlerView>,
    /// The webhooks.
    pub webhooks: Vec<WebhookView>,
}

/// The site.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct SiteView {
    /// Its name, if set.
    pub name: Option<String>,
    /// The folder of the repository.
    #[cfg_attr(test, schemars(with = "String"))]
    pub root: Utf8PathBuf,
    /// `listen` in the script.
    pub listen: SocketAddr,
    /// Globs of the tracked files that are Sources.
    pub sources: Vec<String>,
    /// The site's address for browsers.
    pub address: Option<String>,
}

/// Who writes the commits.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct IdentityView {
    /// Author's name.
    pub author_name: String,
    /// Author's mail address.
    pub author_email: String,
    /// Committer's name, if different from the author's.
    pub committer_name: Option<String>,
    /// Committer's mail address, if different from the author's.
    pub committer_email: Option<String>,
}

/// Limits on what runs at once.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct LimitsView {
    /// Most agents that run at once.
    pub jobs: u32,
    /// Most long-running agents at once, in addition to `jobs`.
    pub agents: u32,
    /// Time from the first signal to KILL.
    pub grace: String,
    /// Capacity of a lane by the name of its input.
    pub lanes: BTreeMap<String, u32>,
}

/// An engine.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct EngineName {
    /// Its name.
    pub name: String,
    /// The type of its body.
    #[serde(rename = "type")]
    pub kind: String,
}

/// A kind of jobs.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct KindView {
    /// Its name.
    pub name: String,
    /// What it does.
    pub about: String,
    /// The engine that runs it.
    pub engine: String,
    /// The skill that the prompt names.
    pub skill: Option<String>,
    /// What its jobs must produce.
    pub produces: Option<String>,
    /// Whether its jobs see the whole site.
    pub sees_site: bool,
    /// Whether they may ask people.
    pub asks: bool,
    /// The input that names the lane, or that a function computes it.
    pub lane: Option<String>,
    /// What happens to a job whose lane is taken.
    pub on_busy: String,
    /// How long a job may take.
    pub timeout: String,
    /// Most jobs that run at once.
    pub max_running: Option<u32>,
    /// The address whose messages start its jobs: they are not requested.
    pub address: Option<String>,
    /// The inputs of its jobs.
    pub inputs: Vec<InputView>,
    /// The position of `verify`.
    pub verify: Option<String>,
    /// The position of `retry`.
    pub retry: Option<String>,
}

/// An input of a kind.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct InputView {
    /// Its name.
    pub name: String,
    /// Its type.
    #[serde(rename = "type")]
    pub kind: String,
    /// The input that it is derived from.
    pub from: Option<String>,
    /// Whether it is required.
    pub required: bool,
    /// Its purpose.
    pub about: Option<String>,
    /// The values of a choice.
    pub choices: Vec<String>,
    /// Its default.
    pub default: Option<String>,
    /// Whether it is computed and cannot be given.
    pub computed: bool,
    /// Whether it may name a Source that does not exist yet.
    pub new: bool,
}

/// The state of the script.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ScriptView {
    /// The active generation, from 1.
    pub generation: u64,
    /// When it was loaded.
    pub loaded_at: Millis,
    /// Who loaded it; absent for the first.
    pub loaded_by: Option<String>,
    /// Changes in the file that need a restart.
    pub needs_restart: Vec<String>,
    /// Why the last reload was refused; absent after a successful one.
    pub trouble: Option<Trouble>,
    /// Whether the script's functions are switched off.
    pub stuck: bool,
    /// Number of threads abandoned because a function did not return.
    pub abandoned_threads: u32,
}

/// Why a reload was refused.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(rename = "ScriptTrouble"))]
pub struct Trouble {
    /// When.
    pub at: Millis,
    /// `wiki-browser.lua has 2 errors`.
    pub summary: String,
    /// The errors, with positions; the first of many.
    pub errors: Vec<Diagnostic>,
}

/// A schedule.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ScheduleBrief {
    /// Its name.
    pub name: String,
    /// Its purpose.
    pub about: Option<String>,
    /// When it is due.
    pub when: String,
    /// What happens to times while no server was running: `once` or `skip`.
    pub missed: String,
}

/// An event handler of the script.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct HandlerView {
    /// The event.
    pub event: String,
    /// The position of the function.
    pub at: String,
}

/// A webhook.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct WebhookView {
    /// Its name.
    pub name: String,
    /// Its purpose.
    pub about: Option<String>,
    /// Its path.
    pub path: String,
}

/// A schedule with its times.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ScheduleView {
    /// Its name.
    pub name: String,
    /// Its purpose.
    pub about: Option<String>,
    /// When it is due.
    pub when: String,
    /// What happens to times while no server was running: `once` or `skip`.
    pub missed: String,
    /// Where it is declared.
    pub at: String,
    /// The kind of its job; absent if a function decides.
    pub kind: Option<String>,
    /// When it is due next.
    pub next_at: Option<Millis>,
    /// When it was due last.
    pub last_at: Option<Millis>,
    /// The job of that time.
    pub last_job: Option<JobId>,
    /// The position in the script if it failed.
    pub last_status: Option<String>,
    /// Why no job was created.
    pub last_error: Option<String>,
}

/// The response of `POST /hooks/{name}`.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct WebhookTaken {
    /// The accepted jobs.
    pub jobs: Vec<JobId>,
}
