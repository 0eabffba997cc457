//! Messages, long-running agents, handovers and channels.

use crate::api::agents::{AgentList, AgentView, Peek, PeekQuery, StartRequest};
use crate::api::agents::{TurnList, TurnView, TurnsQuery};
use crate::api::arrival::ArrivalRequest;
use crate::api::channel_export::{ChannelExport, ExportQuery};
use crate::api::channels::{
    AttachmentQuery, AttachmentView, ChairRequest, ChangeRequest, ChannelList, ChannelQuery,
    ChannelView, CreateRequest, HeldAnswer, HeldRequest, History, HistoryQuery, MemberRequest,
    PostRequest, Posted, ReadRequest, ResumeRequest, SeatRequest, Unread,
};
use crate::api::handoffs::{
    HandoffList, HandoffQuery, HandoffText, HandoverRequest, HandoverView, RehydrateRequest,
    Rehydrated, WriteHandoff,
};
use crate::api::instances::{InstanceDetail, InstanceQuery, InstanceView};
use crate::api::mail::{
    AwaitQuery, Awaited, InboxList, InboxView, MessagePage, MessageQuery, MessageRead, MessageView,
    PullQuery, Pulled, SendRequest, Sent,
};
use crate::api::promotion::{PromoteRequest, Promotion};
use crate::api::voice::{VoiceAnswer, VoiceRequest};
use crate::base::Page;
use crate::http::description::operation::{Operation, get, post};

pub(super) fn all() -> Vec<Operation> {
    let mut all = of_mail();
    all.extend(of_agents());
    all.extend(of_channels());
    all.extend(of_members());
    all
}

fn of_mail() -> Vec<Operation> {
    vec![
        post("/api/messages", "Sends a message")
            .takes::<SendRequest>()
            .once()
            .answers_with::<Sent>(202),
        get("/api/messages", "Lists messages").asks::<MessageQuery>().answers::<MessagePage>(),
        get("/api/messages/{id}", "Shows a message").answers::<MessageView>(),
        get("/api/messages/{id}/await", "Waits for an answer")
            .asks::<AwaitQuery>()
            .answers::<Awaited>(),
        post("/api/messages/{id}/read", "Marks a message as read").answers::<MessageRead>(),
        post("/api/messages/{id}/resend", "Resends a message").answers::<MessageView>(),
        post("/api/messages/{id}/settle", "Confirms a message").answers::<MessageView>(),
        get("/api/instances", "Lists instances, newest first")
            .asks::<InstanceQuery>()
            .answers::<Page<InstanceView>>(),
        get("/api/instances/{id}", "Shows an instance").answers::<InstanceDetail>(),
        get("/api/instances/{id}/peek", "Shows what the agent of an instance printed last")
            .asks::<PeekQuery>()
            .answers::<Peek>(),
        get("/api/inboxes", "Lists the inboxes").answers::<InboxList>(),
        get("/api/inboxes/{template}/{name}", "Shows an inbox").answers::<InboxView>(),
        post("/api/agent/inbox", "Pulls the messages of an instance")
            .takes::<PullQuery>()
            .answers::<Vec<Pulled>>(),
    ]
}

fn of_agents() -> Vec<Operation> {
    vec![
        get("/api/agents", "Lists the long-running agents").answers::<AgentList>(),
        get("/api/agents/{name}", "Shows an agent").answers::<AgentView>(),
        get("/api/agents/{name}/turns", "Lists the turns of an agent")
            .asks::<TurnsQuery>()
            .answers::<TurnList>(),
        get("/api/turns/{id}", "Shows a turn with its answer").answers::<TurnView>(),
        get("/api/agents/{name}/peek", "Shows the screen of an agent")
            .asks::<PeekQuery>()
            .answers::<Peek>(),
        post("/api/agents/{name}/start", "Starts an agent")
            .may_take::<StartRequest>()
            .answers::<AgentView>(),
        post("/api/agents/{name}/stop", "Stops an agent").answers::<AgentView>(),
        post("/api/agents/{name}/restart", "Restarts an agent").answers::<AgentView>(),
        post("/api/agents/{name}/interrupt", "Interrupts the turn of an agent")
            .answers::<AgentView>(),
        post("/api/agents/{name}/handover", "Asks an agent to hand over")
            .may_take::<HandoverRequest>()
            .answers_with::<HandoverView>(202),
        get(
            "/api/agents/{name}/promote",
            "Shows what a channel of a conversation would begin with",
        )
        .answers::<Promotion>(),
        post("/api/agents/{name}/promote", "Makes a channel of a conversation with an agent")
            .may_take::<PromoteRequest>()
            .once()
            .answers_with::<ChannelView>(201),
        post("/api/agents/{name}/rehydrate", "Has an agent read handoffs")
            .may_take::<RehydrateRequest>()
            .answers_with::<Rehydrated>(202),
        post("/api/handoffs", "Writes a handoff")
            .takes::<WriteHandoff>()
            .answers_with::<HandoffText>(201),
        get("/api/handoffs/{file}", "Reads a handoff").answers::<HandoffText>(),
        get("/api/personas/{name}/handoffs", "Lists the handoffs of a persona")
            .asks::<HandoffQuery>()
            .answers::<HandoffList>(),
    ]
}

