//! A stand-in for a model's provider that sends words at a steady rate, each with the time at which
//! it was sent.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{MissedTickBehavior, interval};

use crate::site::Outcome;

/// A running stand-in; it ends with the program.
pub(crate) struct Model {
    pub(crate) address: SocketAddr,
    /// The moment from which its words count.
    pub(crate) base: Instant,
}

/// Returns a message that makes it send so many words, so many per second.
pub(crate) fn words(count: usize, per_second: usize) -> String {
    format!("words {count} {per_second}")
}

/// Returns when the word in a line was sent, in nanoseconds.
pub(crate) fn stamp(line: &str) -> Option<f64> {
    line.split('#').nth(1)?.parse().ok()
}

impl Model {
    pub(crate) async fn start() -> Outcome<Model> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let (address, base) = (listener.local_addr()?, Instant::now());
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(async move {
                    // A client that leaves ends its connection only.
                    let _ = serve(stream, base).await;
                });
            }
        });
        Ok(Model { address, base })
    }

    /// Returns a request as the server would send it.
    pub(crate) fn request(&self, message: &str) -> Vec<u8> {
        let content = json!([{"role": "user", "content": [{"type": "text", "text": message}]}]);
        let body = json!({"messages": content}).to_string();
        let length = body.len();
        format!("POST /v1/messages HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\n\r\n{body}")
            .into_bytes()
    }
}

async fn serve(stream: TcpStream, base: Instant) -> Outcome<()> {
    stream.set_nodelay(true)?;
    let mut stream = BufReader::new(stream);
    loop {
        let mut length = 0;
        loop {
            let mut line = String::new();
            if stream.read_line(&mut line).await? == 0 {
                return Ok(());
            }
            let line = line.trim_end().to_ascii_lowercase();
            if line.is_empty() {
                break;
            }
            if let Some(value) = line.strip_prefix("content-length:") {
                length = value.trim().parse()?;
            }
        }
        let mut body = vec![0; length];
        stream.read_exact(&mut body).await?;
        let body: Value = serde_json::from_slice(&body)?;
        let last = body["messages"].as_array().and_then(|it| it.last());
        let text = last.map_or("", |it| it["content"][0]["text"].as_str().unwrap_or_default());
        let numbers: Vec<u64> = text.split(' ').skip(1).flat_map(str::parse).collect();
        let [count, per_second] = numbers[..] else { return Err("no words".into()) };
        answer(stream.get_mut(), base, (count, per_second)).await?;
    }
}

async fn answer(stream: &mut TcpStream, base: Instant, (count, rate): (u64, u64)) -> Outcome<()> {
    let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: \
                chunked\r\n\r\n";
    stream.write_all(head.as_bytes()).await?;
    let usage = json!({"input_tokens": 1, "output_tokens": 1});
    send(stream, &json!({"type": "message_start", "message": {"id": "m", "usage": usage}})).await?;
    let block = json!({"type": "text", "text": ""});
    send(stream, &json!({"type": "content_block_start", "index": 0, "content_block": block}))
        .await?;
    let mut ticks = interval(Duration::from_secs_f64(1.0 / rate.max(1) as f64));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    for _ in 0..count {
        ticks.tick().await;
        let text = format!("#{}# ", base.elapsed().as_nanos());
        let delta = json!({"type": "text_delta", "text": text});
        send(stream, &json!({"type": "content_block_delta", "index": 0, "delta": delta})).await?;
    }
    send(stream, &json!({"type": "content_block_stop", "index": 0})).await?;
    let end = json!({"stop_reason": "end_turn"});
    send(stream, &json!({"type": "message_delta", "delta": end, "usage": usage})).await?;
    send(stream, &json!({"type": "message_stop"})).await?;
    stream.write_all(b"0\r\n\r\n").await?;
    Ok(())
}

async fn send(stream: &mut TcpStream, event: &Value) -> Outcome<()> {
    let name = event["type"].as_str().unwrap_or_default();
    let frame = format!("event: {name}\ndata: {event}\n\n");
    stream.write_all(format!("{:x}\r\n{frame}\r\n", frame.len()).as_bytes()).await?;
    Ok(())
}
