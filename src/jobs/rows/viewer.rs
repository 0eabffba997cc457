//! Who sees which jobs: a job with an owner is seen by its owner only.
//!
//! **Invariant:** the condition stands here and nowhere else, as SQL and as Rust.

use crate::base::{PersonId, fault};

/// Who looks at jobs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Viewer {
    /// A person: the jobs of the site, and their own private ones.
    Person(PersonId),
    /// Everybody alike: the jobs of the site.
    Site,
    /// The program itself, which runs all jobs. Nothing that it finds is shown to anybody.
    Program,
}

/// The condition in a statement, which then has the parameters `:all` and `:viewer`.
macro_rules! seen {
    () => {
        "(:all OR owner IS NULL OR owner = :viewer)"
    };
}
pub(in crate::jobs) use seen;

/// The condition for what is done to many jobs at once: private ones are no part of it.
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

    /// Returns whether a job of this owner is seen.
    pub(in crate::jobs) fn sees(&self, owner: Option<&PersonId>) -> bool {
        owner.is_none() || self.all() || owner == self.person()
    }
}
