//! What keeps a text from being pasted into a terminal now: a person at it, a question on it, or a
//! program that is not there.

use tracing::info;

use crate::base::BlockId;
use crate::jobs::speak::screen;
use crate::jobs::speak::typist::Typist;
use crate::process::{PaneState, Screen, is_ours};
use crate::script::Proof;

/// So long after a person's last key nothing is pasted, in seconds.
const TYPES_SECONDS: i64 = 10;

/// What is seen of a terminal before a text is pasted.
pub(super) struct Sight {
    /// Why nothing can be pasted now.
    pub(super) why: Option<&'static str>,
    /// Whether the line in which one types is shown, as far as it is known.
    has_line: bool,
}

impl Typist {
    /// Returns why a text cannot be pasted now; waits for the line in which one types first.
    pub(super) async fn obstacle(&self, id: &BlockId) -> Option<&'static str> {
        let sight = self.sight().await;
        if sight.has_line {
            return sight.why;
        }
        self.until_line(id).await;
        self.sight().await.why
    }

    /// Looks at the terminal: at its state and its screen in one moment, by one program.
    pub(super) async fn sight(&self) -> Sight {
        let seen = match &self.place.typed.input {
            Some(_) => self.pane.sight().await,
            None => self.pane.standing().await.map(|state| (state, Screen::default())),
        };
        match seen {
            Ok((state, screen)) => {
                let mark = self.place.typed.input.as_deref();
                let has_line = mark.is_none_or(|mark| screen.has_line(mark));
                let why = match self.hindrance(&state) {
                    None => self.hindrance_in_line(mark, screen).await,
                    why => why,
                };
                Sight { why, has_line }
            }
            Err(cause) => {
                info!("the pane is not seen: {}", cause.chain());
                Sight { why: Some("pane"), has_line: true }
            }
        }
    }

    /// Returns why nothing is pasted now, as in the codes `held_dead`, `held_mode`,
    /// `held_input_off`, `held_typing` and `held_dialog`.
    fn hindrance(&self, state: &PaneState) -> Option<&'static str> {
        let now = self.place.clock.now().0 / 1_000;
        match state {
            PaneState { is_dead: true, .. } => Some("dead"),
            PaneState { is_in_mode: true, .. } => Some("mode"),
            PaneState { is_input_off: true, .. } => Some("input_off"),
            PaneState { typed_at: Some(at), .. } if now - at < TYPES_SECONDS => Some("typing"),
            _ if self.desk.is_asking() => Some("dialog"),
            _ => None,
        }
    }

    /// Returns what stands in the way in the line in which one types, as in `held_draft`.
    async fn hindrance_in_line(&self, mark: Option<&str>, seen: Screen) -> Option<&'static str> {
        let mark = mark?;
        let screen = match self.place.typed.proof {
            Proof::Hooks => Ok(seen),
            Proof::Screen if !screen::is_still(&self.pane, &self.place.typed).await => {
                return Some("moving");
            }
            Proof::Screen => self.pane.screen().await,
        };
        match screen.map(|screen| screen.draft(mark)) {
            Ok(None) => None,
            // It came back, or nobody took it: what follows would be glued to it.
            Ok(Some(draft)) if is_ours(&draft) && self.clear().await => None,
            Ok(Some(_)) => Some("draft"),
            Err(_) => Some("pane"),
        }
    }
}
