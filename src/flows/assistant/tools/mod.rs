//! The assistant's tools: one table for runtimes, policy and documentation.
//!
//! **Invariant:** a model only requests; whether and how a call is executed or confirmed is decided
//! here.

mod documents;
mod files;
mod linkedin;
mod made;
mod page_text;
mod text_of_others;
mod web;

use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::api::chat::ToolView;
use crate::base::{Error, Result};
use crate::chat::Target;
use crate::flows::assistant::right::NO_TOOL;
use crate::flows::assistant::tools::linkedin::Act;
use crate::outbound::WebUrl;
use crate::script::Assistant;
use crate::vault::{Image, VaultPath};

pub(super) use documents::run as run_document;
pub(super) use files::plan as plan_file;
pub(super) use linkedin::{plan as plan_linkedin, run as run_linkedin};
pub(super) use made::{CHANGED_MEANWHILE, make, unmake};
pub(super) use text_of_others::Known;
pub(super) use web::{plan as plan_page, run as fetch_page};

/// Longest result for the model, in characters.
const RESULT_CHARS_MAX: usize = 40_000;

/// A tool.
pub(in crate::flows) struct Tool {
    /// Its name.
    pub(in crate::flows) name: &'static str,
    /// The description for the model.
    pub(in crate::flows) about: &'static str,
    /// The JSON schema of its arguments.
    schema: &'static str,
    /// Its target.
    pub(in crate::flows) place: Place,
}

/// The target of a tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::flows) enum Place {
    /// The person's vault.
    Vault,
    /// The site.
    Site,
    /// Pages of the web.
    Web,
    /// The person's account at LinkedIn.
    Linkedin,
}

