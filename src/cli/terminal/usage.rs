//! Errors of the command line: what to print, and suggestions.

use std::ffi::OsString;
use std::process::ExitCode;

use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue, ErrorKind};

use crate::base::Error;
use crate::cli::terminal::screen;

/// Prints the parser's message: help and version on standard output, an error on standard error, as
/// the JSON envelope if `--json` is among the arguments. Returns the exit code.
pub(in crate::cli) fn usage(
    mut cause: clap::Error,
    command: &clap::Command,
    args: &[OsString],
) -> ExitCode {
    let tip = tip(&cause, command, args);
    if cause.use_stderr() && args.iter().any(|arg| arg == "--json") {
        let text = cause.render().to_string();
        // The first paragraph also names what is missing, or the possible values.
        let lines: Vec<&str> =
            text.lines().map(str::trim).take_while(|it| !it.is_empty()).collect();
        let first = lines.join(" ");
        let message = first.strip_prefix("error: ").unwrap_or(&first);
        let hint = tip.as_deref().unwrap_or("see --help");
        screen::report(&Error::invalid(message).code("usage").hint(hint), true);
        return ExitCode::from(2);
    }
    if let Some(tip) = tip {
        let tips = ContextValue::StyledStrs(vec![StyledStr::from(tip)]);
        cause.insert(ContextKind::Suggested, tips);
    }
    // If the output is closed, nobody can be told.
    let _ = cause.print();
    ExitCode::from(if cause.use_stderr() { 2 } else { 0 })
}

/// Returns suggestions that the parser's own search misses: a verb without its noun (`approve` for
/// `proposal approve`) and the end of a long option (`--name` for `--display-name`).
fn tip(cause: &clap::Error, command: &clap::Command, args: &[OsString]) -> Option<String> {
    let given = |kind| match cause.get(kind) {
        Some(ContextValue::String(text)) => Some(text.as_str()),
        _ => None,
    };
    match cause.kind() {
        ErrorKind::InvalidSubcommand => {
            let verb = given(ContextKind::InvalidSubcommand)?;
            let paths: Vec<String> = command
                .get_subcommands()
                .filter(|noun| noun.find_subcommand(verb).is_some())
                .map(|noun| format!("`{} {} {verb}`", command.get_name(), noun.get_name()))
                .collect();
            (!paths.is_empty()).then(|| format!("did you mean {}?", paths.join(" or ")))
        }
        ErrorKind::UnknownArgument => {
            let ending = format!("-{}", given(ContextKind::InvalidArg)?.strip_prefix("--")?);
            let named = named_command(command, args);
            let mut options = named.get_arguments().filter_map(clap::Arg::get_long);
            let meant = options.find(|option| option.ends_with(&ending))?;
            Some(format!("did you mean `--{meant}`?"))
        }
        _ => None,
    }
}

/// Returns the deepest subcommand among the arguments.
fn named_command<'a>(command: &'a clap::Command, args: &[OsString]) -> &'a clap::Command {
    let words = args.iter().skip(1).filter_map(|arg| arg.to_str());
    words.fold(command, |named, word| named.find_subcommand(word).unwrap_or(named))
}
