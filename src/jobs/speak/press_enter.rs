//! Handing in what was pasted into a terminal: a key is pressed once the text is seen in its line,
//! and again as long as it stands there.
//!
//! **Invariant:** where the line is known, no key is pressed for a text that is not seen in it.
//! **Invariant:** a text for which a key was pressed is never pasted again.

use std::time::Duration;

use tokio::time::{Instant, sleep};
use tracing::warn;

use crate::base::BlockId;
use crate::jobs::speak::typist::{PAUSE, Typist, send};
use crate::jobs::speak::{Fact, screen};
use crate::process::{Screen, has_other_words, is_ours};
use crate::script::Proof;

/// The first wait for the proof; each next one is longer by [`LONGER`].
const PROOF_FIRST: Duration = Duration::from_millis(350);
const LONGER: f64 = 1.6;
/// How often the key is pressed in all.
const PRESSES_MAX: u32 = 6;
/// How long a program may take to show what was pasted: one that has much to do reads it late.
const SEEN_MAX: Duration = Duration::from_secs(5);
/// The pauses between two looks for it.
const LOOK_SOON: Duration = Duration::from_millis(50);
const LOOK_LAST: Duration = Duration::from_millis(400);

/// Why a text is given again that was never seen in its line.
const UNSEEN: &str = "unseen";

/// What is seen of the line in which one types.
#[derive(Debug, PartialEq, Eq)]
enum Line {
    /// The text stands there; the screen with it.
    Ours(Screen),
    /// So does an earlier one, that came late; the screen with both.
    Mixed(Screen),
    /// It is empty, or somebody else's.
    Other,
    /// It is not on the screen.
    Hidden,
}

/// What came of a wait for a text.
enum Found {
    /// It stands in its line; the screen with it.
    There(Screen),
    /// It needs no key of ours any more.
    Over,
    /// It is not there, and nothing was pressed for it: neither by us nor by a paste, in which no
    /// key is.
    Unseen,
    /// It came with an earlier one, and both were removed.
    Removed,
    /// The program shows no line that is known.
    NoLine,
}

impl Typist {
    /// Hands in a text that was pasted, now or by an earlier server; returns why it has not arrived
    /// if that is certain.
    pub(super) async fn hand_in(&self, id: &BlockId, is_new: bool) -> Option<&'static str> {
        let Some(mark) = self.place.typed.input.clone() else {
            if is_new {
                self.press_blindly(id).await;
            }
            return None;
        };
        // A placeholder names no text: an earlier server's, or that of who sits there.
        let is_pasted = is_new || self.pane.standing().await.is_ok_and(|it| it.typed_at.is_none());
        match (self.until_there((id, is_pasted), &mark).await, is_new) {
            (Found::There(screen), _) => {
                self.desk.arrive();
                self.press_while_there((id, is_pasted), &mark, screen).await;
                None
            }
            (Found::Removed, true) => Some(UNSEEN),
            // Once: a program that swallows it twice is one for a person to look at.
            (Found::Unseen, true) if self.desk.give_again() => Some(UNSEEN),
            _ => None,
        }
    }

    /// Waits until the program shows the line in which one types, not for ever: what is pasted into
    /// one that has not drawn it yet is read as single keys, or not at all.
    pub(super) async fn until_line(&self, id: &BlockId) {
        let Some(mark) = &self.place.typed.input else { return };
        let deadline = Instant::now() + SEEN_MAX;
        let mut pause = LOOK_SOON;
        while self.look((id, true), mark).await == Line::Hidden
            && Instant::now() < deadline
            && !self.desk.is_over(id)
        {
            self.desk.until_over(id, pause).await;
            pause = (pause * 2).min(LOOK_LAST);
        }
    }

    /// Waits until the text is seen in its line; as a placeholder, only if one is ours.
    async fn until_there(&self, (id, is_pasted): (&BlockId, bool), mark: &str) -> Found {
        let deadline = Instant::now() + SEEN_MAX;
        let (mut pause, mut has_line, mut is_mixed) = (LOOK_SOON, false, false);
        loop {
            if self.desk.is_over(id) {
                return Found::Over;
            }
            match self.look((id, is_pasted), mark).await {
                Line::Ours(screen) => {
                    // It was drawn just now: a key at once could be taken for a part of it.
                    if pause > LOOK_SOON {
                        sleep(PAUSE).await;
                    }
                    return Found::There(screen);
                }
                Line::Mixed(screen) if is_removable(&screen, mark) => {
                    let is_removed = self.clear(&screen).await;
                    return if is_removed { Found::Removed } else { Found::Over };
                }
                // It is not drawn to its end, or somebody has added words.
                Line::Mixed(_) => is_mixed = true,
                Line::Other => has_line = true,
                Line::Hidden => {}
            }
            if Instant::now() >= deadline {
                return match (is_mixed, has_line) {
                    (true, _) => Found::Over,
                    (_, true) => Found::Unseen,
                    _ => Found::NoLine,
                };
            }
            self.desk.until_over(id, pause).await;
            pause = (pause * 2).min(LOOK_LAST);
        }
    }

    /// Presses the key until the text has left its line, or is proven.
    async fn press_while_there(
        &self,
        (id, is_pasted): (&BlockId, bool),
        mark: &str,
        mut screen: Screen,
    ) {
        let is_by_screen = self.place.typed.proof == Proof::Screen;
        let mut is_seen = true;
        for press in 0..PRESSES_MAX {
            if is_seen {
                self.press(id, press).await;
            }
            let wait = PROOF_FIRST.mul_f64(LONGER.powi(i32::try_from(press).unwrap_or(0)));
            if is_by_screen {
                if screen::until_taken(&self.pane, mark, &screen, wait).await {
                    self.desk.begin(id);
                    send(&self.tell, Fact::Began { block: Some(id.clone()) }).await;
                    return;
                }
            } else {
                self.desk.until_over(id, wait).await;
            }
            if self.desk.is_over(id) {
                return;
            }
            match self.look((id, is_pasted), mark).await {
                Line::Ours(now) => (screen, is_seen) = (now, true),
                // It is being drawn.
                Line::Hidden => is_seen = false,
                // What has left its line was taken, whether or not a hook has told so yet.
                Line::Mixed(_) | Line::Other => return,
            }
        }
    }

    /// Presses the key for a text that cannot be seen, until a hook proves that it was taken.
    async fn press_blindly(&self, id: &BlockId) {
        let mut wait = PROOF_FIRST;
        for press in 0..PRESSES_MAX {
            if self.desk.is_over(id) {
                return;
            }
            self.press(id, press).await;
            self.desk.until_over(id, wait).await;
            wait = wait.mul_f64(LONGER);
        }
    }

    async fn press(&self, id: &BlockId, press: u32) {
        let keys = &self.place.typed.submit;
        // The first one twice: mostly it was only too early.
        let at = usize::try_from(press.saturating_sub(1)).unwrap_or(0) % keys.len().max(1);
        if let Some(key) = keys.get(at)
            && let Err(cause) = self.pane.press(key).await
        {
            warn!("block {id}: {}", cause.chain());
        }
    }

    /// Looks at the line in which one types.
    async fn look(&self, (id, is_pasted): (&BlockId, bool), mark: &str) -> Line {
        match self.pane.screen().await {
            Ok(screen) => read(screen, mark, (id, is_pasted)),
            Err(_) => Line::Hidden,
        }
    }
}

