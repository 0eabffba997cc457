//! The script: loads `wiki-browser.lua` into plain data and calls its functions.
//!
//! **Invariant:** the only user of the script engine, of which nothing leaves `script`: a `Config`
//! is plain data, a function is a number, and a script cannot stop the program or its other calls.

mod config;
pub mod lab;
mod lint;
mod load;
mod schema;
mod source;
#[cfg(test)]
mod tests;
mod vm;

use std::collections::BTreeMap;
use std::sync::Arc;

use camino::{Utf8Path, Utf8PathBuf};

pub use config::json_schema::JsonSchema;
pub use config::output::Reads;
pub use config::secret::{EnvValue, SECRET_MISSING, Secret};
pub use config::{
    Builtin, Config, Engine, EngineBody, Handler, Identity, Input, InputType, Kind, Lane, Limits,
    OnBusy, Produces, Prompt, PromptBy, SESSION, Sessions, Site, Skill,
};
pub use load::agent::{Agent, unkept_settings};
pub use load::agent_template::is_template;
pub use load::anthropic::{Anthropic, Price, Thinking};
pub(crate) use load::assistant::KIND_PREFIX;
pub use load::assistant::{Assistant, AssistantLimits, ChatCaps, Mode};
pub use load::assistant_tools::{Policy, TOOLS as ASSISTANT_TOOLS, Vaults};
pub use load::channel::{ChannelLimits, ChannelWakes, Channels, DeclaredType, TypeBudget};
pub use load::daily::Daily;
pub use load::external::{Lead, Target};
pub use load::gateway::Subscribed;
pub use load::hook::shown_command;
pub use load::inbox::{Hooks, Inbox, OnLost, WorkspaceMode};
pub use load::kept::{kept_folder, last_file, last_templates};
pub use load::kinds::WORKER;
pub use load::linkedin::Linkedin;
pub use load::live_agent::{
    Autostart, HOOKS_FILE, LiveAgent, MCP_CONFIG, NO_GOALS, Proof, SYSTEM_FILE, Speaks, Speech,
    Typed, WB_AGENT, kind_of_agent,
};
pub use load::schedule::{Missed, Schedule, Timing, Wanted};
pub use load::webhook::Webhook;
pub(crate) use schema::event_data;
pub use schema::stubs::{EDITOR_SETTINGS, stubs, test_stubs};
pub use schema::{
    Callback, DECLARATIONS, Declaration, FUNCTIONS, Field, Function, Member, Record, Shape,
    TEST_FUNCTIONS, When, input_fields, is_name,
};
#[cfg(test)]
pub(crate) use schema::{JOB_REASON, JOB_STATUS};
pub(crate) use source::diagnostic::suggestion;
pub use source::diagnostic::{Diagnostic, Report, Severity, nearest};
pub use source::location::{Location, ScriptFile, Slot};
pub use vm::SCRIPT_FAILED;
pub use vm::effect::{Effect, Told};
pub use vm::handle::{SCRIPT_STUCK, Vm};
pub use vm::outside::{Outside, Said, SaidLine};
pub use vm::template::{INBOX_NAMES, MONITOR_PROMPT, PROMPT_NAMES, fill_template, prompt};
pub use vm::thread::MEND;
pub use vm::wear::{Called, Wear};

use crate::base::{Context, Error, ErrorKind};
use crate::script::load::build::Builder;
use crate::script::vm::require::Origin;
use crate::script::vm::thread::Plan;

/// A script that is right.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// The configuration that it declares.
    pub config: Arc<Config>,
    /// Its functions.
    pub vm: Vm,
    /// Warnings.
    pub warnings: Vec<Diagnostic>,
    /// References to things outside the script, in the order of the declarations.
    pub leads: Vec<Lead>,
}

/// Loads a script; blocks for up to a few seconds.
///
/// # Errors
/// Every error in it, in one report.
pub fn load(script: &Utf8Path) -> std::result::Result<Loaded, Report> {
    load_from(script, Origin::Disk, &Wear::default(), Outside::default())
}

