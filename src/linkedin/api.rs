//! Requests to LinkedIn in a person's name.

use std::time::Duration;

use bytes::Bytes;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::base::{Error, Millis, Result, truncate_chars};
use crate::linkedin::account::Account;
use crate::linkedin::base;
use crate::linkedin::fault::{self, Doing};
use crate::linkedin::urn::{CommentUrn, PostUrn, segment};
use crate::outbound::{Body, Client, Failure, Request};

/// The host of the API.
pub(super) const API: &str = "api.linkedin.com";
/// Longest wait for an answer, and for the next piece of it.
pub(super) const WAIT: Duration = Duration::from_secs(30);
/// Largest answer, in bytes.
pub(super) const ANSWER_BYTES_MAX: usize = 1024 * 1024;
/// How often reading is tried, and the first pause in between.
const TRIES: u32 = 3;
const PAUSE: Duration = Duration::from_millis(300);
/// Most comments that are read.
const COMMENTS_MAX: usize = 100;
/// Longest text that is published, in characters.
const TEXT_CHARS_MAX: usize = 3_000;
/// Characters with a meaning in the text of a post.
const RESERVED: &str = "|{}@[]()<>#\\*_~";

/// Sends a person's requests.
#[derive(Clone, Copy, Debug)]
pub struct Api<'a> {
    /// The connections.
    pub client: &'a Client,
    /// The version of LinkedIn's interface, `YYYYMM`.
    pub version: &'a str,
    /// The time.
    pub now: Millis,
}

/// What is published.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Publish {
    /// A post.
    Post(String),
    /// A comment on a post.
    Comment(PostUrn, String),
    /// A reply to a comment.
    Reply(CommentUrn, String),
}

/// A comment on a post.
#[derive(Clone, Debug)]
pub struct Comment {
    /// Its URN.
    pub urn: String,
    /// The URN of its author, if LinkedIn tells it.
    pub author: Option<String>,
    /// Its text.
    pub text: String,
    /// When it was written.
    pub at: Option<Millis>,
    /// The comment that it replies to.
    pub reply_to: Option<String>,
}

/// The comments on a post.
#[derive(Clone, Debug)]
pub struct Comments {
    /// The first ones.
    pub items: Vec<Comment>,
    /// Whether there are more.
    pub is_cut: bool,
}

struct Reply {
    status: u16,
    id: Option<String>,
    body: String,
}

impl Publish {
    /// Returns what is published, if LinkedIn can take it.
    ///
    /// # Errors
    /// `invalid` with code `bad_text`.
    pub fn checked(self) -> Result<Publish> {
        let chars = self.text().chars().count();
        let is_odd = |it: char| it.is_control() && !matches!(it, '\n' | '\t');
        if self.text().trim().is_empty() || chars > TEXT_CHARS_MAX || self.text().contains(is_odd) {
            let message = format!("the text has {chars} characters, or a control character");
            return Err(Error::invalid(message)
                .code("bad_text")
                .hint(format!("LinkedIn takes 1 to {TEXT_CHARS_MAX} characters")));
        }
        Ok(self)
    }

    /// Returns the text.
    pub fn text(&self) -> &str {
        match self {
            Publish::Post(text) | Publish::Comment(_, text) | Publish::Reply(_, text) => text,
        }
    }

    /// Returns the path of the request and its body.
    fn request(&self, account: &Account) -> (String, Value) {
        let comments = |on: String| format!("/rest/socialActions/{on}/comments");
        match self {
            Publish::Post(text) => {
                let distribution = json!({
                    "feedDistribution": "MAIN_FEED", "targetEntities": [],
                    "thirdPartyDistributionChannels": [],
                });
                let body = json!({
                    "author": account.urn, "commentary": escaped(text), "visibility": "PUBLIC",
                    "distribution": distribution, "lifecycleState": "PUBLISHED",
                    "isReshareDisabledByAuthor": false,
                });
                ("/rest/posts".to_owned(), body)
            }
            Publish::Comment(post, text) => {
                let message = json!({"text": text});
                let body =
                    json!({"actor": account.urn, "object": post.to_string(), "message": message});
                (comments(segment(post)), body)
            }
            Publish::Reply(comment, text) => {
                let body = json!({
                    "actor": account.urn, "object": comment.post().to_string(),
                    "message": {"text": text}, "parentComment": comment.to_string(),
                });
                (comments(segment(comment)), body)
            }
        }
    }
}

/// Returns the text of a post as LinkedIn wants it. A hashtag stays one.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    let mut letters = text.chars().peekable();
    let mut is_in_word = false;
    while let Some(it) = letters.next() {
        let is_tag =
            it == '#' && !is_in_word && letters.peek().is_some_and(|it| it.is_alphanumeric());
        if RESERVED.contains(it) && !is_tag {
            escaped.push('\\');
        }
        escaped.push(it);
        is_in_word = it.is_alphanumeric() || RESERVED.contains(it);
    }
    escaped
}

