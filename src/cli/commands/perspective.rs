//! `wiki-browser persona` and `wiki-browser perspective`.

use clap::{Args, Subcommand};
use serde_json::json;

use crate::api::handoffs::HandoffList;
use crate::api::perspectives::{PersonaRow, Requested, ViewList, ViewText};
use crate::base::{Page, Result, SourcePath};
use crate::cli::commands::job::follow::{self, Follow, Show};
use crate::cli::commands::{Desk, text};
use crate::cli::terminal::screen::typed;
use crate::cli::terminal::short_id::shorten;
use crate::cli::terminal::table::Table;
use crate::client::query;

/// Commands on personas.
#[derive(Debug, Subcommand)]
pub(in crate::cli) enum PersonaCommand {
    /// List personas: the files agents/NAME.md next to the script
    #[command(after_help = "\
Examples:
  wiki-browser persona list
  wiki-browser persona list --source docs/guide.md")]
    List {
        /// Only personas for this source
        #[arg(long, value_name = "PATH")]
        source: Option<String>,
    },
    /// List the handoffs that agents of a persona wrote for their successors, newest first
    Handoffs {
        /// Name of the persona
        name: String,
        /// Maximum number of handoffs
        #[arg(long, value_name = "N")]
        limit: Option<u32>,
        /// Also print the first line of each section
        #[arg(long)]
        detail: bool,
    },
    /// Show a persona as its agent sees it
    Show {
        /// Name of the persona
        name: String,
    },
}

/// Commands on perspectives.
#[derive(Debug, Subcommand)]
pub(in crate::cli) enum PerspectiveCommand {
    /// List the state of each persona's view of a source
    List {
        /// Path of the source, relative to the root
        path: String,
    },
    /// Print a persona's newest view of a source, even if stale
    Show(OneArgs),
    /// Request a view, unless a current one exists; a repeated request gets the same job
    #[command(after_help = "\
Example:
  wiki-browser perspective request guide.md plain-reader --wait")]
    Request(RequestArgs),
}

/// A source and a persona.
#[derive(Args, Debug)]
pub(in crate::cli) struct OneArgs {
    /// Path of the source, relative to the root
    path: String,
    /// Name of the persona
    persona: String,
}

/// `perspective request`.
#[derive(Args, Debug)]
pub(in crate::cli) struct RequestArgs {
    #[command(flatten)]
    one: OneArgs,
    /// Kind that generates it, if the script declares several
    #[arg(long, value_name = "KIND")]
    kind: Option<String>,
    /// Watch the job until it ends; exits 0 if it succeeded, 1 otherwise
    #[arg(long)]
    pub(in crate::cli) wait: bool,
}

/// Prints the handoffs of a persona.
fn handoffs(desk: &Desk, name: &str, limit: Option<u32>, detail: bool) -> Result<()> {
    let limit = limit.map(|it| it.to_string());
    let pairs = [("limit", limit.as_deref()), ("detail", detail.then_some("true"))];
    let path = format!("/api/personas/{}/handoffs", crate::client::path_part(name));
    let answer = desk.client()?.get(&query(&path, &pairs))?;
    let found: HandoffList = typed(&answer)?;
    desk.screen.answer(&answer, |screen, _| {
        let mut table = Table::new(&["FILE", "AT", "STATE", "BY", "BYTES", "READ BY"]);
        for it in &found.items {
            let size = if it.is_gone { "gone".to_owned() } else { it.bytes.to_string() };
            let word = |of: &Option<String>| of.clone().unwrap_or_default();
            let (state, agent) = (word(&it.state), word(&it.agent));
            let at = it.at.map(|at| desk.ago(&json!(at))).unwrap_or_default();
            table.row([it.file.clone(), at, state, agent, size, it.read_by.join(" ")]);
        }
        screen.table(&table, "no handoffs; to request one: `wiki-browser agent handover NAME`")?;
        for it in found.items.iter().filter(|_| detail) {
            screen.put(&it.file)?;
            for section in &it.sections {
                let line = format!("  {}: {}", section.name, section.line);
                screen.put(&crate::cli::terminal::escape::line(&line))?;
            }
        }
        Ok(())
    })
}

