//! Owns the table `source_renames`: the new names of renamed Sources.
//!
//! **Invariant:** the last renames of each name are kept, since it may be handed on again and
//! again: the table has at most `KEPT` rows per name.

use std::collections::BTreeMap;

use rusqlite::{Connection, OptionalExtension as _, named_params};

use crate::base::{Millis, Result, SourcePath};
use crate::store::Tx;

/// Most renames followed.
const STEPS_MAX: usize = 100;
/// Most renames kept per name.
const KEPT: u16 = 100;

const PUT: &str = "
    INSERT OR REPLACE INTO source_renames (from_path, at_ms, to_path) VALUES (:from, :now, :to)";
const FIND: &str = "
    SELECT at_ms, to_path FROM source_renames WHERE from_path = :from AND at_ms >= :since
    ORDER BY at_ms LIMIT 1";
const TAKEN: &str = "
    SELECT from_path FROM source_renames WHERE to_path = :to AND at_ms >= :since
    ORDER BY at_ms DESC LIMIT 1";
const LAST: &str = "SELECT MAX(at_ms) FROM source_renames WHERE from_path = :from";
const EARLIER: &str = "
    SELECT from_path FROM source_renames WHERE to_path = :to ORDER BY at_ms DESC LIMIT :most";
const FORGET: &str = "
    DELETE FROM source_renames WHERE from_path = :from AND at_ms <=
        (SELECT at_ms FROM source_renames WHERE from_path = :from
         ORDER BY at_ms DESC LIMIT 1 OFFSET :kept)";

/// The statements of this file, for the schema test.
pub const STATEMENTS: &[(&str, &str)] = &[
    ("rename::put", PUT),
    ("rename::find", FIND),
    ("rename::taken", TAKEN),
    ("rename::last", LAST),
    ("rename::earlier", EARLIER),
    ("rename::forget", FORGET),
];

/// Records that a Source has a new name.
///
/// # Errors
/// Fails if the database cannot be written.
pub fn put(tx: &Tx<'_>, from: &SourcePath, to: &SourcePath) -> Result<()> {
    let params = named_params! {":from": from, ":to": to, ":now": tx.now()};
    tx.prepare_cached(PUT)?.execute(params)?;
    tx.prepare_cached(FORGET)?.execute(named_params! {":from": from, ":kept": KEPT})?;
    Ok(())
}

/// One of the moves that rename Sources.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// The name before all of them.
    pub first: SourcePath,
    /// The name before this one.
    pub from: SourcePath,
    /// The name after it.
    pub to: SourcePath,
    /// Whether that is the new name: one of those that exchange their names goes aside first.
    pub is_last: bool,
}

/// Returns the moves that rename Sources one after another, none of them to the name of one that
/// still has to move.
///
/// # Errors
/// `internal` if a name aside is none.
pub fn steps(renames: &BTreeMap<SourcePath, SourcePath>) -> Result<Vec<Step>> {
    let mut rest = renames.clone();
    let (mut steps, mut back) = (Vec::new(), Vec::new());
    while !rest.is_empty() {
        let is_free = |it: &(&SourcePath, &SourcePath)| !rest.contains_key(it.1);
        let free = rest.iter().filter(is_free).map(|it| (it.0.clone(), it.1.clone()));
        let free: Vec<(SourcePath, SourcePath)> = free.collect();
        for (from, to) in &free {
            rest.remove(from);
            let (first, from, to) = (from.clone(), from.clone(), to.clone());
            steps.push(Step { first, from, to, is_last: true });
        }
        if free.is_empty()
            && let Some((first, to)) = rest.pop_first()
        {
            // No file has a name of that length.
            let aside: SourcePath = format!("{:->300}", back.len()).parse()?;
            let (from, to_aside) = (first.clone(), aside.clone());
            steps.push(Step { first: first.clone(), from, to: to_aside, is_last: false });
            back.push(Step { first, from: aside, to, is_last: true });
        }
    }
    steps.extend(back);
    Ok(steps)
}

