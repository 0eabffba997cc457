//! Pairs of versions from real git histories; the correct placement is derived from all versions in
//! between.

use std::collections::HashMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::ops::Range;
use std::path::Path;
use std::process::{Command, Stdio};

use imara_diff::{Algorithm, Diff, InternedInput};

use crate::dice::Dice;
use crate::edits::{Case, Truth};
use crate::hypothesis::similarity;

/// Largest text that is taken, in bytes.
const TEXT_BYTES_MAX: usize = 200_000;
/// By how much something may be more like the words than they are themselves now.
const LEAD_MAX: f64 = 0.05;
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
    /// cannot be said: too little of it is left, only words that may be there by chance, or
    /// something like it has come elsewhere.
    pub(crate) fn case(&self, gap: usize, dice: &mut Dice) -> Option<(Life, Case)> {
        let last = self.versions.len().checked_sub(gap + 1)?;
        let from = dice.below(last + 1);
        let versions = &self.versions[from..=from + gap];
        let (old, new) = (versions.first()?, versions.last()?);
        let tokens = tokens(old);
        let words: Vec<usize> =
            (0..tokens.len()).filter(|it| is_word(&old[tokens[*it].clone()])).collect();
        let count = (3 + dice.below(59)).min(words.len());
        if count < 3 {
            return None;
        }
        let first = dice.below(words.len() - count + 1);
        let words = &words[first..first + count];
        let span = tokens[words[0]].start..tokens[words[count - 1]].end;
        let fate = Fate::of(versions, words)?;
        let (life, truth) = if fate.kept >= 0.5 {
            let truth = fate.truth?;
            let is_same = new[truth.inner.clone()] == old[span.clone()];
            if !is_same && is_elsewhere(new, &truth, &old[span.clone()]) {
                return None;
            }
            (if is_same { Life::Same } else { Life::Changed }, Some(truth))
        } else if fate.kept <= 0.1 {
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

/// Returns whether something else in a text is more like the words than where they are said to be.
/// Then they were moved, with what stands there now in their place: that cannot be told by
/// comparing rows of words.
fn is_elsewhere(new: &str, truth: &Truth, words: &str) -> bool {
    let best = similarity(new.as_bytes(), words.as_bytes());
    best > similarity(&new.as_bytes()[truth.outer.clone()], words.as_bytes()) + LEAD_MAX
}

/// What became of some words.
struct Fate {
    /// Which share of them is left, by bytes.
    kept: f64,
    truth: Option<Truth>,
}

impl Fate {
    /// Follows the consecutive words `words` (as numbers of tokens) through all versions.
    fn of(versions: &[String], words: &[usize]) -> Option<Fate> {
        let mut text = versions.first()?;
        let olds = tokens(text);
        let mut present = olds.clone();
        // Of each token of the first version, which one of the present version it is.
        let mut places: Vec<Option<usize>> = (0..olds.len()).map(Some).collect();
        for next in &versions[1..] {
            let after = tokens(next);
            let map = partners(text, &present, next, &after);
            places.iter_mut().for_each(|it| *it = it.and_then(|it| map[it]));
            (text, present) = (next, after);
        }
        let bytes =
            |of: &mut dyn Iterator<Item = &usize>| -> usize { of.map(|it| olds[*it].len()).sum() };
        let left = bytes(&mut words.iter().filter(|it| places[**it].is_some()));
        #[allow(clippy::cast_precision_loss, reason = "both are lengths of texts")]
        let kept = left as f64 / bytes(&mut words.iter()).max(1) as f64;
        // A word by itself may be there by chance: it counts with the one before or after it.
        let numbers = word_numbers(text, &present);
        let at = |place: usize| Some((places[words[place]]?, numbers[places[words[place]]?]));
        let is_pair = |left: usize, right: usize| {
            let both = at(left).zip(at(right));
            both.is_some_and(|(left, right)| left.1 + 1 == right.1)
        };
        let is_sure = |it: &usize| {
            (*it > 0 && is_pair(it - 1, *it)) || (it + 1 < words.len() && is_pair(*it, it + 1))
        };
        let sure: Vec<usize> = (0..words.len()).filter(is_sure).collect();
        let truth = sure.first().zip(sure.last()).and_then(|(first, last)| {
            let inner = present[at(*first)?.0].start..present[at(*last)?.0].end;
            let lost = [&words[..*first], &words[last + 1..]].map(|it| bytes(&mut it.iter()));
            let outside = |tokens: &mut dyn Iterator<Item = usize>| {
                tokens.filter_map(|it| places[it]).next().map(|it| present[it].clone())
            };
            let before = outside(&mut (0..words[0]).rev()).map_or(0, |it| it.end);
            let after = outside(&mut (words[words.len() - 1] + 1..olds.len()));
            let after = after.map_or(text.len(), |it| it.start);
            // What stands in place of lost words may belong to the rest of them, or not.
            let start = inner.start - 2 * lost[0].min(inner.start / 2);
            let end = inner.end + 2 * lost[1];
            let start = start.max(before).min(inner.start);
            Some(Truth { outer: start..end.min(after).max(inner.end), inner })
        });
        Some(Fate { kept, truth })
    }
}

fn is_word(token: &str) -> bool {
    token.chars().next().is_some_and(char::is_alphanumeric)
}

/// Returns of each token how many words there are up to it.
fn word_numbers(text: &str, tokens: &[Range<usize>]) -> Vec<usize> {
    let mut count = 0;
    let number = |it: &Range<usize>| {
        count += usize::from(is_word(&text[it.clone()]));
        count
    };
    tokens.iter().map(number).collect()
}

/// Splits a text into words, runs of white space and other characters. A line ends a run.
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
        last = (c != '\n').then(|| sort(c));
    }
    tokens
}

