//! The tools for LinkedIn, with the person's own account.
//!
//! **Invariant:** whatever is published needs confirmation, each time.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Value, json};

use crate::base::{Error, Result};
use crate::flows::Site;
use crate::flows::assistant::account::{account, app_of, note_refused};
use crate::flows::assistant::disk::on_disk;
use crate::flows::assistant::right::NO_TOOL;
use crate::flows::assistant::tools::{Deed, Said, Work, parse};
use crate::flows::assistant::vault;
use crate::linkedin::{Api, CommentUrn, Comments, LINKEDIN_SIGNED_OUT, PostUrn, Publish};
use crate::people::Person;
use crate::script::Config;
use crate::vault::{FILE_BYTES_MAX, Image, VaultPath};

/// The list of what was published, in the vault.
const POSTS: &str = "linkedin/posts.csv";
/// Its first line.
const HEAD: &str = "timestamp,action,post_urn,comment_urn,text,response\n";
/// How often it is written again if somebody else changes it at the same time.
const TRIES: u32 = 5;

/// What a call does at LinkedIn.
#[derive(Clone, Debug)]
pub(in crate::flows::assistant) enum Act {
    /// It publishes something.
    Publish(Publish),
    /// It reads the comments on a post.
    Read(PostUrn),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PostArgs {
    text: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CommentArgs {
    post_urn: PostUrn,
    text: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ReplyArgs {
    comment_urn: CommentUrn,
    text: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ReadArgs {
    post_urn: PostUrn,
}

/// Returns what a call would do. A person who is not connected is not asked.
///
/// # Errors
/// `invalid` with codes `bad_arguments` and `bad_text`; `not_found` with codes `no_tool` and
/// `no_linkedin`; `forbidden` with code `linkedin_signed_out`.
pub(in crate::flows::assistant) async fn plan(
    site: &Site,
    config: &Config,
    person: &Person,
    (tool, args): (&str, &Value),
) -> Result<Deed> {
    let deed = read(tool, args)?;
    app_of(config)?;
    account(site, config, person).await?;
    Ok(deed)
}

fn read(tool: &str, args: &Value) -> Result<Deed> {
    let (publish, on) = match tool {
        "linkedin_post" => (Publish::Post(parse::<PostArgs>(args)?.text), None),
        "linkedin_post_comment" => {
            let CommentArgs { post_urn, text } = parse(args)?;
            let on = format!("On {post_urn}:\n\n");
            (Publish::Comment(post_urn, text), Some(on))
        }
        "linkedin_reply_comment" => {
            let ReplyArgs { comment_urn, text } = parse(args)?;
            let on = format!("To {comment_urn}:\n\n");
            (Publish::Reply(comment_urn, text), Some(on))
        }
        "linkedin_read_comments" => {
            let work = Work::Linkedin(Act::Read(parse::<ReadArgs>(args)?.post_urn));
            let preview = String::new();
            return Ok(Deed { target: None, asks: None, preview, is_of_others: false, work });
        }
        _ => return Err(Error::not_found(format!("there is no tool {tool}")).code(NO_TOOL)),
    };
    let publish = publish.checked()?;
    let preview = format!("{}{}\n", on.unwrap_or_default(), publish.text());
    let asks = Some("it is published on LinkedIn in your name".to_owned());
    let work = Work::Linkedin(Act::Publish(publish));
    Ok(Deed { target: None, asks, preview, is_of_others: false, work })
}

/// Executes a call.
///
/// # Errors
/// As [`Api::publish`] and [`Api::comments`]; `not_found` with code `no_linkedin`.
pub(in crate::flows::assistant) async fn run(
    site: &Site,
    config: &Arc<Config>,
    person: &Person,
    act: &Act,
) -> Result<Said> {
    let app = app_of(config)?;
    let account = account(site, config, person).await?;
    let now = site.store.clock().now();
    let api = Api { client: &site.outbound, version: &app.version, now };
    let done = match act {
        Act::Read(post) => api.comments(&account, post).await.map(|it| told(&it)),
        Act::Publish(publish) => match api.publish(&account, publish).await {
            Ok(urn) => Ok(published(site, config, person, (publish, urn)).await),
            Err(cause) => Err(cause),
        },
    };
    if let Err(cause) = &done
        && cause.code_str() == LINKEDIN_SIGNED_OUT
    {
        note_refused(config, person, account).await?;
    }
    done
}

/// Returns comments for the model, each as one line of JSON.
fn told(comments: &Comments) -> Said {
    let lines = comments.items.iter().map(|it| {
        let line = json!({
            "comment_urn": it.urn, "author": it.author, "text": it.text, "at": it.at,
            "reply_to": it.reply_to,
        });
        format!("{line}\n")
    });
    let mut text: String = lines.collect();
    if comments.is_cut {
        text += "… and more";
    } else if text.is_empty() {
        "The post has no comments.".clone_into(&mut text);
    }
    Said::new(format!("{} comments", comments.items.len()), text)
}

/// Adds a line to the list in the vault. It is published, whether or not that works.
async fn published(
    site: &Site,
    config: &Arc<Config>,
    person: &Person,
    (publish, urn): (&Publish, String),
) -> Said {
    let (action, post, comment) = match publish {
        Publish::Post(_) => ("post", urn.clone(), String::new()),
        Publish::Comment(post, _) => ("comment", post.to_string(), urn.clone()),
        Publish::Reply(to, _) => ("reply", to.post().to_string(), urn.clone()),
    };
    let at = site.store.clock().now().rfc3339();
    let cells = [at.as_str(), action, &post, &comment, publish.text(), "published"];
    let line = cells.map(cell).join(",") + "\n";
    let (config, person) = (Arc::clone(config), person.clone());
    let added = on_disk(move || {
        let gone = || Error::unavailable("the site no longer has an assistant");
        let assistant = config.assistant.as_ref().ok_or_else(gone)?;
        add(&vault::open(&config, assistant, &person)?, &line)
    });
    let said = format!("published as {urn}");
    match added.await {
        Ok(()) => Said::plain(said),
        Err(cause) => {
            tracing::warn!("{POSTS} has no line for {urn}: {}", cause.chain());
            Said::plain(format!("{said}; {POSTS} could not be written: {}", cause.message()))
        }
    }
}

fn add(vault: &crate::vault::Vault, line: &str) -> Result<()> {
    let path: VaultPath = POSTS.parse()?;
    vault.refuse_hard_link(&path)?;
    for _ in 0..TRIES {
        let before = vault.image(&path)?;
        let mut bytes = before.bytes().unwrap_or(HEAD.as_bytes()).to_vec();
        bytes.extend_from_slice(line.as_bytes());
        if bytes.len() > FILE_BYTES_MAX {
            return Err(Error::conflict("file_full", "it is full: move it away"));
        }
        if vault.swap(&path, &before, &Image::of(bytes, &before))? {
            return Ok(());
        }
    }
    Err(Error::conflict("changed_meanwhile", "it changes all the time"))
}

/// Returns a cell of a table, in one line. Spreadsheets calculate what begins with a sign.
fn cell(text: &str) -> String {
    let text = text.replace('\n', "\\n").replace('"', "\"\"");
    let sign = if text.starts_with(['=', '+', '-', '@', '\t']) { "'" } else { "" };
    format!("\"{sign}{text}\"")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_is_published_is_asked_about_as_it_is() {
        for (tool, args, preview) in [
            ("linkedin_post", json!({"text": "Hi #a (b)"}), "Hi #a (b)\n"),
            (
                "linkedin_post_comment",
                json!({"post_urn": "urn:li:share:1", "text": "Hi"}),
                "On urn:li:share:1:\n\nHi\n",
            ),
            (
                "linkedin_reply_comment",
                json!({"comment_urn": "urn:li:comment:(urn:li:activity:1,2)", "text": "Hi"}),
                "To urn:li:comment:(urn:li:activity:1,2):\n\nHi\n",
            ),
        ] {
            let deed = read(tool, &args).unwrap();
            assert_eq!(deed.preview, preview);
            assert_eq!(deed.asks.unwrap(), "it is published on LinkedIn in your name");
        }
        let reads = read("linkedin_read_comments", &json!({"post_urn": "urn:li:share:1"})).unwrap();
        assert!(reads.asks.is_none());
        for (tool, args, code) in [
            ("linkedin_post", json!({"text": ""}), "bad_text"),
            ("linkedin_post", json!({"text": "a", "visibility": "x"}), "bad_arguments"),
            ("linkedin_post_comment", json!({"post_urn": "x", "text": "a"}), "bad_arguments"),
            ("linkedin_read_comments", json!({"post_urn": "../me"}), "bad_arguments"),
            ("linkedin_like", json!({}), "no_tool"),
        ] {
            assert_eq!(read(tool, &args).unwrap_err().code_str(), code, "{tool} {args}");
        }
    }

    #[test]
    fn a_cell_is_one_and_calculates_nothing() {
        for (text, expected) in [
            ("plain, words", "\"plain, words\""),
            ("a \"b\"\nc", "\"a \"\"b\"\"\\nc\""),
            ("=cmd()", "\"'=cmd()\""),
        ] {
            assert_eq!(cell(text), expected);
        }
    }
}
