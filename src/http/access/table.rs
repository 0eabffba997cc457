//! The table of all routes, and who may use each.

pub use crate::http::access::route::{Route, Verb, Who};

/// All routes of the program.
pub const ROUTES: &[Route] = &[
    on(Verb::Get, "/healthz", Who::All),
    on(Verb::Get, "/readyz", Who::All),
    on(Verb::Get, "/assets/{version}/{name}", Who::All),
    on(Verb::Get, "/site.webmanifest", Who::All),
    on(Verb::Get, "/offline.js", Who::All),
    on(Verb::Get, "/login/{code}", Who::All),
    on(Verb::Get, "/api/openapi.json", Who::All),
    on(Verb::Post, "/api/login", Who::All),
    on(Verb::Post, "/api/logout", Who::Read),
    on(Verb::Get, "/api/me", Who::Read),
    on_socket(Verb::Post, "/api/login-links", Who::Decide),
    on(Verb::Get, "/api/health", Who::Read),
    on(Verb::Get, "/metrics", Who::Metrics),
    on(Verb::Get, "/api/persons", Who::Admin),
    on(Verb::Post, "/api/persons", Who::Admin),
    on(Verb::Post, "/api/persons/{name}/disable", Who::Admin),
    on(Verb::Post, "/api/persons/{name}/enable", Who::Admin),
    on(Verb::Post, "/api/persons/{name}/role", Who::Admin),
    on(Verb::Post, "/api/persons/{name}/profile", Who::Session),
    on(Verb::Get, "/api/tokens", Who::Session),
    on(Verb::Post, "/api/tokens", Who::Session),
    on(Verb::Delete, "/api/tokens/{id}", Who::Session),
    on_socket(Verb::Get, "/api/backups", Who::Admin),
    on_socket(Verb::Post, "/api/backups", Who::Admin),
    on_socket(Verb::Post, "/api/cleanup", Who::Admin),
    on(Verb::Get, "/api/events", Who::Read),
    on(Verb::Get, "/api/config", Who::Read),
    on(Verb::Post, "/api/config/reload", Who::Admin),
    on(Verb::Get, "/api/schedules", Who::Read),
    on(Verb::Get, "/api/sources", Who::Read),
    on(Verb::Get, "/api/source", Who::Read),
    on(Verb::Get, "/api/source/history", Who::Read),
    on(Verb::Get, "/api/source/rendered", Who::Read),
    on(Verb::Get, "/api/source/passage", Who::Read),
    on(Verb::Get, "/api/source/annotations", Who::Read),
    on(Verb::Get, "/api/search", Who::Read),
    on(Verb::Get, "/api/search/index", Who::Read),
    on(Verb::Get, "/api/topics", Who::Read),
    on(Verb::Post, "/api/topics", Who::WriteOrJob),
    on(Verb::Get, "/api/topics/{id}", Who::Read),
    on(Verb::Post, "/api/topics/{id}/messages", Who::WriteOrJob),
    on(Verb::Get, "/api/topics/{id}/annotation", Who::Read),
    on(Verb::Post, "/api/topics/{id}/anchor", Who::Write),
    on(Verb::Post, "/api/topics/{id}/discard", Who::Decide),
    on(Verb::Post, "/api/topics/{id}/reopen", Who::Decide),
    on(Verb::Post, "/api/topics/{id}/proposals", Who::Job),
    on(Verb::Get, "/api/proposals", Who::Read),
    on(Verb::Post, "/api/proposals", Who::Job),
    on(Verb::Get, "/api/proposals/{id}", Who::Read),
    on(Verb::Post, "/api/proposals/{id}/approve", Who::Decide),
    on(Verb::Post, "/api/proposals/{id}/reject", Who::Decide),
    on(Verb::Post, "/api/proposals/{id}/rework", Who::Decide),
    on(Verb::Post, "/api/proposals/{id}/edit", Who::Decide),
    on(Verb::Get, "/api/decisions", Who::Read),
    on(Verb::Get, "/api/approvals", Who::Read),
    on(Verb::Post, "/api/approvals", Who::WriteOrJob),
    on(Verb::Get, "/api/approvals/{id}", Who::Read),
    on(Verb::Get, "/api/approvals/{id}/await", Who::Read),
    on(Verb::Post, "/api/approvals/{id}/approve", Who::Decide),
    on(Verb::Post, "/api/approvals/{id}/reject", Who::Decide),
    on(Verb::Post, "/api/approvals/{id}/withdraw", Who::WriteOrJob),
    on(Verb::Get, "/api/agent/jobs", Who::Read),
    on(Verb::Post, "/api/agent/jobs", Who::Write),
    on(Verb::Get, "/api/agent/jobs/{id}", Who::Read),
    on(Verb::Get, "/api/agent/jobs/{id}/log", Who::Read),
    on(Verb::Get, "/api/agent/jobs/{id}/stream", Who::Read),
    on(Verb::Get, "/api/agent/jobs/{id}/prompt", Who::Read),
    on(Verb::Post, "/api/agent/jobs/{id}/cancel", Who::Write),
    on(Verb::Post, "/api/agent/jobs/{id}/kill", Who::Write),
    on(Verb::Post, "/api/agent/jobs/{id}/retry", Who::Write),
    on(Verb::Post, "/api/agent/jobs/{id}/restore", Who::Decide),
    on(Verb::Get, "/api/workspaces", Who::Read),
    on(Verb::Post, "/api/workspaces/sweep", Who::Decide),
    on(Verb::Post, "/api/workspaces/{job}/keep", Who::Decide),
    on(Verb::Post, "/api/workspaces/{job}/remove", Who::Decide),
    on(Verb::Post, "/api/agent/jobs/{id}/keep", Who::Decide),
    on(Verb::Post, "/api/agent/jobs/{id}/result", Who::Job),
    on(Verb::Post, "/api/jobs/cancel", Who::Admin),
    on(Verb::Post, "/api/jobs/retry", Who::Admin),
    on(Verb::Post, "/api/agent/jobs/{id}/verdict", Who::Job),
    on(Verb::Post, "/api/agent/inbox", Who::Job),
    on(Verb::Post, "/api/agent/permissions", Who::Job),
    on(Verb::Post, "/api/agent/permissions/{id}/answer", Who::Job),
    on(Verb::Post, "/api/messages", Who::WriteOrJob),
    on(Verb::Get, "/api/messages", Who::Read),
    on(Verb::Get, "/api/messages/{id}", Who::Read),
    on(Verb::Get, "/api/messages/{id}/await", Who::Read),
    on(Verb::Post, "/api/messages/{id}/read", Who::Read),
    on(Verb::Post, "/api/messages/{id}/resend", Who::Write),
    on(Verb::Post, "/api/messages/{id}/settle", Who::Write),
    on(Verb::Get, "/api/agents", Who::Read),
    on(Verb::Get, "/api/agents/{name}", Who::Read),
    on(Verb::Get, "/api/agents/{name}/peek", Who::Read),
    on(Verb::Post, "/api/agents/{name}/start", Who::Write),
    on(Verb::Post, "/api/agents/{name}/stop", Who::Write),
    on(Verb::Post, "/api/agents/{name}/restart", Who::Write),
    on(Verb::Post, "/api/agents/{name}/interrupt", Who::Write),
    on(Verb::Get, "/api/instances", Who::Read),
    on(Verb::Get, "/api/instances/{id}", Who::Read),
    on(Verb::Get, "/api/instances/{id}/peek", Who::Read),
    on(Verb::Get, "/api/inboxes", Who::Read),
    on(Verb::Get, "/api/inboxes/{template}/{name}", Who::Read),
    on(Verb::Post, "/api/claude/chat-stream", Who::Write),
    on(Verb::Post, "/api/claude/chat", Who::Write),
    on(Verb::Post, "/api/claude/clear", Who::Write),
    on(Verb::Get, "/api/claude/history", Who::Write),
    on(Verb::Post, "/api/agent/chat-stream", Who::Write),
    on(Verb::Post, "/api/agent/chat", Who::Write),
    on(Verb::Get, "/api/agent/runs/{id}", Who::Write),
    on(Verb::Get, "/api/agent/runs/{id}/events", Who::Write),
    on(Verb::Post, "/api/agent/stop", Who::Write),
    on(Verb::Post, "/api/agent/session/clear", Who::Write),
    on(Verb::Get, "/api/agent/session/history", Who::Write),
    on(Verb::Get, "/api/agent/actions", Who::Write),
    on(Verb::Post, "/api/agent/actions/{id}/run", Who::Write),
    on(Verb::Get, "/api/agent/sessions", Who::Write),
    on(Verb::Get, "/api/agent/sessions/{id}", Who::Write),
    on(Verb::Post, "/api/agent/sessions/{id}", Who::Write),
    on(Verb::Delete, "/api/agent/sessions/{id}", Who::Write),
    on(Verb::Post, "/api/agent/attachments", Who::Write),
    on(Verb::Get, "/api/agent/vault/file", Who::Write),
    on(Verb::Get, "/api/agent/vault/text", Who::Write),
    on(Verb::Post, "/api/agent/vault/text", Who::Decide),
    on(Verb::Get, "/api/agent/scratch", Who::Write),
    on(Verb::Delete, "/api/agent/scratch", Who::Decide),
    on(Verb::Get, "/api/agent/config", Who::Write),
    on(Verb::Post, "/api/agent/config", Who::Write),
    on(Verb::Get, "/api/agent/health", Who::Write),
    on(Verb::Get, "/api/agent/tools", Who::Job),
    on(Verb::Post, "/api/agent/tools/execute", Who::Job),
    on(Verb::Get, "/api/agent/calls/{id}", Who::Write),
    on(Verb::Post, "/api/agent/calls/{id}/undo", Who::Decide),
    on(Verb::Post, "/api/agent/calls/{id}/do", Who::Decide),
    on(Verb::Post, "/api/agent/claude/login", Who::Session),
    on(Verb::Delete, "/api/agent/claude/login", Who::Session),
    on(Verb::Post, "/api/agent/gateway/login", Who::Session),
    on(Verb::Get, "/api/agent/gateway/login/{id}", Who::Session),
    on(Verb::Post, "/api/agent/gateway/login/{id}", Who::Session),
    on(Verb::Delete, "/api/agent/gateway/login", Who::Session),
    on(Verb::Post, "/api/linkedin/connect", Who::Session),
    on(Verb::Post, "/api/linkedin/finish", Who::Session),
    on(Verb::Get, "/api/linkedin/health", Who::Session),
    on(Verb::Delete, "/api/linkedin", Who::Session),
    on(Verb::Post, "/api/agents/{name}/handover", Who::Write),
    on(Verb::Get, "/api/agents/{name}/promote", Who::Write),
    on(Verb::Get, "/api/agents/{name}/turns", Who::Read),
    on(Verb::Get, "/api/turns/{id}", Who::Read),
    on(Verb::Post, "/api/agents/{name}/promote", Who::Write),
    on(Verb::Post, "/api/agents/{name}/rehydrate", Who::Write),
    on(Verb::Post, "/api/handoffs", Who::Job),
    on(Verb::Get, "/api/handoffs/{file}", Who::Job),
    on(Verb::Get, "/api/personas/{name}/handoffs", Who::Read),
    on(Verb::Get, "/api/channels", Who::Read),
    on(Verb::Post, "/api/channels", Who::WriteOrJob),
    on(Verb::Get, "/api/channels/{slug}", Who::Read),
    on(Verb::Post, "/api/channels/{slug}/change", Who::WriteOrJob),
    on(Verb::Post, "/api/channels/{slug}/pause", Who::Write),
    on(Verb::Post, "/api/channels/{slug}/resume", Who::Write),
    on(Verb::Post, "/api/channels/{slug}/chair", Who::Write),
    on(Verb::Post, "/api/channels/{slug}/complete", Who::WriteOrJob),
    on(Verb::Post, "/api/channels/{slug}/archive", Who::Write),
    on(Verb::Post, "/api/channels/{slug}/join", Who::Write),
    on(Verb::Post, "/api/channels/{slug}/leave", Who::WriteOrJob),
    on(Verb::Post, "/api/channels/{slug}/members", Who::WriteOrJob),
    on(Verb::Post, "/api/channels/{slug}/members/{handle}/remove", Who::WriteOrJob),
    on(Verb::Post, "/api/channels/{slug}/members/{handle}/mute", Who::WriteOrJob),
    on(Verb::Post, "/api/channels/{slug}/members/{handle}/unmute", Who::WriteOrJob),
    on(Verb::Post, "/api/channels/{slug}/members/{handle}/seat", Who::Write),
    on(Verb::Get, "/api/channels/{slug}/messages", Who::Read),
    on(Verb::Post, "/api/channels/{slug}/messages", Who::WriteOrJob),
    on(Verb::Post, "/api/channels/{slug}/messages/{sequence}/again", Who::Write),
    on(Verb::Get, "/api/channels/{slug}/messages/{sequence}/held", Who::Read),
    on(Verb::Post, "/api/channels/{slug}/messages/{sequence}/held", Who::Write),
    on(Verb::Post, "/api/channels/{slug}/messages/{sequence}/resend", Who::Write),
    on(Verb::Post, "/api/channels/{slug}/messages/{sequence}/settle", Who::Write),
    on(Verb::Post, "/api/channels/{slug}/attachments", Who::WriteOrJob),
    on(Verb::Get, "/api/channels/{slug}/attachments/{number}", Who::Read),
    on(Verb::Post, "/api/channels/{slug}/read", Who::Write),
    on(Verb::Get, "/api/channels/{slug}/export", Who::Read),
    on(Verb::Post, "/api/voice/command", Who::Write),
    on(Verb::Get, "/api/usage", Who::Read),
    on(Verb::Get, "/api/engines", Who::Read),
    on(Verb::Post, "/api/engines/{name}/release", Who::Write),
    on(Verb::Get, "/api/agent/topic", Who::Read),
    on(Verb::Get, "/api/agent/open-topics", Who::Read),
    on(Verb::Get, "/api/agent/proposal", Who::Read),
    on(Verb::Get, "/api/personas", Who::Read),
    on(Verb::Get, "/api/perspectives", Who::Read),
    on(Verb::Get, "/api/perspective", Who::Read),
    on(Verb::Post, "/api/perspectives", Who::Job),
    on(Verb::Post, "/api/perspectives/request", Who::Write),
    on(Verb::Post, "/hooks/{name}", Who::Signed),
    on(Verb::Get, "/", Who::Read),
    on(Verb::Get, "/settings", Who::Read),
    on(Verb::Post, "/settings/look", Who::Read),
    on(Verb::Post, "/settings/tokens", Who::Session),
    on(Verb::Post, "/settings/tokens/{id}/revoke", Who::Session),
    on(Verb::Post, "/settings/profile", Who::Session),
    on(Verb::Post, "/settings/people", Who::Admin),
    on(Verb::Post, "/settings/people/{name}/disable", Who::Admin),
    on(Verb::Post, "/settings/people/{name}/enable", Who::Admin),
    on(Verb::Post, "/settings/people/{name}/role", Who::Admin),
    on(Verb::Get, "/start", Who::Read),
    on(Verb::Get, "/d", Who::Read),
    on(Verb::Get, "/d/{*path}", Who::Read),
    on(Verb::Get, "/raw/{*path}", Who::Read),
    on(Verb::Post, "/perspectives", Who::Write),
    on(Verb::Get, "/search", Who::Read),
    on(Verb::Get, "/topics", Who::Read),
    on(Verb::Post, "/topics", Who::Write),
    on(Verb::Get, "/topics/{id}", Who::Read),
    on(Verb::Post, "/topics/{id}/messages", Who::Write),
    on(Verb::Post, "/topics/{id}/jobs", Who::Write),
    on(Verb::Post, "/topics/{id}/anchor", Who::Write),
    on(Verb::Post, "/topics/{id}/discard", Who::Decide),
    on(Verb::Post, "/topics/{id}/reopen", Who::Decide),
    on(Verb::Get, "/decisions", Who::Read),
    on(Verb::Get, "/approvals", Who::Read),
    on(Verb::Get, "/approvals/{id}", Who::Read),
    on(Verb::Post, "/approvals/{id}/approve", Who::Decide),
    on(Verb::Post, "/approvals/{id}/reject", Who::Decide),
    on(Verb::Get, "/proposals", Who::Read),
    on(Verb::Get, "/proposals/{id}", Who::Read),
    on(Verb::Post, "/proposals/{id}/approve", Who::Decide),
    on(Verb::Post, "/proposals/{id}/reject", Who::Decide),
    on(Verb::Post, "/proposals/{id}/rework", Who::Decide),
    on(Verb::Post, "/proposals/{id}/edit", Who::Decide),
    on(Verb::Get, "/proposals/{id}/edit", Who::Read),
    on(Verb::Get, "/agents", Who::Read),
    on(Verb::Get, "/agents/{name}", Who::Read),
    on(Verb::Post, "/agents/{name}", Who::Write),
    on(Verb::Post, "/agents/{name}/start", Who::Write),
    on(Verb::Post, "/agents/{name}/stop", Who::Write),
    on(Verb::Post, "/agents/{name}/restart", Who::Write),
    on(Verb::Post, "/agents/{name}/interrupt", Who::Write),
    on(Verb::Get, "/inboxes", Who::Read),
    on(Verb::Get, "/inboxes/{template}/{name}", Who::Read),
    on(Verb::Post, "/inboxes/{template}/{name}", Who::Write),
    on(Verb::Post, "/agents/{name}/handover", Who::Write),
    on(Verb::Post, "/agents/{name}/rehydrate", Who::Write),
    on(Verb::Get, "/handoffs/{persona}", Who::Read),
    on(Verb::Get, "/handoffs/{persona}/{file}", Who::Read),
    on(Verb::Get, "/agents/{name}/promote", Who::Write),
    on(Verb::Post, "/agents/{name}/promote", Who::Write),
    on(Verb::Get, "/channels", Who::Read),
    on(Verb::Post, "/channels", Who::Write),
    on(Verb::Get, "/channels/new", Who::Read),
    on(Verb::Get, "/channels/{slug}", Who::Read),
    on(Verb::Get, "/channels/{slug}/export", Who::Read),
    on(Verb::Post, "/channels/{slug}/messages", Who::Write),
    on(Verb::Post, "/channels/{slug}/messages/{sequence}/again", Who::Write),
    on(Verb::Post, "/channels/{slug}/messages/{sequence}/held", Who::Write),
    on(Verb::Post, "/channels/{slug}/messages/{sequence}/resend", Who::Write),
    on(Verb::Post, "/channels/{slug}/messages/{sequence}/settle", Who::Write),
    on(Verb::Post, "/channels/{slug}/read", Who::Write),
    on(Verb::Post, "/channels/{slug}/members", Who::Write),
    on(Verb::Post, "/channels/{slug}/members/{handle}/remove", Who::Write),
    on(Verb::Post, "/channels/{slug}/members/{handle}/mute", Who::Write),
    on(Verb::Post, "/channels/{slug}/members/{handle}/unmute", Who::Write),
    on(Verb::Post, "/channels/{slug}/members/{handle}/seat", Who::Write),
    on(Verb::Post, "/channels/{slug}/members/{handle}/start", Who::Write),
    on(Verb::Post, "/channels/{slug}/join", Who::Write),
    on(Verb::Post, "/channels/{slug}/leave", Who::Write),
    on(Verb::Post, "/channels/{slug}/members/{handle}/chair", Who::Write),
    on(Verb::Post, "/channels/{slug}/goal", Who::Write),
    on(Verb::Post, "/channels/{slug}/budget", Who::Write),
    on(Verb::Post, "/channels/{slug}/outside", Who::Write),
    on(Verb::Post, "/channels/{slug}/pause", Who::Write),
    on(Verb::Post, "/channels/{slug}/resume", Who::Write),
    on(Verb::Post, "/channels/{slug}/complete", Who::Write),
    on(Verb::Post, "/channels/{slug}/archive", Who::Write),
    on(Verb::Get, "/mail", Who::Read),
    on(Verb::Get, "/mail/{id}", Who::Read),
    on(Verb::Post, "/mail/{id}/read", Who::Read),
    on(Verb::Post, "/mail/{id}/answer", Who::Write),
    on(Verb::Post, "/mail/{id}/resend", Who::Write),
    on(Verb::Post, "/mail/{id}/settle", Who::Write),
    on(Verb::Get, "/assistant", Who::Read),
    on(Verb::Post, "/assistant", Who::Write),
    on(Verb::Post, "/assistant/mode", Who::Write),
    on(Verb::Post, "/assistant/scratch", Who::Decide),
    on(Verb::Get, "/assistant/settings", Who::Read),
    on(Verb::Post, "/assistant/settings/text", Who::Decide),
    on(Verb::Get, "/assistant/settings/action", Who::Read),
    on(Verb::Post, "/assistant/settings/action", Who::Decide),
    on(Verb::Post, "/assistant/settings/remove", Who::Decide),
    on(Verb::Post, "/assistant/sign-in", Who::Session),
    on(Verb::Post, "/assistant/sign-out", Who::Session),
    on(Verb::Get, "/claude", Who::Read),
    on(Verb::Get, "/subscription", Who::Read),
    on(Verb::Post, "/subscription", Who::Session),
    on(Verb::Post, "/subscription/sign-out", Who::Session),
    on(Verb::Get, "/subscription/{login}", Who::Session),
    on(Verb::Post, "/subscription/{login}", Who::Session),
    on(Verb::Get, "/linkedin", Who::Session),
    on(Verb::Post, "/linkedin", Who::Session),
    on(Verb::Get, "/linkedin/callback", Who::Session),
    on(Verb::Post, "/linkedin/finish", Who::Session),
    on(Verb::Post, "/linkedin/sign-out", Who::Session),
    on(Verb::Get, "/assistant/{session}", Who::Read),
    on(Verb::Post, "/assistant/{session}/stop", Who::Write),
    on(Verb::Post, "/assistant/{session}/show", Who::Write),
    on(Verb::Post, "/assistant/{session}/undo", Who::Decide),
    on(Verb::Post, "/assistant/{session}/do", Who::Decide),
    on(Verb::Post, "/assistant/{session}/answer", Who::Decide),
    on(Verb::Post, "/assistant/{session}/title", Who::Write),
    on(Verb::Post, "/assistant/{session}/place", Who::Write),
    on(Verb::Post, "/assistant/{session}/delete", Who::Write),
    on(Verb::Get, "/jobs", Who::Read),
    on(Verb::Post, "/jobs", Who::Write),
    on(Verb::Get, "/jobs/new", Who::Read),
    on(Verb::Get, "/jobs/{id}", Who::Read),
    on(Verb::Get, "/jobs/{id}/prompt", Who::Read),
    on(Verb::Get, "/jobs/{id}/log", Who::Read),
    on(Verb::Post, "/engines/{name}/release", Who::Write),
    on(Verb::Post, "/jobs/{id}/cancel", Who::Write),
    on(Verb::Post, "/jobs/{id}/kill", Who::Write),
    on(Verb::Post, "/jobs/{id}/messages", Who::Write),
    on(Verb::Post, "/jobs/{id}/retry", Who::Write),
    on(Verb::Post, "/jobs/{id}/dismiss", Who::Read),
    on(Verb::Post, "/jobs/{id}/restore", Who::Decide),
    on(Verb::Post, "/jobs/{id}/keep", Who::Decide),
];

