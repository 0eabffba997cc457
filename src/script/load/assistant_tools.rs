//! Permissions of the assistant: its tools with their policies, and the folders of the vaults.

use std::collections::BTreeMap;

use camino::{Utf8Path, Utf8PathBuf};
use serde::Serialize;

use crate::script::config::secret::EnvValue;
use crate::script::load::assistant::Judge;
use crate::script::load::build::resolve;
use crate::script::load::extract::Given;
use crate::script::source::diagnostic::suggestion;

/// The tools of the assistant.
pub const TOOLS: [&str; 16] = [
    "read_file",
    "list_directory",
    "glob_files",
    "search_files",
    "write_file",
    "edit_file",
    "move_file",
    "delete_file",
    "read_source",
    "list_topics",
    "open_topic",
    "web_fetch",
    "linkedin_post",
    "linkedin_read_comments",
    "linkedin_post_comment",
    "linkedin_reply_comment",
];
/// The beginning of the names of tools that need `linkedin`.
const OF_LINKEDIN: &str = "linkedin_";

/// Whether a person must confirm a tool call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Policy {
    /// Only if the call cannot easily be undone, or changes the assistant's own instructions.
    Allow,
    /// Each time.
    Ask,
}

/// The folders of the vaults.
#[derive(Clone, Debug, Serialize)]
pub struct Vaults {
    /// Parent folder of the vaults; in the data folder if `None`.
    pub base: Option<Utf8PathBuf>,
    /// Folders of individual persons, by name.
    pub of: BTreeMap<String, Utf8PathBuf>,
}

impl Judge<'_> {
    pub(super) fn tools(&mut self) -> BTreeMap<&'static str, Policy> {
        let checked = self.checked;
        let mut tools = BTreeMap::new();
        let has_linkedin = checked.has("linkedin");
        let Some(Given::Texts(given)) = checked.given("tools") else {
            // Everybody sees what is written on the site.
            let policy = |it: &'static str| match it {
                "open_topic" => (it, Policy::Ask),
                _ => (it, Policy::Allow),
            };
            let is_there = |it: &&str| has_linkedin || !it.starts_with(OF_LINKEDIN);
            return TOOLS.into_iter().filter(is_there).map(policy).collect();
        };
        for (name, (policy, spot)) in given {
            let Some(tool) = TOOLS.into_iter().find(|it| it == name) else {
                let message = format!("the assistant has no tool `{}`", name.escape_debug());
                self.error("unknown-word", message, spot, &suggestion(name, TOOLS));
                continue;
            };
            if tool.starts_with(OF_LINKEDIN) && !has_linkedin {
                let message = format!("the tool {tool} needs `linkedin` in wb.assistant");
                let note = "declare the site's app there, or leave the tool out";
                self.error("broken-rule", message, spot, note);
                continue;
            }
            let policy = match policy {
                EnvValue::Text(word) if word == "allow" => Policy::Allow,
                EnvValue::Text(word) if word == "ask" => Policy::Ask,
                _ => {
                    let message = format!("the tool {tool} is neither `allow` nor `ask`");
                    let note = "a tool that is not to be used is left out";
                    self.error("unknown-word", message, spot, note);
                    continue;
                }
            };
            tools.insert(tool, policy);
        }
        tools
    }

    /// Warns of people who are named by their addresses: nobody has such a name.
    pub(super) fn warn_addresses(&mut self) {
        let checked = self.checked;
        let (persons, others) = (checked.lines("persons"), checked.lines("claude_code_persons"));
        for (name, spot) in persons.iter().chain(others) {
            let Some(bare) = name.strip_prefix("person:") else { continue };
            let message = format!("nobody has the name `{}`", name.escape_debug());
            let note = format!("write the name alone: \"{}\"", bare.escape_debug());
            self.warn("bad-name", message, spot, &note);
        }
    }

    /// Returns the hosts whose pages are fetched without a question.
    pub(super) fn web_hosts(&mut self) -> Vec<String> {
        let mut hosts = Vec::new();
        let checked = self.checked;
        for (host, spot) in checked.lines("web_hosts") {
            let name = host.to_ascii_lowercase();
            let is_name = |it: char| it.is_ascii_alphanumeric() || matches!(it, '-' | '.');
            let is_right = name.contains('.') && name.chars().all(is_name);
            if !is_right || name.starts_with('.') || name.ends_with('.') {
                let message = format!("`{}` is not a host name", host.escape_debug());
                let note = "write it without https:// and path, such as \"docs.rs\"; a host below \
                            it is another one";
                self.error("bad-text", message, spot, note);
                continue;
            }
            hosts.push(name);
        }
        hosts
    }

    pub(super) fn vaults(&mut self, folder: &Utf8Path) -> Vaults {
        let checked = self.checked;
        let base = checked.text("vaults").map(|it| resolve(folder, Utf8Path::new(it)));
        let mut of = BTreeMap::new();
        if let Some(Given::Texts(given)) = checked.given("vault_of") {
            for (person, (path, spot)) in given {
                match path {
                    EnvValue::Text(path) if !path.is_empty() && !path.starts_with('~') => {
                        of.insert(person.clone(), resolve(folder, Utf8Path::new(path)));
                    }
                    _ => {
                        let message = format!("`{}` has no folder", person.escape_debug());
                        self.error("bad-path", message, spot, "write the whole path of a folder");
                    }
                }
            }
        }
        self.refuse_same(&of);
        self.refuse_in_site(folder, base.as_deref(), &of);
        Vaults { base, of }
    }

    /// Refuses vaults that overlap what belongs to the site, by their names. Links and mounts are
    /// checked when a vault is opened.
    fn refuse_in_site(
        &mut self,
        folder: &Utf8Path,
        base: Option<&Utf8Path>,
        of: &BTreeMap<String, Utf8PathBuf>,
    ) {
        let (root, data) = (self.site.root.as_path(), self.site.data.as_path());
        let parts = [
            (data, "the site's data"),
            (folder, "the folder of the script"),
            (root, "the repository"),
        ];
        let overlaps = |one: &Utf8Path| {
            let is_over = |other: &Utf8Path| one.starts_with(other) || other.starts_with(one);
            parts.iter().find(|(other, _)| is_over(other)).map(|(_, what)| *what)
        };
        // The default is in the data folder.
        let base = base.filter(|it| *it != data.join("vaults"));
        let of = of.iter().map(|(person, path)| (format!("the vault of {person}"), path.as_path()));
        let named = base.map(|it| ("the folder of the vaults".to_owned(), it)).into_iter();
        let found: Vec<String> = named
            .chain(of)
            .filter_map(|(name, path)| {
                Some(format!("{name} ({path}) overlaps with {}", overlaps(path)?))
            })
            .collect();
        for message in found {
            let field = if message.starts_with("the folder") { "vaults" } else { "vault_of" };
            let spot = self.checked.spot(field);
            self.error("vault-overlap", message, spot, "name a folder outside the site");
        }
    }

    /// Refuses vaults of two persons that are the same folder or nested. Links and mounts are
    /// checked when a vault is opened.
    fn refuse_same(&mut self, of: &BTreeMap<String, Utf8PathBuf>) {
        let pairs = of.iter().flat_map(|one| of.iter().map(move |other| (one, other)));
        let pair =
            pairs.into_iter().find(|(one, other)| one.0 != other.0 && other.1.starts_with(one.1));
        if let Some(((one, _), (other, _))) = pair {
            let message = format!("the vaults of {one} and {other} overlap");
            let spot = self.checked.spot("vault_of");
            self.error("vault-overlap", message, spot, "give each a folder of its own");
        }
    }
}
