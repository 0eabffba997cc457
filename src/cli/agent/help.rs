//! The help of `wb-agent` for an agent, from the parser's own table.

use clap::Command;
use serde::Serialize;

use crate::base::{Error, Result};
use crate::cli::agent::verbs::streams;

/// The table of all verbs.
#[derive(Serialize)]
pub(super) struct Verbs {
    name: &'static str,
    version: &'static str,
    pub(super) verbs: Vec<Verb>,
}

impl Verbs {
    /// Keeps only a verb, or the verbs that begin with it as a word.
    pub(super) fn keep(&mut self, verb: &str) {
        let is_kept =
            |name: &str| name.strip_prefix(verb).is_some_and(|rest| !rest.starts_with('-'));
        self.verbs.retain(|it| is_kept(&it.verb));
    }
}

#[derive(Serialize)]
pub(super) struct Verb {
    pub(super) verb: String,
    pub(super) about: Option<String>,
    flags: Vec<Flag>,
    stdin: Option<&'static str>,
    stdout: &'static str,
}

/// An option or a positional argument, which has no `flag`.
#[derive(Serialize)]
struct Flag {
    flag: Option<String>,
    value: Option<String>,
    required: bool,
    about: Option<String>,
}

/// Returns the table of all verbs.
pub(super) fn table(mut root: Command) -> Verbs {
    root.build();
    let mut verbs = Vec::new();
    for verb in root.get_subcommands().filter(|it| !it.is_hide_set()) {
        let name = verb.get_name();
        // A verb of several words is one entry.
        if verb.has_subcommands() {
            let inner = verb.get_subcommands().filter(|it| it.get_name() != "help");
            verbs.extend(inner.map(|it| describe(&root, &format!("{name} {}", it.get_name()), it)));
        } else {
            verbs.push(describe(&root, name, verb));
        }
    }
    Verbs { name: "wb-agent", version: env!("CARGO_PKG_VERSION"), verbs }
}

/// Returns the help text of a verb, or of the program.
///
/// # Errors
/// `invalid` if there is no such verb.
pub(super) fn text(mut root: Command, verb: Option<&str>) -> Result<String> {
    root.build();
    let Some(name) = verb else { return Ok(root.render_long_help().to_string()) };
    let Some(verb) = root.find_subcommand_mut(name) else {
        let names: Vec<&str> = root.get_subcommands().map(Command::get_name).collect();
        let shown = crate::base::truncate_chars(name, 60);
        return Err(Error::invalid(format!("unknown verb `{shown}`"))
            .hint(format!("one of: {}", names.join(", "))));
    };
    let mut text = verb.render_long_help().to_string();
    if let Some((stdin, stdout)) = streams(name) {
        let stdin = stdin.unwrap_or("nothing");
        text.push_str(&format!("\nStandard input:  {stdin}\nStandard output: {stdout}\n"));
    }
    Ok(text)
}

fn describe(root: &Command, name: &str, verb: &Command) -> Verb {
    let is_global = |id: &str| root.get_arguments().any(|it| it.get_id() == id);
    let own = verb.get_arguments().filter(|it| {
        !matches!(it.get_id().as_str(), "help" | "version") && !is_global(it.get_id().as_str())
    });
    let flags = own.map(|it| {
        let value = it.get_value_names().and_then(|names| names.first());
        Flag {
            flag: it.get_long().map(|long| format!("--{long}")),
            value: value.map(ToString::to_string),
            required: it.is_required_set(),
            about: it.get_help().map(ToString::to_string),
        }
    });
    let (stdin, stdout) = streams(name).unwrap_or((None, ""));
    Verb {
        verb: name.to_owned(),
        about: verb.get_about().map(ToString::to_string),
        flags: flags.collect(),
        stdin,
        stdout,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::agent::command;
    use crate::cli::agent::mode::Mode;

    #[test]
    fn the_parser_is_sound_and_every_verb_says_what_it_reads_and_prints() {
        command().debug_assert();
        let verbs = table(command()).verbs;
        assert!(verbs.len() >= 9);
        let is_said = |about: &Option<String>| about.as_ref().is_some_and(|it| !it.is_empty());
        for Verb { verb, about, flags, .. } in &verbs {
            assert!(streams(verb).is_some() && is_said(about), "{verb}");
            assert!(flags.iter().all(|it| is_said(&it.about)), "{verb}");
        }
        let insert = verbs.iter().find(|it| it.verb == "insert-proposal").unwrap();
        let flag = |at: usize| (insert.flags[at].flag.as_deref(), insert.flags[at].required);
        // Or the path of a source, for a job without a topic.
        assert_eq!(flag(0), (Some("--topic-id"), false));
        assert_eq!(flag(3), (Some("--base-sha"), true));
        assert!(insert.stdin.is_some());
    }

    #[test]
    fn a_verb_is_explained_or_the_verbs_are_named() {
        assert!(
            text(command(), Some("insert-proposal"))
                .unwrap()
                .contains("Standard input:  the whole new")
        );
        assert!(
            text(command(), Some("insert"))
                .unwrap_err()
                .hint_str()
                .unwrap()
                .contains("post-message")
        );
        let root = Mode::Person.command(command());
        assert!(text(root, None).unwrap().contains("Exit codes"));
    }
}
