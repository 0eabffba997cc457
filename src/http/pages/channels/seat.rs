//! Members of a channel as its page shows them, and who of them hears the next message.

use crate::api::agents::Problem;
use crate::api::channels::MemberView;
use crate::base::Millis;
use crate::http::pages::parts::labels::{State, Tone};

/// A member as the page shows it.
pub(super) struct Seat {
    pub(super) member: MemberView,
    pub(super) since: Option<Millis>,
}

impl Seat {
    pub(super) fn of(member: &MemberView) -> Seat {
        Seat { since: member.works_since, member: member.clone() }
    }

    pub(super) fn state(&self) -> Option<State> {
        state(&self.member)
    }

    /// Returns the agent in the seat if it is called otherwise than its member.
    pub(super) fn other_agent(&self) -> Option<&str> {
        self.member.agent.as_deref().filter(|agent| *agent != self.member.handle)
    }

    /// Returns what keeps its agent from receiving messages; nothing of a muted one.
    pub(super) fn problem(&self) -> Option<&Problem> {
        self.member.problem.as_ref().filter(|_| self.member.standing == "active")
    }

    /// Returns whether its agent can be started.
    pub(super) fn can_start(&self) -> bool {
        matches!(self.member.state.as_deref(), Some("stopped" | "failed"))
    }

    fn is_active_agent(&self) -> bool {
        self.member.agent.is_some() && self.member.standing == "active"
    }
}

/// Returns what an agent does, in a word; nothing of a person, and of a member who has left.
pub(in crate::http::pages) fn state(member: &MemberView) -> Option<State> {
    if member.sort != "agent" || member.standing == "left" {
        return None;
    }
    Some(match (member.works_since, member.state.as_deref()) {
        (Some(_), _) => State(Tone::Running, "Working"),
        (None, Some("idle")) if member.problem.is_some() => State(Tone::Waiting, "On hold"),
        (None, Some("idle")) => State(Tone::Good, "Listening"),
        (None, Some("busy")) => State(Tone::Running, "Busy elsewhere"),
        (None, Some("starting")) => State(Tone::Waiting, "Starting"),
        (None, Some("blocked")) => State(Tone::Waiting, "Waiting for a person"),
        (None, Some("unknown")) => State(Tone::Bad, "Unknown"),
        (None, Some("failed")) => State(Tone::Bad, "Failed"),
        (None, Some(_)) => State(Tone::Quiet, "Stopped"),
        (None, None) => State(Tone::Quiet, "Offline"),
    })
}

/// Says which agents receive the next message, and which do not.
pub(super) fn listeners(seats: &[Seat]) -> String {
    let names = |has_problem: bool| -> Vec<&str> {
        let is_so = |it: &&Seat| it.is_active_agent() && it.problem().is_some() == has_problem;
        seats.iter().filter(is_so).map(|it| it.member.handle.as_str()).collect()
    };
    let silent = match names(true).as_slice() {
        [] => String::new(),
        [one] => format!(" {one} doesn’t receive it now."),
        several => format!(" {} don’t receive it now.", several.join(", ")),
    };
    match names(false).as_slice() {
        [] => "No agents are listening.".to_owned(),
        [one] => format!("{one} reads your message when it is free.{silent}"),
        [rest @ .., last] => {
            let rest = rest.join(", ");
            format!("{rest} and {last} read your message when they’re ready.{silent}")
        }
    }
}

/// Returns the agents that do not receive the next message, if no agent does.
pub(super) fn silent(seats: &[Seat]) -> Vec<&Seat> {
    let (silent, heard): (Vec<_>, Vec<_>) =
        seats.iter().filter(|it| it.is_active_agent()).partition(|it| it.problem().is_some());
    if heard.is_empty() { silent } else { Vec::new() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::Millis;

    fn seat(handle: &str, problem: bool) -> Seat {
        let problem = problem.then(|| Problem { what: "it is".to_owned(), fix: "fix".to_owned() });
        Seat {
            since: None,
            member: MemberView {
                handle: handle.to_owned(),
                name: handle.to_owned(),
                sort: "agent".to_owned(),
                agent: Some(handle.to_owned()),
                state: Some("idle".to_owned()),
                untold: Vec::new(),
                works_since: None,
                is_chair: false,
                standing: "active".to_owned(),
                joined_at: Millis(1),
                left_at: None,
                problem,
                unconfirmed: 0,
            },
        }
    }

    #[test]
    fn who_receives_the_next_message_is_said_and_who_does_not() {
        for (seats, words, count) in [
            (vec![], "No agents are listening.", 0),
            (vec![seat("eve", true)], "No agents are listening.", 1),
            (vec![seat("bob", false)], "bob reads your message when it is free.", 0),
            (
                vec![seat("bob", false), seat("eve", true)],
                "bob reads your message when it is free. eve doesn’t receive it now.",
                0,
            ),
            (
                vec![seat("bob", false), seat("kim", false)],
                "bob and kim read your message when they’re ready.",
                0,
            ),
        ] {
            assert_eq!((listeners(&seats).as_str(), silent(&seats).len()), (words, count));
        }
        let mut muted = seat("eve", true);
        muted.member.standing = "muted".to_owned();
        assert!(muted.problem().is_none());
        assert_eq!(state(&seat("eve", true).member), Some(State(Tone::Waiting, "On hold")));
    }
}
