//! Changes a vault, and undoes changes.

use crate::base::{CallId, Error, Result, fault};
use crate::chat::{Home, Target};
use crate::flows::assistant::tools::files::not_empty;
use crate::flows::assistant::tools::{Deed, Said, Work};
use crate::vault::{DIGEST_OF_NOTHING, Image, Vault, VaultPath};

/// The code of a file that changed after the assistant read it.
pub(in crate::flows::assistant) const CHANGED_MEANWHILE: &str = "changed_meanwhile";

/// Executes a call. The previous content is stored first.
///
/// # Errors
/// `conflict` with code `changed_meanwhile` if something else stands there now; `unavailable`.
pub(in crate::flows::assistant) fn make(
    vault: &Vault,
    (home, call): (&Home, &CallId),
    deed: &Deed,
) -> Result<Said> {
    match &deed.work {
        Work::Read(said) => Ok(said.clone()),
        Work::Site | Work::Web(_) | Work::Linkedin(_) => {
            Err(Error::internal("a tool that works elsewhere does not work on a vault"))
        }
        Work::Swap(path, before, after) => {
            let keep = || before.bytes().map_or(Ok(()), |bytes| home.keep(call, bytes));
            let is_kept_first = !fault::is_off("kept_first");
            if is_kept_first {
                keep()?;
            }
            if !vault.swap(path, before, after)? {
                return Err(changed(path));
            }
            if !is_kept_first {
                keep()?;
            }
            Ok(Said::plain(match (before.bytes(), after.bytes()) {
                (_, None) => format!("{path} was deleted"),
                (None, Some(bytes)) => format!("{path} was created ({} bytes)", bytes.len()),
                (Some(_), Some(bytes)) => format!("{path} was written ({} bytes)", bytes.len()),
            }))
        }
        Work::Move(from, to) => match vault.rename(from, to)? {
            true => Ok(Said::plain(format!("{from} is {to} now"))),
            false => Err(changed(to)),
        },
        Work::Folder(path) => match vault.remove_folder(path)? {
            true => Ok(Said::plain(format!("the empty folder {path} was deleted"))),
            false => Err(not_empty(path)),
        },
    }
}

fn changed(path: &VaultPath) -> Error {
    Error::conflict(CHANGED_MEANWHILE, format!("{path} has changed meanwhile"))
        .hint("nothing was done; read it again")
}

/// Undoes a change, if nothing else has changed the file since. A file that is as it was before
/// the change needs nothing: an earlier try may have been cut short before it was recorded.
///
/// # Errors
/// `conflict` with code `cannot_undo`; `unavailable`.
pub(in crate::flows::assistant) fn unmake(
    vault: &Vault,
    (home, call): (&Home, &CallId),
    target: &Target,
) -> Result<()> {
    let refuse = |why: String| Err(Error::conflict("cannot_undo", why).hint("look at the file"));
    let path: VaultPath = target.path.parse()?;
    if let Some(to) = &target.to {
        let to: VaultPath = to.parse()?;
        let moved = vault.digest(&to)?;
        if moved == DIGEST_OF_NOTHING && vault.digest(&path)? == target.after {
            return Ok(());
        }
        if moved != target.after {
            return refuse(format!("{to} has changed since"));
        }
        return match vault.rename(&to, &path)? {
            true => Ok(()),
            false => refuse(format!("there is another {path} now")),
        };
    }
    let now = vault.image(&path)?;
    if now.digest() == target.before {
        // A new file that was moved elsewhere still exists.
        return match target.before == DIGEST_OF_NOTHING {
            true => {
                refuse(format!("{path} is not there any more: it was moved, deleted or taken back"))
            }
            false => Ok(()),
        };
    }
    if now.digest() != target.after {
        return refuse(format!("{path} has changed since"));
    }
    let before = match target.before.as_str() {
        DIGEST_OF_NOTHING => Image::nothing(),
        _ => match home.kept(call)? {
            Some(bytes) => Image::of(bytes, &now),
            None => return refuse(format!("the previous content of {path} is no longer stored")),
        },
    };
    if before.digest() != target.before {
        return refuse(format!("what is kept of {path} is not what it was"));
    }
    match vault.swap(&path, &now, &before)? {
        true => Ok(()),
        false => refuse(format!("{path} has changed since")),
    }
}