/// The routes that a private job's token may use, because its agent has no other way to the site.
pub(in crate::http) const OF_PRIVATE_JOBS: &[&str] =
    &["/api/agent/tools", "/api/agent/tools/execute"];

/// The routes of members from outside: their channels and their own account.
pub(in crate::http) const OF_OUTSIDERS: &[(Verb, &str)] = &[
    (Verb::Get, "/api/me"),
    (Verb::Get, "/api/events"),
    (Verb::Get, "/api/channels"),
    (Verb::Get, "/api/channels/{slug}"),
    (Verb::Post, "/api/channels/{slug}/join"),
    (Verb::Post, "/api/channels/{slug}/leave"),
    (Verb::Get, "/api/channels/{slug}/messages"),
    (Verb::Post, "/api/channels/{slug}/messages"),
    (Verb::Post, "/api/channels/{slug}/attachments"),
    (Verb::Get, "/api/channels/{slug}/attachments/{number}"),
    (Verb::Post, "/api/channels/{slug}/read"),
];

const fn on(verb: Verb, path: &'static str, who: Who) -> Route {
    Route { verb, path, who, is_socket_only: false }
}

const fn on_socket(verb: Verb, path: &'static str, who: Who) -> Route {
    Route { verb, path, who, is_socket_only: true }
}

