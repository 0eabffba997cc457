//! Judges all kinds of a script, on two threads if there are many.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::resume_unwind;
use std::thread;

use camino::Utf8Path;

use crate::script::config::{Engine, Kind, Limits};
use crate::script::diagnostic::Findings;
use crate::script::extract::{Checked, check};
use crate::script::kind::KindBuilder;
use crate::script::lint;
use crate::script::node::{Declared, Draft};
use crate::script::require::Origin;
use crate::script::schema::declaration;

/// Fewest kinds for which another thread pays: starting one costs as much as judging some of them.
const PARTED_MIN: usize = 40;

/// What kinds are judged by.
pub(crate) struct Kinds<'a> {
    /// What was declared.
    pub(crate) draft: &'a Draft,
    /// The script's folder.
    pub(crate) folder: &'a Utf8Path,
    /// Where its files are read.
    pub(crate) origin: &'a Origin,
    /// The engines that are right.
    pub(crate) engines: &'a BTreeMap<String, Engine>,
    /// The names of all engines.
    pub(crate) engine_names: Option<&'a BTreeSet<String>>,
    /// What may run at once.
    pub(crate) limits: &'a Limits,
}

impl Kinds<'_> {
    /// Returns all kinds in the order of their declarations; each is right only if no finding is an
    /// error.
    pub(crate) fn all(&self, findings: &mut Findings) -> Vec<Kind> {
        let declared = self.draft.declared.iter().filter(|it| it.word == "kind");
        let declared: Vec<&Declared> = declared.collect();
        if declared.len() < PARTED_MIN {
            return self.judge(&declared, findings);
        }
        let (first, second) = declared.split_at(declared.len() / 2);
        thread::scope(|scope| {
            let work = move || {
                let mut found = Findings::default();
                (self.judge(second, &mut found), found)
            };
            let spawned = thread::Builder::new().spawn_scoped(scope, work);
            let mut kinds = self.judge(first, findings);
            match spawned {
                Ok(other) => {
                    let (more, mut found) = other.join().unwrap_or_else(|it| resume_unwind(it));
                    kinds.extend(more);
                    found.take().into_iter().for_each(|it| findings.add(it));
                }
                // A machine without room for a thread judges them one after the other.
                Err(_) => kinds.extend(self.judge(second, findings)),
            }
            kinds
        })
    }

    fn judge(&self, declared: &[&Declared], findings: &mut Findings) -> Vec<Kind> {
        let one = |declared: &&Declared| {
            let errors = findings.errors();
            let checked = declared.judge(findings);
            let builder = KindBuilder {
                declared,
                checked: &checked,
                draft: self.draft,
                folder: self.folder,
                origin: self.origin,
                engines: self.engines,
                engine_names: self.engine_names,
                findings,
            };
            let kind = builder.build();
            if findings.errors() == errors {
                let engine = self.engines.get(&kind.engine);
                lint::kind((&kind, &checked, engine), self.limits, self.draft, findings);
            }
            kind
        };
        declared.iter().map(one).collect()
    }
}

impl Declared {
    /// Judges its table by the fields of its word.
    pub(crate) fn judge(&self, findings: &mut Findings) -> Checked {
        let fields = declaration(self.word).map_or(&[][..], |it| it.fields);
        check(format_args!("{}", self.title()), &self.spot, &self.body, fields, findings)
    }
}
