//! Pages over a simulated network.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Mutex;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use super::*;
use crate::outbound::net::Later;

/// A simulated network: names with the results of successive lookups, and one server behind all
/// public addresses.
#[derive(Default)]
struct Made {
    names: Mutex<BTreeMap<&'static str, VecDeque<Vec<IpAddr>>>>,
    server: Option<SocketAddr>,
    /// The addresses that were connected to.
    connected: Mutex<Vec<IpAddr>>,
}

impl Net for Made {
    fn addresses<'a>(&'a self, host: &'a str) -> Later<'a, Vec<IpAddr>> {
        let mut names = self.names.lock().unwrap();
        let answers = names.get_mut(host);
        let answer = answers.and_then(|it| match it.len() {
            1 => it.front().cloned(),
            _ => it.pop_front(),
        });
        Box::pin(std::future::ready(answer.ok_or(io::ErrorKind::NotFound.into())))
    }

    fn connect(&self, to: SocketAddr) -> Later<'_, TcpStream> {
        self.connected.lock().unwrap().push(to.ip());
        Box::pin(async move {
            let real = self.server.ok_or(io::ErrorKind::ConnectionRefused)?;
            TcpStream::connect(real).await
        })
    }
}

const PUBLIC: &str = "93.184.216.34";

fn ips(all: &[&str]) -> Vec<IpAddr> {
    all.iter().map(|it| it.parse().unwrap()).collect()
}

/// Returns a network in which `page.test` and `other.test` are public, with a server that responds
/// by path; and what it receives.
async fn made(answer: fn(&str) -> Vec<u8>) -> (Made, Arc<Mutex<Vec<Vec<u8>>>>, JoinSet<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let made = Made { server: Some(listener.local_addr().unwrap()), ..Made::default() };
    for name in ["page.test", "other.test"] {
        made.names.lock().unwrap().insert(name, [ips(&[PUBLIC])].into());
    }
    let heard: Arc<Mutex<Vec<Vec<u8>>>> = Arc::default();
    let (mut served, hears) = (JoinSet::new(), Arc::clone(&heard));
    served.spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut bytes = vec![0; 8 * 1024];
            let count = stream.read(&mut bytes).await.unwrap();
            bytes.truncate(count);
            let head = String::from_utf8_lossy(&bytes).into_owned();
            let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
            hears.lock().unwrap().push(bytes);
            // The client may close the connection early.
            if stream.write_all(&answer(&path)).await.is_ok() {
                stream.shutdown().await.ok();
            }
        }
    });
    (made, heard, served)
}

fn page(media_type: &str, body: &[u8]) -> Vec<u8> {
    let head = format!("HTTP/1.1 200 OK\r\ncontent-type: {media_type}\r\n\r\n");
    [head.as_bytes(), body].concat()
}

fn leads(to: &str) -> Vec<u8> {
    format!("HTTP/1.1 302 Found\r\nlocation: {to}\r\ncontent-length: 0\r\n\r\n").into_bytes()
}

async fn get(net: &Made, url: &str) -> Result<Fetched> {
    let tls = Arc::new(crate::outbound::tls::config().unwrap());
    fetch(net, tls, &url.parse().unwrap(), &|host| host == "open.test").await
}

#[tokio::test]
async fn a_page_is_fetched_without_anything_of_the_site() {
    let (net, heard, _served) = made(|_| page("Text/HTML; charset=utf-8", "<p>ü".as_bytes())).await;
    let Fetched::Page(page) = get(&net, "http://page.test/a?b").await.unwrap() else { panic!() };
    assert_eq!((page.media_type.as_str(), page.text.as_str()), ("text/html", "<p>ü"));
    assert!(!page.is_cut);
    let asked = String::from_utf8(heard.lock().unwrap()[0].clone()).unwrap();
    assert!(asked.starts_with("GET /a?b HTTP/1.1\r\nhost: page.test\r\n"), "{asked}");
    for never in ["cookie", "authorization", "referer"] {
        assert!(!asked.to_ascii_lowercase().contains(never), "{asked}");
    }
    assert_eq!(*net.connected.lock().unwrap(), ips(&[PUBLIC]));
}