fn of_channels() -> Vec<Operation> {
    vec![
        get("/api/channels", "Lists channels").asks::<ChannelQuery>().answers::<ChannelList>(),
        post("/api/channels", "Creates a channel")
            .takes::<CreateRequest>()
            .once()
            .answers_with::<ChannelView>(201),
        get("/api/channels/{slug}", "Shows a channel").answers::<ChannelView>(),
        post("/api/channels/{slug}/change", "Changes the goal of a channel")
            .takes::<ChangeRequest>()
            .answers::<ChannelView>(),
        post("/api/channels/{slug}/pause", "Pauses a channel").answers::<ChannelView>(),
        post("/api/channels/{slug}/resume", "Resumes a channel")
            .may_take::<ResumeRequest>()
            .answers::<ChannelView>(),
        post("/api/channels/{slug}/chair", "Sets the chair of a channel")
            .takes::<ChairRequest>()
            .answers::<ChannelView>(),
        post("/api/channels/{slug}/complete", "Completes a channel").answers::<ChannelView>(),
        post("/api/channels/{slug}/archive", "Archives a channel").answers::<ChannelView>(),
        get("/api/channels/{slug}/messages", "Shows the messages of a channel")
            .asks::<HistoryQuery>()
            .answers::<History>(),
        post("/api/channels/{slug}/messages", "Posts a message to a channel")
            .takes::<PostRequest>()
            .once()
            .answers_with::<Posted>(201),
        post("/api/channels/{slug}/messages/{sequence}/again", "Retries a turn")
            .answers::<ChannelView>(),
        post(
            "/api/channels/{slug}/messages/{sequence}/resend",
            "Resends what an agent may not have received",
        )
        .takes::<ArrivalRequest>()
        .answers::<ChannelView>(),
        post("/api/channels/{slug}/messages/{sequence}/settle", "Confirms that it arrived")
            .takes::<ArrivalRequest>()
            .answers::<ChannelView>(),
        get("/api/channels/{slug}/messages/{sequence}/held", "Shows an answer that is held")
            .answers::<HeldAnswer>(),
        post(
            "/api/channels/{slug}/messages/{sequence}/held",
            "Posts a held answer, or keeps it private",
        )
        .takes::<HeldRequest>()
        .answers::<ChannelView>(),
        post("/api/channels/{slug}/attachments", "Uploads a file for a message")
            .asks::<AttachmentQuery>()
            .takes_file()
            .answers_with::<AttachmentView>(201),
        get("/api/channels/{slug}/attachments/{number}", "Downloads an attached file").other("*/*"),
        post("/api/channels/{slug}/read", "Sets the read position")
            .takes::<ReadRequest>()
            .answers::<Unread>(),
        get("/api/channels/{slug}/export", "Exports a channel as Markdown or lines of JSON")
            .asks::<ExportQuery>()
            .answers::<ChannelExport>()
            .other("application/x-ndjson"),
        post("/api/voice/command", "Does what somebody said")
            .takes::<VoiceRequest>()
            .once()
            .answers::<VoiceAnswer>(),
    ]
}

fn of_members() -> Vec<Operation> {
    vec![
        post("/api/channels/{slug}/join", "Joins a channel").answers::<ChannelView>(),
        post("/api/channels/{slug}/leave", "Leaves a channel").answers::<ChannelView>(),
        post("/api/channels/{slug}/members", "Adds a member")
            .takes::<MemberRequest>()
            .answers::<ChannelView>(),
        post("/api/channels/{slug}/members/{handle}/remove", "Removes a member")
            .answers::<ChannelView>(),
        post("/api/channels/{slug}/members/{handle}/mute", "Mutes a member")
            .answers::<ChannelView>(),
        post("/api/channels/{slug}/members/{handle}/unmute", "Unmutes a member")
            .answers::<ChannelView>(),
        post("/api/channels/{slug}/members/{handle}/seat", "Assigns a seat to an agent")
            .may_take::<SeatRequest>()
            .answers::<ChannelView>(),
    ]
}
