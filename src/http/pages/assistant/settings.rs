//! The settings of a person's assistant: what answers, their prompt, memory and actions, and what
//! the site allows.

use askama::Template;
use serde::Deserialize;
use warp::filters::BoxedFilter;
use warp::reply::Response;

use crate::api::chat_settings::{
    ActionView, ConfigView, LinkedinView, TextRequest, ToolRule, VaultText,
};
use crate::base::limit::format_duration;
use crate::base::{Error, Result};
use crate::flows::Site;
use crate::flows::assistant::{
    self, ACTIONS_FOLDER, MEMORY_CHARS_MAX, MEMORY_FILE, PROMPT_CHARS_MAX, PROMPT_FILE, action,
};
use crate::http::pages::Frame;
use crate::http::pages::assistant::{accounts, mode_name};
use crate::http::pages::parts::form;
use crate::http::pages::parts::labels::{grouped, size};
use crate::http::pages::parts::visible::{Name, Plain, Visible};
use crate::http::{Call, any_of, get, post, reply};
use crate::people::Caller;

/// The address of the page.
pub(super) const PLACE: &str = "/assistant/settings";
/// Largest form with a text, in which every byte may be escaped as three.
const TEXT_BYTES_MAX: usize = 4 * 32_000 * 3 + 16 * 1024;
/// What tells a missing file from others.
const NOTHING: &str = "none";

#[derive(Template)]
#[template(path = "assistant-settings.html")]
struct SettingsPage {
    frame: Frame,
    config: ConfigView,
    linkedin: Option<LinkedinView>,
    /// The texts, unless nothing of the vault is read.
    texts: Vec<TextForm>,
    /// The actions, or why they cannot be listed.
    actions: std::result::Result<Vec<ActionView>, String>,
}

/// A text in a form.
struct TextForm {
    name: &'static str,
    title: &'static str,
    about: &'static str,
    path: &'static str,
    chars_max: i64,
    /// What the file holds, or what was typed.
    text: String,
    digest: String,
    /// Why it cannot be edited here.
    problem: Option<String>,
    refused: Option<Refused>,
}

/// Why something was not saved.
struct Refused {
    why: String,
    /// What the file holds by now, if it is not what the person saw.
    now: Option<String>,
}

