//! Documents: Topics with their anchors, and the proposals that settle them.

pub mod anchor;
mod compare;
pub mod diff;
pub mod fate;
#[cfg(test)]
mod fixture;
pub mod headings;
pub mod message;
pub mod placement;
pub mod proposal;
pub mod topic;
mod word;
