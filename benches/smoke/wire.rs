//! A client with almost no cost: sends prepared bytes, and reads a response with a length.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use camino::Utf8Path;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;
use tokio::task::JoinSet;

use crate::site::{Outcome, Server};

/// A connection that is kept.
pub(crate) struct Line {
    stream: UnixStream,
    buffer: Vec<u8>,
}

impl Line {
    pub(crate) async fn connect(socket: &Utf8Path) -> io::Result<Line> {
        Ok(Line { stream: UnixStream::connect(socket).await?, buffer: Vec::with_capacity(16_384) })
    }

    /// Sends one request and returns status and body of its answer.
    pub(crate) async fn ask(&mut self, request: &[u8]) -> io::Result<(u16, &[u8])> {
        self.stream.write_all(request).await?;
        self.buffer.clear();
        let (status, start, end) = loop {
            if self.stream.read_buf(&mut self.buffer).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            if let Some(found) = head(&self.buffer)? {
                break found;
            }
        };
        while self.buffer.len() < end {
            if self.stream.read_buf(&mut self.buffer).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        Ok((status, &self.buffer[start..end]))
    }
}

/// A stream of events, which costs the server less than asking again and again.
pub(crate) struct Events {
    stream: UnixStream,
    buffer: Vec<u8>,
}

impl Events {
    /// Listens from now on.
    pub(crate) async fn listen(server: &Server) -> io::Result<Events> {
        let mut stream = UnixStream::connect(&server.socket).await?;
        stream.write_all(&server.request("GET", "/api/events", None)).await?;
        let mut events = Events { stream, buffer: Vec::with_capacity(16_384) };
        // The greeting has the id from which on it hears.
        events.until(b"\nid: ", 1).await?;
        events.buffer.clear();
        Ok(events)
    }

    /// Waits until a word has come so often.
    pub(crate) async fn until(&mut self, word: &[u8], count: usize) -> io::Result<()> {
        while self.buffer.windows(word.len()).filter(|it| *it == word).count() < count {
            if self.stream.read_buf(&mut self.buffer).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        Ok(())
    }
}

/// Returns status, and where the body begins and ends, once the head is there.
fn head(bytes: &[u8]) -> io::Result<Option<(u16, usize, usize)>> {
    let Some(start) = bytes.windows(4).position(|it| it == b"\r\n\r\n") else { return Ok(None) };
    let strange = || io::Error::other("an answer without status or length");
    let text = std::str::from_utf8(&bytes[..start]).map_err(|_| strange())?;
    let status = text.split(' ').nth(1).and_then(|it| it.parse().ok()).ok_or_else(strange)?;
    let length = text.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().ok())?
    });
    let length = length.ok_or_else(strange)?;
    Ok(Some((status, start + 4, start + 4 + length)))
}

/// One sample of load.
pub(crate) struct Load {
    /// Answers a second.
    pub(crate) rate: f64,
    /// The 99th of a hundred answers came within this many milliseconds.
    pub(crate) p99_ms: f64,
    /// Processor time of the server for each answer, in microseconds.
    pub(crate) cpu_us: f64,
}

/// Sends `requests` round and round over `connections` for some seconds; every answer must be a
/// success.
pub(crate) async fn load(
    server: &Server,
    requests: &Arc<Vec<Vec<u8>>>,
    connections: usize,
    seconds: f64,
) -> Outcome<Load> {
    let next = Arc::new(AtomicU64::new(0));
    let mut lines = Vec::new();
    for _ in 0..connections {
        lines.push(Line::connect(&server.socket).await?);
    }
    let cpu = server.cpu_us()?;
    let begin = Instant::now();
    let end = begin + Duration::from_secs_f64(seconds);
    let mut tasks = JoinSet::new();
    for mut line in lines {
        let (requests, next) = (Arc::clone(requests), Arc::clone(&next));
        tasks.spawn(async move {
            let mut took = Vec::new();
            while Instant::now() < end {
                let number = next.fetch_add(1, Ordering::Relaxed) as usize;
                let at = Instant::now();
                let (status, body) = line.ask(&requests[number % requests.len()]).await?;
                if !(200..300).contains(&status) {
                    let said = String::from_utf8_lossy(body).into_owned();
                    return Err(io::Error::other(format!("{status}: {said}")));
                }
                took.push(at.elapsed());
            }
            Ok::<_, io::Error>(took)
        });
    }
    let mut all: Vec<Duration> = Vec::new();
    while let Some(done) = tasks.join_next().await {
        all.extend(done??);
    }
    let elapsed = begin.elapsed();
    let cpu = server.cpu_us()? - cpu;
    all.sort_unstable();
    let p99 = all.get(all.len() * 99 / 100).copied().unwrap_or_default();
    Ok(Load {
        rate: all.len() as f64 / elapsed.as_secs_f64(),
        p99_ms: p99.as_secs_f64() * 1_000.0,
        cpu_us: cpu / all.len().max(1) as f64,
    })
}