#[derive(Template)]
#[template(path = "action.html")]
struct ActionPage {
    frame: Frame,
    /// The file; none for a new action.
    path: Option<String>,
    digest: String,
    sent: ActionForm,
    /// Why its file is no action.
    error: Option<String>,
    refused: Option<Refused>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TextSent {
    path: String,
    digest: String,
    text: String,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct ActionForm {
    #[serde(default)]
    path: String,
    #[serde(default)]
    digest: String,
    /// What it is called.
    #[serde(default)]
    name: String,
    #[serde(default)]
    prompt: String,
    #[serde(default)]
    about: String,
    /// `1` if the prompt is shown before it runs.
    #[serde(default)]
    asks: Option<String>,
    #[serde(default)]
    steps: String,
    /// The whole file, of one that is no action.
    #[serde(default)]
    file: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RemoveForm {
    path: String,
    digest: String,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct ActionQuery {
    path: Option<String>,
}

impl SettingsPage {
    fn name_of(&self, mode: &str) -> &'static str {
        mode_name(mode)
    }

    /// Returns when a tool asks, in a few words.
    fn rule(&self, tool: &ToolRule) -> &'static str {
        match tool.asks.as_str() {
            "always" => "Always asks",
            "never" => "Never asks",
            _ => "Asks if risky",
        }
    }

    /// Returns the pages of the person's own accounts, by name.
    fn accounts(&self) -> Vec<(&'static str, &'static str)> {
        accounts(self.config.modes.iter().map(|it| it.mode.as_str()))
    }

    /// Returns the bounds of an answer, by name.
    fn bounds(&self) -> Vec<(&'static str, String)> {
        let (it, config) = (&self.config.limits, &self.config);
        let time = |ms: u64| format_duration(std::time::Duration::from_millis(ms));
        let mut bounds = vec![
            ("Time", time(it.run_ms)),
            ("Silence of the model", time(it.idle_ms)),
            ("Time to confirm", time(it.confirm_ms)),
            ("Tool calls", it.tool_calls.to_string()),
            ("Steps", it.steps.to_string()),
            ("Length of a question", size(&config.prompt_bytes_max)),
            ("Length of an answer", size(&it.output_bytes)),
            ("Answers at once", config.running_person.to_string()),
        ];
        if let Some(cost) = it.cost_usd {
            bounds.push(("Cost", format!("${cost:.2}")));
        }
        bounds
    }
}

impl TextForm {
    /// Returns the longest text, as a number for people.
    fn most(&self) -> String {
        grouped(self.chars_max)
    }
}

impl ActionForm {
    /// Returns the file of an action that gets another name.
    fn renamed(&self) -> Option<String> {
        let file = self.path.strip_prefix(ACTIONS_FOLDER)?.strip_prefix('/')?;
        let (label, name) = (action::label(file)?, self.name.trim());
        (!name.is_empty() && name != label).then(|| {
            let ending = if file.ends_with(".prompt.md") { ".prompt.md" } else { ".md" };
            format!("{ACTIONS_FOLDER}/{name}{ending}")
        })
    }
}

impl ActionPage {
    fn title(&self) -> &str {
        self.path.as_deref().and_then(label_of).unwrap_or("New action")
    }
}

/// Returns what the action of a file is called.
fn label_of(path: &str) -> Option<&str> {
    action::label(path.rsplit('/').next()?)
}

pub(super) fn routes(site: &Site) -> BoxedFilter<(Response,)> {
    any_of([
        get(PLACE, site, async |site: Site, call: Call| {
            let framed = Frame::of(&site, &call, "/assistant")?;
            page(&site, framed, None).await
        }),
        post("/assistant/settings/text", site, save_text),
        get("/assistant/settings/action", site, async |site: Site, call: Call| {
            let framed = Frame::of(&site, &call, "/assistant")?;
            let query: ActionQuery = call.query()?;
            action_page(&site, framed, query.path, None).await
        }),
        post("/assistant/settings/action", site, save_action),
        post("/assistant/settings/remove", site, async |site: Site, mut call: Call| {
            let sent: RemoveForm = call.form(TEXT_BYTES_MAX).await?;
            let back = action_at(&sent.path);
            let request =
                TextRequest { path: sent.path, text: None, digest: sent.digest, to: None };
            let outcome = assistant::write_text(&site, &call.caller()?, request).await;
            form::answer(outcome, |_| format!("{PLACE}#actions"), back, None)
        }),
    ])
}

/// Returns the address of an action's form.
pub(in crate::http::pages) fn action_at(path: &str) -> String {
    form::address("/assistant/settings/action", &[("path", Some(path))])
}

async fn page(
    site: &Site,
    (frame, caller): (Frame, Caller),
    refused: Option<(TextSent, Error)>,
) -> Result<Response> {
    let config = assistant::config(site, &caller).await?;
    let mut texts = Vec::new();
    // Without tools, nothing of the vault is read.
    if !config.tools.is_empty() {
        texts.push(text_form(site, &caller, prompt_form()).await);
        texts.push(text_form(site, &caller, memory_form()).await);
    }
    let cause = refused.map(|(sent, cause)| {
        if let Some(form) = texts.iter_mut().find(|it| it.path == sent.path) {
            refuse(form, sent, &cause);
        }
        cause
    });
    let actions = match assistant::actions(site, &caller).await {
        Ok(found) => Ok(found.items),
        Err(cause) => Err(told(&cause)),
    };
    let linkedin = match assistant::linkedin::is_offered(site) {
        true => Some(assistant::linkedin::state(site, &caller)?),
        false => None,
    };
    let page = SettingsPage { frame, config, linkedin, texts, actions };
    match cause {
        None => reply::page(&page),
        Some(cause) => reply::refused(&page, &cause),
    }
}

fn prompt_form() -> TextForm {
    TextForm {
        name: "prompt",
        title: "Your instructions",
        about: "What you want of the assistant: who you are, how it should answer, what it \
                should know. It reads this before each answer.",
        path: PROMPT_FILE,
        chars_max: PROMPT_CHARS_MAX as i64,
        text: String::new(),
        digest: String::new(),
        problem: None,
        refused: None,
    }
}

fn memory_form() -> TextForm {
    TextForm {
        name: "memory",
        title: "Its memory",
        about: "What the assistant noted for later, such as when you told it to remember \
                something. It reads this when a conversation begins.",
        path: MEMORY_FILE,
        chars_max: MEMORY_CHARS_MAX as i64,
        ..prompt_form()
    }
}

/// Fills a form with what its file holds.
async fn text_form(site: &Site, caller: &Caller, form: TextForm) -> TextForm {
    match assistant::text(site, caller, form.path).await {
        Ok(now) => TextForm { text: now.text.unwrap_or_default(), digest: now.digest, ..form },
        Err(cause) => TextForm { problem: Some(told(&cause)), ..form },
    }
}

/// Keeps in a form what was typed. Saved again, it replaces what the form shows besides.
fn refuse(form: &mut TextForm, sent: TextSent, cause: &Error) {
    let typed = form::text(&sent.text);
    let now = std::mem::replace(&mut form.text, typed);
    let now = (form.digest != sent.digest).then_some(now);
    form.refused = Some(Refused { why: told(cause), now });
}

fn told(cause: &Error) -> String {
    let hint = cause.hint_str().map(|it| format!(": {it}")).unwrap_or_default();
    format!("{}{hint}", cause.message())
}

async fn save_text(site: Site, mut call: Call) -> Result<Response> {
    let sent: TextSent = call.form(TEXT_BYTES_MAX).await?;
    let framed = Frame::of(&site, &call, "/assistant")?;
    let typed = form::text(&sent.text);
    let is_empty = typed.trim().is_empty();
    let (path, digest) = (sent.path.clone(), sent.digest.clone());
    let caller = call.caller()?;
    // No file, and none wanted.
    let is_gone = is_empty
        && digest == NOTHING
        && assistant::text(&site, &caller, &path).await.is_ok_and(|it| it.text.is_none());
    let outcome = match is_gone {
        true => Ok(()),
        false => {
            let text = (!is_empty).then_some(typed);
            let request = TextRequest { path, text, digest, to: None };
            assistant::write_text(&site, &caller, request).await.map(|_| ())
        }
    };
    match outcome {
        Ok(()) => reply::see_other(PLACE),
        Err(cause) => page(&site, framed, Some((sent, cause))).await,
    }
}

async fn save_action(site: Site, mut call: Call) -> Result<Response> {
    let mut sent: ActionForm = call.form(TEXT_BYTES_MAX).await?;
    sent.prompt = form::text(&sent.prompt);
    sent.file = sent.file.as_deref().map(form::text);
    let framed = Frame::of(&site, &call, "/assistant")?;
    let path = match sent.path.is_empty() {
        true => format!("{ACTIONS_FOLDER}/{}.md", sent.name.trim()),
        false => sent.path.clone(),
    };
    let content = match &sent.file {
        Some(file) => file.clone(),
        None => {
            let front = (sent.about.as_str(), sent.asks.is_some(), sent.steps.as_str());
            action::file(&sent.prompt, front)
        }
    };
    let digest = if sent.digest.is_empty() { NOTHING.to_owned() } else { sent.digest.clone() };
    let to = sent.renamed();
    let request = TextRequest { path, text: Some(content), digest, to };
    let outcome = match sent.path.is_empty() && sent.name.trim().is_empty() {
        true => Err(Error::invalid("the action has no name").of_input("name")),
        false => assistant::write_text(&site, &call.caller()?, request).await,
    };
    match outcome {
        Ok(_) => reply::see_other(&format!("{PLACE}#actions")),
        Err(cause) => {
            let path = Some(sent.path.clone()).filter(|it| !it.is_empty());
            action_page(&site, framed, path, Some((sent, cause))).await
        }
    }
}

/// Shows an action's form, empty for a new one.
async fn action_page(
    site: &Site,
    (frame, caller): (Frame, Caller),
    path: Option<String>,
    refused: Option<(ActionForm, Error)>,
) -> Result<Response> {
    let now = match &path {
        None => {
            // Whoever may not use the assistant is told at once.
            assistant::choice(site, &caller)?;
            None
        }
        Some(path) => match assistant::text(site, &caller, path).await {
            Ok(now) if now.text.is_none() && refused.is_none() => {
                let message = format!("no file {path} in your vault");
                return Err(Error::not_found(message).code("no_file"));
            }
            Ok(now) => Some(now),
            Err(cause) if refused.is_none() => return Err(cause),
            // What was refused says why, and what was typed stays.
            Err(_) => None,
        },
    };
    let digest = now.as_ref().map_or(NOTHING, |it| &it.digest).to_owned();
    let (mut stored, error) = stored(now);
    stored.name = path.as_deref().and_then(label_of).unwrap_or_default().to_owned();
    let (sent, refused, cause) = match refused {
        None => (stored, None, None),
        Some((sent, cause)) => {
            let is_other = path.is_some() && sent.digest != digest;
            let now = is_other.then(|| stored.file.unwrap_or(stored.prompt));
            let refused = Refused { why: told(&cause), now };
            (sent, Some(refused), Some(cause))
        }
    };
    let page = ActionPage { frame, path, digest, sent, error, refused };
    match cause {
        None => reply::page(&page),
        Some(cause) => reply::refused(&page, &cause),
    }
}

/// Returns a stored file as fields; one that is no action as its text, and why.
fn stored(now: Option<VaultText>) -> (ActionForm, Option<String>) {
    let Some(text) = now.and_then(|it| it.text) else { return (ActionForm::default(), None) };
    match action::read(&text) {
        Ok(it) => {
            let form = ActionForm {
                prompt: it.prompt,
                about: it.about.unwrap_or_default(),
                asks: it.requires_confirmation.then(|| "1".to_owned()),
                steps: it.max_steps.map(|it| it.to_string()).unwrap_or_default(),
                ..ActionForm::default()
            };
            (form, None)
        }
        Err(cause) => {
            (ActionForm { file: Some(text), ..ActionForm::default() }, Some(told(&cause)))
        }
    }
}
