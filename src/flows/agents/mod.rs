//! Agents that live on: started, spoken to one thing at a time, and started again.
//!
//! **Invariant:** what an agent is given is written down before its first byte is written to it.
//! **Invariant:** an agent is given something only when it waits to be spoken to, and nothing
//! further before the turn of that has ended.

mod control;
mod declaration;
mod direct;
mod ended;
mod handoffs;
mod handover;
mod heard;
mod hold;
mod identity;
pub(in crate::flows) mod peek;
mod restart;
mod rooms;
mod show;
mod silent_agent;
mod supervise;
mod taken;
mod trouble;
mod turns;

pub(in crate::flows) use control::start_for_seat;
pub use control::{AGENT_STATE, interrupt, restart, start, stop};
pub(in crate::flows) use direct::words;
pub(in crate::flows) use ended::{cancelled, settle_job};
pub use handoffs::{find as find_handoff, list as list_handoffs, read as read_handoff, rehydrate};
pub use handover::{handover, write as write_handoff};
pub(in crate::flows) use heard::{block, heard};
pub use identity::banner;
pub(in crate::flows) use identity::{heir, prepare, resolve};
pub use peek::peek;
pub(in crate::flows) use show::{how_it_ended, last_start_of, problem, why_waiting};
pub use show::{list, show};
pub(in crate::flows) use silent_agent::answers;
pub use supervise::serve;
pub(in crate::flows) use supervise::{act, keep};
pub(in crate::flows) use taken::{Taken, taken};
pub use turns::{turn, turns};

use crate::jobs::{Generations, Job};
use crate::script::{Config, Speech};

/// Returns how an agent of this declaration is spoken to, as the script in force says.
fn speech<'c>(config: &'c Config, declared: &str) -> Option<&'c Speech> {
    let kind = config.kinds.get(&crate::script::kind_of_agent(declared))?;
    config.engines.get(&kind.engine)?.speech.as_ref()
}

/// Returns how the agent that lives in a job is spoken to, as the script said that it began with.
fn speech_of(scripts: &Generations, job: &Job) -> Option<Speech> {
    scripts.engine_of(job)?.speech
}
