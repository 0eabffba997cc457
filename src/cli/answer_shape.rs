//! What the answer of each command holds that does something: a wrong `--field` is refused before
//! it is done, and not when it cannot be taken back any more.
//!
//! A command that only looks is not here: its answer itself says what it has.
//!
//! **Invariant:** no answer has a field that stands not here; every debug build looks.

use serde_json::Value;

use crate::base::Result;
use crate::cli::args::Command;
use crate::cli::commands::agent::AgentCommand;
use crate::cli::commands::approval::ApprovalCommand;
use crate::cli::commands::channel::ChannelCommand;
use crate::cli::commands::channel::msg::MsgCommand;
use crate::cli::commands::chat::ChatCommand;
use crate::cli::commands::claude::ClaudeCommand;
use crate::cli::commands::gateway::GatewayCommand;
use crate::cli::commands::job::JobCommand;
use crate::cli::commands::mail::SendArgs;
use crate::cli::commands::person::PersonCommand;
use crate::cli::commands::perspective::PerspectiveCommand;
use crate::cli::commands::proposal::ProposalCommand;
use crate::cli::commands::token::TokenCommand;
use crate::cli::commands::topic::TopicCommand;
use crate::cli::commands::usage::EngineCommand;
use crate::cli::commands::workspace::WorkspaceCommand;
use crate::cli::field::{self, There};
use crate::cli::new::NewCommand;

/// Common parts of responses, by name. A name stands for a value; `{…}` after it lists the fields
/// of a record, `[…]` those of each item of a list, `*` means anything.
const RECORDS: [(&str, &str); 9] = [
    (
        "agent",
        "name address about engine state wanted reason fact fact_at waits approval_id not_before \
         job_id session waiting unconfirmed is_older heir ended problem{what fix} \
         attach[] \
         handover{handoff_id agent state reason file successor asked_at} persona \
         seat{channel name intent handle is_chair is_muted}",
    ),
    (
        "job",
        "id kind source_path topic_id persona_name status reason started_at ending_at completed_at \
         exit_code signal error_tail created_at usage* cost_usd lane retry_of requested_by \
         priority not_before retry_at inputs* summary result* warnings[] cancelled_by session_ref \
         config_digest message waiting{code message until job_id job_kind job_started_at} \
         requested_by_name cancelled_by_name engine timeout_ms start_ms idle_ms produces reads \
         printed_at retried_as[] proposal_id opened_topics[id source_path title status] changes* \
         root_id resumes pool message_id agent phase verdict waits_for workspace* \
         monitor_of monitor{job_id kind status} legs[id status created_at waits_for] \
         unanswered_at environment[]",
    ),
    (
        "topic",
        "id source_path is_global title status created_by created_by_name created_at closed_at \
         message_count anchor{quote prefix suffix heading_path[] block_kind origin*} \
         placement{blob state start end confidence method decided_by} \
         source_deleted{is_committed commit}",
    ),
    (
        "proposal",
        "id topic_id topic_ids[] revision_number job_id proposed_by source_path base_source_sha \
         proposed_sha text_digest bytes summary status decided_by decided_by_name decided_at \
         reason commit origin{how from_id made_by made_by_name} superseded_by has_conflict \
         created_at",
    ),
    (
        "channel",
        "id number slug name type is_type_gone outside_wakes promoted_from about intent status \
         paused{reason since sentence} budget{turns tokens cost_usd} spent{turns tokens cost_usd} \
         created_at completed_at last_sequence last_at members[handle name sort agent state \
         untold[] works_since is_chair standing joined_at left_at unconfirmed \
         problem{what fix}] me unread mentions last*",
    ),
    ("person", "id name display_name email role is_external created_at disabled_at"),
    ("link", "url expires_at"),
    (
        "view",
        "source_path persona about state changed[] source_sha persona_sha job_id created_at bytes \
         making",
    ),
    (
        "report",
        "from kept[] epoch jobs_running jobs_cancelled[] approvals_withdrawn \
         worktrees[job_id path kept_ref problem] jobs_undecided[] \
         deliveries_taken members_removed members_muted channels_paused agents_stopped \
         channels_calmed tokens_ended persons_disabled \
         persons_lowered admin_kept approvals[proposal_id topic_id commit claimed_by settled] \
         git_problem rows_lost* tables* damage[] not_saved backups[path at bytes daily] dry_run",
    ),
];

