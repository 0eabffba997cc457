//! The pages on the real server: read, and used through forms alone, as without scripts.

mod absent;
mod agents;
mod begin;
mod flow;
mod holder;
mod hostile;
mod inboxes;
mod jobs;
mod mail;
mod reader;
mod reading;
mod review;
mod starts;
mod titles;

use std::net::SocketAddr;

use crate::support::{Bench, Server, raw};

/// Proposes a text in which the first line of the guide is another one.
const REWRITE: &str =
    "sed 's/The first line/The better line/' \"$root/$path\" | propose --summary 'Better words'";
const PROPOSES: &str = "produces = \"proposal\", timeout = \"20s\", lane = \"source_path\"";

/// A browser: it knows the site's address and may have a session.
pub(crate) struct Browser {
    address: SocketAddr,
    cookie: Option<String>,
}

/// What a browser got.
pub(crate) struct Seen {
    pub(crate) status: u16,
    head: String,
    pub(crate) html: String,
}

impl Browser {
    fn new(server: &Server) -> Browser {
        Browser { address: server.address(), cookie: None }
    }

    /// Signs in by the one-time link that the operator gets at the command line.
    #[track_caller]
    pub(crate) fn signed_in(bench: &Bench, server: &Server) -> Browser {
        Browser::by_link(bench, server, serde_json::json!({}))
    }

    /// Signs in as another person.
    #[track_caller]
    fn of(bench: &Bench, server: &Server, person: &str) -> Browser {
        Browser::by_link(bench, server, serde_json::json!({"person": person}))
    }

    #[track_caller]
    fn by_link(bench: &Bench, server: &Server, asked: serde_json::Value) -> Browser {
        let link = bench.post("/api/login-links", asked).ok();
        let code = link["url"].as_str().unwrap().rsplit('/').next().unwrap().to_owned();
        let mut browser = Browser::new(server);
        let seen = browser.submit("/api/login", &[("code", &code)]);
        let set = seen.header("set-cookie").unwrap();
        browser.cookie = Some(set.split(';').next().unwrap().to_owned());
        browser
    }

    pub(crate) fn get(&self, path: &str) -> Seen {
        self.ask("GET", path, "Sec-Fetch-Site: same-origin\r\n", "")
    }

    /// Asks for parts of a page, as its script does.
    fn part(&self, path: &str, ids: &str) -> Seen {
        let headers = format!("Sec-Fetch-Site: same-origin\r\nWb-Fragment: {ids}\r\n");
        self.ask("GET", path, &headers, "")
    }

    /// Opens a page that must be there.
    #[track_caller]
    pub(crate) fn page(&self, path: &str) -> String {
        let seen = self.get(path);
        assert_eq!(seen.status, 200, "{path}: {}", seen.html);
        assert!(seen.header("content-type").unwrap().starts_with("text/html"), "{path}");
        let scripts = seen.html.matches("<script").count();
        let ours = seen.html.matches("<script type=\"module\" src=\"/assets/").count();
        assert!(scripts == ours && !seen.html.contains(" style="), "{path}");
        seen.html
    }

    pub(crate) fn submit(&self, path: &str, fields: &[(&str, &str)]) -> Seen {
        self.submit_from("same-origin", path, fields)
    }

    fn submit_from(&self, site: &str, path: &str, fields: &[(&str, &str)]) -> Seen {
        let body = serde_urlencoded::to_string(fields).unwrap();
        let headers = format!(
            "Sec-Fetch-Site: {site}\r\nAccept: text/html,*/*;q=0.8\r\n\
             Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {}\r\n",
            body.len()
        );
        self.ask("POST", path, &headers, &body)
    }

    /// Submits the form of a page that leads to `action`, with what the page put into it and what a
    /// person enters; returns where it leads.
    #[track_caller]
    fn fill(&self, page: &str, action: &str, entered: &[(&str, &str)]) -> String {
        let seen = self.try_fill(page, action, entered);
        assert_eq!(seen.status, 303, "{action}: {}", seen.html);
        seen.header("location").unwrap().to_owned()
    }

    #[track_caller]
    fn try_fill(&self, page: &str, action: &str, entered: &[(&str, &str)]) -> Seen {
        let html = self.page(page);
        let hidden = hidden_fields(&html, action);
        let mut fields: Vec<(&str, &str)> =
            hidden.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        fields.extend_from_slice(entered);
        self.submit(action, &fields)
    }

    fn ask(&self, method: &str, path: &str, headers: &str, body: &str) -> Seen {
        let cookie = self.cookie.as_ref().map(|it| format!("Cookie: {it}\r\n")).unwrap_or_default();
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\
             {cookie}{headers}\r\n{body}",
            self.address
        );
        let answer = raw(self.address, request.as_bytes());
        let text = String::from_utf8(answer).unwrap();
        let (head, html) = text.split_once("\r\n\r\n").unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        Seen { status, head: head.to_owned(), html: html.to_owned() }
    }
}

impl Seen {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.lines().filter_map(|it| it.split_once(": "));
        lines.find(|(it, _)| it.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }
}

/// Returns what the form with this action holds without being shown.
#[track_caller]
pub(crate) fn hidden_fields(html: &str, action: &str) -> Vec<(String, String)> {
    let start = html.find(&format!("action=\"{action}\"")).unwrap_or_else(|| panic!("{action}"));
    let form = &html[start..start + html[start..].find("</form>").unwrap()];
    let inputs = form.split("<input type=\"hidden\" name=\"").skip(1);
    let value = |text: &str| {
        let (name, rest) = text.split_once("\" value=\"").unwrap();
        (name.to_owned(), unescape(rest.split_once('"').unwrap().0))
    };
    inputs.map(value).collect()
}

fn unescape(text: &str) -> String {
    let text = text.replace("&#60;", "<").replace("&#62;", ">").replace("&#34;", "\"");
    text.replace("&#39;", "'").replace("&#38;", "&")
}
