//! Who can become a member of a channel.

use crate::base::Result;
use crate::channels;
use crate::flows::Site;
use crate::mail::agent;
use crate::people::{self, Caller};

/// Who can become a member.
#[derive(Clone, Debug, Default)]
pub struct Candidates {
    /// Agents, by name.
    pub agents: Vec<FreeAgent>,
    /// People who may write: their names, and what others see.
    pub people: Vec<(String, String)>,
}

/// An agent that could take a seat.
#[derive(Clone, Debug)]
pub struct FreeAgent {
    /// Its name.
    pub name: String,
    /// What it was last seen doing.
    pub state: String,
    /// The channel in which it has a seat.
    pub seat: Option<String>,
}

/// Returns who can become a member of a channel.
///
/// # Errors
/// `forbidden` for a job.
pub async fn candidates(site: &Site, caller: &Caller) -> Result<Candidates> {
    caller.person()?;
    site.store
        .read(|c| {
            let mut found = Candidates::default();
            for it in agent::list(c)?.into_iter().filter(|it| it.heir.is_none()) {
                let seat = channels::seat_of(c, &it.name)?;
                let seat = seat.map(|it| channels::find(c, it)).transpose()?;
                found.agents.push(FreeAgent {
                    state: it.state.as_str().to_owned(),
                    seat: seat.map(|it| it.slug),
                    name: it.name,
                });
            }
            let people = people::list(c)?.into_iter();
            let is_here =
                |it: &people::Person| it.disabled_at.is_none() && it.role != people::Role::Viewer;
            let people = people.filter(is_here).map(|it| (it.name, it.display_name));
            found.people = people.collect();
            Ok(found)
        })
        .await
}
