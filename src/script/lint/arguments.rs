//! The arguments of the script's functions, by the schema and by their kind.

use crate::base::EventKind;
use crate::script::config::{Kind, Produces};
use crate::script::schema::{ALIASES, Member, RECORDS, event_data};
use crate::script::source::diagnostic::nearest;
use crate::script::vm::template::{AGENT_NAMES, INBOX_NAMES, PROMPT_NAMES};

/// The input that every kind has.
pub(crate) const TOPIC_IDS: &str = "topic_ids";

/// The argument of a function.
#[derive(Clone, Copy)]
pub(crate) enum Given<'k> {
    /// The event of a handler.
    Event(EventKind),
    /// The job passed to `verify`.
    Produced(&'k Kind),
    /// The failed job passed to `retry`.
    Failed(&'k Kind),
    /// The values of a prompt.
    Prompt(&'k Kind),
    /// The inputs passed to a lane function.
    Lane(&'k Kind),
    /// The time of a schedule.
    Due,
    /// The call of a webhook.
    Call,
}

/// A name in an argument.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Name<'k> {
    /// The name.
    pub(crate) name: &'k str,
    /// Its type in the schema.
    pub(crate) ty: &'k str,
}

impl<'k> Given<'k> {
    /// Returns a description for messages.
    pub(crate) fn what(self) -> String {
        match self {
            Given::Event(kind) => format!("an event {}", kind.as_str()),
            Given::Produced(_) => "the job that verify is given".to_owned(),
            Given::Failed(_) => "the job that retry is given".to_owned(),
            Given::Prompt(kind) => format!("what the prompt of {} is given", kind.title()),
            Given::Lane(kind) => format!("what the lane of kind \"{}\" is given", kind.name),
            Given::Due => "the time that a schedule is given".to_owned(),
            Given::Call => "the call that a webhook is given".to_owned(),
        }
    }

    /// Returns the field of a declaration that holds such a function; for a handler, the event.
    pub(crate) fn field(self) -> &'static str {
        match self {
            Given::Event(_) => "on",
            Given::Produced(_) => "verify",
            Given::Failed(_) => "retry",
            Given::Prompt(_) => "prompt",
            Given::Lane(_) => "lane",
            Given::Due | Given::Call => "enqueue",
        }
    }

    /// Returns whether the function can request jobs and its return value is ignored.
    pub(crate) fn acts(self) -> bool {
        matches!(self, Given::Event(_) | Given::Due | Given::Call)
    }

    /// Returns the names that it has.
    pub(crate) fn names(self) -> Vec<Name<'k>> {
        match self {
            Given::Event(_) => of_record("wb.Event"),
            Given::Produced(_) => of_record("wb.ProducedJob"),
            Given::Failed(_) => of_record("wb.FailedJob"),
            Given::Due => of_record("wb.Due"),
            Given::Call => of_record("wb.Call"),
            Given::Prompt(kind) => {
                let own = PROMPT_NAMES.into_iter().map(|name| Name { name, ty: "string" });
                let of_inbox = match (&kind.inbox, &kind.agent) {
                    (Some(_), _) => &INBOX_NAMES[..],
                    (_, Some(_)) => &AGENT_NAMES[..],
                    _ => &[],
                };
                let of_inbox = of_inbox.iter().map(|name| Name { name, ty: "string" });
                return own.chain(of_inbox).chain(inputs(kind, |_| true)).collect();
            }
            Given::Lane(kind) => return inputs(kind, |it| !it.ty.is_computed()).collect(),
        }
        .unwrap_or_default()
    }

    /// Returns the members of one of its names; `None` if any member is possible.
    pub(crate) fn within(self, name: Name<'k>) -> Option<Vec<Name<'k>>> {
        match (self, name.name) {
            (Given::Event(kind), "data") => Some(event_data(kind).iter().map(name_of).collect()),
            (Given::Produced(kind), "produced") => Some(produced(kind)),
            (Given::Produced(kind) | Given::Failed(kind), "inputs") => {
                Some(inputs(kind, |_| true).collect())
            }
            _ => of_record(name.ty.trim_end_matches('?')),
        }
    }

    /// Returns a note if the name, or a similar one, is in one of the argument's tables.
    pub(crate) fn elsewhere(self, name: &str, is_first: bool, shown: &str) -> Option<String> {
        let root = shown.split('.').next()?;
        let names = self.names();
        let here = names.iter().map(|it| it.name).filter(|_| is_first);
        if name != "kind" && nearest(name, here).is_some() {
            return None;
        }
        // The data of an event is a snapshot of when it happened; a job is in its current state.
        let tables = ["job", "data", "produced", "inputs", "body"];
        let mut tables = tables.iter().filter_map(|it| names.iter().find(|one| one.name == *it));
        tables.find_map(|table| {
            let is_there = self.within(*table)?.iter().any(|it| it.name == name);
            let has_job = !matches!(self, Given::Event(kind) if !kind.as_str().starts_with("job_"));
            let is_given = table.name != "job" || has_job;
            (is_there && is_given).then(|| format!("write {root}.{}.{name}", table.name))
        })
    }
}

fn name_of(member: &'static Member) -> Name<'static> {
    Name { name: member.name, ty: member.ty }
}

/// Returns the names of a record and its bases; `None` if it may have others.
fn of_record(name: &str) -> Option<Vec<Name<'static>>> {
    let record = RECORDS.iter().find(|it| it.name == name && it.others.is_none())?;
    let base = record.base.and_then(of_record).unwrap_or_default();
    Some(record.members.iter().map(name_of).chain(base).collect())
}

fn inputs<'k>(
    kind: &'k Kind,
    is_meant: impl Fn(&crate::script::config::Input) -> bool + 'k,
) -> impl Iterator<Item = Name<'k>> {
    let own = kind.inputs.iter().filter(move |it| is_meant(it));
    let own = own.map(|it| Name { name: &it.name, ty: "any" });
    let several = matches!(kind.produces, Some(Produces::Proposal));
    own.chain(several.then_some(Name { name: TOPIC_IDS, ty: "any" }))
}

/// Returns the output of jobs of a kind.
fn produced(kind: &Kind) -> Vec<Name<'static>> {
    let names: &[&str] = match kind.produces {
        None if kind.inbox.is_some() => &["text", "value"],
        None => &[],
        Some(Produces::Result) => &["value"],
        Some(Produces::Topic) => &["topics", "value"],
        Some(Produces::Proposal | Produces::Perspective | Produces::Message) => &["text"],
    };
    let all = of_record("wb.Produced").unwrap_or_default();
    all.into_iter().filter(|it| names.contains(&it.name)).collect()
}

/// Returns the possible values of a type, if it is an enumeration.
pub(crate) fn words(ty: &str) -> &'static [&'static str] {
    let ty = ty.trim_end_matches('?');
    ALIASES.iter().find(|it| it.0 == ty).map_or(&[], |it| it.1)
}
