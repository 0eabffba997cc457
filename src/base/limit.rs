//! All limits of the program, and the units in which operators write limits.

mod duration;

pub use duration::{format_duration, parse_duration};

/// Longest path of a Source, in bytes (below Linux's PATH_MAX of 4,096).
pub const SOURCE_PATH_BYTES_MAX: usize = 1_024;
/// Largest Markdown text rendered as HTML, in bytes; a larger one is shown as plain lines.
pub const RENDERED_TEXT_BYTES_MAX: usize = 1024 * 1024;
/// Size of the cache of rendered texts, in bytes.
pub const RENDERED_KEPT_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Largest image of the repository that is served, in bytes.
pub const IMAGE_BYTES_MAX: usize = 8 * 1024 * 1024;
/// Largest Source that is read, proposed or committed, in bytes.
pub const SOURCE_BYTES_MAX: usize = 8 * 1024 * 1024;
/// Longest message of a Topic, in bytes.
pub const MESSAGE_BYTES_MAX: usize = 64 * 1024;
/// Most messages of one Topic.
pub const TOPIC_MESSAGES_MAX: i64 = 10_000;
/// Most messages that one job may post in a Topic; the rest is reserved for people.
pub const JOB_MESSAGES_MAX: i64 = 20;
/// Most proposals that one job may submit; the last one counts.
pub const JOB_PROPOSALS_MAX: i64 = 10;
/// Most Topics that one job may resolve.
pub const JOB_TOPICS_MAX: usize = 20;
/// Most Topics that one job may open.
pub const OPENED_TOPICS_MAX: usize = 20;
/// Largest body of a webhook call (docs/callbacks.md), in bytes.
pub const WEBHOOK_BODY_BYTES_MAX: usize = 256 * 1024;
/// Longest single-line input of a job, in bytes.
pub const LINE_BYTES_MAX: usize = 4 * 1024;
/// Longest `text` input of a job, in bytes; roughly the longest prompt.
pub const TEXT_INPUT_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Tail of an agent's stderr kept in the job's row, in bytes.
pub const ERROR_TAIL_BYTES_MAX: usize = 4 * 1024;
/// Head of an agent's output stream that is kept, in bytes.
pub const OUTPUT_HEAD_BYTES_MAX: u64 = 8 * 1024 * 1024;
/// Tail of an agent's output stream that is kept, in bytes.
pub const OUTPUT_TAIL_BYTES_MAX: u64 = 1024 * 1024;
/// Largest result that a job may submit with `wb-agent finish`, in bytes.
pub const RESULT_BYTES_MAX: usize = 1024 * 1024;
/// Longest summary or reason, in bytes.
pub const SUMMARY_BYTES_MAX: usize = 4 * 1024;
/// Most queued jobs per lane.
pub const LANE_QUEUED_MAX: i64 = 1_000;
/// Most queued jobs in total.
pub const QUEUED_MAX: i64 = 10_000;
/// Highest priority of a job; the lowest is its negative.
pub const PRIORITY_MAX: i64 = 100;
/// Most rows on one page of a list.
pub const PAGE_ROWS_MAX: u32 = 200;
/// Rows on one page of a list by default.
pub const PAGE_ROWS_DEFAULT: u32 = 20;

/// Most queued jobs requested by one person; the rest is reserved for others.
pub const PERSON_QUEUED_MAX: i64 = 5_000;
/// Most queued jobs of one kind.
pub const KIND_QUEUED_MAX: i64 = 5_000;