/// The values of the `{name}`s in a route's path.
pub(in crate::http) type Params = Vec<(&'static str, String)>;

/// The result of a look-up in the table.
pub(in crate::http) enum Found {
    /// The route exists.
    Route(&'static Route, Params),
    /// The path exists, but only with these methods; and whether all of them are open.
    OtherVerbs(Vec<&'static str>, bool),
    /// The path does not exist.
    Nothing,
}

/// Looks up a request.
pub(in crate::http) fn find(method: &str, path: &str) -> Found {
    find_in(ROUTES, method, path)
}

fn find_in(routes: &'static [Route], method: &str, path: &str) -> Found {
    let asked = if method == "HEAD" { "GET" } else { method };
    let (mut verbs, mut is_open) = (Vec::new(), true);
    for route in routes {
        let Some(params) = match_path(route.path, path) else { continue };
        if route.verb.as_str() == asked {
            return Found::Route(route, params);
        }
        is_open &= matches!(route.who, Who::All | Who::Signed);
        verbs.push(route.verb.as_str());
        verbs.extend((route.verb == Verb::Get).then_some("HEAD"));
    }
    if verbs.is_empty() { Found::Nothing } else { Found::OtherVerbs(verbs, is_open) }
}

fn match_path(pattern: &'static str, path: &str) -> Option<Params> {
    let mut params = Params::new();
    let mut rest = path.strip_prefix('/')?;
    let mut parts = pattern.strip_prefix('/')?.split('/').peekable();
    while let Some(part) = parts.next() {
        let name = part.strip_prefix('{').and_then(|it| it.strip_suffix('}'));
        if let Some(tail) = name.and_then(|it| it.strip_prefix('*')) {
            let text = decode(rest)?;
            params.push((tail, text));
            return (!rest.is_empty()).then_some(params);
        }
        let (segment, more) = match rest.split_once('/') {
            Some((segment, more)) => (segment, Some(more)),
            None => (rest, None),
        };
        match name {
            Some(name) if !segment.is_empty() => params.push((name, decode(segment)?)),
            None if segment == part => {}
            _ => return None,
        }
        match (parts.peek(), more) {
            (Some(_), Some(more)) => rest = more,
            (None, None) => return Some(params),
            _ => return None,
        }
    }
    None
}

/// Decodes `%XX`; `None` for a broken escape, text that is not UTF-8, or a control character.
fn decode(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes().iter();
    while let Some(byte) = rest.next() {
        if *byte != b'%' {
            bytes.push(*byte);
            continue;
        }
        let (high, low) = (hex(*rest.next()?)?, hex(*rest.next()?)?);
        bytes.push(high << 4 | low);
    }
    String::from_utf8(bytes).ok().filter(|it| !it.chars().any(char::is_control))
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).and_then(|it| u8::try_from(it).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn params(pattern: &'static str, path: &str) -> Option<Vec<String>> {
        match_path(pattern, path).map(|it| it.into_iter().map(|(_, text)| text).collect())
    }

    #[test]
    fn a_path_is_matched_as_it_is_spelt() {
        assert_eq!(params("/", "/"), Some(vec![]));
        assert_eq!(params("/api/me", "/api/me"), Some(vec![]));
        for other in ["/api/me/", "/api//me", "//api/me", "/api/ME", "/api/m%65", "api/me", ""] {
            assert_eq!(params("/api/me", other), None, "{other}");
        }
        assert_eq!(params("/a/{id}/b", "/a/x%20y/b"), Some(vec!["x y".to_owned()]));
        for other in ["/a//b", "/a/x/c", "/a/x", "/a/%ff/b", "/a/%0a/b", "/a/%4/b", "/a/x/b/"] {
            assert_eq!(params("/a/{id}/b", other), None, "{other}");
        }
        assert_eq!(params("/d/{*path}", "/d/a/b%2Fc"), Some(vec!["a/b/c".to_owned()]));
        assert_eq!(params("/d/{*path}", "/d/"), None);
        assert_eq!(params("/d/{*path}", "/d"), None);
    }

    #[test]
    fn another_method_is_not_another_path() {
        assert!(matches!(find("HEAD", "/healthz"), Found::Route(..)));
        let others = |method, path| match find(method, path) {
            Found::OtherVerbs(verbs, is_open) => Some((verbs, is_open)),
            _ => None,
        };
        assert_eq!(others("DELETE", "/healthz"), Some((vec!["GET", "HEAD"], true)));
        assert_eq!(others("PUT", "/hooks/x"), Some((vec!["POST"], true)));
        assert_eq!(others("PUT", "/api/agents").map(|it| it.1), Some(false));
        assert!(matches!(find("GET", "/nothing"), Found::Nothing));
    }

    #[test]
    fn no_route_stands_in_the_table_twice() {
        for (place, route) in ROUTES.iter().enumerate() {
            let is_again = |it: &Route| it.verb == route.verb && it.path == route.path;
            assert!(!ROUTES[place + 1..].iter().any(is_again), "{}", route.path);
        }
    }

    #[test]
    fn nothing_that_changes_is_open_but_the_login() {
        let open: Vec<_> = ROUTES.iter().filter(|it| it.who == Who::All).collect();
        let changing: Vec<_> = open.iter().filter(|it| it.verb != Verb::Get).collect();
        assert_eq!(changing.iter().map(|it| it.path).collect::<Vec<_>>(), ["/api/login"]);
        let signed: Vec<_> = ROUTES.iter().filter(|it| it.who == Who::Signed).collect();
        assert_eq!(signed.iter().map(|it| it.path).collect::<Vec<_>>(), ["/hooks/{name}"]);
    }
}
