//! `wiki-browser completions`: completions of commands and options for shells.

use clap::{Args, CommandFactory as _, ValueEnum};
use clap_complete::Shell;

use crate::base::{Context, ErrorKind, Result};
use crate::cli::agent;
use crate::cli::args::Cli;
use crate::cli::commands::Desk;

/// Supported shells.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(in crate::cli) enum ShellWord {
    /// GNU Bash, with the package bash-completion
    Bash,
    /// Z shell
    Zsh,
    /// Fish
    Fish,
}

/// Programs with completions.
#[derive(Clone, Copy, Debug, Default, ValueEnum)]
pub(in crate::cli) enum ProgramWord {
    /// The operator's program
    #[default]
    WikiBrowser,
    /// The agents' program
    WbAgent,
}

/// `completions`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  wiki-browser completions bash > ~/.local/share/bash-completion/completions/wiki-browser
  wiki-browser completions zsh > ~/.zfunc/_wiki-browser     (with fpath+=~/.zfunc before compinit)
  wiki-browser completions fish > ~/.config/fish/completions/wiki-browser.fish")]
pub(in crate::cli) struct CompletionsArgs {
    /// Shell to complete for
    #[arg(value_enum)]
    shell: ShellWord,
    /// Program to complete
    #[arg(long, value_enum, value_name = "NAME", default_value = "wiki-browser")]
    program: ProgramWord,
}

/// Prints the completions of a program.
pub(in crate::cli) fn run(desk: &Desk, args: &CompletionsArgs) -> Result<()> {
    let (mut command, name) = match args.program {
        ProgramWord::WikiBrowser => (Cli::command(), "wiki-browser"),
        ProgramWord::WbAgent => (agent::command(), "wb-agent"),
    };
    let shell = match args.shell {
        ShellWord::Bash => Shell::Bash,
        ShellWord::Zsh => Shell::Zsh,
        ShellWord::Fish => Shell::Fish,
    };
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut command, name, &mut text);
    let text = String::from_utf8(text);
    let text = text.context(ErrorKind::Internal, || "completions are not UTF-8".to_owned())?;
    desk.screen.raw(&text)
}
