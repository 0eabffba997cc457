//! Settings of git that may start a program: what an agent could leave for the next one, whose git
//! reads the repository's own configuration.
//!
//! **Invariant:** a setting that is not known to be harmless counts as one that starts a program.

use std::collections::BTreeSet;

use crate::base::{Result, truncate_chars};
use crate::documents::git::Repo;
use crate::documents::git::settings::LET_THROUGH;

/// Longest listing of a configuration, in bytes.
const LISTING_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Longest name of a setting that is shown, in characters.
const NAME_CHARS_MAX: usize = 100;

/// Further settings that start nothing, by section and name, with any subsection.
const HARMLESS: &[(&str, &[&str])] = &[
    ("advice", &["addignoredfile", "detachedhead", "skippedcherrypicks", "statushints"]),
    ("author", &["email", "name"]),
    (
        "branch",
        &[
            "autosetupmerge",
            "autosetuprebase",
            "description",
            "merge",
            "pushremote",
            "rebase",
            "remote",
            "sort",
        ],
    ),
    ("color", &["branch", "diff", "status", "ui"]),
    ("commit", &["gpgsign", "verbose"]),
    ("committer", &["email", "name"]),
    (
        "core",
        &[
            "abbrev",
            "bare",
            "commentchar",
            "excludesfile",
            "fsync",
            "logallrefupdates",
            "quotepath",
            "repositoryformatversion",
            "whitespace",
        ],
    ),
    ("diff", &["algorithm", "colormoved", "mnemonicprefix", "noprefix", "renames"]),
    (
        "extensions",
        &[
            "compatobjectformat",
            "noop",
            "objectformat",
            "partialclone",
            "preciousobjects",
            "refstorage",
            "relativeworktrees",
            "worktreeconfig",
        ],
    ),
    ("fetch", &["parallel", "prune", "prunetags"]),
    ("gc", &["auto", "autodetach", "autopacklimit", "pruneexpire", "reflogexpire"]),
    ("init", &["defaultbranch"]),
    ("lfs", &["repositoryformatversion"]),
    ("maintenance", &["auto", "strategy"]),
    ("merge", &["conflictstyle", "ff", "renames"]),
    ("pull", &["ff", "rebase"]),
    ("push", &["autosetupremote", "default", "followtags"]),
    ("rebase", &["autosquash", "autostash", "updaterefs"]),
    (
        "remote",
        &[
            "fetch",
            "mirror",
            "partialclonefilter",
            "promisor",
            "prune",
            "push",
            "pushdefault",
            "pushurl",
            "skipfetchall",
            "tagopt",
            "url",
        ],
    ),
    ("rerere", &["autoupdate", "enabled"]),
    ("submodule", &["active", "branch", "ignore", "recurse", "url"]),
    ("tag", &["gpgsign", "sort"]),
    ("user", &["email", "name", "signingkey", "useconfigonly"]),
];

/// A setting: its name, and its value.
pub(in crate::documents) type Setting = (String, String);

impl Repo {
    /// Returns the settings in the text of a configuration file that may start a program; `None`
    /// if git cannot read it. Included files are not read: the setting that names them is one.
    pub(in crate::documents) async fn program_settings(
        &self,
        text: Vec<u8>,
    ) -> Result<Option<BTreeSet<Setting>>> {
        let call = self.git().call(&["config", "--no-includes", "--file", "-", "--null", "--list"]);
        let answer = call.stdin(text).output_max(LISTING_BYTES_MAX).run().await?;
        Ok((answer.code == 0).then(|| starting(&answer.stdout)))
    }

    /// Returns those that apply to the repository now, also from the account's configuration.
    pub(in crate::documents) async fn current_program_settings(&self) -> Result<BTreeSet<Setting>> {
        let call = self.git().call(&["config", "--null", "--list"]);
        Ok(starting(&call.output_max(LISTING_BYTES_MAX).output().await?))
    }
}

fn starting(listed: &[u8]) -> BTreeSet<Setting> {
    let records = listed.split(|byte| *byte == 0).filter(|it| !it.is_empty());
    let pairs = records.map(|record| {
        let record = String::from_utf8_lossy(record);
        let (key, value) = record.split_once('\n').unwrap_or((&record, "true"));
        (key.to_owned(), value.to_owned())
    });
    pairs.filter(|(key, _)| !is_harmless(key)).collect()
}

