//! What Claude Code would do by itself, and the variables by which it leaves that.
//!
//! **Invariant:** a script may allow each of these things again, by the variable's own name.

use super::mention::NO_MENTIONS;

/// A variable that the server sets for each engine that is Claude Code.
#[derive(Clone, Copy, Debug)]
pub struct Curb {
    /// Its name.
    pub name: &'static str,
    /// The value that the server gives it: `1` or `0`.
    pub value: &'static str,
    /// What an engine does without it, for a warning.
    pub without: &'static str,
}

/// All of them. Version 2.1.332 obeys each; 2.1.197 does not know the first, and has no messages
/// between sessions.
pub const CURBS: [Curb; 4] = [
    Curb { name: NO_MENTIONS, value: "1", without: "reads each file that a text names as @PATH" },
    // Its sessions find each other by sockets of the account, whatever the server allows them.
    Curb {
        name: "CLAUDE_CODE_HARBOR_KITE",
        value: "0",
        without: "exchanges messages with other sessions of its account, past the server",
    },
    Curb {
        name: "CLAUDE_CODE_DISABLE_CRON",
        value: "1",
        without: "takes turns by itself, for .claude/scheduled_tasks.json and CronCreate",
    },
    // The service is a child of whoever needed it first, with that one's token.
    Curb {
        name: "CLAUDE_CODE_DISABLE_AGENT_VIEW",
        value: "1",
        without: "moves its session into a service of its account, maybe in the job of another \
                  agent, for \u{2190} or /background",
    },
];

impl Curb {
    /// Returns whether another value says the same.
    pub fn is_kept_by(&self, value: &str) -> bool {
        let same = match self.value {
            "1" => ["1", "true", "yes", "on"],
            _ => ["0", "false", "no", "off"],
        };
        same.contains(&&*value.trim().to_ascii_lowercase())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_that_says_otherwise_is_told_from_one_that_says_the_same() {
        for curb in CURBS {
            let (yes, no) = (["1", " True ", "yes", "ON"], ["0", "false", "No", "off"]);
            let (same, other) = if curb.value == "1" { (yes, no) } else { (no, yes) };
            assert!(curb.is_kept_by(curb.value), "{curb:?}");
            assert!(same.iter().all(|it| curb.is_kept_by(it)), "{curb:?}");
            assert!(!other.iter().any(|it| curb.is_kept_by(it)), "{curb:?}");
            // The program takes an empty value for none.
            assert!(!curb.is_kept_by(""), "{curb:?}");
        }
    }
}