/// Fails with `WB_WITHOUT=public_address`.
#[tokio::test]
async fn what_is_not_public_is_not_connected_to() {
    let (net, heard, _served) = made(|_| page("text/plain", b"secret")).await;
    for (name, answer) in [
        ("inside.test", &["10.0.0.7"][..]),
        ("mixed.test", &[PUBLIC, "127.0.0.1"]),
        ("cloud.test", &["169.254.169.254"]),
        ("mapped.test", &["::ffff:192.168.0.1"]),
    ] {
        net.names.lock().unwrap().insert(name, [ips(answer)].into());
    }
    for url in [
        "http://inside.test/",
        "http://mixed.test/",
        "https://cloud.test/",
        "http://mapped.test/",
        "http://127.0.0.1/",
        "http://169.254.169.254/latest/meta-data/",
        "http://[::1]/",
        "http://[::ffff:7f00:1]/",
        "http://[64:ff9b::a00:1]/",
        "http://0.0.0.0/",
    ] {
        let refused = get(&net, url).await.unwrap_err();
        assert_eq!(refused.code_str(), "address_refused", "{url}");
        let said = refused.message().to_owned();
        assert!(!said.contains("10.0.0.7"), "what a name leads to inside is not told: {said}");
    }
    assert!(net.connected.lock().unwrap().is_empty() && heard.lock().unwrap().is_empty());
}

/// The first answer of a name server is public, the next one is not.
#[tokio::test]
async fn a_name_that_changes_its_mind_leads_nowhere() {
    let (net, _heard, _served) = made(|path| match path {
        "/again" => leads("http://rebinding.test/inside"),
        _ => page("text/plain", b"secret"),
    })
    .await;
    let answers = [ips(&[PUBLIC]), ips(&["127.0.0.1"])];
    net.names.lock().unwrap().insert("rebinding.test", answers.clone().into());
    let refused = get(&net, "http://rebinding.test/again").await.unwrap_err();
    assert_eq!(refused.code_str(), "address_refused");
    // The name is looked up once, and the connection goes to that result.
    net.names.lock().unwrap().insert("rebinding.test", answers.into());
    get(&net, "http://rebinding.test/").await.unwrap();
    assert_eq!(*net.connected.lock().unwrap(), ips(&[PUBLIC, PUBLIC]));
    assert_eq!(net.names.lock().unwrap()["rebinding.test"].len(), 1);
}

#[tokio::test]
async fn a_redirect_is_checked_like_the_first_address() {
    let (net, heard, _served) = made(|path| match path {
        "/same" => leads("/end"),
        "/open" => leads("http://open.test/end"),
        "/foreign" => leads("http://other.test/end"),
        "/inside" => leads("http://page.test:443/x"),
        "/loop" => leads("/loop"),
        "/port" => leads("http://page.test:22/"),
        "/file" => leads("file:///etc/passwd"),
        "/literal" => leads("http://127.0.0.1/"),
        "/none" => b"HTTP/1.1 302 Found\r\ncontent-length: 0\r\n\r\n".to_vec(),
        _ => page("text/plain", b"end"),
    })
    .await;
    net.names.lock().unwrap().insert("open.test", [ips(&["10.0.0.1"])].into());
    let Fetched::Page(at) = get(&net, "http://page.test/same").await.unwrap() else { panic!() };
    assert_eq!((at.url.target(), at.text.as_str()), ("/end", "end"));
    let count = heard.lock().unwrap().len();
    for url in ["/foreign", "/literal"] {
        let it = get(&net, &format!("http://page.test{url}")).await.unwrap();
        assert!(matches!(it, Fetched::Elsewhere(_)), "{url}: {it:?}");
    }
    assert_eq!(heard.lock().unwrap().len(), count + 2, "nothing was asked there");
    for (path, code) in [
        ("/open", "address_refused"),
        ("/loop", "bad_redirect"),
        ("/port", "bad_redirect"),
        ("/file", "bad_redirect"),
        ("/none", "bad_redirect"),
    ] {
        let refused = get(&net, &format!("http://page.test{path}")).await.unwrap_err();
        assert_eq!(refused.code_str(), code, "{path}");
    }
}

