//! Complete scripts, from the text on disk to the report, the config and the results of functions.

mod assistant;
mod attacks;
mod bombs;
mod calls;
mod channels;
mod findings;
mod inboxes;
mod mistakes;
mod reads;
mod reference;
mod shipped;
mod spending;
mod templates;

use std::collections::BTreeMap;
use std::fs;

use camino::{Utf8Path, Utf8PathBuf};
use tempfile::TempDir;

use crate::script::{Diagnostic, Loaded, Report, load};

/// A beginning that is right.
pub(super) const HEAD: &str = "local wb = require \"wb\"\nwb.api(1)\n\
    wb.identity { author_name = \"A\", author_email = \"a@x\" }\n";

/// A folder with scripts.
struct Site {
    folder: TempDir,
}

impl Site {
    /// Creates a folder with a script, and one skill "s".
    fn new(script: &str) -> Site {
        let folder = tempfile::tempdir().unwrap();
        let site = Site { folder };
        site.write("wiki-browser.lua", script);
        site.write("skills/s/SKILL.md", "---\nname: s\n---\n");
        site
    }

    /// Creates a folder with a script whose first three lines are valid.
    fn with_head(rest: &str) -> Site {
        Site::new(&format!("{HEAD}{rest}"))
    }

    fn path(&self) -> &Utf8Path {
        Utf8Path::from_path(self.folder.path()).unwrap()
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn load(&self) -> Result<Loaded, Report> {
        load(&self.path().join("wiki-browser.lua"))
    }

    #[track_caller]
    fn loaded(&self) -> Loaded {
        self.load().unwrap_or_else(|report| panic!("{report}"))
    }

    #[track_caller]
    fn errors(&self) -> Vec<Diagnostic> {
        self.load().expect_err("the script is right").errors
    }
}

/// Returns `line:column code` of each finding.
fn brief(findings: &[Diagnostic]) -> Vec<String> {
    let place = |finding: &Diagnostic| match &finding.at {
        Some(at) => format!("{}:{} {}", at.line, at.column, finding.code),
        None => finding.code.to_string(),
    };
    findings.iter().map(place).collect()
}

/// Expects exactly these findings, and returns their messages with notes.
#[track_caller]
fn check(rest: &str, expected: &[&str]) -> String {
    let errors = Site::with_head(rest).errors();
    let shown: Vec<String> = errors.iter().map(ToString::to_string).collect();
    assert_eq!(brief(&errors), expected, "{}", shown.join("\n"));
    shown.join("\n")
}

fn values(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

fn repository() -> Utf8PathBuf {
    Utf8PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}
