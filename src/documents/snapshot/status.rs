//! Parses `git status --porcelain=v2 --branch -z` and `git ls-files -v -s -z`.

use std::collections::BTreeMap;

use crate::base::{BlobId, Error, Result};
use crate::documents::snapshot::{Spot, Staged, Tip, name};

/// Output limit for a listing of the whole index or working tree, in bytes.
pub(in crate::documents) const LISTING_BYTES_MAX: usize = 256 * 1024 * 1024;

/// Git's flag for an entry that was only announced.
const INTENT_TO_ADD: u32 = 1 << 29;
/// Its name in a snapshot.
pub(in crate::documents) const ANNOUNCED: &str = "intent-to-add";

/// Git's report on the repository.
#[derive(Debug, Default)]
pub(in crate::documents) struct Status {
    pub(in crate::documents) tip: Tip,
    pub(in crate::documents) paths: BTreeMap<String, Found>,
}

/// Git's report on a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::documents) struct Found {
    pub(in crate::documents) head: Option<Spot>,
    pub(in crate::documents) index: Vec<Staged>,
    pub(in crate::documents) is_work_as_indexed: bool,
}

impl Found {
    /// Returns whether it is tracked and its content differs from the index.
    pub(super) fn is_other_than_indexed(&self) -> bool {
        !self.is_work_as_indexed && self.index.iter().any(|it| it.stage == 0)
    }
}

pub(in crate::documents) fn parse(told: &[u8]) -> Result<Status> {
    let mut status = Status::default();
    for record in told.split(|byte| *byte == 0).filter(|it| !it.is_empty()) {
        let text = name::shown(record);
        let strange = || Error::internal(format!("git status answered `{text}`"));
        let found = match text.chars().next() {
            Some('#') => {
                header(&text, &mut status.tip)?;
                continue;
            }
            Some('1') => change(&text),
            Some('u') => conflict(&text),
            Some('?') => text.strip_prefix("? ").map(|path| (path.to_owned(), untracked())),
            _ => None,
        };
        let (path, found) = found.ok_or_else(strange)?;
        // A file removed from the index but still present is reported twice.
        let known = status.paths.entry(path).or_insert(found);
        known.is_work_as_indexed &= !text.starts_with('?');
    }
    Ok(status)
}

fn header(text: &str, tip: &mut Tip) -> Result<()> {
    if let Some(id) = text.strip_prefix("# branch.oid ") {
        tip.commit = if id == "(initial)" { None } else { Some(id.parse()?) };
    }
    if let Some(name) = text.strip_prefix("# branch.head ") {
        tip.branch = (name != "(detached)").then(|| format!("refs/heads/{name}"));
    }
    Ok(())
}

fn spot(mode: &str, blob: &str) -> Option<Spot> {
    let is_there = mode.bytes().any(|digit| digit != b'0');
    let blob: BlobId = blob.parse().ok()?;
    is_there.then(|| Spot { mode: mode.to_owned(), blob })
}

fn staged(spot: Spot, stage: u8) -> Staged {
    Staged { spot, stage, flag: None }
}

/// Parses `1 XY sub mH mI mW hH hI path`.
fn change(text: &str) -> Option<(String, Found)> {
    let fields: Vec<&str> = text.splitn(9, ' ').collect();
    let [_, states, _, mode_head, mode_index, _, head, index, path] = fields[..] else {
        return None;
    };
    let found = Found {
        head: spot(mode_head, head),
        index: spot(mode_index, index).map(|it| staged(it, 0)).into_iter().collect(),
        is_work_as_indexed: states.ends_with('.') && !mode_index.bytes().all(|it| it == b'0'),
    };
    Some((path.to_owned(), found))
}

/// Parses `u XY sub m1 m2 m3 mW h1 h2 h3 path`.
fn conflict(text: &str) -> Option<(String, Found)> {
    let fields: Vec<&str> = text.splitn(11, ' ').collect();
    let [_, _, _, mode1, mode2, mode3, _, blob1, blob2, blob3, path] = fields[..] else {
        return None;
    };
    let sides = [(1, mode1, blob1), (2, mode2, blob2), (3, mode3, blob3)];
    let sides = sides.into_iter().filter_map(|(n, mode, blob)| Some(staged(spot(mode, blob)?, n)));
    // The commit contains our side, unless only the other side has the path.
    let found =
        Found { head: spot(mode2, blob2), index: sides.collect(), is_work_as_indexed: false };
    Some((path.to_owned(), found))
}

fn untracked() -> Found {
    Found { head: None, index: Vec::new(), is_work_as_indexed: false }
}

/// Returns the stage of `MODE BLOB STAGE\tPATH`, a digit.
pub(super) fn stage_of(record: &[u8]) -> &[u8] {
    let about = record.split(|byte| *byte == b'\t').next().unwrap_or_default();
    about.rsplit(|byte| *byte == b' ').next().unwrap_or_default()
}