/// A response of the assistant.
const ASKED: &str = "session_id run_id message_id text ended error{code message hint} \
     artefact";

/// The content at a position of a response.
#[derive(Debug)]
pub(super) enum Shape {
    Value,
    Anything,
    List(Box<Shape>),
    Record(Vec<(&'static str, Shape)>),
}

/// The shape of a reload's response.
const RELOADED: &str = "ok dry_run generation digest \
    difference{changes[what how waiting parked runs[when command]] needs_restart[] files[]} \
    trouble{at summary errors*} lost[kind jobs why] warnings[]";

impl Shape {
    /// Returns the shape of a command's response; `None` for one that only reads.
    pub(super) fn of(command: &Command) -> Option<Shape> {
        let text = match command {
            Command::Init(_) => "folder written[] dry_run next[]",
            Command::New(command) => of_new(command),
            Command::Types(args) if !args.check => "folder written[] settings",
            Command::Send(args) => of_send(args),
            Command::Ask(_) | Command::Chat(_) | Command::Assistant => of_assistant(command)?,
            Command::Job(command) => of_job(command)?,
            Command::Topic(command) => of_topic(command)?,
            Command::Proposal(command) => of_proposal(command)?,
            Command::Approval(command) => of_approval(command)?,
            Command::Agent(command) => of_agent(command)?,
            Command::Channel(command) => of_channel(command)?,
            Command::Msg(MsgCommand::Send(_)) => "channel sequence message_id waiting[]",
            Command::Msg(MsgCommand::Held(args)) if args.reads() => {
                "sequence turn_id agent state decided_by answers text"
            }
            Command::Workspace(command) => of_workspace(command)?,
            // With --wait it is that of the job, unless there is none because the view is fresh.
            Command::Perspective(PerspectiveCommand::Request(args)) if args.wait => {
                "job_id is_new perspective{@view} @job"
            }
            Command::Perspective(PerspectiveCommand::Request(_)) => {
                "job_id is_new perspective{@view}"
            }
            Command::Engine(EngineCommand::Release { .. }) => {
                "engine hold{engine since until is_said job_id message}"
            }
            Command::Reload(_) => RELOADED,
            Command::Person(command) => of_person(command)?,
            Command::Gateway(command) => of_gateway(command)?,
            Command::Claude(command) => of_claude(command),
            Command::Token(command) => of_token(command)?,
            Command::Backup(args) if !args.list => "path bytes version took_ms removed[]",
            Command::Restore(_) | Command::Recover(_) => "@report",
            Command::Cleanup(_) => {
                "jobs{removed[job_id bytes why] removed_count removed_bytes kept_count kept_bytes \
                 problems[]} events answers logins messages uploads perspectives search dry_run"
            }
            Command::Login => "@link",
            Command::Events { .. } => "id at kind subject actor data*",
            Command::Serve(_)
            | Command::Check(_)
            | Command::Test(_)
            | Command::Types(_)
            | Command::Doctor
            | Command::Render(_)
            | Command::Decisions
            | Command::Mail(_)
            | Command::Msg(_)
            | Command::Inbox(_)
            | Command::Instances(_)
            | Command::Source(_)
            | Command::Persona(_)
            | Command::Perspective(_)
            | Command::Search(_)
            | Command::Usage(_)
            | Command::Engine(EngineCommand::List)
            | Command::Schedule(_)
            | Command::Backup(_)
            | Command::Completions(_)
            | Command::Openapi
            | Command::Status => return None,
        };
        Some(Shape::read(text))
    }

    fn read(text: &'static str) -> Shape {
        Shape::Record(fields(&mut &*text))
    }

    /// Refuses a path that is in no response.
    ///
    /// # Errors
    /// `invalid` with code `no_field`, as for an answer that is there.
    pub(super) fn require(&self, path: &str) -> Result<()> {
        let (mut here, mut walked) = (self, String::new());
        for part in path.split('.') {
            let next = match here {
                Shape::Anything => return Ok(()),
                Shape::Record(fields) => fields.iter().find(|it| it.0 == part).map(|it| &it.1),
                Shape::List(item) => part.parse::<usize>().is_ok().then_some(&**item),
                Shape::Value => None,
            };
            here = next.ok_or_else(|| field::unknown(&walked, part, &here.there()))?;
            field::walk(&mut walked, part);
        }
        Ok(())
    }

    fn there(&self) -> There<'_> {
        match self {
            Shape::Record(fields) => There::Fields(fields.iter().map(|it| it.0).collect()),
            Shape::List(_) => There::List(None),
            Shape::Value | Shape::Anything => There::Value,
        }
    }

    /// Returns a field of a response that is not in its shape.
    pub(super) fn stranger(&self, answer: &Value) -> Option<String> {
        match (self, answer) {
            (Shape::Record(fields), Value::Object(map)) => {
                map.iter().find_map(|(name, value)| match fields.iter().find(|it| it.0 == name) {
                    Some((_, shape)) => shape.stranger(value).map(|it| format!("{name}.{it}")),
                    None => Some(name.clone()),
                })
            }
            (Shape::List(item), Value::Array(items)) => {
                items.iter().find_map(|it| item.stranger(it)).map(|it| format!("0.{it}"))
            }
            (Shape::Value, Value::Object(map)) => map.keys().next().cloned(),
            (Shape::Value, Value::Array(_)) => Some("0".to_owned()),
            _ => None,
        }
    }
}

fn of_claude(command: &ClaudeCommand) -> &'static str {
    match command {
        ClaudeCommand::Login => "is_signed_in",
        ClaudeCommand::Logout => "was_signed_in",
    }
}

