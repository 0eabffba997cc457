//! The real server under load, with scarce resources, and next to other sites.

#![allow(clippy::unwrap_used, reason = "helpers of tests may panic like tests")]

mod crowd;
mod descriptors;
mod large;
mod limits;
mod neighbors;
mod readers;
mod restart;

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};

use serde_json::json;

use crate::support::{Bench, Call};

/// Signs a browser in by a one-time link; returns `name=secret` of its cookie.
#[track_caller]
pub(super) fn sign_in(bench: &Bench, address: SocketAddr) -> String {
    let link = bench.post("/api/login-links", json!({})).ok();
    let code = link["url"].as_str().unwrap().rsplit('/').next().unwrap().to_owned();
    let login = Call::post("/api/login", json!({"code": code}));
    let answer = login.header("Sec-Fetch-Site", "same-origin").tcp(address);
    assert_eq!(answer.status, 200, "{answer:?}");
    let line = answer.head.lines().find(|it| it.to_lowercase().starts_with("set-cookie:"));
    let line = line.unwrap().split_once(':').unwrap().1;
    line.split(';').next().unwrap().trim().to_owned()
}

/// Returns a number of kibibytes that the kernel says of a process (`VmRSS`, `VmHWM`).
pub(super) fn memory_kib(pid: u32, what: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|it| it.strip_prefix(&format!("{what}:"))).unwrap();
    line.split_whitespace().next().unwrap().parse().unwrap()
}

/// Returns the processor time of a process, in ticks of 10 ms.
pub(super) fn ticks(pid: u32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let after = stat.rsplit_once(") ").unwrap().1;
    let fields: Vec<&str> = after.split(' ').collect();
    fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
}

/// Opens a connection, sends a request on it, and leaves it open.
pub(super) fn open(address: SocketAddr, head: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).unwrap();
    // One that was turned away may be closed before the request is written.
    let _ = stream.write_all(head.as_bytes());
    stream
}

/// Returns the first line of an answer; nothing if there is none.
pub(super) fn first_line(stream: &mut TcpStream) -> String {
    stream.set_read_timeout(Some(std::time::Duration::from_secs(30))).unwrap();
    let mut bytes = [0; 12];
    match stream.read_exact(&mut bytes) {
        Ok(()) => String::from_utf8_lossy(&bytes).into_owned(),
        Err(_) => String::new(),
    }
}
