//! Embeds the files of the pages (`src/http/assets`): one table of them with the stylesheets as one,
//! what each module imports, and a version that changes with any of them. They are embedded as they are
//! sent, compressed, and so is the description of the API (`docs/openapi.json`). And it has relocations
//! packed where that works.
//!
//! Folders are for the reader of the source. A browser sees all files in one folder, so names are
//! unique and modules import each other as `./name.js`.

use std::collections::BTreeMap;
use std::collections::hash_map::DefaultHasher;
use std::fmt::Write as _;
use std::hash::{Hash as _, Hasher as _};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs, io};

use flate2::Compression;
use flate2::write::GzEncoder;

const FOLDER: &str = "src/http/assets";
const DESCRIPTION: &str = "docs/openapi.json";
/// The sheet with the tokens, which all others build on.
const FIRST_SHEET: &str = "base.css";
/// The name of the combined stylesheet.
const SHEET: &str = "wb.css";
/// The first glibc that reads packed relocations.
const PACKED_SINCE: (u32, u32) = (2, 36);

fn main() -> io::Result<()> {
    println!("cargo::rerun-if-changed={FOLDER}");
    println!("cargo::rerun-if-changed={DESCRIPTION}");
    println!("cargo::rerun-if-changed=build.rs");
    if reads_packed_relocations()? {
        println!("cargo::rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    }
    let project = PathBuf::from(variable("CARGO_MANIFEST_DIR")?);
    let out = PathBuf::from(variable("OUT_DIR")?);
    compress(&fs::read(project.join(DESCRIPTION))?, &out.join("openapi.json.gz"))?;
    let root = project.join(FOLDER);
    let mut files = BTreeMap::new();
    collect(&root, &mut files)?;
    let mut files: Vec<(String, PathBuf)> = files.into_iter().collect();
    files.sort_by_key(|(name, _)| name != FIRST_SHEET);
    let mut version = DefaultHasher::new();
    let mut imports = BTreeMap::new();
    let mut table = String::from("const FILES: &[(&str, &[u8])] = &[\n");
    let mut embed = |name: &str, bytes: &[u8]| {
        let path = out.join(format!("{name}.gz"));
        compress(bytes, &path)?;
        writeln!(table, "    ({name:?}, include_bytes!({path:?})),").map_err(io::Error::other)
    };
    let mut sheet = Vec::new();
    for (name, path) in &files {
        let bytes = fs::read(path)?;
        if let Some(module) = name.strip_suffix(".js") {
            imports.insert(module.to_owned(), imported(&String::from_utf8_lossy(&bytes)));
        }
        if name.ends_with(".css") {
            sheet.extend_from_slice(&bytes);
            sheet.push(b'\n');
        } else {
            embed(name, &bytes)?;
        }
        (name, bytes).hash(&mut version);
    }
    embed(SHEET, &sheet)?;
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
    fs::write(out.join("assets.rs"), table)?;
    println!("cargo::rustc-env=WB_ASSETS_VERSION={:016x}", version.finish());
    Ok(())
}

/// Packed relocations take a megabyte less. Returns whether the C library of this machine, for which
/// the program is built, reads them.
fn reads_packed_relocations() -> io::Result<bool> {
    if variable("TARGET")? != variable("HOST")? || variable("CARGO_CFG_TARGET_ENV")? != "gnu" {
        return Ok(false);
    }
    #[expect(clippy::disallowed_methods, reason = "cargo waits for it, and nobody else is here")]
    let Ok(answer) = Command::new("getconf").arg("GNU_LIBC_VERSION").output() else {
        return Ok(false);
    };
    let answer = String::from_utf8_lossy(&answer.stdout).into_owned();
    let version = answer.trim().strip_prefix("glibc ").and_then(|it| it.split_once('.'));
    let version = version.and_then(|it| Some((it.0.parse().ok()?, it.1.parse().ok()?)));
    Ok(version.is_some_and(|it: (u32, u32)| it >= PACKED_SINCE))
}

/// Writes bytes compressed, as browsers take them.
fn compress(bytes: &[u8], path: &Path) -> io::Result<()> {
    let mut encoder = GzEncoder::new(fs::File::create(path)?, Compression::best());
    encoder.write_all(bytes)?;
    encoder.finish()?.sync_all()
}

/// Adds the files below a folder, by name.
fn collect(folder: &Path, files: &mut BTreeMap<String, PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            collect(&path, files)?;
            continue;
        }
        let name = path.file_name().and_then(|name| name.to_str());
        let name = name.ok_or_else(|| io::Error::other("an asset's name is not UTF-8"))?.to_owned();
        if let Some(other) = files.insert(name, path.clone()) {
            let message = format!("{} and {} have the same name", other.display(), path.display());
            return Err(io::Error::other(message));
        }
    }
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