#[cfg(test)]
mod tests {
    use camino::Utf8Path;
    use serde_json::json;

    use super::*;
    use crate::flows::assistant::tools::files::plan;
    use crate::flows::assistant::tools::text_of_others::Known;

    #[test]
    fn each_change_can_be_taken_back() {
        let folder = tempfile::tempdir().unwrap();
        let base = Utf8Path::from_path(folder.path()).unwrap();
        std::fs::create_dir_all(base.join("vault")).unwrap();
        std::fs::write(base.join("vault/a.md"), "one\n").unwrap();
        let vault = Vault::open(&base.join("vault"), &[]).unwrap();
        let home = Home::of(base, &"018bcfe5-6800-7000-8000-000000000001".parse().unwrap());
        let call: CallId = "018bcfe5-6800-7000-8000-000000000002".parse().unwrap();
        let known = Known::default();
        let state = || {
            let (listed, _) = vault.list(None).unwrap();
            let read = |name: &str| std::fs::read_to_string(base.join("vault").join(name)).unwrap();
            listed.iter().map(|it| format!("{}={}", it.name, read(&it.name))).collect::<String>()
        };
        for (tool, args, then) in [
            ("write_file", json!({"path": "b.md", "content": "b"}), "a.md=one\nb.md=b"),
            ("write_file", json!({"path": "a.md", "content": "b"}), "a.md=b"),
            ("edit_file", json!({"path": "a.md", "old": "o", "new": "u"}), "a.md=une\n"),
            ("move_file", json!({"from": "a.md", "to": "c.md"}), "c.md=one\n"),
            ("delete_file", json!({"path": "a.md"}), ""),
        ] {
            let deed = plan(&vault, tool, &args, &known).unwrap();
            make(&vault, (&home, &call), &deed).unwrap();
            assert_eq!(state(), then, "{tool}");
            let target = deed.target.clone().unwrap();
            unmake(&vault, (&home, &call), &target).unwrap();
            assert_eq!(state(), "a.md=one\n", "{tool}");
            // Cut short before it was recorded, it is asked for again. A new file that is gone may
            // have been moved, so this is no undoing.
            let again = unmake(&vault, (&home, &call), &target);
            assert_eq!(again.is_ok(), then != "a.md=one\nb.md=b", "{tool}");
            assert_eq!(state(), "a.md=one\n", "{tool}");
        }
        let deed = plan(&vault, "delete_file", &json!({"path": "a.md"}), &known).unwrap();
        std::fs::write(base.join("vault/a.md"), "two\n").unwrap();
        let refused = make(&vault, (&home, &call), &deed).unwrap_err();
        assert_eq!(refused.code_str(), "changed_meanwhile");
        assert_eq!(state(), "a.md=two\n");
    }

    /// Fails with `WB_WITHOUT=kept_first`.
    #[test]
    fn what_cannot_be_kept_is_not_changed() {
        let folder = tempfile::tempdir().unwrap();
        let base = Utf8Path::from_path(folder.path()).unwrap();
        std::fs::create_dir_all(base.join("vault")).unwrap();
        std::fs::write(base.join("vault/a.md"), "one\n").unwrap();
        let vault = Vault::open(&base.join("vault"), &[]).unwrap();
        let person = "018bcfe5-6800-7000-8000-000000000001";
        let home = Home::of(base, &person.parse().unwrap());
        let call: CallId = "018bcfe5-6800-7000-8000-000000000002".parse().unwrap();
        // Where the previous contents are kept is something else.
        std::fs::create_dir_all(base.join("people").join(person)).unwrap();
        std::fs::write(base.join("people").join(person).join("kept"), "x").unwrap();
        let known = Known::default();
        for (tool, args) in [
            ("write_file", json!({"path": "a.md", "content": "two\n"})),
            ("edit_file", json!({"path": "a.md", "old": "one", "new": "two"})),
            ("delete_file", json!({"path": "a.md"})),
        ] {
            let deed = plan(&vault, tool, &args, &known).unwrap();
            make(&vault, (&home, &call), &deed).unwrap_err();
            let now = std::fs::read_to_string(base.join("vault/a.md")).unwrap();
            assert_eq!(now, "one\n", "{tool}");
        }
    }
}
