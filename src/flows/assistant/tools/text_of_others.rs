//! What a run has done and read so far: it decides which of its calls need confirmation.

use std::collections::{BTreeMap, BTreeSet};

use rusqlite::Connection;

use crate::base::Result;
use crate::chat::{self, Run, ToolCall};
use crate::vault::{DIGEST_OF_NOTHING, VaultPath};

/// Files that the assistant obeys: a change would persist an injection.
pub(super) const PROTECTED: [&str; 2] = ["agents.md", "agent/actions"];
/// Its memory.
pub(super) const MEMORY: &str = "agent/memory.md";
/// The files that people attach to questions.
const UPLOADS: &str = "agent/uploads";
/// The records of answers, which may quote what they read.
const RECORDS: &str = "agent/runs";

/// The history of the run that requests a call.
#[derive(Default)]
pub(in crate::flows::assistant) struct Known {
    /// The files that the run created, with the digests of their contents.
    pub(in crate::flows::assistant) made: BTreeMap<String, String>,
    /// Whether the model has text before it that others wrote.
    pub(in crate::flows::assistant) has_read_others: bool,
    /// The files of the vault that answers wrote which had read text of others.
    pub(in crate::flows::assistant) of_others: OfOthers,
}

/// Files with text of others: the paths that they were written to, and the digests of what was
/// written, by which a file is known wherever it was moved or copied to.
#[derive(Default)]
pub(in crate::flows::assistant) struct OfOthers {
    paths: BTreeSet<String>,
    digests: BTreeSet<String>,
}

impl FromIterator<(String, String)> for OfOthers {
    fn from_iter<I: IntoIterator<Item = (String, String)>>(files: I) -> OfOthers {
        let (paths, digests) = files.into_iter().unzip();
        OfOthers { paths, digests }
    }
}

impl Known {
    /// Returns the history of a run. What earlier answers of its branch have read, the model still
    /// has before it.
    ///
    /// # Errors
    /// As any read.
    pub(in crate::flows::assistant) fn of(c: &Connection, run: &Run) -> Result<Known> {
        let mut known = Known {
            // An image is before the model without a call.
            has_read_others: chat::has_piped(c, run)? || chat::has_images(c, &run.question_id)?,
            of_others: chat::files_of_others(c, &run.person_id)?.into_iter().collect(),
            ..Known::default()
        };
        for it in chat::tried_above(c, &run.question_id)? {
            let path = it.path.as_deref();
            known.has_read_others |=
                it.is_of_others || reads_others((&it.tool, path), it.is_started, it.is_ok);
        }
        for call in chat::calls_of_run(c, &run.job_id)? {
            let is_ok = call.ok == Some(true) && call.undone_at.is_none();
            let asked = (call.tool.as_str(), call.args["path"].as_str());
            known.has_read_others |=
                call.is_of_others || reads_others(asked, call.started_at.is_some(), is_ok);
            if is_ok {
                known.note(&call);
            }
        }
        Ok(known)
    }

    fn note(&mut self, call: &ToolCall) {
        let Some(target) = &call.target else { return };
        let is_own =
            target.before == DIGEST_OF_NOTHING || self.is_own(&target.path, &target.before);
        self.made.remove(&target.path);
        // A file that it created and moved is still its own.
        if is_own && target.after != DIGEST_OF_NOTHING {
            let path = target.to.as_ref().unwrap_or(&target.path);
            self.made.insert(path.clone(), target.after.clone());
        }
    }

    /// Returns whether the run created a file that has not changed since.
    pub(super) fn is_own(&self, path: &str, digest: &str) -> bool {
        self.made.get(path).is_some_and(|it| it == digest)
    }

    /// Returns whether a file has text that others wrote. What the assistant obeys and remembers
    /// has none: a person has confirmed each such change of it.
    pub(super) fn is_of_others(&self, path: &VaultPath, digest: &str) -> bool {
        let is_obeyed = path.is_in(MEMORY) || PROTECTED.iter().any(|it| path.is_in(it));
        !is_obeyed
            && ([UPLOADS, RECORDS].iter().any(|it| path.is_in(it))
                || self.of_others.paths.contains(path.as_str())
                || self.of_others.digests.contains(digest))
    }
}

/// Returns whether a call gave the model text that others wrote.
fn reads_others((tool, path): (&str, Option<&str>), is_started: bool, is_ok: bool) -> bool {
    let is_attached = || {
        let path = path.and_then(|it| it.parse::<VaultPath>().ok());
        path.is_some_and(|it| it.is_in(UPLOADS))
    };
    match tool {
        // Even a page that was not read returns something: its redirect target.
        "web_fetch" | "linkedin_read_comments" => is_started,
        "read_source" | "list_topics" => is_ok,
        "read_file" | "search_files" => is_ok && is_attached(),
        _ => false,
    }
}