fn of_gateway(command: &GatewayCommand) -> Option<&'static str> {
    match command {
        GatewayCommand::Login => Some("login_id provider state url instructions problem"),
        GatewayCommand::Logout => Some("was_signed_in"),
        GatewayCommand::Install | GatewayCommand::Status => None,
    }
}

fn of_token(command: &TokenCommand) -> Option<&'static str> {
    Some(match command {
        TokenCommand::Create(_) => "id name person scopes[] expires_at token",
        TokenCommand::Revoke { .. } => "id name",
        TokenCommand::List { .. } => return None,
    })
}

fn of_send(args: &SendArgs) -> &'static str {
    match args.wait {
        true => {
            "message_id state reply* failure hint answer_id job_id job_status approval_id \
         waiting"
        }
        false => "message_id job_id instance state waiting",
    }
}

fn of_job(command: &JobCommand) -> Option<&'static str> {
    Some(match command {
        JobCommand::Create(args) if !args.wait => {
            "id job_id also_open{topics[id title] topic_count proposals[id topic_id topic_title] \
             proposal_count}"
        }
        JobCommand::Cancel { id: None, .. } | JobCommand::Retry { id: None, .. } => {
            "jobs refused[job_id code message] next"
        }
        JobCommand::Retry { wait: false, .. } => "id job_id",
        JobCommand::Create(_)
        | JobCommand::Retry { .. }
        | JobCommand::Follow { .. }
        | JobCommand::Cancel { .. } => "@job",
        JobCommand::Restore { .. } => "items[name to outcome why] restorable restored held_at",
        JobCommand::Keep { .. } => "kept held_at",
        JobCommand::List(_)
        | JobCommand::Show { .. }
        | JobCommand::Log { .. }
        | JobCommand::Prompt { .. } => return None,
    })
}

fn of_topic(command: &TopicCommand) -> Option<&'static str> {
    Some(match command {
        TopicCommand::Create(_) | TopicCommand::Reattach(_) => "@topic",
        TopicCommand::Message { .. } => {
            "id topic_id sequence author author_name body proposal_id created_at"
        }
        TopicCommand::Discard(_) | TopicCommand::Reopen(_) => "@topic cancelled_jobs[]",
        TopicCommand::List { .. } | TopicCommand::Show { .. } | TopicCommand::Export { .. } => {
            return None;
        }
    })
}

