//! `apply-suggestions`: the built-in engine, which needs no model.

use std::ops::Range;

use serde::Deserialize as _;

use crate::api::people::Me;
use crate::api::sources::SourceView;
use crate::api::topics::{AgentTopic, Message, PlacementState};
use crate::base::{BlobId, Context, Error, ErrorKind, Result, TopicId, truncate_chars};
use crate::cli::terminal::screen::typed;
use crate::client::{Client, query};
use crate::documents::topics::suggestion::{Suggestion, last, title, with_line_ends};
use crate::jobs::Job;

/// The result.
#[derive(Debug)]
pub(super) enum Outcome {
    /// A text to propose.
    Propose(Draft),
    /// Nothing to propose: the reason, for the reader, with what to do.
    Nothing(String, &'static str),
}

/// A proposal to submit.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Draft {
    /// The Topic.
    pub(super) topic_id: TopicId,
    /// The blob that the text is based on.
    pub(super) base: BlobId,
    /// The complete new text.
    pub(super) text: String,
    /// The summary, with the author of the suggestion.
    pub(super) summary: String,
}

const SUGGEST: &str =
    "suggest a change on the topic's page, or post a message with a ```suggestion block";
const WHOLE: &str = "suggest the change on a topic about a passage";
const MOVE: &str =
    "move the topic to its passage on the topic's page, then suggest the change again";

/// Reads this job, its Topic and its Source, and applies the last suggestion.
///
/// # Errors
/// What the server refuses.
pub(super) fn draft(client: &Client) -> Result<Outcome> {
    let me: Me = typed(&client.get("/api/me")?)?;
    let job_id = me.job_id.ok_or_else(|| {
        Error::new(ErrorKind::Forbidden, "this token does not belong to a job")
            .hint("run apply-suggestions inside a job")
    })?;
    let job: Job = typed(&client.get(&format!("/api/agent/jobs/{job_id}"))?)?;
    let Some(topic_id) = job.topic_id else {
        return Ok(nothing("this job has no topic", "add a topic input to its kind"));
    };
    let base = job.inputs.get("base_source_sha").map(BlobId::deserialize).transpose();
    let base =
        base.context(ErrorKind::Invalid, || "base_source_sha is not a version".to_owned())?;
    let Some(base) = base else {
        return Ok(nothing(
            "this job has no input base_source_sha",
            "declare base_source_sha = wb.input.blob { from = \"source_path\" } in its kind",
        ));
    };
    let thread = client.get(&query("/api/agent/topic", &[("id", Some(topic_id.as_str()))]))?;
    let Some(path) = &job.source_path else {
        return Ok(nothing("this job has no source", "add a source input to its kind"));
    };
    let source: SourceView =
        typed(&client.get(&query("/api/source", &[("path", Some(path.as_str()))]))?)?;
    Ok(apply(base, &typed(&thread)?, (&source.blob, &source.text)))
}

/// Applies the last suggestion of a thread to the text of its Source.
fn apply(base: BlobId, thread: &AgentTopic, (blob, text): (&BlobId, &str)) -> Outcome {
    if thread.topic.is_global {
        return nothing("the topic is about the whole source, not a passage", WHOLE);
    }
    let Some((suggestion, author)) = last_suggestion(thread) else {
        return nothing("no message of the topic has a suggestion block", SUGGEST);
    };
    let Suggestion::Text(words) = suggestion else {
        return nothing("the last suggestion block is not closed", SUGGEST);
    };
    if *blob != base {
        return nothing("the source has changed since the job started", "start the job again");
    }
    let Some(passage) = passage(&base, thread, text) else {
        return nothing("the passage has changed and can't be found", MOVE);
    };
    let words = with_line_ends(&words, text, passage.start);
    let change = title(&text[passage.clone()], &words);
    let plain = [&text[..passage.start], &words, &text[passage.end..]].concat();
    let (new, summary) = with_edits(&base, thread, plain, (&change, &author));
    if new == text {
        return nothing("the suggestion changes nothing", SUGGEST);
    }
    if new.is_empty() {
        return nothing("the suggestion would leave the source empty", SUGGEST);
    }
    Outcome::Propose(Draft { topic_id: thread.topic.id.clone(), base, text: new, summary })
}

