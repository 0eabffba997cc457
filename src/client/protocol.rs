//! Tests of the client against a socket that sends given bytes.

use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::thread::JoinHandle;
use std::time::Duration;

use camino::Utf8PathBuf;
use serde_json::json;

use crate::base::ErrorKind;
use crate::client::{ANSWER_BYTES_MAX, Client, Next};

/// The response to a connection.
type Answer = Box<dyn FnOnce(&mut UnixStream) + Send>;

struct Fake {
    _folder: tempfile::TempDir,
    socket: Utf8PathBuf,
    listener: UnixListener,
}

impl Fake {
    fn new() -> Fake {
        let folder = tempfile::tempdir().unwrap();
        let socket = Utf8PathBuf::from_path_buf(folder.path().join("wb.sock")).unwrap();
        let listener = UnixListener::bind(&socket).unwrap();
        Fake { _folder: folder, socket, listener }
    }

    /// Serves one connection after another; returns the requests.
    fn serve(&self, answers: Vec<Answer>) -> JoinHandle<Vec<String>> {
        let listener = self.listener.try_clone().unwrap();
        std::thread::spawn(move || {
            let mut requests = Vec::new();
            for answer in answers {
                let (mut stream, _) = listener.accept().unwrap();
                requests.push(request(&mut stream));
                answer(&mut stream);
            }
            requests
        })
    }

    fn say(&self, bytes: impl Into<Vec<u8>>) -> JoinHandle<Vec<String>> {
        let bytes = bytes.into();
        self.serve(vec![Box::new(move |stream| stream.write_all(&bytes).unwrap())])
    }

    fn client(&self) -> Client {
        Client::at(&self.socket, Some("t0ken".into())).unwrap()
    }
}

/// Reads a request with its body.
fn request(stream: &mut UnixStream) -> String {
    let mut bytes = Vec::new();
    let mut chunk = [0; 4096];
    loop {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head
                .lines()
                .find_map(|line| {
                    line.to_ascii_lowercase().strip_prefix("content-length: ")?.parse().ok()
                })
                .unwrap_or(0);
            if body.len() >= length {
                return text;
            }
        }
        match stream.read(&mut chunk).unwrap() {
            0 => return text,
            n => bytes.extend_from_slice(&chunk[..n]),
        }
    }
}

fn ok(body: &str) -> Vec<u8> {
    let length = body.len();
    format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n{body}").into_bytes()
}

