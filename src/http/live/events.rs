//! The event stream: every later event once, in order, or the word that this cannot be.
//!
//! **Invariant:** numbers are given without gaps (AUTOINCREMENT in the transaction of the change),
//! so a number that is missing in the table was pruned, and only then `reset` is said.
//! **Invariant:** a reader is subscribed before the table is read; what comes twice is dropped by
//! its number. A reader that lags costs nothing: it reads the table again, or, too far behind, is
//! told `reset`.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::{self, BoxStream};
use hyper::header::{HeaderName, HeaderValue};
use serde::Deserialize;
use serde_json::json;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at};
use tracing::warn;
use warp::filters::BoxedFilter;
use warp::reply::Response;

use crate::base::limit::{REPLAY_EVENTS_MAX, STREAM_CHECK_MS_MAX};
use crate::base::{Error, EventKind, Result, fault};
use crate::flows::repository::presence::Present;
use crate::http::access::audience::View;
use crate::http::access::who::{Credential, identify};
use crate::http::server::listen::Peer;
use crate::http::server::streams::{Exclusive, Place, Streams};
use crate::http::{Edge, get, reply};
use crate::people::Caller;
use crate::store::{StoredEvent, events};

/// Interval of the comments that show that the stream is alive.
const HEARTBEAT: Duration = Duration::from_secs(10);
/// How often a stream's credential is checked again, however many events there are.
const CHECK: Duration = Duration::from_millis(STREAM_CHECK_MS_MAX);
/// Events read and written at once.
const PAGE_EVENTS_MAX: u32 = 200;
/// How long a browser waits before it reconnects.
const RETRY_MS: u32 = 1_000;

#[derive(Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(in crate::http) struct Query {
    after: Option<String>,
}

