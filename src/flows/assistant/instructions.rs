//! The texts of a vault by which a person instructs their assistant, and that they edit on a page:
//! the prompt, the memory and the actions.
//!
//! **Invariant:** a text is replaced only if its file still has the content that its person saw.

use crate::api::chat_settings::{TextRequest, VaultText};
use crate::base::{Error, ErrorKind, Result};
use crate::chat::action;
use crate::flows::Site;
use crate::flows::assistant::{actions, seat, vault};
use crate::people::Caller;
use crate::vault::{DIGEST_OF_NOTHING, Image, Vault, VaultPath};

/// The file with what a person wants of their assistant.
pub const PROMPT_FILE: &str = "agents.md";
/// The file with what the assistant noted.
pub const MEMORY_FILE: &str = "agent/memory.md";
/// Most characters of `agents.md` that the assistant reads.
pub const PROMPT_CHARS_MAX: usize = 32_000;
/// Most characters of `agent/memory.md` that it reads.
pub const MEMORY_CHARS_MAX: usize = 16_000;

/// What a text is for.
enum Sort {
    Prompt,
    Memory,
    /// An action, by its label.
    Action(String),
}

impl Sort {
    fn of(path: &VaultPath) -> Result<Sort> {
        let name = path.as_str().strip_prefix(actions::FOLDER).and_then(|it| it.strip_prefix('/'));
        let name = name.filter(|it| !it.contains('/'));
        match (path.as_str(), name.and_then(action::label)) {
            (PROMPT_FILE, _) => Ok(Sort::Prompt),
            (MEMORY_FILE, _) => Ok(Sort::Memory),
            (_, Some(label)) => Ok(Sort::Action(label.to_owned())),
            (other, None) => {
                let folder = actions::FOLDER;
                let hint =
                    format!("{PROMPT_FILE}, {MEMORY_FILE} and Markdown files in {folder} are");
                Err(Error::invalid(format!("{other} is not edited here"))
                    .code("bad_path")
                    .of_input("path")
                    .hint(hint))
            }
        }
    }

    /// Checks a new content.
    fn check(&self, text: &str) -> Result<()> {
        if text.contains('\0') {
            let message = "the text has a NUL character";
            return Err(Error::invalid(message).code("not_text").of_input("text"));
        }
        let (what, chars_max) = match self {
            Sort::Prompt => ("the prompt", PROMPT_CHARS_MAX),
            Sort::Memory => ("the memory", MEMORY_CHARS_MAX),
            Sort::Action(_) => return actions::check(text).map_err(|it| it.of_input("text")),
        };
        let count = text.trim().chars().count();
        if count > chars_max {
            let message =
                format!("{what} has {count} characters, and the assistant reads {chars_max}");
            return Err(Error::new(ErrorKind::TooLarge, message).of_input("text"));
        }
        Ok(())
    }

    fn changed(&self, path: &VaultPath) -> Error {
        let code = match self {
            Sort::Prompt => "prompt_changed",
            Sort::Memory => "memory_changed",
            Sort::Action(_) => "action_changed",
        };
        Error::conflict(code, format!("{path} has changed since you saw it"))
            .hint("nothing was saved; compare it with yours, then save again")
    }
}

/// Returns a text of the caller's vault that they may edit.
///
/// # Errors
/// As the seat; `invalid`: `bad_path`, `not_a_file`, `path_is_link`, `not_text`; `too_large`; as
/// opening the vault.
pub async fn text(site: &Site, caller: &Caller, path: &str) -> Result<VaultText> {
    let person = seat(site, caller)?.person;
    let path: VaultPath = path.parse().map_err(|cause: Error| cause.of_input("path"))?;
    Sort::of(&path)?;
    vault::within(site, person, move |vault| shown(&path, &vault.image(&path)?)).await
}

fn shown(path: &VaultPath, image: &Image) -> Result<VaultText> {
    if image.bytes().is_some() && image.text().is_none() {
        let message = format!("{path} is not a text (UTF-8)");
        return Err(Error::invalid(message).code("not_text"));
    }
    let text = image.text().map(str::to_owned);
    Ok(VaultText { path: path.to_string(), text, digest: image.digest() })
}

/// Replaces, adds or removes such a text, or gives an action another name. The assistant obeys
/// these, so this takes the same right as allowing the assistant to change them.
///
/// # Errors
/// As [`text`]; `forbidden` without the right to decide; `conflict`: `prompt_changed`,
/// `memory_changed`, `action_changed`, `action_exists`; `invalid`: `bad_action`,
/// `too_many_actions`, `hard_link`; `not_found` with code `no_file`.
pub async fn write_text(site: &Site, caller: &Caller, request: TextRequest) -> Result<VaultText> {
    caller.may_decide()?;
    let person = seat(site, caller)?.person;
    let path: VaultPath = request.path.parse().map_err(|cause: Error| cause.of_input("path"))?;
    let sort = Sort::of(&path)?;
    if let Some(text) = &request.text {
        sort.check(text)?;
    }
    let name = request.to.as_deref().map(|to| Name::of(&sort, to)).transpose()?;
    if name.is_some() && (request.text.is_none() || request.digest == DIGEST_OF_NOTHING) {
        let message = "only a file that stays gets another name";
        return Err(Error::invalid(message).code("bad_path").of_input("to"));
    }
    let name = name.filter(|it| it.path != path);
    vault::within(site, person, move |vault| write(vault, (&path, &sort), request, name)).await
}

/// Another name of an action.
struct Name {
    path: VaultPath,
    label: String,
}

impl Name {
    fn of(sort: &Sort, to: &str) -> Result<Name> {
        let path: VaultPath = to.parse().map_err(|cause: Error| cause.of_input("to"))?;
        match (sort, Sort::of(&path).map_err(|cause| cause.of_input("to"))?) {
            (Sort::Action(_), Sort::Action(label)) => Ok(Name { path, label }),
            _ => {
                let message = "only an action gets another name";
                Err(Error::invalid(message).code("bad_path").of_input("to"))
            }
        }
    }
}

fn write(
    vault: &Vault,
    (path, sort): (&VaultPath, &Sort),
    request: TextRequest,
    name: Option<Name>,
) -> Result<VaultText> {
    vault.refuse_hard_link(path)?;
    let before = vault.image(path)?;
    match (before.bytes(), &request.text, sort) {
        (None, None, _) => {
            let message = format!("no file {path} in your vault");
            return Err(Error::not_found(message).code("no_file"));
        }
        (None, Some(_), Sort::Action(label)) => actions::check_new(vault, label, None)?,
        _ => {}
    }
    if let Some(name) = &name {
        actions::check_new(vault, &name.label, Some(path))?;
    }
    // Without a file, an action of this name may have been removed in the meantime.
    if before.digest() != request.digest {
        return Err(sort.changed(path));
    }
    let after = match request.text {
        Some(text) => Image::of(text.into_bytes(), &before),
        None => Image::nothing(),
    };
    if !vault.swap(path, &before, &after)? {
        return Err(sort.changed(path));
    }
    let Some(name) = name else { return shown(path, &after) };
    if !vault.rename(path, &name.path)? {
        let message = format!("{} was made meanwhile; the text is saved as {path}", name.path);
        return Err(Error::conflict("action_exists", message).hint("choose another name"));
    }
    shown(&name.path, &after)
}
