//! The part of git's configuration that matters when working files are read or compared: read once
//! per operation, filtered by name, and passed to git again by value.
//!
//! Git cannot ignore its configuration entirely, and filters are programs that it names. A call
//! that could start one therefore gets a common folder of ours, the *stand-in*: links to the
//! repository's refs, objects and attributes, and a configuration that only contains the format.
//! Whatever is written into `.git/config`, or into the user's or the system's configuration, before
//! or during a call, is not read by it.
//!
//! **Invariant:** no setting passed on names a program.

use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::symlink;
use std::sync::Arc;

use camino::{Utf8Path, Utf8PathBuf};

use crate::base::{Context, Error, ErrorKind, Result, fault};
use crate::documents::git::{Git, ObjectFormat, Repo, blocking};
use crate::process::{Scratch, own_folder, read_small, remove_some};

/// Settings that determine how working files and the index are read and written.
pub(in crate::documents::git) const LET_THROUGH: &[&str] = &[
    "core.autocrlf",
    "core.bigfilethreshold",
    "core.checkroundtripencoding",
    "core.compression",
    "core.eol",
    "core.filemode",
    "core.ignorecase",
    "core.loosecompression",
    "core.precomposeunicode",
    "core.preloadindex",
    "core.protecthfs",
    "core.protectntfs",
    "core.safecrlf",
    "core.sharedrepository",
    "core.sparsecheckout",
    "core.sparsecheckoutcone",
    "core.splitindex",
    "core.symlinks",
    "core.trustctime",
    "core.untrackedcache",
    "feature.manyfiles",
    "index.recordendofindexentries",
    "index.recordoffsettable",
    "index.skiphash",
    "index.sparse",
    "index.threads",
    "index.version",
    "splitindex.maxpercentchange",
    "splitindex.sharedindexexpire",
];
/// The parts of the common folder that the stand-in links to; links may dangle.
const LINKED: &[&str] = &["refs", "packed-refs", "reftable", "objects", "info", "shallow"];
/// Entries removed per round.
const ENTRIES_AT_ONCE: usize = 10_000;
/// Longest listing of a configuration, in bytes.
const LISTING_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Longest configuration of the stand-in, in bytes.
const CONFIG_BYTES_MAX: u64 = 4_096;
/// Longest value passed on, in bytes.
const VALUE_BYTES_MAX: usize = 4_096;

/// A snapshot of the settings, for all calls of one operation.
#[derive(Debug)]
pub(in crate::documents) struct Settings {
    environment: Vec<(String, String)>,
    /// Whether line endings of any text file may be converted, regardless of attributes.
    pub(in crate::documents) converts_line_ends: bool,
}

/// The folder that replaces the repository's common folder.
pub(in crate::documents::git) struct StandIn {
    folder: Utf8PathBuf,
    common: Utf8PathBuf,
    format: ObjectFormat,
    /// Removes the folder on drop, if it is temporary.
    _scratch: Option<Scratch>,
}

impl Settings {
    /// Returns the additional environment of a call.
    pub(in crate::documents::git) fn environment(&self) -> &[(String, String)] {
        &self.environment
    }
}

impl StandIn {
    /// Returns a stand-in in its own temporary folder.
    pub(in crate::documents::git) fn temporary(
        common: Utf8PathBuf,
        format: ObjectFormat,
    ) -> Result<StandIn> {
        let scratch = Scratch::open("wiki-browser-git-")?;
        let folder = scratch.path().to_owned();
        Ok(StandIn { folder, common, format, _scratch: Some(scratch) })
    }

    /// Returns a stand-in in a permanent folder, which is not created yet.
    pub(in crate::documents::git) fn at(
        folder: Utf8PathBuf,
        common: Utf8PathBuf,
        format: ObjectFormat,
    ) -> StandIn {
        StandIn { folder, common, format, _scratch: None }
    }

    /// Returns the same stand-in in a permanent folder.
    pub(in crate::documents::git) fn moved(&self, folder: Utf8PathBuf) -> StandIn {
        StandIn { folder, common: self.common.clone(), format: self.format, _scratch: None }
    }

    /// Creates or repairs the folder: it may be new, or have been cleaned.
    fn make(&self, is_reftable: bool) -> Result<()> {
        let cannot = || format!("cannot write {}", self.folder);
        let make = || -> io::Result<()> {
            // An agent may have put a link here: what is behind it is not ours.
            let held = own_folder(&self.folder)?;
            let folder = Utf8PathBuf::from(format!("/proc/self/fd/{}", held.as_raw_fd()));
            for name in LINKED {
                let (link, target) = (folder.join(name), self.common.join(name));
                if link.read_link_utf8().is_ok_and(|it| it == target) {
                    continue;
                }
                while !remove_some(&folder, name, ENTRIES_AT_ONCE)
                    .map_err(io::Error::other)?
                    .is_done
                {}
                match symlink(&target, &link) {
                    // Another call created it at the same time.
                    Err(cause) if cause.kind() == io::ErrorKind::AlreadyExists => {}
                    done => done?,
                }
            }
            let config = folder.join("config");
            let wanted = self.config(is_reftable).into_bytes();
            if read_small(&config, CONFIG_BYTES_MAX).is_ok_and(|it| it == Some(wanted.clone())) {
                return Ok(());
            }
            let new = folder.join(format!("config.{:?}", std::thread::current().id()));
            if new.symlink_metadata().is_ok() {
                std::fs::remove_file(&new)?;
            }
            File::create_new(&new)?.write_all(&wanted)?;
            std::fs::rename(&new, &config)
        };
        make().context(ErrorKind::Unavailable, cannot)
    }

