//! Pairs of versions out of real git histories, with a truth made of all versions in between.

use std::collections::HashMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::ops::Range;
use std::path::Path;
use std::process::{Command, Stdio};

use imara_diff::{Algorithm, Diff, InternedInput};

use crate::dice::Dice;
use crate::edits::Case;
use crate::hypothesis::similarity;

/// Largest text that is taken, in bytes.
const TEXT_BYTES_MAX: usize = 200_000;
/// Most versions of one file.
const VERSIONS_MAX: usize = 400;

/// All versions of one Markdown file, the oldest first.
#[derive(Debug)]
pub(crate) struct History {
    pub(crate) versions: Vec<String>,
}

/// Reads the histories of all Markdown files of a repository, at most `files_max` of them.
///
/// # Errors
/// As starting git, or what git says.
pub(crate) fn read(repo: &Path, files_max: usize) -> Result<Vec<History>, String> {
    let log = git(
        repo,
        &[
            "log",
            "--reverse",
            "--no-merges",
            "--first-parent",
            "--no-renames",
            "--raw",
            "--no-abbrev",
            "--format=",
            "-z",
            "HEAD",
            "--",
            "*.md",
        ],
    )?;
    let mut blobs: Vec<(String, Vec<String>)> = Vec::new();
    let mut places: HashMap<String, usize> = HashMap::new();
    let mut fields = log.split('\0');
    while let Some(status) = fields.next() {
        let words: Vec<&str> = status.trim_start_matches(['\n', ':']).split(' ').collect();
        let (Some(blob), Some(path)) = (words.get(3), fields.next()) else { continue };
        if blob.bytes().all(|it| it == b'0') {
            continue;
        }
        let place = *places.entry(path.to_owned()).or_insert_with(|| {
            blobs.push((path.to_owned(), Vec::new()));
            blobs.len() - 1
        });
        if blobs[place].1.len() < VERSIONS_MAX {
            blobs[place].1.push((*blob).to_owned());
        }
    }
    blobs.retain(|it| it.1.len() > 2);
    blobs.sort_by_key(|it| std::cmp::Reverse(it.1.len()));
    blobs.truncate(files_max);
    let ids: Vec<&str> = blobs.iter().flat_map(|it| it.1.iter().map(String::as_str)).collect();
    let texts = cat(repo, &ids)?;
    let text = |id: &String| texts.get(id.as_str()).cloned();
    let histories = blobs.iter().map(|(_, ids)| {
        let mut versions: Vec<String> = ids.iter().filter_map(text).collect();
        versions.dedup();
        History { versions }
    });
    Ok(histories.filter(|it| it.versions.len() > 2).collect())
}

/// Returns the Markdown texts of the newest version.
///
/// # Errors
/// As starting git, or what git says.
pub(crate) fn newest(repo: &Path) -> Result<Vec<String>, String> {
    let tree = git(repo, &["ls-tree", "-r", "-z", "HEAD"])?;
    let markdown = tree.split('\0').filter(|it| it.ends_with(".md"));
    let ids: Vec<&str> = markdown.filter_map(|it| it.split([' ', '\t']).nth(2)).collect();
    let texts = cat(repo, &ids)?;
    Ok(ids.iter().filter_map(|it| texts.get(*it).cloned()).collect())
}

