//! Salvages a damaged database: copies what is readable, row by row and table by table, into a new
//! one.
//!
//! No table is known by name here: statements are built from names in the database itself, quoted.
//! None come from a request.

use camino::Utf8Path;
use rusqlite::types::Value;
use rusqlite::{Connection, OpenFlags, params_from_iter};

use crate::base::{Clock, DATABASE_CORRUPT, Error, Result};
use crate::store::backup::{in_sqlites_words, open};
use crate::store::{Migration, create_private, migrate};

/// Rounds of repairing rows that reference lost ones; each round may orphan others.
const ROUNDS_MAX: usize = 20;
/// Longest jump over unreadable rowids.
const JUMP_MAX: i64 = 1 << 40;

/// The result for one table.
#[derive(Clone, Debug, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
pub struct Salvaged {
    /// Its name.
    pub table: String,
    /// Rows that were copied.
    pub rows: u64,
    /// Rows that were read but violate a constraint.
    pub refused: u64,
    /// Copied rows that referenced lost ones: the reference was cleared if nullable, otherwise the
    /// row was dropped.
    pub orphans: u64,
    /// SQLite's errors where reading stopped.
    pub errors: Vec<String>,
}

/// Copies what is readable of the database `from` into the new file `into`, with the newest schema.
///
/// # Errors
/// `unavailable` with code `database_corrupt` if the table names cannot be read.
pub fn salvage(
    from: &Utf8Path,
    into: &Utf8Path,
    migrations: &[Migration],
    clock: &Clock,
) -> Result<Vec<Salvaged>> {
    create_private(into)?;
    let writing = open(into, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    migrate(&writing, migrations, clock)?;
    writing.pragma_update(None, "foreign_keys", false)?;
    let reading = open(from, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    let there = tables(&reading).map_err(|cause| {
        let why = in_sqlites_words(&cause);
        Error::unavailable(format!("nothing of {from} can be saved, not even its tables: {why}"))
            .code(DATABASE_CORRUPT)
            .hint("restore a backup")
    })?;
    // An emptied file would otherwise be salvaged as an empty site.
    if !there.iter().any(|it| it == "site") {
        let message = format!("nothing of {from} can be saved: it holds no table of a site");
        return Err(Error::unavailable(message).code(DATABASE_CORRUPT).hint("restore a backup"));
    }
    // Triggers would repeat what the rows already contain.
    let triggers = take_triggers(&writing)?;
    writing.execute_batch("BEGIN IMMEDIATE")?;
    // The new database has its own row here; the old one replaces it.
    writing.execute("DELETE FROM site", [])?;
    let mut report = Vec::new();
    for name in tables(&writing)?.into_iter().filter(|it| it != "schema_migrations") {
        if !there.contains(&name) {
            continue;
        }
        let mut salvaged =
            Salvaged { table: name.clone(), rows: 0, refused: 0, orphans: 0, errors: Vec::new() };
        if let Err(cause) = copy_table(&reading, &writing, &name, &mut salvaged) {
            salvaged.errors.push(cause.chain());
        }
        report.push(salvaged);
    }
    mend_orphans(&writing, &mut report)?;
    writing.execute_batch("COMMIT")?;
    for trigger in triggers {
        writing.execute_batch(&trigger)?;
    }
    // A site without its row has no epoch; this creates one.
    migrate(&writing, migrations, clock)?;
    Ok(report)
}

/// Returns the tables to salvage. Tables named `search_…` are derived and will be rebuilt.
fn tables(connection: &Connection) -> Result<Vec<String>> {
    let mut statement = connection.prepare(
        "SELECT name FROM sqlite_schema
         WHERE type = 'table' AND name NOT LIKE 'sqlite%' AND name NOT LIKE 'search!_%' ESCAPE '!'",
    )?;
    let names = statement.query_map([], |row| row.get(0))?;
    Ok(names.collect::<rusqlite::Result<_>>()?)
}

fn take_triggers(writing: &Connection) -> Result<Vec<String>> {
    let mut statement =
        writing.prepare("SELECT name, sql FROM sqlite_schema WHERE type = 'trigger'")?;
    let found = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let found: Vec<(String, String)> = found.collect::<rusqlite::Result<_>>()?;
    for (name, _) in &found {
        writing.execute_batch(&["DROP TRIGGER ", &quoted(name)].concat())?;
    }
    Ok(found.into_iter().map(|(_, sql)| sql).collect())
}

/// A column of a table.
pub(super) struct Column {
    pub(super) name: String,
    /// Its position in the primary key, from 1; 0 if it is not part of it.
    key: i64,
    may_be_null: bool,
}

pub(super) fn columns(connection: &Connection, table: &str) -> Result<Vec<Column>> {
    let mut statement =
        connection.prepare("SELECT name, pk, \"notnull\" FROM pragma_table_info(?1)")?;
    let rows = statement.query_map([table], |row| {
        Ok(Column { name: row.get(0)?, key: row.get(1)?, may_be_null: row.get::<_, i64>(2)? == 0 })
    })?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

fn has_rowid(connection: &Connection, table: &str) -> Result<bool> {
    let without: i64 = connection.query_row(
        "SELECT wr FROM pragma_table_list WHERE schema = 'main' AND name = ?1",
        [table],
        |row| row.get(0),
    )?;
    Ok(without == 0)
}

/// A table being copied.
struct Copying<'a> {
    reading: &'a Connection,
    insert: rusqlite::Statement<'a>,
    /// `"a", "b"`: the columns that both databases have.
    columns: String,
    table: String,
    salvaged: &'a mut Salvaged,
}

fn copy_table<'a>(
    reading: &'a Connection,
    writing: &'a Connection,
    table: &str,
    salvaged: &'a mut Salvaged,
) -> Result<()> {
    let here = columns(writing, table)?;
    let there = columns(reading, table)?;
    let both: Vec<String> = here
        .iter()
        .filter(|it| there.iter().any(|other| other.name == it.name))
        .map(|it| quoted(&it.name))
        .collect();
    let places: Vec<String> = (1..=both.len()).map(|n| ["?", &n.to_string()].concat()).collect();
    let (columns, places) = (both.join(", "), places.join(", "));
    let insert = ["INSERT OR IGNORE INTO ", &quoted(table), " (", &columns, ") VALUES (", &places]
        .concat()
        + ")";
    let insert = writing.prepare(&insert)?;
    let mut copying = Copying { reading, insert, columns, table: quoted(table), salvaged };
    if has_rowid(reading, table)? {
        copying.by_rowid()
    } else {
        let mut key: Vec<&Column> = there.iter().filter(|it| it.key > 0).collect();
        key.sort_by_key(|it| it.key);
        copying.by_key(&key.iter().map(|it| quoted(&it.name)).collect::<Vec<_>>())
    }
}

impl Copying<'_> {
    /// Walks up by rowid. At damage it jumps ahead, further each time, and walks back from where it
    /// lands to the damage.
    fn by_rowid(&mut self) -> Result<()> {
        let mut last = i64::MIN;
        while let Some(cause) = self.walk_rowids(&mut last, i64::MAX, true)? {
            self.salvaged.errors.push(cause);
            let mut jump = 1;
            let landed = loop {
                if jump > JUMP_MAX {
                    return Ok(());
                }
                let from = if last == i64::MIN { jump } else { last.saturating_add(jump) };
                match self.first_rowid(from) {
                    Ok(found) => break found,
                    Err(_) => jump *= 2,
                }
            };
            let Some(landed) = landed else { return Ok(()) };
            let mut back = landed;
            // Back to the same damage, which has been reported already.
            self.walk_rowids(&mut back, last, false)?;
            last = landed.saturating_sub(1);
        }
        Ok(())
    }

    fn first_rowid(&self, from: i64) -> rusqlite::Result<Option<i64>> {
        let ask = ["SELECT MIN(rowid) FROM ", &self.table, " WHERE rowid >= ?1"].concat();
        self.reading.query_row(&ask, [from], |row| row.get(0))
    }

    /// Copies the rows between `last` and `end`; returns the error that stopped it, if any.
    fn walk_rowids(&mut self, last: &mut i64, end: i64, is_up: bool) -> Result<Option<String>> {
        let (order, range) = if is_up {
            (" ORDER BY rowid", " WHERE rowid > ?1 AND rowid <= ?2")
        } else {
            (" ORDER BY rowid DESC", " WHERE rowid < ?1 AND rowid > ?2")
        };
        let ask = ["SELECT ", &self.columns, ", rowid FROM ", &self.table, range, order].concat();
        let mut statement = self.reading.prepare(&ask)?;
        let width = statement.column_count() - 1;
        let mut rows = statement.query([*last, end])?;
        loop {
            let read = rows.next().and_then(|row| match row {
                None => Ok(None),
                Some(row) => Ok(Some((values(row, width)?, row.get::<_, i64>(width)?))),
            });
            match read {
                Ok(None) => return Ok(None),
                Ok(Some((values, rowid))) => {
                    take(&mut self.insert, self.salvaged, values);
                    *last = rowid;
                }
                Err(cause) => return Ok(Some(cause.to_string())),
            }
        }
    }

    /// Walks up to the damage, and then down to it from the other end.
    fn by_key(&mut self, key: &[String]) -> Result<()> {
        for direction in ["", " DESC"] {
            let order: Vec<String> = key.iter().map(|it| [it, direction].concat()).collect();
            let ask =
                ["SELECT ", &self.columns, " FROM ", &self.table, " ORDER BY ", &order.join(", ")]
                    .concat();
            let mut statement = self.reading.prepare(&ask)?;
            let width = statement.column_count();
            let mut rows = statement.query([])?;
            loop {
                let read = rows.next().and_then(|it| it.map(|it| values(it, width)).transpose());
                match read {
                    Ok(Some(values)) => take(&mut self.insert, self.salvaged, values),
                    Ok(None) => return Ok(()),
                    Err(cause) => {
                        self.salvaged.errors.push(cause.to_string());
                        break;
                    }
                }
            }
        }
        Ok(())
    }
}

