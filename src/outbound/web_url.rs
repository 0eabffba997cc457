//! The URL of a web page, as a person types it or a model requests it.
//!
//! **Invariant:** equal URLs lead to the same request.

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use crate::base::{Error, Result};

/// Longest URL, in bytes.
const BYTES_MAX: usize = 2_048;
/// The allowed ports.
const PORTS: [u16; 2] = [80, 443];
/// Characters that end a URL within a text.
const ENDS: [char; 9] = ['<', '>', '"', '`', '|', '\\', '^', '{', '}'];
/// Characters at the end of a URL that usually belong to the surrounding text.
const AROUND: [char; 12] = ['.', ',', ';', ':', '!', '?', ')', ']', '\'', '*', '_', '…'];

/// A URL: `http` or `https`, on port 80 or 443, without user and fragment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebUrl {
    is_tls: bool,
    host: String,
    port: u16,
    /// Path and query.
    target: String,
}

impl WebUrl {
    /// Returns whether it uses TLS.
    pub fn is_tls(&self) -> bool {
        self.is_tls
    }

    /// Returns the host in lowercase, an IPv6 address without brackets.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Returns the port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Returns path and query.
    pub fn target(&self) -> &str {
        &self.target
    }

    /// Returns the value of the `Host` header.
    pub fn authority(&self) -> String {
        let host = match self.host.contains(':') {
            true => format!("[{}]", self.host),
            false => self.host.clone(),
        };
        let usual = if self.is_tls { 443 } else { 80 };
        if self.port == usual { host } else { format!("{host}:{}", self.port) }
    }

    /// Resolves a reference in this page.
    ///
    /// # Errors
    /// As parsing.
    pub fn join(&self, reference: &str) -> Result<WebUrl> {
        let reference = reference.trim_matches([' ', '\t', '\n', '\r']);
        let scheme = if self.is_tls { "https" } else { "http" };
        if let Some(rest) = reference.strip_prefix("//") {
            return format!("{scheme}://{rest}").parse();
        }
        let name = reference.split_once(':').map(|it| it.0).filter(|it| !it.is_empty());
        if name.is_some_and(|it| it.bytes().all(|byte| byte.is_ascii_alphanumeric())) {
            return reference.parse();
        }
        let path = self.target.split_once('?').map_or(self.target.as_str(), |it| it.0);
        let target = match reference.chars().next() {
            Some('/') => reference.to_owned(),
            Some('?') => format!("{path}{reference}"),
            Some('#') | None => self.target.clone(),
            Some(_) => {
                let folder = path.rfind('/').map_or("/", |end| &path[..=end]);
                format!("{folder}{reference}")
            }
        };
        Ok(WebUrl { target: tidy(&target)?, ..self.clone() })
    }

    /// Returns the URLs in a person's text.
    pub fn all_in(text: &str) -> Vec<WebUrl> {
        let mut found = Vec::new();
        let lower = text.to_ascii_lowercase();
        for (start, _) in lower.match_indices("http") {
            let rest = &text[start..];
            // A longer one is not a URL, and scanning it again from each position would be
            // quadratic.
            let rest = &rest[..rest.floor_char_boundary(BYTES_MAX + 1)];
            let end = rest.find(|it: char| it.is_whitespace() || ENDS.contains(&it));
            let mut word = &rest[..end.unwrap_or(rest.len())];
            loop {
                found.extend(word.parse::<WebUrl>());
                match word.strip_suffix(AROUND) {
                    Some(shorter) => word = shorter,
                    None => break,
                }
            }
        }
        found
    }
}

impl fmt::Display for WebUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.is_tls { "https" } else { "http" };
        write!(f, "{scheme}://{}{}", self.authority(), self.target)
    }
}

fn wrong(why: &str) -> Error {
    Error::invalid(format!("the URL {why}")).code("bad_url")
}

impl FromStr for WebUrl {
    type Err = Error;

