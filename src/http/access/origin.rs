//! The first two checks of every request: it is for this site, and a page of this site sent it.
//!
//! **Invariant:** both need nothing but the head of the request, and both refuse what is unclear: a
//! header that is there twice is as bad as a wrong one.

use hyper::header::{AUTHORIZATION, COOKIE, HOST, HeaderMap, HeaderName, ORIGIN};
use hyper::http::request::Parts;
use hyper::{Method, Uri};

use crate::base::{Error, ErrorKind, Result, fault};
use crate::http::GateConfig;
use crate::http::server::listen::Peer;

/// The code of a request from a page of another site.
pub(in crate::http) const CROSS_ORIGIN: &str = "cross_origin";

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
const SEC_FETCH_MODE: HeaderName = HeaderName::from_static("sec-fetch-mode");
const SEC_FETCH_DEST: HeaderName = HeaderName::from_static("sec-fetch-dest");

/// The host named by a request, in lower case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::http) struct Host {
    name: String,
    is_public: bool,
}

/// Checks that a request is meant for this site; DNS rebinding ends here.
pub(in crate::http) fn check_host(config: &GateConfig, peer: &Peer, head: &Parts) -> Result<Host> {
    let name = match single(&head.headers, &HOST) {
        Single::One(host) if !host.is_empty() => host.to_ascii_lowercase(),
        Single::Many => return Err(misdirected(config, "there are two Host headers")),
        _ => return Err(misdirected(config, "missing Host header")),
    };
    let wrong = || misdirected(config, "the Host is not this site's");
    if !is_same_target(&head.uri, &name) {
        return Err(wrong());
    }
    match peer {
        Peer::Unix { .. } if name == "localhost" => Ok(Host { name, is_public: false }),
        Peer::Unix { .. } => Err(wrong()),
        Peer::Tcp(_) if is_loopback(config, &name) => Ok(Host { name, is_public: false }),
        Peer::Tcp(_) if is_public(config, &name) => Ok(Host { name, is_public: true }),
        Peer::Tcp(_) if fault::is_off("host_check") => Ok(Host { name, is_public: false }),
        Peer::Tcp(_) => Err(wrong()),
    }
}

/// Checks that no page of another origin sent the request. `is_open`: the route needs no
/// credential. On every other route, a request without a credential is anonymous and is refused as
/// such.
pub(in crate::http) fn check_origin(host: &Host, head: &Parts, is_open: bool) -> Result<()> {
    let site = single(&head.headers, &SEC_FETCH_SITE);
    let origin = single(&head.headers, &ORIGIN);
    let is_safe = matches!(head.method, Method::GET | Method::HEAD | Method::OPTIONS);
    let is_fine = match (site, origin) {
        (Single::Many, _) | (_, Single::Many) => false,
        (Single::One("same-origin"), _) => true,
        // A person typed the address or opened a bookmark; forms are never sent like this.
        (Single::One("none"), Single::None) => is_safe,
        (Single::One("none"), Single::One(origin)) => is_safe || is_own_origin(host, origin),
        (Single::One(_), _) => is_safe && is_navigation(head),
        (Single::None, Single::One(origin)) => is_own_origin(host, origin),
        (Single::None, Single::None) => {
            let is_nobody = !is_open && !head.headers.contains_key(COOKIE);
            is_safe || is_nobody || has_bearer(&head.headers)
        }
    };
    if is_fine {
        return Ok(());
    }
    Err(Error::new(ErrorKind::Forbidden, "the request comes from another site")
        .code(CROSS_ORIGIN)
        .hint("open the site itself, or send a token as `Authorization: Bearer`"))
}

/// Returns whether a path is a page for people, as opposed to a response for programs.
pub(in crate::http) fn is_page(path: &str) -> bool {
    let machine = ["/api", "/assets", "/hooks", "/healthz", "/readyz", "/metrics"];
    !machine.iter().any(|it| {
        path.strip_prefix(it).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    })
}

enum Single<'a> {
    None,
    One(&'a str),
    Many,
}

