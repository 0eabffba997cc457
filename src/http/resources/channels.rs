//! Channels: their members, their messages, and their lives.

use bytes::Bytes;
use futures_util::StreamExt as _;
use futures_util::stream;
use hyper::StatusCode;
use hyper::header::{CONTENT_DISPOSITION, HeaderValue};
use warp::filters::BoxedFilter;
use warp::reply::Response;

use crate::api::arrival::ArrivalRequest;
use crate::api::channel_export::{ChannelExport, ExportForm, ExportQuery};
use crate::api::channels::{
    AttachmentQuery, ChairRequest, ChannelQuery, CreateRequest, HeldRequest, HistoryQuery,
    PostRequest, ReadRequest, SeatRequest,
};
use crate::api::voice::VoiceRequest;
use crate::base::limit::CHANNEL_ATTACHMENT_BYTES_MAX;
use crate::base::{Error, Result, image_type};
use crate::flows::Site;
use crate::flows::channels::{self, Act, Arrival, Change};
use crate::http::server::streams::Exclusive;
use crate::http::{Call, any_of, get, post, reply};

/// A message of 50,000 characters as JSON, every one of them escaped as two units of UTF-16.
const POST_BODY_BYTES_MAX: usize = 12 * 50_000 + 4 * 1024;
/// A channel with its first message.
const CREATE_BODY_BYTES_MAX: usize = POST_BODY_BYTES_MAX + 64 * 1024;
/// A line that tells of a turn that came to nothing.
const AGAIN: &str = "/api/channels/{slug}/messages/{sequence}/again";
/// A line that tells of an answer that is held.
const HELD: &str = "/api/channels/{slug}/messages/{sequence}/held";
/// What an agent may not have received.
const RESEND: &str = "/api/channels/{slug}/messages/{sequence}/resend";
const SETTLE: &str = "/api/channels/{slug}/messages/{sequence}/settle";
/// A body of some words.
const SMALL_BODY_BYTES_MAX: usize = 64 * 1024;

pub(in crate::http) fn routes(site: &Site) -> BoxedFilter<(Response,)> {
    any_of([
        get("/api/channels", site, async |site: Site, call: Call| {
            let query: ChannelQuery = call.query()?;
            reply::ok(&channels::list(&site, &call.caller()?, query).await?)
        }),
        post("/api/channels", site, create),
        get("/api/channels/{slug}", site, async |site: Site, call: Call| {
            reply::ok(&channels::show(&site, &call.caller()?, call.text_param("slug")?).await?)
        }),
        lives(site),
        members(site),
        get("/api/channels/{slug}/messages", site, async |site: Site, call: Call| {
            let (slug, query): (_, HistoryQuery) = (call.text_param("slug")?, call.query()?);
            reply::ok(&channels::history(&site, &call.caller()?, slug, query).await?)
        }),
        post("/api/channels/{slug}/messages", site, say),
        post("/api/channels/{slug}/attachments", site, async |site: Site, mut call: Call| {
            let query: AttachmentQuery = call.query()?;
            let bytes = call.file(CHANNEL_ATTACHMENT_BYTES_MAX).await?;
            let (caller, slug) = (call.caller()?, call.text_param("slug")?);
            let uploaded = channels::attach(&site, &caller, slug, query.name, bytes).await?;
            reply::json(StatusCode::CREATED, &uploaded)
        }),
        get("/api/channels/{slug}/attachments/{number}", site, attachment),
        post(AGAIN, site, async |site: Site, mut call: Call| {
            call.nothing().await?;
            let (slug, number) = (call.text_param("slug")?, call.text_param("sequence")?);
            reply::ok(&channels::again(&site, &call.caller()?, slug, number).await?)
        }),
        get(HELD, site, async |site: Site, call: Call| {
            let (slug, number) = (call.text_param("slug")?, call.text_param("sequence")?);
            reply::ok(&channels::held(&site, &call.caller()?, slug, number).await?)
        }),
        post(HELD, site, async |site: Site, mut call: Call| {
            let request: HeldRequest = call.json(SMALL_BODY_BYTES_MAX).await?;
            let place = (call.text_param("slug")?, call.text_param("sequence")?);
            let caller = call.caller()?;
            reply::ok(&channels::decide(&site, &caller, place, request.decision).await?)
        }),
        post(RESEND, site, async |site, call| arrival(site, call, Arrival::Resend).await),
        post(SETTLE, site, async |site, call| arrival(site, call, Arrival::Settle).await),
        post("/api/channels/{slug}/read", site, async |site: Site, mut call: Call| {
            let request: ReadRequest = call.json(SMALL_BODY_BYTES_MAX).await?;
            let slug = call.text_param("slug")?;
            reply::ok(&channels::read(&site, &call.caller()?, slug, request.sequence).await?)
        }),
        get("/api/channels/{slug}/export", site, export),
        post("/api/voice/command", site, async |site: Site, mut call: Call| {
            let (request, key): (VoiceRequest, _) = call.json_with_key(POST_BODY_BYTES_MAX).await?;
            reply::ok(&channels::voice(&site, &call.caller()?, request, key).await?)
        }),
    ])
}