#[test]
fn a_request_carries_host_token_key_and_json() {
    let fake = Fake::new();
    let served = fake.say(ok(r#"{"b":1,"a":[2]}"#));
    let answer = fake.client().post_once("/api/x?y=1", &json!({"k": "ü"}), "once-1").unwrap();
    assert_eq!(answer.to_string(), r#"{"b":1,"a":[2]}"#);
    let request = served.join().unwrap().remove(0);
    assert!(request.starts_with("POST /api/x?y=1 HTTP/1.1\r\n"), "{request}");
    for part in [
        "\r\nhost: localhost\r\n",
        "\r\nauthorization: Bearer t0ken\r\n",
        "\r\nidempotency-key: once-1\r\n",
        "\r\ncontent-type: application/json\r\n",
        "\r\n\r\n{\"k\":\"ü\"}",
    ] {
        assert!(request.contains(part), "{part:?} in {request}");
    }
}

#[test]
fn the_error_of_the_server_is_the_error_of_the_client() {
    let fake = Fake::new();
    let body = r#"{"error":{"code":"lane_busy","message":"job 7 runs","hint":"wait for it"}}"#;
    let served =
        fake.say(format!("HTTP/1.1 409 Conflict\r\ncontent-length: {}\r\n\r\n{body}", body.len()));
    let error = fake.client().get("/api/x").unwrap_err();
    assert_eq!((error.kind(), error.code_str()), (ErrorKind::Conflict, "lane_busy"));
    assert_eq!((error.message(), error.hint_str()), ("job 7 runs", Some("wait for it")));
    served.join().unwrap();
}

#[test]
fn no_socket_and_no_listener_say_how_to_start_the_server() {
    let fake = Fake::new();
    let (client, socket) = (fake.client(), fake.socket.clone());
    let Fake { _folder, listener, .. } = fake;
    drop(listener);
    let refused = client.get("/healthz").unwrap_err();
    std::fs::remove_file(&socket).unwrap();
    let missing = client.get("/healthz").unwrap_err();
    for error in [refused, missing] {
        assert_eq!((error.kind(), error.code_str()), (ErrorKind::Unavailable, "no_server"));
        assert_eq!(error.hint_str(), Some("start it with: wiki-browser serve"));
        assert_eq!(error.kind().exit_code(), 6);
    }
}

#[test]
fn a_socket_in_a_deep_folder_is_reached() {
    let folder = tempfile::tempdir().unwrap();
    let deep = folder.path().join("d".repeat(120)).join("e".repeat(120));
    std::fs::create_dir_all(&deep).unwrap();
    let open = std::fs::File::open(&deep).unwrap();
    let short = format!("/proc/self/fd/{}/wb.sock", std::os::fd::AsRawFd::as_raw_fd(&open));
    let listener = UnixListener::bind(short).unwrap();
    let socket = Utf8PathBuf::from_path_buf(deep.join("wb.sock")).unwrap();
    let fake = Fake { _folder: folder, socket, listener };
    let served = fake.say(ok("{}"));
    assert_eq!(fake.client().get("/healthz").unwrap(), json!({}));
    served.join().unwrap();
}

#[test]
fn an_answer_that_breaks_off_is_no_answer() {
    for bytes in [
        &b""[..],
        b"HTTP/1.1 200",
        b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\n{\"a\"",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n4\r\n{\"a\"\r\n",
        b"hello\r\n\r\n",
    ] {
        let fake = Fake::new();
        let served = fake.say(bytes);
        // Sent once, because the outcome is unknown.
        let error = fake.client().post("/api/x", &json!({})).unwrap_err();
        assert_eq!(error.code_str(), "connection_lost", "{bytes:?} {}", error.chain());
        served.join().unwrap();
    }
    let fake = Fake::new();
    let served = fake.say(ok("<html>"));
    assert_eq!(fake.client().get("/api/x").unwrap_err().kind(), ErrorKind::Internal);
    served.join().unwrap();
}

/// Fails with `WB_WITHOUT=client_retry`.
#[test]
fn what_may_be_sent_twice_is_sent_until_it_is_answered() {
    let lost = || -> Answer { Box::new(|_| ()) };
    let answer = || -> Answer { Box::new(|stream| stream.write_all(&ok("{\"a\":1}")).unwrap()) };
    let fake = Fake::new();
    let served = fake.serve(vec![lost(), lost(), answer()]);
    assert_eq!(fake.client().get("/api/x").unwrap(), json!({"a": 1}));
    assert_eq!(served.join().unwrap().len(), 3);
    let served = fake.serve(vec![lost(), answer()]);
    assert_eq!(fake.client().create("/api/x", &json!({"b": 2})).unwrap(), json!({"a": 1}));
    let requests = served.join().unwrap();
    assert_eq!(requests[0], requests[1], "the same request under the same key");
    assert!(requests[0].contains("idempotency-key: cli-"), "{}", requests[0]);
}

#[test]
fn a_server_that_is_silent_or_half_closed_is_not_waited_for_without_end() {
    let fake = Fake::new();
    let (release, held) = std::sync::mpsc::channel::<()>();
    let served = fake.serve(vec![Box::new(move |stream| {
        stream.shutdown(std::net::Shutdown::Read).unwrap();
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{").unwrap();
        let _ = held.recv();
    })]);
    let client = fake.client().waiting_at_most(Duration::from_millis(200));
    let error = client.get("/api/x").unwrap_err();
    assert_eq!((error.kind(), error.code_str()), (ErrorKind::Unavailable, "timeout"));
    drop(release);
    served.join().unwrap();
}

#[test]
fn an_answer_beyond_the_limit_is_refused() {
    let fake = Fake::new();
    let served = fake.serve(vec![Box::new(|stream| {
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n");
        let chunk = vec![b' '; 1 << 20];
        // The client disconnects as soon as it is too much.
        while stream.write_all(&chunk).is_ok() {}
    })]);
    let error = fake.client().get("/api/x").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TooLarge, "{} > {ANSWER_BYTES_MAX}", error.chain());
    served.join().unwrap();
}

#[test]
fn the_stream_of_events_goes_on_where_it_broke_off() {
    const HEAD: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n";
    let fake = Fake::new();
    let served = fake.serve(vec![
        Box::new(|stream| {
            let text =
                "id: e-1\nevent: job_started\ndata: {\"subject\":\"job:1\"}\n\n: beat\n\nid: e-2";
            stream.write_all(format!("{HEAD}{text}").as_bytes()).unwrap();
        }),
        Box::new(|stream| {
            stream.write_all(b"HTTP/1.1 503 Busy\r\ncontent-length: 0\r\n\r\n").unwrap()
        }),
        Box::new(|stream| {
            let text = "event: reset\ndata: {}\n\nid: e-9\nevent: job_finished\ndata: {}\n\n";
            stream.write_all(format!("{HEAD}{text}").as_bytes()).unwrap();
        }),
    ]);
    let client = fake.client();
    let mut events = client.events(Some("e-0".into()));
    let mut seen = Vec::new();
    while !seen.iter().any(|it| it == "job_finished") {
        seen.push(match events.next(Duration::from_secs(5)).unwrap() {
            Next::Opened => "opened".to_owned(),
            Next::Event(event) => event.kind,
            Next::Reset => "reset".to_owned(),
            Next::Quiet => panic!("quiet"),
            Next::Lost(_) => "lost".to_owned(),
        });
    }
    let told = ["opened", "job_started", "lost", "lost", "opened", "reset", "job_finished"];
    assert_eq!(seen, told);
    let requests = served.join().unwrap();
    for (request, id) in requests.iter().zip(["e-0", "e-1", "e-1"]) {
        assert!(request.contains(&format!("\r\nlast-event-id: {id}\r\n")), "{request}");
    }
}

#[test]
fn a_stream_that_is_not_allowed_is_an_error_at_once() {
    let fake = Fake::new();
    let served = fake.say("HTTP/1.1 401 No\r\ncontent-length: 0\r\n\r\n");
    let client = fake.client();
    let error = client.events(None).next(Duration::from_secs(5)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unauthenticated);
    served.join().unwrap();
}