/// All tools.
pub(in crate::flows) static TOOLS: &[Tool] = &[
    Tool {
        name: "read_file",
        about: "Reads a text file of the vault, from a line on if you like.",
        schema: r#"{"type":"object","properties":{"path":{"type":"string"},
            "from":{"type":"integer","minimum":1,"description":"the first line"},
            "lines":{"type":"integer","minimum":1,"description":"how many lines"}},
            "required":["path"],"additionalProperties":false}"#,
        place: Place::Vault,
    },
    Tool {
        name: "list_directory",
        about: "Lists the files and folders of a folder of the vault; without a path of the vault.",
        schema: r#"{"type":"object","properties":{"path":{"type":"string"}},
            "additionalProperties":false}"#,
        place: Place::Vault,
    },
    Tool {
        name: "glob_files",
        about: "Finds files of the vault by a pattern such as **/*.md.",
        schema: r#"{"type":"object","properties":{"pattern":{"type":"string"},
            "path":{"type":"string","description":"the folder to look in"}},
            "required":["pattern"],"additionalProperties":false}"#,
        place: Place::Vault,
    },
    Tool {
        name: "search_files",
        about: "Finds lines of the vault's text files that have some words, in any case. The \
                words are taken as they are: it is no regular expression.",
        schema: r#"{"type":"object","properties":{"pattern":{"type":"string"},
            "path":{"type":"string","description":"the folder to look in"}},
            "required":["pattern"],"additionalProperties":false}"#,
        place: Place::Vault,
    },
    Tool {
        name: "write_file",
        about: "Writes a text file of the vault. The person is asked before a file is overwritten.",
        schema: r#"{"type":"object","properties":{"path":{"type":"string"},
            "content":{"type":"string"}},
            "required":["path","content"],"additionalProperties":false}"#,
        place: Place::Vault,
    },
    Tool {
        name: "edit_file",
        about: "Replaces words of a text file of the vault. `old` must be there exactly once, \
                unless `all` is true.",
        schema: r#"{"type":"object","properties":{"path":{"type":"string"},
            "old":{"type":"string"},"new":{"type":"string"},"all":{"type":"boolean"}},
            "required":["path","old","new"],"additionalProperties":false}"#,
        place: Place::Vault,
    },
    Tool {
        name: "move_file",
        about: "Moves a file of the vault to a path at which there is nothing.",
        schema: r#"{"type":"object","properties":{"from":{"type":"string"},
            "to":{"type":"string"}},"required":["from","to"],"additionalProperties":false}"#,
        place: Place::Vault,
    },
    Tool {
        name: "delete_file",
        about: "Deletes a file or an empty folder of the vault. The person is asked before.",
        schema: r#"{"type":"object","properties":{"path":{"type":"string"}},
            "required":["path"],"additionalProperties":false}"#,
        place: Place::Vault,
    },
    Tool {
        name: "read_source",
        about: "Reads a document of the site, which all its people share. Without a path it names \
                the documents.",
        schema: r#"{"type":"object","properties":{"path":{"type":"string"}},
            "additionalProperties":false}"#,
        place: Place::Site,
    },
    Tool {
        name: "list_topics",
        about: "Lists the open topics of the site, or of one of its documents.",
        schema: r#"{"type":"object","properties":{"source_path":{"type":"string"}},
            "additionalProperties":false}"#,
        place: Place::Site,
    },
    Tool {
        name: "open_topic",
        about: "Opens a topic on a document of the site, in the person's name: on the words \
                `quote`, which must be in it exactly, or on the whole of it.",
        schema: r#"{"type":"object","properties":{"source_path":{"type":"string"},
            "quote":{"type":"string"},"body":{"type":"string","description":"Markdown"}},
            "required":["source_path","body"],"additionalProperties":false}"#,
        place: Place::Site,
    },
    Tool {
        name: "web_fetch",
        about: "Reads a page of the web as text, by its whole URL. The person is asked before a \
                URL that they did not write themselves. A redirect to another host is told and not \
                followed.",
        schema: r#"{"type":"object","properties":{"url":{"type":"string"}},
            "required":["url"],"additionalProperties":false}"#,
        place: Place::Web,
    },
    Tool {
        name: "linkedin_post",
        about: "Publishes a post on LinkedIn in the person's name, for everybody to see. The \
                person is asked before. Plain text of at most 3,000 characters; #words become \
                hashtags.",
        schema: r#"{"type":"object","properties":{"text":{"type":"string"}},
            "required":["text"],"additionalProperties":false}"#,
        place: Place::Linkedin,
    },
    Tool {
        name: "linkedin_read_comments",
        about: "Reads the newest comments on a post on LinkedIn, by the post's URN such as \
                urn:li:share:1. What they say was written by strangers.",
        schema: r#"{"type":"object","properties":{"post_urn":{"type":"string"}},
            "required":["post_urn"],"additionalProperties":false}"#,
        place: Place::Linkedin,
    },
    Tool {
        name: "linkedin_post_comment",
        about: "Comments on a post on LinkedIn in the person's name. The person is asked before.",
        schema: r#"{"type":"object","properties":{"post_urn":{"type":"string"},
            "text":{"type":"string"}},
            "required":["post_urn","text"],"additionalProperties":false}"#,
        place: Place::Linkedin,
    },
    Tool {
        name: "linkedin_reply_comment",
        about: "Replies to a comment on LinkedIn in the person's name, by the comment's URN such \
                as urn:li:comment:(urn:li:activity:1,2). LinkedIn has two levels: reply to the \
                first comment, not to a reply. The person is asked before.",
        schema: r#"{"type":"object","properties":{"comment_urn":{"type":"string"},
            "text":{"type":"string"}},
            "required":["comment_urn","text"],"additionalProperties":false}"#,
        place: Place::Linkedin,
    },
];

impl Tool {
    /// Returns the tool in the format of MCP.
    ///
    /// # Errors
    /// `internal` if its schema is not JSON, which a test rules out.
    pub(in crate::flows) fn describe(&self) -> Result<ToolView> {
        let input_schema: Value = serde_json::from_str(self.schema)
            .map_err(|cause| Error::internal("the schema of a tool is not JSON").source(cause))?;
        let (name, description) = (self.name.to_owned(), self.about.to_owned());
        Ok(ToolView { name, description, input_schema })
    }
}

/// Returns a tool by its name.
///
/// # Errors
/// `not_found` with code `no_tool`.
pub(super) fn find(name: &str) -> Result<&'static Tool> {
    TOOLS.iter().find(|it| it.name == name).ok_or_else(|| {
        let shown = crate::base::truncate_chars(name, 80);
        Error::not_found(format!("there is no tool `{}`", shown.escape_debug())).code(NO_TOOL)
    })
}

