//! Collects the files of the pages (`src/http/assets`) into one table of the program, with a version
//! that changes when any of them does.

use std::collections::hash_map::DefaultHasher;
use std::fmt::Write as _;
use std::hash::{Hash as _, Hasher as _};
use std::path::PathBuf;
use std::{env, fs, io};

const FOLDER: &str = "src/http/assets";
/// The sheet with the tokens, which all others build on.
const FIRST_SHEET: &str = "base.css";

fn main() -> io::Result<()> {
    println!("cargo::rerun-if-changed={FOLDER}");
    println!("cargo::rerun-if-changed=build.rs");
    let root = PathBuf::from(variable("CARGO_MANIFEST_DIR")?).join(FOLDER);
    let mut files = Vec::new();
    for entry in fs::read_dir(&root)? {
        let name = entry?.file_name().into_string();
        files.push(name.map_err(|_| io::Error::other("an asset's name is not UTF-8"))?);
    }
    files.sort_by_key(|name| (name != FIRST_SHEET, name.clone()));
    let mut version = DefaultHasher::new();
    let mut table = String::from("const FILES: &[(&str, &[u8])] = &[\n");
    for name in &files {
        let path = root.join(name);
        (name, fs::read(&path)?).hash(&mut version);
        writeln!(table, "    ({name:?}, include_bytes!({path:?})),").map_err(io::Error::other)?;
    }
    table.push_str("];\n");
    fs::write(PathBuf::from(variable("OUT_DIR")?).join("assets.rs"), table)?;
    println!("cargo::rustc-env=WB_ASSETS_VERSION={:016x}", version.finish());
    Ok(())
}

fn variable(name: &str) -> io::Result<String> {
    env::var(name).map_err(io::Error::other)
}
