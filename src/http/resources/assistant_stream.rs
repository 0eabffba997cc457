//! The stream of an answer as lines of JSON: as its items, with blocks of HTML, or in the words of
//! `/api/claude`.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream;
use hyper::header::{HeaderName, HeaderValue};
use serde_json::{Value, json};
use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at};
use tracing::warn;
use warp::reply::Response;

use crate::base::Result;
use crate::base::limit::STREAM_CHECK_MS_MAX;
use crate::flows::assistant::Follower;
use crate::http::access::who::{Credential, identify};
use crate::http::markdown::Growing;
use crate::http::server::listen::Peer;
use crate::http::server::streams::{Exclusive, Place};
use crate::http::{Call, Edge, reply};

/// How often a line shows both sides that the stream is alive, and the reader's right to it is
/// checked again.
const BEAT: Duration = Duration::from_millis(STREAM_CHECK_MS_MAX);

/// How a reader wants the items.
pub(super) enum Form {
    /// As they are.
    Items,
    /// With blocks of HTML, for a page.
    Page(Blocks),
    /// In the words of `/api/claude`.
    Claude,
}

impl Form {
    /// Returns the form for a page that has the items up to a number.
    pub(super) fn blocks_after(after: u64) -> Form {
        Form::Page(Blocks { after, steps: BTreeMap::new() })
    }

    fn write(&mut self, lines: Vec<(u64, String)>) -> String {
        match self {
            Form::Items => lines.into_iter().map(|(_, line)| line).collect(),
            Form::Page(blocks) => blocks.take(lines),
            Form::Claude => lines.iter().map(|(_, line)| in_words_of_claude(line)).collect(),
        }
    }
}

/// Returns an item with the names that `/api/claude` has for it.
fn in_words_of_claude(line: &str) -> String {
    let mut item: Value = serde_json::from_str(line).unwrap_or_default();
    let word = match item["type"].as_str().unwrap_or_default() {
        "start" => "session",
        "tool_call" => "tool_use",
        "tool_result" => "status",
        _ => return line.to_owned(),
    };
    let Some(fields) = item.as_object_mut() else { return line.to_owned() };
    if word == "tool_use" {
        for (ours, theirs) in [("tool", "name"), ("args", "input")] {
            let value = fields.remove(ours).unwrap_or_default();
            fields.insert(theirs.to_owned(), value);
        }
    }
    if word == "status" {
        let code = fields.remove("state").unwrap_or_default();
        let message = fields.remove("summary").unwrap_or_default();
        fields.extend([("code".to_owned(), code), ("message".to_owned(), message)]);
    }
    fields.insert("type".to_owned(), json!(word));
    format!("{item}\n")
}

/// Returns the stream of a run as lines of JSON.
pub(super) fn answer(
    edge: Edge,
    call: &Call,
    place: Place,
    (follower, form): (Follower, Form),
) -> Response {
    let mut beat = interval_at(Instant::now() + BEAT, BEAT);
    beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let (peer, credential) = (call.peer(), call.credential());
    let feed =
        Feed { edge, follower, form, peer, credential, beat, check_due: Instant::now() + BEAT };
    let parts = stream::unfold(Some((feed, place)), async |feed| {
        let (mut feed, place) = feed?;
        match feed.next().await {
            Ok(Some(lines)) => Some((Ok(lines), Some((feed, place)))),
            Ok(None) => None,
            Err(cause) => {
                warn!("the stream of an answer ended: {}", cause.chain());
                Some((Err(cause), None))
            }
        }
    });
    let mut response = reply::stream("application/x-ndjson", Exclusive::new(Box::pin(parts)));
    response
        .headers_mut()
        .insert(HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no"));
    response
}

/// The text of an answer as blocks of HTML, each after the items that it renders.
pub(super) struct Blocks {
    /// The last item that the page has.
    after: u64,
    steps: BTreeMap<u64, Growing>,
}

impl Blocks {
    /// Returns the items that are new to the page, and the blocks that have changed.
    fn take(&mut self, lines: Vec<(u64, String)>) -> String {
        let (mut text, mut changed, mut last) = (String::new(), BTreeSet::new(), String::new());
        for (seq, line) in lines {
            let item: Value = serde_json::from_str(&line).unwrap_or_default();
            let step = item["step"].as_u64().unwrap_or(0);
            match item["type"].as_str().unwrap_or_default() {
                "text" => {
                    let growing = self.steps.entry(step).or_default();
                    growing.push(item["delta"].as_str().unwrap_or_default());
                    changed.insert(step);
                }
                "reset" => drop(self.steps.remove(&step)),
                "error" | "done" => {
                    if seq > self.after {
                        last.push_str(&line);
                    }
                    continue;
                }
                _ => {}
            }
            if seq > self.after {
                text.push_str(&line);
            }
        }
        for step in changed {
            let blocks = self.steps.get_mut(&step).map(Growing::changed).unwrap_or_default();
            for (index, html) in blocks {
                let block = json!({"type": "block", "step": step, "index": index, "html": html});
                text.push_str(&block.to_string());
                text.push('\n');
            }
        }
        text + &last
    }
}

/// One reader of the stream of a run.
struct Feed {
    edge: Edge,
    follower: Follower,
    form: Form,
    peer: Peer,
    credential: Option<Credential>,
    beat: Interval,
    /// When the reader's right is checked next.
    check_due: Instant,
}

impl Feed {
    async fn next(&mut self) -> Result<Option<Bytes>> {
        if Instant::now() >= self.check_due && !self.may_go_on().await {
            return Ok(None);
        }
        let stop = self.edge.stop.clone();
        tokio::select! {
            biased;
            lines = self.follower.next() => {
                let Some(lines) = lines? else { return Ok(None) };
                Ok(Some(Bytes::from(self.form.write(lines))))
            }
            () = stop.cancelled() => Ok(None),
            _ = self.beat.tick() => {
                let ping = Bytes::from_static(b"{\"type\":\"ping\"}\n");
                Ok(self.may_go_on().await.then_some(ping))
            }
        }
    }

    async fn may_go_on(&mut self) -> bool {
        self.check_due = Instant::now() + BEAT;
        match &self.credential {
            Some(credential) => identify(&self.edge, &self.peer, credential).await.is_ok(),
            None => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_have_other_names_for_claude() {
        let named = |item: Value| -> Value {
            serde_json::from_str(&in_words_of_claude(&item.to_string())).unwrap()
        };
        let call = json!({"type": "tool_call", "seq": 3, "id": "c", "tool": "t", "args": {"a": 1}});
        let wanted =
            json!({"type": "tool_use", "seq": 3, "id": "c", "name": "t", "input": {"a": 1}});
        assert_eq!(named(call), wanted);
        let result = json!({"type": "tool_result", "seq": 4, "id": "c", "state": "done", "ok": true,
            "summary": "s"});
        let wanted = json!({"type": "status", "seq": 4, "id": "c", "code": "done", "ok": true,
            "message": "s"});
        assert_eq!(named(result), wanted);
        assert_eq!(named(json!({"type": "start", "seq": 1}))["type"], "session");
        let text = json!({"type": "text", "seq": 2, "delta": "x"});
        assert_eq!(named(text.clone()), text);
    }
}