/// Returns which token of the new text each token of the old one is, as a person compares two
/// texts: line by line, and in lines that were changed word by word. By Myers' comparison: another
/// one than the program uses, which compares words of whole texts.
fn partners(
    old: &str,
    olds: &[Range<usize>],
    new: &str,
    news: &[Range<usize>],
) -> Vec<Option<usize>> {
    let mut map = vec![None; olds.len()];
    let (old_lines, new_lines) = (lines(old, olds), lines(new, news));
    let line = |text: &'_ str, tokens: &[Range<usize>], it: &Range<usize>| {
        text[tokens[it.start].start..tokens[it.end - 1].end].trim().to_owned()
    };
    let all_old = old_lines.iter().map(|it| line(old, olds, it));
    let all_new = new_lines.iter().map(|it| line(new, news, it));
    for (before, after, is_kept) in compared(all_old, all_new) {
        let tokens = |lines: &[Range<usize>], it: &Range<usize>| match lines.get(it.clone()) {
            Some([first, .., last]) => first.start..last.end,
            Some([only]) => only.clone(),
            _ => 0..0,
        };
        if is_kept {
            // Equal lines may have other white space around them.
            for (old_line, new_line) in old_lines[before].iter().zip(&new_lines[after]) {
                join(&mut map, (old, olds, old_line.clone()), (new, news, new_line.clone()));
            }
        } else {
            let (before, after) = (tokens(&old_lines, &before), tokens(&new_lines, &after));
            join(&mut map, (old, olds, before), (new, news, after));
        }
    }
    map
}

type Side<'a> = (&'a str, &'a [Range<usize>], Range<usize>);

/// Joins the equal words of a part of each text.
fn join(map: &mut [Option<usize>], old: Side<'_>, new: Side<'_>) {
    let key = |(text, tokens, _): &Side<'_>, it: usize| {
        let token = &text[tokens[it].clone()];
        if token.trim().is_empty() { " ".to_owned() } else { token.to_owned() }
    };
    let olds = old.2.clone().map(|it| key(&old, it));
    let news = new.2.clone().map(|it| key(&new, it));
    for (before, after, is_kept) in compared(olds, news) {
        for (from, to) in before.zip(after).filter(|_| is_kept) {
            map[old.2.start + from] = Some(new.2.start + to);
        }
    }
}

/// Returns the lines of a text, as numbers of its tokens.
fn lines(text: &str, tokens: &[Range<usize>]) -> Vec<Range<usize>> {
    let mut lines = Vec::new();
    let mut start = 0;
    for (place, token) in tokens.iter().enumerate() {
        if text[token.clone()].ends_with('\n') || place + 1 == tokens.len() {
            lines.push(start..place + 1);
            start = place + 1;
        }
    }
    lines
}

/// Compares two rows of things; returns what was kept and what was changed, in order.
fn compared(
    old: impl Iterator<Item = String>,
    new: impl Iterator<Item = String>,
) -> Vec<(Range<usize>, Range<usize>, bool)> {
    let mut input: InternedInput<String> = InternedInput::default();
    input.update_before(old);
    input.update_after(new);
    let (all_old, all_new) = (input.before.len(), input.after.len());
    let diff = Diff::compute(Algorithm::Myers, &input);
    let (mut parts, mut from_old, mut from_new) = (Vec::new(), 0, 0);
    for hunk in diff.hunks() {
        let (before, after) = (hunk.before, hunk.after);
        let (before, after) =
            (before.start as usize..before.end as usize, after.start as usize..after.end as usize);
        parts.push((from_old..before.start, from_new..after.start, true));
        (from_old, from_new) = (before.end, after.end);
        parts.push((before, after, false));
    }
    parts.push((from_old..all_old, from_new..all_new, true));
    parts
}
