//! `wb-agent`: the verbs of an agent, each one request to the server.
//!
//! **Invariant:** who is asking is said by `WB_TOKEN` alone; a missing token never becomes another.

mod apply;
mod approval;
mod args;
mod channel;
mod handoff;
mod help;
mod hook;
mod mail;
mod mcp;
mod mode;
mod verbs;
mod verdict;

use std::ffi::OsString;
use std::process::ExitCode;

use camino::Utf8PathBuf;
use clap::FromArgMatches as _;
use jiff::Timestamp;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::api::agents::Peek;
use crate::api::people::Me;
use crate::api::proposals::{AgentProposal, Fate, Inserted};
use crate::api::sources::SourceRow;
use crate::api::topics::{Message, Placement, Topic};
use crate::base::limit::{
    MESSAGE_BYTES_MAX, PAGE_ROWS_MAX, QUOTE_BYTES_MAX, RESULT_BYTES_MAX, SOURCE_BYTES_MAX,
};
use crate::base::{
    BlobId, Context, Error, ErrorKind, JobId, Millis, Page, ProposalId, Result, SourcePath,
    TopicId, truncate_chars,
};
use crate::cli::agent::args::{Cli, InsertProposal, OpenTopic, Place, PutPerspective, Verb};
use crate::cli::agent::mode::Mode;
use crate::cli::terminal::screen::{self, Color, Form, Screen, typed};
use crate::cli::terminal::usage::usage;
use crate::cli::terminal::{escape, input};
use crate::client::{Client, Search, query};

/// Most rows of a list that an agent is shown.
const LISTED_MAX: usize = 1_000;
/// Largest `--anchors` file, in bytes.
const ANCHORS_BYTES_MAX: usize = crate::base::limit::ANCHORS_BYTES_MAX;

/// Returns the parser, for the completions of shells.
pub(super) fn command() -> clap::Command {
    <args::Cli as clap::CommandFactory>::command()
}

/// Returns the parser as whoever calls it sees it.
fn command_here() -> clap::Command {
    Mode::here().command(command())
}

/// Runs `wb-agent` with these arguments, the program's name first.
pub fn main(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let args: Vec<OsString> = args.into_iter().collect();
    let parsed = command_here().try_get_matches_from(&args);
    let cli = match parsed.and_then(|it| Cli::from_arg_matches(&it)) {
        Ok(cli) => cli,
        Err(cause) => return usage(cause, &command_here(), &args),
    };
    let json = cli.place.json;
    if let Verb::Mcp { offer } = cli.verb {
        return mcp::run(&cli.place, offer);
    }
    if let Verb::Hook { event } = &cli.verb {
        hook::run(event);
        return ExitCode::SUCCESS;
    }
    match run(cli) {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            screen::report(&error, json);
            let left = error.code_str() == screen::READER_LEFT;
            ExitCode::from(if left { 0 } else { error.kind().exit_code() })
        }
    }
}

