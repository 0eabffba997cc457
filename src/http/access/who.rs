//! The third check of every request: the person or job that its credential belongs to.
//!
//! **Invariant:** only a credential identifies; where a request comes from can deny, never grant.
//! **Invariant:** an unknown, a revoked and a misplaced credential get the same answer.

use hyper::header::{AUTHORIZATION, COOKIE, HeaderMap};
use tracing::warn;

use crate::base::{Error, ErrorKind, Result, digest_hex, fault};
use crate::http::access::origin::bearer;
use crate::http::access::table::{OF_OUTSIDERS, OF_PRIVATE_JOBS, Route, Who};
use crate::http::server::listen::Peer;
use crate::http::{Edge, JobTokenState};
use crate::jobs::JOB_ENDED;
use crate::people::{self, Caller, Login, TokenOwner, TokenScope, Via};
use crate::store::Tx;

/// Longest accepted token, in bytes.
const TOKEN_BYTES_MAX: usize = crate::base::limit::CREDENTIAL_BYTES_MAX;

/// The header by which a request names its person.
const PERSON_HEADER: &str = "x-notes-person";
/// A request names somebody else than the person that it comes from.
pub(in crate::http) const PERSON_MISMATCH: &str = "person_mismatch";

/// The credential of a request.
#[derive(Clone)]
pub(in crate::http) enum Credential {
    /// A token.
    Bearer(String),
    /// The value of this site's cookie.
    Cookie(String),
}

/// The caller of a request, and the session.
#[derive(Clone)]
pub(in crate::http) struct Identified {
    pub(in crate::http) caller: Caller,
    pub(in crate::http) login_hash: Option<String>,
    /// Whether it is a private job.
    pub(in crate::http) is_private_job: bool,
}

/// Returns the credentials of a request; a token wins over cookies. Several cookies may have one
/// name: all ports of a machine share them, so any program there can add one.
pub(in crate::http) fn credentials(
    headers: &HeaderMap,
    cookie_name: &str,
) -> Result<Vec<Credential>> {
    let mut tokens = Vec::new();
    for value in headers.get_all(AUTHORIZATION) {
        let value = value.to_str().map_err(|_| unknown())?;
        // Another scheme belongs to a proxy. A bare `Bearer` is a missing token.
        if value.trim().eq_ignore_ascii_case("bearer") {
            return Err(unknown());
        }
        tokens.extend(bearer(value));
    }
    match tokens.as_slice() {
        [] => {}
        [token] if !token.is_empty() && token.len() <= TOKEN_BYTES_MAX => {
            return Ok(vec![Credential::Bearer((*token).to_owned())]);
        }
        _ => return Err(unknown()),
    }
    let mut cookies = Vec::new();
    for value in headers.get_all(COOKIE) {
        let Ok(value) = value.to_str() else { continue };
        for pair in value.split(';') {
            if let Some((name, secret)) = pair.trim().split_once('=')
                && name == cookie_name
            {
                cookies.push(Credential::Cookie(secret.to_owned()));
            }
        }
    }
    if cookies.is_empty() {
        return Err(Error::new(ErrorKind::Unauthenticated, "not signed in")
            .hint("open a login link, or send a token as `Authorization: Bearer`"));
    }
    Ok(cookies)
}

/// Returns the credential of a signed-in caller, and the caller. Unknown credentials are skipped;
/// credentials of two different persons are refused.
pub(in crate::http) async fn identify_by_any(
    edge: &Edge,
    peer: &Peer,
    credentials: Vec<Credential>,
) -> Result<(Credential, Identified)> {
    let mut found: Option<(Credential, Identified)> = None;
    let mut refusal = unknown();
    for credential in credentials {
        match (identify(edge, peer, &credential).await, &found) {
            (Ok(who), None) => found = Some((credential, who)),
            (Ok(who), Some((_, first))) if who.caller.actor() == first.caller.actor() => {}
            (Ok(_), Some(_)) => return Err(unknown()),
            (Err(cause), _) => refusal = cause,
        }
    }
    found.ok_or(refusal)
}