pub(in crate::http) fn routes(edge: &Edge, streams: &Streams) -> BoxedFilter<(Response,)> {
    let state = (edge.clone(), streams.clone());
    get("/api/events", &state, async |(edge, streams): (Edge, Streams), call| {
        let query: Query = call.query()?;
        // A browser that reconnects sends the header, and its original query.
        let last = call.header("last-event-id").filter(|it| !it.is_empty());
        let after = last.or(query.after.as_deref()).map(Cursor::parse).transpose()?;
        let (caller, credential) = (call.caller()?, call.credential());
        let place = streams.admit(&caller, credential.as_ref())?;
        let audience = Audience { peer: call.peer(), caller, credential };
        let feed = Feed::open(edge, streams, audience, after).await?;
        let mut response =
            reply::stream("text/event-stream", Exclusive::new(feed.into_stream(place)));
        response
            .headers_mut()
            .insert(HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no"));
        Ok(response)
    })
}

/// A position in the order of events: `EPOCH-NUMBER`.
struct Cursor {
    epoch: String,
    number: i64,
}

impl Cursor {
    fn parse(text: &str) -> Result<Cursor> {
        let wrong = || {
            let shown = crate::base::truncate_chars(text, 80);
            Error::invalid(format!("`{}` is not the id of an event", shown.escape_debug()))
                .code("bad_event_id")
                .hint("send the `id` of an event unchanged")
        };
        let (epoch, number) = text.rsplit_once('-').ok_or_else(wrong)?;
        let is_plain = !number.is_empty() && number.bytes().all(|it| it.is_ascii_digit());
        let number = number.parse().ok().filter(|_| is_plain).ok_or_else(wrong)?;
        Ok(Cursor { epoch: epoch.to_owned(), number })
    }
}

/// The reader of a stream.
struct Audience {
    peer: Peer,
    caller: Caller,
    credential: Option<Credential>,
}

/// One stream to one reader.
struct Feed {
    edge: Edge,
    streams: Streams,
    peer: Peer,
    credential: Option<Credential>,
    /// When the credential is checked next.
    check_due: Instant,
    view: View,
    live: Receiver<Arc<StoredEvent>>,
    heartbeat: Interval,
    /// The number of the last event that was sent or skipped.
    position: i64,
    /// The last number that the client knows.
    told: i64,
    /// What is sent before anything else.
    greeting: Option<String>,
    /// Whether the table may have more events.
    is_behind: bool,
    /// Counts this stream while it is open.
    _open: Present,
}

impl Feed {
    async fn open(
        edge: Edge,
        streams: Streams,
        audience: Audience,
        after: Option<Cursor>,
    ) -> Result<Feed> {
        // Subscribes before it reads the table: an event in between is seen twice, not missed.
        let live = edge.store.subscribe();
        let (_, largest) = edge.store.read(events::edges).await?;
        let is_known =
            |it: &Cursor| it.epoch == edge.store.epoch() && (0..=largest).contains(&it.number);
        let (position, is_past_gone) = match &after {
            Some(it) if is_known(it) && !is_far(it.number, largest) => (it.number, false),
            Some(_) => (largest, true),
            None => (largest, false),
        };
        let view = View::of(&edge, &audience.caller).await?;
        let mut heartbeat = interval_at(Instant::now() + HEARTBEAT, HEARTBEAT);
        heartbeat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut feed = Feed {
            _open: edge.traffic.stream(),
            edge,
            streams,
            peer: audience.peer,
            credential: audience.credential,
            check_due: Instant::now() + CHECK,
            view,
            live,
            heartbeat,
            position,
            told: position,
            greeting: None,
            is_behind: !fault::is_off("event_replay"),
        };
        let mut greeting = format!("retry: {RETRY_MS}\n");
        if is_past_gone {
            feed.write_reset(&mut greeting);
        } else {
            // An id alone moves the browser's cursor, so a reader that leaves before the first
            // event misses none.
            greeting.push_str(&format!("id: {}\n\n", feed.id_of(position)));
        }
        feed.greeting = Some(greeting);
        Ok(feed)
    }

    fn into_stream(self, place: Place) -> BoxStream<'static, Result<Bytes>> {
        Box::pin(stream::unfold(Some((self, place)), async |feed| {
            let (mut feed, place) = feed?;
            match feed.next().await {
                Ok(Some(text)) => Some((Ok(text), Some((feed, place)))),
                Ok(None) => None,
                Err(cause) => {
                    warn!("an event stream ended: {}", cause.chain());
                    Some((Err(cause), None))
                }
            }
        }))
    }

    /// Returns the next bytes; `None` at the end of the stream.
    async fn next(&mut self) -> Result<Option<Bytes>> {
        if let Some(greeting) = self.greeting.take() {
            return Ok(Some(greeting.into()));
        }
        let stop = self.edge.stop.clone();
        loop {
            // Before anything is sent, because a busy stream has no silence to check in.
            let is_due = Instant::now() >= self.check_due && !fault::is_off("stream_check");
            if stop.is_cancelled() || (is_due && !self.may_go_on().await) {
                return Ok(None);
            }
            if self.is_behind {
                let text = tokio::select! {
                    biased;
                    () = stop.cancelled() => return Ok(None),
                    text = self.catch_up() => text?,
                };
                if !text.is_empty() {
                    return Ok(Some(text.into()));
                }
                continue;
            }
            tokio::select! {
                biased;
                () = stop.cancelled() => return Ok(None),
                event = self.live.recv() => match event {
                    Ok(event) => {
                        // The event may be the one that ends this reader's access.
                        if event.kind == EventKind::PersonChanged && !self.may_go_on().await {
                            return Ok(None);
                        }
                        if let Some(text) = self.take_live(&event) {
                            return Ok(Some(text));
                        }
                    }
                    Err(RecvError::Lagged(_)) => self.is_behind = true,
                    Err(RecvError::Closed) => return Ok(None),
                },
                _ = self.heartbeat.tick() => {
                    return Ok(self.may_go_on().await.then(|| self.beat().into()));
                }
            }
        }
    }

    /// Reads one page of the table. A missing number was pruned, so the past is incomplete.
    async fn catch_up(&mut self) -> Result<String> {
        let position = self.position;
        let (largest, page) = self
            .edge
            .store
            .read(move |c| {
                // The newest number first: events committed in between are in the page, not beyond
                // it.
                let (_, largest) = events::edges(c)?;
                Ok((largest, events::after(c, position, PAGE_EVENTS_MAX)?))
            })
            .await?;
        let mut text = String::new();
        if is_far(self.position, largest) {
            self.position = largest;
            self.write_reset(&mut text);
            return Ok(text);
        }
        if page.is_empty() {
            self.is_behind = false;
            if largest > self.position {
                self.position = largest;
                self.write_reset(&mut text);
            }
            return Ok(text);
        }
        for event in &page {
            if event.id != self.position + 1 && !fault::is_off("event_gap") {
                // The client reads the rest of the past from the site itself.
                self.position = largest.max(event.id);
                self.write_reset(&mut text);
                return Ok(text);
            }
            self.position = event.id;
            self.write_event(&mut text, event);
        }
        Ok(text)
    }

    fn take_live(&mut self, event: &StoredEvent) -> Option<Bytes> {
        if event.id <= self.position {
            return None;
        }
        if event.id != self.position + 1 && !fault::is_off("event_replay") {
            self.is_behind = true;
            return None;
        }
        self.position = event.id;
        if !self.view.has(event) {
            return None;
        }
        self.told = event.id;
        Some(self.streams.text_of(event.id, || self.text_of(event)))
    }

    /// A stream may outlive its credential, so the credential is checked again and again.
    async fn may_go_on(&mut self) -> bool {
        self.check_due = Instant::now() + CHECK;
        match &self.credential {
            Some(credential) => identify(&self.edge, &self.peer, credential).await.is_ok(),
            None => true,
        }
    }

    fn beat(&mut self) -> String {
        let mut text = ": still here\n".to_owned();
        if self.told != self.position {
            text.push_str(&format!("id: {}\n", self.id_of(self.position)));
            self.told = self.position;
        }
        text.push('\n');
        text
    }

    fn id_of(&self, number: i64) -> String {
        format!("{}-{number}", self.edge.store.epoch())
    }

    fn text_of(&self, event: &StoredEvent) -> String {
        let id = self.id_of(event.id);
        let kind = event.kind.as_str();
        let data = json!({
            "id": id, "at": event.at, "kind": kind, "subject": event.subject,
            "actor": event.actor, "data": event.data,
        });
        format!("id: {id}\nevent: {kind}\ndata: {data}\n\n")
    }

    fn write_event(&mut self, text: &mut String, event: &StoredEvent) {
        if self.view.has(event) {
            text.push_str(&self.text_of(event));
            self.told = event.id;
        }
    }

    fn write_reset(&mut self, text: &mut String) {
        let id = self.id_of(self.position);
        let data = json!({"id": id});
        text.push_str(&format!("id: {id}\nevent: reset\ndata: {data}\n\n"));
        self.told = self.position;
    }
}