    fn config(&self, is_reftable: bool) -> String {
        let mut text = "[core]\n\trepositoryFormatVersion = 1\n[extensions]\n".to_owned();
        if self.format == ObjectFormat::Sha256 {
            text.push_str("\tobjectFormat = sha256\n");
        }
        if is_reftable {
            text.push_str("\trefStorage = reftable\n");
        }
        text
    }
}

impl Repo {
    /// Returns a handle whose calls all see the current configuration.
    pub(in crate::documents) async fn settled(&self) -> Result<Repo> {
        let settings = Some(self.settings().await?);
        Ok(Repo { shared: Arc::clone(&self.shared), stand_in: self.stand_in.clone(), settings })
    }

    /// Returns the settings of this handle, or else the current ones.
    pub(in crate::documents) async fn settings(&self) -> Result<Arc<Settings>> {
        if let Some(settings) = &self.settings {
            return Ok(Arc::clone(settings));
        }
        let call = self.git().call(&["config", "--null", "--list"]);
        let listed = call.output_max(LISTING_BYTES_MAX).output().await?;
        let listed = parse(&listed);
        let is_reftable =
            listed.iter().any(|(key, value)| key == "extensions.refstorage" && value == "reftable");
        let stand_in = Arc::clone(&self.stand_in);
        blocking(move || stand_in.make(is_reftable)).await??;
        Ok(Arc::new(self.let_through(listed)))
    }

    fn let_through(&self, listed: Vec<(String, String)>) -> Settings {
        let attributes = listed.iter().rfind(|(key, _)| key == "core.attributesfile");
        let attributes = attributes.map(|(_, value)| value.as_str());
        let attributes = self.git().users_file(attributes, "attributes");
        let mut kept: Vec<(String, String)> = listed
            .into_iter()
            .filter(|(key, value)| {
                LET_THROUGH.contains(&key.as_str())
                    && value.len() <= VALUE_BYTES_MAX
                    // An agent may set it, and git would not list its `GUIDE.md` beside `guide.md`.
                    && (key != "core.ignorecase" || ignores_case(self.common_dir()))
            })
            .collect();
        kept.extend(attributes.map(|it| ("core.attributesFile".to_owned(), it.to_string())));
        let last = |name: &str| kept.iter().rfind(|(key, _)| key == name).map(|it| it.1.as_str());
        let converts_line_ends = last("core.autocrlf").is_some_and(|it| !is_false(it))
            || last("core.eol").is_some_and(|it| !it.eq_ignore_ascii_case("lf"));
        let mut environment = numbered(kept);
        // Disabled in tests: the repository's own configuration is then read, as git does by
        // default.
        if !fault::is_off("stand_in") {
            let ours = [
                ("GIT_COMMON_DIR", self.stand_in.folder.as_str()),
                ("GIT_CONFIG_NOSYSTEM", "1"),
                ("GIT_CONFIG_GLOBAL", "/dev/null"),
                ("HOME", "/dev/null"),
                ("XDG_CONFIG_HOME", "/dev/null"),
            ];
            let ours = ours.map(|(name, value)| (name.to_owned(), value.to_owned()));
            environment.extend(ours);
        }
        Settings { environment, converts_line_ends }
    }
}

impl Git {
    /// Returns the user's file of attributes or ignored names: the configured one, or the default.
    fn users_file(&self, set: Option<&str>, usual_name: &str) -> Option<Utf8PathBuf> {
        let home = self.variable("HOME").map(Utf8Path::new);
        if let Some(set) = set {
            return match set.strip_prefix("~/") {
                Some(below) => home.map(|it| it.join(below)),
                None => Some(Utf8PathBuf::from(set)),
            };
        }
        let usual = self.variable("XDG_CONFIG_HOME").filter(|it| !it.is_empty());
        let folder = usual.map(Utf8PathBuf::from).or_else(|| home.map(|it| it.join(".config")));
        folder.map(|it| it.join("git").join(usual_name))
    }

    /// Returns the user's configuration files.
    pub(super) fn users_configs(&self) -> Vec<Utf8PathBuf> {
        let home = self.variable("HOME").map(|it| Utf8Path::new(it).join(".gitconfig"));
        home.into_iter().chain(self.users_file(None, "config")).collect()
    }

