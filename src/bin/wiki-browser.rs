//! The server and the operator's commands.

use std::io::Write;
use std::process::ExitCode;

use camino::Utf8PathBuf;
use wiki_browser::base::{Context, Error, ErrorKind, Result};
use wiki_browser::cli::{self, RenderRequest, Seams, ServeArgs};
use wiki_browser::{flows, process};

fn main() -> ExitCode {
    cli::main(std::env::args_os(), Seams { serve, render })
}

fn serve(args: ServeArgs) -> ExitCode {
    // Nobody to tell if standard error is closed.
    let _ = writeln!(std::io::stderr(), "error: this build cannot serve {}", args.script);
    ExitCode::FAILURE
}

fn render(request: RenderRequest<'_>) -> Result<String> {
    let RenderRequest { loaded, kind, inputs, source_of_topic } = request;
    let path_env = std::env::var("PATH").unwrap_or_default();
    let git = process::which("git", &path_env, &loaded.config.folder).ok_or_else(|| {
        Error::unavailable("git is not installed").hint("install it, or mend PATH")
    })?;
    let wb_agent = match &loaded.config.site.wb_agent {
        Some(path) => path.clone(),
        None => beside_this_program("wb-agent")?,
    };
    let source = source_of_topic.map(str::to_owned);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context(ErrorKind::Unavailable, || "cannot start git".to_owned())?;
    runtime.block_on(flows::render::render(loaded, &wb_agent, git, kind, inputs, source))
}

fn beside_this_program(name: &str) -> Result<Utf8PathBuf> {
    let program = std::env::current_exe()
        .context(ErrorKind::Internal, || "cannot find this program's own file".to_owned())?;
    let program = Utf8PathBuf::try_from(program)
        .context(ErrorKind::Invalid, || "the path of this program is not UTF-8".to_owned())?;
    Ok(program.with_file_name(name))
}