fn values(row: &rusqlite::Row<'_>, width: usize) -> rusqlite::Result<Vec<Value>> {
    (0..width).map(|at| row.get(at)).collect()
}

/// Inserts a row; a duplicate was already read from the other side.
fn take(insert: &mut rusqlite::Statement<'_>, salvaged: &mut Salvaged, values: Vec<Value>) {
    match insert.execute(params_from_iter(values)) {
        Ok(0) => {}
        Ok(_) => salvaged.rows += 1,
        Err(_) => salvaged.refused += 1,
    }
}

/// A foreign key.
pub(super) struct Reference {
    table: String,
    pub(super) parent: String,
    pub(super) pairs: Vec<(String, String)>,
}

impl Reference {
    /// Returns the SQL condition for a row whose parent is missing.
    fn is_broken(&self) -> String {
        let child = |name: &str| [&quoted(&self.table), ".", &quoted(name)].concat();
        let set: Vec<String> =
            self.pairs.iter().map(|(from, _)| child(from) + " IS NOT NULL").collect();
        let same: Vec<String> = self
            .pairs
            .iter()
            .map(|(from, to)| ["parent.", &quoted(to), " = ", &child(from)].concat())
            .collect();
        let parent = quoted(&self.parent);
        let exists =
            ["NOT EXISTS (SELECT 1 FROM ", &parent, " AS parent WHERE ", &same.join(" AND "), ")"];
        [set.join(" AND "), exists.concat()].join(" AND ")
    }
}

