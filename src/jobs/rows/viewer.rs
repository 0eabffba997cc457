//! Visibility of jobs: a job with an owner is only visible to its owner.
//!
//! **Invariant:** the condition is defined here and nowhere else, in SQL and in Rust.

use crate::base::{PersonId, fault};

/// Who views jobs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Viewer {
    /// A person: the jobs of the site, and their own private ones.
    Person(PersonId),
    /// Everybody: the jobs of the site.
    Site,
    /// The program itself, which runs all jobs. Its results are not shown to anybody.
    Program,
}

/// The condition as SQL, with the parameters `:all` and `:viewer`.
macro_rules! seen {
    () => {
        "(:all OR owner IS NULL OR owner = :viewer)"
    };
}
pub(in crate::jobs) use seen;

/// The condition for bulk operations, which exclude private jobs.
macro_rules! of_site {
    () => {
        "owner IS NULL"
    };
}
pub(in crate::jobs) use of_site;

impl Viewer {
    /// Returns `:all` of the condition.
    pub(in crate::jobs) fn all(&self) -> bool {
        *self == Viewer::Program || fault::is_off("own_jobs")
    }

    /// Returns `:viewer` of the condition.
    pub(in crate::jobs) fn person(&self) -> Option<&PersonId> {
        if let Viewer::Person(person) = self { Some(person) } else { None }
    }

    /// Returns whether a job of this owner is visible.
    pub(in crate::jobs) fn sees(&self, owner: Option<&PersonId>) -> bool {
        owner.is_none() || self.all() || owner == self.person()
    }
}
