//! Typing to an agent in a terminal: a text is pasted, the key is pressed that hands it in
//! (`press_enter.rs`), and its arrival is proven by a hook, or by its screen.
//!
//! **Invariant:** a text is pasted again only if no key was pressed for it and its line, which is
//! known, never held it; then once. Nothing in a paste presses one: a program that does not take
//! pastes in brackets gets one line, which names a file.
//! **Invariant:** nothing is pressed while the agent asks something: it would be an answer.
//! **Invariant:** what a person has typed is neither handed in nor removed.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use camino::Utf8PathBuf;
use tokio::sync::Notify;
use tokio::sync::mpsc::Sender;
use tokio::time::{Instant, sleep, sleep_until};
use tracing::{info, warn};

use crate::base::{BlockId, Clock, Result, fault};
use crate::jobs::speak::mention::is_filled_in;
use crate::jobs::speak::{Fact, Stance, Voice, screen, written};
use crate::process::{JobFolder, Pane, Pasted, Terminals, plain, presses_keys, with_token};
use crate::script::{Proof, Typed};

/// The pause between a text and the key: programs take a key that comes with it for a part of it.
pub(super) const PAUSE: Duration = Duration::from_millis(150);
/// The pauses before it is looked again whether what kept a text from being pasted is over.
const LOOK_FIRST: Duration = Duration::from_millis(500);
const LOOK_LAST: Duration = Duration::from_secs(5);
/// The pause before a pane is looked for again.
const PANE_AGAIN: Duration = Duration::from_secs(1);
/// How long a program may take to say that it takes what is typed, before a person is told: it
/// may ask something that no hook tells of.
const START_MAX: Duration = Duration::from_secs(20);
/// How long the first text waits for a program to take pastes in brackets: that it does is heard
/// by a process besides the terminal.
const BRACKETS_MAX: Duration = Duration::from_secs(2);
/// The pause between two looks for it.
const BRACKETS_EVERY: Duration = Duration::from_millis(50);
/// Longest text that is pasted; of a longer one the name of a file with it.
const TEXT_BYTES_MAX: usize = 8 * 1024;

/// Where what is to be typed waits.
#[derive(Debug)]
pub(in crate::jobs) struct Desk {
    state: Mutex<State>,
    bell: Notify,
    /// Rung for the end of a turn of which nothing else tells.
    cut: Notify,
    /// Rung when a turn may have begun whose end may be seen on the screen only.
    watched: Notify,
    /// Rung when there may be something to look for in the transcript.
    written: Notify,
    /// Where it is typed, once that is known.
    pane: OnceLock<Pane>,
}

#[derive(Debug, Default)]
struct State {
    /// What is to be typed; without its text it may have been typed by an earlier server.
    words: Option<(BlockId, Option<String>)>,
    /// The last block that was to be typed.
    given: Option<BlockId>,
    /// The last block whose turn began.
    proven: Option<BlockId>,
    /// What the process has told of itself.
    stance: Stance,
    is_interrupted: bool,
    is_ready: bool,
    is_asking: bool,
    has_turn: bool,
    /// Whether its turns are seen on its screen only.
    is_by_screen: bool,
    /// Whether a text was refused, and nothing is to be typed before that is over.
    is_held: bool,
    /// Why, in a word, if this server has told that.
    held: Option<&'static str>,
    /// Whether the last text was given again because it was never seen in its line.
    is_given_again: bool,
    /// Whether a text has waited for brackets.
    has_waited: bool,
}

/// What a typist works with.
pub(in crate::jobs) struct Place {
    /// The terminals of the site.
    pub(in crate::jobs) terminals: Terminals,
    /// The session of the agent.
    pub(in crate::jobs) session: String,
    /// The process in its pane.
    pub(in crate::jobs) guard: i32,
    /// The folder of its job.
    pub(in crate::jobs) dir: Utf8PathBuf,
    /// Where the agent works.
    pub(in crate::jobs) folder: Utf8PathBuf,
    /// How it is typed to.
    pub(in crate::jobs) typed: Typed,
    /// The time.
    pub(in crate::jobs) clock: Clock,
}

impl Desk {
    /// Returns an empty desk; `given` was typed by an earlier server, which may have seen its turn.
    pub(in crate::jobs) fn new(given: Option<BlockId>, is_begun: bool) -> Desk {
        let words = given.clone().map(|it| (it, None));
        let proven = given.clone().filter(|_| is_begun);
        // Whatever an earlier server was kept from: it is looked at again.
        let state = Mutex::new(State { words, given, proven, is_held: true, ..State::default() });
        let [bell, cut, watched, written] = std::array::from_fn(|_| Notify::new());
        Desk { state, bell, cut, watched, written, pane: OnceLock::new() }
    }