fn run(cli: Cli) -> Result<u8> {
    let form = if cli.place.json { Form::Json } else { Form::Words };
    let screen = Screen::new(form, Color::Never);
    let place = cli.place;
    match cli.verb {
        Verb::Help { prompt: true, .. } => {
            let prompt = Mode::here().addendum(command());
            screen.answer(&json!({"prompt": prompt}), |screen, _| screen.put(&prompt))?;
        }
        Verb::Help { verb, prompt: false } => explain(&screen, &place, verb.as_deref())?,
        Verb::GetTopic { id } => {
            let id: TopicId = id.parse()?;
            let value =
                client(&place)?.get(&query("/api/agent/topic", &[("id", Some(id.as_str()))]))?;
            print(&screen, &value)?;
        }
        Verb::GetProposal { id, text } => {
            let id: ProposalId = id.parse()?;
            let pairs = [("id", Some(id.as_str()))];
            let value = client(&place)?.get(&query("/api/agent/proposal", &pairs))?;
            match text {
                true => screen.raw(&typed::<AgentProposal>(&value)?.text)?,
                false => print(&screen, &value)?,
            }
        }
        Verb::ListOpenTopics { source_path } => {
            let path: SourcePath = source_path.parse()?;
            let pairs = [("source_path", Some(path.as_str()))];
            print(&screen, &client(&place)?.get(&query("/api/agent/open-topics", &pairs))?)?;
        }
        Verb::ListSources => {
            let mut sources: Vec<SourceRow> = all(&client(&place)?, "/api/sources", &[])?;
            // What git does not track is no document of the site yet.
            sources.retain(|it| it.tracked);
            print(&screen, &json!(sources))?;
        }
        Verb::ListTopics { status, source_path, since } => {
            let pairs = [("status", status.as_deref()), ("source_path", source_path.as_deref())];
            let since = since.map(|it| time(&it)).transpose()?;
            let mut topics: Vec<Topic> = all(&client(&place)?, "/api/topics", &pairs)?;
            topics.retain(|it| is_since(it, since));
            print(&screen, &json!(topics))?;
        }
        Verb::OpenTopic(args) => open_topic(&screen, &place, &args)?,
        Verb::InsertProposal(args) => insert_proposal(&screen, &place, &args)?,
        Verb::PostMessage { topic_id } => post_message(&screen, &place, &topic_id)?,
        Verb::Finish { result, summary } => finish(&screen, &place, &result, summary)?,
        Verb::GetPersona { source_path, name } => {
            let pairs = [("source_path", Some(&*source_path)), ("name", Some(&*name))];
            print(&screen, &client(&place)?.get(&query("/api/personas", &pairs))?)?;
        }
        Verb::PutPerspective(args) => put_perspective(&screen, &place, &args)?,
        Verb::Approval(verb) => return approval::run(&screen, || client(&place), &verb),
        Verb::Complete { reply } => verdict::complete(&screen, &place, reply.as_deref())?,
        Verb::Fail { reason } => verdict::fail(&screen, &place, &reason)?,
        Verb::Inbox { after, wait } => mail::inbox(&screen, &place, after, wait.as_deref())?,
        Verb::Peek { worker, lines } => peek(&screen, &place, &worker, lines)?,
        Verb::Send(args) => mail::send(&screen, &place, &args)?,
        Verb::Channel(verb) => channel::run(&screen, &place, verb)?,
        Verb::Handoff(verb) => handoff::run(&screen, &place, verb)?,
        Verb::Mcp { offer: _ } => return Err(Error::internal("mcp answers in words of its own")),
        Verb::Hook { event } => hook::run(&event),
        Verb::ApplySuggestions => return apply_suggestions(&screen, &place),
    }
    Ok(0)
}

fn peek(screen: &Screen, place: &Place, worker: &str, lines: u32) -> Result<()> {
    let worker: JobId = worker.parse()?;
    let lines = lines.to_string();
    let path = format!("/api/instances/{worker}/peek");
    let answer = client(place)?.get(&query(&path, &[("lines", Some(&lines))]))?;
    screen.tell(&answer, |screen, peek: Peek| screen.put(&escape::block(&peek.output)))
}

fn explain(screen: &Screen, place: &Place, verb: Option<&str>) -> Result<()> {
    if !place.json {
        return screen.put(help::text(command_here(), verb)?.trim_end());
    }
    let mut table = help::table(command_here());
    if let Some(verb) = verb {
        // Refuses an unknown verb.
        help::text(command_here(), Some(verb))?;
        table.keep(verb);
    }
    print(screen, &table)
}

fn insert_proposal(screen: &Screen, place: &Place, args: &InsertProposal) -> Result<()> {
    let base: BlobId = args.base_sha.parse()?;
    let mut body = json!({"base_source_sha": base});
    let route = match (&args.topic_id, &args.source_path) {
        (Some(id), _) => proposals_of(id.parse::<TopicId>()?.as_str()),
        (None, path) => {
            let path: SourcePath = path.as_deref().unwrap_or_default().parse()?;
            body["source_path"] = json!(path);
            "/api/proposals".to_owned()
        }
    };
    if let Some(title) = &args.title {
        body["title"] = json!(title);
    }
    if let Some(path) = &args.anchors {
        let text = input::file(path, "the anchors", ANCHORS_BYTES_MAX)?;
        let anchors: Value = serde_json::from_str(&text)
            .context(ErrorKind::Invalid, || format!("{path} is not JSON"))?;
        if !anchors.is_array() {
            return Err(Error::invalid(format!("{path} is not a JSON array of anchors")));
        }
        body["anchors"] = anchors;
    }
    if let Some(summary) = &args.summary {
        body["summary"] = json!(summary);
    }
    let client = client(place)?;
    body["text"] = json!(input::standard("the text of the proposal", SOURCE_BYTES_MAX)?);
    propose(screen, &client, &route, &body)
}

