//! The pages of the machinery itself: signing in, and errors.

use askama::Template;
use hyper::StatusCode;

/// The page behind a login link: one button.
#[derive(Template)]
#[template(path = "login.html")]
pub(super) struct LoginPage<'a> {
    pub(super) site_name: &'a str,
    pub(super) code: &'a str,
}

/// An error for a person.
#[derive(Template)]
#[template(path = "error.html")]
pub(super) struct ErrorPage<'a> {
    pub(super) site_name: &'a str,
    pub(super) status: u16,
    pub(super) heading: &'static str,
    pub(super) message: &'a str,
    pub(super) hint: Option<&'a str>,
    pub(super) request_id: Option<&'a str>,
}

impl ErrorPage<'_> {
    /// Returns what a status means to a person.
    pub(super) fn heading_of(status: StatusCode) -> &'static str {
        match status.as_u16() {
            401 => "Sign in first",
            403 => "That is not allowed",
            404 => "There is nothing here",
            405 => "That does not work here",
            409 => "That does not fit the present state",
            413 => "That is too large",
            421 => "This is not the site you asked for",
            429 => "Too much at once",
            503 => "Not available at the moment",
            400..=499 => "The request is wrong",
            _ => "Something went wrong here",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_wrote_is_text() {
        let page = ErrorPage {
            site_name: "<b>site</b>",
            status: 404,
            heading: "There is nothing here",
            message: "nothing at /<script>alert(1)</script>\"'",
            hint: Some("<img src=x onerror=alert(1)>"),
            request_id: None,
        };
        let html = page.render().unwrap();
        for hostile in ["<script>", "<img", "<b>"] {
            assert!(!html.contains(hostile), "{html}");
        }
        let page = LoginPage { site_name: "s", code: "\"><script>" };
        assert!(!page.render().unwrap().contains("<script>"));
    }
}