    /// Learns what the process has told of itself: an earlier server may have heard of that.
    pub(in crate::jobs) fn know(&self, stance: Stance) {
        let mut state = self.state();
        if !state.is_by_screen {
            (state.is_ready, state.has_turn) = (state.is_ready || stance.is_up, stance.has_turn);
        }
        // What a person has stopped since stands in the line again: it is not handed in.
        state.proven = stance.begun.clone().or(state.proven.take());
        state.stance = stance;
        drop(state);
        self.bell.notify_one();
        self.written.notify_one();
        self.watched.notify_one();
    }

    /// Returns what is to be looked for in the transcript: the file, the name of the turn that
    /// runs, and a text of ours whose turn has not ended. Nothing while there is nothing.
    pub(super) fn sought(&self) -> Option<(Utf8PathBuf, Option<String>, Option<BlockId>)> {
        let state = self.state();
        let path = state.stance.transcript.clone()?;
        let is_unproven = state.given.is_some() && state.given != state.proven;
        if !state.has_turn && !is_unproven {
            return None;
        }
        let prompt = state.stance.prompt.clone().filter(|_| state.has_turn);
        Some((path.into(), prompt, state.given.clone()))
    }

    /// Waits until there may be something to look for in the transcript.
    pub(super) async fn until_sought(&self) {
        self.written.notified().await;
    }

    /// Returns the last lines of the terminal, if it is there.
    pub(in crate::jobs) async fn screen(&self, lines: u32) -> Option<String> {
        match self.pane.get()?.last_lines(lines).await {
            Ok(screen) => Some(plain(&screen)),
            Err(cause) => {
                info!("the screen is not seen: {}", cause.chain());
                None
            }
        }
    }

    /// Waits for the end of a turn of which nothing else tells.
    pub(in crate::jobs) async fn until_cut(&self) {
        self.cut.notified().await;
    }

    pub(in crate::jobs) fn put(&self, id: &BlockId, text: String) {
        let mut state = self.state();
        (state.given, state.words) = (Some(id.clone()), Some((id.clone(), Some(text))));
        drop(state);
        self.bell.notify_one();
        self.written.notify_one();
    }

    pub(in crate::jobs) fn interrupt(&self) {
        self.state().is_interrupted = true;
        self.bell.notify_one();
    }

    /// Hears a fact about the agent.
    pub(in crate::jobs) fn hear(&self, fact: &Fact) {
        let mut state = self.state();
        match fact {
            Fact::Ready => (state.is_ready, state.is_asking) = (true, false),
            Fact::Waits { .. } => state.is_asking = true,
            Fact::GoesOn => state.is_asking = false,
            Fact::Began { block } => {
                (state.is_ready, state.has_turn) = (true, true);
                state.proven = block.clone().or(state.proven.take());
            }
            Fact::Ended { .. } => (state.is_asking, state.has_turn) = (false, false),
            _ => return,
        }
        drop(state);
        self.bell.notify_one();
    }

