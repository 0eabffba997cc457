//! Text from standard input or a file, within a limit.

use std::io::{BufRead as _, IsTerminal, Read};

use camino::{Utf8Component, Utf8Path, Utf8PathBuf};

use crate::base::{Context, Error, ErrorKind, Result};
use crate::process::{FILE_GONE, NOT_A_FILE, PATH_IS_LINK, Root};

/// Reads standard input as a text.
///
/// # Errors
/// `invalid` if it is empty, not UTF-8 or a terminal, `too_large` beyond the limit.
pub(in crate::cli) fn standard(what: &str, bytes_max: usize) -> Result<String> {
    if std::io::stdin().is_terminal() {
        return Err(Error::invalid(format!("{what} is expected on standard input"))
            .hint("pipe it in, for example: … < FILE"));
    }
    typed(what, bytes_max)
}

/// Reads standard input as a text, or as an empty one if nothing is there.
///
/// # Errors
/// `invalid` if it is not UTF-8, `too_large` beyond the limit.
pub(in crate::cli) fn standard_if_any(what: &str, bytes_max: usize) -> Result<String> {
    if std::io::stdin().is_terminal() {
        return Ok(String::new());
    }
    // The lock is released before the text is read.
    let is_empty = {
        let mut stdin = std::io::stdin().lock();
        let begin = stdin.fill_buf().context(ErrorKind::Invalid, || format!("cannot read {what}"));
        begin?.is_empty()
    };
    if is_empty { Ok(String::new()) } else { typed(what, bytes_max) }
}

/// Reads standard input as a text, also from a terminal.
///
/// # Errors
/// `invalid` if it is empty or not UTF-8, `too_large` beyond the limit.
pub(in crate::cli) fn typed(what: &str, bytes_max: usize) -> Result<String> {
    text(std::io::stdin().lock(), what, bytes_max)
}

/// Reads one line of standard input, also from a terminal, without spaces around it.
///
/// # Errors
/// `invalid` if there is none, or it is longer than `bytes_max`.
pub(in crate::cli) fn line(what: &str, bytes_max: u64) -> Result<String> {
    let mut line = String::new();
    let read = std::io::stdin().lock().take(bytes_max).read_line(&mut line);
    read.context(ErrorKind::Invalid, || format!("cannot read {what}"))?;
    match line.trim() {
        "" => Err(Error::invalid(format!("standard input has no line: type {what}"))),
        line => Ok(line.to_owned()),
    }
}

/// Reads a file as a text; `-` is standard input.
///
/// # Errors
/// As [`standard`], and `invalid` if the file cannot be read.
pub(in crate::cli) fn file(path: &Utf8Path, what: &str, bytes_max: usize) -> Result<String> {
    if path == "-" {
        return standard(what, bytes_max);
    }
    let file = std::fs::File::open(path)
        .context(ErrorKind::Invalid, || format!("cannot open {path}, {what}"))
        .map_err(|cause| cause.hint("check that the file exists and is readable"))?;
    text(file, what, bytes_max)
}

/// Reads a file of any kind.
///
/// # Errors
/// `invalid` if it cannot be read, `too_large` beyond the limit.
pub(in crate::cli) fn bytes(path: &Utf8Path, bytes_max: usize) -> Result<Vec<u8>> {
    let failed = || format!("cannot read {path}");
    let file = std::fs::File::open(path).context(ErrorKind::Invalid, failed)?;
    let (limit, mut bytes) = (u64::try_from(bytes_max).unwrap_or(u64::MAX), Vec::new());
    file.take(limit.saturating_add(1))
        .read_to_end(&mut bytes)
        .context(ErrorKind::Invalid, failed)?;
    if bytes.len() > bytes_max {
        let message = format!("{path} has more than {bytes_max} bytes");
        return Err(Error::new(ErrorKind::TooLarge, message).hint("nothing was sent"));
    }
    Ok(bytes)
}

