//! A person's settings, and their sign-in to Claude.

use std::time::Duration;

use crate::api::chat_settings::{
    AnswerBounds, ConfigRequest, ConfigView, ModeView, TextRequest, ToolRule,
};
use crate::base::{Error, Result};
use crate::chat::{self, Home, Setting};
use crate::flows::Site;
use crate::flows::assistant::disk::on_disk;
use crate::flows::assistant::run::unread;
use crate::flows::assistant::start::parse_mode;
use crate::flows::assistant::{
    ACTIONS_FOLDER, PROMPT_FILE, Seat, closed, fallback, has_own_key, seat, text, tools, write_text,
};
use crate::people::Caller;
use crate::script::{Assistant, AssistantLimits, Engine, Mode, Policy};
use crate::vault::DIGEST_OF_NOTHING;

/// What answers a person, and what else could.
pub struct Choice {
    /// The mode of their runs.
    pub mode: String,
    /// All modes.
    pub modes: Vec<ModeView>,
}

/// Returns the caller's mode, and all modes.
///
/// # Errors
/// As the seat.
pub fn choice(site: &Site, caller: &Caller) -> Result<Choice> {
    let seat = seat(site, caller)?;
    let chosen = site.store.look(|c| chat::setting_of(c, &seat.person.id))?.mode;
    let mode = seat.mode(chosen.as_deref());
    let mut modes = Vec::new();
    for mode in seat.assistant.runtimes.keys() {
        let closed = closed(site, &seat, *mode)?;
        let instead = match &closed {
            Some(closed) => fallback::instead_of(site, &seat, (*mode, closed.state))?,
            None => None,
        };
        let (why, hint) = closed.map(|it| (it.why, it.hint)).unzip();
        modes.push(ModeView {
            mode: mode.to_string(),
            available: why.is_none() || instead.is_some(),
            instead: instead.map(|it| it.to_string()),
            why,
            hint,
            terms: terms(site, &seat, *mode),
            is_unsandboxed: *mode == Mode::ClaudeCode,
        });
    }
    Ok(Choice { mode: mode.to_string(), modes })
}

/// Returns who gets what is asked and read in a mode, and who pays.
fn terms(site: &Site, seat: &Seat<'_>, mode: Mode) -> String {
    let engine = seat.assistant.runtimes.get(&mode).and_then(|it| site.config.engines.get(it));
    let to = match mode {
        Mode::AnthropicApiKey => engine.and_then(Engine::model).map(|it| it.base_url.to_string()),
        Mode::GatewaySubscription => {
            engine.and_then(Engine::subscribed).map(|it| it.provider.to_owned())
        }
        Mode::ClaudeCode => Some("Anthropic".to_owned()),
    };
    let to = to.unwrap_or_else(|| "its provider".to_owned());
    let how = match mode {
        Mode::AnthropicApiKey => "with the site’s key; the site pays",
        Mode::GatewaySubscription => "with your own subscription, under its provider’s terms",
        Mode::ClaudeCode if has_own_key(site, seat.assistant, mode) => {
            "by Claude Code, with the site’s key; the site pays"
        }
        Mode::ClaudeCode => "by Claude Code, with your own subscription and under its terms",
    };
    format!("Your questions, and what the assistant reads, go to {to} {how}.")
}

/// Returns the caller's settings and choices.
///
/// # Errors
/// As the seat.
pub async fn show(site: &Site, caller: &Caller) -> Result<ConfigView> {
    let Choice { mode, modes } = choice(site, caller)?;
    let vault_problem = unread(site, caller).await?;
    let seat = seat(site, caller)?;
    let prompt = match text(site, caller, PROMPT_FILE).await {
        Ok(prompt) => Some(prompt),
        // `vault_problem` says it; without tools, nothing of the vault is read.
        Err(_) if vault_problem.is_some() || seat.assistant.tools.is_empty() => None,
        Err(cause) => return Err(cause),
    };
    let (prompt, prompt_digest) = prompt.map_or((None, None), |it| (it.text, Some(it.digest)));
    let limits = &seat.assistant.limits;
    Ok(ConfigView {
        mode,
        modes,
        prompt,
        prompt_digest,
        vault_problem,
        tools: rules(seat.assistant),
        limits: bounds(limits),
        actions_folder: ACTIONS_FOLDER.to_owned(),
        prompt_bytes_max: limits.prompt_bytes,
        running_person: limits.running_person,
    })
}

