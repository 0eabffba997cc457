//! Sources, Topics, proposals, perspectives and the search.

use schemars::JsonSchema;
use serde::Serialize;

use crate::api::perspectives::{Personas, Requested, ViewKept, ViewList, ViewText};
use crate::api::proposals::Proposal;
use crate::api::proposals::{AgentProposal, ReworkAccepted};
use crate::api::proposals::{Approved, Inserted, ProposalPage, Rejected};
use crate::api::sources::{History, SourceRow, SourceView};
use crate::api::topics::Discarded;
use crate::api::topics::{AgentOpenTopic, AgentTopic};
use crate::api::topics::{Message, Topic};
use crate::base::Page;
use crate::flows::perspectives::personas::PersonaQuery;
use crate::flows::perspectives::{ListQuery, PutRequest, ViewQuery, ViewRequest};
use crate::flows::proposals::approve::ApproveRequest;
use crate::flows::proposals::edit::EditRequest;
use crate::flows::proposals::rework::ReworkRequest;
use crate::flows::proposals::submit::ProposalRequest;
use crate::flows::proposals::suggestions::Suggested;
use crate::flows::proposals::{ProposalAgainst, ProposalQuery, RejectRequest};
use crate::flows::requests::without_topic::FoundRequest;
use crate::flows::search::{Hits, Progress, SearchQuery};
use crate::flows::sources::{HistoryQuery, SourceQuery};
use crate::flows::topics::reattach::ReattachRequest;
use crate::flows::topics::{MessageRequest, ReasonRequest, TopicPage, TopicQuery, TopicRequest};
use crate::http::description::operation::{Operation, get, post};
use crate::http::resources::{proposals, rendered, sources, topics};

/// Annotations in the W3C's format.
const ANNOTATIONS: &str = "application/ld+json";

/// The message, alone or with the job that applies its suggestion.
#[derive(Serialize, JsonSchema)]
#[serde(untagged)]
#[schemars(rename = "{T}Made")]
enum Made<T> {
    #[expect(dead_code, reason = "only its schema is used")]
    Alone(T),
    #[expect(dead_code, reason = "only its schema is used")]
    Suggested(Suggested<T>),
}

pub(super) fn all() -> Vec<Operation> {
    let mut all = of_sources();
    all.extend(of_topics());
    all.extend(of_proposals());
    all.extend(of_perspectives());
    all
}

fn of_sources() -> Vec<Operation> {
    vec![
        get("/api/sources", "Lists the Sources").asks::<SourceQuery>().answers::<Page<SourceRow>>(),
        get("/api/source", "Shows a Source").asks::<sources::ByPath>().answers::<SourceView>(),
        get("/api/source/history", "Lists the commits of a Source")
            .asks::<HistoryQuery>()
            .answers::<History>(),
        get("/api/source/rendered", "Shows a Source as HTML")
            .asks::<rendered::ByPath>()
            .answers::<rendered::RenderedSource<'static>>(),
        get("/api/source/passage", "Resolves a selection to bytes")
            .asks::<rendered::Selected>()
            .answers::<rendered::Passage>(),
        get("/api/source/annotations", "Exports the open Topics of a Source")
            .asks::<sources::ByPath>()
            .other(ANNOTATIONS),
        get("/api/search", "Searches").asks::<SearchQuery>().answers::<Hits>(),
        get("/api/search/index", "Shows the state of the search index").answers::<Progress>(),
    ]
}

fn of_topics() -> Vec<Operation> {
    vec![
        get("/api/topics", "Lists Topics, newest first")
            .asks::<TopicQuery>()
            .answers::<Page<Topic>>(),
        post("/api/topics", "Opens a Topic")
            .takes::<TopicRequest>()
            .once()
            .answers_with::<Made<Topic>>(201),
        get("/api/topics/{id}", "Shows a Topic").answers::<TopicPage>(),
        post("/api/topics/{id}/messages", "Posts a message")
            .takes::<MessageRequest>()
            .once()
            .answers_with::<Made<Message>>(201),
        get("/api/topics/{id}/annotation", "Exports a Topic").other(ANNOTATIONS),
        post("/api/topics/{id}/anchor", "Moves a Topic to another passage")
            .takes::<ReattachRequest>()
            .answers::<Topic>(),
        post("/api/topics/{id}/discard", "Closes a Topic without a change")
            .takes::<ReasonRequest>()
            .answers::<Discarded>(),
        post("/api/topics/{id}/reopen", "Reopens a Topic")
            .takes::<ReasonRequest>()
            .answers::<Topic>(),
        post("/api/topics/{id}/proposals", "Submits a proposal for a Topic")
            .takes::<ProposalRequest>()
            .once()
            .answers_with::<Inserted>(201),
        get("/api/agent/topic", "Shows an agent its Topic")
            .asks::<topics::ById>()
            .answers::<AgentTopic>(),
        get("/api/agent/open-topics", "Shows an agent the open Topics of a Source")
            .asks::<topics::BySource>()
            .answers::<Vec<AgentOpenTopic>>(),
    ]
}

fn of_proposals() -> Vec<Operation> {
    vec![
        get("/api/proposals", "Lists proposals, newest first")
            .asks::<ProposalQuery>()
            .answers::<Page<Proposal>>(),
        post("/api/proposals", "Submits a proposal without a Topic")
            .takes::<FoundRequest>()
            .once()
            .answers_with::<Inserted>(201),
        get("/api/proposals/{id}", "Shows a proposal")
            .asks::<ProposalAgainst>()
            .answers::<ProposalPage>(),
        get("/api/agent/proposal", "Shows an agent a proposal")
            .asks::<proposals::ById>()
            .answers::<AgentProposal>(),
        post("/api/proposals/{id}/approve", "Approves a proposal and commits it")
            .takes::<ApproveRequest>()
            .once()
            .answers::<Approved>(),
        post("/api/proposals/{id}/reject", "Rejects a proposal")
            .takes::<RejectRequest>()
            .answers::<Rejected>(),
        post("/api/proposals/{id}/rework", "Requests changes to a proposal")
            .takes::<ReworkRequest>()
            .once()
            .answers_with::<ReworkAccepted>(202),
        post("/api/proposals/{id}/edit", "Creates a revision with an edited text")
            .takes::<EditRequest>()
            .once()
            .answers_with::<Proposal>(201),
    ]
}

fn of_perspectives() -> Vec<Operation> {
    vec![
        get("/api/personas", "Lists personas, or shows one")
            .asks::<PersonaQuery>()
            .answers::<Personas>(),
        get("/api/perspectives", "Lists the views of a Source")
            .asks::<ListQuery>()
            .answers::<ViewList>(),
        get("/api/perspective", "Shows a view of a Source")
            .asks::<ViewQuery>()
            .answers::<ViewText>(),
        post("/api/perspectives", "Submits a view")
            .takes::<PutRequest>()
            .answers_with::<ViewKept>(201),
        post("/api/perspectives/request", "Requests a view")
            .takes::<ViewRequest>()
            .once()
            .answers::<Requested>()
            .answers_with::<Requested>(202),
    ]
}