/// Longest header line of a request, in bytes.
pub const HEADER_LINE_BYTES_MAX: usize = 8 * 1024;
/// Most header lines of a request.
pub const HEADERS_MAX: usize = 100;
/// Largest head of a request (all lines), in bytes.
pub const HEAD_BYTES_MAX: usize = 16 * 1024;
/// Longest path of a request as sent, in bytes: a Source's path with every byte escaped.
pub const PATH_BYTES_MAX: usize = 4 * 1024;
/// Longest query of a request as sent, in bytes.
pub const QUERY_BYTES_MAX: usize = 8 * 1024;
/// Most query parameters.
pub const QUERY_PARAMETERS_MAX: usize = 32;
/// Timeout for the head of a request, and between two requests, in milliseconds.
pub const HEAD_READ_MS_MAX: u64 = 10_000;
/// Longest pause within a request body, in milliseconds.
pub const BODY_PAUSE_MS_MAX: u64 = 15_000;
/// Timeout for a whole request body (16 MiB from a slow phone), in milliseconds.
pub const BODY_TIME_MS_MAX: u64 = 120_000;
/// Largest body where none is expected, in bytes.
pub const NO_BODY_BYTES_MAX: usize = 1024;
/// Largest body of a login, in bytes.
pub const LOGIN_BODY_BYTES_MAX: usize = 4 * 1024;
/// Largest body with a message or a reason, in bytes: escaping makes a character up to six bytes.
pub const MESSAGE_BODY_BYTES_MAX: usize = 6 * MESSAGE_BYTES_MAX + 256 * 1024;
/// Largest body with a decision (a reason or a commit message), in bytes.
pub const DECISION_BODY_BYTES_MAX: usize = 512 * 1024;
/// Largest body with a proposed text and its anchors, in bytes. Documents need little escaping.
pub const PROPOSAL_BODY_BYTES_MAX: usize = 2 * SOURCE_BYTES_MAX + 4 * 1024 * 1024;
/// Largest body that starts a job, in bytes: a `text` input of the maximum size, partly escaped.
pub const JOB_BODY_BYTES_MAX: usize = 2 * TEXT_INPUT_BYTES_MAX + 1024 * 1024;
/// Largest body with a result, in bytes: JSON inside JSON.
pub const RESULT_BODY_BYTES_MAX: usize = RESULT_BYTES_MAX + 64 * 1024;
/// Largest body that reverts changes, in bytes: a thousand of the longest paths.
pub const RESTORE_BODY_BYTES_MAX: usize = 2 * 1024 * 1024;
/// Largest file attached to a message of a channel, in bytes.
pub const CHANNEL_ATTACHMENT_BYTES_MAX: usize = 10 * 1024 * 1024;
/// Most files attached to a message of a channel.
pub const CHANNEL_ATTACHMENTS_MAX: usize = 10;
/// What an agent or a member from outside can upload to channels within a day, in bytes.
pub const CHANNEL_UPLOADS_BYTES_MAX: usize = 100 * 1024 * 1024;
/// Total size of all request bodies in memory at once, in bytes.
pub const BODIES_BYTES_MAX: usize = 256 * 1024 * 1024;
/// Total size of large bodies from agents at once, in bytes; the rest is reserved for people.
pub const AGENT_BODIES_BYTES_MAX: usize = 128 * 1024 * 1024;
/// Total size of all responses over 64 KiB being sent at once, in bytes.
pub const ANSWERS_BYTES_MAX: usize = 256 * 1024 * 1024;
/// Longest time in which a client reads less than 64 KiB of its response, in milliseconds.
pub const WRITE_STALL_MS_MAX: u64 = 30_000;
/// Most TCP connections; fewer if the file descriptor limit is low.
pub const TCP_CONNECTIONS_MAX: usize = 2_048;
/// Most connections on the command socket; fewer if the file descriptor limit is low.
pub const SOCKET_CONNECTIONS_MAX: usize = 256;
/// Most connections on the agent socket; fewer if the file descriptor limit is low.
pub const AGENT_CONNECTIONS_MAX: usize = 256;
/// Most event streams.
pub const STREAMS_MAX: usize = 1_500;
/// Most event streams per token or session.
pub const CREDENTIAL_STREAMS_MAX: usize = 64;
/// Most event streams per job.
pub const JOB_STREAMS_MAX: usize = 8;
/// Most events replayed to a reconnecting stream; a client further behind gets `reset`.
pub const REPLAY_EVENTS_MAX: i64 = 10_000;
/// Longest time that a stream outlives its credential, in milliseconds.
pub const STREAM_CHECK_MS_MAX: u64 = 10_000;