/// Returns whether all that stands in the line is ours.
fn is_removable(screen: &Screen, mark: &str) -> bool {
    let typed = screen.typed(mark);
    // A placeholder, of the later one, may stand behind the first one.
    let before = typed.strip_suffix(']').and_then(|it| it.rsplit_once('[')).map(|it| it.0);
    !is_ours(&typed) || !has_other_words(before.unwrap_or(&typed))
}

/// Reads the line in which one types; `is_pasted` says whether a placeholder in it is ours.
fn read(screen: Screen, mark: &str, (id, is_pasted): (&BlockId, bool)) -> Line {
    if !screen.has_line(mark) {
        return Line::Hidden;
    }
    let typed = screen.draft(mark).filter(|it| !it.is_empty());
    let Some(typed) = typed else { return Line::Other };
    let is_mixed = screen.typed_names(mark).iter().any(|it| it != id.as_str());
    match screen.holds_ours(mark) && (is_pasted || is_ours(&typed)) {
        true if is_mixed || typed.contains("][") => Line::Mixed(screen),
        true => Line::Ours(screen),
        false => Line::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "01998d4e-6c1a-7f00-8000-000000000001";
    const OLD: &str = "01998d4e-6c1a-7f00-8000-000000000002";

    fn line(typed: &str) -> Line {
        line_after((typed, true))
    }

    fn line_after((typed, is_pasted): (&str, bool)) -> Line {
        let edge = "────────────";
        let screen = format!("❯ ‹wb:{OLD}› said before\n\n{edge}\n❯ {typed}\n{edge}\n  hint\n");
        match read(Screen::of(&screen), "❯", (&ID.parse().unwrap(), is_pasted)) {
            Line::Ours(_) => Line::Ours(Screen::default()),
            Line::Mixed(_) => Line::Mixed(Screen::default()),
            other => other,
        }
    }

    #[test]
    fn a_key_is_pressed_for_our_text_alone() {
        let (ours, mixed) = (Line::Ours(Screen::default()), || Line::Mixed(Screen::default()));
        assert_eq!(line(&format!("‹wb:{ID}› hello")), ours);
        assert_eq!(line("[Pasted text #1 +3 lines]"), ours);
        // It may be that of a person who sits at the terminal when a server starts.
        assert_eq!(line_after(("[Pasted text #1 +3 lines]", false)), Line::Other);
        assert_eq!(line_after((&format!("‹wb:{ID}› hello"), false)), ours);
        assert_eq!(line("what a person wrote"), Line::Other);
        assert_eq!(line(""), Line::Other);
        assert_eq!(read(Screen::of("May I? (y)"), "❯", (&ID.parse().unwrap(), true)), Line::Hidden);
        // One that came late stands before it, on a line of its own or not.
        assert_eq!(line(&format!("‹wb:{OLD}› hello‹wb:{ID}› hello")), mixed());
        let (one, two) = ID.split_at(9);
        assert_eq!(line(&format!("‹wb:{OLD}› hello\n  ‹wb:{one}\n  {two}› hello")), mixed());
        assert_eq!(line(&format!("‹wb:{ID}› hel\n  ‹wb:{OLD}› hello")), mixed());
        assert_eq!(line("[Pasted text #1 +3 lines][Pasted text #2 +3 lines]"), mixed());
    }

    #[test]
    fn two_texts_are_removed_only_without_a_persons_words() {
        let of = |typed: &str| {
            let edge = "────────────";
            is_removable(&Screen::of(&format!("{edge}\n❯ {typed}\n{edge}\n")), "❯")
        };
        let (old, new) = (format!("‹wb:{OLD}› a ‹wb:end›"), format!("‹wb:{ID}› b ‹wb:end›"));
        assert!(of(&format!("{old}{new}")) && of(&format!("{old}[Pasted text #2 +3 lines]")));
        assert!(of("[Pasted text #1 +3 lines][Pasted text #2 +3 lines]"));
        assert!(!of(&format!("{old} mine {new}")) && !of(&format!("{old}{new} mine")));
    }
}