#[tokio::test]
async fn only_text_is_read_and_not_more_of_it_than_the_bound() {
    let (net, _heard, _served) = made(|path| match path {
        "/long" => page("text/plain", &vec![b'x'; PAGE_BYTES_MAX + 10]),
        "/whole" => page("text/plain", &vec![b'x'; PAGE_BYTES_MAX]),
        "/latin" => page("text/plain; charset=ISO-8859-1", b"\xfc"),
        "/none" => b"HTTP/1.1 200 OK\r\n\r\nplain".to_vec(),
        "/bytes" => page("text/plain", b"a\0b"),
        "/image" => page("image/png", b"x"),
        "/zip" => b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-encoding: gzip\r\n\r\nx"
            .to_vec(),
        "/head" => [b"HTTP/1.1 200 OK\r\nx: ".to_vec(), vec![b'x'; HEAD_BYTES_MAX * 2]].concat(),
        "/odd" => b"SSH-2.0-OpenSSH\r\n".to_vec(),
        _ => b"HTTP/1.1 404 No\r\ncontent-length: 0\r\n\r\n".to_vec(),
    })
    .await;
    let text = async |path: &str| {
        let fetched = get(&net, &format!("http://page.test{path}")).await;
        match fetched.unwrap() {
            Fetched::Page(page) => (page.text, page.is_cut),
            Fetched::Elsewhere(to) => panic!("{to}"),
        }
    };
    assert_eq!(text("/long").await, ("x".repeat(PAGE_BYTES_MAX), true));
    assert_eq!(text("/whole").await, ("x".repeat(PAGE_BYTES_MAX), false));
    assert_eq!(text("/latin").await.0, "ü");
    assert_eq!(text("/none").await.0, "plain");
    for (path, code) in [
        ("/bytes", "not_text"),
        ("/image", "not_text"),
        ("/zip", "not_text"),
        ("/head", "unreachable"),
        ("/odd", "unreachable"),
        ("/gone", "page_status"),
    ] {
        let refused = get(&net, &format!("http://page.test{path}")).await.unwrap_err();
        assert_eq!(refused.code_str(), code, "{path}");
    }
    assert_eq!(get(&net, "http://none.test/").await.unwrap_err().code_str(), "unreachable");
}

/// TLS verifies the name, and nothing is sent if that fails.
#[tokio::test]
async fn tls_is_of_the_name() {
    let (net, heard, _served) = made(|_| b"HTTP/1.1 200 OK\r\n\r\n".to_vec()).await;
    let refused = get(&net, "https://page.test/secret").await.unwrap_err();
    assert_eq!(refused.code_str(), "unreachable");
    let heard = heard.lock().unwrap();
    let holds = |word: &[u8]| heard[0].windows(word.len()).any(|it| it == word);
    assert!(holds(b"page.test") && !holds(b"secret") && !holds(b"HTTP/1"));
}

#[tokio::test(start_paused = true)]
async fn a_page_that_does_not_come_is_not_waited_for() {
    struct Silent;
    impl Net for Silent {
        fn addresses<'a>(&'a self, _host: &'a str) -> Later<'a, Vec<IpAddr>> {
            Box::pin(std::future::ready(Ok(ips(&[PUBLIC; 9]))))
        }
        fn connect(&self, _to: SocketAddr) -> Later<'_, TcpStream> {
            Box::pin(std::future::pending())
        }
    }
    let tls = Arc::new(crate::outbound::tls::config().unwrap());
    let url = "http://page.test/".parse().unwrap();
    let refused = fetch(&Silent, tls, &url, &|_| false).await.unwrap_err();
    assert_eq!(refused.code_str(), "unreachable");
}
