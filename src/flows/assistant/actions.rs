//! A person's actions: files of their vault whose text is a question.

use std::collections::BTreeMap;

use jiff::Zoned;

use crate::api::chat_settings::{ActionPage, ActionView};
use crate::base::{Error, ErrorKind, Result};
use crate::chat::action::{self, Action};
use crate::flows::assistant::run::clock;
use crate::flows::assistant::{Seat, seat, vault};
use crate::flows::{Site, Works};
use crate::people::{Caller, Person};
use crate::vault::{Vault, VaultPath};

/// The folder in the vault.
pub const FOLDER: &str = "agent/actions";
/// Most actions per person.
const ACTIONS_MAX: usize = 100;
/// Largest action file, in bytes.
const FILE_BYTES_MAX: usize = 64 * 1024;

/// A file in the folder.
struct Found {
    label: String,
    path: String,
    id: String,
    action: Result<Action>,
}

/// Returns the caller's actions, including those that cannot run, with the reason.
///
/// # Errors
/// As the seat; as opening the vault.
pub async fn actions(site: &Site, caller: &Caller) -> Result<ActionPage> {
    let seat = seat(site, caller)?;
    let found = find(site, &seat).await?;
    let now = clock(site);
    let items = found.into_iter().map(|it| view(it, (&seat.person, &now)));
    let items = items.collect::<Result<_>>()?;
    Ok(ActionPage { items, folder: FOLDER.to_owned() })
}

fn view(found: Found, (person, now): (&Person, &Zoned)) -> Result<ActionView> {
    let (action, error) = match found.action {
        Ok(action) => (Some(action), None),
        Err(cause) => (None, Some(cause.message().to_owned())),
    };
    let filled = match &action {
        Some(it) => Some(action::shown(it, &person.display_name, now)?),
        None => None,
    };
    Ok(ActionView {
        id: found.id,
        label: found.label,
        path: found.path,
        about: action.as_ref().and_then(|it| it.about.clone()),
        requires_confirmation: action.as_ref().is_some_and(|it| it.requires_confirmation),
        max_steps: action.as_ref().and_then(|it| it.max_steps),
        prompt: action.as_ref().map(|it| it.prompt.clone()),
        filled,
        digest: action.map(|it| it.digest),
        error,
    })
}

async fn find(works: &Works, seat: &Seat<'_>) -> Result<Vec<Found>> {
    vault::within(works, seat.person.clone(), all).await
}

/// Checks that a new file may be added to the folder, or that one may get another name.
///
/// # Errors
/// `conflict` with code `action_exists`; `invalid` with code `too_many_actions`.
pub(super) fn check_new(vault: &Vault, label: &str, before: Option<&VaultPath>) -> Result<()> {
    let mut found = all(vault)?;
    found.retain(|it| before.is_none_or(|path| path.as_str() != it.path));
    if let Some(other) = found.iter().find(|it| it.id == action::id(label)) {
        let message = format!("you have the action {} already", other.label);
        return Err(Error::conflict("action_exists", message).hint("choose another name"));
    }
    if found.len() >= ACTIONS_MAX {
        let message = format!("you have {ACTIONS_MAX} actions, which is the limit");
        return Err(Error::invalid(message).code("too_many_actions").hint("remove one first"));
    }
    Ok(())
}

/// Checks the content of a file in the folder.
///
/// # Errors
/// `invalid` with code `bad_action`; `too_large`.
pub(super) fn check(text: &str) -> Result<()> {
    if text.len() > FILE_BYTES_MAX {
        let message = format!("an action has at most {} KiB", FILE_BYTES_MAX / 1024);
        return Err(Error::new(ErrorKind::TooLarge, message));
    }
    action::read(text).map(|_| ())
}

