//! Every statement on jobs filters by its viewer, or is listed with the reason why not.

use wiki_browser::jobs;

/// What a statement has that shows a private job to its owner only, or to nobody.
const CONDITIONS: [&str; 2] = ["(:all OR owner IS NULL OR owner = :viewer)", "owner IS NULL"];

/// Statements without it, and why they may see every job.
const UNFENCED: &[(&str, &[&str])] = &[
    (
        "the row is held back by `Viewer::sees`",
        &[
            "jobs::find",
            "jobs::find_slim",
            "waiting::holders",
            "waiting::first_in_lane",
            "lane::busy",
        ],
    ),
    (
        "the program runs, ends and settles all jobs",
        &[
            "jobs::running",
            "jobs::guards",
            "claim::running_of_kind",
            "claim::next_kind",
            "claim::first_of_kind",
            "claim::next_person",
            "claim::first_of_person",
            "claim::this_one",
            "claim::claim",
            "claim::unclaim",
            "claim::put_back",
            "lane::running_slots",
            "lane::unready",
            "lane::ready",
            "lane::due",
            "lane::ready_one",
            "lane::next_due",
            "lane::next_lane",
            "lane::enter",
            "asking::ask",
            "asking::want",
            "asking::go_on",
            "asking::asking",
            "asking::working",
            "parking::wait_for",
            "parking::stop_waiting",
            "parking::parked",
            "parking::leaving",
            "parking::legs_waiting",
            "parking::keep_session",
            "parking::resumed",
            "parking::insert",
            "enqueue::insert",
            "enqueue::ids_of_person",
            "enqueue::active_of_owner",
            "enqueue::cancel_queued",
            "monitor::active",
            "steering_hold::first",
            "settle::begin_ending",
            "settle::request_cancel",
            "settle::request_kill",
            "silent::note_silence",
            "silent::note_answer",
            "settle::cancelled",
            "settle::settle",
            "usage::note_turn",
            "usage::has_turns",
            "settle::keep_inputs",
            "settle::begin_phase",
            "settle::keep_guard",
            "settle::keep_result",
            "settle::change_engine",
            "settle::keep_topic",
            "again::warn",
            "retained::rest",
            "retained::files",
            "retained::give_up",
            "retained::fence_all",
            "retained::fence_dying",
            "retained::kept",
            "before::keep",
            "before::of",
            "retained::keep",
            "keeping::note_heard",
            "keeping::heard",
            "retained::queued",
            "renamed::of_source",
            "jobs::is_named",
            "on_sources::parked",
            "carry::note_counted",
            "usage::counted_until",
            "renamed::rename",
            "renamed::relane",
            "renamed::move_running",
            "renamed::move_one",
            "renamed::is_occupied",
            "bulk::rename",
            "unfit::all",
            "unfit::mark",
            "unfit::unmark",
            "unfit::lane",
            "unfit::of",
        ],
    ),
    (
        "a number that is held against a limit",
        &[
            "pool::running",
            "pool::chats_of_owners",
            "waiting::running_of_kinds",
            "enqueue::queued_in_lane",
            "enqueue::queued",
            "enqueue::queued_of_kind",
            "enqueue::queued_of_person",
        ],
    ),
    ("the token is that of the job", &["fence::owner", "fence::by_token"]),
    (
        "the job was found with a viewer before",
        &[
            "again::depth",
            "again::before",
            "again::repeated",
            "monitor::last",
            "instance::last_leg",
            "instance::legs",
            "instance_reply::give",
            "instance_reply::give_anew",
            "instance_reply::given",
            "retained::forget_words",
            "unfit::last",
        ],
    ),
    ("messages start no private job", &["instance::last_of_message", "instance::roots_of_message"]),
    ("schedules start no private job", &["again::unended"]),
    ("events of private jobs are passed over", &["measured::spent"]),
];

fn is_fenced(sql: &str) -> bool {
    CONDITIONS.iter().any(|condition| sql.contains(condition))
}

#[test]
fn every_statement_on_jobs_is_fenced_or_says_why_not() {
    let excused: Vec<&str> = UNFENCED.iter().flat_map(|(_, names)| *names).copied().collect();
    let mut wrong = Vec::new();
    for (name, sql) in jobs::statements().iter().filter(|(_, sql)| sql.contains("agent_jobs")) {
        match (is_fenced(sql), excused.contains(name)) {
            (false, false) => wrong.push(format!("{name} shows private jobs to everybody")),
            (true, true) => wrong.push(format!("{name} is fenced, and said not to be")),
            _ => {}
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let names: Vec<&str> = jobs::statements().iter().map(|(name, _)| *name).collect();
    for name in excused {
        assert!(names.contains(&name), "{name} is no statement");
    }
}

/// What was spent has no reader who sees another one's private sums, but for the caps and restores.
#[test]
fn every_sum_of_what_was_spent_is_fenced() {
    let sums = |sql: &str| sql.contains("FROM usage_days");
    for (name, sql) in jobs::statements().into_iter().filter(|(_, sql)| sums(sql)) {
        let is_held_back = sql.contains("(:all OR is_private = 0 OR person = :viewer)");
        assert!(
            is_held_back || ["usage::of_day", "carry::spent"].contains(&name),
            "{name} shows private sums"
        );
    }
}

/// The tables of other modules know jobs by their ids only.
#[test]
fn no_other_module_reads_the_table_of_jobs() {
    for (path, text) in crate::architecture::rust_files("src") {
        let is_owner = path.as_str().starts_with("src/jobs/") || path.as_str().contains("fixture");
        let before_tests = text.split("#[cfg(test)]").next().unwrap_or_default();
        assert!(is_owner || !before_tests.contains("agent_jobs"), "{path} reads jobs");
    }
}
