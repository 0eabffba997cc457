//! What every page says while the site does not work as its script says.

use crate::flows::Site;

/// One trouble, in a sentence; `/settings` has the rest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::http) struct Trouble {
    /// What it is.
    pub(in crate::http) title: &'static str,
    /// What goes on, and what does not.
    pub(in crate::http) sentence: String,
}

/// Returns what is wrong at the moment.
pub(in crate::http::pages) fn now(site: &Site) -> Option<Trouble> {
    if site.vm().stuck() {
        return Some(Trouble {
            title: "Functions of the script are switched off.",
            sentence:
                "One of them did not end in its time. Reading and deciding go on; kinds that \
                       call functions do not start until the script is mended and the server is \
                       started again."
                    .to_owned(),
        });
    }
    if let Some(trouble) = site.store.trouble() {
        return Some(Trouble {
            title: "Nothing can be written at the moment.",
            sentence: format!("Reading goes on. The reason: {}.", trouble.message),
        });
    }
    if site.queue.no_room().is_some() {
        return Some(Trouble {
            title: "No job starts at the moment.",
            sentence: "The disk is full. What waits starts by itself once there is room."
                .to_owned(),
        });
    }
    unloaded(site)
}

/// A script that could not be put in force: the one before goes on.
fn unloaded(site: &Site) -> Option<Trouble> {
    let facts = site.script.facts();
    let trouble = facts.trouble?;
    Some(Trouble {
        title: "The script on the disk was not put in force.",
        sentence: format!(
            "Generation {} goes on: {}. wiki-browser check says what is wrong; wiki-browser \
             reload tries again.",
            facts.generation, trouble.summary
        ),
    })
}