fn rules(assistant: &Assistant) -> Vec<ToolRule> {
    let allowed = tools::TOOLS.iter().filter_map(|it| Some((it, assistant.tools.get(it.name)?)));
    let view = |(tool, policy): (&tools::Tool, &Policy)| ToolRule {
        name: tool.name.to_owned(),
        about: tool.about.to_owned(),
        rule: match policy {
            Policy::Allow => "allow".to_owned(),
            Policy::Ask => "ask".to_owned(),
        },
        asks: tools::asks(tool.name, *policy == Policy::Ask).to_owned(),
    };
    allowed.map(view).collect()
}

fn bounds(limits: &AssistantLimits) -> AnswerBounds {
    let ms = |it: Duration| u64::try_from(it.as_millis()).unwrap_or(u64::MAX);
    AnswerBounds {
        run_ms: ms(limits.run),
        idle_ms: ms(limits.idle),
        confirm_ms: ms(limits.confirm),
        tool_calls: limits.tool_calls,
        steps: limits.steps,
        output_bytes: limits.output_bytes,
        cost_usd: limits.cost_usd,
    }
}

/// Stores the caller's settings.
///
/// # Errors
/// As the seat; `invalid` with codes `unknown_mode`, `no_changes`; as [`write_text`].
pub async fn set(site: &Site, caller: &Caller, request: ConfigRequest) -> Result<ConfigView> {
    let person = seat(site, caller)?.person.id;
    if request.mode.is_none() && request.prompt.is_none() {
        let hint = "send `mode`, or `prompt` with `prompt_digest`";
        return Err(Error::invalid("nothing is to be changed").code("no_changes").hint(hint));
    }
    let mode = request.mode.as_ref().and_then(Option::as_deref).map(parse_mode).transpose()?;
    if let Some(mode) = mode
        && !site.config.assistant.as_ref().is_some_and(|it| it.runtimes.contains_key(&mode))
    {
        let message = format!("this site does not have the mode {mode}");
        return Err(Error::invalid(message).code("unknown_mode").of_input("mode"));
    }
    if let Some(prompt) = request.prompt {
        let digest = request.prompt_digest.ok_or_else(|| {
            Error::invalid("`prompt` comes without `prompt_digest`")
                .code("bad_parameter")
                .of_input("prompt_digest")
                .hint("send the digest of the text that it replaces")
        })?;
        // Without the file, there is nothing to remove.
        let is_gone = prompt.is_none()
            && digest == DIGEST_OF_NOTHING
            && text(site, caller, PROMPT_FILE).await?.text.is_none();
        if !is_gone {
            let path = PROMPT_FILE.to_owned();
            write_text(site, caller, TextRequest { path, text: prompt, digest, to: None }).await?;
        }
    }
    if request.mode.is_some() {
        let setting = Setting { mode: mode.map(|it| it.to_string()) };
        site.store.write(move |tx| chat::keep_setting(tx, &person, &setting)).await?;
    }
    show(site, caller).await
}

/// Stores the token of the caller's Claude subscription, for the caller's runs only.
///
/// # Errors
/// As the seat; `forbidden` with code `token_forbidden`; `invalid` with code `bad_token`.
pub async fn sign_in(site: &Site, caller: &Caller, token: String) -> Result<()> {
    caller.in_person()?;
    let seat = seat(site, caller)?;
    let home = Home::of(&site.config.site.data, &seat.person.id);
    on_disk(move || home.keep_claude_token(&token)).await
}

/// Returns whether the caller has stored such a token. Whether it still works is seen when it is
/// used.
///
/// # Errors
/// As the seat; `unavailable` if the file cannot be read.
pub async fn is_signed_in(site: &Site, caller: &Caller) -> Result<bool> {
    let home = Home::of(&site.config.site.data, &seat(site, caller)?.person.id);
    on_disk(move || Ok(home.claude_token()?.is_some())).await
}

/// Removes that token. Returns whether there was one.
///
/// # Errors
/// As [`sign_in`].
pub async fn sign_out(site: &Site, caller: &Caller) -> Result<bool> {
    caller.in_person()?;
    let seat = seat(site, caller)?;
    let home = Home::of(&site.config.site.data, &seat.person.id);
    on_disk(move || home.forget_claude_token()).await
}
