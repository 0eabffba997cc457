//! What each verb of `wb-agent` reads and prints, and how a prompt shows it.

/// Returns the standard input and output of a verb.
pub(super) fn streams(verb: &str) -> Option<(Option<&'static str>, &'static str)> {
    Some(match verb {
        "get-topic" => (None, "one JSON object {topic, anchor, messages, proposals, rework}"),
        "get-proposal" => {
            (None, "one JSON object {proposal, text, diff, comment, conflict}, or the text")
        }
        "list-open-topics" => (None, "a JSON array of {topic, anchor, placement}"),
        "list-sources" => (None, "a JSON array of {path, blob, state, tracked, open_topics}"),
        "list-topics" => (None, "a JSON array of topics, at most the newest 1,000"),
        "open-topic" => {
            (Some("the message, UTF-8, not empty, at most 64 KiB"), "the id of the topic")
        }
        "insert-proposal" => (
            Some("the whole new text, UTF-8, not empty, at most 8 MiB"),
            "the id of the proposal; how it affects each other open topic goes to standard error",
        ),
        "post-message" => {
            (Some("the message, UTF-8, not empty, at most 64 KiB"), "the id of the message")
        }
        "finish" => (None, "nothing"),
        "complete" | "fail" => (None, "nothing"),
        "inbox" => (None, "a JSON array of {seq, id, sort, from, payload, …}, oldest first"),
        "peek" => (None, "the last lines of its agent's output"),
        "send" => (None, "the id of the message"),
        "channel" => (None, "depends on the verb"),
        "channel show" => (None, "one JSON object: the channel with its members"),
        "channel members" => (None, "a JSON array of {handle, sort, agent, state, …}"),
        "channel history" => {
            (None, "a JSON array of {sequence, author, type, text, …}, oldest first")
        }
        "channel attachment" => (None, "the text of the file; nothing with --out"),
        "channel create" | "channel add" | "channel leave" | "channel mute" | "channel unmute"
        | "channel remove" | "channel intent" | "channel complete" => {
            (None, "the channel and its state, such as workshop-plan-1 active")
        }
        "channel post" => (Some("the message, UTF-8, at most 50,000 characters"), "its number"),
        "handoff" => (None, "depends on the verb"),
        "handoff write" => (Some("the handoff, UTF-8, not empty, at most 256 KiB"), "its file"),
        "handoff read" => (None, "the handoff, in Markdown"),
        "get-persona" => (None, "one JSON object {name, about, paths, sha, body}"),
        "put-perspective" => (Some("the view, UTF-8, not empty, at most 8 MiB"), "nothing"),
        "apply-suggestions" => (None, "the id of the proposal"),
        "approval" => (None, "depends on the verb"),
        "approval create" => (None, "the id of the approval"),
        "approval get" => (None, "one JSON object: the approval with payload, changes and events"),
        "approval list" => (None, "a JSON array of approvals without their payloads"),
        "approval withdraw" => (None, "nothing"),
        "approval await" => (None, "one JSON object {state, payload, note}"),
        "mcp" => (Some("JSON-RPC 2.0, one message per line"), "the same"),
        "help" => (None, "the help, or a JSON object {name, version, verbs}"),
        _ => return None,
    })
}

/// Returns the arguments of a verb as a prompt shows them; nothing for one without any.
pub(super) fn typed(verb: &str) -> &'static str {
    match verb {
        "get-topic" | "get-proposal" => "--id ID",
        "list-open-topics" => "--source-path PATH",
        "list-topics" => "--status STATE",
        "open-topic" => "--source-path PATH --quote FILE < MESSAGE",
        "insert-proposal" => "--topic-id ID --base-sha SHA --summary TEXT < NEW",
        "post-message" => "--topic-id ID < MESSAGE",
        "finish" => "--result FILE --summary TEXT",
        "get-persona" => "--source-path PATH --name NAME",
        "put-perspective" => {
            "--source-path PATH --persona NAME --source-sha SHA --persona-sha SHA < TEXT"
        }
        "complete" => "--reply JSON",
        "fail" => "--reason TEXT",
        "inbox" => "--wait 55s",
        "peek" => "--worker ID",
        "send" => "ADDRESS --payload JSON",
        "approval create" => "--channel WORD --title TEXT --payload JSON",
        "approval get" | "approval withdraw" => "ID",
        "approval await" => "ID --timeout 90s",
        "channel history" => "--limit 20",
        "channel attachment" => "7",
        "channel create" | "channel add" => "NAME",
        "channel remove" => "HANDLE",
        "channel intent" => "TEXT",
        "channel post" => "--to HANDLE < MESSAGE",
        "handoff write" => "--summary SLUG < TEXT",
        "handoff read" => "FILE",
        "help" => "VERB",
        _ => "",
    }
}
