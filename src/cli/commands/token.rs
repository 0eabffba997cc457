//! `wiki-browser token`: access tokens for programs.

use clap::{Args, Subcommand, ValueEnum};
use serde_json::json;

use crate::api::people::{TokenMade, TokenRevoked, TokenView};
use crate::base::limit::parse_duration;
use crate::base::{Error, Page, Result};
use crate::cli::commands::Desk;
use crate::cli::commands::mail::typed;
use crate::cli::terminal::escape;
use crate::cli::terminal::short_id::shorten;
use crate::cli::terminal::table::Table;
use crate::client::query;

/// Most tokens named in a refusal.
const NAMED_MAX: usize = 10;

/// The scope of a token.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(in crate::cli) enum ScopeWord {
    /// Read everything the person can read
    Read,
    /// Open topics, post messages, start jobs
    Write,
    /// Approve and reject proposals
    Decide,
    /// Read /metrics and nothing else
    Metrics,
    /// Takes part in channels as somebody from outside, and nothing else
    Channel,
}

/// Commands on tokens.
#[derive(Debug, Subcommand)]
pub(in crate::cli) enum TokenCommand {
    /// Create a token and print its secret once
    #[command(after_help = "\
The secret is sent as `Authorization: Bearer SECRET`, over TCP or the socket. Only its digest is
kept: who loses it makes another.

Examples:
  wiki-browser token create ci --scope write --expires 90d
  wiki-browser token create prometheus --scope metrics > /etc/prometheus/wiki.token")]
    Create(CreateArgs),
    /// List tokens: when they were created, last used, and expire
    List {
        /// Only tokens of this person
        #[arg(long, value_name = "NAME")]
        person: Option<String>,
    },
    /// Revoke a token
    Revoke {
        /// Id (or its end), or name
        token: String,
        /// Owner, if several people have a token of that name
        #[arg(long, value_name = "NAME")]
        person: Option<String>,
    },
}

/// `token create`.
#[derive(Args, Debug)]
pub(in crate::cli) struct CreateArgs {
    /// Name of the token
    name: String,
    /// Scope; repeatable
    #[arg(long = "scope", value_enum, value_name = "SCOPE", default_value = "read")]
    scopes: Vec<ScopeWord>,
    /// Owner [default: you]
    #[arg(long, value_name = "NAME")]
    person: Option<String>,
    /// Lifetime, such as 90d [default: never expires]
    #[arg(long, value_name = "DURATION")]
    expires: Option<String>,
}

/// Runs a command.
pub(in crate::cli) fn run(desk: &Desk, command: TokenCommand) -> Result<()> {
    match command {
        TokenCommand::Create(args) => create(desk, &args),
        TokenCommand::List { person } => list(desk, person.as_deref()),
        TokenCommand::Revoke { token, person } => revoke(desk, &token, person.as_deref()),
    }
}

fn create(desk: &Desk, args: &CreateArgs) -> Result<()> {
    let scopes: Vec<&str> = args
        .scopes
        .iter()
        .map(|it| match it {
            ScopeWord::Read => "read",
            ScopeWord::Write => "write",
            ScopeWord::Decide => "decide",
            ScopeWord::Metrics => "metrics",
            ScopeWord::Channel => "channel",
        })
        .collect();
    let expires = args.expires.as_deref().map(parse_duration).transpose()?;
    let body = json!({
        "name": args.name, "scopes": scopes, "person": args.person,
        "expires_in_ms": expires.map(|it| u64::try_from(it.as_millis()).unwrap_or(u64::MAX)),
    });
    let made = desk.client()?.post("/api/tokens", &body)?;
    desk.screen.answer(&made, |screen, made| {
        let it: TokenMade = typed(made.clone())?;
        screen.put(&escape::line(&it.token))?;
        let whose = escape::line(&format!("{} of {}", it.name, it.person));
        screen.note(&format!("token {whose}; it is not shown again"));
        Ok(())
    })
}

fn list(desk: &Desk, person: Option<&str>) -> Result<()> {
    let answer = desk.client()?.get(&query("/api/tokens", &[("person", person)]))?;
    desk.screen.answer(&answer, |screen, answer| {
        let heads = &["ID", "PERSON", "NAME", "SCOPES", "STATE", "LAST USED", "ENDS"];
        let mut table = Table::new(heads);
        for TokenView { token, person, person_disabled } in
            typed::<Page<TokenView>>(answer.clone())?.items
        {
            let scopes: Vec<&str> = token.scopes.iter().map(|it| it.as_str()).collect();
            let ends = desk.since(token.expires_at);
            let state = match (token.revoked_at, ends.ends_with(" ago")) {
                (Some(_), _) => "revoked",
                (None, true) => "ended",
                (None, false) if person_disabled => "disabled",
                (None, false) => "alive",
            };
            let used = token.last_used_at.map_or("never".to_owned(), |at| desk.since(Some(at)));
            let (id, scopes) = (shorten(token.id.as_str()), scopes.join(","));
            table.row([id, &person, &token.name, &scopes, state, &used, &ends]);
        }
        screen.table(&table, "no tokens")
    })
}

fn revoke(desk: &Desk, given: &str, person: Option<&str>) -> Result<()> {
    let client = desk.client()?;
    let answer = client.get(&query("/api/tokens", &[("person", person)]))?;
    let mut found = typed::<Page<TokenView>>(answer)?.items;
    found.retain(|TokenView { token: it, .. }| {
        let id = it.id.as_str();
        let is_named = id == given || it.name == given;
        it.revoked_at.is_none() && (is_named || (given.len() >= 4 && id.ends_with(given)))
    });
    let id = match found.as_slice() {
        [one] => &one.token.id,
        [] => {
            return Err(Error::not_found(format!("no active token `{}`", given.escape_debug()))
                .hint("list them: wiki-browser token list"));
        }
        several => {
            let named = |it: &TokenView| format!("{} of {}", it.token.id, it.person);
            let named: Vec<String> = several.iter().map(named).take(NAMED_MAX).collect();
            return Err(Error::invalid(format!("several tokens match `{}`", given.escape_debug()))
                .hint(format!("give an id: {}", named.join(", "))));
        }
    };
    let done = client.delete(&format!("/api/tokens/{id}"))?;
    desk.screen.answer(&done, |screen, done| {
        let it: TokenRevoked = typed(done.clone())?;
        screen.put(&format!("{} is revoked", escape::line(&it.name)))
    })
}