/// Longest credential (token, cookie, login code) that is examined, in bytes.
pub const CREDENTIAL_BYTES_MAX: usize = 200;
/// Most sessions per person; one more ends the least recently used.
pub const SESSIONS_MAX: i64 = 50;
/// Most active login codes; one more ends the oldest.
pub const LOGIN_CODES_MAX: usize = 32;
/// Most wrong login codes per minute.
pub const WRONG_CODES_MAX: usize = 10;
/// Most tokens per person.
pub const TOKENS_MAX: usize = 100;
/// Longest name of a person or token, display name or address, in bytes.
pub const NAME_BYTES_MAX: usize = 100;
/// Longest `Idempotency-Key`, in bytes; visible ASCII only.
pub const KEY_BYTES_MAX: usize = 200;
/// Most answers kept for `Idempotency-Key`s; the oldest are dropped first.
pub const KEYS_KEPT_MAX: i64 = 100_000;

/// Total size of all messages in a Topic, in bytes.
pub const TOPIC_BYTES_MAX: i64 = 16 * 1024 * 1024;
/// Most open Topics per Source.
pub const OPEN_TOPICS_MAX: i64 = 2_000;
/// Longest title, in bytes.
pub const TITLE_BYTES_MAX: usize = 400;
/// Longest quoted passage of a Topic, in bytes.
pub const QUOTE_BYTES_MAX: usize = 64 * 1024;
/// Longest prefix or suffix of a selection, in bytes.
pub const GIVEN_CONTEXT_BYTES_MAX: usize = 4 * 1024;
/// Most anchors submitted with a proposal.
pub const ANCHORS_MAX: usize = 2_000;
/// Most proposals per Topic.
pub const TOPIC_PROPOSALS_MAX: i64 = 1_000;
/// Longest commit subject, in characters.
pub const SUBJECT_CHARS_MAX: usize = 200;
/// Longest commit body, in bytes.
pub const COMMIT_BODY_BYTES_MAX: usize = 16 * 1024;
/// Longest name of a persona, in bytes.
pub const PERSONA_NAME_BYTES_MAX: usize = 64;
/// Largest persona file, in bytes.
pub const PERSONA_BYTES_MAX: usize = 256 * 1024;
/// Largest front matter of a persona file, in bytes.
pub const PERSONA_FRONT_BYTES_MAX: usize = 16 * 1024;
/// Longest one-line description of a persona, in bytes.
pub const PERSONA_ABOUT_BYTES_MAX: usize = 400;
/// Most globs per persona.
pub const PERSONA_PATHS_MAX: usize = 64;
/// Most persona files.
pub const PERSONAS_MAX: usize = 1_000;
/// Perspectives kept per persona and Source; each is as long as a Source.
pub const PERSPECTIVES_KEPT: i64 = 8;
/// Most bytes of a log per response.
pub const LOG_BYTES_MAX: usize = 256 * 1024;
/// Most entries of a job's stream per response.
pub const STREAM_ENTRIES_MAX: usize = 500;