/// Runs a command on personas.
pub(in crate::cli) fn persona(desk: &Desk, command: PersonaCommand) -> Result<()> {
    match command {
        PersonaCommand::List { source } => list_personas(desk, source.as_deref()),
        PersonaCommand::Handoffs { name, limit, detail } => handoffs(desk, &name, limit, detail),
        PersonaCommand::Show { name } => {
            let answer = desk.client()?.get(&query("/api/personas", &[("name", Some(&*name))]))?;
            desk.screen.answer(&answer, |screen, answer| screen.raw(text(answer, "body")))
        }
    }
}

/// Runs a command on perspectives; the code is that of the program.
pub(in crate::cli) fn run(desk: &Desk, command: PerspectiveCommand) -> Result<u8> {
    match command {
        PerspectiveCommand::List { path } => list(desk, &path.parse()?)?,
        PerspectiveCommand::Show(one) => show(desk, &one)?,
        PerspectiveCommand::Request(args) => return request(desk, &args),
    }
    Ok(0)
}

fn list_personas(desk: &Desk, source: Option<&str>) -> Result<()> {
    let source = source.map(str::parse::<SourcePath>).transpose()?;
    let pairs = [("source_path", source.as_ref().map(SourcePath::as_str))];
    let answer = desk.client()?.get(&query("/api/personas", &pairs))?;
    desk.screen.tell(&answer, |screen, page: Page<PersonaRow>| {
        let mut table = Table::new(&["NAME", "FOR", "VERSION", "ABOUT"]);
        for it in &page.items {
            let of = if it.paths.is_empty() { "all".to_owned() } else { it.paths.join(" ") };
            let sha = it.sha.as_ref().map_or("", |it| it.as_str());
            let sha: String = sha.chars().take(8).collect();
            match &it.problem {
                Some(problem) => table.row([&it.name, "", "broken", problem]),
                None => table.row([&it.name, &of, &sha, it.about.as_deref().unwrap_or_default()]),
            }
        }
        screen.table(&table, "no personas; add one: wiki-browser new persona NAME")
    })
}

fn list(desk: &Desk, path: &SourcePath) -> Result<()> {
    let route = query("/api/perspectives", &[("source_path", Some(path.as_str()))]);
    let answer = desk.client()?.get(&route)?;
    desk.screen.tell(&answer, |screen, list: ViewList| {
        let mut table = Table::new(&["PERSONA", "STATE", "CHANGED", "MADE", "JOB", "ABOUT"]);
        for it in &list.items {
            let job = it.making.as_ref().or(it.job_id.as_ref()).map_or("", |it| it.as_str());
            table.row([
                &it.persona,
                &*it.state,
                &it.changed.join(" "),
                &desk.since(it.created_at),
                shorten(job),
                it.about.as_deref().unwrap_or_default(),
            ]);
        }
        screen.table(&table, "no persona covers this source; see wiki-browser persona list")
    })
}

fn show(desk: &Desk, one: &OneArgs) -> Result<()> {
    let path: SourcePath = one.path.parse()?;
    let pairs = [("source_path", Some(path.as_str())), ("persona", Some(&*one.persona))];
    let answer = desk.client()?.get(&query("/api/perspective", &pairs))?;
    desk.screen.tell(&answer, |screen, ViewText { view, body }: ViewText| {
        if view.state == "stale" {
            screen.note("stale: the source or the persona has changed since");
        }
        screen.raw(&body)
    })
}

fn request(desk: &Desk, args: &RequestArgs) -> Result<u8> {
    let path: SourcePath = args.one.path.parse()?;
    let client = desk.client()?;
    let mut body = json!({"source_path": path, "persona": args.one.persona});
    if let Some(kind) = &args.kind {
        body["kind"] = json!(kind);
    }
    let answer = client.create("/api/perspectives/request", &body)?;
    let requested: Requested = typed(&answer)?;
    if let (Some(id), true) = (&requested.job_id, args.wait) {
        return follow::run(desk, &client, &Follow { id: id.to_string(), show: Show::Nothing });
    }
    desk.screen.answer(&answer, |screen, _| match &requested.job_id {
        Some(id) => screen.put(id.as_str()),
        None => {
            screen.note("already up to date; to print it: wiki-browser perspective show");
            Ok(())
        }
    })?;
    Ok(0)
}
