//! Speaking to an engine that lives on: how a text is written to it, and what its lines say of its
//! turns.
//!
//! **Invariant:** a turn has one beginning and one end, and neither is taken back.

mod claude;
mod codex;
pub(in crate::jobs) mod curb;
mod hook_line;
pub(in crate::jobs) mod hook_settings;
pub(in crate::jobs) mod hooks;
mod interrupt;
pub(in crate::jobs) mod last_screen;
mod lines;
pub(in crate::jobs) mod listener;
pub(in crate::jobs) mod mention;
mod obstacle;
mod parts;
mod pi;
pub(in crate::jobs) mod pieces;
mod press_enter;
mod question;
mod screen;
mod session;
mod stop;
mod talk;
mod transcript;
pub(in crate::jobs) mod typist;
pub(in crate::jobs) mod veil;
mod voice;
mod written;

use serde_json::Value;

use crate::base::{BlockId, read_loose_json, truncate_chars};
use crate::process::with_token;
use crate::script::Speaks;

use parts::Parts;
use stop::Stop;
use talk::{Bearings, Talk};

pub(in crate::jobs) use claude::NO_SESSION;
pub use hook_line::tell_hook;
pub use last_screen::last_screen;
pub(in crate::jobs) use talk::{Greeting, Told, is_greeted};
pub(super) use voice::Voice;

/// What an agent says that has no answer.
pub const NO_REPLY: &str = "[no-reply]";

/// Longest last words of a turn, in characters.
const ANSWER_CHARS_MAX: usize = 64 * 1024;

/// Most tokens of one turn, and most that it costs: what an agent claims beyond that is not so.
const TOKENS_MAX: u64 = 1 << 40;
const COST_USD_MAX: f64 = 1_000_000.0;

/// Tokens of one turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tokens {
    /// Read, without those from or for a cache.
    pub read: u64,
    /// Read from a cache.
    pub cached: u64,
    /// Read and put into a cache.
    pub stored: u64,
    /// Written.
    pub written: u64,
}

impl Tokens {
    /// Returns how many there are in all.
    pub fn sum(self) -> u64 {
        let all = [self.cached, self.stored, self.written];
        all.into_iter().fold(self.read, u64::saturating_add)
    }

    /// Returns these and others.
    fn plus(self, other: Tokens) -> Tokens {
        self.each(other, u64::saturating_add)
    }

    /// Returns what there is beyond others.
    fn beyond(self, other: Tokens) -> Tokens {
        self.each(other, u64::saturating_sub)
    }

    fn each(self, other: Tokens, count: fn(u64, u64) -> u64) -> Tokens {
        Tokens {
            read: count(self.read, other.read),
            cached: count(self.cached, other.cached),
            stored: count(self.stored, other.stored),
            written: count(self.written, other.written),
        }
    }

    fn bounded(self) -> Tokens {
        let most = Tokens {
            read: TOKENS_MAX,
            cached: TOKENS_MAX,
            stored: TOKENS_MAX,
            written: TOKENS_MAX,
        };
        self.each(most, u64::min)
    }
}