/// Largest prompt, in bytes: the largest text input plus its surroundings.
pub const PROMPT_BYTES_MAX: usize = TEXT_INPUT_BYTES_MAX + 1024 * 1024;
/// Longest program argument, in bytes (Linux's MAX_ARG_STRLEN without the terminating NUL).
pub const ARGUMENT_BYTES_MAX: usize = 131_071;
/// Largest script file, in bytes.
pub const SCRIPT_FILE_BYTES_MAX: u64 = 1024 * 1024;
/// Most script files.
pub const SCRIPT_FILES_MAX: usize = 64;
/// Memory limit of the script, in bytes.
pub const SCRIPT_MEMORY_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Most declarations (kinds, engines, handlers) in the script.
pub const SCRIPT_DECLARED_MAX: usize = 1_000;
/// Most lines logged per call of the script.
pub const SCRIPT_LOG_LINES_MAX: u32 = 100;
/// Most jobs enqueued per call of a script function.
pub const SCRIPT_ENQUEUES_MAX: usize = 20;
/// Longest chain of jobs started by the script without a person.
pub const SCRIPT_DEPTH_MAX: u32 = 5;
/// Most retries of one job by the script.
pub const SCRIPT_RETRIES_MAX: u32 = 10;
/// Largest file read by `wb.file`, in bytes.
pub const SCRIPT_TEXT_BYTES_MAX: u64 = 256 * 1024;
/// Longest line logged by the script, in characters.
pub const SCRIPT_LOG_CHARS_MAX: usize = 4_000;
/// Most files referenced by inboxes: schemas, hooks and templates.
pub const INBOX_FILES_MAX: usize = 512;
/// Most concurrent instances of one inbox.
pub const INBOX_CONCURRENCY_MAX: u32 = 64;
/// Most long-lived agents at once.
pub const LIVE_AGENTS_MAX: u32 = 200;
/// Largest JSON schema of an inbox, in bytes.
pub const SCHEMA_BYTES_MAX: u64 = 64 * 1024;
/// Longest hook, in bytes.
pub const HOOK_BYTES_MAX: usize = 16 * 1024;
/// Longest run time of a hook, in milliseconds.
pub const HOOK_MS_MAX: u64 = 600_000;
/// Largest template file, in bytes.
pub const TEMPLATE_BYTES_MAX: u64 = 64 * 1024;
/// Most inboxes per template.
pub const TEMPLATE_TOPICS_MAX: usize = 64;
/// Most templates.
pub const TEMPLATES_MAX: usize = 200;
/// Largest skill file, in bytes.
pub const SKILL_BYTES_MAX: u64 = 1024 * 1024;
/// Longest line of an agent's stream that is parsed as telemetry, in bytes.
pub const STREAM_LINE_BYTES_MAX: usize = 1024 * 1024;
/// Most telemetry per job, in bytes.
pub const STREAM_BYTES_MAX: u64 = 16 * 1024 * 1024;
/// Longest short output of git, in bytes.
pub const GIT_ANSWER_BYTES_MAX: usize = 64 * 1024;
/// Longest listing from git, in bytes: about a million paths.
pub const GIT_LISTING_BYTES_MAX: usize = 256 * 1024 * 1024;
/// Most uncommitted work saved from one worktree, in bytes.
pub const KEPT_WORK_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// Most concurrent calls of git.
pub const GIT_CALLS_MAX: usize = 12;
/// Most commits of a Source's history per response.
pub const HISTORY_ENTRIES_MAX: usize = 1_000;
/// Timeout for reading a Source's history from git, in milliseconds.
pub const HISTORY_MS_MAX: u64 = 10_000;
/// Longest search query, in bytes.
pub const SEARCH_BYTES_MAX: usize = 400;
/// Most words and phrases per search.
pub const SEARCH_WORDS_MAX: usize = 16;
/// Timeout for a search, in milliseconds of database time.
pub const SEARCH_MS_MAX: u64 = 1_000;
/// Most concurrent searches; others wait.
pub const SEARCHES_MAX: usize = 3;
/// Most results of each type that a search ranks: the newest.
pub const SEARCH_RANKED_MAX: u32 = 1_000;
/// Most results of each type for words too common to rank: the newest.
pub const SEARCH_COMMON_MAX: u32 = 400;
/// Longest unified diff in a response, in bytes.
pub const DIFF_BYTES_MAX: usize = 1024 * 1024;
/// Most headings per Source.
pub const HEADINGS_MAX: usize = 10_000;
/// Most texts stored per Source because Topics refer to them and no commit contains them.
pub const SOURCE_TEXTS_MAX: i64 = 100;
/// Total size of these texts, in bytes.
pub const SOURCE_TEXTS_BYTES_MAX: i64 = 64 * 1024 * 1024;
/// Most Sources with uncommitted changes that are examined.
pub const DIRTY_SOURCES_MAX: usize = 20_000;
/// Most folders of Sources watched through the kernel.
pub const WATCHED_FOLDERS_MAX: usize = 4_096;
/// Most changed Sources that are reported one by one.
pub const CHANGES_TOLD_MAX: usize = 200;
/// Longest response that a command reads, in bytes.
pub const ANSWER_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Longest event that a command reads, in bytes.
pub const EVENT_BYTES_MAX: usize = 1024 * 1024;
/// Largest anchor file read by `wb-agent`, in bytes.
pub const ANCHORS_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Largest payload of an approval, edited or not, in bytes of JSON.
pub const APPROVAL_PAYLOAD_BYTES_MAX: usize = 256 * 1024;
/// Largest schema of an approval, in bytes of JSON.
pub const APPROVAL_SCHEMA_BYTES_MAX: usize = 16 * 1024;
/// Longest title of an approval, in characters.
pub const APPROVAL_TITLE_CHARS_MAX: usize = 200;
/// Most pending approvals of one requester.
pub const APPROVALS_PENDING_MAX: i64 = 100;
/// Largest body that requests or decides an approval, in bytes: characters may be escaped.
pub const APPROVAL_BODY_BYTES_MAX: usize = 6 * APPROVAL_PAYLOAD_BYTES_MAX + 64 * 1024;
/// Longest wait for a decision per request, in milliseconds.
pub const APPROVAL_WAIT_MS_MAX: u64 = 55_000;
/// Longest payload of a message, and longest reply, in bytes of JSON.
pub const MAIL_PAYLOAD_BYTES_MAX: usize = 256 * 1024;
/// Longest category of a message, in characters.
pub const MAIL_CATEGORY_CHARS_MAX: usize = 80;
/// Most messages that one job sends within a minute.
pub const MAIL_SENDS_MAX: u32 = 60;
/// Most of them that an agent sends to one other agent.
pub const MAIL_PAIR_MAX: u32 = 10;
/// Most messages that wait for one agent.
pub const MAIL_QUEUE_MAX: u64 = 1_000;
/// How long a message waits for an agent, in milliseconds.
pub const MAIL_WAIT_MS_MAX: i64 = 7 * 24 * 3_600_000;

