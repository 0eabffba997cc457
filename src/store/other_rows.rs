//! Single rows of another database of the same site: what it knows, and this one forgot.
//!
//! No table is known by name here: statements are built from names in the databases themselves and
//! from those that callers write, quoted. None come from a request.

use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension as _, ToSql, params_from_iter};

use crate::base::Result;
use crate::store::Tx;
use crate::store::salvage::{Reference, columns, quoted, references};

/// A row with the names of its columns.
#[derive(Clone, Debug, PartialEq)]
pub struct Row(Vec<(String, Value)>);

impl Row {
    /// Returns the value of a column; null if there is none of this name.
    pub fn get(&self, name: &str) -> &Value {
        self.0.iter().find(|(it, _)| it == name).map_or(&Value::Null, |(_, value)| value)
    }

    /// Returns the row with another value in a column.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl Into<Value>) -> Row {
        let value = value.into();
        self.0.iter_mut().filter(|(it, _)| it == name).for_each(|(_, it)| *it = value.clone());
        self
    }

    /// Returns the row without columns, which get the values of a new row.
    #[must_use]
    pub fn without(mut self, names: &[&str]) -> Row {
        self.0.retain(|(it, _)| !names.contains(&it.as_str()));
        self
    }
}

/// Returns the row of a table with this key.
///
/// # Errors
/// Fails if the database cannot be read.
pub fn row(from: &Connection, table: &str, (key, id): (&str, &dyn ToSql)) -> Result<Option<Row>> {
    let ask = ["SELECT * FROM ", &quoted(table), " WHERE ", &quoted(key), " = ?1"].concat();
    let mut statement = from.prepare(&ask)?;
    let names: Vec<String> = statement.column_names().map(str::to_owned).collect();
    let found = statement.query_row([id], |row| {
        let values = names.iter().enumerate().map(|(at, name)| Ok((name.clone(), row.get(at)?)));
        Ok(Row(values.collect::<rusqlite::Result<_>>()?))
    });
    Ok(found.optional()?)
}

/// Deletes the row of a table with this key, if there is one.
///
/// # Errors
/// Fails if the database cannot be written.
pub fn remove(tx: &Tx<'_>, table: &str, (key, id): (&str, &dyn ToSql)) -> Result<()> {
    let delete = ["DELETE FROM ", &quoted(table), " WHERE ", &quoted(key), " = ?1"].concat();
    tx.connection().prepare(&delete)?.execute([id])?;
    Ok(())
}

/// Inserts a row of another database: columns that are unknown here are left out, and references to
/// rows that are not here become null.
///
/// # Errors
/// Fails if the database cannot be written, or a column that must refer to something is in vain.
pub fn put(tx: &Tx<'_>, table: &str, mut row: Row) -> Result<()> {
    let connection = tx.connection();
    for reference in references(connection, table)? {
        if !is_there(connection, &reference, &row)? {
            for (from, _) in &reference.pairs {
                row = row.with(from, Value::Null);
            }
        }
    }
    let known = columns(connection, table)?;
    row.0.retain(|(name, _)| known.iter().any(|it| it.name == *name));
    let names: Vec<String> = row.0.iter().map(|(name, _)| quoted(name)).collect();
    let places: Vec<String> = (1..=names.len()).map(|n| ["?", &n.to_string()].concat()).collect();
    let (names, places) = (names.join(", "), places.join(", "));
    let insert =
        ["INSERT INTO ", &quoted(table), " (", &names, ") VALUES (", &places, ")"].concat();
    let values = row.0.into_iter().map(|(_, value)| value);
    connection.prepare(&insert)?.execute(params_from_iter(values))?;
    Ok(())
}

/// Returns whether the row to which another one refers is here; also if it refers to none.
fn is_there(connection: &Connection, reference: &Reference, row: &Row) -> Result<bool> {
    let wanted: Vec<&Value> = reference.pairs.iter().map(|(from, _)| row.get(from)).collect();
    if wanted.contains(&&Value::Null) {
        return Ok(true);
    }
    let same: Vec<String> =
        reference.pairs.iter().map(|(_, to)| [&quoted(to), " = ?"].concat()).collect();
    let ask =
        ["SELECT 1 FROM ", &quoted(&reference.parent), " WHERE ", &same.join(" AND ")].concat();
    Ok(connection.prepare(&ask)?.exists(params_from_iter(wanted))?)
}
