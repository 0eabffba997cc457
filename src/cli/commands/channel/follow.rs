//! `wiki-browser channel follow`: a chat in the terminal.

use std::io::BufRead as _;
use std::sync::mpsc::{self, Receiver, TryRecvError};
use std::time::Duration;

use serde_json::json;

use crate::api::channels::{ChannelView, History, PostRequest};
use crate::base::{ErrorKind, Result};
use crate::cli::commands::Desk;
use crate::cli::commands::channel::message::print;
use crate::cli::commands::channel::{route, typed};
use crate::cli::commands::site::Absence;
use crate::cli::terminal::escape;
use crate::client::{Client, Next, query};

/// Between two looks for a line that was typed.
const LOOK_INTERVAL: Duration = Duration::from_millis(150);
/// Most messages that are asked for at once.
const PAGE: &str = "100";

/// Prints what is said in a channel and says what is typed, until interrupted or until the channel
/// has ended.
pub(in crate::cli::commands) fn follow(desk: &Desk, channel: &str, last: u32) -> Result<()> {
    let client = desk.client()?;
    let found: ChannelView = typed(client.get(&route(channel, ""))?)?;
    let mut chat = Chat {
        desk,
        client: &client,
        seen: (found.last_sequence - i64::from(last)).max(0),
        slug: found.slug,
        is_member: found.me.is_some(),
        absence: Absence::default(),
    };
    desk.screen.note(&format!("#{} ({})", escape::line(&found.name), chat.slug));
    if found.completed_at.is_some() {
        desk.screen.note("read-only: it has ended");
    } else if !chat.is_member {
        let slug = &chat.slug;
        desk.screen.note(&format!("read-only; to write: wiki-browser channel join {slug}"));
    }
    let typed = lines();
    let mut events = client.events(None);
    let mut text = String::new();
    loop {
        match events.next(LOOK_INTERVAL) {
            Ok(Next::Quiet | Next::Lost(_)) => {}
            // Whatever happened: what is new is asked for.
            Ok(Next::Opened | Next::Reset | Next::Event(_)) => {
                if chat.look()? {
                    return Ok(());
                }
            }
            Err(cause) => return Err(cause),
        }
        match typed.try_recv() {
            Ok(line) => match line.strip_suffix('\\') {
                Some(begun) => text.push_str(&format!("{begun}\n")),
                None => {
                    text.push_str(&line);
                    chat.say(&std::mem::take(&mut text))?;
                }
            },
            Err(TryRecvError::Empty | TryRecvError::Disconnected) => {}
        }
    }
}

/// Returns the lines that are typed; the thread that reads them ends with the program.
fn lines() -> Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines() {
            let Ok(line) = line else { return };
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    receiver
}

struct Chat<'d> {
    desk: &'d Desk,
    client: &'d Client,
    slug: String,
    /// The last message that was printed.
    seen: i64,
    is_member: bool,
    absence: Absence,
}

impl Chat<'_> {
    /// Prints what is new; whether the channel has ended.
    fn look(&mut self) -> Result<bool> {
        loop {
            let seen = self.seen.to_string();
            let pairs = [("after", Some(seen.as_str())), ("limit", Some(PAGE))];
            let answer = match self.client.look(&query(&route(&self.slug, "/messages"), &pairs)) {
                Ok(answer) => answer,
                Err(cause) if cause.kind() == ErrorKind::Unavailable => {
                    self.absence.goes_on(self.desk, cause)?;
                    return Ok(false);
                }
                Err(cause) => return Err(cause),
            };
            self.absence.end(self.desk);
            let page: History = typed(answer)?;
            for message in &page.items {
                print(self.desk, message)?;
                self.seen = message.sequence;
            }
            if self.seen < page.last_sequence && !page.items.is_empty() {
                continue;
            }
            let found: ChannelView = typed(self.client.get(&route(&self.slug, ""))?)?;
            self.is_member = found.me.is_some();
            if found.completed_at.is_some() {
                // Its last words may have come in between.
                if found.last_sequence > self.seen {
                    continue;
                }
                return Ok(true);
            }
            if !page.items.is_empty() && self.is_member {
                self.tell_seen()?;
            }
            return Ok(false);
        }
    }

    /// Tells up to where it was read. Whoever was a member a moment ago may have left, as everybody
    /// does when the channel ends.
    fn tell_seen(&mut self) -> Result<()> {
        let body = json!({"sequence": self.seen});
        match self.client.post(&route(&self.slug, "/read"), &body) {
            Err(cause) if cause.kind() == ErrorKind::Forbidden => {
                self.is_member = false;
                Ok(())
            }
            told => told.map(drop),
        }
    }

    /// Says what was typed; a refusal is told and ends nothing.
    fn say(&mut self, text: &str) -> Result<()> {
        if text.trim().is_empty() {
            return Ok(());
        }
        let request = PostRequest { body: text.to_owned(), ..PostRequest::default() };
        match self.client.create(&route(&self.slug, "/messages"), &json!(request)) {
            Ok(_) => Ok(()),
            Err(cause) => {
                self.desk.screen.note(&escape::line(cause.message()));
                if let Some(hint) = cause.hint_str() {
                    self.desk.screen.note(&escape::line(hint));
                }
                Ok(())
            }
        }
    }
}
