//! The script in force, and its schedules.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use camino::Utf8PathBuf;
use serde::{Deserialize, Serialize};

use crate::base::{JobId, Millis};
use crate::script::Diagnostic;

/// The configuration in force.
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
    /// What may run at once.
    pub limits: LimitsView,
    /// The types of channels, by name.
    pub channel_types: Vec<String>,
    /// The engines.
    pub engines: Vec<EngineName>,
    /// The kinds of jobs.
    pub kinds: Vec<KindView>,
    /// What the operator should know.
    pub warnings: Vec<String>,
    /// Whether its functions are switched off.
    pub script_stuck: bool,
    /// What is known of the script beside what it declares.
    pub script: ScriptView,
    /// The schedules.
    pub schedules: Vec<ScheduleBrief>,
    /// Which events it is told of.
    pub handlers: Vec<HandlerView>,
    /// What other programs may call.
    pub webhooks: Vec<WebhookView>,
}

/// The site.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct SiteView {
    /// Its name, if it has one.
    pub name: Option<String>,
    /// The folder of the repository.
    #[cfg_attr(test, schemars(with = "String"))]
    pub root: Utf8PathBuf,
    /// What the script says.
    pub listen: SocketAddr,
    /// Globs of the tracked files that are Sources.
    pub sources: Vec<String>,
    /// Where browsers find it.
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

/// What may run at once.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct LimitsView {
    /// Most agents that run at once.
    pub jobs: u32,
    /// Most long-running agents at once, in addition to `jobs`.
    pub agents: u32,
    /// From the first signal to KILL.
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
    /// What its body is.
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
    /// What its jobs must leave.
    pub produces: Option<String>,
    /// Whether its jobs see the whole site.
    pub sees_site: bool,
    /// Whether they may ask people.
    pub asks: bool,
    /// The input that names the lane, or that a function does.
    pub lane: Option<String>,
    /// What happens to a job whose lane is taken.
    pub on_busy: String,
    /// How long a job may take.
    pub timeout: String,
    /// Most jobs that run at once.
    pub max_running: Option<u32>,
    /// The address whose messages start its jobs: they are not requested.
    pub address: Option<String>,
    /// What a job is given.
    pub inputs: Vec<InputView>,
    /// Where the function stands that checks a result.
    pub verify: Option<String>,
    /// Where the function stands that repeats a job.
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
    /// The input from which it follows.
    pub from: Option<String>,
    /// Whether it is required.
    pub required: bool,
    /// What it is for.
    pub about: Option<String>,
    /// The words of a choice.
    pub choices: Vec<String>,
    /// The value of a job that gives none.
    pub default: Option<String>,
    /// Whether it is computed, and never given.
    pub computed: bool,
    /// Whether it may name a Source that does not exist yet.
    pub new: bool,
}

/// What is known of the script.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ScriptView {
    /// Which generation is in force, from 1.
    pub generation: u64,
    /// When it was loaded.
    pub loaded_at: Millis,
    /// Who had it loaded; nobody for the first.
    pub loaded_by: Option<String>,
    /// What the file says that only a restart puts in force.
    pub needs_restart: Vec<String>,
    /// Why the last reload was refused; nothing once one went well.
    pub trouble: Option<Trouble>,
    /// Whether its functions are switched off.
    pub stuck: bool,
    /// Threads that were given up because a function did not end.
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
    /// What is wrong, with places; the first of many.
    pub errors: Vec<Diagnostic>,
}

/// A schedule.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ScheduleBrief {
    /// Its name.
    pub name: String,
    /// What it is for.
    pub about: Option<String>,
    /// When it comes due.
    pub when: String,
    /// What times mean that no server served: `once` or `skip`.
    pub missed: String,
}

/// A function of the script that is told of an event.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct HandlerView {
    /// The event.
    pub event: String,
    /// Where the function stands.
    pub at: String,
}

/// A webhook.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct WebhookView {
    /// Its name.
    pub name: String,
    /// What it is for.
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
    /// What it is for.
    pub about: Option<String>,
    /// When it comes due.
    pub when: String,
    /// What times mean that no server served: `once` or `skip`.
    pub missed: String,
    /// Where it is declared.
    pub at: String,
    /// The kind of its job; nothing if a function says it.
    pub kind: Option<String>,
    /// When it comes due next.
    pub next_at: Option<Millis>,
    /// When it came due last.
    pub last_at: Option<Millis>,
    /// The job that it made then.
    pub last_job: Option<JobId>,
    /// Where that is.
    pub last_status: Option<String>,
    /// Why it made none.
    pub last_error: Option<String>,
}

/// The answer of `POST /hooks/{name}`.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct WebhookTaken {
    /// The jobs that were accepted.
    pub jobs: Vec<JobId>,
}
