//! The folders that are watched to notice changes of the repository.

use std::collections::BTreeSet;

use camino::Utf8PathBuf;

use crate::base::Result;
use crate::documents::git::Repo;

impl Repo {
    /// Returns the folders in which every change of checkout and index shows, nearest to the root
    /// first; and those of the tracked Sources with all their parents.
    ///
    /// # Errors
    /// `unavailable` if git fails.
    pub async fn folders_to_watch(&self) -> Result<(Vec<Utf8PathBuf>, Vec<Utf8PathBuf>)> {
        let common = self.common_dir();
        let heads = common.join("refs/heads");
        let mut marks = vec![self.git_dir().to_owned(), common.to_owned(), heads];
        if let Some(branch) = self.branch().await? {
            marks.extend(common.join(branch).parent().map(ToOwned::to_owned));
        }
        marks.push(common.join("reftable"));
        let mut known = BTreeSet::new();
        marks.retain(|it| known.insert(it.clone()));
        let mut folders = BTreeSet::from([String::new()]);
        for path in self.tracked_paths().await? {
            let mut folder = path.as_path();
            while let Some(above) = folder.parent() {
                if !folders.insert(above.as_str().to_owned()) {
                    break;
                }
                folder = above;
            }
        }
        let top = self.root().path().to_owned();
        let mut below: Vec<String> = folders.into_iter().collect();
        below.sort_by_key(|it| (it.matches('/').count() + usize::from(!it.is_empty()), it.clone()));
        let below = below.iter().map(|it| if it.is_empty() { top.clone() } else { top.join(it) });
        Ok((marks, below.collect()))
    }
}