/// Returns the text and its summary: if the job revises an edited proposal, with those edits.
fn with_edits(
    base: &BlobId,
    thread: &AgentTopic,
    plain: String,
    (change, author): (&str, &str),
) -> (String, String) {
    let by = format!("Suggested by {author}");
    let rework = thread.rework.as_ref();
    let revised = rework.and_then(|it| Some((it.revision_number, it.revised.as_ref()?)));
    let Some((number, revised)) = revised.filter(|(_, it)| it.source_sha == *base) else {
        return (plain, format!("{change}\n\n{by}."));
    };
    let mut summary = match revised.text == plain {
        true => format!("{change}\n\n{by}."),
        false => format!("{change}, and other edits\n\n{by}, with the edits of revision {number}."),
    };
    if revised.is_partial {
        summary.push_str(" Edits on lines that have changed otherwise are not in it.");
    }
    (revised.text.clone(), summary)
}

fn nothing(why: &str, hint: &'static str) -> Outcome {
    Outcome::Nothing(why.to_owned(), hint)
}

fn last_suggestion(thread: &AgentTopic) -> Option<(Suggestion, String)> {
    let mut messages: Vec<&Message> = thread.messages.iter().collect();
    messages.sort_by_key(|message| message.sequence);
    messages.into_iter().rev().find_map(|message| {
        let suggestion = last(&message.body)?;
        let actor = message.author.to_string();
        let author = message.author_name.as_ref().unwrap_or(&actor);
        Some((suggestion, truncate_chars(author, 80)))
    })
}