    /// Returns the files outside of the repository that git opens in any working tree, each with
    /// the setting that names it.
    ///
    /// # Errors
    /// `unavailable` if git fails.
    pub(super) async fn files_by_setting(&self) -> Result<Vec<(&'static str, Utf8PathBuf)>> {
        let call = self.call(&["config", "--null", "--list"]);
        let listed = parse(&call.output_max(LISTING_BYTES_MAX).output().await?);
        let named = [("core.attributesFile", "attributes"), ("core.excludesFile", "ignore")];
        let found = named.into_iter().filter_map(|(setting, usual)| {
            let is_it = |key: &str| key.eq_ignore_ascii_case(setting);
            let set = listed.iter().rfind(|(key, _)| is_it(key)).map(|it| it.1.as_str());
            Some((setting, self.folder().join(self.users_file(set, usual)?)))
        });
        Ok(found.collect())
    }
}

/// Parses `KEY
/// VALUE\0`; a key without a value is true. Records that are not UTF-8 are skipped: no setting
/// passed on has such a value.
fn parse(listed: &[u8]) -> Vec<(String, String)> {
    let records = listed.split(|byte| *byte == 0).filter(|it| !it.is_empty());
    let pairs = records.filter_map(|record| {
        let record = std::str::from_utf8(record).ok()?;
        let (key, value) = record.split_once('\n').unwrap_or((record, "true"));
        Some((key.to_owned(), value.to_owned()))
    });
    pairs.collect()
}

/// Returns whether the file system takes another spelling of a name for the same file.
fn ignores_case(common: &Utf8Path) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    let facts = |name: &str| {
        let meta = common.join(name).symlink_metadata().ok()?;
        // With a second link, both spellings may be there.
        (meta.nlink() == 1).then(|| (meta.dev(), meta.ino()))
    };
    facts("HEAD").is_some_and(|it| facts("head") == Some(it))
}

fn is_false(value: &str) -> bool {
    ["false", "no", "off", "0", ""].iter().any(|it| value.eq_ignore_ascii_case(it))
}

/// Passes settings as environment variables: a name or value may contain `=`, which `-c` cannot
/// express.
fn numbered(settings: Vec<(String, String)>) -> Vec<(String, String)> {
    let mut environment = vec![("GIT_CONFIG_COUNT".to_owned(), settings.len().to_string())];
    for (at, (key, value)) in settings.into_iter().enumerate() {
        environment.push((format!("GIT_CONFIG_KEY_{at}"), key));
        environment.push((format!("GIT_CONFIG_VALUE_{at}"), value));
    }
    environment
}

/// Returns the folder shared by all worktrees of a repository.
pub(in crate::documents::git) fn common_folder(
    git_dir: &Utf8Path,
    told: &str,
) -> Result<Utf8PathBuf> {
    let common = git_dir.join(told);
    common.canonicalize_utf8().map_err(|cause| {
        Error::unavailable(format!("cannot find {common}")).code("not_a_repository").source(cause)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_in_the_place_of_the_stand_in_is_not_followed() {
        let temp = tempfile::tempdir().unwrap();
        let top = Utf8Path::from_path(temp.path()).unwrap();
        let (foreign, folder, common) = (top.join("foreign"), top.join("git"), top.join(".git"));
        for name in ["foreign/refs", ".git"] {
            std::fs::create_dir_all(top.join(name)).unwrap();
        }
        for name in ["config", "objects", "refs/kept"] {
            std::fs::write(foreign.join(name), "PRECIOUS").unwrap();
        }
        symlink(&foreign, &folder).unwrap();
        let stand_in = StandIn::at(folder.clone(), common.clone(), ObjectFormat::Sha1);
        stand_in.make(false).unwrap();
        for name in ["config", "objects", "refs/kept"] {
            assert_eq!(std::fs::read_to_string(foreign.join(name)).unwrap(), "PRECIOUS", "{name}");
        }
        assert!(folder.symlink_metadata().unwrap().is_dir());
        // A folder in place of a link is removed, with anything an agent put into it.
        std::fs::remove_file(folder.join("objects")).unwrap();
        std::fs::create_dir_all(folder.join("objects/deep")).unwrap();
        stand_in.make(false).unwrap();
        assert_eq!(folder.join("objects").read_link_utf8().unwrap(), common.join("objects"));
    }

    #[test]
    fn no_setting_that_is_let_through_names_a_program() {
        for name in LET_THROUGH {
            assert_eq!(name.to_lowercase(), **name, "git lists names in lower case");
            let harmful = ["filter", "hook", "command", "pager", "editor", "fsmonitor", "program"];
            assert!(!harmful.iter().any(|it| name.contains(it)), "{name}");
        }
    }

    #[test]
    fn a_listing_is_parsed_by_its_nuls() {
        let parsed = parse(b"core.bare\nfalse\0core.eol\na=b\nc\0alone\0bad.\xff\nx\0");
        let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        assert_eq!(
            parsed,
            [pair("core.bare", "false"), pair("core.eol", "a=b\nc"), pair("alone", "true")]
        );
        assert!(is_false("No") && !is_false("input") && !is_false("true"));
    }
}
