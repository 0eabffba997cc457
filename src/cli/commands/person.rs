//! `wiki-browser person`: people and their roles.

use clap::{Subcommand, ValueEnum};
use serde_json::{Value, json};

use crate::api::people::{Me, Person};
use crate::base::{Page, Result};
use crate::cli::commands::mail::typed;
use crate::cli::commands::{Desk, line};
use crate::cli::terminal::escape;
use crate::cli::terminal::question;
use crate::cli::terminal::table::Table;
use crate::client::path_part;

/// The role of a person.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(in crate::cli) enum RoleWord {
    /// Can do everything, including other people's affairs
    Admin,
    /// Can read, write and decide
    Member,
    /// Can read
    Viewer,
}

impl RoleWord {
    fn as_str(self) -> &'static str {
        match self {
            RoleWord::Admin => "admin",
            RoleWord::Member => "member",
            RoleWord::Viewer => "viewer",
        }
    }
}

/// Commands on people.
#[derive(Debug, Subcommand)]
pub(in crate::cli) enum PersonCommand {
    /// Add a person and print a one-time login link for them
    #[command(after_help = "\
Somebody from outside does not sign in: they take part in channels to which a member adds them, with
a token for that (`token create NAME --scope channel --person NAME`), and see nothing else.

Examples:
  wiki-browser person add bo --display-name 'Bo Berg' --role member
  wiki-browser person add acme-bot --outside")]
    Add {
        /// User name, unique on the site
        name: String,
        /// Display name, also used in commits [default: the user name]
        #[arg(long, value_name = "TEXT")]
        display_name: Option<String>,
        /// Email address for commit trailers
        #[arg(long, value_name = "ADDRESS")]
        email: Option<String>,
        /// Role of the person
        #[arg(long, value_enum, value_name = "ROLE", default_value = "member")]
        role: RoleWord,
        /// Somebody from outside, a person or a program, who takes part in channels only
        #[arg(long, conflicts_with = "role")]
        outside: bool,
    },
    /// List people
    List,
    /// Disable a person: ends their sessions, tokens, open pages and waiting jobs immediately
    ///
    /// Their past work remains, and their running jobs continue; private ones, such as answers of
    /// their assistant, end.
    Disable {
        /// Name of the person
        name: String,
        /// Skip the confirmation, which only the person of this command line needs
        #[arg(long)]
        yes: bool,
    },
    /// Enable a disabled person; their tokens work again
    Enable {
        /// Name of the person
        name: String,
    },
    /// Change a person's role
    Role {
        /// Name of the person
        name: String,
        /// Role of the person
        #[arg(value_enum)]
        role: RoleWord,
        /// Skip the confirmation, which only the person of this command line needs
        #[arg(long)]
        yes: bool,
    },
    /// Change a person's display name or email address
    #[command(after_help = "\
Example:
  wiki-browser person edit ada --display-name 'Ada Byron' --email ada@example.org")]
    Edit {
        /// Name of the person
        name: String,
        /// Display name, also used in commits
        #[arg(long, value_name = "TEXT")]
        display_name: Option<String>,
        /// Email address for commit trailers; empty removes it
        #[arg(long, value_name = "ADDRESS", required_unless_present = "display_name")]
        email: Option<String>,
    },
    /// Print a new one-time login link for a person
    Link {
        /// Name of the person
        name: String,
    },
}

/// Runs a command.
pub(in crate::cli) fn run(desk: &Desk, command: PersonCommand) -> Result<()> {
    match command {
        PersonCommand::Add { name, display_name, email, role, outside } => {
            let role = if outside { RoleWord::Viewer } else { role };
            let body = json!({
                "name": name, "display_name": display_name, "email": email, "role": role.as_str(),
                "is_external": outside,
            });
            let client = desk.client()?;
            let mut person = client.post("/api/persons", &body)?;
            if outside {
                return desk.screen.answer(&person, |screen, person| {
                    say(desk, person, "was added")?;
                    screen.note(&format!(
                        "next: wiki-browser token create NAME --scope channel --person {}",
                        line(person, "name")
                    ));
                    Ok(())
                });
            }
            let link = client.post("/api/login-links", &json!({"person": name}))?;
            person["link"] = link;
            desk.screen.answer(&person, |screen, person| {
                say(desk, person, "is added")?;
                screen.put(&line(&person["link"], "url"))?;
                note_link(desk, &person["link"]);
                Ok(())
            })
        }
        PersonCommand::List => list(desk),
        PersonCommand::Disable { name, yes } => {
            if !yes {
                confirm_own(desk, &name)?;
            }
            change(desk, &name, "disable", json!({}), "is disabled")
        }
        PersonCommand::Enable { name } => change(desk, &name, "enable", json!({}), "is enabled"),
        PersonCommand::Role { name, role, yes } => {
            if !yes && !matches!(role, RoleWord::Admin) {
                confirm_own(desk, &name)?;
            }
            let body = json!({"role": role.as_str()});
            change(desk, &name, "role", body, &format!("is {} now", role.as_str()))
        }
        PersonCommand::Edit { name, display_name, email } => {
            let body = json!({"display_name": display_name, "email": email});
            change(desk, &name, "profile", body, "is updated")
        }
        PersonCommand::Link { name } => {
            let link = desk.client()?.post("/api/login-links", &json!({"person": name}))?;
            desk.screen.answer(&link, |screen, link| {
                screen.put(&line(link, "url"))?;
                note_link(desk, link);
                Ok(())
            })
        }
    }
}

fn note_link(desk: &Desk, link: &Value) {
    let until = escape::line(&desk.ago(&link["expires_at"]));
    desk.screen.note(&format!("works once; expires {until}"));
}

fn say(desk: &Desk, person: &Value, what: &str) -> Result<()> {
    let it: Person = typed(person.clone())?;
    desk.screen.put(&format!("{} ({}) {what}", escape::line(&it.name), it.role.as_str()))
}

fn change(desk: &Desk, name: &str, verb: &str, body: Value, what: &str) -> Result<()> {
    let encoded = path_part(name);
    let person = desk.client()?.post(&format!("/api/persons/{encoded}/{verb}"), &body)?;
    desk.screen.answer(&person, |_, person| say(desk, person, what))
}

/// Asks before the command line loses the person that it acts as.
fn confirm_own(desk: &Desk, name: &str) -> Result<()> {
    let me: Me = typed(desk.client()?.get("/api/me")?)?;
    if me.person.is_none_or(|it| it.name != name) {
        return Ok(());
    }
    let what = format!(
        "this command line acts as {}, and would be refused until the server is restarted, \
         which picks the next admin",
        escape::line(name)
    );
    let hint = "run it again with --yes if that is meant";
    question::confirm(&desk.screen, &what, &format!("{what}. Go on?"), hint)
}

fn list(desk: &Desk) -> Result<()> {
    let answer = desk.client()?.get("/api/persons")?;
    desk.screen.answer(&answer, |screen, answer| {
        let mut table = Table::new(&["NAME", "ROLE", "STATE", "ADDED", "DISPLAY NAME", "ADDRESS"]);
        for it in typed::<Page<Person>>(answer.clone())?.items {
            let state = match it.disabled_at {
                None => "active".to_owned(),
                at => format!("disabled {}", desk.since(at)),
            };
            let (added, email) = (desk.since(Some(it.created_at)), it.email.unwrap_or_default());
            table.row([&it.name, it.role.as_str(), &state, &added, &it.display_name, &email]);
        }
        screen.table(&table, "no people")
    })
}