    fn from_str(text: &str) -> Result<WebUrl> {
        if text.len() > BYTES_MAX {
            return Err(wrong("is longer than 2048 bytes"));
        }
        let (scheme, rest) = text.split_once("://").ok_or_else(|| wrong("has no https://"))?;
        let is_tls = match scheme.to_ascii_lowercase().as_str() {
            "https" => true,
            "http" => false,
            _ => return Err(wrong("begins with neither https:// nor http://")),
        };
        let rest = rest.split('#').next().unwrap_or_default();
        let (authority, target) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
        if authority.contains('@') {
            return Err(wrong("has a user part"));
        }
        let (host, port) = match authority.strip_prefix('[') {
            Some(inner) => inner.split_once(']').ok_or_else(|| wrong("has no right host"))?,
            None => authority.split_at(authority.find(':').unwrap_or(authority.len())),
        };
        let port = match port.strip_prefix(':') {
            None if port.is_empty() => {
                if is_tls {
                    443
                } else {
                    80
                }
            }
            Some(port) if port.bytes().all(|it| it.is_ascii_digit()) => {
                port.parse().map_err(|_| wrong("has no right port"))?
            }
            _ => return Err(wrong("has no right port")),
        };
        if !PORTS.contains(&port) {
            return Err(wrong("has another port than 80 and 443"));
        }
        let host = host_of(host, authority.starts_with('['))?;
        let target = match target.starts_with('/') {
            true => tidy(target)?,
            false => tidy(&format!("/{target}"))?,
        };
        Ok(WebUrl { is_tls, host, port, target })
    }
}

fn host_of(host: &str, is_v6: bool) -> Result<String> {
    if is_v6 {
        let ip: Ipv6Addr = host.parse().map_err(|_| wrong("has no right host"))?;
        return Ok(ip.to_string());
    }
    if !host.is_ascii() {
        return Err(wrong("has a host with letters that need another form")
            .hint("write it as xn--…, as the address bar of a browser copies it"));
    }
    let is_name = |it: char| it.is_ascii_alphanumeric() || matches!(it, '-' | '.' | '_');
    let has_labels = host.split('.').all(|it| (1..=63).contains(&it.len()));
    if host.len() > 253 || !has_labels || !host.chars().all(is_name) {
        return Err(wrong("has no right host"));
    }
    // System resolvers accept `127.1`, `0x7f.1` and `2130706433` as addresses.
    let last = host.rsplit('.').next().unwrap_or_default();
    let is_number = last.starts_with(|it: char| it.is_ascii_digit());
    if is_number && host.parse::<Ipv4Addr>().is_err() {
        return Err(wrong("has a number as its host"));
    }
    Ok(host.to_ascii_lowercase())
}