/// Reads the folder each time, so a new file counts at once.
fn all(vault: &Vault) -> Result<Vec<Found>> {
    let folder: VaultPath = FOLDER.parse()?;
    if !vault.is_folder(&folder)? {
        return Ok(Vec::new());
    }
    let (listed, _) = vault.list(Some(&folder))?;
    let files = listed.iter().filter(|it| it.bytes.is_some());
    let named = files.filter_map(|it| Some((&it.name, action::label(&it.name)?)));
    let mut found: Vec<Found> = Vec::new();
    for (name, label) in named.take(ACTIONS_MAX) {
        let path = format!("{FOLDER}/{name}");
        let action = read(vault, &path);
        found.push(Found { label: label.to_owned(), path, id: action::id(label), action });
    }
    let mut named: BTreeMap<String, usize> = BTreeMap::new();
    for it in &found {
        *named.entry(it.id.clone()).or_default() += 1;
    }
    for it in found.iter_mut().filter(|it| named.get(&it.id).is_some_and(|count| *count > 1)) {
        let message = format!("several files are called `{}`: rename all but one", it.id);
        it.action = Err(Error::invalid(message).code("bad_action"));
    }
    Ok(found)
}

fn read(vault: &Vault, path: &str) -> Result<Action> {
    let image = vault.image(&path.parse()?)?;
    let text = image.text().ok_or_else(|| Error::invalid("it is no text").code("bad_action"))?;
    if text.len() > FILE_BYTES_MAX {
        let message = format!("it has more than {FILE_BYTES_MAX} bytes");
        return Err(Error::invalid(message).code("bad_action"));
    }
    action::read(text)
}

/// An action to run.
pub(super) struct Chosen {
    /// Its id.
    pub(super) id: String,
    /// Its label, which becomes the conversation's title.
    pub(super) label: String,
    /// The question, in parts between which the id of the run belongs.
    pub(super) question: Vec<String>,
    /// The most steps of the answer.
    pub(super) max_steps: Option<u32>,
}

/// Returns an action as a question, with the person's additional text.
///
/// # Errors
/// `not_found` with code `no_action`; `invalid` with code `bad_action`; `conflict` with codes
/// `confirm_required` and `action_changed`.
pub(super) async fn choose(
    works: &Works,
    seat: &Seat<'_>,
    (id, confirm): (&str, Option<&str>),
    added: Option<&str>,
) -> Result<Chosen> {
    let found = find(works, seat).await?.into_iter().find(|it| it.id == id);
    let found = found.ok_or_else(|| {
        let shown = crate::base::truncate_chars(id, 80);
        Error::not_found(format!("you have no action `{}`", shown.escape_debug()))
            .code("no_action")
            .hint(format!("an action is a Markdown file in {FOLDER} of your vault"))
    })?;
    let action = found.action.map_err(|cause| match cause.kind() {
        ErrorKind::Invalid => {
            let message = format!("the action {} cannot be run: {}", found.label, cause.message());
            Error::invalid(message).code("bad_action").hint(format!("mend its file in {FOLDER}"))
        }
        _ => cause,
    })?;
    match confirm {
        None if action.requires_confirmation => {
            let message = format!("the action {} runs only after a look at it", found.label);
            return Err(Error::conflict("confirm_required", message)
                .hint("look at its prompt, then send the action's digest as `confirm`"));
        }
        Some(seen) if seen != action.digest => {
            let message = format!("the action {} has changed since you saw it", found.label);
            return Err(Error::conflict("action_changed", message).hint("look at it again"));
        }
        _ => {}
    }
    let question = question(&action, &seat.person, &clock(works), added)?;
    Ok(Chosen { id: found.id, label: found.label, question, max_steps: action.max_steps })
}

fn question(
    action: &Action,
    person: &Person,
    now: &Zoned,
    added: Option<&str>,
) -> Result<Vec<String>> {
    let mut question = action::prompt_for(action, &person.display_name, now)?;
    let added = added.map(str::trim).filter(|it| !it.is_empty());
    if let (Some(added), Some(last)) = (added, question.last_mut()) {
        *last += &format!("\n\nAdditional context:\n\n{added}");
    }
    Ok(question)
}