fn git(repo: &Path, arguments: &[&str]) -> Result<String, String> {
    #[allow(clippy::disallowed_methods, reason = "a benchmark is no server")]
    let mut command = Command::new("git");
    command.arg("-C").arg(repo).args(arguments);
    let output = command.output().map_err(|cause| format!("cannot start git: {cause}"))?;
    if !output.status.success() {
        return Err(format!("{}: {}", repo.display(), String::from_utf8_lossy(&output.stderr)));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Reads blobs; those that are too large or no text are left out.
fn cat(repo: &Path, ids: &[&str]) -> Result<HashMap<String, String>, String> {
    #[allow(clippy::disallowed_methods, reason = "a benchmark is no server")]
    let mut command = Command::new("git");
    command.arg("-C").arg(repo).args(["cat-file", "--batch"]);
    let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = piped.spawn().map_err(|cause| format!("cannot start git: {cause}"))?;
    let (Some(mut input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
        return Err("git has no pipes".to_owned());
    };
    let asked: String = ids.iter().map(|it| format!("{it}\n")).collect();
    let writer = std::thread::spawn(move || input.write_all(asked.as_bytes()));
    let mut output = BufReader::new(output);
    let mut texts = HashMap::new();
    for id in ids {
        let mut line = String::new();
        output.read_line(&mut line).map_err(|cause| cause.to_string())?;
        let Some(size) = line.split(' ').nth(2).and_then(|it| it.trim().parse::<usize>().ok())
        else {
            continue;
        };
        let mut bytes = vec![0; size + 1];
        output.read_exact(&mut bytes).map_err(|cause| cause.to_string())?;
        bytes.pop();
        if let (true, Ok(text)) = (size <= TEXT_BYTES_MAX, String::from_utf8(bytes)) {
            texts.insert((*id).to_owned(), text);
        }
    }
    let written = writer.join().map_err(|_| "the writer panicked".to_owned())?;
    written.map_err(|cause| cause.to_string())?;
    child.wait().map_err(|cause| cause.to_string())?;
    Ok(texts)
}

/// What became of a span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Life {
    /// Still there, to the letter.
    Same,
    /// Still there, but not to the letter.
    Changed,
    /// Gone.
    Dead,
}

impl History {
    /// Draws a span of a version and looks for it `gap` versions later. None if what became of it
    /// cannot be said: too little of it is left, or something like it has come elsewhere.
    pub(crate) fn case(&self, gap: usize, dice: &mut Dice) -> Option<(Life, Case)> {
        let last = self.versions.len().checked_sub(gap + 1)?;
        let from = dice.below(last + 1);
        let versions = &self.versions[from..=from + gap];
        let (old, new) = (versions.first()?, versions.last()?);
        let words = tokens(old);
        let words: Vec<&Range<usize>> =
            words.iter().filter(|it| is_word(&old[(*it).clone()])).collect();
        let count = (3 + dice.below(59)).min(words.len());
        if count < 3 {
            return None;
        }
        let first = dice.below(words.len() - count + 1);
        let span = words[first].start..words[first + count - 1].end;
        let (kept, truth) = follow(versions, &span)?;
        let (life, truth) = if kept >= 0.5 {
            let is_same = new[truth.clone()?] == old[span.clone()];
            (if is_same { Life::Same } else { Life::Changed }, truth)
        } else if kept <= 0.1 {
            let quote = &old.as_bytes()[span.clone()];
            if similarity(new.as_bytes(), quote) >= 0.6 {
                return None;
            }
            (Life::Dead, None)
        } else {
            return None;
        };
        Some((life, Case { old: old.clone(), new: new.clone(), span, truth }))
    }
}

fn is_word(token: &str) -> bool {
    token.chars().next().is_some_and(char::is_alphanumeric)
}

/// Splits a text into words, runs of white space and other characters.
fn tokens(text: &str) -> Vec<Range<usize>> {
    let sort = |c: char| u8::from(c.is_alphanumeric()) + 2 * u8::from(c.is_whitespace());
    let mut tokens: Vec<Range<usize>> = Vec::new();
    let mut last = None;
    for (at, c) in text.char_indices() {
        let end = at + c.len_utf8();
        match tokens.last_mut() {
            Some(token) if last == Some(sort(c)) && sort(c) != 0 => token.end = end,
            _ => tokens.push(at..end),
        }
        last = Some(sort(c));
    }
    tokens
}

/// Follows the words of a span through all versions. Returns which share of them is left, by
/// bytes, and the hull of what is left.
fn follow(versions: &[String], span: &Range<usize>) -> Option<(f64, Option<Range<usize>>)> {
    let mut text = versions.first()?;
    let all = tokens(text);
    let inside = |it: &Range<usize>| span.start <= it.start && it.end <= span.end;
    let mut alive: Vec<usize> = (0..all.len())
        .filter(|it| inside(&all[*it]) && !text[all[*it].clone()].trim().is_empty())
        .collect();
    let weight = |text: &str, tokens: &[Range<usize>], of: &[usize]| -> usize {
        of.iter().map(|it| text[tokens[*it].clone()].len()).sum()
    };
    let whole = weight(text, &all, &alive);
    let mut present = all;
    for next in &versions[1..] {
        let after = tokens(next);
        let map = partners(text, &present, next, &after);
        alive = alive.iter().filter_map(|it| map[*it]).collect();
        (text, present) = (next, after);
    }
    let left = weight(text, &present, &alive);
    #[allow(clippy::cast_precision_loss, reason = "both are lengths of texts")]
    let kept = left as f64 / whole.max(1) as f64;
    let hull = alive.first().zip(alive.last());
    Some((kept, hull.map(|(a, b)| present[*a].start..present[*b].end)))
}

/// Returns which token of the new text each token of the old one is, by Myers' comparison: another
/// one than the program uses.
fn partners(
    old: &str,
    olds: &[Range<usize>],
    new: &str,
    news: &[Range<usize>],
) -> Vec<Option<usize>> {
    let key = |text: &str, it: &Range<usize>| {
        let token = &text[it.clone()];
        if token.trim().is_empty() { " ".to_owned() } else { token.to_owned() }
    };
    let mut input: InternedInput<String> = InternedInput::default();
    input.update_before(olds.iter().map(|it| key(old, it)));
    input.update_after(news.iter().map(|it| key(new, it)));
    let diff = Diff::compute(Algorithm::Myers, &input);
    let mut map = vec![None; olds.len()];
    let (mut from_old, mut from_new) = (0, 0);
    let mut keep = |old: Range<usize>, new: usize| {
        for (step, place) in old.enumerate() {
            map[place] = Some(new + step);
        }
    };
    for hunk in diff.hunks() {
        keep(from_old..hunk.before.start as usize, from_new);
        (from_old, from_new) = (hunk.before.end as usize, hunk.after.end as usize);
    }
    keep(from_old..olds.len(), from_new);
    map
}
