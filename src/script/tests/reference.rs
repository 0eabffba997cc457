//! docs/script.md has every field that a script can write.

use crate::script::InputType;
use crate::script::schema::{DECLARATIONS, Field, Shape, input_fields};

/// Returns the rows of some fields, each with its path from the declaration.
fn rows(before: &str, fields: &[Field]) -> String {
    let row = |it: &Field| {
        let default = match (it.is_required, it.default) {
            (true, _) => "must be there".to_owned(),
            (false, Some(text)) => format!("`{text}`"),
            (false, None) => String::new(),
        };
        let (name, what) = (format!("{before}{}", it.name), it.shape.what());
        let row = format!("| `{name}` | {what} | {default} | {} |\n", it.doc);
        match it.shape {
            Shape::Fields(fields) => row + &rows(&format!("{name}."), fields),
            _ => row,
        }
    };
    fields.iter().map(row).collect()
}

fn tables() -> String {
    let head = "| field | holds | default | |\n|---|---|---|---|\n";
    let mut text = String::new();
    for it in &DECLARATIONS {
        let name = if it.is_named { " \"NAME\"" } else { "" };
        let rows = rows("", it.fields);
        text += &format!("\n## wb.{}{name}\n{}\n\n{head}{rows}", it.word, it.doc);
    }
    text += "\n## Inputs of a kind\nA value of `inputs` is `wb.input.TYPE()`, or \
        `wb.input.TYPE { … }` with these fields.\n\n";
    for ty in InputType::ALL {
        let rows = rows("", input_fields(ty));
        text += &format!("### wb.input.{}\n{head}{rows}\n", ty.as_str());
    }
    text
}

/// `UPDATE_DOCS=1` writes the tables anew.
#[test]
fn the_document_has_every_field() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/script.md");
    let text = std::fs::read_to_string(path).unwrap();
    let (start, end) = ("<!-- fields -->\n", "<!-- end of fields -->\n");
    let (before, rest) = text.split_once(start).unwrap();
    let (shown, after) = rest.split_once(end).unwrap();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(path, format!("{before}{start}{}{end}{after}", tables())).unwrap();
        return;
    }
    assert_eq!(shown, tables(), "docs/script.md: run this test once with UPDATE_DOCS=1");
}