fn proposals_of(topic_id: &str) -> String {
    format!("/api/topics/{topic_id}/proposals")
}

/// Submits a proposal: its id goes to standard output, the fates to standard error.
fn propose(screen: &Screen, client: &Client, route: &str, body: &Value) -> Result<()> {
    let answer = client.create(route, body)?;
    screen.tell(&answer, |screen, answer: Inserted| {
        answer.fate.iter().for_each(|it| screen.note(&fate_line(it)));
        screen.put(answer.proposal_id.as_str())
    })
}

/// Returns what happens to an open Topic, as one line.
pub(super) fn fate_line(fate: &Fate) -> String {
    let name = |side: &Option<Placement>| {
        side.as_ref().map_or("whole source", |it| it.state.as_str()).to_owned()
    };
    let (before, after) = (name(&fate.before), name(&fate.after));
    let change = if before == after { after } else { format!("{before} -> {after}") };
    let what = if fate.quote.is_empty() { &fate.title } else { &fate.quote };
    let what = truncate_chars(what, 60);
    escape::line(&format!("topic {}: {change}: {what}", fate.topic_id))
}

fn post_message(screen: &Screen, place: &Place, topic_id: &str) -> Result<()> {
    let topic_id: TopicId = topic_id.parse()?;
    let client = client(place)?;
    let body = input::standard("the message", MESSAGE_BYTES_MAX)?;
    let route = format!("/api/topics/{topic_id}/messages");
    let answer = client.create(&route, &json!({"body": body}))?;
    screen.tell(&answer, |screen, message: Message| screen.put(message.id.as_str()))
}

fn open_topic(screen: &Screen, place: &Place, args: &OpenTopic) -> Result<()> {
    let path: SourcePath = args.source_path.parse()?;
    let mut body = json!({"source_path": path});
    match &args.quote {
        None => body["global"] = json!(true),
        Some(file) => {
            let quote = input::file(file, "the quote", QUOTE_BYTES_MAX)?;
            // What a file has at its end is no part of the words.
            body["selection"] = json!({"quote": quote.trim_end_matches('\n')});
        }
    }
    if let Some(title) = &args.title {
        body["title"] = json!(title);
    }
    let client = client(place)?;
    body["body"] = json!(input::standard("the message", MESSAGE_BYTES_MAX)?);
    let answer = client.create("/api/topics", &body)?;
    screen.tell(&answer, |screen, topic: Topic| screen.put(topic.id.as_str()))
}

/// Returns the items of all pages, up to the most that an agent is shown.
fn all<T: DeserializeOwned>(
    client: &Client,
    route: &str,
    pairs: &[(&str, Option<&str>)],
) -> Result<Vec<T>> {
    let (limit, mut items, mut after) = (PAGE_ROWS_MAX.to_string(), Vec::new(), None);
    while items.len() < LISTED_MAX {
        let page: &[_] = &[("limit", Some(&*limit)), ("after", after.as_deref())];
        let answer = client.get(&query(route, &[pairs, page].concat()))?;
        let found: Page<T> = typed(&answer)?;
        items.extend(found.items);
        after = found.next;
        if after.is_none() {
            break;
        }
    }
    Ok(items)
}

fn time(text: &str) -> Result<Timestamp> {
    text.parse().map_err(|cause| {
        Error::invalid(format!("`{}` is not a valid time", text.escape_debug()))
            .hint("use the form 2026-01-02T03:04:05Z")
            .source(cause)
    })
}

/// Whether a Topic was opened or closed at a time or later.
fn is_since(topic: &Topic, since: Option<Timestamp>) -> bool {
    let Some(since) = since else { return true };
    let is_late = |at: Millis| at.0 >= since.as_millisecond();
    is_late(topic.created_at) || topic.closed_at.is_some_and(is_late)
}