impl Api<'_> {
    /// Publishes something, and returns its URN. It is never sent again.
    ///
    /// # Errors
    /// Codes `linkedin_signed_out`, `linkedin_permission`, `linkedin_duplicate`,
    /// `linkedin_refused`, `linkedin_version`, `linkedin_limit`, `linkedin_unreachable` if nothing
    /// was sent, and `linkedin_unknown` if it may be published.
    pub async fn publish(&self, account: &Account, what: &Publish) -> Result<String> {
        let (path, body) = what.request(account);
        let sent = self.send(account, &path, Body::Json(Bytes::from(body.to_string()))).await;
        let reply = sent.map_err(|it| fault::of_failure(Doing::Publishing, &it))?;
        if !(200..300).contains(&reply.status) {
            return Err(self.refused(Doing::Publishing, &reply));
        }
        // It is published, whatever the body holds.
        let told: Published = serde_json::from_str(&reply.body).unwrap_or_default();
        let urn = told.comment_urn.or(told.urn).or(reply.id).unwrap_or_default();
        Ok(truncate_chars(&urn, 200))
    }

    /// Returns the comments on a post.
    ///
    /// # Errors
    /// As [`Api::publish`], without `linkedin_unknown`.
    pub async fn comments(&self, account: &Account, post: &PostUrn) -> Result<Comments> {
        let count = COMMENTS_MAX;
        let path = format!("/rest/socialActions/{}/comments?start=0&count={count}", segment(post));
        let reply = self.read(account, &path).await?;
        let told: CommentPage = parsed(&reply.body)?;
        let found = told.elements.len();
        let items: Vec<Comment> =
            told.elements.into_iter().take(COMMENTS_MAX).map(Comment::from).collect();
        let is_cut = told.paging.total > items.len() as u64 || found > items.len();
        Ok(Comments { items, is_cut })
    }

    /// Reads, again after a passing error.
    async fn read(&self, account: &Account, path: &str) -> Result<Reply> {
        let mut tries = 1;
        loop {
            let passing = match self.send(account, path, Body::Nothing).await {
                Ok(reply) if reply.status == 200 => return Ok(reply),
                Ok(reply) if reply.status < 500 => {
                    return Err(self.refused(Doing::Reading, &reply));
                }
                Ok(reply) => self.refused(Doing::Reading, &reply),
                Err(failure) => fault::of_failure(Doing::Reading, &failure),
            };
            if tries == TRIES {
                return Err(passing);
            }
            tokio::time::sleep(PAUSE * tries).await;
            tries += 1;
        }
    }

    /// Returns the account behind a token: its URN, and the person's name.
    pub(super) async fn whoami(&self, token: &str) -> Result<(String, String)> {
        let account = Account {
            token: token.to_owned(),
            urn: String::new(),
            name: String::new(),
            scopes: Vec::new(),
            expires_at: self.now,
            is_refused: false,
        };
        let reply = self.read(&account, "/v2/userinfo").await?;
        let told: UserInfo = parsed(&reply.body)?;
        let is_word = |it: &String| {
            let is_plain = |it: u8| it.is_ascii_alphanumeric() || matches!(it, b'-' | b'_');
            (1..=100).contains(&it.len()) && it.bytes().all(is_plain)
        };
        let Some(sub) = told.sub.filter(is_word) else {
            return Err(Error::unavailable("LinkedIn does not say who signed in")
                .code("linkedin_unreachable")
                .hint("the app needs the product \"Sign In with LinkedIn using OpenID Connect\""));
        };
        let name = truncate_chars(told.name.as_deref().unwrap_or(&sub), 100);
        Ok((format!("urn:li:person:{sub}"), name))
    }

    async fn send(
        &self,
        account: &Account,
        path: &str,
        body: Body,
    ) -> std::result::Result<Reply, Failure> {
        let base = base(API).map_err(|cause| Failure::Unmade(cause.chain()))?;
        let bearer = format!("Bearer {}", account.token);
        let request = Request {
            base: &base,
            path,
            headers: &[
                ("linkedin-version", self.version),
                ("x-restli-protocol-version", "2.0.0"),
                ("accept", "application/json"),
            ],
            secret: Some(("authorization", &bearer)),
            body,
        };
        let answer = self.client.send(&request, WAIT).await?;
        let (status, id) = (answer.status(), answer.header("x-restli-id").map(str::to_owned));
        let body = match answer.text(ANSWER_BYTES_MAX, WAIT).await {
            Ok(body) => body,
            // The status says what happened; only reading needs the body.
            Err(_) if !matches!(request.body, Body::Nothing) => String::new(),
            Err(failure) => return Err(failure),
        };
        Ok(Reply { status, id, body })
    }

    fn refused(&self, doing: Doing, reply: &Reply) -> Error {
        fault::of_status(doing, reply.status, &reply.body, self.now)
    }
}

