//! `wiki-browser gateway`: the service that calls models with people's own subscriptions.

use clap::Subcommand;
use serde_json::json;

use crate::api::chat_settings::{GatewayLogin, HealthView, SignedOut};
use crate::base::{Error, Result};
use crate::cli::commands::Desk;
use crate::cli::commands::mail::typed;
use crate::cli::terminal::{escape, input};
use crate::client::path_part;
use crate::flows::assistant;
use crate::jobs::become_program;
use crate::script;

/// How often the state of a sign-in is checked.
const LOOK: std::time::Duration = std::time::Duration::from_secs(2);

/// Longest pasted address, in bytes.
const ADDRESS_BYTES_MAX: u64 = 8 * 1024;

/// Commands on the gateway.
#[derive(Debug, Subcommand)]
pub(in crate::cli) enum GatewayCommand {
    /// Install it in the data folder, by npm; no server is needed
    #[command(after_help = "\
It needs Node.js 20 or newer and npm. What is installed is one package with what it needs, each in
the version and with the digest of the lock file of this release; none of them runs a script.

Examples:
  wiki-browser gateway install
  wiki-browser doctor")]
    Install,
    /// Sign in with your own subscription
    Login,
    /// Forget your sign-in
    Logout,
    /// Print whether you can use it
    Status,
}

/// Runs a command.
pub(in crate::cli) fn run(desk: &Desk, command: &GatewayCommand) -> Result<()> {
    match command {
        GatewayCommand::Install => install(desk),
        GatewayCommand::Login => login(desk),
        GatewayCommand::Logout => {
            let answer = desk.client()?.delete("/api/agent/gateway/login")?;
            let it: SignedOut = typed(answer)?;
            let words = if it.was_signed_in { "signed out" } else { "you were not signed in" };
            desk.screen.answer(&json!(it), |screen, _| screen.put(words))
        }
        GatewayCommand::Status => status(desk),
    }
}

/// Writes the program, and replaces this process by npm.
fn install(desk: &Desk) -> Result<()> {
    let path = desk.script()?;
    let loaded = script::load(&path).map_err(|report| {
        Error::invalid(report.summary()).hint("wiki-browser check shows the errors")
    })?;
    let app = assistant::put(&loaded.config)?;
    let words = ["npm", "ci", "--prefix", app.as_str(), "--ignore-scripts", "--omit=dev"];
    let quiet = ["--no-audit", "--no-fund"];
    let words: Vec<String> = words.into_iter().chain(quiet).map(str::to_owned).collect();
    desk.screen.note(&format!("installing in {app}"));
    Err(become_program(&words).hint("install Node.js 20 or newer, which brings npm"))
}

fn login(desk: &Desk) -> Result<()> {
    let client = desk.client()?;
    let mut it: GatewayLogin = typed(client.create("/api/agent/gateway/login", &json!({}))?)?;
    let at = format!("/api/agent/gateway/login/{}", path_part(&it.login_id));
    if let Some(url) = &it.url {
        desk.screen
            .note(&format!("Open this address and sign in there:\n\n  {}\n", escape::line(url)));
    }
    if let Some(text) = &it.instructions {
        desk.screen.note(&escape::line(text));
    }
    // A provider whose code is entered on its own page needs no input here.
    if it.provider == "openai-codex" {
        desk.screen.note(
            "It ends at an address that does not load and begins with http://localhost. \
             Paste that whole address here:",
        );
        let text = input::line("the address", ADDRESS_BYTES_MAX)?;
        it = typed(client.post(&at, &json!({"text": text}))?)?;
    }
    while it.state == "waiting" {
        std::thread::sleep(LOOK);
        it = typed(client.get(&at)?)?;
    }
    if it.state != "done" {
        let why = it.problem.as_deref().unwrap_or("it has ended").to_owned();
        return Err(Error::unavailable(format!("the sign-in failed: {why}")).code("login_failed"));
    }
    let words = format!("signed in to {}", it.provider);
    desk.screen.answer(&json!(it), |screen, _| screen.put(&words))
}

fn status(desk: &Desk) -> Result<()> {
    let health: HealthView = typed(desk.client()?.get("/api/agent/health")?)?;
    let found = health.runtimes.into_iter().find(|it| it.mode == "gateway_subscription");
    let it = found.ok_or_else(|| {
        Error::not_found("this site has no gateway")
            .code("no_gateway")
            .hint("declare it: runtimes = { gateway_subscription = … } in wb.assistant")
    })?;
    desk.screen.answer(&json!(it), |screen, _| {
        screen.put(&it.state)?;
        for text in [&it.problem, &it.hint].into_iter().flatten() {
            screen.put(&escape::line(text))?;
        }
        Ok(())
    })
}