/// Returns whether a setting, as git lists it, starts no program whatever its value.
fn is_harmless(key: &str) -> bool {
    let (Some((section, _)), Some((_, name))) = (key.split_once('.'), key.rsplit_once('.')) else {
        return false;
    };
    let is_in = |it: &&(&str, &[&str])| it.0 == section && it.1.contains(&name);
    LET_THROUGH.contains(&key) || HARMLESS.iter().any(|it| is_in(&it))
}

/// Returns the name of a setting as it can be shown.
pub(in crate::documents) fn shown_setting(key: &str) -> String {
    truncate_chars(&without_user(key).escape_debug().to_string(), NAME_CHARS_MAX)
}

/// Returns a name without the user and the password of an address in it, such as that of
/// `url.https://user:token@host/.insteadof`.
fn without_user(key: &str) -> String {
    let mut rest = key;
    let mut shown = String::with_capacity(key.len());
    while let Some((before, after)) = rest.split_once("://") {
        shown.push_str(before);
        shown.push_str("://");
        let end = after.find(['/', '?', '#']).unwrap_or(after.len());
        let (authority, path) = after.split_at(end);
        // Without a slash, the name of the setting follows, which holds no `@`.
        match authority.rsplit_once('@') {
            Some((_, host)) => shown.push_str(&format!("…@{host}")),
            None => shown.push_str(authority),
        }
        rest = path;
    }
    shown + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_shown_without_the_credential_in_its_address() {
        for (key, shown) in [
            (
                "url.https://oauth2:tok@gitlab.test/.insteadof",
                "url.https://…@gitlab.test/.insteadof",
            ),
            ("credential.https://u:p@h.test.helper", "credential.https://…@h.test.helper"),
            ("url.https://a@b@c/x://d:e@f/.insteadof", "url.https://…@c/x://…@f/.insteadof"),
            ("url.https://gitlab.test/.insteadof", "url.https://gitlab.test/.insteadof"),
            ("core.pager", "core.pager"),
        ] {
            assert_eq!(shown_setting(key), shown);
        }
    }

    #[test]
    fn a_setting_that_is_not_known_starts_a_program() {
        for key in [
            "core.autocrlf",
            "core.bare",
            "branch.a.b.c.remote",
            "remote.origin.url",
            "user.name",
            "submodule.x.url",
        ] {
            assert!(is_harmless(key), "{key}");
        }
        for key in [
            "core.fsmonitor",
            "core.sshcommand",
            "core.hookspath",
            "core.pager",
            "core.editor",
            "core.askpass",
            "core.worktree",
            "core.attributesfile",
            "filter.x.clean",
            "filter.x.process",
            "diff.external",
            "diff.x.textconv",
            "diff.x.command",
            "merge.x.driver",
            "gpg.program",
            "gpg.ssh.defaultkeycommand",
            "alias.st",
            "include.path",
            "includeif.gitdir:/.path",
            "credential.helper",
            "submodule.x.update",
            "remote.origin.uploadpack",
            "remote.origin.vcs",
            "protocol.ext.allow",
            "url.ext::sh.insteadof",
            "gc.recentobjectshook",
            "interactive.difffilter",
            "sequence.editor",
            "user.name.x",
            "new",
        ] {
            assert!(!is_harmless(key), "{key}");
        }
        for (section, names) in HARMLESS {
            let harmful = ["filter", "hook", "command", "pager", "editor", "program", "driver"];
            let names = names.iter().filter(|it| **it != "partialclonefilter");
            for name in names {
                assert!(!harmful.iter().any(|it| name.contains(it)), "{section}.{name}");
                assert_eq!(name.to_lowercase(), **name);
            }
        }
    }

    #[test]
    fn a_value_that_is_not_text_hides_no_setting() {
        let found = starting(b"core.fsmonitor\n/tmp/\xff\0user.name\nx\0alias.x\0");
        let keys: Vec<&str> = found.iter().map(|it| it.0.as_str()).collect();
        assert_eq!(keys, ["alias.x", "core.fsmonitor"]);
    }
}
