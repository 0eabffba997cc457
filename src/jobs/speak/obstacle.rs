//! What keeps a text from being pasted into a terminal now: a person at it, a question on it, a
//! view or a program other than the one that was meant, or one that is not there.
//!
//! **Invariant:** where the line in which one types is known, nothing is pasted while it is not
//! seen.

use std::time::Duration;

use tokio::time::sleep;
use tracing::{info, warn};

use crate::base::BlockId;
use crate::jobs::speak::screen;
use crate::jobs::speak::typist::Typist;
use crate::process::{Front, PaneState, Pasted, Screen, look_in_front};
use crate::script::Proof;

/// So long after a person's last key nothing is pasted, in seconds.
const TYPES_SECONDS: i64 = 10;
/// Most keys that are pressed to remove a text of ours, two a line.
const CLEAR_KEYS_MAX: usize = 200;
/// The pause after each of them.
const CLEAR_PAUSE: Duration = Duration::from_millis(30);

/// Why nothing is pasted if the line in which one types is not on the screen.
const NO_LINE: &str = "no_line";
/// Why nothing is pasted if it is not known what is there.
const UNSEEN: &str = "pane";

impl Typist {
    /// Returns why a text cannot be pasted now; waits for the line in which one types first.
    pub(super) async fn obstacle(&self, id: &BlockId) -> Option<&'static str> {
        match self.sight().await {
            Some(NO_LINE) => {
                self.until_line(id).await;
                self.sight().await
            }
            why => why,
        }
    }

    /// Returns why a text cannot be pasted now. Looks at the terminal: at its state and its screen
    /// in one moment, by one program.
    pub(super) async fn sight(&self) -> Option<&'static str> {
        let seen = match &self.place.typed.input {
            Some(_) => self.pane.sight().await,
            None => self.pane.standing().await.map(|state| (state, Screen::default())),
        };
        let (state, screen) = match seen {
            Ok(seen) => seen,
            Err(cause) => {
                info!("the pane is not seen: {}", cause.chain());
                return Some(UNSEEN);
            }
        };
        if let Some(why) = hindrance(&state) {
            return Some(why);
        }
        if let Some(why) = self.hindrance_in_front().await {
            return Some(why);
        }
        if self.desk.is_asking() {
            return Some("dialog");
        }
        let mark = self.place.typed.input.as_deref();
        if mark.is_some_and(|mark| !screen.has_line(mark)) {
            return Some(NO_LINE);
        }
        // It passes by itself, so whatever does not is told first.
        let now = self.place.clock.now().0 / 1_000;
        if state.typed_at.is_some_and(|at| now - at < TYPES_SECONDS) {
            return Some("typing");
        }
        self.hindrance_in_line(mark?, screen).await
    }

    /// Returns what else has the keys of the terminal, as in `held_stopped` and
    /// `held_other_program`.
    async fn hindrance_in_front(&self) -> Option<&'static str> {
        let guard = self.place.guard;
        match tokio::task::spawn_blocking(move || look_in_front(guard)).await {
            Ok(Ok(Front::Program)) => None,
            Ok(Ok(Front::Stopped(_))) => Some("stopped"),
            Ok(Ok(Front::Other(_))) => Some("other_program"),
            Ok(Err(cause)) => {
                info!("nobody knows who has the terminal: {}", cause.chain());
                Some(UNSEEN)
            }
            Err(cause) => {
                warn!("nobody knows who has the terminal: {cause}");
                Some(UNSEEN)
            }
        }
    }

    /// Returns what stands in the way in the line in which one types, as in `held_draft`.
    async fn hindrance_in_line(&self, mark: &str, seen: Screen) -> Option<&'static str> {
        let screen = match self.place.typed.proof {
            Proof::Hooks => Ok(seen),
            Proof::Screen if !screen::is_still(&self.pane, &self.place.typed).await => {
                return Some("moving");
            }
            Proof::Screen => self.pane.screen().await,
        };
        let Ok(screen) = screen else { return Some(UNSEEN) };
        match screen.draft(mark) {
            Some(draft) if draft.is_empty() => None,
            // It came back, or nobody took it: what follows would be glued to it.
            Some(_) if screen.is_only_ours(mark) && self.clear(&screen).await => None,
            Some(_) => Some("draft"),
            None => Some(NO_LINE),
        }
    }

    /// Removes what was seen in the line in which one types, and is ours; whether nothing is left
    /// there. No key is pressed while anything else is there.
    pub(super) async fn clear(&self, seen: &Screen) -> bool {
        let Some(mark) = &self.place.typed.input else { return false };
        let (mut left, mut is_seen) = (seen.typed(mark), true);
        for _ in 0..CLEAR_KEYS_MAX {
            if is_seen {
                match self.pane.press("C-u").await {
                    Ok(Pasted::Done) => {}
                    Ok(Pasted::Refused) => return false,
                    Err(cause) => {
                        warn!("our text is left in its line: {}", cause.chain());
                        return false;
                    }
                }
            }
            sleep(CLEAR_PAUSE).await;
            let Ok(now) = self.pane.screen().await else { return false };
            if now.draft(mark).is_some_and(|it| it.is_empty()) {
                return true;
            }
            // The key removes from the end. If it is no part of ours, it is being drawn, or
            // somebody types there.
            let typed = now.typed(mark);
            is_seen = !typed.is_empty() && left.starts_with(&typed);
            if is_seen {
                left = typed;
            }
        }
        false
    }
}

/// Returns in what way the terminal itself is closed, as in the codes `held_dead`, `held_mode` and
/// `held_input_off`.
fn hindrance(state: &PaneState) -> Option<&'static str> {
    match state {
        PaneState { is_dead: true, .. } => Some("dead"),
        PaneState { is_in_mode: true, .. } => Some("mode"),
        PaneState { is_input_off: true, .. } => Some("input_off"),
        _ => None,
    }
}
