//! What the server adds to what a running job's agent says (`telemetry::remark`).

use std::sync::PoisonError;

use serde_json::Value;

use crate::base::{Error, JobId};
use crate::jobs::run::dispatch::Queue;
use crate::jobs::telemetry::remark::Remarks;

impl Queue {
    /// Records a refused request of a running job's agent: it is shown among its steps, and the
    /// last one with the job if it does not succeed.
    pub fn note_refusal(&self, id: &JobId, error: &Error) {
        self.remark(id, |remarks| remarks.refused(error));
    }

    /// Records a call of a running job's agent that a person changed before it ran.
    pub fn note_changed_call(&self, id: &JobId, tool: &str, input: &Value) {
        self.remark(id, |remarks| remarks.changed(tool, input));
    }

    fn remark(&self, id: &JobId, add: impl FnOnce(&Remarks)) {
        let running = self.inner.running.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(job) = running.get(id) {
            add(&job.remarks);
        }
    }
}
