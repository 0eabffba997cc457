//! What happens to the jobs of a kind when the server ends.

use crate::script::load::kind::KindBuilder;
use crate::script::load::live_agent::LiveAgent;

impl KindBuilder<'_> {
    /// Returns whether jobs go on without the server. An instance does unless the script says
    /// otherwise: its reply is awaited, and its work is paid for.
    pub(super) fn is_kept(&mut self, agent: Option<&LiveAgent>) -> bool {
        if let Some(agent) = agent {
            return agent.is_kept;
        }
        let engine = self.checked.text("engine").and_then(|it| self.engines.get(it));
        let Some(engine) = engine.filter(|it| it.speech.is_some() || it.is_builtin()) else {
            let given = self.checked.text("on_server_loss");
            return given.map_or(self.is_inbox(), |it| it == "keep");
        };
        let is_asked = self.checked.has("on_server_loss");
        if is_asked && self.checked.text("on_server_loss") == Some("keep") {
            let what =
                if engine.is_builtin() { "a builtin engine" } else { "an engine of streams" };
            let message = format!("{what} of {} cannot go on without the server", self.title());
            let note = "leave `on_server_loss` out; an inbox says with `on_lost` what happens then";
            self.error("broken-rule", message, self.checked.spot("on_server_loss"), note);
        }
        false
    }
}
