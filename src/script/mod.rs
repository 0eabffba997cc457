//! The script: loads `wiki-browser.lua` into plain data and calls its functions.
//!
//! **Invariant:** the only user of the script engine. Nothing of it leaves `script`: a `Config` is
//! plain data, a function is a number, and a script cannot stop the program or its other calls.

mod advice;
mod agent;
mod assistant;
mod bare;
mod beside;
mod budget;
mod build;
mod bytecode;
mod calls;
mod config;
mod constructor;
mod convert;
mod daily;
mod dates;
mod declare;
mod diagnostic;
mod duration;
mod effect;
mod engine;
mod extract;
mod given;
mod hook;
mod inbox;
mod input;
mod json_schema;
mod kind;
mod kinds;
pub mod lab;
mod lead;
mod lexer;
mod line;
mod lint;
mod live;
mod machine;
mod node;
mod output;
mod outside;
mod pattern;
mod persona_file;
mod place;
mod placing;
mod position;
mod reads;
mod request;
mod require;
mod sandbox;
mod schedule;
mod schema;
mod secret;
mod session;
mod skill;
mod sources;
mod spot;
mod strings;
mod stubs;
mod syntax;
mod template;
#[cfg(test)]
mod tests;
mod value;
mod vm;
mod walk;
mod wear;
mod webhook;
mod written;
mod yaml;

use std::collections::BTreeMap;
use std::sync::Arc;

use camino::{Utf8Path, Utf8PathBuf};

pub use agent::Agent;
pub(crate) use assistant::KIND_PREFIX;
pub use assistant::{Assistant, AssistantLimits, ChatCaps, Mode};
pub use config::{
    Builtin, Config, Engine, EngineBody, Handler, Identity, Input, InputType, Kind, Lane, Limits,
    OnBusy, Produces, Prompt, PromptBy, SESSION, Sessions, Site, Skill,
};
pub use daily::Daily;
pub(crate) use diagnostic::suggestion;
pub use diagnostic::{Diagnostic, Report, Severity, Shown, nearest};
pub use effect::{Effect, Told};
pub use hook::shown_command;
pub use inbox::{Hooks, Inbox, OnLost, WorkspaceMode};
pub use json_schema::JsonSchema;
pub use lead::{Lead, Target};
pub use live::{Autostart, LiveAgent, SYSTEM_FILE, Speaks, Speech, kind_of_agent};
pub use machine::MEND;
pub use output::Reads;
pub use outside::{Outside, Said, SaidLine};
pub use persona_file::is_template;
pub use place::{Location, ScriptFile, Slot};
pub use schedule::{Missed, Schedule, Timing, Wanted};
pub(crate) use schema::event_data;
pub use schema::{
    Callback, DECLARATIONS, Declaration, FUNCTIONS, Field, Function, Member, Record, Shape,
    TEST_FUNCTIONS, When, input_fields, is_name,
};
#[cfg(test)]
pub(crate) use schema::{JOB_REASON, JOB_STATUS};
pub use secret::{EnvValue, Secret};
pub use stubs::{EDITOR_SETTINGS, stubs, test_stubs};
pub use template::{INBOX_NAMES, PROMPT_NAMES, fill_template, prompt};
pub use vm::Vm;
pub use wear::{Called, Wear};
pub use webhook::Webhook;

use crate::base::{Context, Error, ErrorKind};
use crate::script::build::Builder;
use crate::script::machine::Plan;
use crate::script::require::Origin;

/// A script that is right.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// What it declares.
    pub config: Arc<Config>,
    /// Its functions.
    pub vm: Vm,
    /// What is hardly meant.
    pub warnings: Vec<Diagnostic>,
    /// What it names outside of itself, in the order of the declarations.
    pub leads: Vec<Lead>,
}

/// Loads a script; blocks for at most a few seconds.
///
/// # Errors
/// All that is wrong with it, in one report.
pub fn load(script: &Utf8Path) -> std::result::Result<Loaded, Report> {
    load_from(script, Origin::Disk, &Wear::default(), Outside::default())
}

/// Loads a script as a test sees it: with made-up variables, a log of its own, and other texts in
/// some of its files; their paths are relative to the script's folder.
///
/// # Errors
/// As [`load`].
pub fn load_for_test(
    script: &Utf8Path,
    files: BTreeMap<Utf8PathBuf, String>,
    outside: Outside,
    wear: &Wear,
) -> std::result::Result<Loaded, Report> {
    load_from(script, Origin::Changed(files), wear, outside)
}

/// Loads another generation of a script; what its functions cost counts with that of the others.
///
/// # Errors
/// As [`load`].
pub fn load_again(script: &Utf8Path, wear: &Wear) -> std::result::Result<Loaded, Report> {
    load_from(script, Origin::Disk, wear, Outside::default())
}

/// Loads a script as it would be with other texts in some of its files, and in its skills; their
/// paths are relative to the script's folder. Nothing is written.
///
/// # Errors
/// As [`load`].
pub fn load_changed(
    script: &Utf8Path,
    files: BTreeMap<Utf8PathBuf, String>,
) -> std::result::Result<Loaded, Report> {
    load_from(script, Origin::Changed(files), &Wear::default(), Outside::default())
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
    let mut started = vm::evaluate(plan.clone(), wear.clone()).map_err(failed)?;
    persona_file::declare(&plan, &mut started.draft);
    let (config, leads, findings) = Builder::new(&started.draft, &plan).build();
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