/// Returns the value of a header that may occur once; a value that is not ASCII is refused like a
/// second one.
fn single<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Single<'a> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (None, _) => Single::None,
        (Some(value), None) => value.to_str().map_or(Single::Many, Single::One),
        _ => Single::Many,
    }
}

/// A target may name the host too (`GET http://host/path`); both must be the same.
fn is_same_target(uri: &Uri, host: &str) -> bool {
    let is_plain = uri.scheme_str().is_none_or(|it| it == "http" || it == "https");
    is_plain && uri.authority().is_none_or(|it| it.as_str().eq_ignore_ascii_case(host))
}

fn is_loopback(config: &GateConfig, host: &str) -> bool {
    let Some(port) = config.tcp_port else { return false };
    ["localhost", "127.0.0.1", "[::1]"].iter().any(|name| {
        let rest = host.strip_prefix(name);
        rest.is_some_and(|it| it == format!(":{port}") || (port == 80 && it.is_empty()))
    })
}

fn is_public(config: &GateConfig, host: &str) -> bool {
    config.public_hosts.iter().any(|public| {
        let has_port = public.rsplit_once(':').is_some_and(|(_, it)| !it.ends_with(']'));
        let own_port = || config.tcp_port.map(|port| format!("{public}:{port}"));
        host == public || (!has_port && Some(host) == own_port().as_deref())
    })
}

/// A link on another site may lead to a page, but other sites may load nothing from here.
/// `same-site` counts as `cross-site`: to a browser, all ports of one machine are one site.
fn is_navigation(head: &Parts) -> bool {
    let is = |name, word| matches!(single(&head.headers, &name), Single::One(it) if it == word);
    let is_read = matches!(head.method, Method::GET | Method::HEAD);
    is_read
        && is_page(head.uri.path())
        && is(SEC_FETCH_MODE, "navigate")
        && is(SEC_FETCH_DEST, "document")
}

/// Behind a proxy the page's scheme is unknown. A browser that sends no `Sec-Fetch-Site` uses plain
/// HTTP or is too old to send it.
fn is_own_origin(host: &Host, origin: &str) -> bool {
    let is_with = |scheme: &str| {
        let rest = origin.get(..scheme.len()).filter(|it| it.eq_ignore_ascii_case(scheme));
        rest.is_some() && origin[scheme.len()..].eq_ignore_ascii_case(&host.name)
    };
    is_with("http://") || (host.is_public && is_with("https://"))
}

fn has_bearer(headers: &HeaderMap) -> bool {
    matches!(single(headers, &AUTHORIZATION), Single::One(it) if bearer(it).is_some())
}

/// Returns the token of an `Authorization: Bearer` header.
pub(in crate::http) fn bearer(value: &str) -> Option<&str> {
    let (scheme, token) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

fn misdirected(config: &GateConfig, why: &str) -> Error {
    let error = Error::new(ErrorKind::Misdirected, why).code("wrong_host");
    match &config.login_base {
        Some(base) => error.hint(format!("open {base}, or add the name to `public_hosts`")),
        None => error.hint("on the socket, use Host: localhost"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_public_host_may_name_its_port() {
        let config = GateConfig {
            tcp_port: Some(8080),
            public_hosts: vec!["wiki.example.org".into(), "b.org:8443".into(), "[fd00::1]".into()],
            site_name: String::new(),
            cookie_name: String::new(),
            login_base: None,
            streams_max: 0,
        };
        for good in ["wiki.example.org", "wiki.example.org:8080", "b.org:8443", "[fd00::1]:8080"] {
            assert!(is_public(&config, good), "{good}");
        }
        for bad in ["wiki.example.org:80", "b.org", "b.org:8080", "x.wiki.example.org", "org"] {
            assert!(!is_public(&config, bad), "{bad}");
        }
    }

    #[test]
    fn a_page_is_what_programs_do_not_read() {
        for page in ["/", "/login/x", "/apis", "/d/api"] {
            assert!(is_page(page), "{page}");
        }
        for other in ["/api", "/api/me", "/assets/0/wb.css", "/healthz"] {
            assert!(!is_page(other), "{other}");
        }
    }
}
