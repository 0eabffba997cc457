//! HTTP by hand: one request on one connection, with any token, over the socket or over TCP.

use std::io::{Read, Write};
use std::net::SocketAddr;
use std::os::fd::AsRawFd as _;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use camino::Utf8Path;
use serde_json::Value;

use crate::support::described::Described;

/// How long an answer may take.
const WAIT: Duration = Duration::from_secs(30);

/// A request that is not sent yet.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    method: String,
    target: String,
    token: Option<String>,
    body: Option<Value>,
    form: Option<String>,
    file: Option<Vec<u8>>,
    headers: Vec<(String, String)>,
}

/// What came back.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: Value,
}

impl Answer {
    /// Returns the code of an error.
    pub(crate) fn code(&self) -> &str {
        self.body["error"]["code"].as_str().unwrap_or_default()
    }

    /// Returns status and code, for one comparison.
    pub(crate) fn refusal(&self) -> (u16, &str) {
        (self.status, self.code())
    }

    /// Returns the body of a success.
    #[track_caller]
    pub(crate) fn ok(self) -> Value {
        assert!((200..300).contains(&self.status), "{self:?}");
        self.body
    }
}

impl Call {
    pub(crate) fn get(target: &str) -> Call {
        Call::new("GET", target)
    }

    pub(crate) fn post(target: &str, body: Value) -> Call {
        Call { body: Some(body), ..Call::new("POST", target) }
    }

    pub(crate) fn new(method: &str, target: &str) -> Call {
        let (method, target) = (method.to_owned(), target.to_owned());
        let (token, body, form, file) = (None, None, None, None);
        Call { method, target, token, body, form, file, headers: Vec::new() }
    }

    /// As the form of a page is sent.
    pub(crate) fn form(target: &str, fields: &str) -> Call {
        Call { form: Some(fields.to_owned()), ..Call::new("POST", target) }
    }

    /// With the bytes of a file.
    pub(crate) fn file(target: &str, bytes: &[u8]) -> Call {
        Call { file: Some(bytes.to_owned()), ..Call::new("POST", target) }
    }

    pub(crate) fn token(mut self, token: &str) -> Call {
        self.token = Some(token.to_owned());
        self
    }

    pub(crate) fn header(mut self, name: &str, value: &str) -> Call {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    fn bytes(&self, host: &str) -> Vec<u8> {
        let mut text = format!("{} {} HTTP/1.1\r\n", self.method, self.target);
        if !self.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("host")) {
            text += &format!("Host: {host}\r\n");
        }
        if let Some(token) = &self.token {
            text += &format!("Authorization: Bearer {token}\r\n");
        }
        for (name, value) in &self.headers {
            text += &format!("{name}: {value}\r\n");
        }
        let json = self.body.as_ref().map(|body| ("application/json", body.to_string()));
        let form = self.form.clone().map(|form| ("application/x-www-form-urlencoded", form));
        let (sort, body) = json.or(form).unwrap_or_default();
        if !sort.is_empty() {
            let length = body.len();
            text += &format!("Content-Type: {sort}\r\nContent-Length: {length}\r\n");
        }
        if let Some(file) = &self.file {
            let length = file.len();
            let sort = "application/octet-stream";
            text += &format!("Content-Type: {sort}\r\nContent-Length: {length}\r\n");
        }
        text += "Connection: close\r\n\r\n";
        text += &body;
        let mut bytes = text.into_bytes();
        bytes.extend(self.file.iter().flatten());
        bytes
    }

    /// Sends it over a socket; nothing if the server is not there or dies before it has answered.
    pub(crate) fn try_socket(&self, socket: &Utf8Path) -> Option<Answer> {
        let mut stream = connect(socket)?;
        stream.set_read_timeout(Some(WAIT)).unwrap();
        stream.write_all(&self.bytes("localhost")).ok()?;
        parse(&read_all(&mut stream)).inspect(|answer| self.judge(answer))
    }

    /// Sends it over TCP.
    pub(crate) fn tcp(&self, address: SocketAddr) -> Answer {
        let bytes = self.bytes(&format!("127.0.0.1:{}", address.port()));
        let answer = raw(address, &bytes);
        let answer =
            parse(&answer).unwrap_or_else(|| panic!("{}", String::from_utf8_lossy(&answer)));
        self.judge(&answer);
        answer
    }

    /// Holds request and answer against the description of the interface.
    #[track_caller]
    fn judge(&self, answer: &Answer) {
        Described::get().judge((&self.method, &self.target, self.body.as_ref()), answer);
    }
}

/// Connects to a socket in a folder of any depth: through the folder's descriptor it is short.
pub(super) fn connect(socket: &Utf8Path) -> Option<UnixStream> {
    let folder = std::fs::File::open(socket.parent()?).ok()?;
    let short = format!("/proc/self/fd/{}/{}", folder.as_raw_fd(), socket.file_name()?);
    UnixStream::connect(short).ok()
}

/// Sends bytes over TCP and returns all that comes back.
pub(crate) fn raw(address: SocketAddr, bytes: &[u8]) -> Vec<u8> {
    let mut stream = std::net::TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(WAIT)).unwrap();
    // A server that has seen enough may close before it has read everything.
    let _ = stream.write_all(bytes);
    read_all(&mut stream)
}

fn read_all(stream: &mut impl Read) -> Vec<u8> {
    let mut bytes = Vec::new();
    // What a server sent before it died is judged as it is.
    let _ = stream.read_to_end(&mut bytes);
    bytes
}

/// Returns an answer that came whole.
fn parse(bytes: &[u8]) -> Option<Answer> {
    let end = bytes.windows(4).position(|it| it == b"\r\n\r\n")?;
    let head = String::from_utf8(bytes[..end].to_vec()).ok()?;
    let status = head.split(' ').nth(1)?.parse().ok()?;
    let body = &bytes[end + 4..];
    let length = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().ok())?
    });
    if length.is_some_and(|length| body.len() < length) {
        return None;
    }
    let body = serde_json::from_slice(body)
        .unwrap_or_else(|_| Value::String(String::from_utf8_lossy(body).into_owned()));
    Some(Answer { status, head, body })
}

/// Returns whether a route ends a job by its id, which an admin may do with the job of anyone.
pub(crate) fn ends_a_job(route: &str) -> bool {
    ["/jobs/{id}/cancel", "/jobs/{id}/kill"].iter().any(|it| route.ends_with(it))
}
