//! What functions of a script read of what they are given, and what that does not have.
//!
//! **Invariant:** a hint, not a proof: a function that is not plainly written is left alone.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use camino::{Utf8Path, Utf8PathBuf};

use crate::base::EventKind;
use crate::script::config::Kind;
use crate::script::diagnostic::{Diagnostic, Findings, nearest, suggestion};
use crate::script::lexer::{Token, Word, tokens};
use crate::script::node::Draft;
use crate::script::place::Slot;
use crate::script::position::Source;
use crate::script::schema::{Member, RECORDS, event_data};

/// What a function is given.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Given {
    /// The event that a handler is for.
    Event(EventKind),
    /// A record of the schema.
    Record(&'static str),
}

impl Given {
    /// Returns how people call it.
    fn what(self) -> String {
        match self {
            Given::Event(kind) => format!("an event {}", kind.as_str()),
            Given::Record("wb.ProducedJob") => "the job that verify is given".to_owned(),
            Given::Record(_) => "the job that retry is given".to_owned(),
        }
    }

    /// Returns the names that it has; `None` if it may have any.
    fn members(self) -> Option<Vec<&'static Member>> {
        match self {
            Given::Event(_) => of_record("wb.Event"),
            Given::Record(name) => of_record(name),
        }
    }

    /// Returns what is in one of its members; `None` if that may be anything.
    fn within(self, member: &Member) -> Option<Vec<&'static Member>> {
        match (self, member.name) {
            (Given::Event(kind), "data") => Some(event_data(kind).iter().collect()),
            _ => of_record(member.ty.trim_end_matches('?')),
        }
    }
}

/// Returns the members of a record and of what it is based on.
fn of_record(name: &str) -> Option<Vec<&'static Member>> {
    let record = RECORDS.iter().find(|it| it.name == name && it.others.is_none())?;
    let base = record.base.and_then(of_record).unwrap_or_default();
    Some(record.members.iter().chain(base).collect())
}

/// A read of a name that is not there.
struct Miss {
    bytes: Range<usize>,
    message: String,
    note: String,
}

/// Looks at the handlers, and at what checks and repeats jobs.
pub(crate) fn look(draft: &Draft, kinds: &BTreeMap<String, Kind>, findings: &mut Findings) {
    let handlers = draft.handlers.iter().map(|(event, slot)| (slot, Given::Event(*event)));
    let of_kinds = kinds.values().flat_map(|kind| {
        let verify = kind.verify.iter().map(|it| (it, Given::Record("wb.ProducedJob")));
        verify.chain(kind.retry.iter().map(|it| (it, Given::Record("wb.FailedJob"))))
    });
    let mut read: BTreeMap<&Utf8Path, (File, BTreeMap<Body, Vec<Given>>)> = BTreeMap::new();
    for (Slot { at, .. }, given) in handlers.chain(of_kinds) {
        let Some(file) = draft.files.iter().find(|it| it.path == *at.file) else { continue };
        let (file, bodies) =
            read.entry(&file.path).or_insert_with(|| (File::new(&file.text), BTreeMap::new()));
        if let Some(body) = file.function(at.line, given) {
            bodies.entry(body).or_default().push(given);
        }
    }
    for (path, (file, bodies)) in read {
        let misses: Vec<Miss> =
            bodies.into_iter().flat_map(|(body, given)| file.misses(body, &given)).collect();
        if misses.is_empty() {
            continue;
        }
        let source = Arc::new(Source::new(Arc::from(Utf8PathBuf::from(path)), file.text));
        for miss in misses {
            let spot = source.bytes(miss.bytes);
            let finding = Diagnostic::warning("unknown-read", miss.message).at(&spot);
            findings.add(finding.note(miss.note));
        }
    }
}

/// The tokens of a function: the first one of its body, the one after its last, and its parameter.
type Body = (usize, usize, usize);

/// The words of a file.
struct File<'a> {
    text: &'a str,
    tokens: Vec<Token>,
    line_starts: Vec<usize>,
}

impl<'a> File<'a> {
    fn new(text: &'a str) -> File<'a> {
        let breaks = text.match_indices('\n').map(|(at, _)| at + 1);
        let line_starts = std::iter::once(0).chain(breaks).collect();
        File { text, tokens: tokens(text), line_starts }
    }

    fn name(&self, index: usize) -> Option<&'a str> {
        self.tokens.get(index)?.name(self.text)
    }

    fn is(&self, index: usize, sign: char) -> bool {
        self.tokens.get(index).is_some_and(|it| it.is(sign))
    }

    /// Returns what a function reads in vain. One that is given several things is asked for what
    /// none of them has.
    fn misses(&self, (first, end, param): Body, given: &[Given]) -> Vec<Miss> {
        let param = self.name(param);
        let is_use = |it: &usize| self.name(*it) == param && !self.is_field(*it);
        let uses: Vec<usize> = (first..end).filter(is_use).collect();
        // Where the name means something else, nothing is known.
        if uses.iter().any(|it| self.is_bound(*it)) {
            return Vec::new();
        }
        let miss = |at: usize| {
            let mut all = given.iter().map(|it| self.miss(at, *it));
            let first = all.next()??;
            all.all(|it| it.is_some()).then_some(first)
        };
        uses.into_iter().filter_map(miss).collect()
    }

