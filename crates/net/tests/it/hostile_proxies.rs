//! Hostile proxies: replies to CONNECT and SOCKS5 composed of valid parts in any order, sent in pieces of any size.
//!
//! The proxy sends its reply whatever the request is, and closes its end: nothing may hang, and the result of the connector is compared
//! with a model.

use std::time::Duration;

use haul_lab::within;
use haul_net::{Client, ClientConfig, Error, Kind, Target};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestCaseResult, TestRunner};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use url::Url;

use crate::client;

/// The time limit for reading one reply.
const LIMIT: Duration = Duration::from_secs(10);

/// Cases of each property: each is a connection.
const CASES: u32 = 96;

/// A client, and the runtime for it and the proxies.
struct ProxyBench {
    runtime: Runtime,
    client: Client,
}

impl ProxyBench {
    fn new() -> Self {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        Self {
            runtime: builder.enable_all().build().unwrap(),
            client: client(ClientConfig::default()),
        }
    }

    /// Runs a property.
    #[track_caller]
    fn check<S: Strategy>(&self, strategy: &S, test: impl Fn(S::Value) -> TestCaseResult) {
        let config = Config {
            source_file: Some(file!()),
            ..Config::with_cases(CASES)
        };
        if let Err(error) = TestRunner::new(config).run(strategy, test) {
            panic!("{error}");
        }
    }

    /// Connects through a proxy that sends this reply in pieces of this size. Returns the bytes that follow the success reply.
    fn connect_through(
        &self,
        scheme: &str,
        (reply, piece): (&[u8], usize),
    ) -> Result<Vec<u8>, Error> {
        self.runtime.block_on(within(LIMIT, async {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = listener.local_addr().unwrap();
            let proxy_side = async {
                let (mut peer, _) = listener.accept().await.unwrap();
                let (mut reader, mut writer) = peer.split();
                let send_reply = async {
                    for piece in reply.chunks(piece) {
                        // The client closes when it has read enough.
                        if writer.write_all(piece).await.is_err() {
                            break;
                        }
                        tokio::task::yield_now().await;
                    }
                    let _ = writer.shutdown().await;
                };
                // The request is read to its end: if the proxy closed before, the connection would be reset and the reply lost.
                let mut request = Vec::new();
                let _ = tokio::join!(send_reply, reader.read_to_end(&mut request));
            };
            let client_side = async {
                let proxy = format!("{scheme}://{address}").parse().unwrap();
                let url = Url::parse("http://far.test/").unwrap();
                let target = Target {
                    host: "far.test".into(),
                    port: 22,
                };
                let connector = self.client.connector();
                let mut connected = connector.connect(&target, &[&proxy], &url).await?;
                let mut rest = Vec::new();
                connected.stream.read_to_end(&mut rest).await.unwrap();
                Ok(rest)
            };
            tokio::join!(proxy_side, client_side).1
        }))
    }
}

/// The replies of a SOCKS5 proxy, in which any byte may be wrong.
fn any_socks_reply() -> impl Strategy<Value = Vec<u8>> {
    let version = || prop_oneof![12 => Just(5u8), 1 => any::<u8>()];
    let success = || prop_oneof![12 => Just(0u8), 1 => any::<u8>()];
    let kind = prop_oneof![4 => Just(1u8), 4 => Just(3), 4 => Just(4), 1 => any::<u8>()];
    let rest = prop::collection::vec(any::<u8>(), 0..64);
    (
        version(),
        success(),
        version(),
        success(),
        any::<u8>(),
        kind,
        rest,
    )
        .prop_map(|(method, chosen, reply, code, reserved, kind, rest)| {
            let mut reply = vec![method, chosen, reply, code, reserved, kind];
            reply.extend(rest);
            reply
        })
}

/// The bytes after a SOCKS5 success reply (RFC 1928), or nothing if the reply is not one.
fn bytes_after_socks_success(reply: &[u8]) -> Option<&[u8]> {
    let (head, rest) = reply.split_at_checked(6)?;
    let [5, 0, 5, 0, _, kind] = *head else {
        return None;
    };
    let address = match kind {
        1 => 4,
        3 => 1 + usize::from(*rest.first()?),
        4 => 16,
        _ => return None,
    };
    rest.get(address + 2..)
}

#[test]
fn e2_socks_replies_are_read_exactly_to_their_last_byte() {
    let bench = ProxyBench::new();
    bench.check(&(any_socks_reply(), 1usize..80), |(reply, piece)| {
        let found = bench.connect_through("socks5h", (&reply, piece));
        let expected = bytes_after_socks_success(&reply);
        prop_assert_eq!(found.as_deref().ok(), expected, "{:?}", found);
        Ok(())
    });
}

