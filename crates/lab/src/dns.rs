//! A name server over UDP under a script (RFC 1035 section 4).

use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::net::UdpSocket;
use tokio::task::JoinSet;

/// The record type of IPv4 addresses.
const A: u16 = 1;

/// The record type of IPv6 addresses.
const AAAA: u16 = 28;

/// The response to a query for a name.
#[derive(Debug, Clone)]
pub enum DnsReply {
    /// Those of these addresses that have the queried type, with this time to live in seconds.
    Addresses(Vec<IpAddr>, u32),
    /// There is no such name.
    NxDomain,
    ServFail,
    /// The server does not respond.
    NoReply,
    /// Different responses to queries for IPv4 and for IPv6 addresses.
    ByFamily {
        /// The response to a query for IPv4 addresses.
        v4: Box<Self>,
        /// The response to a query for IPv6 addresses.
        v6: Box<Self>,
    },
}

/// A running name server. It stops when dropped.
#[derive(Debug)]
pub struct DnsServer {
    address: SocketAddr,
    queries: Arc<Mutex<Vec<(String, u16)>>>,
    _tasks: JoinSet<()>,
}

impl DnsServer {
    /// Starts a name server on a free port. `script` gets each name in lower case and without a trailing dot, and returns the response.
    ///
    /// # Panics
    /// When there is no free port.
    pub async fn start(script: impl Fn(&str) -> DnsReply + Send + 'static) -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").await.expect("a free port");
        let address = socket.local_addr().expect("a bound port");
        let queries = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&queries);
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let mut packet = [0; 1_500];
            while let Ok((length, from)) = socket.recv_from(&mut packet).await {
                let Some((name, kind, end)) = parse_question(&packet[..length]) else {
                    continue;
                };
                let reply = script(&name);
                log.lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .push((name, kind));
                if let Some(bytes) = encode_reply(&packet[..end], kind, reply) {
                    // The client may be gone.
                    let _ = socket.send_to(&bytes, from).await;
                }
            }
        });
        Self {
            address,
            queries,
            _tasks: tasks,
        }
    }

    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The names of the queries for IPv4 addresses, in order.
    #[must_use]
    pub fn queried_names(&self) -> Vec<String> {
        let queries = self.queries.lock().unwrap_or_else(PoisonError::into_inner);
        let names = queries.iter().filter(|(_, kind)| *kind == A);
        names.map(|(name, _)| name.clone()).collect()
    }
}

/// The name and the record type of a query, and the length of the packet up to the end of the question.
fn parse_question(packet: &[u8]) -> Option<(String, u16, usize)> {
    let (mut at, mut labels) = (12, Vec::new());
    loop {
        let length = usize::from(*packet.get(at)?);
        at += 1;
        if length == 0 {
            break;
        }
        labels.push(String::from_utf8_lossy(packet.get(at..at + length)?).to_lowercase());
        at += length;
    }
    let kind = u16::from_be_bytes([*packet.get(at)?, *packet.get(at + 1)?]);
    Some((labels.join("."), kind, at + 4)).filter(|_| packet.len() >= at + 4)
}

fn encode_reply(question: &[u8], kind: u16, reply: DnsReply) -> Option<Vec<u8>> {
    let (code, addresses, time_to_live) = match reply {
        DnsReply::NoReply => return None,
        DnsReply::ByFamily { v4, v6 } => {
            return encode_reply(question, kind, if kind == A { *v4 } else { *v6 });
        }
        DnsReply::Addresses(addresses, time_to_live) => (0, addresses, time_to_live),
        DnsReply::ServFail => (2, Vec::new(), 0),
        DnsReply::NxDomain => (3, Vec::new(), 0),
    };
    let data: Vec<Vec<u8>> = addresses
        .into_iter()
        .filter_map(|address| match address {
            IpAddr::V4(address) if kind == A => Some(address.octets().to_vec()),
            IpAddr::V6(address) if kind == AAAA => Some(address.octets().to_vec()),
            _ => None,
        })
        .collect();
    let count = u8::try_from(data.len()).expect("few addresses");
    let mut bytes = question[..2].to_vec();
    // A response, with recursion desired and available. One question, `count` answers, and no other records.
    bytes.extend([0x81, 0x80 | code, 0, 1, 0, count, 0, 0, 0, 0]);
    bytes.extend(&question[12..]);
    for data in data {
        // The name is that of the question.
        bytes.extend([0xc0, 12]);
        bytes.extend(kind.to_be_bytes());
        bytes.extend([0, 1]);
        bytes.extend(time_to_live.to_be_bytes());
        bytes.extend(
            u16::try_from(data.len())
                .expect("sixteen at most")
                .to_be_bytes(),
        );
        bytes.extend(data);
    }
    Some(bytes)
}
