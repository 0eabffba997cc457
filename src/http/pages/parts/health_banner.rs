//! The banner on every page while the site has a problem.

use crate::flows::Site;

/// One problem, in a sentence; `/settings` has the details.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::http) struct Trouble {
    /// The problem.
    pub(in crate::http) title: &'static str,
    /// What still works, and what does not.
    pub(in crate::http) sentence: String,
}

/// Returns the current problem.
pub(in crate::http::pages) fn now(site: &Site) -> Option<Trouble> {
    if site.vm().stuck() {
        return Some(Trouble {
            title: "Script functions are disabled.",
            sentence:
                "One of them ran past its time limit. Reading and deciding still work; kinds \
                       that call functions don’t start until you fix the script and restart the \
                       server."
                    .to_owned(),
        });
    }
    if let Some(trouble) = site.store.trouble() {
        return Some(Trouble {
            title: "Changes can’t be saved right now.",
            sentence: format!("Reading still works. Reason: {}.", trouble.message),
        });
    }
    if site.queue.no_room().is_some() {
        return Some(Trouble {
            title: "Jobs aren’t starting.",
            sentence: "The disk is full. Waiting jobs start automatically once there is space."
                .to_owned(),
        });
    }
    unloaded(site)
}

/// A script that could not be loaded: the previous one stays active.
fn unloaded(site: &Site) -> Option<Trouble> {
    let facts = site.script.facts();
    let trouble = facts.trouble?;
    Some(Trouble {
        title: "The script on disk wasn’t loaded.",
        sentence: format!(
            "Generation {} stays active: {}. wiki-browser reload --dry-run shows the errors; \
             wiki-browser reload tries again.",
            facts.generation, trouble.summary
        ),
    })
}
