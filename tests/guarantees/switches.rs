//! The list of switches (`tests/data/switches.tsv`: switch, guarantee, tests that fail without it).

use std::collections::BTreeSet;
use std::path::Path;

fn collect(folder: &Path, found: &mut BTreeSet<String>) {
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() {
            collect(&path, found);
        } else if path.extension().is_some_and(|it| it == "rs") {
            let text = std::fs::read_to_string(&path).unwrap();
            let names = text.split("is_off(\"").skip(1).filter_map(|it| it.split('"').next());
            found.extend(names.map(str::to_owned));
        }
    }
}

#[test]
fn every_switch_is_listed_with_the_tests_that_need_it() {
    let top = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut found = BTreeSet::new();
    collect(&top.join("src"), &mut found);
    let list = std::fs::read_to_string(top.join("tests/data/switches.tsv")).unwrap();
    let mut listed = BTreeSet::new();
    for line in list.lines() {
        let fields: Vec<&str> = line.split('\t').collect();
        assert_eq!(fields.len(), 3, "{line}");
        assert!(listed.insert(fields[0].to_owned()), "{line} is there twice");
    }
    assert_eq!(found, listed);
}
