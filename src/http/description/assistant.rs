//! The assistant.

use crate::api::Done;
use crate::api::chat::{
    Answered, AskQuery, AskRequest, AttachmentQuery, AttachmentView, CallView, ClearRequest,
    EventsQuery, ExecuteRequest, Executed, History, HistoryQuery, RunView, SessionPage,
    SessionRemoved, SessionRequest, SessionView, SessionsQuery, StopRequest, Stopped, ToolList,
};
use crate::api::chat_settings::{
    ActionPage, ClaudeLogin, ConfigRequest, ConfigView, GatewayAnswer, GatewayLogin, HealthView,
    LinkedinAnswer, LinkedinLogin, LinkedinView, ScratchCleared, ScratchQuery, ScratchView,
    SignedOut, TextRequest, VaultFileQuery, VaultText,
};
use crate::http::description::operation::{Operation, delete, get, post};

/// One JSON line per event of an answer.
const LINES: &str = "application/x-ndjson";

pub(super) fn all() -> Vec<Operation> {
    let mut all = of_runs();
    all.extend(of_claude());
    all.extend(of_sessions());
    all.extend(of_settings());
    all
}

fn of_runs() -> Vec<Operation> {
    vec![
        post("/api/agent/chat-stream", "Asks, and streams the answer")
            .asks::<AskQuery>()
            .takes::<AskRequest>()
            .once()
            .other(LINES),
        post("/api/agent/chat", "Asks, and waits for the answer")
            .takes::<AskRequest>()
            .once()
            .answers::<Answered>()
            .answers_with::<Answered>(202),
        post("/api/agent/actions/{id}/run", "Runs an action, and streams the answer")
            .takes::<AskRequest>()
            .once()
            .other(LINES),
        get("/api/agent/runs/{id}", "Shows a run").answers::<RunView>(),
        get("/api/agent/runs/{id}/events", "Streams the answer of a run")
            .asks::<EventsQuery>()
            .other(LINES),
        post("/api/agent/stop", "Stops a run").takes::<StopRequest>().answers::<Stopped>(),
        get("/api/agent/tools", "Lists the tools of a run").answers::<ToolList>(),
        post("/api/agent/tools/execute", "Calls a tool")
            .takes::<ExecuteRequest>()
            .answers::<Executed>(),
        get("/api/agent/calls/{id}", "Shows a call").answers::<CallView>(),
        post("/api/agent/calls/{id}/undo", "Undoes a tool call").answers::<CallView>(),
        post("/api/agent/calls/{id}/do", "Makes a call whose question expired")
            .answers::<CallView>(),
    ]
}

fn of_claude() -> Vec<Operation> {
    vec![
        post("/api/claude/chat-stream", "Asks, and streams the answer with other names")
            .takes::<AskRequest>()
            .once()
            .other(LINES),
        post("/api/claude/chat", "Asks, and waits for the answer")
            .takes::<AskRequest>()
            .once()
            .answers::<Answered>()
            .answers_with::<Answered>(202),
        post("/api/claude/clear", "Empties a conversation")
            .takes::<ClearRequest>()
            .answers::<Done>(),
        get("/api/claude/history", "Shows the messages of a conversation")
            .asks::<HistoryQuery>()
            .answers::<History>(),
    ]
}

fn of_sessions() -> Vec<Operation> {
    vec![
        post("/api/agent/session/clear", "Empties a conversation")
            .takes::<ClearRequest>()
            .answers::<Done>(),
        get("/api/agent/session/history", "Shows the messages of a conversation")
            .asks::<HistoryQuery>()
            .answers::<History>(),
        get("/api/agent/sessions", "Lists conversations")
            .asks::<SessionsQuery>()
            .answers::<SessionPage>(),
        get("/api/agent/sessions/{id}", "Shows a conversation").answers::<SessionView>(),
        post("/api/agent/sessions/{id}", "Changes a conversation")
            .takes::<SessionRequest>()
            .answers::<SessionView>(),
        delete("/api/agent/sessions/{id}", "Removes a conversation").answers::<SessionRemoved>(),
    ]
}

fn of_settings() -> Vec<Operation> {
    vec![
        post("/api/agent/attachments", "Uploads a file that goes with a question")
            .asks::<AttachmentQuery>()
            .takes_file()
            .answers_with::<AttachmentView>(201),
        get("/api/agent/vault/file", "Reads a text or an image of your vault")
            .asks::<VaultFileQuery>()
            .other("text/plain"),
        get("/api/agent/vault/text", "Reads a text that instructs the assistant")
            .asks::<VaultFileQuery>()
            .answers::<VaultText>(),
        post("/api/agent/vault/text", "Changes a text that instructs the assistant")
            .takes::<TextRequest>()
            .answers::<VaultText>(),
        get("/api/agent/scratch", "Lists old files in agent/scratch").answers::<ScratchView>(),
        delete("/api/agent/scratch", "Deletes old files in agent/scratch")
            .asks::<ScratchQuery>()
            .answers::<ScratchCleared>(),
        get("/api/agent/config", "Shows the assistant's settings").answers::<ConfigView>(),
        post("/api/agent/config", "Changes the assistant's settings")
            .takes::<ConfigRequest>()
            .answers::<ConfigView>(),
        get("/api/agent/actions", "Lists the assistant's actions").answers::<ActionPage>(),
        get("/api/agent/health", "Shows whether your assistant can work").answers::<HealthView>(),
        post("/api/agent/claude/login", "Signs in to Claude")
            .takes::<ClaudeLogin>()
            .answers::<Done>(),
        delete("/api/agent/claude/login", "Signs out of Claude").answers::<SignedOut>(),
        post("/api/agent/gateway/login", "Begins to sign in with a subscription")
            .answers::<GatewayLogin>(),
        get("/api/agent/gateway/login/{id}", "Shows a sign-in").answers::<GatewayLogin>(),
        post("/api/agent/gateway/login/{id}", "Gives a sign-in what its provider said")
            .takes::<GatewayAnswer>()
            .answers::<GatewayLogin>(),
        delete("/api/agent/gateway/login", "Signs out of the subscription").answers::<SignedOut>(),
        post("/api/linkedin/connect", "Begins to connect LinkedIn").answers::<LinkedinLogin>(),
        post("/api/linkedin/finish", "Connects LinkedIn")
            .takes::<LinkedinAnswer>()
            .answers::<LinkedinView>(),
        get("/api/linkedin/health", "Shows your LinkedIn account").answers::<LinkedinView>(),
        delete("/api/linkedin", "Disconnects LinkedIn").answers::<SignedOut>(),
    ]
}