/// One row of docs/limits.md.
#[derive(Clone, Copy, Debug)]
pub struct Limit {
    /// The name of the constant.
    pub name: &'static str,
    /// Its value.
    pub value: u64,
    /// The unit: `bytes`, `characters`, `ms`, or the things counted.
    pub unit: &'static str,
    /// The `code` of the error beyond the limit, or the effect in parentheses.
    pub code: &'static str,
    /// What it limits.
    pub what: &'static str,
}

macro_rules! limits {
    ($($name:ident $unit:literal $code:literal $what:literal;)*) => {
        /// All limits of the program. A test compares docs/limits.md with this table.
        pub const LIMITS: &[Limit] = &[$(Limit {
            name: stringify!($name), value: $name as u64, unit: $unit, code: $code, what: $what,
        },)*];
    };
}

limits! {
    HEADER_LINE_BYTES_MAX "bytes" "header_too_long" "one request header";
    HEADERS_MAX "headers" "too_many_headers" "request headers";
    HEAD_BYTES_MAX "bytes" "head_too_long" "the request head";
    PATH_BYTES_MAX "bytes" "path_too_long" "the path of a request, as sent";
    QUERY_BYTES_MAX "bytes" "query_too_long" "the query of a request, as sent";
    QUERY_PARAMETERS_MAX "parameters" "too_many_parameters" "parameters of a query";
    HEAD_READ_MS_MAX "ms" "(closed)" "time to receive a head, and between two requests";
    BODY_PAUSE_MS_MAX "ms" "body_timeout" "a pause while sending a body";
    BODY_TIME_MS_MAX "ms" "body_timeout" "time to receive a body";
    NO_BODY_BYTES_MAX "bytes" "too_large" "a body where none is expected";
    LOGIN_BODY_BYTES_MAX "bytes" "too_large" "the body of a login, and of small forms";
    MESSAGE_BODY_BYTES_MAX "bytes" "too_large" "a body with a message or a reason";
    DECISION_BODY_BYTES_MAX "bytes" "too_large" "a body with a decision";
    PROPOSAL_BODY_BYTES_MAX "bytes" "too_large" "a body with a proposal";
    JOB_BODY_BYTES_MAX "bytes" "too_large" "a body that requests a job";
    RESULT_BODY_BYTES_MAX "bytes" "too_large" "a body with a result";
    RESTORE_BODY_BYTES_MAX "bytes" "too_large" "a body that requests a restore";
    CHANNEL_ATTACHMENT_BYTES_MAX "bytes" "too_large" "a file attached to a channel's message";
    CHANNEL_ATTACHMENTS_MAX "files" "bad_attachments" "the files attached to a channel's message";
    CHANNEL_UPLOADS_BYTES_MAX "bytes" "too_many_uploads" "uploads of an agent or outsider in a day";
    BODIES_BYTES_MAX "bytes" "bodies_full" "all bodies being processed";
    AGENT_BODIES_BYTES_MAX "bytes" "bodies_full" "all bodies from agents being processed";
    ANSWERS_BYTES_MAX "bytes" "answers_full" "all large responses being sent";
    WRITE_STALL_MS_MAX "ms" "(closed)" "time in which a client reads less than 64 KiB";
    TCP_CONNECTIONS_MAX "connections" "too_many_connections" "connections over TCP";
    SOCKET_CONNECTIONS_MAX "connections" "too_many_connections" "connections from commands";
    AGENT_CONNECTIONS_MAX "connections" "too_many_connections" "connections from agents";
    STREAMS_MAX "streams" "too_many_streams" "event streams";
    CREDENTIAL_STREAMS_MAX "streams" "too_many_streams" "event streams per token or session";
    JOB_STREAMS_MAX "streams" "too_many_streams" "event streams per job";
    REPLAY_EVENTS_MAX "events" "(reset)" "events that a stream replays";
    STREAM_CHECK_MS_MAX "ms" "(ends)" "time that a stream outlives its credential";
    CREDENTIAL_BYTES_MAX "bytes" "unauthenticated" "a token, cookie or login code";
    SESSIONS_MAX "sessions" "(oldest ends)" "sessions per person";
    LOGIN_CODES_MAX "codes" "(oldest ends)" "active login links";
    WRONG_CODES_MAX "codes" "too_many_attempts" "wrong login codes within a minute";
    TOKENS_MAX "tokens" "too_many_tokens" "tokens per person";
    NAME_BYTES_MAX "bytes" "bad_name" "the name of a person or a token";
    KEY_BYTES_MAX "bytes" "bad_idempotency_key" "an Idempotency-Key";
    KEYS_KEPT_MAX "answers" "(oldest forgotten)" "responses stored for an Idempotency-Key";
    SOURCE_PATH_BYTES_MAX "bytes" "bad_path" "the path of a Source";
    SOURCE_BYTES_MAX "bytes" "too_large" "a Source or a proposed text";
    RENDERED_TEXT_BYTES_MAX "bytes" "(lines)" "a Markdown text shown rendered";
    RENDERED_KEPT_BYTES_MAX "bytes" "(oldest dropped)" "cached rendered texts";
    IMAGE_BYTES_MAX "bytes" "too_large" "an image from the repository";
    TITLE_BYTES_MAX "bytes" "too_large" "the title of a Topic";
    MESSAGE_BYTES_MAX "bytes" "too_large" "a message";
    JOB_MESSAGES_MAX "messages" "too_many_messages" "messages per job in a Topic";
    TOPIC_MESSAGES_MAX "messages" "too_many_messages" "messages per Topic";
    TOPIC_BYTES_MAX "bytes" "topic_full" "all messages of a Topic";
    OPEN_TOPICS_MAX "topics" "too_many_topics" "open Topics per Source";
    QUOTE_BYTES_MAX "bytes" "selection_too_long" "the passage of a Topic";
    GIVEN_CONTEXT_BYTES_MAX "bytes" "selection_too_long" "the context given around a quote";
    ANCHORS_MAX "anchors" "too_many_anchors" "anchors per proposal";
    JOB_TOPICS_MAX "topics" "bad_input" "Topics that one job settles";
    OPENED_TOPICS_MAX "topics" "too_many_topics" "Topics that one job opens";
    WEBHOOK_BODY_BYTES_MAX "bytes" "too_large" "the body of a webhook request";
    JOB_PROPOSALS_MAX "proposals" "too_many_proposals" "proposals per job";
    TOPIC_PROPOSALS_MAX "proposals" "too_many_proposals" "proposals per Topic";
    SUMMARY_BYTES_MAX "bytes" "too_large" "a summary or a reason";
    SUBJECT_CHARS_MAX "characters" "bad_message" "the subject of a commit";
    COMMIT_BODY_BYTES_MAX "bytes" "bad_message" "the body of a commit";
    APPROVAL_BODY_BYTES_MAX "bytes" "too_large" "a body that requests or decides an approval";
    APPROVAL_PAYLOAD_BYTES_MAX "bytes" "too_large" "the payload of an approval";
    APPROVAL_SCHEMA_BYTES_MAX "bytes" "too_large" "the schema of an approval";
    APPROVAL_TITLE_CHARS_MAX "characters" "bad_title" "the title of an approval";
    APPROVALS_PENDING_MAX "approvals" "too_many_approvals" "pending approvals per requester";
    APPROVAL_WAIT_MS_MAX "ms" "(pending)" "a wait for a decision in one request";
    PERSONA_NAME_BYTES_MAX "bytes" "bad_input" "the name of a persona";
    PERSONA_BYTES_MAX "bytes" "too_large" "the file of a persona";
    PERSONA_FRONT_BYTES_MAX "bytes" "bad_persona" "the front matter of a persona";
    PERSONA_ABOUT_BYTES_MAX "bytes" "bad_persona" "the description of a persona";
    PERSONA_PATHS_MAX "globs" "bad_persona" "globs per persona";
    PERSONAS_MAX "files" "too_many_personas" "files in the folder of personas";
    PERSPECTIVES_KEPT "views" "(oldest dropped)" "views per persona and Source";
    LINE_BYTES_MAX "bytes" "bad_input" "an input of one line";
    TEXT_INPUT_BYTES_MAX "bytes" "bad_input" "an input of text";
    PROMPT_BYTES_MAX "bytes" "prompt_failed" "a prompt";
    ARGUMENT_BYTES_MAX "bytes" "prompt_failed" "an argument of an agent";
    LANE_QUEUED_MAX "jobs" "queue_full" "waiting jobs per lane";
    KIND_QUEUED_MAX "jobs" "queue_full" "waiting jobs per kind";
    PERSON_QUEUED_MAX "jobs" "queue_full" "waiting jobs per person";
    QUEUED_MAX "jobs" "queue_full" "waiting jobs in total";
    PRIORITY_MAX "" "invalid" "the priority of a job, positive or negative";
    RESULT_BYTES_MAX "bytes" "too_large" "the result of a job";
    ERROR_TAIL_BYTES_MAX "bytes" "(cut)" "the end of stderr in a job's row";
    OUTPUT_HEAD_BYTES_MAX "bytes" "(cut)" "the stored beginning of an output";
    OUTPUT_TAIL_BYTES_MAX "bytes" "(cut)" "the stored end of an output";
    STREAM_LINE_BYTES_MAX "bytes" "(skipped)" "a line of an agent's stream";
    STREAM_BYTES_MAX "bytes" "(cut)" "the telemetry of a job";
    PAGE_ROWS_MAX "rows" "bad_parameter" "rows per page of a list";
    LOG_BYTES_MAX "bytes" "(pages)" "a log in one response";
    STREAM_ENTRIES_MAX "entries" "(pages)" "a job's stream in one response";
    HISTORY_ENTRIES_MAX "commits" "(cut)" "a Source's history in one response";
    HISTORY_MS_MAX "ms" "command_timeout" "time for git to read a Source's history";
    SEARCH_BYTES_MAX "bytes" "too_large" "the text of a search";
    SEARCH_WORDS_MAX "words" "too_many_words" "words and phrases of a search";
    SEARCH_MS_MAX "ms" "search_timeout" "database time per search";
    SEARCHES_MAX "searches" "(wait)" "concurrent searches";
    SEARCH_RANKED_MAX "results" "(cut)" "ranked results per type";
    SEARCH_COMMON_MAX "results" "(cut)" "results per type for very common words";
    DIFF_BYTES_MAX "bytes" "(cut)" "a diff in a response";
    HEADINGS_MAX "headings" "(cut)" "headings of a Source";
    SOURCE_TEXTS_MAX "texts" "too_many_texts" "uncommitted versions of a Source with Topics";
    SOURCE_TEXTS_BYTES_MAX "bytes" "too_many_texts" "all of these per Source";
    DIRTY_SOURCES_MAX "Sources" "(skipped)" "Sources with uncommitted changes that are checked";
    WATCHED_FOLDERS_MAX "folders" "(polled)" "watched folders of Sources";
    CHANGES_TOLD_MAX "events" "(one event)" "Sources that change at once with one event each";
    GIT_ANSWER_BYTES_MAX "bytes" "git_failed" "a short output of git";
    GIT_LISTING_BYTES_MAX "bytes" "git_failed" "a listing from git";
    KEPT_WORK_BYTES_MAX "bytes" "not_kept" "saved work per worktree";
    GIT_CALLS_MAX "calls" "(wait)" "concurrent git processes";
    SCRIPT_FILES_MAX "files" "(the script is refused)" "files of the script";
    SCRIPT_FILE_BYTES_MAX "bytes" "(the script is refused)" "a file of the script";
    SCRIPT_MEMORY_BYTES_MAX "bytes" "(the call fails)" "memory of the script";
    SCRIPT_DECLARED_MAX "declarations" "(the script is refused)" "declarations in the script";
    SCRIPT_ENQUEUES_MAX "jobs" "(the call fails)" "jobs enqueued by one call of the script";
    SCRIPT_DEPTH_MAX "jobs" "script_depth" "jobs of the script in a chain";
    SCRIPT_RETRIES_MAX "jobs" "(no more)" "retries of a job by `retry`";
    SCRIPT_TEXT_BYTES_MAX "bytes" "(the script is refused)" "a file that `wb.file` reads";
    SCRIPT_LOG_LINES_MAX "lines" "(skipped)" "lines logged per call of the script";
    SCRIPT_LOG_CHARS_MAX "characters" "(cut)" "a line logged by the script";
    INBOX_FILES_MAX "files" "(the script is refused)" "schemas, hooks and templates of inboxes";
    INBOX_CONCURRENCY_MAX "jobs" "(the script is refused)" "concurrent instances of an inbox";
    LIVE_AGENTS_MAX "jobs" "(the script is refused)" "concurrent long-running agents";
    SCHEMA_BYTES_MAX "bytes" "(the script is refused)" "a JSON schema of an inbox";
    HOOK_BYTES_MAX "bytes" "(the script is refused)" "the text of a hook";
    HOOK_MS_MAX "ms" "(the script is refused)" "time for a hook";
    TEMPLATE_BYTES_MAX "bytes" "(the script is refused)" "the file of a template";
    TEMPLATE_TOPICS_MAX "inboxes" "(the script is refused)" "inboxes per template";
    TEMPLATES_MAX "files" "(the script is refused)" "templates next to the script";
    SKILL_BYTES_MAX "bytes" "(the script is refused)" "the file of a skill";
    MAIL_PAYLOAD_BYTES_MAX "bytes" "too_large" "the payload of a message, and a reply";
    MAIL_CATEGORY_CHARS_MAX "characters" "bad_parameter" "the category of a message";
    MAIL_SENDS_MAX "messages" "too_many_messages" "messages of one job within a minute";
    MAIL_PAIR_MAX "messages" "too_many_messages" "messages of an agent to another within a minute";
    MAIL_QUEUE_MAX "messages" "queue_full" "messages that wait for one agent";
    MAIL_WAIT_MS_MAX "ms" "expired" "time that a message waits for an agent";
    ANSWER_BYTES_MAX "bytes" "too_large" "a response that a command reads";
    EVENT_BYTES_MAX "bytes" "too_large" "an event that a command reads";
    ANCHORS_BYTES_MAX "bytes" "too_large" "an anchor file";
}

#[cfg(test)]
mod tests;