/// Returns path and query as they are sent: in ASCII, and without `.` and `..`.
fn tidy(target: &str) -> Result<String> {
    let target = target.split('#').next().unwrap_or_default();
    let (path, query) = match target.split_once('?') {
        Some((path, query)) => (path, Some(query)),
        None => (target, None),
    };
    let mut parts: Vec<&str> = Vec::new();
    let all: Vec<&str> = path.split('/').skip(1).collect();
    for (place, part) in all.iter().enumerate() {
        let is_last = place + 1 == all.len();
        match *part {
            ".." => {
                parts.pop();
                parts.extend(is_last.then_some(""));
            }
            "." => parts.extend(is_last.then_some("")),
            part => parts.push(part),
        }
    }
    let mut tidy = String::with_capacity(target.len());
    let whole = format!("/{}", parts.join("/"));
    let pieces = [Some(whole.as_str()), query.map(|_| "?"), query];
    for piece in pieces.into_iter().flatten() {
        for byte in piece.bytes() {
            match byte {
                0..=0x1f | 0x7f => return Err(wrong("has a control character")),
                b' ' | b'"' | b'<' | b'>' | b'\\' | b'^' | b'`' | b'{' | b'|' | b'}' | 0x80.. => {
                    tidy.push_str(&format!("%{byte:02X}"));
                }
                _ => tidy.push(char::from(byte)),
            }
        }
    }
    if tidy.len() > 3 * BYTES_MAX {
        return Err(wrong("is too long"));
    }
    Ok(tidy)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_as_they_are_sent() {
        for (text, sent) in [
            ("https://Example.org", "https://example.org/"),
            ("HTTP://example.org:80/a?b#c", "http://example.org/a?b"),
            ("https://example.org?x=1", "https://example.org/?x=1"),
            ("http://example.org:443/", "http://example.org:443/"),
            ("https://example.org/a/./b/../c/..", "https://example.org/a/"),
            ("https://example.org/../../etc", "https://example.org/etc"),
            (
                "https://example.org/wiki/Köln?q=ä b",
                "https://example.org/wiki/K%C3%B6ln?q=%C3%A4%20b",
            ),
            ("https://example.org/?u=https://x/../y", "https://example.org/?u=https://x/../y"),
            ("http://[::1]/x", "http://[::1]/x"),
            ("http://127.0.0.1/", "http://127.0.0.1/"),
        ] {
            assert_eq!(text.parse::<WebUrl>().unwrap().to_string(), sent, "{text}");
        }
        for text in [
            "",
            "example.org",
            "ftp://example.org/",
            "file:///etc/passwd",
            "https://",
            "https:///x",
            "https://a@example.org/",
            "https://a:b@example.org/",
            "https://example.org:8080/",
            "https://example.org:+80/",
            "https://example.org:/",
            "https://example.org:80:80/",
            "https://example..org/",
            "https://example.org./",
            "https://exam ple.org/",
            "https://example.org\\@evil.org/",
            "https://bücher.example/",
            "http://127.1/",
            "http://0x7f.0.0.1/",
            "http://2130706433/",
            "http://0177.0.0.1/",
            "http://1.2.3.4.5/",
            "http://[::1/",
            "http://[::1%25lo]/",
            "http://[127.0.0.1]/",
            "https://example.org/a\r\nHost: evil",
            "https://example.org/\u{0}",
        ] {
            assert_eq!(text.parse::<WebUrl>().unwrap_err().code_str(), "bad_url", "{text:?}");
        }
        assert!(format!("https://e.org/{}", "x".repeat(2_048)).parse::<WebUrl>().is_err());
    }

    #[test]
    fn a_reference_leads_on_from_its_page() {
        let page: WebUrl = "https://example.org/a/b?c".parse().unwrap();
        for (reference, expected) in [
            ("/x", "https://example.org/x"),
            ("x/y?z", "https://example.org/a/x/y?z"),
            ("../x", "https://example.org/x"),
            ("?q", "https://example.org/a/b?q"),
            ("#top", "https://example.org/a/b?c"),
            ("//other.org/x", "https://other.org/x"),
            ("http://other.org", "http://other.org/"),
            (" /x\n", "https://example.org/x"),
        ] {
            assert_eq!(page.join(reference).unwrap().to_string(), expected, "{reference}");
        }
        for reference in ["javascript:alert(1)", "file:///etc", "mailto:a@b", "//a@b/", "//x:22/"] {
            assert!(page.join(reference).is_err(), "{reference}");
        }
    }

    #[test]
    fn what_a_person_wrote_is_found_exactly() {
        let text = "Read https://example.org/a, (https://e.org/b_(c)). <http://x.org/?q=1> and \
                    [this](HTTPS://y.org/z)! Not ftp://z.org or http:nothing.";
        let found: Vec<String> = WebUrl::all_in(text).iter().map(ToString::to_string).collect();
        for expected in
            ["https://example.org/a", "https://e.org/b_(c)", "http://x.org/?q=1", "https://y.org/z"]
        {
            assert!(found.iter().any(|it| it == expected), "{expected}: {found:?}");
        }
        for never in ["https://example.org/", "https://e.org/", "http://x.org/"] {
            assert!(!found.iter().any(|it| it == never), "{never}: {found:?}");
        }
        assert!(WebUrl::all_in("no address at all, http").is_empty());
    }
}
