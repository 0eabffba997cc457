//! Text from standard input or a file, within a limit.

use std::io::{BufRead as _, IsTerminal, Read};

use camino::Utf8Path;

use crate::base::{Context, Error, ErrorKind, Result};

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
        "" => Err(Error::invalid(format!("there is no {what}"))),
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

/// Reads a regular file for an agent, and no link: what a document or a repository names `plan.md`
/// may lead to a file that nobody wanted to send, and reading a pipe might never end.
///
/// # Errors
/// As [`bytes()`], and `invalid` with code `not_a_file` for a link, a folder, a pipe or a device.
pub(in crate::cli) fn regular(path: &Utf8Path, bytes_max: usize) -> Result<Vec<u8>> {
    let failed = || format!("cannot read {path}");
    let found = std::fs::symlink_metadata(path).context(ErrorKind::Invalid, failed)?;
    if found.is_file() {
        return bytes(path, bytes_max);
    }
    let (what, hint) = match found.is_symlink() {
        true => ("a link", "nothing was sent; name the file that it leads to"),
        false => ("not a regular file", "nothing was sent; write the content into a file"),
    };
    Err(Error::invalid(format!("{path} is {what}")).code("not_a_file").hint(hint))
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
        let top = Utf8Path::from_path(folder.path()).unwrap();
        std::fs::write(top.join("plan.md"), "abc").unwrap();
        std::os::unix::fs::symlink(top.join("plan.md"), top.join("link")).unwrap();
        std::os::unix::fs::symlink("gone", top.join("nowhere")).unwrap();
        std::os::unix::net::UnixListener::bind(top.join("socket")).unwrap();
        assert_eq!(regular(&top.join("plan.md"), 3).unwrap(), b"abc");
        let refused = regular(&top.join("plan.md"), 2).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::TooLarge);
        for name in ["link", "nowhere", "socket", "."] {
            let refused = regular(&top.join(name), 3).unwrap_err();
            assert_eq!(refused.code_str(), "not_a_file", "{name}");
        }
        assert_eq!(regular(&top.join("absent"), 3).unwrap_err().kind(), ErrorKind::Invalid);
        assert_eq!(regular(Utf8Path::new("/dev/zero"), 3).unwrap_err().code_str(), "not_a_file");
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
