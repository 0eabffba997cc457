//! The pages for signing in and for errors.

use askama::Template;
use hyper::StatusCode;

use crate::documents::{NOT_A_SOURCE, SOURCE_GONE};
use crate::http::access::gate::NO_ROUTE;
use crate::http::access::origin::CROSS_ORIGIN;
use crate::http::access::who::PERSON_MISMATCH;
use crate::http::pages::{Frame, Name, Plain, Visible};
use crate::http::reply::Aside;
use crate::http::server::body::UNKNOWN_PARAMETER;
use crate::people::BAD_CODE;
use crate::store::idempotency::IDEMPOTENCY_CONFLICT;

/// The page behind a login link: one button.
#[derive(Template)]
#[template(path = "login.html")]
pub(in crate::http) struct LoginPage<'a> {
    pub(in crate::http) frame: Frame,
    pub(in crate::http) code: &'a str,
}

/// The page for a browser without a session.
#[derive(Template)]
#[template(path = "signin.html")]
pub(in crate::http) struct SignInPage {
    pub(in crate::http) frame: Frame,
}

/// An error for a person.
#[derive(Template)]
#[template(path = "error.html")]
pub(in crate::http) struct ErrorPage<'a> {
    pub(in crate::http) frame: Frame,
    pub(in crate::http) status: u16,
    /// The error's code, for the modules of pages.
    pub(in crate::http) code: &'a str,
    pub(in crate::http) heading: &'static str,
    pub(in crate::http) message: &'a str,
    pub(in crate::http) hint: Option<&'a str>,
    pub(in crate::http) request_id: Option<&'a str>,
    /// Where to go from here, and the text of the form that failed.
    pub(in crate::http) aside: &'a Aside,
}

impl ErrorPage<'_> {
    /// Returns the heading for an error.
    pub(in crate::http) fn heading_of(code: &str, status: StatusCode) -> &'static str {
        match status.as_u16() {
            _ if code == BAD_CODE => "This link no longer works",
            401 => "Sign in",
            403 => "Not allowed",
            404 => "Page not found",
            405 => "Method not allowed",
            409 => "Conflict with the current state",
            413 => "Too large",
            421 => "Wrong address for this site",
            429 => "Too many requests",
            503 => "Temporarily unavailable",
            400..=499 => "Bad request",
            _ => "Something went wrong",
        }
    }
}

/// Returns the hint of an error for a person at a page: hints about routes and headers are for
/// programs.
pub(in crate::http) fn hint_of<'a>(code: &str, hint: Option<&'a str>) -> Option<&'a str> {
    match code {
        UNKNOWN_PARAMETER => Some("remove it from the address"),
        NO_ROUTE => Some("check the address, or search for the page you expected"),
        SOURCE_GONE | NOT_A_SOURCE if hint.is_some_and(|it| it.contains("source list")) => {
            Some("browse the documents, or search for its text")
        }
        // A link to its new name or its history is shown below.
        SOURCE_GONE
            if hint.is_some_and(|it| it.contains("ask for ") || it.contains("source history")) =>
        {
            None
        }
        IDEMPOTENCY_CONFLICT => {
            Some("what you sent before has arrived: go back, and send what is new in it")
        }
        PERSON_MISMATCH => Some("reload the page to go on as them"),
        CROSS_ORIGIN => Some("open the site itself and try again there"),
        _ => hint,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::pages::Look;

    #[test]
    fn what_others_wrote_is_text() {
        let page = ErrorPage {
            frame: Frame::outside("<b>site</b>", Look::default()),
            status: 404,
            code: "not_found",
            heading: "Page not found",
            message: "nothing at /<script>alert(1)</script>\"'",
            hint: Some("<img src=x onerror=alert(1)>"),
            request_id: None,
            aside: &Aside {
                more: vec![("/\"><script>".to_owned(), "See it")],
                moved: Some(("\"><script>".to_owned(), "\"><b>".to_owned())),
                back: "/\"><script>".to_owned(),
                way: "Go back",
                typed: Some("</textarea><script>".to_owned()),
                live: Some("\"><script>".to_owned()),
            },
        };
        let html = page.render().unwrap();
        for hostile in ["<script>", "<img", "<b>"] {
            assert!(!html.contains(hostile), "{html}");
        }
        let page = LoginPage { frame: Frame::outside("s", Look::default()), code: "\"><script>" };
        assert!(!page.render().unwrap().contains("<script>"));
    }
}
