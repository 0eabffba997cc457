//! Who hears what an agent prints, line by line, while it works.

use std::sync::Arc;

use crate::base::Result;
use crate::jobs::{Generation, Job};

/// Hears every line of an agent's standard output in order. After a restart of the server the whole
/// output is heard again from its beginning.
pub trait Listener: Send {
    /// Hears a line. Whether the agent is to go on.
    ///
    /// # Errors
    /// Any ends the agent, and fails its job.
    fn line(&mut self, line: &str) -> Result<bool>;

    /// Hears that something between two lines was not kept. Whether the agent is to go on.
    ///
    /// # Errors
    /// Any ends the agent, and fails its job.
    fn gap(&mut self) -> Result<bool>;

    /// Hears that the agent has ended, unless it was this listener that wanted so.
    ///
    /// # Errors
    /// Any fails the agent's job.
    fn end(&mut self) -> Result<()>;
}

/// Says who hears the agent of a job, if anybody does.
pub type Listen = Arc<dyn Fn(&Generation, &Job) -> Result<Option<Box<dyn Listener>>> + Send + Sync>;