/// Reads a regular file for an agent, through no link: what a document or a repository names
/// `docs/plan.md` may lead to a file that nobody wanted to send, and reading a pipe might never
/// end.
///
/// A path below the working directory is opened from there, so that the folders above it may be
/// links; any other is opened from `/`.
///
/// # Errors
/// `invalid` with code `not_a_file` for a path with a link in it, a folder, a pipe or a device;
/// `not_found`, `too_large`, and `forbidden` for a file that cannot be read.
pub(in crate::cli) fn regular(path: &Utf8Path, bytes_max: usize) -> Result<Vec<u8>> {
    let failed = || "cannot find the working directory".to_owned();
    let folder = std::env::current_dir().context(ErrorKind::Unavailable, failed)?;
    let folder = Utf8PathBuf::try_from(folder).context(ErrorKind::Unavailable, failed)?;
    let (top, rest) = split(path, &folder, std::env::var("PWD").ok().as_deref());
    let read = Root::open(&top)?.read_relative(&rest, bytes_max);
    read.map(|(bytes, _)| bytes).map_err(|cause| match cause.code_str() {
        PATH_IS_LINK => unsendable(path, "is a link, or leads through one", "name the file itself"),
        NOT_A_FILE | "bad_path" => {
            unsendable(path, "is not a regular file", "write the content into a file")
        }
        FILE_GONE => Error::not_found(format!("cannot read {path}: no such file"))
            .code(FILE_GONE)
            .hint("nothing was sent"),
        _ => cause.hint("nothing was sent"),
    })
}

/// Splits a path into the folder from which it is opened and the rest. `shell` is what a shell
/// calls the working directory, which may be through links; then it is that directory all the
/// same.
fn split(path: &Utf8Path, folder: &Utf8Path, shell: Option<&str>) -> (Utf8PathBuf, Utf8PathBuf) {
    let is_folder = |it: &&Utf8Path| it.canonicalize_utf8().is_ok_and(|it| it == folder);
    let shell = shell.map(Utf8Path::new).filter(|it| it.is_absolute()).filter(is_folder);
    let below = shell.and_then(|shell| path.strip_prefix(shell).ok()).unwrap_or(path);
    let mut plain = Utf8PathBuf::new();
    for part in folder.join(below).components() {
        match part {
            Utf8Component::ParentDir => drop(plain.pop()),
            Utf8Component::Normal(name) => plain.push(name),
            _ => plain.push("/"),
        }
    }
    match plain.strip_prefix(folder) {
        Ok(rest) => (folder.to_owned(), rest.to_owned()),
        Err(_) => ("/".into(), plain.strip_prefix("/").unwrap_or(&plain).to_owned()),
    }
}

fn unsendable(path: &Utf8Path, is: &str, hint: &str) -> Error {
    Error::invalid(format!("{path} {is}"))
        .code(NOT_A_FILE)
        .hint(format!("nothing was sent; {hint}"))
}

/// Reads JSON from an argument: itself, or `@FILE`; `@-` is standard input.
///
/// # Errors
/// As [`file()`], and `invalid` if it is not JSON.
pub(in crate::cli) fn json(given: &str, what: &str, bytes_max: usize) -> Result<serde_json::Value> {
    let text = match given.strip_prefix('@') {
        Some(path) => file(Utf8Path::new(path), what, bytes_max)?,
        None => text(given.as_bytes(), what, bytes_max)?,
    };
    serde_json::from_str(&text).map_err(|cause| {
        Error::invalid(format!("{what} is not JSON: {cause}"))
            .code("not_json")
            .hint("put plain text in double quotes; @FILE reads a file")
    })
}

