//! Name resolution and connections: those of the system, or simulated ones in tests.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;

use tokio::net::TcpStream;

/// A boxed future.
pub(super) type Later<'a, T> = Pin<Box<dyn Future<Output = io::Result<T>> + Send + 'a>>;

/// A network: resolves names and connects.
pub(super) trait Net: Send + Sync {
    /// Returns the addresses of a name.
    fn addresses<'a>(&'a self, host: &'a str) -> Later<'a, Vec<IpAddr>>;

    /// Connects to an address, and refuses those of this machine, on any interface.
    fn connect(&self, to: SocketAddr) -> Later<'_, TcpStream>;
}

/// This machine.
struct System;

impl Net for System {
    fn addresses<'a>(&'a self, host: &'a str) -> Later<'a, Vec<IpAddr>> {
        Box::pin(async move {
            // The port is only required by the function.
            Ok(tokio::net::lookup_host((host, 0)).await?.map(|it| it.ip()).collect())
        })
    }

    fn connect(&self, to: SocketAddr) -> Later<'_, TcpStream> {
        Box::pin(async move {
            let stream = TcpStream::connect(to).await?;
            // A connection to the machine's own address comes from that same address.
            if stream.local_addr()?.ip() == stream.peer_addr()?.ip() {
                let message = "it is an address of this machine";
                return Err(io::Error::new(io::ErrorKind::PermissionDenied, message));
            }
            Ok(stream)
        })
    }
}

/// Returns the net of this process.
pub(super) fn net() -> Box<dyn Net> {
    #[cfg(feature = "faults")]
    if let Some(file) = std::env::var_os("WB_WEB") {
        return Box::new(played::Played { file: file.into() });
    }
    Box::new(System)
}

/// A test's network: each line of a file has a name, its supposed address, and the address to which
/// connections really go.
#[cfg(feature = "faults")]
mod played {
    use super::*;

    pub(super) struct Played {
        pub(super) file: std::path::PathBuf,
    }

    impl Played {
        fn lines(&self) -> io::Result<Vec<(String, IpAddr, Option<SocketAddr>)>> {
            let text = std::fs::read_to_string(&self.file)?;
            let line = |line: &str| {
                let mut words = line.split_whitespace();
                let (name, claimed) = (words.next()?.to_owned(), words.next()?.parse().ok()?);
                Some((name, claimed, words.next().and_then(|it| it.parse().ok())))
            };
            Ok(text.lines().filter_map(line).collect())
        }
    }

    impl Net for Played {
        fn addresses<'a>(&'a self, host: &'a str) -> Later<'a, Vec<IpAddr>> {
            Box::pin(async move {
                let lines = self.lines()?;
                Ok(lines.into_iter().filter(|it| it.0 == host).map(|it| it.1).collect())
            })
        }

        fn connect(&self, to: SocketAddr) -> Later<'_, TcpStream> {
            Box::pin(async move {
                let line = self.lines()?.into_iter().find(|it| it.1 == to.ip());
                let real = line.and_then(|it| it.2);
                TcpStream::connect(real.ok_or(io::ErrorKind::ConnectionRefused)?).await
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn this_machine_is_not_connected_to() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let refused = System.connect(listener.local_addr().unwrap()).await;
        assert_eq!(refused.unwrap_err().kind(), io::ErrorKind::PermissionDenied);
        assert!(System.addresses("localhost").await.unwrap().iter().all(IpAddr::is_loopback));
    }
}
