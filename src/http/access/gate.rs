//! The order of checks on every request: size, host, origin, caller, and only then the route.

use hyper::StatusCode;
use hyper::http::request::Parts;
use warp::http::HeaderMap;

use crate::base::{Error, ErrorKind, Result, fault};
use crate::http::Edge;
use crate::http::access::origin::{check_host, check_origin};
use crate::http::access::table::{Found, Params, Route, Who, find};
use crate::http::access::who::{
    Credential, Identified, authorize, check_named, credentials, identify_by_any,
};
use crate::http::server::head::{check_framing, check_size};
use crate::http::server::listen::Peer;

/// The code of an address without a route.
pub(in crate::http) const NO_ROUTE: &str = "no_route";

/// A request that passed all checks.
#[derive(Clone)]
pub(in crate::http) struct Passed {
    pub(in crate::http) peer: Peer,
    pub(in crate::http) route: &'static Route,
    pub(in crate::http) path: String,
    pub(in crate::http) query: String,
    pub(in crate::http) params: Params,
    pub(in crate::http) headers: HeaderMap,
    pub(in crate::http) credential: Option<Credential>,
    pub(in crate::http) who: Option<Identified>,
}

/// Why a request was refused.
pub(in crate::http) enum Refused {
    /// With this error.
    Error(Error),
    /// With this error, under a status that has no error kind.
    Status(StatusCode, Error),
    /// The path exists, but only with these methods.
    OtherVerbs(Vec<&'static str>),
}

impl From<Error> for Refused {
    fn from(error: Error) -> Refused {
        Refused::Error(error)
    }
}

/// Runs all checks in order. A request without a credential learns of open routes only. The
/// caller is left in `asks_as` even if a later check refuses the request.
pub(in crate::http) async fn check(
    edge: &Edge,
    peer: Peer,
    head: &Parts,
    asks_as: &mut Option<Identified>,
) -> std::result::Result<Passed, Refused> {
    check_size(head).map_err(|(status, error)| Refused::Status(status, error))?;
    check_framing(&head.headers).map_err(|(status, error)| Refused::Status(status, error))?;
    let host = check_host(&edge.gate, &peer, head)?;
    let found = find(head.method.as_str(), head.uri.path());
    let who = if let Found::Route(route, _) = &found { Some(route.who) } else { None };
    // Whoever sends another method to an open route is told its methods, and nothing else is done.
    let is_misused = matches!(found, Found::OtherVerbs(_, true));
    // Browsers add no signature, so no page can send a signed request.
    let is_open = is_misused || matches!(who, Some(Who::All | Who::Signed));
    if who != Some(Who::Signed) && !fault::is_off("origin_check") {
        check_origin(&host, head, is_open && !is_misused)?;
    }
    let (credential, who) = if is_open {
        (None, None)
    } else {
        let (credential, who) = ask(edge, &peer, head).await?;
        *asks_as = Some(who.clone());
        (Some(credential), Some(who))
    };
    let (route, params) = match found {
        Found::Route(route, params) => (route, params),
        Found::OtherVerbs(verbs, _) => return Err(Refused::OtherVerbs(verbs)),
        Found::Nothing => return Err(Refused::Error(no_route(head.uri.path()))),
    };
    if let Some(who) = &who {
        authorize(route, who)?;
        check_named(&head.headers, &who.caller)?;
    }
    if route.is_socket_only && matches!(peer, Peer::Tcp(_)) {
        return Err(Refused::Error(
            Error::new(
                ErrorKind::Forbidden,
                format!("{} is only available on the socket", route.path),
            )
            .code("socket_only")
            .hint("use the command line on the server"),
        ));
    }
    Ok(Passed {
        peer,
        route,
        path: head.uri.path().to_owned(),
        query: head.uri.query().unwrap_or("").to_owned(),
        params,
        headers: head.headers.clone(),
        credential,
        who,
    })
}

async fn ask(edge: &Edge, peer: &Peer, head: &Parts) -> Result<(Credential, Identified)> {
    let credentials = credentials(&head.headers, &edge.gate.cookie_name)?;
    identify_by_any(edge, peer, credentials).await
}

/// Returns the error for a path that nothing serves.
pub(in crate::http) fn no_route(path: &str) -> Error {
    let shown = crate::base::truncate_chars(path, 120);
    Error::not_found(format!("nothing found at {shown}"))
        .code(NO_ROUTE)
        .hint("see docs/http.md for all routes")
}