    /// Returns whether the process asks a person something.
    pub(super) fn is_asking(&self) -> bool {
        self.state().is_asking
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that a text was refused, and why.
    fn hold(&self, why: &'static str) {
        let mut state = self.state();
        (state.is_held, state.held, state.given) = (true, Some(why), None);
    }

    /// Returns whether what kept a text from being pasted is over, or another reason is to be told.
    fn is_freed(&self, why: Option<&'static str>) -> bool {
        let mut state = self.state();
        let is_freed =
            state.is_held && (why.is_none() || state.held.is_some_and(|it| Some(it) != why));
        state.is_held &= !is_freed;
        is_freed
    }

    /// Returns whether the process takes what is typed, and whether a turn of it runs.
    pub(super) fn stance(&self) -> (bool, bool) {
        let state = self.state();
        (state.is_ready, state.has_turn)
    }

    /// Notes that the process takes what is typed; whether that is new.
    pub(super) fn be_ready(&self) -> bool {
        let is_new = !std::mem::replace(&mut self.state().is_ready, true);
        self.bell.notify_one();
        is_new
    }

    /// Notes that a turn began with a block.
    pub(super) fn begin(&self, id: &BlockId) {
        let mut state = self.state();
        (state.has_turn, state.proven) = (true, Some(id.clone()));
        drop(state);
        self.watched.notify_one();
    }

    /// Notes that the turn is over; whether there was one.
    pub(super) fn end_turn(&self) -> bool {
        std::mem::replace(&mut self.state().has_turn, false)
    }

    /// Ends a turn of whose end nothing else tells.
    pub(super) fn cut(&self) {
        self.cut.notify_one();
    }

    /// Waits until no turn runs, not longer than this; whether none does.
    pub(super) async fn until_no_turn(&self, wait: Duration) -> bool {
        let deadline = Instant::now() + wait;
        while self.state().has_turn && Instant::now() < deadline {
            tokio::select! {
                () = self.bell.notified() => {}
                () = sleep_until(deadline) => {}
            }
        }
        !self.state().has_turn
    }

    /// Waits until there may be something to look for on the screen.
    pub(super) async fn until_watched(&self) {
        self.watched.notified().await;
    }

    /// Returns whether the turn of a block was seen to begin.
    fn has_begun(&self, id: &BlockId) -> bool {
        self.state().proven.as_ref() == Some(id)
    }

    /// Returns whether no key is to be pressed for a block any more: it is proven, or something
    /// else comes first.
    pub(super) fn is_over(&self, id: &BlockId) -> bool {
        let state = self.state();
        let has_begun = state.proven.as_ref() == Some(id);
        has_begun || state.is_asking || state.is_interrupted || state.words.is_some()
    }

    /// Waits for that, not longer than this.
    pub(super) async fn until_over(&self, id: &BlockId, wait: Duration) {
        let deadline = Instant::now() + wait;
        while !self.is_over(id) {
            tokio::select! {
                () = self.bell.notified() => {}
                () = sleep_until(deadline) => return,
            }
        }
    }

    /// Notes that a text was seen in its line.
    pub(super) fn arrive(&self) {
        self.state().is_given_again = false;
    }

    /// Returns whether a text that was never seen in its line is to be given again: not the second
    /// one in a row.
    pub(super) fn give_again(&self) -> bool {
        !std::mem::replace(&mut self.state().is_given_again, true)
    }
}

/// Types what is put on a desk, and says what only who looks at the terminal can know. Never
/// returns: it is dropped with the agent.
pub(in crate::jobs) async fn serve(
    desk: Arc<Desk>,
    place: Place,
    voice: &Voice,
    tell: &Sender<Fact>,
) {
    let pane = loop {
        match Pane::find(&place.terminals, &place.session, place.guard).await {
            Ok(pane) => break pane,
            // It is gone, or about to be: its guard tells.
            Err(cause) => info!("no pane: {}", cause.chain()),
        }
        sleep(PANE_AGAIN).await;
    };
    let pane = desk.pane.get_or_init(|| pane).clone();
    let (seen, typed) = (desk.clone(), place.typed.clone());
    if typed.proof == Proof::Screen {
        let mut state = seen.state();
        state.is_by_screen = true;
        // What an earlier server typed may still be worked on.
        state.has_turn = matches!(state.words, Some((_, None)));
    }
    let dir = place.dir.clone();
    let typist = Typist { desk, place, pane: pane.clone(), tell: tell.clone() };
    tokio::join!(
        type_all(typist, voice, tell),
        screen::watch(&seen, &pane, &typed, tell),
        screen::watch_still(&seen, &pane, &typed, tell),
        written::watch(&seen, &dir),
    );
}

/// Types what is put on the desk.
async fn type_all(typist: Typist, voice: &Voice, tell: &Sender<Fact>) {
    let late_at = Instant::now() + START_MAX;
    let (mut is_told, mut pause) = (false, LOOK_FIRST);
    loop {
        let (words, is_interrupted, is_ready, is_held) = {
            let mut state = typist.desk.state();
            let is_interrupted = std::mem::take(&mut state.is_interrupted);
            (state.words.take(), is_interrupted, state.is_ready, state.is_held)
        };
        if is_interrupted {
            typist.interrupt().await;
        }
        if let Some((id, text)) = words {
            if let Some(why) = typist.give(&id, text).await {
                info!("block {id} is not pasted: {why}");
                voice.take_back();
                typist.desk.hold(why);
                pause = LOOK_FIRST;
                send(tell, Fact::Refused { block: id, why: why.to_owned() }).await;
            } else if typist.desk.has_begun(&id) {
                voice.note_begun(&id);
            }
            continue;
        }
        if !is_ready && !is_told && Instant::now() >= late_at {
            is_told = true;
            send(tell, Fact::Waits { why: "start".to_owned() }).await;
        }
        let is_freed = is_held && typist.desk.is_freed(typist.sight().await);
        if is_freed {
            send(tell, Fact::Free).await;
        }
        let is_held = is_held && !is_freed;
        let next = if is_held { Instant::now() + pause } else { late_at };
        pause = (pause * 2).min(LOOK_LAST);
        tokio::select! {
            () = typist.desk.bell.notified() => {}
            () = sleep_until(next), if is_held || (!is_ready && !is_told) => {}
        }
    }
}

/// Says what was seen; whoever writes it down is there for as long as the typist is.
pub(super) async fn send(tell: &Sender<Fact>, fact: Fact) {
    if tell.send(fact).await.is_err() {
        warn!("nobody notes what is seen of a terminal");
    }
}

/// Who types to one process.
pub(super) struct Typist {
    /// What is to be typed.
    pub(super) desk: Arc<Desk>,
    /// What it works with.
    pub(super) place: Place,
    /// Where it types.
    pub(super) pane: Pane,
    /// Who hears what is seen there.
    pub(super) tell: Sender<Fact>,
}

impl Typist {
    /// Types a block; returns why not, if nothing of it was written.
    async fn give(&self, id: &BlockId, text: Option<String>) -> Option<&'static str> {
        let is_new = text.is_some();
        if let Some(text) = text {
            if let Some(why) = self.obstacle(id).await {
                return Some(why);
            }
            let is_safe = match presses_keys(&text) {
                true => self.takes_brackets().await,
                false => Ok(true),
            };
            let is_safe = match is_safe {
                Ok(is_safe) => is_safe,
                Err(cause) => {
                    warn!("block {id}: {}", cause.chain());
                    return Some("pane");
                }
            };
            // Somebody may have begun to type while it waited.
            if !is_safe && let Some(why) = self.sight().await {
                return Some(why);
            }
            let pasted = match self.shortened(id, text, is_safe) {
                Ok(text) => {
                    while fault::holds("text_claimed") {
                        sleep(PAUSE).await;
                    }
                    fault::crash_point("text_claimed");
                    self.pane.paste(id.as_str(), &text).await
                }
                Err(cause) => {
                    warn!("block {id} cannot be written down: {}", cause.chain());
                    return Some("disk");
                }
            };
            match pasted {
                Ok(Pasted::Done) => {}
                Ok(Pasted::Refused) => return Some("pane"),
                // It may be there: only the proof counts now.
                Err(cause) => warn!("block {id}: {}", cause.chain()),
            }
            fault::crash_point("text_pasted");
            sleep(PAUSE).await;
        }
        self.hand_in(id, is_new).await
    }

