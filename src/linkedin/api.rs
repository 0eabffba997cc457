//! Requests to LinkedIn in a person's name.

use std::time::Duration;

use bytes::Bytes;
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
        let told: Value = serde_json::from_str(&reply.body).unwrap_or_default();
        let named = ["commentUrn", "$URN"].iter().find_map(|it| told[*it].as_str());
        let urn = named.map(str::to_owned).or(reply.id).unwrap_or_default();
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
        let told: Value = serde_json::from_str(&reply.body).map_err(|cause| {
            Error::unavailable("LinkedIn's answer cannot be read")
                .code("linkedin_unreachable")
                .source(cause)
        })?;
        let found = told["elements"].as_array().map(Vec::as_slice).unwrap_or_default();
        let items: Vec<Comment> = found.iter().take(COMMENTS_MAX).map(comment).collect();
        let total = told["paging"]["total"].as_u64().unwrap_or_default();
        let is_cut = total > items.len() as u64 || found.len() > items.len();
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
        let told: Value = serde_json::from_str(&reply.body).unwrap_or_default();
        let is_word = |it: &&str| {
            let is_plain = |it: u8| it.is_ascii_alphanumeric() || matches!(it, b'-' | b'_');
            (1..=100).contains(&it.len()) && it.bytes().all(is_plain)
        };
        let Some(sub) = told["sub"].as_str().filter(is_word) else {
            return Err(Error::unavailable("LinkedIn does not say who signed in")
                .code("linkedin_unreachable")
                .hint("the app needs the product \"Sign In with LinkedIn using OpenID Connect\""));
        };
        let name = truncate_chars(told["name"].as_str().unwrap_or(sub), 100);
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

/// Parses a comment, which is not trusted.
fn comment(told: &Value) -> Comment {
    let text = |it: &Value| it.as_str().map(|it| truncate_chars(it, TEXT_CHARS_MAX));
    let urn = text(&told["commentUrn"]).or_else(|| text(&told["$URN"]));
    Comment {
        urn: urn.or_else(|| text(&told["id"])).unwrap_or_default(),
        author: text(&told["actor"]),
        text: text(&told["message"]["text"]).unwrap_or_default(),
        at: told["created"]["time"].as_i64().map(Millis),
        reply_to: text(&told["parentComment"]),
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
    fn a_text_fits_or_is_refused() {
        let post = |text: String| Publish::Post(text).checked().map(|_| ());
        post("ü".repeat(TEXT_CHARS_MAX)).unwrap();
        post("two\nlines".to_owned()).unwrap();
        for text in [" \n".to_owned(), "x".repeat(TEXT_CHARS_MAX + 1), "a\u{0}b".to_owned()] {
            assert_eq!(post(text).unwrap_err().code_str(), "bad_text");
        }
    }
}