/// Returns the tools that a site allows, in the format of MCP.
///
/// # Errors
/// As [`Tool::describe`].
pub(super) fn described(assistant: &Assistant) -> Result<Vec<Value>> {
    let allowed = TOOLS.iter().filter(|it| assistant.tools.contains_key(it.name));
    allowed.map(|it| Ok(json!(it.describe()?))).collect()
}

/// Returns whether a tool changes nothing.
pub(super) fn only_reads(name: &str) -> bool {
    const READERS: [&str; 8] = [
        "read_file",
        "list_directory",
        "glob_files",
        "search_files",
        "read_source",
        "list_topics",
        "web_fetch",
        "linkedin_read_comments",
    ];
    READERS.contains(&name)
}

/// Returns when a tool asks, which `always` says for the script: `always`, `risky` or `never`.
pub(super) fn asks(name: &str, always: bool) -> &'static str {
    match name {
        _ if always => "always",
        "linkedin_post" | "linkedin_post_comment" | "linkedin_reply_comment" => "always",
        "open_topic" => "never",
        "web_fetch" => "risky",
        _ if only_reads(name) => "never",
        _ => "risky",
    }
}

/// The result of a call: a line for people, and the text for the model.
#[derive(Clone, Debug)]
pub(super) struct Said {
    pub(super) summary: String,
    pub(super) text: String,
}

impl Said {
    fn new(summary: impl Into<String>, text: impl Into<String>) -> Said {
        let (summary, text) = (summary.into(), text.into());
        let end = text.char_indices().nth(RESULT_CHARS_MAX).map(|it| it.0);
        let text = match end {
            None => text,
            Some(end) => format!(
                "{}\n… cut after {RESULT_CHARS_MAX} characters: ask for a part of it",
                &text[..end]
            ),
        };
        Said { summary, text }
    }

    fn plain(summary: impl Into<String>) -> Said {
        let summary = summary.into();
        Said { text: summary.clone(), summary }
    }
}

/// Returns the result of a change in a dry run.
pub(super) fn unmade(deed: &Deed) -> Said {
    let text = format!("Dry run: nothing was changed. It would have been:\n{}", deed.preview);
    Said::new("dry run: not made", text)
}

/// What a call would do.
#[derive(Clone, Debug)]
pub(super) struct Deed {
    /// What it changes.
    pub(super) target: Option<Target>,
    /// Why it needs confirmation.
    pub(super) asks: Option<String>,
    /// The proposed change, for people.
    pub(super) preview: String,
    /// Whether what it reads, or the file that it leaves, has text that others wrote.
    pub(super) is_of_others: bool,
    /// The operation.
    pub(super) work: Work,
}

#[derive(Clone, Debug)]
pub(super) enum Work {
    /// None: it was read-only, and this is the result.
    Read(Said),
    /// A file changes.
    Swap(VaultPath, Image, Image),
    /// A file moves.
    Move(VaultPath, VaultPath),
    /// An empty folder is removed.
    Folder(VaultPath),
    /// An operation on the site.
    Site,
    /// A page is fetched.
    Web(WebUrl),
    /// Something is read or published at LinkedIn.
    Linkedin(Act),
}

/// Parses the arguments of a call.
///
/// # Errors
/// `invalid` with code `bad_arguments`.
fn parse<T: DeserializeOwned>(args: &Value) -> Result<T> {
    serde_json::from_value(args.clone()).map_err(|cause| {
        Error::invalid(format!("the arguments are wrong: {cause}"))
            .code("bad_arguments")
            .hint("look at the schema of the tool")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_script_knows_every_tool() {
        let names: Vec<&str> = TOOLS.iter().map(|it| it.name).collect();
        assert_eq!(names, crate::script::ASSISTANT_TOOLS);
        for tool in TOOLS {
            let told = tool.describe().unwrap();
            assert_eq!(told.input_schema["additionalProperties"], false, "{}", tool.name);
        }
        assert_eq!(find("bash").err().unwrap().code_str(), "no_tool");
    }

    #[test]
    fn a_long_result_says_that_it_is_cut() {
        let said = Said::new("x", "ü".repeat(RESULT_CHARS_MAX + 1));
        assert!(said.text.contains("… cut after 40000 characters"), "{}", said.text.len());
        assert_eq!(Said::new("x", "ü".repeat(RESULT_CHARS_MAX)).text.len(), 2 * RESULT_CHARS_MAX);
    }
}
