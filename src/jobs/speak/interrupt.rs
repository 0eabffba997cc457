//! Interrupting a program in a terminal: Escape is pressed, and a turn of whose end nothing tells
//! is over once the screen shows that the program waits.
//!
//! **Invariant:** no turn is ended while the program draws, or does not show the line in which one
//! types: the key may have closed something else, or never have reached it.
//! **Invariant:** nothing is removed from that line but a text of ours.

use std::time::Duration;

use tokio::time::sleep;
use tracing::{info, warn};

use crate::jobs::speak::typist::{Typist, send};
use crate::jobs::speak::{Ending, Fact, screen};
use crate::process::{Pasted, Screen};
use crate::script::Proof;

/// How often the key is pressed: the first time it may only close a menu or a view.
const PRESSES_MAX: u32 = 2;
/// How long after the key a turn may go on before its screen is looked at: nothing tells of its
/// end.
const INTERRUPT_MAX: Duration = Duration::from_secs(2);
/// The pause before it is looked whether our own text came back into the line.
const CLEAR_AFTER: Duration = Duration::from_millis(300);
/// The pause between two looks that must show the same.
const LOOK_AGAIN: Duration = Duration::from_millis(500);

impl Typist {
    /// Ends the turn that runs, or tells that it goes on. Before its first word the program puts
    /// our own text back into its line: that is removed, anything else is not.
    pub(super) async fn interrupt(&self) {
        // Whoever reads back would keep the key from the program.
        if let Err(cause) = self.pane.leave_mode().await {
            info!("copy mode is not left: {}", cause.chain());
        }
        for _ in 0..PRESSES_MAX {
            let before = self.pane.screen().await.ok();
            match self.pane.press("Escape").await {
                Ok(Pasted::Done) => {}
                Ok(Pasted::Refused) => break,
                Err(cause) => {
                    warn!("nothing is interrupted: {}", cause.chain());
                    break;
                }
            }
            sleep(CLEAR_AFTER).await;
            self.remove_ours(before.as_ref()).await;
            if self.place.typed.proof == Proof::Screen && self.desk.end_turn() {
                send(&self.tell, screen::ended(Ending::Interrupted)).await;
            }
            if self.desk.until_no_turn(INTERRUPT_MAX).await {
                return;
            }
            if self.seems_to_wait().await {
                self.desk.cut();
                return;
            }
        }
        if self.desk.stance().1 {
            warn!("the turn goes on after it was interrupted");
            send(&self.tell, Fact::NotInterrupted).await;
        }
    }

    /// Removes our own text if it came back into its line.
    async fn remove_ours(&self, before: Option<&Screen>) {
        let Some(mark) = self.place.typed.input.as_deref() else { return };
        let Ok(now) = self.pane.screen().await else { return };
        if came_back(before, &now, mark) && !self.clear(&now).await {
            warn!("our text is left in its line");
        }
    }

    /// Returns whether the program shows the line in which one types, as far as that is known, and
    /// draws nothing.
    async fn seems_to_wait(&self) -> bool {
        let mark = self.place.typed.input.as_deref();
        let before = self.pane.screen().await.ok();
        sleep(LOOK_AGAIN).await;
        let now = self.pane.screen().await.ok();
        screen::is_same(now.as_ref(), before.as_ref())
            && now.is_some_and(|it| mark.is_none_or(|mark| it.has_line(mark)))
    }
}

/// Returns whether a line holds a text of ours and nothing of a person: nothing else stands in it,
/// or it was empty before.
fn came_back(before: Option<&Screen>, now: &Screen, mark: &str) -> bool {
    let was_empty = before.and_then(|it| it.draft(mark)).is_some_and(|it| it.is_empty());
    now.is_only_ours(mark) || (was_empty && now.holds_ours(mark))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_persons_words_are_not_removed_by_an_interrupt() {
        let of = |typed: &str| Screen::of(&format!("────────\n❯ {typed}\n────────\n"));
        let (ours, short) = ("‹wb:01› hello ‹wb:end›", "[Pasted text #3 +40 lines]");
        let added = format!("{ours} but only X");
        for (before, now, is_ours) in [
            ("", ours, true),
            ("", short, true),
            ("", "", false),
            ("", "mine", false),
            // It stood there before.
            (ours, ours, true),
            (short, short, false),
            (&*added, &*added, false),
        ] {
            assert_eq!(came_back(Some(&of(before)), &of(now), "❯"), is_ours, "{before} {now}");
        }
        // What was there before is not known.
        for unseen in [None, Some(&Screen::of("May I?"))] {
            assert!(came_back(unseen, &of(ours), "❯") && !came_back(unseen, &of(short), "❯"));
        }
    }
}