/// A fact about an agent that lives on.
#[derive(Clone, Debug, PartialEq)]
pub enum Fact {
    /// Its process runs: it can be spoken to.
    Ready,
    /// It works, and nothing says yet on what.
    Works,
    /// Its engine does not know the session any more that it was to go on with.
    SessionLost,
    /// It has begun anew and knows nothing of what it was told.
    Cleared,
    /// It has replaced what it was told by a summary.
    Compacted,
    /// Its engine has said by which name it knows the session.
    Session {
        /// The name.
        name: String,
    },
    /// An earlier process had taken a block, of which nothing was heard; its turn is over.
    Taken {
        /// The block; none if the engine cannot say.
        block: Option<BlockId>,
        /// What it said last, if the turn was ended in good order.
        answer: Option<String>,
    },
    /// It asks a person something, and takes nothing else until that is answered.
    Waits {
        /// What it asks, in a word.
        why: String,
    },
    /// What it asked was answered.
    GoesOn,
    /// Its turn has not ended, as far as it says, but its screen shows that it waits.
    Still {
        /// Whether that is so; otherwise, it draws again.
        is_still: bool,
    },
    /// It was interrupted, but its turn goes on, as far as its screen shows.
    NotInterrupted,
    /// A block was not written: nothing of it has reached the agent.
    Refused {
        /// The block.
        block: BlockId,
        /// Why, in a word.
        why: String,
    },
    /// What kept a block from being written is over.
    Free,
    /// A turn began; with what caused it, if we did.
    Began {
        /// The block that was written.
        block: Option<BlockId>,
    },
    /// A turn ended.
    Ended {
        /// The block that caused it.
        block: Option<BlockId>,
        /// Its last words.
        text: String,
        /// How it ended.
        how: Ending,
        /// Tokens read and written.
        tokens: Tokens,
        /// Cost in US dollars.
        cost_usd: Option<f64>,
        /// Milliseconds, as the engine measured them.
        ms: Option<u64>,
        /// Whether it may hold what somebody typed, beside what it was given.
        is_mixed: bool,
        /// What it had answered before a person typed into it; none if nobody is known to have.
        before_typed: Option<String>,
    },
}

/// What one line of an agent's output says of its turns.
#[derive(Clone, Debug)]
pub(in crate::jobs) struct Noted {
    /// Where the line ends, in bytes of the output.
    pub(in crate::jobs) at: u64,
    /// What it says, in its order.
    pub(in crate::jobs) facts: Vec<Fact>,
}

impl Noted {
    /// That its process runs, of which no line tells.
    pub(in crate::jobs) fn ready() -> Noted {
        Noted { at: 0, facts: vec![Fact::Ready] }
    }
}

/// How a turn ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ending {
    /// With an answer.
    Answered,
    /// Somebody interrupted it.
    Interrupted,
    /// The engine failed, and said why.
    Failed(String),
}

/// What is known of the turns of one process.
#[derive(Debug)]
pub(super) struct Hearing {
    speaks: Speaks,
    /// Whether it works, although nothing says yet on what.
    works: bool,
    /// The turn that runs, with its cause.
    turn: Option<Option<BlockId>>,
    /// What all turns so far have cost.
    cost_usd: f64,
    /// Tokens of all turns so far.
    tokens: Tokens,
    /// How long the turn that ends took, in milliseconds, if the engine says so.
    took_ms: Option<u64>,
    /// The engine's own name for what it works on.
    prompt: Option<String>,
    /// The same for what it worked on last.
    ended_prompt: Option<String>,
    /// The last text of ours whose turn has ended.
    ended_block: Option<BlockId>,
    /// The session in which something was handed in last.
    session: Option<String>,
    /// Whether the turn that ends may hold what somebody typed.
    is_mixed: bool,
    /// What it had answered before a person typed into it.
    before_typed: Option<String>,
    /// Whether a hook told that somebody typed into the turn that runs.
    is_typed_into: bool,
    /// Whether it has said anything yet.
    is_up: bool,
    /// What is known beside turns.
    talk: Talk,
    /// The file in which it writes down what it does.
    transcript: Option<String>,
    /// The parts of the answer so far.
    parts: Parts,
    /// Who in it asks a person something; none is named if it is the agent itself.
    askers: Vec<Option<String>>,
    /// The last `Stop` of the turn that runs, while its transcript may still show that it goes on.
    stop: Option<Stop>,
}

/// What is known of a process that is typed to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::jobs) struct Stance {
    /// Whether it has said anything yet.
    pub(super) is_up: bool,
    /// Whether a turn of it runs.
    pub(super) has_turn: bool,
    /// The engine's own name for that.
    pub(super) prompt: Option<String>,
    /// The file in which it writes down what it does.
    pub(super) transcript: Option<String>,
    /// The last text of ours whose turn began.
    pub(super) begun: Option<BlockId>,
}

