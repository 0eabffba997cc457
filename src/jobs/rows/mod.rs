//! Jobs as rows: states, tables and statistics.

pub mod before;
pub mod board;
pub(in crate::jobs) mod bulk;
pub(in crate::jobs) mod carry;
pub(in crate::jobs) mod dismissal;
pub(in crate::jobs) mod instance;
pub(in crate::jobs) mod job;
pub(in crate::jobs) mod kind_name;
pub(in crate::jobs) mod long_inputs;
pub(in crate::jobs) mod measures;
pub(in crate::jobs) mod on_sources;
pub(in crate::jobs) mod pool;
pub(in crate::jobs) mod rename_source;
pub(in crate::jobs) mod retention;
pub(in crate::jobs) mod retry;
pub(in crate::jobs) mod sentence;
pub(in crate::jobs) mod state;
pub(in crate::jobs) mod table;
pub(in crate::jobs) mod usage;
pub(in crate::jobs) mod viewer;
