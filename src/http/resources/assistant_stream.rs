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
/// The shortest time between two renderings of a block that grows.
const RENDER_PAUSE: Duration = Duration::from_millis(200);
/// That much of HTML may be sent for each such pause: a larger block is rendered less often, so
/// that a long one does not cost the square of its length.
const PAUSE_BYTES: usize = 16 * 1024;

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
        Form::Page(Blocks::after(after))
    }

    fn write(&mut self, lines: Vec<(u64, String)>) -> String {
        match self {
            Form::Items => lines.into_iter().map(|(_, line)| line).collect(),
            Form::Page(blocks) => blocks.take(lines, Instant::now()),
            Form::Claude => lines.iter().map(|(_, line)| in_words_of_claude(line)).collect(),
        }
    }

    /// Returns when something is to be rendered although no item comes.
    fn due(&self) -> Option<Instant> {
        match self {
            Form::Page(blocks) if !blocks.changed.is_empty() => Some(blocks.due),
            _ => None,
        }
    }

    fn render(&mut self) -> String {
        match self {
            Form::Page(blocks) => blocks.render(Instant::now()),
            Form::Items | Form::Claude => String::new(),
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
    /// The steps with text that is not rendered yet.
    changed: BTreeSet<u64>,
    /// When that is rendered at the earliest.
    due: Instant,
}

impl Blocks {
    fn after(after: u64) -> Blocks {
        Blocks { after, steps: BTreeMap::new(), changed: BTreeSet::new(), due: Instant::now() }
    }

    /// Returns the items that are new to the page, and the blocks that have changed, if it is time
    /// to render them: text that only goes on waits, and whatever follows it does not.
    fn take(&mut self, lines: Vec<(u64, String)>, now: Instant) -> String {
        let (mut text, mut last, mut is_only_text) = (String::new(), String::new(), true);
        for (seq, line) in lines {
            let item: Value = serde_json::from_str(&line).unwrap_or_default();
            let step = item["step"].as_u64().unwrap_or(0);
            match item["type"].as_str().unwrap_or_default() {
                "text" => {
                    let growing = self.steps.entry(step).or_default();
                    growing.push(item["delta"].as_str().unwrap_or_default());
                    self.changed.insert(step);
                }
                "reset" => {
                    self.steps.remove(&step);
                    self.changed.remove(&step);
                }
                "error" | "done" => {
                    is_only_text = false;
                    if seq > self.after {
                        last.push_str(&line);
                    }
                    continue;
                }
                _ => is_only_text = false,
            }
            if seq > self.after {
                text.push_str(&line);
            }
        }
        if now >= self.due || !is_only_text {
            text += &self.render(now);
        }
        text + &last
    }

    /// Returns the blocks that have changed.
    fn render(&mut self, now: Instant) -> String {
        let mut text = String::new();
        for step in std::mem::take(&mut self.changed) {
            let blocks = self.steps.get_mut(&step).map(Growing::changed).unwrap_or_default();
            for (index, html) in blocks {
                let block = json!({"type": "block", "step": step, "index": index, "html": html});
                text.push_str(&block.to_string());
                text.push('\n');
            }
        }
        let pauses = u32::try_from(text.len().div_ceil(PAUSE_BYTES)).unwrap_or(u32::MAX);
        self.due = now + RENDER_PAUSE * pauses.max(1);
        text
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
        let (stop, due) = (self.edge.stop.clone(), self.form.due());
        let render = async {
            match due {
                Some(due) => tokio::time::sleep_until(due).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            lines = self.follower.next() => {
                let Some(lines) = lines? else { return Ok(None) };
                Ok(Some(Bytes::from(self.form.write(lines))))
            }
            () = stop.cancelled() => Ok(None),
            () = render => Ok(Some(Bytes::from(self.form.render()))),
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

    fn text(seq: u64, delta: &str) -> (u64, String) {
        let item = json!({"type": "text", "seq": seq, "step": 1, "delta": delta});
        (seq, format!("{item}\n"))
    }

    fn html_of(sent: &str) -> Vec<String> {
        let items = sent.lines().map(|it| serde_json::from_str::<Value>(it).unwrap());
        let blocks = items.filter(|it| it["type"] == "block");
        blocks.map(|it| it["html"].as_str().unwrap().to_owned()).collect()
    }

    /// 28 KB of code in 20 seconds cost 39 MB when each piece was rendered.
    #[test]
    fn a_long_block_is_rendered_at_a_pace() {
        let (mut blocks, begin) = (Blocks::after(0), Instant::now());
        let (mut renderings, mut bytes, mut last) = (0, 0, String::new());
        let mut sent = blocks.take(vec![text(1, "```\n")], begin);
        for number in 0..2_400_u32 {
            let now = begin + Duration::from_millis(u64::from(number) * 8);
            if !blocks.changed.is_empty() && blocks.due <= now {
                sent += &blocks.render(now);
            }
            sent += &blocks.take(vec![text(u64::from(number) + 2, "let x = 1;\n")], now);
            let html = html_of(&sent);
            (renderings, bytes) = (renderings + html.len(), bytes + sent.len());
            last = html.into_iter().last().unwrap_or(last);
            sent.clear();
        }
        assert!((20..=100).contains(&renderings), "{renderings} renderings in 20 seconds");
        assert!(bytes < 2_500_000, "{bytes} bytes");
        let done = (2_402, "{\"type\":\"done\",\"seq\":2402}\n".to_owned());
        // The end does not wait.
        let now = begin + Duration::from_millis(2_399 * 8 + 1);
        let sent = blocks.take(vec![text(2_401, "let last = 2;\n"), done], now);
        let html = html_of(&sent);
        assert!(html.len() == 1 && html[0].contains("last") && html[0].len() > last.len());
        assert!(sent.trim_end().ends_with('}') && sent.lines().last().unwrap().contains("done"));
        assert!(blocks.changed.is_empty());
    }

    #[test]
    fn short_text_is_rendered_at_once_and_then_five_times_a_second() {
        let (mut blocks, begin) = (Blocks::after(0), Instant::now());
        let at = |ms: u64| begin + Duration::from_millis(ms);
        assert_eq!(html_of(&blocks.take(vec![text(1, "One")], at(0))).len(), 1);
        assert!(html_of(&blocks.take(vec![text(2, " two")], at(10))).is_empty());
        assert_eq!(blocks.due, at(0) + RENDER_PAUSE);
        assert_eq!(html_of(&blocks.render(at(200))), ["<p>One two</p>"]);
        // A call that follows shows the text before it.
        let call = (4, "{\"type\":\"tool_call\",\"seq\":4}\n".to_owned());
        let sent = blocks.take(vec![text(3, " three"), call], at(210));
        assert_eq!(html_of(&sent).len(), 1);
    }

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