/// Returns the current name of the Source that had this name last before another one; `None` if
/// none had, or it has that name again.
///
/// # Errors
/// Fails if the database cannot be read.
pub fn last_name(connection: &Connection, path: &SourcePath) -> Result<Option<SourcePath>> {
    Ok(last_left(connection, path)?.map(|it| it.1))
}

/// The same, with the moment at which that Source lost this name.
///
/// # Errors
/// Fails if the database cannot be read.
pub fn last_left(
    connection: &Connection,
    path: &SourcePath,
) -> Result<Option<(Millis, SourcePath)>> {
    let mut statement = connection.prepare_cached(LAST)?;
    let last: Option<Millis> =
        statement.query_row(named_params! {":from": path}, |row| row.get(0))?;
    let Some(at) = last else { return Ok(None) };
    Ok(name_since(connection, path, at)?.map(|name| (at, name)))
}

/// Returns the current name of the Source that had this name at a time; `None` if it was not
/// renamed, or has its old name again.
///
/// # Errors
/// Fails if the database cannot be read.
pub fn name_since(
    connection: &Connection,
    path: &SourcePath,
    since: Millis,
) -> Result<Option<SourcePath>> {
    let (name, _) = follow(connection, path, since)?;
    Ok((name != *path).then_some(name))
}

/// Returns the name that the Source had last which had this one at a time, and the former name of
/// another one that has been renamed to it since; `None` if none has.
///
/// # Errors
/// Fails if the database cannot be read.
pub fn taken_since(
    connection: &Connection,
    path: &SourcePath,
    since: Millis,
) -> Result<Option<(SourcePath, SourcePath)>> {
    let (name, at) = follow(connection, path, since)?;
    let mut statement = connection.prepare_cached(TAKEN)?;
    let by = statement
        .query_row(named_params! {":to": name, ":since": at}, |row| row.get(0))
        .optional()?;
    Ok(by.map(|by| (name, by)))
}

/// Returns the last name, and the first moment at which another one may have got it.
fn follow(
    connection: &Connection,
    path: &SourcePath,
    since: Millis,
) -> Result<(SourcePath, Millis)> {
    let mut statement = connection.prepare_cached(FIND)?;
    let (mut name, mut at) = (path.clone(), since);
    for _ in 0..STEPS_MAX {
        let step = statement
            .query_row(named_params! {":from": name, ":since": at}, |row| {
                Ok((row.get(0)?, row.get(1)?))
            })
            .optional()?;
        let Some((then, next)): Option<(Millis, SourcePath)> = step else { break };
        // What was renamed at the same time had that name before.
        (at, name) = (Millis(then.0 + 1), next);
    }
    Ok((name, at))
}

