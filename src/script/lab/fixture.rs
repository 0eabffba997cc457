//! One VM with a file of tests: loads the file, and runs one of its tests.

use std::rc::Rc;

use mlua::{Function, Lua, Value};

use crate::base::Millis;
use crate::script::lab::api::{self, Lab};
use crate::script::lab::thread::Watched;
use crate::script::lab::{Failure, File, Listed, Make, START};
use crate::script::source::diagnostic::{Diagnostic, Report};
use crate::script::vm::budget::{Budget, Meter};
use crate::script::vm::effect::Rights;
use crate::script::vm::outside::{Outside, Said};
use crate::script::vm::require::Origin;
use crate::script::vm::sandbox::{compile, environment, new_lua};
use crate::script::vm::session::{Module, Session};
use crate::script::vm::thread::{Plan, protected, unreadable};
use crate::script::vm::value::cause_text;

/// A loaded file of tests.
pub(super) struct Bed {
    lua: Lua,
    lab: Rc<Lab>,
    pcall: Function,
}

impl Drop for Bed {
    fn drop(&mut self) {
        // Break the cycle: functions inside the VM hold the session, which holds functions itself.
        self.lab.clear();
        self.lab.session.clear();
    }
}

impl Bed {
    /// Loads a file of tests without running them.
    ///
    /// # Errors
    /// Every error in it.
    pub(super) fn load(file: &File, said: Said, watched: Rc<Watched>) -> Result<Bed, Report> {
        let plan = Plan {
            folder: file.folder.clone(),
            script: file.path.clone(),
            origin: Origin::Disk,
            outside: Outside::feigned(std::collections::BTreeMap::new(), said.clone()),
        };
        let session = Rc::new(Session::new(&plan));
        let broken = |cause: mlua::Error| {
            let message = format!("the script engine cannot start: {}", cause_text(&cause));
            Report::of(Diagnostic::error("engine", message))
        };
        let (bed, main) = Bed::prepare(&plan, session, watched, said).map_err(|it| match it {
            Unready::Engine(cause) => broken(cause),
            Unready::Wrong(report) => report,
        })?;
        bed.evaluate(&main, file).map_err(broken)?;
        let findings = bed.lab.session.finish(true).findings;
        let report = Report::new(findings, &bed.lab.files());
        match report.errors.is_empty() {
            true => Ok(bed),
            false => Err(report),
        }
    }

    fn prepare(
        plan: &Plan,
        session: Rc<Session>,
        watched: Rc<Watched>,
        said: Said,
    ) -> Result<(Bed, Function), Unready> {
        let lua = new_lua()?;
        let env = environment(&lua, &session)?;
        let pcall: Function = lua.globals().get("pcall")?;
        let lab = api::install(&lua, &session, watched, said)?;
        let text = session
            .read(&plan.script)
            .map_err(|cause| Unready::Wrong(Report::of(unreadable(plan, &cause))))?;
        lab.keep_files();
        if let Some(name) = plan.script.file_stem() {
            session.set_module(name, Module::Running);
        }
        let main = compile(&lua, &plan.script, &text, env).map_err(|cause| {
            let finding = session.sources().syntax(&cause_text(&cause));
            Unready::Wrong(Report::new(vec![finding], &lab.files()))
        })?;
        Ok((Bed { lua, lab, pcall }, main))
    }

    /// Evaluates the file under the limits of a loading script.
    fn evaluate(&self, main: &Function, file: &File) -> mlua::Result<()> {
        let session = &self.lab.session;
        let meter = Meter::start(&self.lua, Budget::TEST_LOAD, &self.lab.watched.is_abandoned)?;
        let outcome = protected(&self.pcall, main, Value::Nil);
        let over = meter.stop();
        self.lab.keep_files();
        let error = match (over, outcome) {
            (Some(message), _) => {
                Some(self.lab.finding("limit", &message).note("look for a loop that does not end"))
            }
            (None, Err(message)) => Some(self.lab.failure(&message).finding),
            (None, Ok(_)) => None,
        };
        let is_wrong = error.is_some();
        if let Some(finding) = error {
            session.report(finding);
        }
        if !is_wrong && self.lab.count() == 0 {
            let message = format!("{} has no test", file.path);
            let finding = Diagnostic::error("no-test", message).in_file(&file.path, 1, None).note(
                "write t.test(\"what holds\", function() … end), after \
                     local t = require \"wb.test\"",
            );
            session.report(finding);
        }
        Ok(())
    }

    /// Returns the tests of the file.
    pub(super) fn listed(&self) -> Listed {
        let files = self.lab.files().into_iter().map(|it| it.path).collect();
        Listed { tests: self.lab.named(), files }
    }

    /// Runs one test; returns the failure, if any.
    pub(super) fn run(&self, place: usize, make: Make) -> Option<Failure> {
        let Some(body) = self.lab.body(place) else {
            let message = "the file has other tests than a moment ago";
            return Some(Failure::of(Diagnostic::error("test", message).note("run it again")));
        };
        self.lab.begin(make);
        self.lab.session.begin_call(Rights::answers(START));
        let (watched, budget) = (&self.lab.watched, Budget::TEST);
        let credit = watched.credit.clone();
        let meter = Meter::start_with(&self.lua, budget, &watched.is_abandoned, credit);
        let meter = match meter {
            Ok(meter) => meter,
            Err(cause) => return Some(self.lab.failure(&cause_text(&cause))),
        };
        let outcome = protected(&self.pcall, &body, Value::Nil);
        let over = meter.stop();
        let effects = self.lab.session.end_call();
        debug_assert!(effects.is_empty(), "a test has no right to effects");
        match (over, outcome) {
            (Some(message), _) => {
                let finding = self.lab.finding("limit", &message);
                Some(self.lab.whole(finding.note("look for a loop that does not end")))
            }
            (None, Err(message)) => Some(self.placed(place, self.lab.failure(&message))),
            (None, Ok(_)) => None,
        }
    }

    /// Gives a failure without a line the line of its test.
    fn placed(&self, place: usize, failure: Failure) -> Failure {
        let named = self.lab.named().into_iter().nth(place);
        match (failure.finding.at.is_none(), named) {
            (true, Some(named)) => {
                let mut finding = failure.finding;
                finding.at = Some(named.at);
                self.lab.whole(finding)
            }
            _ => failure,
        }
    }
}

enum Unready {
    Engine(mlua::Error),
    Wrong(Report),
}

impl From<mlua::Error> for Unready {
    fn from(cause: mlua::Error) -> Unready {
        Unready::Engine(cause)
    }
}

/// Returns the rights of a test at a time.
pub(super) fn rights(now: Millis) -> Rights {
    Rights::answers(now)
}