/// Loads a script for a test: with fake variables, its own log, and other texts for some of its
/// files, whose paths are relative to the script's folder.
///
/// # Errors
/// Same as [`load()`].
pub fn load_for_test(
    script: &Utf8Path,
    files: BTreeMap<Utf8PathBuf, String>,
    outside: Outside,
    wear: &Wear,
) -> std::result::Result<Loaded, Report> {
    load_from(script, Origin::Changed(files), wear, outside)
}

/// Loads another generation of a script, continuing the statistics of the previous ones.
///
/// # Errors
/// Same as [`load()`].
pub fn load_again(script: &Utf8Path, wear: &Wear) -> std::result::Result<Loaded, Report> {
    load_from(script, Origin::Disk, wear, Outside::default())
}

/// Loads a script with other texts for some of its files and skills, whose paths are relative to
/// the script's folder. Nothing is written.
///
/// # Errors
/// Same as [`load()`].
pub fn load_changed(
    script: &Utf8Path,
    files: BTreeMap<Utf8PathBuf, String>,
) -> std::result::Result<Loaded, Report> {
    load_from(script, Origin::Changed(files), &Wear::default(), Outside::default())
}

/// Loads the generation with this digest from the texts that the data folder keeps of it. It is in
/// the folder of the script, like the one that is loaded from there.
///
/// # Errors
/// Same as [`load()`]; a finding if its texts are not kept, or are of another generation.
pub fn load_kept(
    script: &Utf8Path,
    (data, digest): (&Utf8Path, &str),
    wear: &Wear,
) -> std::result::Result<Loaded, Report> {
    let wrong = |why: String| Report::of(Diagnostic::error("not-kept", why));
    let texts = load::kept::texts(data, digest).map_err(|cause| wrong(cause.chain()))?;
    let loaded = load_from(script, Origin::Stored(texts), wear, Outside::default())?;
    match loaded.config.digest == digest {
        true => Ok(loaded),
        false => Err(wrong("its texts were changed".to_owned())),
    }
}

fn load_from(
    script: &Utf8Path,
    origin: Origin,
    wear: &Wear,
    outside: Outside,
) -> std::result::Result<Loaded, Report> {
    let (folder, file) = locate(script)
        .map_err(|cause| Report::of(Diagnostic::error("missing-file", cause.chain())))?;
    let plan = Plan { folder, script: file.clone(), origin, outside };
    let failed = |cause: Error| {
        let finding = Diagnostic::error("engine", format!("{file}: {}", cause.message()));
        Report::of(finding.note(cause.hint_str().unwrap_or_default()))
    };
    let mut started = vm::handle::evaluate(plan.clone(), wear.clone()).map_err(failed)?;
    load::agent_template::declare(&plan, &mut started.draft);
    let (config, leads, mut findings) = Builder::new(&started.draft, &plan).build();
    load::template_note::rewrite(&mut findings);
    let report = Report::new(findings, &started.draft.files);
    if !report.errors.is_empty() {
        return Err(report);
    }
    let vm = started.serve(config.handlers.clone());
    Ok(Loaded { config: Arc::new(config), vm, warnings: report.warnings, leads })
}

/// Returns the canonical folder of a script and its file name.
fn locate(script: &Utf8Path) -> crate::base::Result<(Utf8PathBuf, Utf8PathBuf)> {
    let Some(name) = script.file_name() else {
        return Err(Error::invalid(format!("{script} is not the path of a script")));
    };
    let parent = script.parent().filter(|parent| !parent.as_str().is_empty());
    let folder = parent.unwrap_or(Utf8Path::new("."));
    let folder = folder
        .canonicalize_utf8()
        .context(ErrorKind::NotFound, || format!("cannot read {script}"))?;
    Ok((folder, Utf8PathBuf::from(name)))
}
