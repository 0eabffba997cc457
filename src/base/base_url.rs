//! The base URL of a web service: scheme, host, port and path prefix.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use serde::{Serialize, Serializer};

use crate::base::{Error, Result};

/// Longest address, in bytes.
const BYTES_MAX: usize = 1_024;

/// A service's base URL: `https`, or `http` on loopback. No user, no query, no trailing slash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BaseUrl {
    is_tls: bool,
    host: String,
    port: Option<u16>,
    path: String,
}

impl BaseUrl {
    /// Returns the host, without the brackets of an IPv6 address.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Returns the URL of `path` (which begins with a slash) below this base.
    pub fn join(&self, path: &str) -> String {
        format!("{self}{path}")
    }

    /// Returns whether the host is loopback.
    pub fn is_loopback(&self) -> bool {
        let is_ip = self.host.parse::<IpAddr>().is_ok_and(|it| it.is_loopback());
        is_ip || self.host == "localhost"
    }
}

impl fmt::Display for BaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_tls { "https://" } else { "http://" })?;
        match self.host.contains(':') {
            true => write!(f, "[{}]", self.host)?,
            false => f.write_str(&self.host)?,
        }
        if let Some(port) = self.port {
            write!(f, ":{port}")?;
        }
        f.write_str(&self.path)
    }
}

impl Serialize for BaseUrl {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl FromStr for BaseUrl {
    type Err = Error;

    fn from_str(text: &str) -> Result<BaseUrl> {
        let wrong = |why: &str| Error::invalid(format!("the address {why}")).code("bad_address");
        if text.len() > BYTES_MAX || !text.bytes().all(|it| it.is_ascii_graphic()) {
            return Err(wrong("is too long, or has an invalid character"));
        }
        let (is_tls, rest) = match (text.strip_prefix("https://"), text.strip_prefix("http://")) {
            (Some(rest), _) => (true, rest),
            (_, Some(rest)) => (false, rest),
            _ => return Err(wrong("does not begin with https://")),
        };
        if rest.contains(['@', '?', '#', '\\', '"', '<', '>', '%']) {
            return Err(wrong("has a user, a query or an odd character"));
        }
        let place = rest.find('/').unwrap_or(rest.len());
        let (authority, path) = rest.split_at(place);
        let (host, port) = match authority.strip_prefix('[') {
            Some(inner) => {
                let (host, rest) = inner.split_once(']').ok_or_else(|| wrong("has no host"))?;
                (host, rest)
            }
            None => authority.split_at(authority.find(':').unwrap_or(authority.len())),
        };
        let port = match port.strip_prefix(':') {
            None if port.is_empty() => None,
            Some(port) => Some(port.parse().map_err(|_| wrong("has no right port"))?),
            None => return Err(wrong("has no right port")),
        };
        let is_name = |it: char| it.is_ascii_alphanumeric() || matches!(it, '-' | '.' | '_');
        let is_ip = host.parse::<IpAddr>().is_ok();
        if host.is_empty() || !(is_ip || host.chars().all(is_name)) {
            return Err(wrong("has no host"));
        }
        let path = path.trim_end_matches('/').to_owned();
        let url = BaseUrl { is_tls, host: host.to_ascii_lowercase(), port, path };
        match url.is_tls || url.is_loopback() {
            true => Ok(url),
            false => Err(wrong("is http, which only this machine may be reached by")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_https_or_this_machine() {
        for (text, whole) in [
            ("https://api.example.org", "https://api.example.org/v1"),
            ("https://API.example.org:8443/proxy/", "https://api.example.org:8443/proxy/v1"),
            ("http://127.0.0.1:7777", "http://127.0.0.1:7777/v1"),
            ("http://[::1]:80/x", "http://[::1]:80/x/v1"),
            ("http://localhost", "http://localhost/v1"),
        ] {
            assert_eq!(text.parse::<BaseUrl>().unwrap().join("/v1"), whole);
        }
        for text in [
            "http://api.example.org",
            "http://127.0.0.1.example.org",
            "http://10.0.0.1",
            "ftp://x",
            "https://",
            "https://user@host",
            "https://host?x",
            "https://host:port",
            "https://ho st",
            "https://[::1",
            "https://höst",
        ] {
            assert_eq!(text.parse::<BaseUrl>().unwrap_err().code_str(), "bad_address", "{text}");
        }
    }
}