pub(super) fn references(writing: &Connection, table: &str) -> Result<Vec<Reference>> {
    let mut statement = writing.prepare(
        "SELECT id, \"table\", \"from\", \"to\" FROM pragma_foreign_key_list(?1) ORDER BY id, seq",
    )?;
    let rows = statement.query_map([table], |row| {
        Ok((row.get::<_, i64>(0)?, row.get::<_, String>(1)?, row.get(2)?, row.get(3)?))
    })?;
    let mut found: Vec<(i64, Reference)> = Vec::new();
    for row in rows {
        let (id, parent, from, to) = row?;
        match found.last_mut().filter(|(last, _)| *last == id) {
            Some((_, reference)) => reference.pairs.push((from, to)),
            None => {
                let pairs = vec![(from, to)];
                found.push((id, Reference { table: table.to_owned(), parent, pairs }));
            }
        }
    }
    Ok(found.into_iter().map(|(_, reference)| reference).collect())
}

fn mend_orphans(writing: &Connection, report: &mut [Salvaged]) -> Result<()> {
    for _ in 0..ROUNDS_MAX {
        let mut mended = 0;
        for salvaged in report.iter_mut() {
            for reference in references(writing, &salvaged.table)? {
                let rows = mend(writing, &reference)?;
                salvaged.orphans += rows;
                mended += rows;
            }
        }
        if mended == 0 {
            return Ok(());
        }
    }
    Err(Error::internal("rows still refer to missing rows"))
}

/// Clears references to lost rows where the column is nullable; otherwise deletes the referring
/// rows. Returns how many rows were affected.
fn mend(writing: &Connection, reference: &Reference) -> Result<u64> {
    let columns = columns(writing, &reference.table)?;
    let optional = reference.pairs.iter().find(|(from, _)| {
        columns.iter().any(|it| it.name == *from && it.may_be_null && it.key == 0)
    });
    let (table, broken) = (quoted(&reference.table), reference.is_broken());
    if let Some((from, _)) = optional {
        let empty = ["UPDATE ", &table, " SET ", &quoted(from), " = NULL WHERE ", &broken].concat();
        // A constraint may still forbid it for some row; then the rows are deleted.
        if let Ok(rows) = writing.execute(&empty, []) {
            return Ok(u64::try_from(rows).unwrap_or(0));
        }
    }
    let rows = writing.execute(&["DELETE FROM ", &table, " WHERE ", &broken].concat(), [])?;
    Ok(u64::try_from(rows).unwrap_or(0))
}

pub(super) fn quoted(name: &str) -> String {
    ["\"", &name.replace('"', "\"\""), "\""].concat()
}
