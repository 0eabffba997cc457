//! Earlier names of kinds: what runs, or was spent, under one counts toward the caps of the kind.
//!
//! **Invariant:** a running job keeps the name under which its script knows it.

use rusqlite::named_params;

use crate::base::Result;
use crate::store::Tx;

const FOLLOW: &str = "UPDATE kind_names SET name = :to WHERE name = :from";
const NOTE: &str = "
    INSERT INTO kind_names (was, name) VALUES (:from, :to)
    ON CONFLICT (was) DO UPDATE SET name = :to";
const FORGET: &str = "DELETE FROM kind_names WHERE was = :name";

pub(in crate::jobs) const STATEMENTS: &[(&str, &str)] =
    &[("kind_name::follow", FOLLOW), ("kind_name::note", NOTE), ("kind_name::forget", FORGET)];

/// Records that a kind has another name now, also for its names before that.
///
/// # Errors
/// Fails if the database cannot be written.
pub fn note_kind_name(tx: &Tx<'_>, from: &str, to: &str) -> Result<()> {
    let params = named_params! {":from": from, ":to": to};
    tx.prepare_cached(FOLLOW)?.execute(params)?;
    tx.prepare_cached(NOTE)?.execute(params)?;
    Ok(())
}

/// Records that a name is that of a kind, and no earlier one.
///
/// # Errors
/// Fails if the database cannot be written.
pub fn forget_kind_name(tx: &Tx<'_>, name: &str) -> Result<()> {
    tx.prepare_cached(FORGET)?.execute(named_params! {":name": name})?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jobs::run::settle::{Outcome, settle};
    use crate::jobs::tests::model::Bench;
    use crate::jobs::{Outlook, Viewer, find};
    use crate::script::Daily;

    /// Two renamings, one after the other: the caps are those of the newest name.
    #[test]
    fn g06_a_kind_keeps_its_caps_through_renamings() {
        let mut bench = Bench::new(4, 1, 1);
        let daily = Daily { cost_usd: Some(5.0), ..Daily::default() };
        bench.caps.rules.daily.kinds.insert("b".to_owned(), daily);
        let ran = bench.add(bench.request("first", None, 0, 0));
        assert_eq!(bench.take("1").map(|it| it.id).as_ref(), Some(&ran));
        bench.tx(|_, tx| note_kind_name(tx, "first", "second").unwrap());
        bench.tx(|_, tx| note_kind_name(tx, "second", "b").unwrap());
        let waits = bench.add(bench.request("b", None, 0, 0));
        assert!(bench.take("2").is_none(), "one runs under the name before the last");
        let (viewer, now) = (Viewer::Program, bench.clock.now());
        let job = find(&bench.connection, &viewer, &waits).unwrap();
        let outlook = Outlook::of(&bench.connection, &viewer, bench.caps.clone(), now).unwrap();
        let why = outlook.why(&bench.connection, &job).unwrap().unwrap();
        assert_eq!(why.message, "1 of at most 1 jobs of kind \"b\" run");
        let outcome = Outcome { cost_usd: Some(2.0), ..Outcome::default() };
        bench.tx(|bench, tx| {
            settle(tx, &ran, &outcome, None, &bench.hooks, &bench.caps.lanes).unwrap()
        });
        let states = bench.caps.rules.daily.states(&bench.connection, &viewer, now).unwrap();
        assert_eq!(states[0].used, 2.0);
        assert_eq!(bench.take("3").map(|it| it.id), Some(waits));
    }

    #[test]
    fn a_name_that_a_kind_has_again_is_no_earlier_one() {
        let mut bench = Bench::new(4, 1, 1);
        bench.add(bench.request("first", None, 0, 0));
        bench.take("1").unwrap();
        for (from, to) in [("first", "b"), ("b", "first")] {
            bench.tx(|_, tx| note_kind_name(tx, from, to).unwrap());
            bench.tx(|_, tx| forget_kind_name(tx, to).unwrap());
        }
        bench.add(bench.request("b", None, 0, 0));
        assert!(bench.take("2").is_some(), "what runs is of the other kind");
    }
}
