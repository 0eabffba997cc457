//! One line of the stream of an answer.

use serde_json::{Value, json};

use crate::base::{ApprovalId, CallId, ChatId, ChatMessageId, JobId, Millis, truncate_chars};

/// The file with the items, in the run's folder.
pub const STREAM_FILE: &str = "chat.ndjson";
/// Most bytes of arguments or a preview in an item; the call has the whole.
const SHOWN_BYTES_MAX: usize = 8 * 1024;
/// Most characters per argument, in an item whose arguments are too large.
const SHOWN_CHARS_MAX: usize = 200;

/// One line of the stream of an answer.
#[derive(Clone, Debug, PartialEq)]
pub enum Item {
    /// The beginning: always first, and once.
    Start {
        /// The conversation.
        session_id: ChatId,
        /// The mode that answers.
        mode: String,
        /// The model, if it is known.
        model: Option<String>,
    },
    /// More text of a step.
    Text {
        /// The step, from 1.
        step: u32,
        /// The added text.
        delta: String,
    },
    /// A notice for readers.
    Status {
        /// A stable word; an error code if the run will end with it.
        code: String,
        /// A message for people.
        message: String,
    },
    /// Tokens and cost of the run so far.
    Usage {
        /// Tokens read, without those from a cache.
        input: u64,
        /// Tokens written.
        output: u64,
        /// Tokens read from a cache.
        cache_read: u64,
        /// Tokens written to a cache.
        cache_write: u64,
        /// US dollars, if known.
        cost_usd: Option<f64>,
    },
    /// A tool call begins.
    ToolCall {
        /// The call.
        id: CallId,
        /// The step that asked for it.
        step: u32,
        /// The tool.
        tool: String,
        /// The arguments.
        args: Value,
    },
    /// A call awaits confirmation.
    ConfirmRequired {
        /// The call.
        id: CallId,
        /// The tool.
        tool: String,
        /// The approval.
        approval_id: ApprovalId,
        /// The reason.
        reason: String,
        /// The proposed change.
        preview: String,
        /// When the confirmation expires.
        expires_at: Millis,
    },
    /// A call has finished.
    ToolResult {
        /// The call.
        id: CallId,
        /// The tool.
        tool: String,
        /// Its final state.
        state: &'static str,
        /// Whether it succeeded.
        ok: bool,
        /// The result, in one line.
        summary: String,
        /// Its duration in milliseconds.
        ms: i64,
    },
    /// The text of a step is withdrawn: the model starts it over.
    Reset {
        /// The step.
        step: u32,
        /// The first withdrawn item.
        from_seq: u64,
    },
    /// The run failed; `done` follows.
    Error {
        /// A stable word.
        code: String,
        /// The message.
        message: String,
        /// What to do.
        hint: String,
    },
    /// The end: always last, and once.
    Done {
        /// The conversation.
        session_id: ChatId,
        /// The answer as a message, if there is one.
        message_id: Option<ChatMessageId>,
        /// How the run ended.
        reason: String,
        /// The path of its record, if any.
        artefact: Option<String>,
    },
}

impl Item {
    /// Returns the name of its type.
    pub fn word(&self) -> &'static str {
        match self {
            Item::Start { .. } => "start",
            Item::Text { .. } => "text",
            Item::Status { .. } => "status",
            Item::Usage { .. } => "usage",
            Item::ToolCall { .. } => "tool_call",
            Item::ConfirmRequired { .. } => "confirm_required",
            Item::ToolResult { .. } => "tool_result",
            Item::Reset { .. } => "reset",
            Item::Error { .. } => "error",
            Item::Done { .. } => "done",
        }
    }

    /// Returns the item as a line with its line break.
    pub fn line(&self, seq: u64, at: Millis, run: &JobId) -> String {
        let mut line = json!({"type": self.word(), "seq": seq, "ts": at, "run_id": run});
        if let (Some(line), Value::Object(fields)) = (line.as_object_mut(), self.fields()) {
            line.extend(fields);
        }
        let mut line = line.to_string();
        line.push('\n');
        line
    }

    fn fields(&self) -> Value {
        match self {
            Item::Start { session_id, mode, model } => {
                json!({"session_id": session_id, "mode": mode, "model": model})
            }
            Item::Text { step, delta } => json!({"step": step, "delta": delta}),
            Item::Status { code, message } => json!({"code": code, "message": message}),
            Item::Usage { input, output, cache_read, cache_write, cost_usd } => json!({
                "input": input, "output": output, "cache_read": cache_read,
                "cache_write": cache_write, "cost_usd": cost_usd,
            }),
            Item::ToolCall { id, step, tool, args } => {
                let (args, cut) = shown(args);
                json!({"id": id, "step": step, "tool": tool, "args": args, "cut": cut})
            }
            Item::ConfirmRequired { id, tool, approval_id, reason, preview, expires_at } => {
                let cut = preview.len() > SHOWN_BYTES_MAX;
                let end = preview.floor_char_boundary(SHOWN_BYTES_MAX);
                json!({
                    "id": id, "tool": tool, "approval_id": approval_id, "reason": reason,
                    "preview": &preview[..end], "cut": cut, "expires_at": expires_at,
                })
            }
            Item::ToolResult { id, tool, state, ok, summary, ms } => json!({
                "id": id, "tool": tool, "state": state, "ok": ok, "summary": summary, "ms": ms,
            }),
            Item::Reset { step, from_seq } => json!({"step": step, "from_seq": from_seq}),
            Item::Error { code, message, hint } => {
                json!({"code": code, "message": message, "hint": hint})
            }
            Item::Done { session_id, message_id, reason, artefact } => {
                let mut fields =
                    json!({"session_id": session_id, "message_id": message_id, "reason": reason});
                if let Some(path) = artefact {
                    fields["artefact"] = json!(path);
                }
                fields
            }
        }
    }
}

/// Returns arguments shortened for an item, and whether anything was cut.
fn shown(args: &Value) -> (Value, bool) {
    if args.to_string().len() <= SHOWN_BYTES_MAX {
        return (args.clone(), false);
    }
    let Some(fields) = args.as_object() else { return (Value::Null, true) };
    let short = |value: &Value| match value.as_str() {
        Some(text) => Value::from(truncate_chars(text, SHOWN_CHARS_MAX)),
        None if value.is_object() || value.is_array() => Value::Null,
        None => value.clone(),
    };
    let fields = fields.iter().take(20);
    (fields.map(|(name, value)| (truncate_chars(name, 80), short(value))).collect(), true)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Clients depend on the names and their order.
    #[test]
    fn a_line_begins_with_its_type_and_number() {
        let run: JobId = "018bcfe5-6800-7000-8000-000000000001".parse().unwrap();
        let item = Item::Text { step: 1, delta: "a \"b\"\n".to_owned() };
        assert_eq!(
            item.line(2, Millis(0), &run),
            "{\"type\":\"text\",\"seq\":2,\"ts\":\"1970-01-01T00:00:00.000Z\",\
             \"run_id\":\"018bcfe5-6800-7000-8000-000000000001\",\"step\":1,\
             \"delta\":\"a \\\"b\\\"\\n\"}\n"
        );
    }
}
