//! The names that LinkedIn gives to posts and comments.

use std::fmt;
use std::str::FromStr;

use serde::Deserialize;

use crate::base::{Error, Result};

/// Longest name, in bytes.
const BYTES_MAX: usize = 200;
/// What a post may be.
const POSTS: [&str; 3] = ["urn:li:share:", "urn:li:ugcPost:", "urn:li:activity:"];

/// A post: `urn:li:share:1`, `urn:li:ugcPost:1` or `urn:li:activity:1`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct PostUrn(String);

/// A comment: `urn:li:comment:(POST,1)`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct CommentUrn {
    whole: String,
    post: PostUrn,
}

impl CommentUrn {
    /// Returns the commented post.
    pub fn post(&self) -> &PostUrn {
        &self.post
    }
}

fn wrong(what: &str, example: &str) -> Error {
    Error::invalid(format!("this is not the URN of a {what}"))
        .code("bad_urn")
        .hint(format!("it looks like {example}"))
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|it| it.is_ascii_digit())
}

impl FromStr for PostUrn {
    type Err = Error;

    fn from_str(text: &str) -> Result<PostUrn> {
        let number = POSTS.iter().find_map(|it| text.strip_prefix(it));
        match number.is_some_and(is_number) && text.len() <= BYTES_MAX {
            true => Ok(PostUrn(text.to_owned())),
            false => Err(wrong("post", "urn:li:share:7000000000000000000")),
        }
    }
}

impl FromStr for CommentUrn {
    type Err = Error;

    fn from_str(text: &str) -> Result<CommentUrn> {
        let inner = text.strip_prefix("urn:li:comment:(").and_then(|it| it.strip_suffix(')'));
        let parts = inner.and_then(|it| it.rsplit_once(','));
        let post = parts.filter(|it| is_number(it.1)).and_then(|it| it.0.parse().ok());
        match post.filter(|_| text.len() <= BYTES_MAX) {
            Some(post) => Ok(CommentUrn { whole: text.to_owned(), post }),
            None => Err(wrong("comment", "urn:li:comment:(urn:li:activity:7000000000000000000,1)")),
        }
    }
}

impl TryFrom<String> for PostUrn {
    type Error = Error;

    fn try_from(text: String) -> Result<PostUrn> {
        text.parse()
    }
}

impl TryFrom<String> for CommentUrn {
    type Error = Error;

    fn try_from(text: String) -> Result<CommentUrn> {
        text.parse()
    }
}

impl fmt::Display for PostUrn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for CommentUrn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.whole)
    }
}

/// Returns a URN as a segment of a path.
pub(super) fn segment(urn: &impl fmt::Display) -> String {
    let urn = urn.to_string();
    urn.replace(':', "%3A").replace('(', "%28").replace(')', "%29").replace(',', "%2C")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_urn_leads_to_no_other_path() {
        for text in ["urn:li:share:1", "urn:li:ugcPost:7300", "urn:li:activity:2"] {
            assert_eq!(text.parse::<PostUrn>().unwrap().to_string(), text);
        }
        for text in
            ["", "urn:li:share:", "urn:li:share:1/..", "urn:li:person:1", "urn:li:share:１", "1"]
        {
            assert_eq!(text.parse::<PostUrn>().unwrap_err().code_str(), "bad_urn", "{text}");
        }
        let comment: CommentUrn = "urn:li:comment:(urn:li:activity:2,3)".parse().unwrap();
        assert_eq!(comment.post().to_string(), "urn:li:activity:2");
        assert_eq!(segment(&comment), "urn%3Ali%3Acomment%3A%28urn%3Ali%3Aactivity%3A2%2C3%29");
        for text in
            ["urn:li:comment:(2,3)", "urn:li:comment:(urn:li:activity:2,)", "urn:li:share:1"]
        {
            assert_eq!(text.parse::<CommentUrn>().unwrap_err().code_str(), "bad_urn", "{text}");
        }
    }
}
