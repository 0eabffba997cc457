//! Channels in a test: what a person says there, and the turns of agents.
//!
//! An agent's start is a job, and what it is given is the block that the server composes for it;
//! the facts of its turn are told as if they had been read from its process.

use serde_json::{Map, Value, json};

use crate::api::channels::{
    ChannelView, CreateRequest, HistoryQuery, MemberRequest, MessageView, PostRequest,
};
use crate::base::limit::parse_duration;
use crate::base::{Error, JobId, Result};
use crate::flows::lab::runner::{TAKES_MS, waits};
use crate::flows::lab::site::Ground;
use crate::flows::lab::wait::{Turn, Waits, ms};
use crate::flows::{agents, channels};
use crate::jobs::speak::{Ending, Fact, Tokens};
use crate::jobs::{self, Job};
use crate::mail;
use crate::mail::agent::{self, State};
use crate::people::Caller;
use crate::script::lab::Step;
use crate::turns;

/// Most messages of a channel that a test sees.
const SAID_MAX: u32 = 200;

/// Makes a channel of the tester with some agents; returns it.
pub(super) async fn open(ground: &Ground, name: &str, fields: &Value) -> Result<Value> {
    let text = |name: &str| fields[name].as_str().map(str::to_owned);
    let names = fields["agents"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let seat =
        |name: &str| MemberRequest { persona: Some(name.to_owned()), ..MemberRequest::default() };
    let budget = fields.get("budget").map(|it| serde_json::from_value(it.clone())).transpose();
    let request = CreateRequest {
        kind: text("type"),
        name: name.to_owned(),
        about: text("about"),
        intent: text("intent"),
        members: names.map(seat).collect(),
        budget: budget.map_err(|cause| {
            Error::invalid(format!("the budget of a channel: {cause}"))
                .hint("write budget = { turns = 10, tokens = 100000, cost_usd = 2 }")
        })?,
        ..CreateRequest::default()
    };
    let made = channels::create(&ground.site, &ground.caller, request, None).await?;
    ground.tell().await?;
    Ok(json!({"slug": made.slug, "number": made.number, "name": made.name, "type": made.kind}))
}

/// Posts a message of the tester; returns what the handlers did, and who is woken.
pub(super) async fn say(
    ground: &Ground,
    (channel, text): (&Value, &str),
    fields: &Value,
) -> Result<Value> {
    let slug = slug_of(channel)?;
    ground.pass_over().await?;
    let mark = ground.mark();
    ground.take_a_moment();
    let word = |name: &str| fields[name].as_str().map(str::to_owned);
    let request = PostRequest {
        body: text.to_owned(),
        kind: word("type"),
        to: word("to"),
        in_reply_to: None,
        attachments: Vec::new(),
    };
    let posted = channels::post(&ground.site, &ground.caller, slug, request, None).await?;
    ground.tell().await?;
    let mut told = ground.effects(&mark).await?;
    told["sequence"] = json!(posted.sequence);
    show_room(ground, slug, &mut told).await?;
    Ok(told)
}

/// Returns the messages of a channel in their order.
pub(super) async fn said(ground: &Ground, channel: &Value) -> Result<Value> {
    let messages = history(ground, slug_of(channel)?).await?;
    let shown = messages.iter().map(|it| {
        json!({
            "sequence": it.sequence, "type": it.kind, "from": it.author.handle, "text": it.text,
            "answers": it.answers,
        })
    });
    Ok(Value::Array(shown.collect()))
}

/// Gives the agent of a seat what wakes it, and waits for its answer; nothing if nothing does.
pub(super) async fn answer(ground: &mut Ground, (of, who): (&Value, &str)) -> Result<Step> {
    let slug = slug_of(of)?.to_owned();
    let channel = channels::show(&ground.site, &ground.caller, &slug).await?;
    let agent = seated(&channel, who)?;
    let mark = ground.mark();
    let job = run_agent(ground, &agent).await?;
    ground.take_a_moment();
    agents::act(&ground.site, &ground.site.works.now(), &agent).await?;
    let asked = agent.clone();
    let given = ground.site.store.read(move |c| mail::open_block(c, &asked)).await?;
    let Some(block) = given else { return Ok(Step::Done(Value::Null)) };
    if block.room != Some(channel.number) {
        let message = format!("agent:{agent} has a message from elsewhere first");
        return Err(Error::conflict("agent_state", message)
            .hint("a test answers in channels only: let nothing be sent to the agent itself"));
    }
    hear(ground, &job, Fact::Began { block: Some(block.id.clone()) }).await?;
    let asked = agent.clone();
    let turn = ground.site.store.read(move |c| turns::running_of(c, &asked)).await?;
    let turn = turn.ok_or_else(|| Error::internal("a turn that began does not run"))?;
    ground.tell().await?;
    let shown = json!({"agent": agent, "channel": channel.slug, "prompt": block.text});
    let turn = Turn { id: turn.id, job, block: block.id, slug, mark, shown: shown.clone() };
    ground.plays.push(Waits::Turn(Box::new(turn)));
    Ok(Step::Agent(shown, 1))
}

/// Ends a turn with what its agent says; returns what came of it.
pub(super) async fn end(ground: &Ground, turn: Turn, says: &Map<String, Value>) -> Result<Value> {
    let text = |name: &str| says.get(name).and_then(Value::as_str);
    let takes = match text("takes") {
        Some(takes) => ms(parse_duration(takes)?),
        None => TAKES_MS,
    };
    ground.refuse_beyond(ground.clock.now().plus(takes))?;
    ground.clock.advance(takes);
    if let Some(body) = text("post") {
        post(ground, &turn, body).await?;
    }
    let how = match text("fail") {
        Some(why) => Ending::Failed(why.to_owned()),
        None if says.get("interrupted") == Some(&json!(true)) => Ending::Interrupted,
        None => Ending::Answered,
    };
    let written = says.get("tokens").and_then(Value::as_u64).unwrap_or_default();
    let ended = Fact::Ended {
        block: Some(turn.block.clone()),
        text: text("text").unwrap_or_default().to_owned(),
        how,
        tokens: Tokens { written, ..Tokens::default() },
        cost_usd: says.get("cost_usd").and_then(Value::as_f64),
        ms: u64::try_from(takes).ok(),
        is_mixed: false,
        before_typed: None,
    };
    hear(ground, &turn.job, ended).await?;
    ground.tell().await?;
    let id = turn.id.clone();
    let found = ground.site.store.read(move |c| turns::find(c, &id)).await?;
    let messages = history(ground, &turn.slug).await?;
    let of_turn = |it: &&MessageView| it.turn_id.as_ref() == Some(&turn.id);
    let answer = messages.iter().rev().filter(of_turn).find(|it| it.answers.is_some());
    let mut shown = turn.shown;
    (shown["state"], shown["reason"]) = (json!(found.state), json!(found.reason));
    shown["text"] = json!(answer.map(|it| &it.text));
    shown["sequence"] = json!(answer.map(|it| it.sequence));
    shown["effects"] = ground.effects(&turn.mark).await?;
    show_room(ground, &turn.slug, &mut shown).await?;
    Ok(shown)
}

/// Posts during a turn, as `wb-agent channel post` does.
async fn post(ground: &Ground, turn: &Turn, body: &str) -> Result<()> {
    let name = turn.job.agent.as_deref().unwrap_or_default();
    let rehearsal = ground.agents.get(name);
    let token_hash = rehearsal.map(|it| it.token_hash.clone()).unwrap_or_default();
    let caller = Caller::Job { id: turn.job.id.clone(), token_hash };
    let request = PostRequest { body: body.to_owned(), ..PostRequest::default() };
    channels::post(&ground.site, &caller, &turn.slug, request, None).await.map(drop)
}

/// Starts an agent that does not run; returns the job of its start.
async fn run_agent(ground: &mut Ground, name: &str) -> Result<Job> {
    let works = ground.site.works.now();
    if start_of(ground, name).await?.is_none() {
        agents::act(&ground.site, &works, name).await?;
    }
    let Some((id, state)) = start_of(ground, name).await? else {
        let message = format!("agent:{name} does not start");
        return Err(Error::conflict("agent_state", message)
            .hint("it waits for a place (`limits.agents`), or was stopped"));
    };
    if ground.agents.get(name).is_none_or(|it| it.job.id != id) {
        let Some(started) = ground.site.queue.rehearse(Some(&id)).await? else {
            return Err(waits(ground, &id).await?);
        };
        ground.agents.insert(name.to_owned(), started);
    }
    let asked = id.clone();
    let job = ground.site.store.read(move |c| jobs::find(c, &jobs::Viewer::Program, &asked));
    let job = job.await?;
    if state == State::Starting {
        hear(ground, &job, Fact::Ready).await?;
    }
    Ok(job)
}

/// Returns the job in which an agent runs, or that will start it, and what it does.
async fn start_of(ground: &Ground, name: &str) -> Result<Option<(JobId, State)>> {
    let asked = name.to_owned();
    let read = ground.site.store.read(move |c| {
        let Some(agent) = agent::find(c, &asked)? else { return Ok(None) };
        let Some(id) = agent.job_id else { return Ok(None) };
        let job = jobs::find_brief(c, &jobs::Viewer::Program, &id)?;
        Ok((!job.status.is_final()).then_some((id, agent.state)))
    });
    read.await
}

/// Tells a fact about an agent, as its process would.
async fn hear(ground: &Ground, job: &Job, fact: Fact) -> Result<()> {
    let (works, job) = (ground.site.works.now(), job.clone());
    ground.site.store.write(move |tx| agents::heard(tx, &works, &job, &fact)).await
}

/// Adds why a channel is paused, and which members something waits for that wakes them.
async fn show_room(ground: &Ground, slug: &str, shown: &mut Value) -> Result<()> {
    let channel = channels::show(&ground.site, &ground.caller, slug).await?;
    shown["paused"] = json!(channel.paused.as_ref().map(|it| &it.reason));
    let (number, seats) = (channel.number, seats(&channel));
    let read = ground.site.store.read(move |c| {
        let mut woken = Vec::new();
        for (handle, agent) in seats {
            if mail::rooms_awaiting(c, &agent)?.contains(&Some(number)) {
                woken.push(handle);
            }
        }
        Ok(woken)
    });
    shown["woken"] = json!(read.await?);
    Ok(())
}

/// Returns the members that are agents: their handles, and the agents in their seats.
fn seats(channel: &ChannelView) -> Vec<(String, String)> {
    let seat = |it: &crate::api::channels::MemberView| Some((it.handle.clone(), it.agent.clone()?));
    channel.members.iter().filter_map(seat).collect()
}

/// Returns the agent in the seat of a member.
fn seated(channel: &ChannelView, who: &str) -> Result<String> {
    let all = seats(channel);
    let found = all.iter().find(|(handle, agent)| handle == who || agent == who);
    found.map(|(_, agent)| agent.clone()).ok_or_else(|| {
        let names: Vec<&str> = all.iter().map(|(handle, _)| handle.as_str()).collect();
        let message = format!("no agent `{who}` has a seat in {}", channel.slug);
        Error::invalid(message).hint(match names.is_empty() {
            true => "write t.channel(\"NAME\", { agents = { \"robbo\" } })".to_owned(),
            false => format!("its agents: {}", names.join(", ")),
        })
    })
}

async fn history(ground: &Ground, slug: &str) -> Result<Vec<MessageView>> {
    let query = HistoryQuery { limit: Some(SAID_MAX), ..HistoryQuery::default() };
    Ok(channels::history(&ground.site, &ground.caller, slug, query).await?.items)
}

/// Reads a channel given as the result of `t.channel`, or by its slug, number or name.
fn slug_of(given: &Value) -> Result<&str> {
    given["slug"].as_str().or_else(|| given.as_str()).ok_or_else(|| {
        Error::invalid("that is no channel")
            .hint("write local team = t.channel(\"team\", { agents = { \"robbo\" } }), then team")
    })
}