fn lives(site: &Site) -> BoxedFilter<(Response,)> {
    any_of([
        post("/api/channels/{slug}/change", site, async |site: Site, mut call: Call| {
            let request = call.json(SMALL_BODY_BYTES_MAX).await?;
            let slug = call.text_param("slug")?;
            reply::ok(&channels::change(&site, &call.caller()?, slug, request).await?)
        }),
        post("/api/channels/{slug}/pause", site, async |site, call| {
            act(site, call, Act::Pause).await
        }),
        post("/api/channels/{slug}/resume", site, async |site: Site, mut call: Call| {
            let (request, _) = call.json_or_nothing_with_key(SMALL_BODY_BYTES_MAX).await?;
            let slug = call.text_param("slug")?;
            reply::ok(&channels::resume(&site, &call.caller()?, slug, request).await?)
        }),
        post("/api/channels/{slug}/chair", site, async |site: Site, mut call: Call| {
            let request: ChairRequest = call.json(SMALL_BODY_BYTES_MAX).await?;
            let slug = call.text_param("slug")?;
            reply::ok(&channels::chair(&site, &call.caller()?, slug, request.to).await?)
        }),
        post("/api/channels/{slug}/complete", site, async |site, call| {
            act(site, call, Act::Complete).await
        }),
        post("/api/channels/{slug}/archive", site, async |site, call| {
            act(site, call, Act::Archive).await
        }),
    ])
}

fn members(site: &Site) -> BoxedFilter<(Response,)> {
    any_of([
        post("/api/channels/{slug}/join", site, async |site, call| {
            act(site, call, Act::Join).await
        }),
        post("/api/channels/{slug}/leave", site, async |site, call| {
            act(site, call, Act::Leave).await
        }),
        post("/api/channels/{slug}/members", site, async |site: Site, mut call: Call| {
            let request = call.json(SMALL_BODY_BYTES_MAX).await?;
            let slug = call.text_param("slug")?;
            reply::ok(&channels::add(&site, &call.caller()?, slug, request).await?)
        }),
        post("/api/channels/{slug}/members/{handle}/remove", site, async |site, call| {
            set(site, call, Change::Remove).await
        }),
        post("/api/channels/{slug}/members/{handle}/mute", site, async |site, call| {
            set(site, call, Change::Mute).await
        }),
        post("/api/channels/{slug}/members/{handle}/unmute", site, async |site, call| {
            set(site, call, Change::Unmute).await
        }),
        post("/api/channels/{slug}/members/{handle}/seat", site, async |site: Site, mut call| {
            let (request, _): (SeatRequest, _) =
                call.json_or_nothing_with_key(SMALL_BODY_BYTES_MAX).await?;
            let place = (call.text_param("slug")?, call.text_param("handle")?);
            reply::ok(&channels::seat(&site, &call.caller()?, place, request).await?)
        }),
    ])
}

