//! `wiki-browser check` and `render`: the script, without starting anything.

pub(in crate::cli) mod reload;
pub(in crate::cli) mod types;

use std::collections::BTreeMap;

use camino::Utf8Path;
use clap::Args;
use serde_json::{Value, json};

use crate::base::{Context, Error, ErrorKind, Result, TopicId};
use crate::cli::commands::job::inputs::{input_text, split_input};
use crate::cli::commands::{Desk, RenderRequest};
use crate::cli::terminal::screen::{Form, Style};
use crate::cli::terminal::short_id::{Noun, resolve};
use crate::client::NO_SERVER;
use crate::flows;
use crate::flows::check::Purpose;
use crate::script::{self, Diagnostic, InputType, Loaded, Report, Wear};

/// `check`.
#[derive(Args, Debug)]
#[command(after_help = "\
Exits 0 if the script and the personas in agents/ are valid (warnings are fine), 1 if not.

Examples:
  wiki-browser check
  wiki-browser check --print --field config.kinds.incorporate.timeout")]
pub(in crate::cli) struct CheckArgs {
    /// Also print what the script declares, as JSON
    #[arg(long)]
    print: bool,
}

/// `render`.
#[derive(Args, Debug)]
#[command(after_help = "\
Inputs are written as for `job create`. Leave out inputs that follow from another one. The server
looks up the source of a topic; if none is running, give the source as well.

Examples:
  wiki-browser render incorporate topic_id=7f3a
  wiki-browser render incorporate topic_id=ID source_path=guide.md")]
pub(in crate::cli) struct RenderArgs {
    /// Kind of the job, as the script declares it
    kind: String,
    /// Inputs of the job
    #[arg(value_name = "NAME=VALUE")]
    inputs: Vec<String>,
}

/// Loads the script and the personas, and reports errors; returns 0 or 1.
pub(in crate::cli) fn check(desk: &Desk, args: &CheckArgs) -> Result<u8> {
    let path = desk.script()?;
    let programs = std::env::var("PATH").unwrap_or_default();
    show_log();
    match flows::check::check(&path, &Wear::default(), &programs, Purpose::Check) {
        Ok(mut loaded) => {
            let called = flows::check::rehearse::rehearse(&loaded)?;
            loaded.warnings.extend(called);
            fine(desk, &path, &loaded, args.print).map(|()| 0)
        }
        Err(report) => wrong(desk, &path, &report),
    }
}

/// Writes the script's log during loading to standard error.
fn show_log() {
    let log = tracing_subscriber::fmt().with_writer(std::io::stderr).with_ansi(false);
    // A logger that is already installed stays.
    let _ = log.with_target(false).without_time().try_init();
}

fn wrong(desk: &Desk, path: &Utf8Path, report: &Report) -> Result<u8> {
    let mut value = report_json(path, &report.errors, &report.warnings)?;
    value["summary"] = json!(report.summary());
    // The report has already escaped what it quotes.
    desk.screen.answer(&value, |screen, _| screen.put(&report.to_string()))?;
    Ok(1)
}

fn fine(desk: &Desk, path: &Utf8Path, loaded: &Loaded, print: bool) -> Result<()> {
    let mut value = report_json(path, &[], &loaded.warnings)?;
    if print {
        let mut config = json_of(&*loaded.config)?;
        for file in config["files"].as_array_mut().into_iter().flatten() {
            // The loaded file is on the disk; only its name matters here.
            *file = file["path"].take();
        }
        value["config"] = config;
    }
    desk.screen.answer(&value, |screen, value| {
        for warning in &loaded.warnings {
            screen.note(&format!("{warning}\n"));
        }
        if print {
            let text = serde_json::to_string_pretty(&value["config"]);
            let text = text.context(ErrorKind::Internal, || "cannot write JSON".to_owned())?;
            return screen.put(&crate::cli::terminal::escape::block(&text));
        }
        let names = |names: Vec<&String>| {
            names.iter().map(|name| name.as_str()).collect::<Vec<_>>().join(", ")
        };
        let declared = |word: &str, is_always: bool| {
            let all = loaded.config.kinds.values().filter(|it| it.word() == word);
            let names: Vec<&str> = all.map(|it| it.declared_name()).collect();
            let plural = if word == "inbox" { "inboxes".to_owned() } else { format!("{word}s") };
            let part = format!("{plural} {}; ", names.join(", "));
            if is_always || !names.is_empty() { part } else { String::new() }
        };
        let [kinds, inboxes, agents] =
            [declared("kind", true), declared("inbox", false), declared("agent", false)];
        let engines = names(loaded.config.engines.keys().collect());
        let word = screen.paint(Style::Green, "is valid");
        let path = crate::cli::terminal::escape::line(path.as_str());
        screen.put(&format!("{path} {word}: {kinds}{inboxes}{agents}engines {engines}"))
    })
}