/// Returns the range of the passage in this text: by its placement if that is for this blob,
/// otherwise by the anchor's origin if that is in this blob. A passage that was edited in the
/// meantime is replaced as it is now: a person decides on the difference.
fn passage(base: &BlobId, thread: &AgentTopic, text: &str) -> Option<Range<usize>> {
    let anchor = thread.anchor.as_ref().or(thread.topic.anchor.as_ref())?;
    let placement = thread.topic.placement.as_ref().filter(|it| it.blob == *base);
    let (range, quote) = match placement {
        Some(placement) => {
            let quote = match placement.state {
                PlacementState::Exact | PlacementState::Shifted => Some(&anchor.quote),
                PlacementState::Edited => None,
                _ => return None,
            };
            (placement.start?..placement.end?, quote)
        }
        None if anchor.origin.blob == *base => {
            (anchor.origin.start..anchor.origin.end, Some(&anchor.origin.quote))
        }
        None => return None,
    };
    let words = text.get(range.clone()).filter(|words| !words.is_empty())?;
    quote.is_none_or(|quote| quote == words).then_some(range)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    const BASE: &str = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
    const TOPIC: &str = "018bcfe5-6800-7000-8000-00000000000a";

    fn base() -> BlobId {
        BASE.parse().unwrap()
    }

    fn place(state: &str, start: usize, end: usize) -> Value {
        json!({
            "blob": BASE, "state": state, "start": start, "end": end, "confidence": 1.0,
            "method": "exact", "decided_by": "system",
        })
    }

    fn thread(bodies: &[&str], placement: Value) -> AgentTopic {
        let written = "2026-01-02T03:04:05Z";
        let message = |(at, body): (usize, &&str)| {
            json!({
                "id": format!("018bcfe5-6800-7000-8000-0000000001{at:02}"), "topic_id": TOPIC,
                "sequence": at, "body": body, "author": "system", "author_name": "Ana",
                "created_at": written,
            })
        };
        let messages: Vec<Value> = bodies.iter().enumerate().map(message).collect();
        let thread = json!({
            "topic": {
                "id": TOPIC, "source_path": "guide.md", "is_global": false, "title": "A title",
                "status": "open", "created_by": "system", "created_at": written,
                "message_count": bodies.len(), "placement": placement,
            },
            "anchor": {
                "quote": "old words", "prefix": "", "suffix": "", "heading_path": [],
                "block_kind": "paragraph",
                "origin": {"blob": BASE, "start": 4, "end": 13, "quote": "old words"},
            },
            "messages": messages, "proposals": [],
        });
        serde_json::from_value(thread).unwrap()
    }

    fn applied(thread: &AgentTopic, text: &str) -> Outcome {
        apply(base(), thread, (&base(), text))
    }

    fn why(outcome: Outcome) -> String {
        match outcome {
            Outcome::Nothing(why, _) => why,
            Outcome::Propose(draft) => panic!("proposed {draft:?}"),
        }
    }

    fn text_of(outcome: Outcome) -> String {
        match outcome {
            Outcome::Propose(draft) => draft.text,
            Outcome::Nothing(why, _) => panic!("{why}"),
        }
    }

    #[test]
    fn exactly_the_anchored_words_are_replaced() {
        let bodies = ["```suggestion\nfirst\n```", "```suggestion\nnew\n```", "please"];
        let text = "The old words, and the old words again.\r\n";
        let outcome = applied(&thread(&bodies, Value::Null), text);
        assert_eq!(text_of(outcome), "The new, and the old words again.\r\n");
        let outcome = applied(&thread(&bodies, place("shifted", 23, 32)), text);
        assert_eq!(text_of(outcome), "The old words, and the new again.\r\n");
        let outcome = applied(&thread(&["```suggestion\n```"], Value::Null), text);
        assert_eq!(text_of(outcome), "The , and the old words again.\r\n");
    }

    #[test]
    fn a_source_with_crlf_keeps_its_line_ends() {
        let text = "Begin.\r\nold words\r\nEnd.\r\n";
        let at = text.find("old").unwrap();
        let two_lines = thread(&["```suggestion\none\ntwo\n```"], place("exact", at, at + 9));
        let outcome = applied(&two_lines, text);
        assert_eq!(text_of(outcome), "Begin.\r\none\r\ntwo\r\nEnd.\r\n");
        // A suggestion of several lines that is already in the text is no change.
        let text = "old\r\nwords\r\n";
        let mut both = thread(&["```suggestion\nold\nwords\n```"], Value::Null);
        let origin = &mut both.anchor.as_mut().unwrap().origin;
        (origin.start, origin.end, origin.quote) = (0, 10, "old\r\nwords".to_owned());
        assert!(why(applied(&both, text)).contains("changes nothing"));
    }

    #[test]
    fn words_that_were_edited_since_are_replaced_where_they_are_now() {
        let topic = thread(&["```suggestion\nnew\n```"], place("edited", 4, 18));
        assert_eq!(text_of(applied(&topic, "The very old words.")), "The new.");
    }

    #[test]
    fn what_is_not_found_is_not_applied() {
        let bodies = ["```suggestion\nnew\n```"];
        let text = "The old words.";
        let at = |state, start, end| applied(&thread(&bodies, place(state, start, end)), text);
        for state in ["rewritten", "ambiguous", "orphaned"] {
            let Outcome::Nothing(why, hint) = at(state, 4, 13) else { panic!("{state}") };
            assert!(why.contains("be found") && hint.contains("move the topic"), "{why} {hint}");
        }
        for outcome in [at("edited", 4, 99), at("exact", 4, 99), at("exact", 3, 12)] {
            assert!(why(outcome).contains("be found"));
        }
        let other = "b".repeat(40).parse().unwrap();
        let moved = apply(base(), &thread(&bodies, Value::Null), (&other, text));
        assert!(why(moved).contains("changed"));
        let of = |bodies: &[&str]| why(applied(&thread(bodies, Value::Null), text));
        assert!(of(&["no"]).contains("no message"));
        assert!(of(&[]).contains("no message"));
        assert!(of(&["```suggestion\nold words\n```"]).contains("changes nothing"));
        assert!(of(&["```suggestion\nnew\n```", "```suggestion\nol"]).contains("not closed"));
        let mut global = thread(&bodies, Value::Null);
        global.topic.is_global = true;
        assert!(why(applied(&global, text)).contains("whole source"));
    }
}
