//! `wiki-browser test`: runs the tests of the script with a fake agent and a fake clock.

mod differ;
mod stop;
mod told;
mod watch;

use camino::{Utf8Path, Utf8PathBuf};
use clap::Args;

use crate::base::{Error, Result};
use crate::cli::commands::Desk;
use crate::cli::lua_test::told::{Teller, json_of};
use crate::cli::terminal::screen::Form;
use crate::flows::lab::{self, Progress, Scratch, Suite, Summary};

/// `test`.
#[derive(Args, Debug)]
#[command(after_help = "\
A test is a Lua function in a file next to the script:

  -- tests/answer.lua
  local t = require \"wb.test\"

  t.test(\"an answer is asked for when a topic is opened\", function()
    local effects = t.fire(\"topic_created\", { source_path = \"guide.md\" })
    t.eq(effects.jobs[1].kind, \"answer\")
  end)

  t.test(\"the agent is told which topic\", function()
    local topic = t.topic { source_path = \"guide.md\", body = \"Why?\" }
    local job = t.run(\"answer\", { topic_id = topic }, { message = \"Because.\" })
    t.eq(job.status, \"succeeded\")
    t.contains(job.prompt, topic.id)
  end)

Each test gets a temporary site of its own. No process is started, no connection is made, and the
real database is not touched: agents are tables that say what they do, time moves only when a test
moves it, and secrets have made-up values. See docs/testing.md; for editor support, run
wiki-browser types.

Exits 0 if all tests pass, 1 if one fails or the script is invalid, 2 for invalid arguments, 4 if
there are no tests.

Examples:
  wiki-browser test                              runs tests/*.lua next to the script
  wiki-browser test --filter answer              only tests with that word in their name or file
  wiki-browser test tests/answer.lua --watch     rerun on every save")]
pub(in crate::cli) struct TestArgs {
    /// Test files or folders [default: tests/*.lua next to the script]
    #[arg(value_name = "FILE")]
    files: Vec<Utf8PathBuf>,
    /// Run only tests whose name or file contains this
    #[arg(long, value_name = "TEXT")]
    filter: Option<String>,
    /// Run them again whenever the script, a file that it reads, or a test is saved
    #[arg(long)]
    watch: bool,
    /// Print what passing tests have logged, too
    #[arg(long)]
    log: bool,
}

/// Runs the tests; returns 0 or 1.
pub(in crate::cli) fn run(desk: &Desk, args: &TestArgs) -> Result<u8> {
    let script = desk.script()?;
    let signals = stop::listen()?;
    let scratch = Suite::scratch()?;
    let stopping = signals.heed(&scratch)?;
    let place = Place { scratch: &scratch, stopping: &stopping };
    if args.watch {
        return watch::watch(desk, &script, args, place);
    }
    let summary = once(desk, &script, args, place)?;
    if summary.tests.is_empty() && summary.left_out > 0 {
        let filter = args.filter.as_deref().unwrap_or_default();
        return Err(Error::not_found(format!("no test has \"{filter}\" in its name or file"))
            .code("no_tests")
            .hint(format!("there are {} others: leave --filter out", summary.left_out)));
    }
    Ok(u8::from(!summary.is_fine()))
}

/// Where tests run, and whether a signal is about to remove it.
#[derive(Clone, Copy)]
struct Place<'a> {
    scratch: &'a Scratch,
    stopping: &'a stop::Stopping,
}

/// Runs the tests once and reports the results.
fn once(desk: &Desk, script: &Utf8Path, args: &TestArgs, place: Place<'_>) -> Result<Summary> {
    let files = lab::find(script, &args.files)?;
    let suite = Suite { script: script.to_owned(), files, filter: args.filter.clone() };
    let in_words = *desk.screen.form() == Form::Words;
    let mut teller = Teller::new(&desk.screen, args.log);
    let mut refused = None;
    let summary = suite.run(place.scratch, &mut |progress: Progress<'_>| {
        place.stopping.unless_stopping();
        if in_words && refused.is_none() {
            refused = teller.tell(&progress).err();
        }
    });
    place.stopping.unless_stopping();
    match refused {
        Some(cause) => return Err(cause),
        None if in_words => teller.end(&summary)?,
        None => desk.screen.answer(&json_of(&summary)?, |_, _| Ok(()))?,
    }
    Ok(summary)
}
