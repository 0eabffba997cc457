//! Failures of agents, as the operator sees them.
