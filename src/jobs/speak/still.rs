//! Turns that seem to be over: Claude Code tells by nothing that a person has stopped a turn before
//! its first word, but its screen shows that it waits.
//!
//! **Invariant:** what is seen here ends no turn: a program may work without drawing. People are
//! told, and decide.

use std::time::Duration;

use tokio::sync::mpsc::Sender;
use tokio::time::sleep;

use crate::jobs::speak::Fact;
use crate::jobs::speak::typist::{Desk, send};
use crate::process::Pane;
use crate::script::{Proof, Typed};

/// How often a screen is looked at during a turn.
const LOOK_EVERY: Duration = Duration::from_secs(3);
/// How often it must be the same: programs that work show how long they do.
const STILL_LOOKS: u32 = 4;

/// Tells when a program shows its line and draws nothing although its turn has not ended, and when
/// it does again. Never returns.
pub(super) async fn watch(desk: &Desk, pane: &Pane, typed: &Typed, tell: &Sender<Fact>) {
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
        sleep(LOOK_EVERY).await;
        let now = pane.screen().await.ok().filter(|it| it.has_line(mark) && !desk.is_asking());
        let is_same = now.as_ref().zip(before.as_ref()).is_some_and(|(now, old)| now.is_same(old));
        (before, same) = (now, if is_same { same + 1 } else { 0 });
        let is_still = same >= STILL_LOOKS;
        if (is_still || same == 0) && told != Some(is_still) && desk.stance().1 {
            told = Some(is_still);
            send(tell, Fact::Still { is_still }).await;
        }
    }
}