/// Returns whether a reader is so far behind that it should reload instead of reading every event.
fn is_far(position: i64, largest: i64) -> bool {
    largest - position > REPLAY_EVENTS_MAX && !fault::is_off("replay_limit")
}

#[cfg(test)]
mod tests {
    use camino::Utf8Path;
    use tokio::task::JoinSet;
    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::base::{Actor, Clock, Event, Ids, Scope};
    use crate::http::{GateConfig, Has, Traffic};
    use crate::people::{self, LoginCodes, Person, TokenScope};
    use crate::store::{MIGRATIONS, Store};

    #[test]
    fn a_cursor_is_an_epoch_and_a_number() {
        let cursor = Cursor::parse("018b-cfe5-17").unwrap();
        assert_eq!((cursor.epoch.as_str(), cursor.number), ("018b-cfe5", 17));
        for bad in ["", "17", "a-", "a-b", "a-+1", "a-99999999999999999999", "a-1\n"] {
            assert!(Cursor::parse(bad).is_err(), "{bad:?}");
        }
    }

    /// An edge with one admin, who has a token; the set holds the writer.
    async fn edge(folder: &Utf8Path, tasks: &mut JoinSet<()>) -> (Edge, Person, String) {
        let path = folder.join("wiki.db");
        let (store, writer) = Store::open(&path, MIGRATIONS, Clock::system()).unwrap();
        tasks.spawn(writer.serve(CancellationToken::new()));
        let ids = Ids::new(Clock::system());
        let minting = ids.clone();
        let made = store.write(move |tx| {
            let person = people::ensure_operator(tx, &minting, "ada")?;
            let scopes = [TokenScope::Read];
            let token = people::create_token(tx, &minting, &person.id, "x", &scopes, None)?.1;
            Ok((person, token))
        });
        let (person, token) = made.await.unwrap();
        let edge = Edge {
            store,
            ids,
            codes: LoginCodes::default(),
            gate: Arc::new(GateConfig::new(None, vec![], "Test".to_owned(), folder)),
            identify_job: Arc::new(|_| Box::pin(async { Ok(None) })),
            note_refusal: Arc::new(|_, _| ()),
            has_for: Arc::new(|_| Has::default()),
            is_agent_peer: Arc::new(|_| false),
            is_ready: Arc::new(|| Box::pin(async { Ok(()) })),
            traffic: Traffic::default(),
            stop: CancellationToken::new(),
        };
        (edge, person, token)
    }

