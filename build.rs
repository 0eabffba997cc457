//! Collects the files of the pages (`src/http/assets`) into one table of the program, with a version
//! that changes when any of them does, and what each module imports.

use std::collections::BTreeMap;
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
    let mut imports = BTreeMap::new();
    let mut table = String::from("const FILES: &[(&str, &[u8])] = &[\n");
    for name in &files {
        let path = root.join(name);
        let bytes = fs::read(&path)?;
        if let Some(module) = name.strip_suffix(".js") {
            imports.insert(module.to_owned(), imported(&String::from_utf8_lossy(&bytes)));
        }
        (name, bytes).hash(&mut version);
        writeln!(table, "    ({name:?}, include_bytes!({path:?})),").map_err(io::Error::other)?;
    }
    table.push_str("];\nconst MODULES: &[(&str, &[&str])] = &[\n");
    for module in imports.keys() {
        let mut all = vec![module.clone()];
        let mut next = 0;
        while let Some(it) = all.get(next) {
            let further = imports.get(it).cloned().unwrap_or_default();
            all.extend(further.into_iter().filter(|it| !all.contains(it)).collect::<Vec<_>>());
            next += 1;
        }
        writeln!(table, "    ({module:?}, &{all:?}),").map_err(io::Error::other)?;
    }
    table.push_str("];\n");
    fs::write(PathBuf::from(variable("OUT_DIR")?).join("assets.rs"), table)?;
    println!("cargo::rustc-env=WB_ASSETS_VERSION={:016x}", version.finish());
    Ok(())
}

/// Returns the modules that a module imports at its beginning, as `import … from "./name.js";`.
fn imported(text: &str) -> Vec<String> {
    let lines = text.lines().filter(|line| line.starts_with("import "));
    let names = lines.filter_map(|line| line.split_once("\"./")?.1.strip_suffix(".js\";"));
    names.map(str::to_owned).collect()
}

fn variable(name: &str) -> io::Result<String> {
    env::var(name).map_err(io::Error::other)
}
