//! Forms: read, answered by a redirect, and on refusal never losing what was typed.

use warp::reply::Response;

use crate::base::{Error, Result, TopicId};
use crate::http::reply::{self, Aside};

/// Where a form of a Topic leads if the Topic no longer exists.
pub(in crate::http::pages) const TOPICS: &str = "/topics";

/// Returns a field's text with its original line breaks: browsers send each as `\r
/// `.
pub(in crate::http::pages) fn text(field: &str) -> String {
    field.replace("\r\n", "\n").replace('\r', "\n")
}

/// Returns the text of an optional field.
pub(in crate::http::pages) fn optional(field: &str) -> Option<String> {
    let text = text(field).trim().to_owned();
    (!text.is_empty()).then_some(text)
}

/// Redirects the browser to what a form created, or shows the error with a link back and the typed
/// text.
///
/// # Errors
/// `internal` if an address cannot be written.
pub(in crate::http::pages) fn answer<T>(
    outcome: Result<T>,
    to: impl FnOnce(T) -> String,
    back: String,
    typed: Option<String>,
) -> Result<Response> {
    match outcome {
        Ok(made) => reply::see_other(&to(made)),
        Err(error) => {
            let way = if back == TOPICS { "View other Topics" } else { "Go back" };
            Ok(reply::failed_form(error, Aside { back, way, typed, ..Aside::default() }))
        }
    }
}

/// Returns where a form about a job leads back to, if it is on the board or on a Topic's page.
///
/// # Errors
/// `invalid` for the address of anything else.
pub(in crate::http::pages) fn back(sent: Option<String>, otherwise: String) -> Result<String> {
    let Some(at) = sent else { return Ok(otherwise) };
    let is_topic = at.strip_prefix("/topics/").is_some_and(|it| it.parse::<TopicId>().is_ok());
    if at == "/jobs" || at.starts_with("/jobs?") || is_topic {
        return Ok(at);
    }
    Err(Error::invalid("`back` is not the address of the board or of a Topic"))
}

/// Returns the address of a document's page.
pub(in crate::http) fn document_at(path: &str) -> String {
    format!("/d/{}", encoded(path))
}

/// Returns the `data-live` value of an element that shows something about a Source.
pub(in crate::http::pages) fn source_subject(path: &str) -> String {
    format!("source:{}", encoded(path))
}

/// Returns words as a text fragment, by which a browser finds them in a page.
pub(in crate::http::pages) fn fragment(words: &str) -> String {
    // A hyphen has a meaning in text fragments.
    encoded(words).replace('-', "%2D")
}

/// Returns the number in a field.
///
/// # Errors
/// `invalid` with code `bad_parameter`.
pub(in crate::http::pages) fn number(text: &str) -> Result<i64> {
    text.parse().map_err(|_| {
        Error::invalid(format!("`{}` is not a number", text.escape_debug())).code("bad_parameter")
    })
}

/// Returns a path with everything but plain characters and slashes percent-encoded.
fn encoded(path: &str) -> String {
    let mut encoded = String::new();
    for byte in path.bytes() {
        match byte {
            b'/' | b'-' | b'.' | b'_' | b'~' => encoded.push(char::from(byte)),
            it if it.is_ascii_alphanumeric() => encoded.push(char::from(it)),
            it => {
                const HEX: &[u8; 16] = b"0123456789ABCDEF";
                encoded.push('%');
                encoded.push(char::from(HEX[usize::from(it >> 4)]));
                encoded.push(char::from(HEX[usize::from(it & 15)]));
            }
        }
    }
    encoded
}

/// Returns an address with the parameters that have a value.
pub(in crate::http::pages) fn address(path: &str, query: &[(&str, Option<&str>)]) -> String {
    let given: Vec<_> = query.iter().filter_map(|(name, value)| Some((*name, (*value)?))).collect();
    match serde_urlencoded::to_string(given) {
        Ok(query) if !query.is_empty() => format!("{path}?{query}"),
        _ => path.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_breaks_of_a_browser_become_line_feeds() {
        assert_eq!(text("a\r\nb\rc\n\r\n"), "a\nb\nc\n\n");
        assert_eq!(optional(" \r\n"), None);
        assert_eq!(optional(" x\r\ny "), Some("x\ny".to_owned()));
    }

    #[test]
    fn a_form_leads_back_to_the_board_or_a_topic_alone() {
        let job = || "/jobs/1".to_owned();
        assert_eq!(back(None, job()).unwrap(), "/jobs/1");
        let topic = "/topics/01a20055-89de-75bf-86a4-afa25662a97d";
        for at in ["/jobs", "/jobs?kind=a", topic] {
            assert_eq!(back(Some(at.to_owned()), job()).unwrap(), at);
        }
        for at in [
            "//evil.example",
            "https://evil.example/jobs",
            "/jobsx",
            "",
            "/jobs/../x",
            "/topics/../x",
            "/topics/",
            "/topics//evil.example",
        ] {
            assert!(back(Some(at.to_owned()), job()).is_err(), "{at}");
        }
    }

    #[test]
    fn an_address_carries_any_path() {
        assert_eq!(document_at("a b/ü?#%\".md"), "/d/a%20b/%C3%BC%3F%23%25%22.md");
        assert_eq!(document_at("javascript:alert(1)"), "/d/javascript%3Aalert%281%29");
        let given = [("status", Some("open")), ("after", None), ("q", Some("a&b"))];
        assert_eq!(address("/topics", &given), "/topics?status=open&q=a%26b");
        assert_eq!(address("/topics", &[("after", None)]), "/topics");
    }
}