fn report_json(path: &Utf8Path, errors: &[Diagnostic], warnings: &[Diagnostic]) -> Result<Value> {
    Ok(json!({
        "ok": errors.is_empty(), "script": path.as_str(),
        "errors": json_of(errors)?, "warnings": json_of(warnings)?,
    }))
}

fn json_of(value: &(impl serde::Serialize + ?Sized)) -> Result<Value> {
    serde_json::to_value(value).context(ErrorKind::Internal, || "cannot write JSON".to_owned())
}

/// Prints the exact prompt of a job, without starting anything.
pub(in crate::cli) fn render(desk: &Desk, args: &RenderArgs) -> Result<u8> {
    let mut given = BTreeMap::new();
    for pair in &args.inputs {
        let (name, value) = split_input(pair)?;
        if given.insert(name.to_owned(), input_text(name, value)?).is_some() {
            return Err(Error::invalid(format!("`{name}` is given twice")));
        }
    }
    let path = desk.script()?;
    let loaded = match script::load(&path) {
        Ok(loaded) => loaded,
        Err(report) => return refused(desk, &path, &report),
    };
    let source = source_of_topic(desk, &loaded, &args.kind, &mut given)?;
    let prompt = (desk.seams.render)(RenderRequest {
        loaded: &loaded,
        kind: &args.kind,
        inputs: &given,
        source_of_topic: source.as_deref(),
    })?;
    if prompt.is_empty() {
        desk.screen.note("the prompt is empty: this kind's engine needs none");
    }
    let value = json!({"kind": args.kind, "prompt": prompt});
    desk.screen.answer(&value, |screen, _| screen.raw(&prompt))?;
    Ok(0)
}

/// Prints the errors of the script on standard error.
fn refused(desk: &Desk, path: &Utf8Path, report: &Report) -> Result<u8> {
    if *desk.screen.form() == Form::Words {
        desk.screen.note(&report.to_string());
        return Ok(1);
    }
    Err(Error::internal(format!("{path} has {}", report.summary()))
        .code("bad_script")
        .hint("run wiki-browser check for details"))
}

/// Asks the server, if one runs, for the Source of the Topic among the inputs, and replaces an
/// abbreviated id of the Topic by the full one.
fn source_of_topic(
    desk: &Desk,
    loaded: &Loaded,
    kind: &str,
    given: &mut BTreeMap<String, String>,
) -> Result<Option<String>> {
    let kind = loaded.config.kinds.get(kind);
    let topic = kind.and_then(|kind| kind.inputs.iter().find(|it| it.ty == InputType::Topic));
    let Some(id) = topic.and_then(|topic| given.get_mut(&topic.name)) else { return Ok(None) };
    let asked = desk.client_of(&loaded.config.site.data).and_then(|client| {
        let whole = resolve(&client, Noun::Topic, id)?;
        let answer = client.get(&format!("/api/topics/{whole}"))?;
        Ok((whole, answer["topic"]["source_path"].as_str().map(str::to_owned)))
    });
    match asked {
        Ok((whole, source)) => {
            *id = whole;
            Ok(source)
        }
        Err(cause) if cause.code_str() == NO_SERVER => {
            id.parse::<TopicId>()
                .map_err(|cause| cause.hint("start the server to use an abbreviated id"))?;
            Ok(None)
        }
        Err(cause) => Err(cause),
    }
}