async fn export(site: Site, call: Call) -> Result<Response> {
    let (slug, query): (_, ExportQuery) = (call.text_param("slug")?, call.query()?);
    let caller = call.caller()?;
    if query.form == ExportForm::Markdown {
        let markdown = channels::export(&site, &caller, slug).await?;
        return reply::ok(&ChannelExport { markdown });
    }
    let slug = channels::show(&site, &caller, slug).await?.slug;
    let lines = stream::unfold(Some(0), move |after| {
        let (site, caller, slug) = (site.clone(), caller.clone(), slug.clone());
        async move {
            match channels::export_lines(&site, &caller, &slug, after?).await {
                Ok(Some((lines, last))) => Some((Ok(Bytes::from(lines)), Some(last))),
                Ok(None) => None,
                Err(cause) => Some((Err(cause), None)),
            }
        }
    });
    Ok(reply::stream("application/x-ndjson", Exclusive::new(lines.boxed())))
}

async fn create(site: Site, mut call: Call) -> Result<Response> {
    let (request, key): (CreateRequest, _) = call.json_with_key(CREATE_BODY_BYTES_MAX).await?;
    let made = channels::create(&site, &call.caller()?, request, key).await?;
    reply::json(StatusCode::CREATED, &made)
}

async fn say(site: Site, mut call: Call) -> Result<Response> {
    let (request, key): (PostRequest, _) = call.json_with_key(POST_BODY_BYTES_MAX).await?;
    let slug = call.text_param("slug")?;
    let posted = channels::post(&site, &call.caller()?, slug, request, key).await?;
    reply::json(StatusCode::CREATED, &posted)
}

async fn arrival(site: Site, mut call: Call, decision: Arrival) -> Result<Response> {
    let request: ArrivalRequest = call.json(SMALL_BODY_BYTES_MAX).await?;
    let place = (call.text_param("slug")?, call.text_param("sequence")?);
    let what = (request.to.as_str(), decision);
    reply::ok(&channels::arrival(&site, &call.caller()?, place, what).await?)
}

/// Sends a file. Only bitmap images are shown in place; everything else is a download.
async fn attachment(site: Site, call: Call) -> Result<Response> {
    let place = (call.text_param("slug")?, call.text_param("number")?);
    let (file, content) = channels::attachment(&site, &call.caller()?, place).await?;
    let kind = image_type(&content);
    let mut response =
        reply::typed(StatusCode::OK, kind.unwrap_or("application/octet-stream"), content);
    let how = if kind.is_some() { "inline" } else { "attachment" };
    let name = percent_encoded(&file.name);
    let value = HeaderValue::from_str(&format!("{how}; filename*=UTF-8''{name}"))
        .map_err(|cause| Error::internal("a file's name is not a header").source(cause))?;
    response.headers_mut().insert(CONTENT_DISPOSITION, value);
    Ok(response)
}

fn percent_encoded(name: &str) -> String {
    let mut encoded = String::new();
    for byte in name.bytes() {
        match byte {
            b'-' | b'.' | b'_' | b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' => {
                encoded.push(char::from(byte));
            }
            _ => encoded.push_str(&format!("%{byte:02X}")),
        }
    }
    encoded
}

async fn act(site: Site, mut call: Call, act: Act) -> Result<Response> {
    call.nothing().await?;
    let slug = call.text_param("slug")?;
    reply::ok(&channels::act(&site, &call.caller()?, slug, act).await?)
}

async fn set(site: Site, mut call: Call, change: Change) -> Result<Response> {
    call.nothing().await?;
    let place = (call.text_param("slug")?, call.text_param("handle")?);
    reply::ok(&channels::set_member(&site, &call.caller()?, place, change).await?)
}