/// Returns the owner of a credential.
pub(in crate::http) async fn identify(
    edge: &Edge,
    peer: &Peer,
    credential: &Credential,
) -> Result<Identified> {
    match credential {
        Credential::Cookie(secret) => by_cookie(edge, secret).await,
        Credential::Bearer(token) => by_token(edge, peer, token).await,
    }
}

/// Checks the caller against the table.
pub(in crate::http) fn authorize(route: &Route, who: &Identified) -> Result<()> {
    let caller = &who.caller;
    if who.is_private_job && !OF_PRIVATE_JOBS.contains(&route.path) && !fault::is_off("own_jobs") {
        let message = format!("{} is not for the agent of an answer", route.path);
        return Err(Error::new(ErrorKind::Forbidden, message)
            .code("private_job")
            .hint("use only the tools of the run"));
    }
    if caller.is_outside() && !fault::is_off("outside") {
        return match OF_OUTSIDERS.contains(&(route.verb, route.path)) {
            true => caller.may_listen(),
            false => caller.from_inside(),
        };
    }
    match route.who {
        Who::All | Who::Signed => Ok(()),
        Who::Read => caller.may_read(),
        Who::Write => caller.may_write().map(|_| ()),
        Who::WriteOrJob if matches!(caller, Caller::Job { .. }) => Ok(()),
        Who::WriteOrJob => caller.may_write().map(|_| ()),
        Who::Decide => caller.may_decide().map(|_| ()),
        Who::Job => caller.job().map(|_| ()),
        Who::Session => caller.in_person().map(|_| ()),
        Who::Admin => caller.may_administer().map(|_| ()),
        Who::Metrics => caller.may_measure(),
    }
}

/// Checks that a request that names its person comes from them: a client that acts for several
/// people learns when it uses the credential of another one.
pub(in crate::http) fn check_named(headers: &HeaderMap, caller: &Caller) -> Result<()> {
    for named in headers.get_all(PERSON_HEADER) {
        let is_caller = |name: &str| match caller {
            Caller::Person { person, .. } => name == person.name || name == person.id.as_str(),
            _ => false,
        };
        if !named.to_str().is_ok_and(|it| is_caller(it.trim())) {
            return Err(Error::new(ErrorKind::Forbidden, "somebody else is signed in here now")
                .code(PERSON_MISMATCH)
                .hint(
                    "reload the page to go on as them; a program sends the credential of \
                     the person that X-Notes-Person names, or leaves the header out",
                ));
        }
    }
    Ok(())
}

async fn by_cookie(edge: &Edge, secret: &str) -> Result<Identified> {
    let (now, wanted) = (edge.store.clock().now(), secret.to_owned());
    let found = edge.store.look(|c| people::find_login(c, &wanted, now))?;
    let Some(Login { hash, person, is_touch_due }) = found else { return Err(unknown()) };
    if is_touch_due {
        let hash = hash.clone();
        touch(edge, move |tx| people::touch_login(tx, &hash)).await;
    }
    let caller = Caller::Person { person, via: Via::Cookie, scopes: TokenScope::ALL.to_vec() };
    Ok(Identified { caller, login_hash: Some(hash), is_private_job: false })
}