/// Adds the paths whose changes git was told to ignore or does not compare, so that they are read.
pub(in crate::documents) fn add_flagged(status: &mut Status, flagged: Vec<(String, Staged)>) {
    for (path, entry) in flagged {
        match status.paths.get_mut(&path) {
            Some(found) => {
                let own = found.index.iter_mut().filter(|it| it.stage == entry.stage);
                own.for_each(|it| it.flag.clone_from(&entry.flag));
                found.is_work_as_indexed = false;
            }
            None => {
                let head = Some(entry.spot.clone());
                let found = Found { head, index: vec![entry], is_work_as_indexed: false };
                status.paths.insert(path, found);
            }
        }
    }
}

/// Returns the entries with a flag.
pub(super) fn flagged(listed: &[u8]) -> Result<Vec<(String, Staged)>> {
    // Most entries of a large index have none: they are skipped before parsing.
    let records = listed.split(|byte| *byte == 0).filter(|it| !it.is_empty());
    let flagged = records.filter(|it| !matches!(it.first(), Some(b'H' | b'M' | b'R' | b'C')));
    flagged.map(entry).collect()
}

/// Returns the paths in `ls-files -z --debug` that were only announced (`git add -N`).
pub(super) fn announced(told: &[u8]) -> Vec<String> {
    let text = name::shown(told);
    let mut found = Vec::new();
    let mut path = "";
    // `PATH\0  ctime: …\n … flags: HEX\nPATH\0 …`
    for (at, part) in text.split('\0').enumerate() {
        if at == 0 {
            path = part;
            continue;
        }
        let Some((_, rest)) = part.rsplit_once("flags: ") else { break };
        let (flags, next) = rest.split_once('\n').unwrap_or((rest, ""));
        if u32::from_str_radix(flags.trim(), 16).is_ok_and(|it| it & INTENT_TO_ADD != 0) {
            found.push(path.to_owned());
        }
        path = next;
    }
    found
}

/// Returns the path of a record of `ls-files -s`.
pub(super) fn path_of(record: &[u8]) -> &[u8] {
    record.splitn(2, |byte| *byte == b'\t').nth(1).unwrap_or_default()
}

/// Parses `TAG MODE BLOB STAGE\tPATH`.
pub(super) fn entry(record: &[u8]) -> Result<(String, Staged)> {
    let text = name::shown(record);
    let strange = || Error::internal(format!("git ls-files answered `{text}`"));
    let (about, path) = text.split_once('\t').ok_or_else(strange)?;
    let words: Vec<&str> = about.split(' ').collect();
    let [tag, mode, blob, stage] = words[..] else { return Err(strange()) };
    let flag = match tag {
        "S" | "s" => Some("skip-worktree"),
        _ if tag.starts_with(|it: char| it.is_ascii_lowercase()) => Some("assume-unchanged"),
        _ => None,
    };
    let spot = spot(mode, blob).ok_or_else(strange)?;
    let stage = stage.parse().map_err(|_| strange())?;
    Ok((path.to_owned(), Staged { spot, stage, flag: flag.map(str::to_owned) }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(records: &[&str]) -> Status {
        parse(records.join("\0").as_bytes()).unwrap()
    }

    #[test]
    fn what_git_says_is_read() {
        let (a, b, zero) = ("a".repeat(40), "b".repeat(40), "0".repeat(40));
        let told = status(&[
            &format!("# branch.oid {a}"),
            "# branch.head main",
            &format!("1 .M N... 100644 100644 100644 {a} {a} my file.md"),
            &format!("1 A. N... 000000 100755 100755 {zero} {b} new"),
            &format!("1 D. N... 100644 000000 000000 {a} {zero} gone"),
            &format!("u UU N... 100644 100644 100644 100644 {a} {a} {b} both"),
            "? loose",
            "? gone",
        ]);
        assert_eq!(told.tip.branch.as_deref(), Some("refs/heads/main"));
        assert_eq!(told.tip.commit.as_ref().unwrap().as_str(), a);
        assert!(!told.paths["my file.md"].is_work_as_indexed);
        assert!(told.paths["new"].head.is_none() && told.paths["new"].is_work_as_indexed);
        assert!(told.paths["gone"].head.is_some() && told.paths["gone"].index.is_empty());
        assert!(!told.paths["gone"].is_work_as_indexed);
        let stages: Vec<u8> = told.paths["both"].index.iter().map(|it| it.stage).collect();
        assert_eq!(stages, [1, 2, 3]);
        assert!(told.paths["loose"].index.is_empty());
        let unborn = status(&["# branch.oid (initial)", "# branch.head (detached)"]);
        assert_eq!(unborn.tip, Tip::default());
        assert!(parse(b"2 strange").is_err());
    }

    #[test]
    fn a_path_at_which_git_does_not_look_is_listed() {
        let a = "a".repeat(40);
        let listed = format!("H 100644 {a} 0\tseen\0h 100644 {a} 0\thidden\0S 100644 {a} 0\tout\0");
        let found = flagged(listed.as_bytes()).unwrap();
        let flags: Vec<_> = found.iter().map(|it| it.1.flag.as_deref().unwrap()).collect();
        assert_eq!(flags, ["assume-unchanged", "skip-worktree"]);
        let mut told = status(&[]);
        add_flagged(&mut told, found);
        assert!(!told.paths["hidden"].is_work_as_indexed && !told.paths.contains_key("seen"));
    }
}