    /// The person with a token, as a reader from this machine.
    async fn audience(edge: &Edge, token: &str) -> Audience {
        let peer = Peer::Tcp(([127, 0, 0, 1], 1).into());
        let credential = Credential::Bearer(token.to_owned());
        let caller = identify(edge, &peer, &credential).await.unwrap().caller;
        Audience { peer, caller, credential: Some(credential) }
    }

    fn plain(scope: Scope) -> Event {
        let subject = "config".to_owned();
        let event = Event::new(EventKind::ConfigReloaded, subject, Actor::System, json!({}));
        Event { scope, ..event }
    }

    /// Fails with `WB_WITHOUT=stream_check`.
    #[tokio::test]
    async fn a_stream_without_silence_ends_with_its_credential() {
        let folder = tempfile::tempdir().unwrap();
        let mut tasks = JoinSet::new();
        let data = Utf8Path::from_path(folder.path()).unwrap();
        let (edge, person, token) = edge(data, &mut tasks).await;
        let audience = audience(&edge, &token).await;
        let feed = Feed::open(edge.clone(), Streams::new(1), audience, None).await;
        let mut feed = feed.unwrap();
        assert!(feed.next().await.unwrap().is_some(), "the greeting");
        edge.store.write(move |tx| people::disable(tx, &person.id)).await.unwrap();
        let happen = || edge.store.write(|tx| tx.emit(plain(Scope::Site)));
        happen().await.unwrap();
        assert!(feed.next().await.unwrap().is_some(), "it is not asked at each event");
        // A busy stream: there is always something to send.
        for _ in 0..3 {
            happen().await.unwrap();
        }
        tokio::time::pause();
        tokio::time::advance(CHECK).await;
        tokio::time::resume();
        assert_eq!(feed.next().await.unwrap(), None);
    }

    /// Fails with `WB_WITHOUT=replay_limit`.
    #[tokio::test]
    async fn who_is_too_far_behind_is_told_so() {
        let folder = tempfile::tempdir().unwrap();
        let mut tasks = JoinSet::new();
        let data = Utf8Path::from_path(folder.path()).unwrap();
        let (edge, _, token) = edge(data, &mut tasks).await;
        let many = REPLAY_EVENTS_MAX + 1;
        let written =
            edge.store.write(move |tx| (0..many).try_for_each(|_| tx.emit(plain(Scope::Site))));
        written.await.unwrap();
        for (number, word) in [(0, "event: reset"), (1, "event: config_reloaded")] {
            let cursor = Cursor { epoch: edge.store.epoch().to_owned(), number };
            let audience = audience(&edge, &token).await;
            let feed = Feed::open(edge.clone(), Streams::new(2), audience, Some(cursor)).await;
            let mut feed = feed.unwrap();
            let first = [feed.next().await.unwrap().unwrap(), feed.next().await.unwrap().unwrap()];
            let text = String::from_utf8_lossy(&first.concat()).into_owned();
            assert!(text.contains(word), "{number}: {text:.300}");
            assert_eq!(text.contains("event: reset"), number == 0);
        }
    }

    #[tokio::test]
    async fn a_silent_stream_beats_until_its_credential_ends() {
        let folder = tempfile::tempdir().unwrap();
        let mut tasks = JoinSet::new();
        let data = Utf8Path::from_path(folder.path()).unwrap();
        let (edge, person, token) = edge(data, &mut tasks).await;
        let audience = audience(&edge, &token).await;
        let feed = Feed::open(edge.clone(), Streams::new(1), audience, None).await;
        let mut feed = feed.unwrap();
        let epoch = edge.store.epoch().to_owned();
        let greeting = format!("retry: 1000\nid: {epoch}-0\n\n");
        assert_eq!(feed.next().await.unwrap(), Some(greeting.into()));
        tokio::time::pause();
        let silent = feed.next().await.unwrap();
        assert_eq!(silent.as_deref(), Some(&b": still here\n\n"[..]));
        // An event that this reader does not receive moves its cursor all the same.
        edge.store
            .write(|tx| {
                let other = Scope::Person("018bcfe5-6800-7000-8000-00000000000b".parse()?);
                tx.emit(plain(other))
            })
            .await
            .unwrap();
        let beat = format!(": still here\nid: {epoch}-1\n\n");
        assert_eq!(feed.next().await.unwrap(), Some(beat.into()));
        edge.store.write(move |tx| people::disable(tx, &person.id)).await.unwrap();
        assert_eq!(feed.next().await.unwrap(), None);
    }
}