fn of_proposal(command: &ProposalCommand) -> Option<&'static str> {
    Some(match command {
        ProposalCommand::Approve(_) => {
            "commit branch already_committed note proposal{@proposal} still_open[@topic] \
             followed[proposal_id outcome revision_id] cancelled_jobs[]"
        }
        ProposalCommand::Reject { .. } => "@proposal cancelled_job_id",
        ProposalCommand::Rework { wait: true, .. } => "@job",
        ProposalCommand::Rework { .. } => "job_id proposal_id topic_id message_id sequence",
        ProposalCommand::Edit { .. } => "@proposal",
        ProposalCommand::List { .. }
        | ProposalCommand::Show { .. }
        | ProposalCommand::Diff { .. } => return None,
    })
}

fn of_person(command: &PersonCommand) -> Option<&'static str> {
    Some(match command {
        PersonCommand::Add { .. } => "@person link{@link}",
        PersonCommand::Disable { .. }
        | PersonCommand::Enable { .. }
        | PersonCommand::Edit { .. }
        | PersonCommand::Role { .. } => "@person",
        PersonCommand::Link { .. } => "@link",
        PersonCommand::List => return None,
    })
}

fn of_new(command: &NewCommand) -> &'static str {
    match command {
        NewCommand::Kind(_) => "kind written[] next[] dry_run",
        NewCommand::Inbox(_) => "inbox written[] next[] dry_run",
        NewCommand::Agent(_) => "agent written[] next[] dry_run",
        NewCommand::ChannelType(_) => "channel_type written[] next[] dry_run",
        NewCommand::Persona(_) => "persona written[] dry_run",
    }
}

fn of_channel(command: &ChannelCommand) -> Option<&'static str> {
    match command {
        ChannelCommand::List { .. }
        | ChannelCommand::Show { .. }
        | ChannelCommand::Members { .. }
        | ChannelCommand::Export { .. }
        | ChannelCommand::Follow { .. } => None,
        _ => Some("@channel"),
    }
}

fn of_approval(command: &ApprovalCommand) -> Option<&'static str> {
    match command {
        ApprovalCommand::Approve { .. } | ApprovalCommand::Reject { .. } => Some(
            "id channel sort title state version requester requester_name from job_id root_id \
             note decided_by decided_by_name decided_at expires_at used_at created_at \
             waiting{code message until job_id job_kind job_started_at}",
        ),
        ApprovalCommand::List { .. } | ApprovalCommand::Show { .. } => None,
    }
}

fn of_assistant(command: &Command) -> Option<&'static str> {
    match command {
        Command::Chat(ChatCommand::Stop { .. }) => Some("run_id state"),
        Command::Chat(ChatCommand::Do { .. }) => Some(
            "id run_id step tool subject state ok summary asks approval_id version preview \
             expires_at can_undo can_do undone_at ms created_at args* result",
        ),
        Command::Chat(ChatCommand::Scratch { delete: true }) => Some("deleted bytes kept"),
        Command::Chat(ChatCommand::Delete { .. }) => Some("session_id"),
        Command::Chat(
            ChatCommand::Rename { .. }
            | ChatCommand::Pin { .. }
            | ChatCommand::Unpin { .. }
            | ChatCommand::Archive { .. }
            | ChatCommand::Unarchive { .. },
        ) => Some(
            "session_id title is_pinned is_archived messages tokens_in tokens_out cost_usd \
             active_run questions head_id created_at touched_at",
        ),
        Command::Chat(_) | Command::Assistant => None,
        _ => Some(ASKED),
    }
}

fn of_agent(command: &AgentCommand) -> Option<&'static str> {
    match command {
        AgentCommand::List
        | AgentCommand::Show { .. }
        | AgentCommand::Peek { .. }
        | AgentCommand::Turns { .. }
        | AgentCommand::Attach { .. } => None,
        AgentCommand::Stop { all: true, .. } => Some("items[@agent]"),
        AgentCommand::Handover { .. } => {
            Some("handoff_id agent state reason file successor asked_at")
        }
        AgentCommand::Promote { show: true, .. } => None,
        AgentCommand::Promote { .. } => Some("@channel"),
        AgentCommand::Rehydrate { .. } => Some("message_id files[]"),
        _ => Some("@agent"),
    }
}