impl Hearing {
    pub(super) fn new(speaks: Speaks) -> Hearing {
        Hearing {
            speaks,
            works: false,
            turn: None,
            cost_usd: 0.0,
            tokens: Tokens::default(),
            took_ms: None,
            prompt: None,
            ended_prompt: None,
            ended_block: None,
            session: None,
            is_mixed: false,
            before_typed: None,
            is_typed_into: false,
            is_up: false,
            talk: Talk::default(),
            transcript: None,
            parts: Parts::default(),
            askers: Vec::new(),
            stop: None,
        }
    }

    /// Reads one line of its output.
    pub(super) fn line(&mut self, line: &str) -> Vec<Fact> {
        let Some(value) = read_loose_json(line) else {
            // It may have been the answer.
            return if line.starts_with('{') { self.skip_line() } else { Vec::new() };
        };
        match self.speaks {
            Speaks::ClaudeStreamJson => claude::read(self, &value),
            Speaks::Lines => lines::read(self, &value),
            Speaks::CodexAppServer => codex::read(self, &value),
            Speaks::PiRpc => pi::read(self, &value),
            Speaks::Hooks => hooks::read(self, &value),
        }
    }

    /// Returns what is known beside turns; the lines in it were not returned before.
    pub(super) fn told(&mut self) -> Told {
        let stance = self.stance();
        Told { stance, bearings: self.talk.bearings.clone(), lines: self.talk.take_lines() }
    }

    /// Returns whether the process cannot be spoken to at all.
    pub(super) fn is_lost(&self) -> bool {
        self.talk.is_lost
    }

    /// Returns what a line tells a person who looks at the job; nothing for output that is read as
    /// it is.
    pub(super) fn steps(&self, line: &str) -> Option<Vec<Value>> {
        let steps = match self.speaks {
            Speaks::CodexAppServer => codex::steps,
            Speaks::PiRpc => pi::steps,
            Speaks::Lines => return lines::steps(&read_loose_json(line)?),
            Speaks::ClaudeStreamJson | Speaks::Hooks => return None,
        };
        Some(read_loose_json(line).as_ref().map(steps).unwrap_or_default())
    }

    /// Returns what is known of the process now.
    fn stance(&self) -> Stance {
        Stance {
            is_up: self.is_up,
            has_turn: self.turn.is_some(),
            prompt: self.prompt.clone(),
            transcript: self.transcript.clone(),
            begun: self.turn.clone().flatten().or_else(|| self.ended_block.clone()),
        }
    }

    /// Notes that the turn that runs was ended by somebody, of which no line tells.
    pub(super) fn cut(&mut self) -> Vec<Fact> {
        hooks::interrupted(self)
    }

    /// Returns whether what it hears comes from hooks.
    pub(super) fn is_by_hooks(&self) -> bool {
        self.speaks == Speaks::Hooks
    }

    fn work(&mut self) -> Vec<Fact> {
        match std::mem::replace(&mut self.works, true) || self.turn.is_some() {
            true => Vec::new(),
            false => vec![Fact::Works],
        }
    }

    /// Begins a turn, unless one runs. What was written while the agent worked for itself is taken
    /// into that turn: it is what it answers.
    fn begin(&mut self, block: Option<BlockId>) -> Vec<Fact> {
        let is_taken_in = self.turn == Some(None) && block.is_some();
        if self.turn.is_some() && !is_taken_in {
            return Vec::new();
        }
        self.turn = Some(block.clone());
        vec![Fact::Began { block }]
    }