    /// Returns whether the program takes pastes in brackets, in which no key is pressed.
    async fn takes_brackets(&self) -> Result<bool> {
        let deadline = Instant::now() + BRACKETS_MAX;
        loop {
            let takes_them = self.pane.is_bracketed().await?;
            let has_waited = self.desk.state().has_waited;
            if takes_them || has_waited || Instant::now() >= deadline {
                self.desk.state().has_waited = true;
                return Ok(takes_them);
            }
            sleep(BRACKETS_EVERY).await;
        }
    }

    /// Returns what is pasted: of a text that is long, that would press keys, or into which the
    /// program would put files that it names, the name of a file that holds it.
    fn shortened(&self, id: &BlockId, text: String, is_safe: bool) -> Result<String> {
        let why = match text.len() <= TEXT_BYTES_MAX {
            true if is_safe && !is_filled_in(&text, &self.place.folder) => return Ok(text),
            true => "is in a file",
            false => "is too long for here",
        };
        let name = format!("message-{id}.md");
        JobFolder::make(&self.place.dir)?.put(&name, text.as_bytes())?;
        let file = self.place.dir.join(&name);
        Ok(with_token(id.as_str(), &format!("A message for you {why}. Read {file}")))
    }
}

/// Returns the name of the session of a job.
pub(in crate::jobs) fn session_of(job: &str) -> String {
    let word: String = job.chars().filter(char::is_ascii_hexdigit).collect();
    // The first digits of two jobs of one moment are the same.
    format!("wb-{}", &word[word.len().saturating_sub(12)..])
}
