//! What only the screen of a program in a terminal shows: that it takes what is typed, and, of one
//! without hooks, that it took a text and that its turn is over.
//!
//! **Invariant:** a text counts as taken only if it was seen in the line in which one types, and is
//! gone from there while the screen has changed.
//! **Invariant:** no turn that hooks tell of is ended by what its screen shows: a program may work
//! without drawing. People are told, and decide.

use std::time::Duration;

use tokio::sync::mpsc::Sender;
use tokio::time::{Instant, sleep};

use crate::jobs::speak::typist::{Desk, send};
use crate::jobs::speak::{Ending, Fact, NO_REPLY, Tokens};
use crate::process::{Pane, Screen};
use crate::script::{Proof, Typed};

/// How often a screen is looked at while something is expected of it.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// The same for a text that was handed in.
const LOOK_SOON: Duration = Duration::from_millis(50);
/// How often a screen must be the same until a turn counts as over.
const STILL_LOOKS: u32 = 6;

/// How often a screen is looked at during a turn.
const STILL_EVERY: Duration = Duration::from_secs(3);
/// How often it must be the same: programs that work show how long they do.
const SEEMS_LOOKS: u32 = 4;

/// Tells when the program can be spoken to, and when its turn is over, as far as that is seen on
/// its screen. Never returns.
pub(super) async fn watch(desk: &Desk, pane: &Pane, typed: &Typed, tell: &Sender<Fact>) {
    let is_by_screen = typed.proof == Proof::Screen;
    let (mut before, mut same) = (None, 0);
    loop {
        let (is_ready, has_turn) = desk.stance();
        // Its hooks tell everything else.
        if !is_by_screen && (is_ready || typed.ready.is_none()) {
            return std::future::pending().await;
        }
        if is_ready && !has_turn {
            (before, same) = (None, 0);
            desk.until_watched().await;
            continue;
        }
        sleep(LOOK_EVERY).await;
        let now = pane.screen().await.ok();
        let is_waiting = now.as_ref().is_some_and(|it| waits(it, typed));
        same = if is_waiting && is_same(now.as_ref(), before.as_ref()) { same + 1 } else { 0 };
        before = now;
        match is_ready {
            false if is_waiting && desk.be_ready() => send(tell, Fact::Ready).await,
            true if same >= STILL_LOOKS && desk.end_turn() => {
                send(tell, ended(Ending::Answered)).await;
            }
            _ => {}
        }
    }
}

/// Tells when a program shows its line and draws nothing although its turn has not ended, and when
/// it does again. Never returns. Claude Code tells by nothing that a person has stopped a turn
/// before its first word.
pub(super) async fn watch_still(desk: &Desk, pane: &Pane, typed: &Typed, tell: &Sender<Fact>) {
    let Some(mark) = typed.input.as_deref().filter(|_| typed.proof == Proof::Hooks) else {
        return std::future::pending().await;
    };
    let (mut before, mut same, mut told) = (None, 0, None);
    loop {
        if !desk.stance().1 {
            (before, same, told) = (None, 0, None);
            desk.until_watched().await;
            continue;
        }
        sleep(STILL_EVERY).await;
        let now = pane.screen().await.ok().filter(|it| may_wait(it, mark) && !desk.is_asking());
        let is_same = now.as_ref().zip(before.as_ref()).is_some_and(|(now, old)| now.is_same(old));
        (before, same) = (now, if is_same { same + 1 } else { 0 });
        let is_still = same >= SEEMS_LOOKS;
        if (is_still || same == 0) && told != Some(is_still) && desk.stance().1 {
            told = Some(is_still);
            send(tell, Fact::Still { is_still }).await;
        }
    }
}

/// Returns whether a screen shows the line in which one types, empty or with a text of ours: that
/// of a dialog may begin with the same mark.
fn may_wait(screen: &Screen, mark: &str) -> bool {
    let is_empty = screen.draft(mark).is_some_and(|it| it.is_empty());
    screen.has_line(mark) && (is_empty || screen.holds_ours(mark))
}

/// Returns the end of a turn as the screen tells it: without its words.
pub(super) fn ended(how: Ending) -> Fact {
    Fact::Ended {
        block: None,
        text: NO_REPLY.to_owned(),
        how,
        tokens: Tokens::default(),
        cost_usd: None,
        ms: None,
        is_mixed: true,
        before_typed: None,
    }
}

/// Returns whether a program waits to be spoken to, and draws nothing meanwhile.
pub(super) async fn is_still(pane: &Pane, typed: &Typed) -> bool {
    let before = pane.screen().await.ok();
    sleep(LOOK_EVERY).await;
    let now = pane.screen().await.ok();
    is_same(now.as_ref(), before.as_ref()) && now.is_some_and(|it| waits(&it, typed))
}

/// Returns whether nothing was drawn between two looks.
pub(super) fn is_same(now: Option<&Screen>, before: Option<&Screen>) -> bool {
    now.zip(before).is_some_and(|(now, before)| now.is_same(before))
}

/// Waits until a text that stood on this screen has left its line; whether it has.
pub(super) async fn until_taken(pane: &Pane, mark: &str, before: &Screen, wait: Duration) -> bool {
    let deadline = Instant::now() + wait;
    loop {
        if let Ok(now) = pane.screen().await
            && is_taken(&now, mark, before)
        {
            return true;
        }
        if Instant::now() >= deadline {
            return false;
        }
        sleep(LOOK_SOON).await;
    }
}

fn is_taken(now: &Screen, mark: &str, before: &Screen) -> bool {
    let is_gone = now.has_line(mark) && !now.holds_ours(mark) && now.plain() != before.plain();
    // A program that prompts anew for each text leaves it where it is.
    is_gone || now.has_left(mark)
}

fn waits(screen: &Screen, typed: &Typed) -> bool {
    match (&typed.ready, &typed.input) {
        // The words may be those above a text that it works on.
        (Some(words), Some(mark)) => {
            screen.plain().contains(words.as_str()) && !screen.has_left(mark)
        }
        (Some(words), None) => screen.plain().contains(words.as_str()),
        (None, Some(mark)) => screen.has_line(mark),
        (None, None) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_choices_of_a_dialog_are_no_line_that_waits() {
        let of = |line: &str| may_wait(&Screen::of(&format!("────\n❯ {line}\n────\n")), "❯");
        assert!(of("") && of("‹wb:01› hello ‹wb:end›") && of("[Pasted text #1 +3 lines]"));
        assert!(!of("1. Yes") && !of("mine"));
        assert!(!may_wait(&Screen::of("Do you want to?\n❯ 1. Yes\n  2. No\n"), "❯"));
    }
}