    /// Ends the turn that runs; of one that was over before it was seen to begin, tells both.
    fn end(&mut self, text: &str, how: Ending, tokens: Tokens, cost_usd: Option<f64>) -> Vec<Fact> {
        let mut facts = self.begin(None);
        let block = self.turn.take().flatten();
        self.ended_block = block.clone().or(self.ended_block.take());
        (self.works, self.stop, self.is_typed_into) = (false, None, false);
        self.askers.clear();
        // No row and no prompt takes a zero byte, and a sum of tokens must stay a number.
        let clean = |text: &str| truncate_chars(&text.replace('\0', ""), ANSWER_CHARS_MAX);
        let how = match how {
            Ending::Failed(why) => Ending::Failed(clean(&why)),
            other => other,
        };
        let (text, tokens) = (clean(text), tokens.bounded());
        let cost_usd = cost_usd.map(|it| it.min(COST_USD_MAX));
        let is_mixed = std::mem::take(&mut self.is_mixed);
        let before_typed = self.before_typed.take().map(|it| clean(&it));
        let ms = self.took_ms.take();
        facts.push(Fact::Ended { block, text, how, tokens, cost_usd, ms, is_mixed, before_typed });
        facts
    }
}

impl Hearing {
    /// Notes that a part of the output is not there: what turn runs is not known any more.
    pub(super) fn lose(&mut self) -> Vec<Fact> {
        match self.turn.is_some() {
            true if self.speaks == Speaks::PiRpc => {
                pi::ask(self);
                Vec::new()
            }
            true => {
                let how = Ending::Failed("a part of its output is lost".to_owned());
                self.end("", how, Tokens::default(), None)
            }
            false => Vec::new(),
        }
    }

    /// Notes a line that cannot be read. In lines of our own it may have been the answer.
    pub(super) fn skip_line(&mut self) -> Vec<Fact> {
        match self.speaks {
            Speaks::Lines | Speaks::PiRpc => self.lose(),
            // What they say at the end of a turn is short.
            Speaks::ClaudeStreamJson | Speaks::CodexAppServer | Speaks::Hooks => Vec::new(),
        }
    }
}

/// Returns the lines that begin the conversation with a process.
pub(super) fn greeting_lines(speaks: Speaks, greeting: &Greeting) -> String {
    let lines = match speaks {
        Speaks::CodexAppServer => codex::greeting(greeting),
        Speaks::PiRpc => vec![pi::greeting(greeting)],
        Speaks::ClaudeStreamJson | Speaks::Lines | Speaks::Hooks => Vec::new(),
    };
    lines.iter().map(|line| format!("{line}\n")).collect()
}

/// Returns what is said to a process that does not know the conversation that it was to go on
/// with, and lives on.
pub(super) fn anew_line(speaks: Speaks, greeting: &Greeting) -> Option<String> {
    (speaks == Speaks::CodexAppServer).then(|| format!("{}\n", codex::start(&greeting.about)))
}

/// Returns the line that gives an agent a block; nothing if it cannot be written yet.
pub(super) fn block_line(
    speaks: Speaks,
    id: &BlockId,
    text: &str,
    at: &Bearings,
) -> Option<String> {
    let line = match speaks {
        Speaks::ClaudeStreamJson => claude::block(id, text),
        Speaks::Lines => lines::block(id, text),
        Speaks::CodexAppServer => codex::block(id, text, at)?,
        Speaks::PiRpc => pi::block(id, text),
        Speaks::Hooks => return Some(with_token(id.as_str(), text)),
    };
    Some(format!("{line}\n"))
}

/// Returns the line that interrupts an agent; nothing if there is nothing to interrupt.
pub(super) fn interrupt_line(speaks: Speaks, number: u64, at: &Bearings) -> Option<String> {
    let line = match speaks {
        Speaks::ClaudeStreamJson => claude::interrupt(number),
        Speaks::Lines => lines::interrupt(),
        Speaks::CodexAppServer => codex::interrupt(number, at)?,
        Speaks::PiRpc => pi::interrupt(number),
        Speaks::Hooks => return None,
    };
    Some(format!("{line}\n"))
}

/// Returns whether an engine that is given a block again under its own id, in a new process that
/// goes on with the session, runs it once: it forgets or ignores what it had taken, or says first
/// what that was.
pub fn knows_a_block_again(speaks: Speaks) -> bool {
    matches!(speaks, Speaks::ClaudeStreamJson | Speaks::CodexAppServer)
}

fn block_of(value: &Value) -> Option<BlockId> {
    value.as_str()?.parse().ok()
}
