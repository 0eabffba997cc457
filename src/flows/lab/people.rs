//! The people of a test's site besides the tester: everyone to whom the script may write.

use std::collections::BTreeSet;

use crate::base::{Result, is_person_name};
use crate::flows::Site;
use crate::people::{self, NewPerson, Role};

/// Most people that are added.
const PEOPLE_MAX: usize = 100;

/// Adds everyone whom the script names by an address, as in `"person:ada"`.
///
/// # Errors
/// `unavailable` if the database cannot be written.
pub(super) async fn add_named(site: &Site) -> Result<()> {
    let texts = site.config.files.iter().map(|it| &*it.text);
    let names: BTreeSet<String> = texts.flat_map(named).take(PEOPLE_MAX).collect();
    if names.is_empty() {
        return Ok(());
    }
    let ids = site.ids.clone();
    site.store
        .write(move |tx| {
            for name in &names {
                if people::find_by_name(tx.connection(), name)?.is_none() {
                    let new = NewPerson {
                        name: name.clone(),
                        display_name: name.clone(),
                        email: None,
                        role: Role::Member,
                    };
                    people::create_person(tx, &ids, &new)?;
                }
            }
            Ok(())
        })
        .await
}

/// Returns the names of the people in a text.
fn named(text: &str) -> impl Iterator<Item = String> + '_ {
    text.match_indices("person:").filter_map(|(at, prefix)| {
        let is_part = |c: char| c.is_ascii_alphanumeric() || "._-@".contains(c);
        let rest = &text[at + prefix.len()..];
        let end = rest.find(|c| !is_part(c)).unwrap_or(rest.len());
        let name = rest[..end].to_lowercase();
        (is_person_name(&name) && name.starts_with(char::is_alphanumeric)).then_some(name)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_addresses() {
        let text = "to = \"person:ada\", sends = { \"person:*\", 'person:bob.b@x' } person:";
        assert_eq!(named(text).collect::<Vec<_>>(), ["ada", "bob.b@x"]);
    }
}
