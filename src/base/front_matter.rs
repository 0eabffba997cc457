//! The YAML block at the top of a Markdown file.

use std::collections::BTreeMap;

use crate::base::{Error, Result};

/// Largest front matter that is read, in bytes.
const FRONT_MATTER_BYTES_MAX: usize = 16 * 1024;

/// The fields of a front matter. Values that are not scalars are kept as YAML text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FrontMatter {
    /// Field → value, both trimmed.
    pub fields: BTreeMap<String, String>,
}

impl FrontMatter {
    /// Returns a field if it is present and not empty.
    pub fn field(&self, name: &str) -> Option<&str> {
        self.fields.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }
}

/// Splits a document into its front matter, if any, and the rest.
///
/// A front matter starts with a line `---` at the very beginning and ends with the next `---`.
///
/// # Errors
/// `invalid` if it is unterminated, too large, not YAML, or not a mapping.
pub fn split_front_matter(text: &str) -> Result<(Option<FrontMatter>, &str)> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let Some(after) = text.strip_prefix("---\n").or_else(|| text.strip_prefix("---\r\n")) else {
        return Ok((None, text));
    };
    let mut end = 0;
    for line in after.split_inclusive('\n') {
        if line.trim_end() == "---" {
            let fields = read_fields(&after[..end])?;
            return Ok((Some(FrontMatter { fields }), &after[end + line.len()..]));
        }
        end += line.len();
        if end > FRONT_MATTER_BYTES_MAX {
            return Err(Error::invalid("the front matter is larger than 16 KiB or has no end"));
        }
    }
    Err(Error::invalid("the front matter has no closing `---`"))
}

fn read_fields(yaml: &str) -> Result<BTreeMap<String, String>> {
    let value: serde_norway::Value = serde_norway::from_str(yaml)
        .map_err(|cause| Error::invalid(format!("the front matter is not YAML: {cause}")))?;
    let table = match value {
        serde_norway::Value::Null => return Ok(BTreeMap::new()),
        serde_norway::Value::Mapping(table) => table,
        _ => return Err(Error::invalid("the front matter is not a table of fields")),
    };
    let mut fields = BTreeMap::new();
    for (key, value) in table {
        let Some(key) = key.as_str() else {
            return Err(Error::invalid("a field of the front matter has a name that is not text"));
        };
        let value = match value {
            serde_norway::Value::Null => String::new(),
            serde_norway::Value::String(text) => text.trim().to_owned(),
            serde_norway::Value::Bool(flag) => flag.to_string(),
            serde_norway::Value::Number(number) => number.to_string(),
            other => serde_norway::to_string(&other)
                .map_err(|cause| Error::invalid(format!("front matter field `{key}`: {cause}")))?,
        };
        fields.insert(key.to_owned(), value);
    }
    Ok(fields)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_and_body_are_split() {
        let text = "---\nname: wb-incorporate\ndescription: Produce a rewrite,\n  \
            re-anchoring all.\n---\n# Body\n";
        let (front, body) = split_front_matter(text).unwrap();
        let front = front.unwrap();
        assert_eq!(front.field("name"), Some("wb-incorporate"));
        assert_eq!(front.field("description"), Some("Produce a rewrite, re-anchoring all."));
        assert_eq!(body, "# Body\n");
    }

    #[test]
    fn a_rule_in_the_text_is_no_front_matter() {
        assert_eq!(split_front_matter("# A\n---\nb\n").unwrap(), (None, "# A\n---\nb\n"));
        assert!(split_front_matter("---\nname: a\n").is_err());
        assert!(split_front_matter("---\n- a\n---\n").is_err());
    }
}