fn of_workspace(command: &WorkspaceCommand) -> Option<&'static str> {
    match command {
        WorkspaceCommand::List => None,
        WorkspaceCommand::Sweep { .. } => Some("items[job_id path problem] dry_run"),
        WorkspaceCommand::Keep { .. } | WorkspaceCommand::Remove { .. } => {
            Some("job_id sort path repo base_commit state kept_ref made_at ended_at tries note")
        }
    }
}

/// Reads the fields of a record, up to its end.
fn fields(rest: &mut &'static str) -> Vec<(&'static str, Shape)> {
    let mut found: Vec<(&'static str, Shape)> = Vec::new();
    loop {
        *rest = rest.trim_start();
        let is_named = rest.starts_with('@');
        let text = rest.trim_start_matches('@');
        let end = text.find(|c: char| !c.is_ascii_lowercase() && c != '_').unwrap_or(text.len());
        let (name, after) = text.split_at(end);
        *rest = after;
        if name.is_empty() {
            return found;
        }
        if is_named {
            let record = RECORDS.iter().find(|it| it.0 == name);
            found.extend(record.into_iter().flat_map(|it| fields(&mut &*it.1)));
            continue;
        }
        let shape = match after.as_bytes().first() {
            Some(b'*') => Shape::Anything,
            Some(b'{' | b'[') => {
                *rest = &after[1..];
                let inner = fields(rest);
                match (after.starts_with('{'), inner.is_empty()) {
                    (true, _) => Shape::Record(inner),
                    (false, true) => Shape::List(Box::new(Shape::Value)),
                    (false, false) => Shape::List(Box::new(Shape::Record(inner))),
                }
            }
            _ => Shape::Value,
        };
        if !matches!(shape, Shape::Value) {
            *rest = rest.get(1..).unwrap_or_default();
        }
        found.push((name, shape));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_path_is_judged_before_there_is_an_answer() {
        let shape = Shape::read("job_id open{topics[id title] count} free* words[] @link");
        for path in
            ["job_id", "open", "open.topics", "open.topics.3.id", "free.a.b", "words.0", "url"]
        {
            assert!(shape.require(path).is_ok(), "{path}");
        }
        for (path, message, hint) in [
            ("id", "the answer has no field `id`", "did you mean `job_id`?"),
            ("open.topic", "`open` has no field `topic`", "did you mean `topics`?"),
            ("open.topics.id", "`open.topics` has no field `id`", "use a number, from 0"),
            ("open.topics.0.tile", "`open.topics.0` has no field `tile`", "mean `title`?"),
            ("job_id.x", "`job_id` has no field `x`", "it is a single value"),
            ("words.0.x", "`words.0` has no field `x`", "it is a single value"),
            ("", "the answer has no field ``", "it has: job_id, open, free, words, url"),
        ] {
            let error = shape.require(path).unwrap_err();
            assert_eq!(error.message(), message);
            assert!(error.hint_str().unwrap().contains(hint), "{path}: {:?}", error.hint_str());
        }
    }

    #[test]
    fn an_answer_with_more_than_its_shape_is_found() {
        let shape = Shape::read("id open{topics[id]} free* words[]");
        let fits =
            json!({"id": 1, "open": {"topics": [{"id": 2}]}, "free": [{"x": 1}], "words": ["a"]});
        assert_eq!(shape.stranger(&fits), None);
        assert_eq!(shape.stranger(&json!({"id": null, "open": null, "words": null})), None);
        for (answer, path) in [
            (json!({"x": 1}), "x"),
            (json!({"id": {"x": 1}}), "id.x"),
            (json!({"open": {"topics": [{"id": 2}, {"y": 2}]}}), "open.topics.0.y"),
            (json!({"words": [["a"]]}), "words.0.0"),
        ] {
            assert_eq!(shape.stranger(&answer).as_deref(), Some(path));
        }
    }
}
