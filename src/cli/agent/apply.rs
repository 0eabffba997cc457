//! `apply-suggestions`: the work of the built-in engine, in the place of a model.

use std::ops::Range;

use serde_json::Value;

use crate::base::{Error, Result};
use crate::client::{Client, query};
use crate::documents::topics::suggestion::{Suggestion, last, title, with_line_ends};

/// What came of it.
#[derive(Debug)]
pub(super) enum Outcome {
    /// A text to propose.
    Propose(Draft),
    /// Nothing to propose, and why: a sentence for the reader and what they can do.
    Nothing(String, &'static str),
}

/// A proposal to be handed in.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Draft {
    /// The Topic.
    pub(super) topic_id: String,
    /// The blob that the text was made from.
    pub(super) base: String,
    /// The whole new text.
    pub(super) text: String,
    /// What the change is, and whose idea it was.
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
    let me = client.get("/api/me")?;
    let job_id = me["job_id"].as_str().ok_or_else(|| {
        Error::new(crate::base::ErrorKind::Forbidden, "this token does not belong to a job")
            .hint("run apply-suggestions inside a job")
    })?;
    let job = client.get(&format!("/api/agent/jobs/{job_id}"))?;
    let Some(topic_id) = job["topic_id"].as_str() else {
        return Ok(nothing("this job has no topic", "add a topic input to its kind"));
    };
    let Some(base) = job["inputs"]["base_source_sha"].as_str() else {
        return Ok(nothing(
            "this job has no input base_source_sha",
            "declare base_source_sha = wb.input.blob { from = \"source_path\" } in its kind",
        ));
    };
    let thread = client.get(&query("/api/agent/topic", &[("id", Some(topic_id))]))?;
    let Some(path) = job["source_path"].as_str() else {
        return Ok(nothing("this job has no source", "add a source input to its kind"));
    };
    let source = client.get(&query("/api/source", &[("path", Some(path))]))?;
    Ok(apply(topic_id, base, &thread, &source))
}

/// Applies the last suggestion of a thread to the text of its Source.
fn apply(topic_id: &str, base: &str, thread: &Value, source: &Value) -> Outcome {
    let topic = &thread["topic"];
    if topic["is_global"].as_bool() == Some(true) {
        return nothing("the topic is about the whole source, not a passage", WHOLE);
    }
    let Some((suggestion, author)) = last_suggestion(thread) else {
        return nothing("no message of the topic has a suggestion block", SUGGEST);
    };
    let Suggestion::Text(words) = suggestion else {
        return nothing("the last suggestion block is not closed", SUGGEST);
    };
    let Some(text) = source["text"].as_str().filter(|_| source["blob"] == base) else {
        return nothing("the source has changed since the job started", "start the job again");
    };
    let Some(Range { start, end }) = anchored(base, thread, text) else {
        return nothing("the passage has changed and can't be found", MOVE);
    };
    let words = with_line_ends(&words, text, start);
    if text[start..end] == words {
        return nothing("the suggestion changes nothing", SUGGEST);
    }
    let new = [&text[..start], &words, &text[end..]].concat();
    if new.is_empty() {
        return nothing("the suggestion would leave the source empty", SUGGEST);
    }
    let change = title(&text[start..end], &words);
    let summary = format!("{change}\n\nSuggested by {author}.");
    let (topic_id, base) = (topic_id.to_owned(), base.to_owned());
    Outcome::Propose(Draft { topic_id, base, text: new, summary })
}

fn nothing(why: &str, hint: &'static str) -> Outcome {
    Outcome::Nothing(why.to_owned(), hint)
}

fn last_suggestion(thread: &Value) -> Option<(Suggestion, String)> {
    let mut messages: Vec<&Value> = thread["messages"].as_array()?.iter().collect();
    messages.sort_by_key(|message| message["sequence"].as_i64());
    messages.into_iter().rev().find_map(|message| {
        let suggestion = last(message["body"].as_str()?)?;
        let author = message["author_name"].as_str().or_else(|| message["author"].as_str());
        Some((suggestion, crate::base::truncate_chars(author.unwrap_or("a reader"), 80)))
    })
}