    /// Returns the only function in a line that can be meant.
    fn function(&self, line: u32, given: Given) -> Option<Body> {
        let index = (line as usize).checked_sub(1)?;
        let (from, to) = (
            *self.line_starts.get(index)?,
            self.line_starts.get(index + 1).copied().unwrap_or(self.text.len()),
        );
        let begin = self.tokens.partition_point(|it| it.start() < from);
        let here = (begin..self.tokens.len()).take_while(|it| self.tokens[*it].start() < to);
        let all: Vec<usize> = here.filter(|it| self.name(*it) == Some("function")).collect();
        let one = match all.as_slice() {
            [one] => *one,
            all => {
                let is_it = |it: &&usize| match given {
                    Given::Event(_) => self.is(it.wrapping_sub(1), ','),
                    Given::Record("wb.ProducedJob") => self.is_value_of(**it, "verify"),
                    Given::Record(_) => self.is_value_of(**it, "retry"),
                };
                let mut fit = all.iter().filter(is_it);
                fit.next().filter(|_| fit.next().is_none()).copied()?
            }
        };
        // `function name(param, …)` or `function(param, …)`.
        let open = (one + 1..one + 6).find(|it| self.is(*it, '('))?;
        self.name(open + 1)?;
        let mut depth = 1_u32;
        for index in open + 2..self.tokens.len() {
            match self.name(index) {
                Some("function" | "if" | "do" | "repeat") => depth += 1,
                Some("end" | "until") => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                return Some((open + 2, index, open + 1));
            }
        }
        None
    }

    fn is_value_of(&self, index: usize, name: &str) -> bool {
        self.is(index.wrapping_sub(1), '=') && self.name(index.wrapping_sub(2)) == Some(name)
    }

    /// Whether a name stands after a dot, and not after the two that join texts.
    fn is_field(&self, index: usize) -> bool {
        let before = index.wrapping_sub(1);
        self.is(before, ':') || (self.is(before, '.') && !self.is(index.wrapping_sub(2), '.'))
    }

    /// Whether a name is set here: as a local, as a parameter, or by an assignment.
    fn is_bound(&self, index: usize) -> bool {
        let before = index.wrapping_sub(1);
        if matches!(self.name(before), Some("local" | "for" | "function")) {
            return true;
        }
        let open = (index.saturating_sub(8)..index).rev().find(|it| self.is(*it, '('));
        let is_param = open.is_some_and(|open| {
            let is_function = |it: usize| self.name(it) == Some("function");
            let is_list = (open + 1..index).all(|it| self.is(it, ',') || self.name(it).is_some());
            is_list && (is_function(open.wrapping_sub(1)) || is_function(open.wrapping_sub(2)))
        });
        let is_set = self.is(index + 1, '=') && !self.is(index + 2, '=');
        is_param || (is_set && !self.is(before, '{') && !self.is(before, ','))
    }

    /// Follows `param.a.b` as far as its names are known.
    fn miss(&self, at: usize, given: Given) -> Option<Miss> {
        let mut members = given.members()?;
        let mut shown = self.name(at)?.to_owned();
        let mut at = at;
        let mut is_first = true;
        while self.is(at + 1, '.') {
            let name = self.name(at + 2)?;
            at += 2;
            let Some(member) = members.iter().find(|it| it.name == name) else {
                let is_set = self.is(at + 1, '=') && !self.is(at + 2, '=');
                let note = elsewhere(given, name, is_first, &shown)
                    .unwrap_or_else(|| suggestion(name, members.iter().map(|it| it.name)));
                let what = match is_first {
                    true => given.what(),
                    false => format!("`{shown}` of {}", given.what()),
                };
                let message = format!("{what} has no `{name}`");
                return (!is_set).then(|| self.found(at, message, note));
            };
            if let Some(miss) = self.never(at, given, is_first, member) {
                return Some(miss);
            }
            shown = format!("{shown}.{name}");
            is_first = false;
            members = given.within(member)?;
        }
        None
    }

    /// The kind of an event is its name: it is never that of a job.
    fn never(&self, at: usize, given: Given, is_first: bool, member: &Member) -> Option<Miss> {
        let Given::Event(kind) = given else { return None };
        if !is_first || member.name != "kind" {
            return None;
        }
        let is_compared = (self.is(at + 1, '=') || self.is(at + 1, '~')) && self.is(at + 2, '=');
        let text = self.tokens.get(at + 3).filter(|it| matches!(it.word, Word::Text(_)))?;
        let said = text.literal(self.text)?;
        if !is_compared || said == kind.as_str() {
            return None;
        }
        let message = format!("`kind` of an event is its name, {}", kind.as_str());
        let note = match elsewhere(given, "kind", true, self.name(at - 2)?) {
            Some(note) => note,
            None => format!("this is never \"{}\"", said.escape_debug()),
        };
        Some(self.found(at, message, note))
    }

    fn found(&self, at: usize, message: String, note: String) -> Miss {
        let token = &self.tokens[at];
        Miss { bytes: token.range(), message, note }
    }
}

/// Says that a name, or the one that it may be, is in one of the tables that are given.
fn elsewhere(given: Given, name: &str, is_first: bool, shown: &str) -> Option<String> {
    let root = shown.split('.').next()?;
    let members = given.members()?;
    let here = members.iter().map(|it| it.name).filter(|_| is_first);
    if name != "kind" && nearest(name, here).is_some() {
        return None;
    }
    // The data of an event stays as it was when it happened; a job is as it is now.
    let tables = ["job", "data", "produced"];
    let mut tables = tables.iter().filter_map(|it| members.iter().find(|one| one.name == *it));
    tables.find_map(|table| {
        let is_there = given.within(table)?.iter().any(|it| it.name == name);
        let has_job = !matches!(given, Given::Event(kind) if !kind.as_str().starts_with("job_"));
        let is_given = table.name != "job" || has_job;
        (is_there && is_given).then(|| format!("write {root}.{}.{name}", table.name))
    })
}
