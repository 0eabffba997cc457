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
    /// People who may write, also from outside: their names, and what others see.
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
                    state: it.state_word().to_owned(),
                    seat: seat.map(|it| it.slug),
                    name: it.name,
                });
            }
            let people = people::list(c)?.into_iter();
            let may_take_part =
                |it: &people::Person| it.is_external || it.role != people::Role::Viewer;
            let people = people.filter(|it| it.disabled_at.is_none() && may_take_part(it));
            let people = people.map(|it| match it.is_external {
                true => (it.name, format!("{} (outside)", it.display_name)),
                false => (it.name, it.display_name),
            });
            found.people = people.collect();
            Ok(found)
        })
        .await
}
