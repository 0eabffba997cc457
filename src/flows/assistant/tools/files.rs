//! The tools for a person's vault: what a call would do, and whether it needs confirmation.

use std::collections::BTreeSet;

use serde::Deserialize;
use serde_json::Value;

use crate::base::{Error, ErrorKind, Result};
use crate::chat::Target;
use crate::documents::unified;
use crate::flows::assistant::right::NO_TOOL;
use crate::flows::assistant::tools::text_of_others::{Known, MEMORY, PROTECTED};
use crate::flows::assistant::tools::{Deed, Said, Work, parse};
use crate::vault::{DIGEST_OF_NOTHING, FILE_BYTES_MAX, Image, Skipped, Vault, VaultPath};

/// Most names in a list, and files of a glob.
const LISTED_MAX: usize = 1_000;
/// Most hits of a search.
const HITS_MAX: usize = 200;
/// Most bytes shown of a file that is deleted.
const GONE_BYTES_MAX: usize = 8 * 1024;
/// Folders without confirmation: they belong to the assistant, and everything can be undone.
const FREE: [&str; 2] = ["agent/scratch", "agent/runs"];
/// Longest line in a change that a person confirms, in bytes.
const LINE_SHOWN_MAX: usize = 32 * 1024;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ReadArgs {
    path: String,
    #[serde(default)]
    from: Option<usize>,
    #[serde(default)]
    lines: Option<usize>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ListArgs {
    #[serde(default)]
    path: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FindArgs {
    pattern: String,
    #[serde(default)]
    path: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WriteArgs {
    path: String,
    content: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct EditArgs {
    path: String,
    old: String,
    new: String,
    #[serde(default)]
    all: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct MoveArgs {
    from: String,
    to: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DeleteArgs {
    path: String,
}

/// Returns what a call would do. A read-only call is executed at once.
///
/// # Errors
/// `invalid` (`bad_arguments`, `bad_path`, `not_a_file`, `hard_link`, `bad_edit`); `too_large`;
/// `not_found`; `conflict`.
pub(in crate::flows::assistant) fn plan(
    vault: &Vault,
    tool: &str,
    args: &Value,
    known: &Known,
) -> Result<Deed> {
    match tool {
        "read_file" => read(vault, parse(args)?, known),
        "list_directory" => list(vault, parse(args)?),
        "glob_files" => glob(vault, parse(args)?),
        "search_files" => search(vault, parse(args)?, known),
        "write_file" => write(vault, parse(args)?, known),
        "edit_file" => edit(vault, parse(args)?, known),
        "move_file" => move_file(vault, parse(args)?, known),
        "delete_file" => delete(vault, parse(args)?, known),
        _ => Err(Error::not_found(format!("there is no tool {tool}")).code(NO_TOOL)),
    }
}

fn only_read(said: Said) -> Deed {
    let work = Work::Read(said);
    Deed { target: None, asks: None, preview: String::new(), is_of_others: false, work }
}

fn folder(path: Option<&str>) -> Result<Option<VaultPath>> {
    // Names that models use for the vault itself.
    let path = path.map(|it| it.trim_end_matches('/')).filter(|it| !matches!(*it, "" | "."));
    path.map(str::parse).transpose()
}

fn gone(path: &VaultPath) -> Error {
    Error::not_found(format!("there is no file {path}"))
        .code("file_gone")
        .hint("list_directory names what is there")
}

fn text_of<'i>(path: &VaultPath, image: &'i Image) -> Result<&'i str> {
    if image.bytes().is_none() {
        return Err(gone(path));
    }
    image.text().ok_or_else(|| Error::invalid(format!("{path} is no text")).code("not_text"))
}

fn read(vault: &Vault, args: ReadArgs, known: &Known) -> Result<Deed> {
    let path: VaultPath = args.path.parse()?;
    let image = vault.image(&path)?;
    let text = text_of(&path, &image)?;
    let is_of_others = known.is_of_others(&path, &image.digest());
    let all = text.lines().count();
    let from = args.from.unwrap_or(1).max(1);
    if from == 1 && args.lines.is_none() {
        let said = Said::new(format!("{path}, {all} lines"), text);
        return Ok(Deed { is_of_others, ..only_read(said) });
    }
    let part: Vec<&str> =
        text.lines().skip(from - 1).take(args.lines.unwrap_or(usize::MAX)).collect();
    let last = from - 1 + part.len();
    let summary = format!("{path}, lines {from} to {last} of {all}");
    Ok(Deed { is_of_others, ..only_read(Said::new(summary, part.join("\n"))) })
}

fn list(vault: &Vault, args: ListArgs) -> Result<Deed> {
    let folder = folder(args.path.as_deref())?;
    let (listed, left_out) = vault.list(folder.as_ref())?;
    let shown: Vec<String> = listed
        .iter()
        .take(LISTED_MAX)
        .map(|it| match it.bytes {
            Some(bytes) => format!("{} ({bytes} bytes)", it.name),
            None => it.name.clone(),
        })
        .collect();
    let mut text = shown.join("\n");
    if listed.is_empty() {
        text.push_str("The folder is empty.");
    }
    if listed.len() > LISTED_MAX {
        text += &format!("\n… and {} more", listed.len() - LISTED_MAX);
    }
    if left_out > 0 {
        text += &format!("\n{left_out} hidden names and links are not listed.");
    }
    let place = folder.map_or_else(|| "the vault".to_owned(), |it| it.to_string());
    Ok(only_read(Said::new(format!("{} names in {place}", listed.len()), text)))
}

fn glob(vault: &Vault, args: FindArgs) -> Result<Deed> {
    let found = vault.glob(&args.pattern, folder(args.path.as_deref())?.as_ref(), LISTED_MAX)?;
    let mut text = found.items.join("\n");
    if found.items.is_empty() {
        text.push_str("No file fits.");
    }
    text += &left_out(found.cut, found.skipped);
    Ok(only_read(Said::new(format!("{} files", found.items.len()), text)))
}

fn search(vault: &Vault, args: FindArgs, known: &Known) -> Result<Deed> {
    let found = vault.search(&args.pattern, folder(args.path.as_deref())?.as_ref(), HITS_MAX)?;
    let lines = found.items.iter().map(|it| format!("{}:{}: {}", it.path, it.line, it.text));
    let mut text = lines.collect::<Vec<_>>().join("\n");
    if found.items.is_empty() {
        text.push_str("Nothing was found.");
    }
    text += &left_out(found.cut, found.skipped);
    let hits: BTreeSet<&str> = found.items.iter().map(|it| it.path.as_str()).collect();
    let mut is_of_others = false;
    for path in hits {
        let path: VaultPath = path.parse()?;
        is_of_others = is_of_others || known.is_of_others(&path, &vault.digest(&path)?);
    }
    let said = Said::new(format!("{} lines", found.items.len()), text);
    Ok(Deed { is_of_others, ..only_read(said) })
}

/// Returns what the results lack, so that the model does not take them for everything.
fn left_out(cut: Option<&str>, skipped: Skipped) -> String {
    let cut = cut.map(|it| format!("\n… {it}"));
    let skipped = skipped.sentence().map(|it| format!("\n{it}"));
    [cut, skipped].into_iter().flatten().collect()
}

/// Returns why any change of a path needs confirmation.
fn protected(path: &VaultPath, known: &Known) -> Option<String> {
    if PROTECTED.iter().any(|it| path.is_in(it)) {
        return Some(format!("{path} says what the assistant does later"));
    }
    (path.is_in(MEMORY) && known.has_read_others)
        .then(|| format!("{path} is remembered, and this conversation has read what others wrote"))
}

fn is_free(path: &VaultPath) -> bool {
    FREE.iter().any(|it| path.is_in(it) && path.as_str() != *it)
}

fn refuse_long(path: &VaultPath, bytes: usize) -> Result<()> {
    match bytes > FILE_BYTES_MAX {
        true => Err(Error::new(
            ErrorKind::TooLarge,
            format!("{path} would have more than {FILE_BYTES_MAX} bytes"),
        )),
        false => Ok(()),
    }
}

fn swap(
    (path, before, after): (VaultPath, Image, Image),
    asks: Option<String>,
    known: &Known,
) -> Result<Deed> {
    refuse_long(&path, after.bytes().map_or(0, <[u8]>::len))?;
    // A change that cannot be shown cannot be confirmed.
    if after.bytes().is_some() && after.text().is_none() {
        let message = format!("what {path} would hold is no text");
        return Err(Error::invalid(message).code("not_text"));
    }
    let longest = after.text().map_or(0, |it| it.lines().map(str::len).max().unwrap_or(0));
    if asks.is_some() && longest > LINE_SHOWN_MAX {
        let message = format!("a line of {path} would be too long to be looked at");
        return Err(Error::new(ErrorKind::TooLarge, message));
    }
    let old = match before.bytes() {
        None => None,
        Some(_) => Some(before.text().unwrap_or("(no text)\n")),
    };
    let preview = unified(old, after.text().unwrap_or_default(), path.as_str());
    let target =
        Target { path: path.to_string(), before: before.digest(), after: after.digest(), to: None };
    let is_of_others = known.has_read_others || known.is_of_others(&path, &target.before);
    let work = Work::Swap(path, before, after);
    Ok(Deed { target: Some(target), asks, preview, is_of_others, work })
}

fn write(vault: &Vault, args: WriteArgs, known: &Known) -> Result<Deed> {
    let path: VaultPath = args.path.parse()?;
    vault.refuse_hard_link(&path)?;
    let before = vault.image(&path)?;
    let is_own = before.bytes().is_none() || known.is_own(path.as_str(), &before.digest());
    let asks = protected(&path, known).or_else(|| {
        (!is_own && !is_free(&path))
            .then(|| format!("it overwrites {path}, which is there already"))
    });
    let after = Image::of(args.content.into_bytes(), &before);
    swap((path, before, after), asks, known)
}

fn edit(vault: &Vault, args: EditArgs, known: &Known) -> Result<Deed> {
    let path: VaultPath = args.path.parse()?;
    vault.refuse_hard_link(&path)?;
    let before = vault.image(&path)?;
    let text = text_of(&path, &before)?;
    let refuse = |why: String| Err(Error::invalid(why).code("bad_edit"));
    if args.old.is_empty() {
        return refuse("`old` is empty: write_file makes a file".to_owned());
    }
    let count = text.matches(&args.old).count();
    if count == 0 {
        return refuse(format!("`old` is not in {path}: read it again"));
    }
    if count > 1 && !args.all {
        return refuse(format!("`old` is {count} times in {path}: give more of it, or `all`"));
    }
    // Before it is made: a short text in many places is a long one.
    let added = args.new.len().saturating_mul(count);
    refuse_long(&path, (text.len() - args.old.len() * count).saturating_add(added))?;
    let after = text.replace(&args.old, &args.new);
    let is_own = known.is_own(path.as_str(), &before.digest());
    let only_adds = args.new.contains(&args.old);
    let asks = protected(&path, known).or_else(|| {
        (!is_own && !only_adds && !is_free(&path)).then(|| format!("it takes words out of {path}"))
    });
    let after = Image::of(after.into_bytes(), &before);
    swap((path, before, after), asks, known)
}

fn move_file(vault: &Vault, args: MoveArgs, known: &Known) -> Result<Deed> {
    let (from, to): (VaultPath, VaultPath) = (args.from.parse()?, args.to.parse()?);
    vault.refuse_hard_link(&from)?;
    let image = vault.image(&from)?;
    if image.bytes().is_none() {
        return Err(gone(&from));
    }
    if vault.is_folder(&to)? || vault.digest(&to)? != DIGEST_OF_NOTHING {
        return Err(Error::conflict("target_exists", format!("{to} is there already"))
            .hint("choose another path, or delete it first"));
    }
    let digest = image.digest();
    let target = Target {
        path: from.to_string(),
        before: digest.clone(),
        after: digest,
        to: Some(to.to_string()),
    };
    // In those folders it could then be overwritten and deleted without confirmation.
    let frees = is_free(&to) && !is_free(&from) && !known.is_own(from.as_str(), &image.digest());
    let is_of_others = known.is_of_others(&from, &image.digest());
    let to_asks = protected(&to, known).or_else(|| {
        (is_of_others && to.is_in(MEMORY))
            .then(|| format!("{to} is remembered, and {from} has text that others wrote"))
    });
    let asks = protected(&from, known)
        .or_else(|| to_asks.clone())
        .or_else(|| frees.then(|| format!("it moves {from} to where nothing asks")));
    let mut preview = format!("{from}\n→ {to}\n");
    if to_asks.is_some() {
        // A file that the assistant will obey must be reviewed first.
        preview += &unified(None, text_of(&from, &image)?, to.as_str());
    }
    let work = Work::Move(from, to);
    Ok(Deed { target: Some(target), asks, preview, is_of_others, work })
}

/// Returns the refusal to delete a folder with something in it.
pub(super) fn not_empty(path: &VaultPath) -> Error {
    Error::conflict("not_empty", format!("the folder {path} is not empty"))
        .hint("only empty folders are deleted; hidden files count, too")
}

fn delete(vault: &Vault, args: DeleteArgs, known: &Known) -> Result<Deed> {
    let path: VaultPath = args.path.parse()?;
    let asks = (!is_free(&path)).then(|| format!("it deletes {path}"));
    if vault.is_folder(&path)? {
        // Nobody is asked to allow what would be refused.
        if !vault.is_empty(&path)? {
            return Err(not_empty(&path));
        }
        let preview = format!("{path}/ (an empty folder)\n");
        let work = Work::Folder(path);
        return Ok(Deed { target: None, asks, preview, is_of_others: false, work });
    }
    let before = vault.image(&path)?;
    if before.bytes().is_none() {
        return Err(gone(&path));
    }
    let mut deed = swap((path, before, Image::nothing()), asks, known)?;
    deed.is_of_others = false;
    if deed.preview.len() > GONE_BYTES_MAX {
        deed.preview.truncate(deed.preview.floor_char_boundary(GONE_BYTES_MAX));
        deed.preview.push_str("\n… and all the rest of it\n");
    }
    Ok(deed)
}

#[cfg(test)]
mod tests;
