//! Files whose content is as it was: only their mode is put back, or what git will say of them.

use crate::base::Result;
use crate::base::limit::SOURCE_BYTES_MAX;
use crate::documents::changes::FileChange;
use crate::documents::changes::attributes::End;
use crate::documents::changes::plan::{Present, Want, plain};
use crate::documents::git::{Repo, blocking};
use crate::documents::snapshot::{Work, name};
use crate::process::Standing;

/// The mode of a file, compared with both ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ModeSince {
    /// As before the job.
    AsBefore,
    /// As the job left it.
    AsLeft,
    /// Neither.
    Other,
}

impl ModeSince {
    pub(super) fn is_as_left(self) -> bool {
        self == ModeSince::AsLeft
    }

    pub(super) fn is_other(self) -> bool {
        self == ModeSince::Other
    }
}

impl Present {
    /// Returns whether a file is as the job left it, and may be as before only by its settings.
    pub(super) async fn is_due(&self, repo: &Repo, it: &FileChange) -> Result<bool> {
        let is_read = matches!(it.after.work, Work::File { .. });
        let is_due = self.is_settings_due && it.before.work == Work::Indexed && is_read;
        Ok(is_due && self.standing(repo, &it.path).await? == plain(&it.after.work))
    }

    /// Returns what the mode of a file is now, if nothing but its mode was changed.
    pub(super) async fn mode_since(&self, it: &FileChange) -> Result<Option<ModeSince>> {
        let (Work::File { blob: was, mode }, Work::File { blob: is, mode: left }) =
            (&it.before.work, &it.after.work)
        else {
            return Ok(None);
        };
        if was != is || mode == left {
            return Ok(None);
        }
        let (root, at) = (self.top().clone(), it.path.clone());
        let now = blocking(move || root.standing(name::path(&at), SOURCE_BYTES_MAX)).await??;
        Ok(Some(match now {
            Standing::File { mode: now, .. } if now == *mode => ModeSince::AsBefore,
            Standing::File { mode: now, .. } if now == *left => ModeSince::AsLeft,
            _ => ModeSince::Other,
        }))
    }

    /// Returns the mode that a file is to get again, if it stands there with its content of before:
    /// as it was kept, or, where git had it, as git cannot tell it from that.
    pub(super) async fn mode_alone(
        &self,
        repo: &Repo,
        it: &FileChange,
        was: &Want,
    ) -> Result<Option<u32>> {
        let Want::File { bytes: wanted, mode } = was else { return Ok(None) };
        let (root, at) = (self.top().clone(), it.path.clone());
        let look = move || root.standing(name::path(&at), SOURCE_BYTES_MAX);
        let Standing::File { bytes, mode: now } = blocking(look).await?? else { return Ok(None) };
        let is_same = repo.hash(&bytes) == *wanted
            || self.conversions.is_cleaned_alike(repo, it, &bytes, End::Before).await?;
        let kept = match &it.before.work {
            Work::File { mode, .. } => mode & 0o777,
            // Who may read it may execute it, as git sets it.
            _ if mode & 0o111 != 0 => now | ((now & 0o444) >> 2) | 0o100,
            _ => now & !0o111,
        };
        Ok(is_same.then_some(kept))
    }
}
