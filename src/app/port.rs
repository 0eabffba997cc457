//! Listening for browsers, and which process has the port if that fails.

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::Path;

use tokio::net::{TcpListener, TcpSocket};

use crate::base::{Error, Result, truncate_chars};
use crate::script::Config;

/// The kernel's send buffer per connection. The default is some megabytes, and would report
/// progress of a slow client only after a third of them.
const SEND_BUFFER_BYTES: u32 = 128 * 1024;
/// Most connections waiting to be accepted.
const BACKLOG: u32 = 1_024;

/// Listens for browsers.
///
/// # Errors
/// `unavailable` with code `cannot_listen`, naming the process that has the port if it can be seen.
pub(super) async fn bind(config: &Config) -> Result<TcpListener> {
    let listen = config.site.listen;
    let cause = match listener(listen) {
        Ok(listener) => return Ok(listener),
        Err(cause) => cause,
    };
    let is_taken = cause.kind() == io::ErrorKind::AddrInUse;
    let holder = if is_taken { holder(listen) } else { None };
    let (message, hint) = match holder {
        Some(holder) => (
            format!("cannot listen on {listen}: {holder} has the port"),
            "stop it, or set another port with `listen` in the script; 0 picks one",
        ),
        None => (
            format!("cannot listen on {listen}"),
            "another program may have the port: set `listen` in the script, 0 picks one",
        ),
    };
    Err(Error::unavailable(message).code("cannot_listen").hint(hint).source(cause))
}

fn listener(listen: SocketAddr) -> io::Result<TcpListener> {
    let socket = if listen.is_ipv6() { TcpSocket::new_v6() } else { TcpSocket::new_v4() }?;
    socket.set_reuseaddr(true)?;
    socket.set_send_buffer_size(SEND_BUFFER_BYTES)?;
    socket.bind(listen)?;
    socket.listen(BACKLOG)
}

/// Describes the listening process: name, pid, and working folder.
fn holder(listen: SocketAddr) -> Option<String> {
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"];
    let read = |it: &&str| fs::read_to_string(it).ok();
    let inode = tables.iter().filter_map(read).find_map(|it| inode(&it, listen.port()))?;
    let wanted = format!("socket:[{inode}]");
    for entry in fs::read_dir("/proc").ok()?.flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|it| it.parse::<u32>().ok()) else {
            continue;
        };
        // Processes of other users do not show their open files.
        let Ok(open) = fs::read_dir(entry.path().join("fd")) else { continue };
        let has_it =
            |it: fs::DirEntry| fs::read_link(it.path()).is_ok_and(|to| to == Path::new(&wanted));
        if open.flatten().any(has_it) {
            return Some(describe(pid, &entry.path()));
        }
    }
    None
}

fn describe(pid: u32, folder: &Path) -> String {
    let name = fs::read_to_string(folder.join("comm")).unwrap_or_default();
    let name = truncate_chars(name.trim(), 32).escape_debug().to_string();
    match fs::read_link(folder.join("cwd")) {
        Ok(cwd) => {
            let cwd = truncate_chars(&cwd.to_string_lossy(), 300).escape_debug().to_string();
            format!("{name} (pid {pid}, in {cwd})")
        }
        Err(_) => format!("{name} (pid {pid})"),
    }
}

/// Returns the inode of the socket that listens on a port, from a table of the kernel.
fn inode(table: &str, port: u16) -> Option<String> {
    const LISTENS: &str = "0A";
    let end = format!(":{port:04X}");
    table.lines().skip(1).find_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let (local, state, inode) = (fields.get(1)?, fields.get(3)?, fields.get(9)?);
        (local.ends_with(&end) && *state == LISTENS).then(|| (*inode).to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_holder_of_a_port_is_found() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let said = holder(address).unwrap();
        assert!(said.contains(&format!("(pid {}, in ", std::process::id())), "{said}");
        drop(listener);
        assert_eq!(holder(address), None);
    }

    #[test]
    fn only_what_listens_counts() {
        let line = |number: u8, state: &str, inode: u8| {
            let (here, rest) = ("0100007F:1F90", "00:00000000 00000000 1000 0");
            format!("{number}: {here} 00000000:0000 {state} 00000000:00000000 {rest} {inode} 1\n")
        };
        let table = format!("sl local_address\n{}{}", line(0, "01", 11), line(1, "0A", 22));
        assert_eq!(inode(&table, 8080), Some("22".to_owned()));
        assert_eq!(inode(&table, 80), None);
    }
}