/// Returns the names from which `last_name` leads to this one, the latest first.
///
/// # Errors
/// Fails if the database cannot be read.
pub fn earlier_names(connection: &Connection, path: &SourcePath) -> Result<Vec<SourcePath>> {
    let mut statement = connection.prepare_cached(EARLIER)?;
    let (mut met, mut next) = (vec![path.clone()], 0);
    while let Some(name) = met.get(next).cloned() {
        next += 1;
        let params = named_params! {":to": name, ":most": KEPT};
        let rows = statement.query_map(params, |row| row.get(0))?;
        for from in rows.collect::<rusqlite::Result<Vec<SourcePath>>>()? {
            if met.len() <= STEPS_MAX && !met.contains(&from) {
                met.push(from);
            }
        }
    }
    let mut earlier = Vec::new();
    for name in met {
        // A name that was handed on belonged to another Source since.
        if last_name(connection, &name)?.as_ref() == Some(path) {
            earlier.push(name);
        }
    }
    Ok(earlier)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::documents::fixture::{Fixture, source};

    #[test]
    fn names_that_are_handed_on_are_free_before_they_are_taken() {
        let pairs = [("a", "b"), ("b", "c"), ("p", "q"), ("q", "p"), ("x", "y"), ("y", "x")];
        let renames: BTreeMap<_, _> =
            pairs.iter().map(|(from, to)| (source(from), source(to))).collect();
        let steps = steps(&renames).unwrap();
        // Who has which name by now.
        let mut now: BTreeMap<_, _> = renames.keys().map(|it| (it.clone(), it.clone())).collect();
        for step in &steps {
            assert_eq!(now.remove(&step.from).as_ref(), Some(&step.first));
            assert_eq!(now.insert(step.to.clone(), step.first.clone()), None, "{step:?}");
            assert_eq!(step.is_last, renames[&step.first] == step.to);
        }
        let expected: BTreeMap<_, _> =
            renames.iter().map(|(first, to)| (to.clone(), first.clone())).collect();
        assert_eq!((now, steps.len()), (expected, 8));
        let mut fixture = Fixture::new();
        let start = fixture.clock.now();
        let put_all = |tx: &Tx<'_>| renames.iter().try_for_each(|(from, to)| put(tx, from, to));
        fixture.write(|tx, _| put_all(tx)).unwrap();
        for (from, to) in pairs {
            let found = name_since(&fixture.connection, &source(from), start).unwrap();
            assert_eq!(found, Some(source(to)));
        }
    }

    #[test]
    fn a_name_is_followed_forward_in_time_only() {
        let mut fixture = Fixture::new();
        let start = fixture.clock.now();
        let mut at = Vec::new();
        for (from, to) in [("a.md", "b.md"), ("b.md", "c.md"), ("c.md", "b.md"), ("x.md", "a.md")] {
            fixture.write(|tx, _| put(tx, &source(from), &source(to))).unwrap();
            at.push(fixture.clock.now());
        }
        let name = |path: &str, since: Millis| {
            let found = name_since(&fixture.connection, &source(path), since).unwrap();
            found.map(|it| it.to_string())
        };
        // a became b, then c, then b again; the a that became x is another one.
        assert_eq!(name("a.md", start).as_deref(), Some("b.md"));
        assert_eq!(name("b.md", start), None, "it has its name again");
        assert_eq!(name("c.md", start).as_deref(), Some("b.md"));
        assert_eq!(name("x.md", start).as_deref(), Some("a.md"));
        // After a rename the name means another Source.
        assert_eq!(name("a.md", at[1]), None);
        assert_eq!(name("c.md", at[3]), None);
        assert_eq!(name("never.md", start), None);
    }

    #[test]
    fn the_earlier_names_are_those_that_lead_here() {
        let mut fixture = Fixture::new();
        let renames = [("a", "b"), ("b", "c"), ("x", "a"), ("p", "q"), ("q", "p"), ("p", "c2")];
        for (from, to) in renames {
            fixture.clock.advance(10);
            fixture.write(|tx, _| put(tx, &source(from), &source(to))).unwrap();
        }
        let names = |path: &str| {
            let found = earlier_names(&fixture.connection, &source(path)).unwrap();
            found.iter().map(SourcePath::to_string).collect::<Vec<_>>()
        };
        assert_eq!(names("c"), ["b", "a"]);
        assert_eq!(names("a"), ["x"]);
        assert_eq!(names("c2"), ["p", "q"]);
        assert!(names("b").is_empty() && names("p").is_empty() && names("never").is_empty());
    }

    #[test]
    fn a_name_that_is_handed_on_again_and_again_means_another_source_each_time() {
        let mut fixture = Fixture::new();
        let mut before = Vec::new();
        for number in 0..KEPT + 2 {
            before.push(fixture.clock.now());
            fixture.clock.advance(10);
            let kept = source(&format!("{number}.md"));
            fixture.write(|tx, _| put(tx, &source("now.md"), &kept)).unwrap();
        }
        let name = |since| name_since(&fixture.connection, &source("now.md"), since).unwrap();
        for (number, since) in before.iter().enumerate().skip(2) {
            assert_eq!(name(*since), Some(source(&format!("{number}.md"))));
        }
        let last = last_name(&fixture.connection, &source("now.md")).unwrap();
        assert_eq!(last, Some(source(&format!("{}.md", KEPT + 1))));
        assert_eq!(last_name(&fixture.connection, &source("never.md")).unwrap(), None);
        assert_eq!(name(before[0]), Some(source("2.md")), "the earliest are forgotten");
    }
}