/// Returns the range of the anchored words in this very text: by the placement, if it is of this
/// blob and certain, else by the anchor's origin, if that is in this blob. Words that somebody has
/// edited since are replaced as they are now: a person decides on the difference.
fn anchored(base: &str, thread: &Value, text: &str) -> Option<Range<usize>> {
    let topic = &thread["topic"];
    let anchor = if thread["anchor"].is_null() { &topic["anchor"] } else { &thread["anchor"] };
    let placement = &topic["placement"];
    let (range, quote) = if placement["blob"] == base {
        match placement["state"].as_str()? {
            "exact" | "shifted" => (placement, Some(&anchor["quote"])),
            "edited" => (placement, None),
            _ => return None,
        }
    } else if anchor["origin"]["blob"] == base {
        (&anchor["origin"], Some(&anchor["origin"]["quote"]))
    } else {
        return None;
    };
    let at = |name: &str| usize::try_from(range[name].as_u64()?).ok();
    let (start, end) = (at("start")?, at("end")?);
    let words = text.get(start..end).filter(|it| !it.is_empty())?;
    quote.is_none_or(|quote| quote == words).then_some(start..end)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const BASE: &str = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";

    fn thread(bodies: &[&str], placement: Value) -> Value {
        let messages: Vec<Value> = bodies
            .iter()
            .enumerate()
            .map(|(at, body)| json!({"sequence": at, "body": body, "author_name": "Ana"}))
            .collect();
        json!({
            "topic": {"is_global": false, "placement": placement},
            "anchor": {"quote": "old words",
                       "origin": {"blob": BASE, "start": 4, "end": 13, "quote": "old words"}},
            "messages": messages,
        })
    }

    fn source(text: &str) -> Value {
        json!({"blob": BASE, "text": text})
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
        let shifted = json!({"blob": BASE, "state": "shifted", "start": 23, "end": 32});
        let outcome = apply("t", BASE, &thread(&bodies, Value::Null), &source(text));
        assert_eq!(text_of(outcome), "The new, and the old words again.\r\n");
        let outcome = apply("t", BASE, &thread(&bodies, shifted), &source(text));
        assert_eq!(text_of(outcome), "The old words, and the new again.\r\n");
        let outcome =
            apply("t", BASE, &thread(&["```suggestion\n```"], Value::Null), &source(text));
        assert_eq!(text_of(outcome), "The , and the old words again.\r\n");
    }

    #[test]
    fn a_source_with_crlf_keeps_its_line_ends() {
        let text = "Begin.\r\nold words\r\nEnd.\r\n";
        let at = text.find("old").unwrap();
        let place = json!({"blob": BASE, "state": "exact", "start": at, "end": at + 9});
        let two_lines = thread(&["```suggestion\none\ntwo\n```"], place.clone());
        let outcome = apply("t", BASE, &two_lines, &source(text));
        assert_eq!(text_of(outcome), "Begin.\r\none\r\ntwo\r\nEnd.\r\n");
        // Words of several lines that are already there are no change.
        let text = "old\r\nwords\r\n";
        let mut both = thread(&["```suggestion\nold\nwords\n```"], Value::Null);
        both["anchor"]["origin"] = json!({"blob": BASE, "start": 0, "end": 10,
            "quote": "old\r\nwords"});
        assert!(why(apply("t", BASE, &both, &source(text))).contains("changes nothing"));
    }

    #[test]
    fn words_that_were_edited_since_are_replaced_where_they_are_now() {
        let edited = json!({"blob": BASE, "state": "edited", "start": 4, "end": 19});
        let topic = thread(&["```suggestion\nnew\n```"], edited);
        let outcome = apply("t", BASE, &topic, &source("The very old words."));
        assert_eq!(text_of(outcome), "The new.");
    }

    #[test]
    fn what_is_not_found_is_not_applied() {
        let bodies = ["```suggestion\nnew\n```"];
        let text = source("The old words.");
        for state in ["rewritten", "ambiguous", "orphaned"] {
            let lost = json!({"blob": BASE, "state": state, "start": 4, "end": 13});
            let outcome = apply("t", BASE, &thread(&bodies, lost), &text);
            let Outcome::Nothing(why, hint) = outcome else { panic!("{outcome:?}") };
            assert!(why.contains("be found") && hint.contains("move the topic"), "{why} {hint}");
        }
        let beyond = json!({"blob": BASE, "state": "edited", "start": 4, "end": 99});
        assert!(why(apply("t", BASE, &thread(&bodies, beyond), &text)).contains("be found"));
        let beyond = json!({"blob": BASE, "state": "exact", "start": 4, "end": 99});
        assert!(why(apply("t", BASE, &thread(&bodies, beyond), &text)).contains("be found"));
        let elsewhere = json!({"blob": BASE, "state": "exact", "start": 3, "end": 12});
        assert!(why(apply("t", BASE, &thread(&bodies, elsewhere), &text)).contains("be found"));
        let other = json!({"blob": "b".repeat(40), "text": "The old words."});
        assert!(why(apply("t", BASE, &thread(&bodies, Value::Null), &other)).contains("changed"));
        let none = thread(&["no"], Value::Null);
        assert!(why(apply("t", BASE, &none, &text)).contains("no message"));
        let same = thread(&["```suggestion\nold words\n```"], Value::Null);
        assert!(why(apply("t", BASE, &same, &text)).contains("changes nothing"));
        let cut = thread(&["```suggestion\nnew\n```", "```suggestion\nol"], Value::Null);
        assert!(why(apply("t", BASE, &cut, &text)).contains("not closed"));
        let global = json!({"topic": {"is_global": true}, "messages": []});
        assert!(why(apply("t", BASE, &global, &text)).contains("whole source"));
        assert!(why(apply("t", BASE, &Value::Null, &text)).contains("no message"));
    }
}