/// Parses an answer, which is not trusted.
pub(super) fn parsed<T: DeserializeOwned>(body: &str) -> Result<T> {
    serde_json::from_str(body).map_err(|cause| {
        Error::unavailable("LinkedIn's answer cannot be read")
            .code("linkedin_unreachable")
            .hint("try again later")
            .source(cause)
    })
}

/// The answer to `GET /v2/userinfo`.
#[derive(Deserialize)]
struct UserInfo {
    sub: Option<String>,
    name: Option<String>,
}

/// The answer to what was published: of a comment its URN, of a post nothing.
#[derive(Default, Deserialize)]
struct Published {
    #[serde(rename = "commentUrn")]
    comment_urn: Option<String>,
    #[serde(rename = "$URN")]
    urn: Option<String>,
}

/// The answer to `GET /rest/socialActions/…/comments`.
#[derive(Deserialize)]
struct CommentPage {
    #[serde(default)]
    elements: Vec<Element>,
    #[serde(default)]
    paging: Paging,
}

#[derive(Default, Deserialize)]
struct Paging {
    #[serde(default)]
    total: u64,
}

/// A comment.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Element {
    comment_urn: Option<String>,
    #[serde(rename = "$URN")]
    urn: Option<String>,
    id: Option<String>,
    actor: Option<String>,
    message: Option<Words>,
    created: Option<Stamp>,
    parent_comment: Option<String>,
}

#[derive(Deserialize)]
struct Words {
    text: Option<String>,
}

#[derive(Deserialize)]
struct Stamp {
    time: Option<i64>,
}

impl From<Element> for Comment {
    fn from(it: Element) -> Comment {
        let cut = |it: String| truncate_chars(&it, TEXT_CHARS_MAX);
        Comment {
            urn: it.comment_urn.or(it.urn).or(it.id).map(cut).unwrap_or_default(),
            author: it.actor.map(cut),
            text: it.message.and_then(|it| it.text).map(cut).unwrap_or_default(),
            at: it.created.and_then(|it| it.time).map(Millis),
            reply_to: it.parent_comment.map(cut),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_hashtags_have_a_meaning_in_a_post() {
        for (text, expected) in [
            ("Plain words, 1+1=2.", "Plain words, 1+1=2."),
            ("#one and #zwei, (#drei)", "#one and #zwei, \\(\\#drei\\)"),
            ("a#b C# # ##x", "a\\#b C\\# \\# \\#\\#x"),
            ("@[Ada](urn:li:person:1)", "\\@\\[Ada\\]\\(urn:li:person:1\\)"),
            ("{hashtag|\\#|x} <b> *_~", "\\{hashtag\\|\\\\\\#\\|x\\} \\<b\\> \\*\\_\\~"),
        ] {
            assert_eq!(escaped(text), expected, "{text}");
        }
    }

    #[test]
    fn comments_are_read_and_what_is_none_is_refused() {
        let comments = |body: &str| {
            let page: CommentPage = parsed(body)?;
            Ok(page.elements.into_iter().map(Comment::from).collect::<Vec<_>>())
        };
        let read: Result<Vec<Comment>> = comments(
            r#"{"elements": [
                {"$URN": "u", "actor": "a", "message": {"text": "Nice", "more": []},
                 "created": {"time": 5, "by": 1}, "parentComment": "p", "other": {}},
                {"id": "9", "message": null, "created": {}}]}"#,
        );
        let read = read.unwrap();
        let of = |it: &Comment| (it.urn.clone(), it.author.clone(), it.text.clone(), it.at);
        let first = ("u".to_owned(), Some("a".to_owned()), "Nice".to_owned(), Some(Millis(5)));
        assert_eq!((of(&read[0]), read[0].reply_to.as_deref()), (first, Some("p")));
        assert_eq!(of(&read[1]), ("9".to_owned(), None, String::new(), None));
        assert!(comments("{}").unwrap().is_empty());
        for body in ["", "<html>", "[]x", "{\"elements\": 1}", "{\"paging\": {\"total\": -1}}"] {
            assert_eq!(comments(body).unwrap_err().code_str(), "linkedin_unreachable", "{body}");
        }
    }

    #[test]
    fn a_text_fits_or_is_refused() {
        let post = |text: String| Publish::Post(text).checked().map(|_| ());
        post("ü".repeat(TEXT_CHARS_MAX)).unwrap();
        post("two\nlines".to_owned()).unwrap();
        for text in [" \n".to_owned(), "x".repeat(TEXT_CHARS_MAX + 1), "a\u{0}b".to_owned()] {
            assert_eq!(post(text).unwrap_err().code_str(), "bad_text");
        }
    }
}