fn text(from: impl Read, what: &str, bytes_max: usize) -> Result<String> {
    let mut bytes = Vec::new();
    let limit = u64::try_from(bytes_max).unwrap_or(u64::MAX);
    from.take(limit.saturating_add(1))
        .read_to_end(&mut bytes)
        .context(ErrorKind::Invalid, || format!("cannot read {what}"))?;
    if bytes.len() > bytes_max {
        let message = format!("{what} is longer than {bytes_max} bytes");
        return Err(Error::new(ErrorKind::TooLarge, message)
            .hint("nothing was sent; this is a limit of the site"));
    }
    if bytes.is_empty() {
        return Err(Error::invalid(format!("{what} is empty"))
            .hint("pass the text from a file: `… < FILE`"));
    }
    String::from_utf8(bytes).map_err(|cause| {
        let at = cause.utf8_error().valid_up_to();
        Error::invalid(format!("{what} is not UTF-8 at byte {at}"))
            .code("not_utf8")
            .hint("convert it to UTF-8, for example with iconv")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_sends_regular_files_and_no_links() {
        let folder = tempfile::tempdir().unwrap();
        let top = Utf8PathBuf::try_from(folder.path().canonicalize().unwrap()).unwrap();
        let link = |to: &str, name: &str| std::os::unix::fs::symlink(to, top.join(name)).unwrap();
        std::fs::create_dir(top.join("docs")).unwrap();
        std::fs::write(top.join("docs/plan.md"), "abc").unwrap();
        link("docs/plan.md", "link");
        link("gone", "nowhere");
        link("docs", "linked");
        std::os::unix::net::UnixListener::bind(top.join("socket")).unwrap();
        assert_eq!(regular(&top.join("docs/plan.md"), 3).unwrap(), b"abc");
        assert_eq!(regular(&top.join("linked/../docs/./plan.md"), 3).unwrap(), b"abc");
        let refused = regular(&top.join("docs/plan.md"), 2).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::TooLarge);
        for name in ["link", "nowhere", "linked/plan.md", "socket", "docs", ".", "socket/x/.."] {
            let refused = regular(&top.join(name), 3).unwrap_err();
            assert_eq!(refused.code_str(), "not_a_file", "{name}");
        }
        assert_eq!(regular(&top.join("absent"), 3).unwrap_err().kind(), ErrorKind::NotFound);
        let own = std::env::current_exe().unwrap();
        for path in [
            "/dev/zero",
            "/proc/self/cwd/Cargo.toml",
            &format!("/proc/self/root{}/docs/plan.md", top),
            &format!("/proc/self/root{}", own.display()),
        ] {
            let refused = regular(Utf8Path::new(path), 1 << 20).unwrap_err();
            assert_eq!(refused.code_str(), "not_a_file", "{path}");
        }
    }

    #[test]
    fn a_path_is_opened_from_the_working_directory_or_from_the_top() {
        let folder = tempfile::tempdir().unwrap();
        let top = Utf8PathBuf::try_from(folder.path().canonicalize().unwrap()).unwrap();
        let (wiki, shell) = (top.join("wiki"), top.join("home"));
        std::fs::create_dir(&wiki).unwrap();
        std::os::unix::fs::symlink("wiki", &shell).unwrap();
        let of = |path: &Utf8Path, shell: Option<&str>| {
            let (from, rest) = split(path, &wiki, shell);
            (from == wiki, rest.into_string())
        };
        let below = |rest: &str| (true, rest.to_owned());
        let above = |path: &Utf8Path| (false, path.as_str()[1..].to_owned());
        for path in ["a/b.md", "./a//b.md", "a/x/../b.md", "../wiki/a/b.md"] {
            assert_eq!(of(path.into(), None), below("a/b.md"), "{path}");
        }
        assert_eq!(of(&wiki.join("a/b.md"), None), below("a/b.md"));
        // As a shell names the folder, if that is where it is.
        let (named, other) = (shell.join("a/b.md"), top.as_str());
        assert_eq!(of(&named, Some(shell.as_str())), below("a/b.md"));
        for shell in [None, Some("home"), Some(""), Some(other), Some("/nowhere")] {
            assert_eq!(of(&named, shell), above(&named), "{shell:?}");
        }
        assert_eq!(of("../plan.md".into(), None), above(&top.join("plan.md")));
        assert_eq!(of("../../../../../../../../etc/x".into(), None), above("/etc/x".into()));
    }

    #[test]
    fn a_text_is_whole_or_refused() {
        assert_eq!(text(&b"a\r\n"[..], "the text", 3).unwrap(), "a\r\n");
        assert_eq!(text(&b"abcd"[..], "the text", 3).unwrap_err().kind(), ErrorKind::TooLarge);
        assert!(text(&b""[..], "the text", 3).unwrap_err().message().contains("empty"));
        assert_eq!(json("{\"a\":1}", "the payload", 9).unwrap()["a"], 1);
        assert_eq!(json("plain", "the payload", 9).unwrap_err().code_str(), "not_json");
        let error = text(&b"ab\xff"[..], "the text", 9).unwrap_err();
        assert_eq!(error.message(), "the text is not UTF-8 at byte 2");
    }
}
