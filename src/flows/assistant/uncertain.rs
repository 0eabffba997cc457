//! Calls that a server's end cut short: afterwards the files of the vault tell whether they were
//! made.
//!
//! **Invariant:** only what a digest tells is said. A file that is neither as it was before nor as
//! it would be after leaves its call unknown.
//! **Invariant:** a call of this server is not judged: it may still be writing.

use crate::base::{CallId, JobId, Millis, Result, fault};
use crate::chat::{self, CallState, Target, ToolCall};
use crate::flows::Site;
use crate::flows::assistant::vault;
use crate::people;
use crate::vault::{DIGEST_OF_NOTHING, Vault, VaultPath};

/// Settles the unknown calls of a run that has ended: those that began before this server.
///
/// # Errors
/// As opening the vault; as any write.
pub(super) async fn settle(site: &Site, run: &JobId, begun: Millis) -> Result<()> {
    let of = run.clone();
    let found = site.store.read(move |c| {
        let Some(run) = chat::by_job(c, &of)? else { return Ok(None) };
        let is_uncertain = |it: &ToolCall| {
            it.state == CallState::Unknown
                && it.target.is_some()
                && it.undone_at.is_none()
                && it.started_at.is_some_and(|at| at < begun)
        };
        let mut calls = chat::calls_of_run(c, &of)?;
        calls.retain(is_uncertain);
        Ok(people::find(c, &run.person_id)?.map(|person| (person, calls)))
    });
    let Some((person, calls)) = found.await? else { return Ok(()) };
    if calls.is_empty() || fault::is_off("digests_tell") {
        return Ok(());
    }
    let told = vault::within(site, person, move |vault| {
        let tell = |it: ToolCall| Some((it.id, is_made(vault, &it.target?)?));
        Ok(calls.into_iter().filter_map(tell).collect::<Vec<(CallId, bool)>>())
    });
    let told = told.await?;
    site.store
        .write(move |tx| {
            for (call, is_made) in &told {
                let summary = match is_made {
                    true => "it was made, as the file shows",
                    false => "it was not made, as the file shows",
                };
                chat::settle_unknown(tx, call, (*is_made, summary))?;
            }
            Ok(())
        })
        .await
}

/// Returns whether a change was made; `None` if the files tell neither.
fn is_made(vault: &Vault, target: &Target) -> Option<bool> {
    // What cannot be read tells nothing.
    let digest = |path: &str| vault.digest(&path.parse::<VaultPath>().ok()?).ok();
    let now = digest(&target.path)?;
    match &target.to {
        Some(to) => match (now == target.before, digest(to)?) {
            (true, there) if there == DIGEST_OF_NOTHING => Some(false),
            (false, there) if now == DIGEST_OF_NOTHING && there == target.after => Some(true),
            _ => None,
        },
        // The same content twice is as good as written.
        None if now == target.after => Some(true),
        None => (now == target.before).then_some(false),
    }
}

#[cfg(test)]
mod tests {
    use camino::Utf8Path;

    use super::*;
    use crate::base::digest_hex;

    #[test]
    fn a_file_tells_whether_it_was_changed() {
        let folder = tempfile::tempdir().unwrap();
        let base = Utf8Path::from_path(folder.path()).unwrap();
        let vault = Vault::open(base, &[]).unwrap();
        let (old, new) = (digest_hex("old"), digest_hex("new"));
        let nothing = || DIGEST_OF_NOTHING.to_owned();
        let target = |before: &str, after: &str, to: Option<&str>| Target {
            path: "a".to_owned(),
            before: before.to_owned(),
            after: after.to_owned(),
            to: to.map(str::to_owned),
        };
        let files = |contents: [Option<&str>; 2]| {
            for (name, content) in ["a", "b"].into_iter().zip(contents) {
                let _ = std::fs::remove_file(base.join(name));
                if let Some(content) = content {
                    std::fs::write(base.join(name), content).unwrap();
                }
            }
        };
        for (contents, target, told) in [
            ([Some("old"), None], target(&old, &new, None), Some(false)),
            ([Some("new"), None], target(&old, &new, None), Some(true)),
            ([Some("other"), None], target(&old, &new, None), None),
            ([None, None], target(&old, &new, None), None),
            ([None, None], target(&old, &nothing(), None), Some(true)),
            ([None, None], target(&nothing(), &new, None), Some(false)),
            ([Some("old"), None], target(&old, &old, None), Some(true)),
            ([Some("old"), None], target(&old, &old, Some("b")), Some(false)),
            ([None, Some("old")], target(&old, &old, Some("b")), Some(true)),
            ([Some("old"), Some("old")], target(&old, &old, Some("b")), None),
            ([None, None], target(&old, &old, Some("b")), None),
            ([Some("new"), Some("old")], target(&old, &old, Some("b")), None),
        ] {
            files(contents);
            assert_eq!(is_made(&vault, &target), told, "{contents:?} {target:?}");
        }
        let nowhere = Target { path: "../a".to_owned(), ..target(&old, &new, None) };
        assert_eq!(is_made(&vault, &nowhere), None);
    }
}
