//! The tools for the site, with the person's own rights.

use serde::Deserialize;
use serde_json::json;

use crate::base::{Error, Millis, Result, SourcePath, from_json};
use crate::chat::ToolCall;
use crate::flows::assistant::right::NO_TOOL;
use crate::flows::assistant::tools::{Said, parse};
use crate::flows::repository::renames;
use crate::flows::sources::SourceQuery;
use crate::flows::topics::{TopicQuery, TopicRequest};
use crate::flows::{Site, sources, topics};
use crate::people::{Caller, Person, TokenScope, Via};

/// Most documents or Topics in a list.
const LISTED: u32 = 200;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SourceArgs {
    #[serde(default)]
    path: Option<SourcePath>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TopicsArgs {
    #[serde(default)]
    source_path: Option<SourcePath>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OpenArgs {
    source_path: SourcePath,
    #[serde(default)]
    quote: Option<String>,
    body: String,
}

/// Executes a call.
///
/// # Errors
/// As the flow.
pub(in crate::flows::assistant) async fn run(
    site: &Site,
    person: &Person,
    call: &ToolCall,
) -> Result<Said> {
    let (tool, args) = (&*call.tool, &call.args);
    let scopes = vec![TokenScope::Read, TokenScope::Write];
    let caller = Caller::Person { person: person.clone(), via: Via::Token, scopes };
    match tool {
        "read_source" => read(site, &caller, parse(args)?).await,
        "list_topics" => list(site, &caller, parse(args)?).await,
        "open_topic" => open(site, &caller, parse(args)?, call.created_at).await,
        _ => Err(Error::not_found(format!("there is no tool {tool}")).code(NO_TOOL)),
    }
}

async fn read(site: &Site, caller: &Caller, args: SourceArgs) -> Result<Said> {
    let Some(path) = args.path else {
        let query = SourceQuery { limit: Some(LISTED), ..SourceQuery::default() };
        let page = sources::list(site, caller, query).await?;
        let paths: Vec<&str> = page.items.iter().map(|it| it.path.as_str()).collect();
        let more = if page.next.is_none() { "" } else { "\n… and more" };
        let summary = format!("{} documents", paths.len());
        return Ok(Said::new(summary, paths.join("\n") + more));
    };
    let (_, text) = sources::text(site, caller, &path).await?;
    Ok(Said::new(format!("{path}, {} lines", text.lines().count()), text))
}

async fn list(site: &Site, caller: &Caller, args: TopicsArgs) -> Result<Said> {
    let query = TopicQuery {
        source_path: args.source_path,
        status: Some("open".to_owned()),
        after: None,
        limit: Some(LISTED),
    };
    let page = topics::list(site, caller, query).await?;
    let told: Vec<String> = page
        .items
        .iter()
        .map(|it| json!({"id": it.id, "source_path": it.source_path, "title": it.title}))
        .map(|it| it.to_string())
        .collect();
    Ok(Said::new(format!("{} open topics", told.len()), told.join("\n")))
}

/// Opens the Topic on the document that had the name when it was asked for: a person may have
/// allowed that later.
async fn open(site: &Site, caller: &Caller, args: OpenArgs, asked_at: Millis) -> Result<Said> {
    let path = renames::document_since(site, &args.source_path, asked_at).await?;
    let selection = args.quote;
    let is_global = selection.is_none();
    let selection = selection.map(|quote| json!({"quote": quote}));
    let request = json!({
        "source_path": path, "body": args.body, "selection": selection,
        "global": is_global,
    });
    let request: TopicRequest = from_json(&request)
        .map_err(|cause| Error::invalid(format!("the arguments are wrong: {cause}")))?;
    let topic = topics::create(site, caller, request, None).await?;
    Ok(Said::plain(format!("the topic {} was opened on {path}", topic.id)))
}
