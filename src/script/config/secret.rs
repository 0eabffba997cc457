//! Secrets that a script names and never sees: `wb.secret.env` and `wb.secret.file`.
//!
//! **Invariant:** a script holds the name of a secret, never its value; the value is read when an
//! agent is started, and passes to it over the guard's lifeline.

use std::fmt;

use camino::{Utf8Path, Utf8PathBuf};
use mlua::{Lua, MetaMethod, MultiValue, Table, UserData, UserDataMethods, Value};
use serde::{Serialize, Serializer};

use crate::base::{Error, Result};
use crate::script::vm::require::read_below;
use crate::script::vm::session::Caller;

/// The code of a secret that cannot be read.
pub const SECRET_MISSING: &str = "secret_missing";

/// Largest file of a secret, in bytes.
const FILE_BYTES_MAX: u64 = 64 * 1024;

/// Where a secret is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Secret {
    /// A variable of the server's environment.
    Env(String),
    /// A file: absolute, or relative to the script's folder.
    File(Utf8PathBuf),
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Secret::Env(name) => write!(f, "secret env:{name}"),
            Secret::File(path) => write!(f, "secret file:{path}"),
        }
    }
}

impl Serialize for Secret {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl Secret {
    /// Returns the environment variable of the server that holds it, if any.
    pub fn variable(&self) -> Option<&str> {
        match self {
            Secret::Env(name) => Some(name),
            Secret::File(_) => None,
        }
    }

    /// Returns the variable or the path that it is known by.
    pub fn name(&self) -> String {
        match self {
            Secret::Env(name) => name.clone(),
            Secret::File(path) => path.to_string(),
        }
    }

    /// Reads the value, without surrounding whitespace if it is in a file.
    ///
    /// # Errors
    /// `unavailable` with code `secret_missing`, which names the secret and never its value.
    pub fn read(&self, folder: &Utf8Path, env: &[(String, String)]) -> Result<String> {
        let missing = |why: String| {
            let hint = match self {
                // A running server keeps the environment that it was started with.
                Secret::Env(_) => "set it where the server is started, and start it again",
                Secret::File(_) => "write it there, as a file that the server's user can read",
            };
            Error::unavailable(format!("{self}: {why}")).code(SECRET_MISSING).hint(hint)
        };
        let value = match self {
            Secret::Env(name) => env
                .iter()
                .find(|(it, _)| it == name)
                .map(|(_, value)| value.clone())
                .ok_or_else(|| missing("the server has no such variable".to_owned()))?,
            Secret::File(path) => {
                let full = folder.join(path);
                let parent = full.parent().unwrap_or(Utf8Path::new("/"));
                let name = Utf8Path::new(full.file_name().unwrap_or_default());
                let real = parent
                    .canonicalize_utf8()
                    .map_err(|cause| missing(format!("cannot be read: {cause}")))?;
                read_below(&real, name, FILE_BYTES_MAX)
                    .map_err(|cause| missing(cause.message().to_owned()))?
                    .trim()
                    .to_owned()
            }
        };
        match value.is_empty() || value.contains('\0') {
            true => Err(missing("is empty, or holds a zero byte".to_owned())),
            false => Ok(value),
        }
    }
}

/// A value in the environment of an engine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum EnvValue {
    /// A text of the script.
    Text(String),
    /// A secret, read when an agent is started.
    Secret(Secret),
}

/// A secret as the script holds it: it cannot be read, concatenated or printed.
pub(crate) struct Opaque(pub(crate) Secret);

impl UserData for Opaque {
    fn add_methods<M: UserDataMethods<Self>>(methods: &mut M) {
        // Concatenating it would give a string that is no secret, and an engine would start with
        // it.
        let whole = |lua: &Lua, _: MultiValue| -> mlua::Result<String> {
            let message = "a secret cannot be read, joined or printed: hand it over whole, as in \
                env = { API_KEY = wb.secret.env \"API_KEY\" }";
            Err(Caller::of(lua).error(message))
        };
        for name in [MetaMethod::ToString, MetaMethod::Concat, MetaMethod::Len] {
            methods.add_meta_function(name, whole);
        }
    }
}

/// Returns `{ env, file }`.
pub(crate) fn table(lua: &Lua) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    let env = lua.create_function(|lua, name: Value| {
        let name = text(lua, "env", &name)?;
        let is_plain = !name.is_empty()
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        match is_plain && !name.starts_with("WB_") {
            true => lua.create_userdata(Opaque(Secret::Env(name))),
            false => {
                let message = "wb.secret.env takes the name of a variable that is not the \
                    server's: write wb.secret.env \"API_KEY\"";
                Err(Caller::of(lua).error(message))
            }
        }
    })?;
    let file = lua.create_function(|lua, path: Value| {
        let path = Utf8PathBuf::from(text(lua, "file", &path)?);
        match path.file_name().is_some() && !path.as_str().contains('\0') {
            true => lua.create_userdata(Opaque(Secret::File(path))),
            false => {
                let message = "wb.secret.file takes the path of a file: write wb.secret.file \
                    \"/run/secrets/api_key\"";
                Err(Caller::of(lua).error(message))
            }
        }
    })?;
    table.raw_set("env", env)?;
    table.raw_set("file", file)?;
    Ok(table)
}

fn text(lua: &Lua, word: &str, value: &Value) -> mlua::Result<String> {
    match value {
        Value::String(text) => Ok(text.to_string_lossy()),
        _ => {
            let message = format!("wb.secret.{word} takes a text: write wb.secret.{word} \"NAME\"");
            Err(Caller::of(lua).error(message))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_read_late_and_its_error_does_not_show_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = Utf8Path::from_path(folder.path()).unwrap();
        std::fs::write(path.join("key"), " s3cret \n").unwrap();
        std::fs::write(path.join("empty"), "\n").unwrap();
        std::os::unix::fs::symlink(path.join("key"), path.join("link")).unwrap();
        let env = vec![("K".to_owned(), "v".to_owned())];
        assert_eq!(Secret::Env("K".to_owned()).read(path, &env).unwrap(), "v");
        assert_eq!(Secret::File("key".into()).read(path, &env).unwrap(), "s3cret");
        for bad in ["none", "empty", "link"] {
            let error = Secret::File(bad.into()).read(path, &env).unwrap_err();
            assert_eq!(error.code_str(), "secret_missing", "{bad}");
        }
        assert!(Secret::Env("L".to_owned()).read(path, &env).is_err());
    }
}
