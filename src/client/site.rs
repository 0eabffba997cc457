//! Finding the server of a site, without running its script.

use std::io::Read;

use camino::{Utf8Path, Utf8PathBuf};
use serde_json::Value;

use crate::base::{Context, Error, ErrorKind, Result};
use crate::client::socket::{ITS_USER, no_server};

/// The file that makes a folder a site.
const SCRIPT: &str = "wiki-browser.lua";
/// Largest `server.json` and largest token file, in bytes.
const FILE_BYTES_MAX: u64 = 64 * 1024;

/// Where to look for a site; the first one given is used.
#[derive(Clone, Debug, Default)]
pub struct Search {
    /// `--data DIR`.
    pub data: Option<Utf8PathBuf>,
    /// `--config FILE`.
    pub config: Option<Utf8PathBuf>,
    /// `WB_SOCKET`.
    pub socket: Option<Utf8PathBuf>,
    /// Search upwards from here for the nearest script; by default from the working folder.
    pub folder: Option<Utf8PathBuf>,
}

/// A site on this machine, as far as its files tell.
#[derive(Clone, Debug)]
pub struct Site {
    /// The data folder, unless only a socket was given.
    pub data: Option<Utf8PathBuf>,
    /// The socket of the server.
    pub socket: Utf8PathBuf,
}

impl Search {
    /// Finds the site and the socket of its server.
    ///
    /// # Errors
    /// `not_found` if there is no site, `no_server` if no server has left its `server.json`.
    pub fn site(&self) -> Result<Site> {
        let data = match (&self.data, &self.config, &self.socket) {
            (Some(data), ..) => data.clone(),
            (None, Some(config), _) => data_beside(config)?,
            (None, None, Some(socket)) => {
                return Ok(Site { data: None, socket: socket.clone() });
            }
            (None, None, None) => data_beside(&self.script()?)?,
        };
        let socket = socket_of(&data)?;
        Ok(Site { data: Some(data), socket })
    }

    /// Finds the script of the site.
    ///
    /// # Errors
    /// `not_found` if there is none.
    pub fn script(&self) -> Result<Utf8PathBuf> {
        if let Some(config) = &self.config {
            return existing(config);
        }
        let folder = match &self.folder {
            Some(folder) => folder.clone(),
            None => working_folder()?,
        };
        find_script(&folder)
    }
}

/// Returns the working folder.
///
/// # Errors
/// `invalid` if it is gone or its path is not UTF-8.
pub fn working_folder() -> Result<Utf8PathBuf> {
    let folder = std::env::current_dir()
        .context(ErrorKind::Invalid, || "the working folder is gone".to_owned())?;
    Utf8PathBuf::try_from(folder)
        .context(ErrorKind::Invalid, || "the path of the working folder is not UTF-8".to_owned())
}

/// Returns the nearest `wiki-browser.lua` from a folder upwards.
///
/// # Errors
/// `not_found` if there is none; `forbidden` with code `others_script` if somebody else could have
/// put it there: a script names programs that are run.
pub fn find_script(folder: &Utf8Path) -> Result<Utf8PathBuf> {
    let found = folder.ancestors().map(|it| it.join(SCRIPT)).find(|it| it.is_file());
    let script = found.ok_or_else(|| {
        Error::not_found(format!("no {SCRIPT} in {folder} or above it")).code("no_site").hint(
            "go to a site's folder, name it with --config FILE, or make one: wiki-browser init",
        )
    })?;
    let own = owner_and_mode(Utf8Path::new("/proc/self"))?.0;
    for path in [script.as_path(), script.parent().unwrap_or(Utf8Path::new("/"))] {
        if let Some(why) = distrust(owner_and_mode(path)?, own) {
            let message = format!("{path} {why}, and a script names programs that are run");
            return Err(Error::new(ErrorKind::Forbidden, message)
                .code("others_script")
                .hint(format!("if you trust it, say so: --config {script}")));
        }
    }
    Ok(script)
}

fn owner_and_mode(path: &Utf8Path) -> Result<(u32, u32)> {
    use std::os::unix::fs::MetadataExt as _;
    let facts = std::fs::metadata(path)
        .context(ErrorKind::Unavailable, || format!("cannot read {path}"))?;
    Ok((facts.uid(), facts.mode()))
}

/// Returns why a file found by searching is not trusted, as git does with repositories: it must
/// belong to our user or root, and nobody else may be able to write it.
fn distrust((owner, mode): (u32, u32), own: u32) -> Option<String> {
    const OTHERS_WRITE: u32 = 0o002;
    const STICKY: u32 = 0o1000;
    if owner != own && owner != 0 {
        return Some(format!("belongs to another user ({owner})"));
    }
    // In a folder like /tmp, nobody removes or replaces another user's files.
    let is_open = mode & OTHERS_WRITE != 0 && mode & STICKY == 0;
    is_open.then(|| "can be written by everybody".to_owned())
}

