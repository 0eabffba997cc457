//! LinkedIn's refusals as our own codes.

use serde::Deserialize;

use crate::base::{Error, ErrorKind, Millis, truncate_chars};
use crate::outbound::Failure;

/// The code of a person who is not connected.
pub const LINKEDIN_SIGNED_OUT: &str = "linkedin_signed_out";
/// The code of a request to publish whose outcome is unknown.
pub const LINKEDIN_UNKNOWN: &str = "linkedin_unknown";

/// Most characters shown of LinkedIn's message.
const MESSAGE_CHARS_MAX: usize = 300;
/// A day, after which LinkedIn's limits reset.
const DAY_MS: i64 = 24 * 60 * 60 * 1_000;

/// What a request does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Doing {
    /// It publishes something.
    Publishing,
    /// It reads comments.
    Reading,
}

/// What LinkedIn says of a request that it refuses. A page about an error says nothing.
#[derive(Default, Deserialize)]
struct Refusal {
    message: Option<String>,
    code: Option<String>,
}

/// Returns the error for a person whose sign-in is missing or no longer valid.
pub fn signed_out(why: &str) -> Error {
    Error::new(ErrorKind::Forbidden, why)
        .code(LINKEDIN_SIGNED_OUT)
        .hint("the person connects LinkedIn on the page /linkedin")
}

/// Returns the error for a status.
pub(super) fn of_status(doing: Doing, status: u16, body: &str, now: Millis) -> Error {
    let told: Refusal = serde_json::from_str(body).unwrap_or_default();
    let said = told.message.as_deref().unwrap_or_default().trim();
    let said = match said.is_empty() {
        true => format!("status {status}"),
        false => truncate_chars(said, MESSAGE_CHARS_MAX),
    };
    let is_duplicate = || {
        told.code.as_deref().is_some_and(|code| code.contains("DUPLICATE"))
            || said.to_ascii_lowercase().contains("duplicate")
    };
    match (status, doing) {
        (401, _) => signed_out("LinkedIn no longer accepts the sign-in"),
        (403, Doing::Reading) => {
            Error::new(ErrorKind::Forbidden, "your LinkedIn app may not read comments")
                .code("linkedin_permission")
                .hint(
                    "it needs the permission r_member_social, which LinkedIn grants to few apps; \
                     posting works without it",
                )
        }
        (403, Doing::Publishing) => {
            Error::new(ErrorKind::Forbidden, format!("LinkedIn refused this: {said}"))
                .code("linkedin_permission")
                .hint(
                    "the app needs the permission w_member_social (product \"Share on LinkedIn\"); \
                     after adding it, connect LinkedIn again",
                )
        }
        (422, _) if is_duplicate() => {
            Error::conflict("linkedin_duplicate", "LinkedIn has this text already")
                .hint("change the text, or leave it")
        }
        (426, _) => Error::unavailable(format!("LinkedIn no longer has this version: {said}"))
            .code("linkedin_version")
            .hint("an admin sets a newer `version` in `linkedin` of wb.assistant"),
        (429, _) => {
            let midnight = Millis((now.0.div_euclid(DAY_MS) + 1).saturating_mul(DAY_MS));
            let until = midnight.minute();
            let message = format!("LinkedIn's daily limit is reached until {until} UTC");
            Error::new(ErrorKind::Busy, message)
                .code("linkedin_limit")
                .hint("try again after that; nothing was published")
        }
        (500.., Doing::Publishing) => unknown(&said),
        (500.., Doing::Reading) => unreachable(&said),
        _ => Error::invalid(format!("LinkedIn refused this: {said}"))
            .code("linkedin_refused")
            .hint("nothing was published; correct the call"),
    }
}

/// Returns the error for a connection error.
pub(super) fn of_failure(doing: Doing, failure: &Failure) -> Error {
    let why = match failure {
        Failure::Unconnected(why) => return unreachable(why),
        Failure::Unmade(why) => {
            let why = truncate_chars(why, MESSAGE_CHARS_MAX);
            return Error::internal(format!("LinkedIn cannot be asked: {why}"));
        }
        Failure::Lost(why) => why.as_str(),
        Failure::Silent => "no answer in time",
        Failure::TooLarge => "the answer is too large",
    };
    match doing {
        Doing::Publishing => unknown(why),
        Doing::Reading => unreachable(why),
    }
}

fn unreachable(why: &str) -> Error {
    let why = truncate_chars(why, MESSAGE_CHARS_MAX);
    Error::unavailable(format!("LinkedIn cannot be reached: {why}"))
        .code("linkedin_unreachable")
        .hint("try again later")
}

fn unknown(why: &str) -> Error {
    let why = truncate_chars(why, MESSAGE_CHARS_MAX);
    Error::unavailable(format!("LinkedIn did not confirm this ({why}), but may have published it"))
        .code(LINKEDIN_UNKNOWN)
        .hint("it is not sent again; the person looks at LinkedIn before it is tried again")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_has_one_code() {
        let of = |doing, status, body: &str| {
            of_status(doing, status, body, Millis(0)).code_str().to_owned()
        };
        for (status, body, publishing, reading) in [
            (401, "{}", LINKEDIN_SIGNED_OUT, LINKEDIN_SIGNED_OUT),
            (403, "{}", "linkedin_permission", "linkedin_permission"),
            (422, r#"{"code":"DUPLICATE_POST"}"#, "linkedin_duplicate", "linkedin_duplicate"),
            (422, r#"{"message":"too long"}"#, "linkedin_refused", "linkedin_refused"),
            (404, "<html>", "linkedin_refused", "linkedin_refused"),
            (302, "", "linkedin_refused", "linkedin_refused"),
            (426, "{}", "linkedin_version", "linkedin_version"),
            (429, "{}", "linkedin_limit", "linkedin_limit"),
            (500, "{}", LINKEDIN_UNKNOWN, "linkedin_unreachable"),
            (503, "", LINKEDIN_UNKNOWN, "linkedin_unreachable"),
        ] {
            assert_eq!(of(Doing::Publishing, status, body), publishing, "{status} {body}");
            assert_eq!(of(Doing::Reading, status, body), reading, "{status} {body}");
        }
        // 2026-11-26 13:00.
        let limit = of_status(Doing::Publishing, 429, "", Millis(1_795_698_000_000));
        let expected = "LinkedIn's daily limit is reached until 2026-11-27 00:00 UTC";
        assert_eq!(limit.message(), expected);
    }

    #[test]
    fn what_was_not_sent_was_not_published() {
        let of = |doing, failure| of_failure(doing, &failure).code_str().to_owned();
        let unconnected = Failure::Unconnected("refused".to_owned());
        assert_eq!(of(Doing::Publishing, unconnected), "linkedin_unreachable");
        for failure in [Failure::Lost("cut".to_owned()), Failure::Silent, Failure::TooLarge] {
            assert_eq!(of(Doing::Publishing, failure.clone()), LINKEDIN_UNKNOWN, "{failure:?}");
            assert_eq!(of(Doing::Reading, failure), "linkedin_unreachable");
        }
    }
}