#[test]
fn e3_socks_replies_that_end_early_are_refused() {
    let bench = ProxyBench::new();
    let whole = [&[5, 0, 5, 0, 0, 3, 4][..], b"host", &[0, 80]].concat();
    for end in 0..whole.len() {
        assert!(
            bench
                .connect_through("socks5h", (&whole[..end], 80))
                .is_err()
        );
    }
    assert_eq!(bench.connect_through("socks5h", (&whole, 1)).unwrap(), b"");
}

#[derive(Debug, Clone)]
struct ConnectResponse {
    /// The statuses of the 1xx responses before it.
    interim: Vec<u16>,
    status: u16,
    /// The reason phrase, then header lines that must not matter here.
    lines: Vec<String>,
    /// The line ending.
    eol: &'static str,
    /// Bytes of the target that follow the head at once.
    early: Vec<u8>,
}

impl ConnectResponse {
    fn to_bytes(&self) -> Vec<u8> {
        let Self { eol, status, .. } = self;
        let interim = self.interim.iter();
        let mut heads: Vec<String> = interim
            .map(|status| format!("HTTP/1.1 {status} Wait{eol}X: y{eol}{eol}"))
            .collect();
        let lines = self.lines.join(eol);
        heads.push(format!("HTTP/1.1 {status} {lines}{eol}{eol}"));
        [heads.concat().as_bytes(), &self.early].concat()
    }
}

const LINES: &[&str] = &[
    "Connection established",
    "Via: 1.1 x",
    "Content-Length: 5",
    "Content-Length: 99999999999999999999",
    "Transfer-Encoding: chunked",
    "Connection: close",
    "X-Empty:",
    "Proxy-Agent: é",
];

fn any_connect_response() -> impl Strategy<Value = ConnectResponse> {
    let eol = prop_oneof![3 => Just("\r\n"), 1 => Just("\n")];
    let interim = prop::collection::vec(100u16..200, 0..20);
    let interim = prop_oneof![3 => Just(Vec::new()), 1 => interim];
    let status = prop_oneof![2 => 200u16..300, 1 => 300u16..600];
    let lines = prop::collection::vec(prop::sample::select(LINES).prop_map(str::to_owned), 1..6);
    let early = prop::collection::vec(any::<u8>(), 0..64);
    (interim, status, lines, eol, early).prop_map(|(interim, status, lines, eol, early)| {
        ConnectResponse {
            interim,
            status,
            lines,
            eol,
            early,
        }
    })
}

#[test]
fn e1_e2_e3_the_connect_status_decides_and_no_byte_is_lost() {
    let bench = ProxyBench::new();
    bench.check(
        &(any_connect_response(), 1usize..200),
        |(response, piece)| {
            let found = bench.connect_through("http", (&response.to_bytes(), piece));
            // The connector gives up after sixteen 1xx responses.
            let accepted = response.interim.len() < 16 && (200..300).contains(&response.status);
            prop_assert_eq!(
                found.as_ref().ok(),
                accepted.then_some(&response.early),
                "{:?}",
                found
            );
            if let (true, Err(error)) = (response.interim.is_empty(), &found) {
                let is_right = match error.kind() {
                    Kind::ProxyRefused(Some(status)) => status.as_u16() == response.status,
                    // 401 is another way to say 407.
                    Kind::ProxyAuth(_) => matches!(response.status, 401 | 407),
                    _ => false,
                };
                prop_assert!(is_right, "{error:?}");
            }
            Ok(())
        },
    );
}

const JUNK: &[&str] = &[
    "HTTP/1.1 ",
    "HTTP/1.0",
    "HTTP/2 ",
    "SSH-2.0-x",
    "200",
    " 100",
    " 407",
    " 99",
    " OK",
    "\r\n",
    "\n",
    "\r",
    "\r\n\r\n",
    ":",
    " ",
    "Proxy-Authenticate: ",
    "Digest realm=\"",
    "Basic",
    "\u{0}",
    "é",
    "Content-Length: -1",
    "\t",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
];

#[test]
fn e3_no_proxy_reply_hangs_or_adds_bytes() {
    let bench = ProxyBench::new();
    let junk = prop::collection::vec(prop::sample::select(JUNK), 0..16);
    bench.check(&(junk, 1usize..40), |(pieces, piece)| {
        let reply = pieces.concat();
        if let Ok(rest) = bench.connect_through("http", (reply.as_bytes(), piece)) {
            prop_assert!(
                reply.starts_with("HTTP/1.") && reply.as_bytes().ends_with(&rest),
                "{:?}",
                reply
            );
        }
        Ok(())
    });
}

#[test]
fn e3_an_endless_response_head_is_refused() {
    let bench = ProxyBench::new();
    let reply = "HTTP/1.1 200 OK\r\n".to_owned() + &"X: y\r\n".repeat(20_000);
    let error = bench
        .connect_through("http", (reply.as_bytes(), 4096))
        .unwrap_err();
    assert_eq!(*error.kind(), Kind::Protocol);
}
