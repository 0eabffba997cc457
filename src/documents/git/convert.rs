//! Detects whether git would store or check out other bytes than a text's own: filters, line
//! endings.
//!
//! Attributes that run a program or change the encoding are refused by name. For line endings git
//! itself is asked, with the actual text and in both directions: its rules are many, and the common
//! `text=auto` does not change a text without CRLF.

use std::collections::HashMap;

use crate::base::limit::SOURCE_BYTES_MAX;
use crate::base::{BlobId, Error, Result, SourcePath};
use crate::documents::git::Repo;

/// The code of a document that a git filter converts.
pub const CONTENT_FILTER: &str = "content_filter";

const ATTRIBUTES: &[&str] = &["filter", "ident", "working-tree-encoding", "eol", "text", "crlf"];
/// Paths per call.
const PATHS_MAX: usize = 20_000;
/// Most bytes of output per path: six times the path and two words.
const ANSWER_BYTES_MAX: usize = 6 * 1_200;

/// The conversion attributes of a path.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::documents) struct Conversion {
    /// An attribute under which the file always differs from the blob, as `name=value`.
    pub(in crate::documents) always: Option<String>,
    /// Whether line endings may be converted, depending on the text.
    pub(in crate::documents) perhaps: bool,
}

impl Conversion {
    fn note(&mut self, attribute: &str, value: &str) {
        let is_set = !matches!(value, "unspecified" | "unset");
        match attribute {
            "filter" | "ident" | "working-tree-encoding" if is_set => {
                self.always = Some(format!("{attribute}={value}"));
            }
            "eol" if value == "crlf" => self.always = Some("eol=crlf".to_owned()),
            "eol" | "text" | "crlf" if is_set => self.perhaps = true,
            _ => {}
        }
    }

    /// Refuses a path whose bytes are always converted.
    ///
    /// # Errors
    /// `conflict` with code `content_filter`.
    pub(in crate::documents) fn refuse_always(&self, path: &SourcePath) -> Result<()> {
        match &self.always {
            None => Ok(()),
            Some(attribute) => Err(filtered(path, &format!("has the attribute {attribute}"))),
        }
    }

    /// Returns whether the working file may differ from the blob even though git reports it as
    /// unchanged.
    pub(in crate::documents) fn is_possible(&self) -> bool {
        self.always.is_some() || self.perhaps
    }
}

impl Repo {
    /// Returns the conversions of those paths that have any.
    pub(in crate::documents) async fn conversions(
        &self,
        paths: &[SourcePath],
    ) -> Result<HashMap<SourcePath, Conversion>> {
        let settings = self.settings().await?;
        let everywhere = settings.converts_line_ends;
        let mut found = HashMap::new();
        for some in paths.chunks(PATHS_MAX) {
            let mut asked = Vec::new();
            for path in some {
                asked.extend_from_slice(self.git_path(path).as_bytes());
                asked.push(0);
            }
            let call = self.git().call(&["check-attr", "-z", "--stdin"]);
            let call = ATTRIBUTES.iter().fold(call, |call, it| call.arg(*it)).stdin(asked);
            let limit = (some.len() + 10) * ANSWER_BYTES_MAX;
            let told = call.output_max(limit).on_files(&settings).output().await?;
            let told = String::from_utf8_lossy(&told);
            let words: Vec<&str> = told.split_terminator('\0').collect();
            let records = words.chunks_exact(3 * ATTRIBUTES.len());
            if records.len() != some.len() || !records.remainder().is_empty() {
                return Err(Error::internal(
                    "git check-attr answered about other paths than requested",
                ));
            }
            for (path, record) in some.iter().zip(records) {
                let mut conversion = Conversion { always: None, perhaps: everywhere };
                for triple in record.chunks_exact(3) {
                    conversion.note(triple[1], triple[2]);
                }
                if conversion.is_possible() {
                    found.insert(path.clone(), conversion);
                }
            }
        }
        Ok(found)
    }

    /// Returns the conversion of one path.
    pub(in crate::documents) async fn conversion(&self, path: &SourcePath) -> Result<Conversion> {
        let mut found = self.conversions(std::slice::from_ref(path)).await?;
        Ok(found.remove(path).unwrap_or_default())
    }

    /// Returns the blob that git would store for these bytes of a working file. Filter programs are
    /// not run.
    pub(in crate::documents) async fn stored(
        &self,
        path: &SourcePath,
        bytes: &[u8],
    ) -> Result<Option<BlobId>> {
        let path = format!("--path={}", self.git_path(path));
        let call = self.git().call(&["hash-object", "--stdin", &path]).stdin(bytes);
        let answer = call.on_files(&*self.settings().await?).run().await?;
        // It fails under `core.safecrlf`: so it would convert.
        if answer.code != 0 && answer.said.contains("would be replaced") {
            return Ok(None);
        }
        answer.line()?.parse().map(Some)
    }

    /// Refuses a text that git would change between working file and blob.
    ///
    /// # Errors
    /// `conflict` with code `content_filter`.
    pub(in crate::documents) async fn refuse_converted(
        &self,
        path: &SourcePath,
        conversion: &Conversion,
        (bytes, blob): (&[u8], &BlobId),
    ) -> Result<()> {
        conversion.refuse_always(path)?;
        if !conversion.is_possible() {
            return Ok(());
        }
        let why = "has line ends that git converts (`text`, `eol`, `core.autocrlf`)";
        if self.stored(path, bytes).await?.as_ref() != Some(blob) {
            return Err(filtered(path, why));
        }
        let name = format!("--path={}", self.git_path(path));
        let call = self.git().call(&["cat-file", "--filters", &name, blob.as_str()]);
        let call = call.output_max(4 * SOURCE_BYTES_MAX).on_files(&*self.settings().await?);
        let written = call.output().await?;
        match written == bytes {
            true => Ok(()),
            false => Err(filtered(path, why)),
        }
    }
}

fn filtered(path: &SourcePath, why: &str) -> Error {
    Error::conflict(CONTENT_FILTER, format!("{path} {why}")).hint(
        "what is approved must be what is stored: take the attribute from .gitattributes for \
         this file, or edit it by hand",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_attribute_that_changes_nothing_is_no_conversion() {
        let of = |attribute: &str, value: &str| {
            let mut it = Conversion::default();
            it.note(attribute, value);
            it
        };
        assert!(!of("filter", "unspecified").is_possible());
        assert!(!of("text", "unset").is_possible());
        assert!(of("text", "auto").perhaps && of("text", "auto").always.is_none());
        assert_eq!(of("filter", "lfs").always.as_deref(), Some("filter=lfs"));
        assert_eq!(of("eol", "crlf").always.as_deref(), Some("eol=crlf"));
        assert!(of("eol", "lf").always.is_none());
    }
}