async fn by_token(edge: &Edge, peer: &Peer, token: &str) -> Result<Identified> {
    let of = |caller| Identified { caller, login_hash: None, is_private_job: false };
    let (now, wanted) = (edge.store.clock().now(), token.to_owned());
    let found = edge.store.look(|c| people::find_by_secret(c, &wanted, now))?;
    if let Some(owner) = found {
        return by_owner(edge, peer, owner).await.map(of);
    }
    if matches!(peer, Peer::Tcp(_)) {
        return Err(unknown());
    }
    if edge.store.look(|c| people::is_operator_secret(c, token))? {
        return Err(Error::new(
            ErrorKind::Unauthenticated,
            "the person that this command line acts as is disabled",
        )
        .code("operator_disabled")
        .hint("restart the server: it picks the next admin for the command line"));
    }
    let hash = digest_hex(token);
    match (edge.identify_job)(hash.clone()).await? {
        Some(found) if found.state == JobTokenState::Running => {
            let caller = Caller::Job { id: found.job, token_hash: hash };
            Ok(Identified { is_private_job: found.is_private, ..of(caller) })
        }
        Some(found) => Err(Error::conflict(JOB_ENDED, format!("job {} has ended", found.job))
            .hint("this job can no longer write; start another job")),
        None => Err(unknown()),
    }
}

async fn by_owner(edge: &Edge, peer: &Peer, owner: TokenOwner) -> Result<Caller> {
    if owner.is_operator {
        let Peer::Unix { is_agent, .. } = peer else { return Err(unknown()) };
        if *is_agent && !fault::is_off("agent_peer") {
            return Err(Error::new(
                ErrorKind::Forbidden,
                "processes of a job cannot use the operator's token",
            )
            .code("agent_peer")
            .hint("use the token of the agent's own job, WB_TOKEN"));
        }
    }
    if owner.is_touch_due {
        let id = owner.token_id.clone();
        touch(edge, move |tx| people::touch_token(tx, &id)).await;
    }
    let via = if owner.is_operator { Via::Operator } else { Via::Token };
    Ok(Caller::Person { person: owner.person, via, scopes: owner.scopes })
}

/// A session that cannot be marked as used (full disk) is still valid.
async fn touch<F>(edge: &Edge, note: F)
where
    F: FnMut(&Tx<'_>) -> Result<()> + Send + 'static,
{
    // If nothing can be written, reads continue: no request waits for a write that will fail.
    if edge.store.trouble().is_some() {
        return;
    }
    if let Err(cause) = edge.store.write(note).await {
        warn!("the last use of a credential was not noted: {}", cause.chain());
    }
}

fn unknown() -> Error {
    Error::new(ErrorKind::Unauthenticated, "unknown token or session")
        .hint("open a new login link, or use an active token (for agents, WB_TOKEN)")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::access::table::{ROUTES, Verb};
    use crate::people::Person;

    /// Whatever routes are added: members from outside have only those of channels.
    #[test]
    fn somebody_from_outside_is_refused_everywhere_but_in_channels() {
        let person = Person {
            id: "018bcfe5-6800-7000-8000-000000000001".parse().unwrap(),
            name: "acme".to_owned(),
            display_name: "Acme".to_owned(),
            email: None,
            role: people::Role::Viewer,
            is_external: true,
            created_at: people::for_test::START,
            disabled_at: None,
        };
        let mut let_in = Vec::new();
        for scope in [TokenScope::Channel, TokenScope::Write] {
            let (person, scopes) = (person.clone(), vec![scope, TokenScope::Read]);
            let caller = Caller::Person { person, via: Via::Token, scopes };
            let who = Identified { caller, login_hash: None, is_private_job: false };
            for route in ROUTES {
                let is_own = OF_OUTSIDERS.contains(&(route.verb, route.path));
                match authorize(route, &who) {
                    Ok(()) => {
                        assert!(is_own && scope == TokenScope::Channel, "{}", route.path);
                        let_in.push((route.verb, route.path));
                    }
                    Err(cause) if is_own => assert_eq!(cause.code_str(), "scope"),
                    Err(cause) => {
                        assert_eq!(cause.code_str(), "outside_forbidden", "{}", route.path)
                    }
                }
            }
        }
        assert_eq!(let_in.len(), OF_OUTSIDERS.len(), "each of them is a route");
        let is_small = |it: &&(Verb, &str)| it.1.starts_with("/api/channels");
        assert_eq!(let_in.iter().filter(is_small).count(), let_in.len() - 2);
    }
}