fn finish(
    screen: &Screen,
    place: &Place,
    result: &Utf8PathBuf,
    summary: Option<String>,
) -> Result<()> {
    let client = client(place)?;
    // No file is called like that, and agents type it.
    let is_inline = result.as_str().trim_start().starts_with(['{', '[', '"']) && !result.exists();
    let text = match is_inline {
        true => result.to_string(),
        false => input::file(result, "the result", RESULT_BYTES_MAX)?,
    };
    let value: Value = serde_json::from_str(&text).map_err(|cause| {
        let place = match result.as_str() {
            _ if is_inline => "--result",
            "-" => "standard input",
            path => path,
        };
        Error::invalid(format!("the result in {place} is not JSON"))
            .hint("put plain text in double quotes")
            .source(cause)
    })?;
    let mut body = json!({"result": value});
    if let Some(summary) = summary {
        body["summary"] = json!(summary);
    }
    let answer = client.post(&format!("/api/agent/jobs/{}/result", job_id(&client)?), &body)?;
    screen.answer(&answer, |_, _| Ok(()))
}

fn put_perspective(screen: &Screen, place: &Place, args: &PutPerspective) -> Result<()> {
    let client = client(place)?;
    let text = input::standard("the view", SOURCE_BYTES_MAX)?;
    let body = json!({
        "source_path": args.source_path, "persona": args.persona,
        "source_sha": args.source_sha, "persona_sha": args.persona_sha, "text": text,
    });
    screen.answer(&client.post("/api/perspectives", &body)?, |_, _| Ok(()))
}

fn apply_suggestions(screen: &Screen, place: &Place) -> Result<u8> {
    let client = client(place)?;
    match apply::draft(&client)? {
        apply::Outcome::Propose(draft) => {
            let body = json!({
                "base_source_sha": draft.base, "text": draft.text, "summary": draft.summary,
            });
            propose(screen, &client, &proposals_of(draft.topic_id.as_str()), &body)?;
            Ok(0)
        }
        apply::Outcome::Nothing(why, hint) => {
            let error = Error::conflict("no_suggestion", why).hint(hint);
            screen::report(&error, place.json);
            Ok(1)
        }
    }
}

fn job_id(client: &Client) -> Result<String> {
    let me: Me = typed(&client.get("/api/me")?)?;
    me.job_id.map(|it| it.to_string()).ok_or_else(|| {
        Error::new(ErrorKind::Forbidden, "this token does not belong to a job")
            .hint("run this inside a job")
    })
}

/// JSON is what these verbs print in any form: an agent reads it.
fn print(screen: &Screen, value: &impl Serialize) -> Result<()> {
    let text = serde_json::to_string_pretty(value)
        .context(ErrorKind::Internal, || "cannot write JSON".to_owned())?;
    screen.put(&escape::json(&text))
}

fn client(place: &Place) -> Result<Client> {
    let token = std::env::var("WB_TOKEN").ok().filter(|token| !token.is_empty());
    let token = token.ok_or_else(|| {
        Error::new(ErrorKind::Unauthenticated, "no token: wb-agent works inside a job")
            .code("no_token")
            .hint("the server gives WB_TOKEN to each agent it starts; a person uses wiki-browser")
    })?;
    let search = Search {
        data: place.data.clone(),
        config: place.config.clone(),
        socket: std::env::var("WB_SOCKET").ok().filter(|it| !it.is_empty()).map(Into::into),
        folder: None,
    };
    Client::at(&search.site()?.socket, Some(token))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fate_is_one_harmless_line() {
        let id = "018f0000-0000-7000-8000-000000000001";
        let place = |state: &str| {
            json!({"blob": "a".repeat(40), "state": state, "start": 1, "end": 2,
                   "confidence": 1.0, "method": "same", "decided_by": "system"})
        };
        let fate = json!({"topic_id": id, "title": "T", "quote": "some\nwords\u{1b}[2J",
            "before": place("exact"), "after": place("orphaned")});
        let line = fate_line(&typed(&fate).unwrap());
        assert_eq!(line, format!("topic {id}: exact -> orphaned: some\\nwords\\u{{1b}}[2J"));
        let fate = json!({"topic_id": id, "title": "All of it", "quote": "",
            "before": null, "after": null});
        let line = fate_line(&typed(&fate).unwrap());
        assert_eq!(line, format!("topic {id}: whole source: All of it"));
    }
}