/// Reads a token from its file.
pub(super) fn read_token(path: &Utf8Path) -> Result<String> {
    let text = read(path).map_err(|cause| {
        let message = format!("cannot read the token of the operator, {path}");
        Error::new(ErrorKind::Unauthenticated, message)
            .hint("it is written when the server starts, and readable by who started it")
            .source(cause)
    })?;
    match text.trim() {
        "" => Err(Error::new(ErrorKind::Unauthenticated, format!("{path} has no token"))
            .hint("restart the server: it writes a new one")),
        token => Ok(token.to_owned()),
    }
}

fn data_beside(script: &Utf8Path) -> Result<Utf8PathBuf> {
    let script = existing(script)?;
    Ok(script.parent().unwrap_or(Utf8Path::new("")).join("data"))
}

fn existing(script: &Utf8Path) -> Result<Utf8PathBuf> {
    if script.is_file() {
        return Ok(script.to_owned());
    }
    Err(Error::not_found(format!("there is no file {script}"))
        .code("no_site")
        .hint("--config names the script; wiki-browser init makes a new site"))
}

fn socket_of(data: &Utf8Path) -> Result<Utf8PathBuf> {
    let path = data.join("server.json");
    let text = match read(&path) {
        Ok(text) => text,
        Err(cause) if cause.kind() == std::io::ErrorKind::NotFound => {
            let message = format!("no server is running: no {path}");
            return Err(no_server(message));
        }
        Err(cause) => {
            let error = Error::unavailable(format!("cannot read {path}"));
            let error = match cause.kind() {
                std::io::ErrorKind::PermissionDenied => error.hint(ITS_USER),
                _ => error,
            };
            return Err(error.source(cause));
        }
    };
    let value: Value = serde_json::from_str(&text)
        .context(ErrorKind::Unavailable, || format!("{path} is not what a server writes"))?;
    match value["socket"].as_str() {
        // A relative path is relative to the data folder; `join` keeps an absolute one.
        Some(socket) if !socket.is_empty() => Ok(data.join(socket)),
        _ => Err(Error::unavailable(format!("{path} names no socket"))),
    }
}

fn read(path: &Utf8Path) -> std::io::Result<String> {
    use std::os::unix::fs::OpenOptionsExt as _;
    /// `O_NONBLOCK` on Linux: a fifo in its place must not block a command.
    const O_NONBLOCK: i32 = 0o4000;
    let mut text = String::new();
    let file = std::fs::OpenOptions::new().read(true).custom_flags(O_NONBLOCK).open(path)?;
    file.take(FILE_BYTES_MAX).read_to_string(&mut text)?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder() -> (tempfile::TempDir, Utf8PathBuf) {
        let temp = tempfile::tempdir().unwrap();
        let path = Utf8PathBuf::from_path_buf(temp.path().to_owned()).unwrap();
        (temp, path)
    }

    #[test]
    fn a_script_that_another_could_have_put_there_is_not_run() {
        let trusted = [(1000, 0o100_644), (0, 0o100_644), (1000, 0o040_775), (0, 0o041_777)];
        for it in trusted {
            assert_eq!(distrust(it, 1000), None, "{it:?}");
        }
        for it in [(1001, 0o100_644), (1000, 0o100_646), (0, 0o040_777), (1001, 0o041_777)] {
            assert!(distrust(it, 1000).is_some(), "{it:?}");
        }
        let folder = tempfile::tempdir().unwrap();
        let folder = Utf8Path::from_path(folder.path()).unwrap();
        let script = folder.join(SCRIPT);
        std::fs::write(&script, "").unwrap();
        assert_eq!(find_script(folder).unwrap(), script);
        use std::os::unix::fs::PermissionsExt as _;
        std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o666)).unwrap();
        let refused = find_script(folder).unwrap_err();
        assert_eq!(refused.code_str(), "others_script");
    }

    #[test]
    fn the_nearest_script_upwards_names_the_site() {
        let (_temp, root) = folder();
        let deep = root.join("a/b");
        std::fs::create_dir_all(root.join("data")).unwrap();
        std::fs::create_dir_all(&deep).unwrap();
        let search = Search { folder: Some(deep), ..Search::default() };
        assert_eq!(search.site().unwrap_err().code_str(), "no_site");
        std::fs::write(root.join(SCRIPT), "").unwrap();
        assert_eq!(search.site().unwrap_err().code_str(), "no_server");
        std::fs::write(root.join("data/server.json"), "{}").unwrap();
        assert_eq!(search.site().unwrap_err().kind(), ErrorKind::Unavailable);
        std::fs::write(root.join("data/server.json"), r#"{"socket":"wb.sock"}"#).unwrap();
        assert_eq!(search.site().unwrap().socket, root.join("data/wb.sock"));
    }

    #[test]
    fn what_is_said_outright_counts_before_what_is_found() {
        let (_temp, root) = folder();
        std::fs::write(root.join("server.json"), r#"{"socket":"/run/wb.sock"}"#).unwrap();
        let mut search = Search {
            socket: Some("/tmp/env.sock".into()),
            folder: Some(root.clone()),
            ..Search::default()
        };
        assert_eq!(search.site().unwrap().socket, "/tmp/env.sock");
        search.config = Some(root.join("none.lua"));
        assert_eq!(search.site().unwrap_err().kind(), ErrorKind::NotFound);
        search.data = Some(root);
        assert_eq!(search.site().unwrap().socket, "/run/wb.sock");
    }
}
