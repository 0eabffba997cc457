//! Tracked files that are too large to compare: git would take minutes to read them, and a sparse
//! file can have any size without using disk space.
//!
//! **Invariant:** such a file counts as changed and is never read.

use std::collections::BTreeSet;
use std::os::unix::ffi::OsStrExt as _;
use std::sync::Arc;

use camino::Utf8Path;

use crate::base::Result;
use crate::documents::git::{Call, Repo, blocking};
use crate::documents::snapshot::own_index::Listed;
use crate::documents::snapshot::{Staged, status};

/// Size from which on a file is not compared: git needs seconds for it.
const HUGE_BYTES_MIN: u64 = 1 << 30;
/// Most paths that a call leaves out; they are arguments.
const LEFT_OUT_MAX: usize = 200;

impl Repo {
    /// Returns the tracked files that are not compared, with their index entries: all of them, or
    /// those among some git paths.
    pub(in crate::documents) async fn huge_files(
        &self,
        among: Option<&[String]>,
    ) -> Result<Vec<(String, Staged)>> {
        let Some(among) = among else {
            return self.huge_among(&self.listed().await?).await;
        };
        let (top, asked) = (self.git().folder().to_owned(), among.to_vec());
        let is_any = move || asked.iter().any(|it| is_huge(&top, it.as_bytes()));
        // Few are: usually the index is not needed.
        if !blocking(is_any).await? {
            return Ok(Vec::new());
        }
        let mut found = Box::pin(self.huge_files(None)).await?;
        found.retain(|(path, _)| among.contains(path));
        Ok(found)
    }

    /// Returns those among the entries of an index.
    pub(super) async fn huge_among(&self, listed: &Arc<Listed>) -> Result<Vec<(String, Staged)>> {
        let (top, listed) = (self.git().folder().to_owned(), Arc::clone(listed));
        blocking(move || huge_of(&top, &listed)).await?
    }
}

impl Call<'_> {
    /// Restricts the call to some paths, if there are any, and leaves others out.
    pub(in crate::documents) fn on_paths(
        self,
        paths: &[String],
        except: &[(String, Staged)],
    ) -> Self {
        let call = self.arg("--");
        if except.is_empty() {
            return paths.iter().fold(call, |call, it| call.arg(it));
        }
        let call = call.env("GIT_LITERAL_PATHSPECS", "0");
        let call = paths.iter().fold(call, |call, it| call.arg(format!(":(top,literal){it}")));
        // An argument is text: other names cannot be left out.
        let names = except.iter().map(|it| it.0.as_str()).filter(|it| !it.contains("\\x"));
        let left_out = names.take(LEFT_OUT_MAX);
        left_out.fold(call, |call, it| call.arg(format!(":(top,exclude,literal){it}")))
    }
}

/// Returns the paths of files.
pub(super) fn names_of(files: &[(String, Staged)]) -> BTreeSet<String> {
    files.iter().map(|it| it.0.clone()).collect()
}

fn huge_of(top: &Utf8Path, listed: &Listed) -> Result<Vec<(String, Staged)>> {
    let files = listed.records().filter(|it| it.starts_with(b"100"));
    // Those in conflict are not compared anyway.
    let files = files.filter(|it| status::stage_of(it) == b"0");
    let huge = files.filter(|it| is_huge(top, status::path_of(it)));
    // In the format of a listing with tags.
    huge.map(|it| status::entry(&[b"H ", it].concat())).collect()
}

/// Returns whether a file is too large to be compared.
pub(in crate::documents) fn is_huge(top: &Utf8Path, path: &[u8]) -> bool {
    let file = top.as_std_path().join(std::ffi::OsStr::from_bytes(path));
    file.symlink_metadata().is_ok_and(|it| it.is_file() && it.len() >= HUGE_BYTES_MIN)
}
