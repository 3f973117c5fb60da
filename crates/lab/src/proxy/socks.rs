//! A SOCKS5 proxy that records what it was asked, with a login and quirks (RFC 1928, RFC 1929).

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::net::TcpStream;

use super::socks_handshake::{SocksHandshake, SocksQuirk, SocksRequest};
use super::target::{HostMap, relay};
use crate::running_listener::{FirstPanic, RunningListener};

/// The code of a connection that was refused (RFC 1928 6).
const CONNECTION_REFUSED: u8 = 5;

/// How a SOCKS5 proxy is set up.
#[derive(Debug, Default)]
pub struct SocksProxyBuilder {
    /// What it is to its connections.
    script: SocksScript,
}

/// What a SOCKS5 proxy does with a connection.
#[derive(Debug, Default, Clone)]
struct SocksScript {
    /// Where names are.
    host_map: HostMap,
    /// User and password; without them it asks for none.
    login: Option<(String, String)>,
    /// What is odd about it.
    quirk: Option<SocksQuirk>,
    /// Written in the same packet as the consent, before anything of the target.
    banner: Vec<u8>,
}

impl SocksProxyBuilder {
    /// What is asked for as this host and port is at this address.
    #[must_use]
    pub fn route(mut self, target: &str, address: SocketAddr) -> Self {
        self.script.host_map.add(target, address);
        self
    }

    /// Asks for a user and a password.
    #[must_use]
    pub fn require_login(mut self, user: &str, password: &str) -> Self {
        self.script.login = Some((user.into(), password.into()));
        self
    }

    /// Makes it odd.
    #[must_use]
    pub fn quirk(mut self, quirk: SocksQuirk) -> Self {
        self.script.quirk = Some(quirk);
        self
    }

    /// Plays a target that speaks first, in the same packet as the proxy's consent.
    #[must_use]
    pub fn banner(mut self, bytes: &[u8]) -> Self {
        self.script.banner = bytes.into();
        self
    }

    /// Starts it on a free port of 127.0.0.1.
    ///
    /// # Panics
    /// When there is no free port.
    pub async fn start(self) -> SocksProxy {
        let asked = SocksRequestLog::default();
        let (script, record) = (Arc::new(self.script), Arc::clone(&asked));
        let serve = move |stream| {
            let (script, record) = (Arc::clone(&script), Arc::clone(&record));
            async move {
                // The client sees how it ends; nobody here is to be told.
                let _ = script.serve(stream, &record).await;
            }
        };
        let ip = IpAddr::V4(Ipv4Addr::LOCALHOST);
        SocksProxy {
            listener: RunningListener::start(ip, FirstPanic::default(), serve).await,
            request_log: asked,
        }
    }
}

/// Everything that was asked.
type SocksRequestLog = Arc<Mutex<Vec<SocksRequest>>>;

/// A running SOCKS5 proxy. Dropped, it closes all its connections.
#[derive(Debug)]
pub struct SocksProxy {
    /// Its tasks.
    listener: RunningListener,
    /// What its connections have recorded.
    request_log: SocksRequestLog,
}

impl SocksProxy {
    /// Begins to set one up.
    #[must_use]
    pub fn builder() -> SocksProxyBuilder {
        SocksProxyBuilder::default()
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.listener.address
    }

    /// Its URL under a scheme: `socks5` lets the client resolve names, `socks5h` the proxy.
    #[must_use]
    pub fn url(&self, scheme: &str) -> String {
        format!("{scheme}://{}", self.address())
    }

    /// Everything that was asked so far, in order: one entry for each connection that got as far as its login.
    #[must_use]
    pub fn requests(&self) -> Vec<SocksRequest> {
        self.request_log
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

impl SocksScript {
    async fn serve(&self, stream: TcpStream, record: &SocksRequestLog) -> io::Result<()> {
        let mut dialogue = SocksHandshake::new(stream, self.quirk.clone());
        let mut asked = SocksRequest::default();
        let agreed = dialogue
            .agree_on_method(self.login.as_ref(), &mut asked)
            .await;
        let place = {
            let mut entries = record.lock().unwrap_or_else(PoisonError::into_inner);
            entries.push(asked.clone());
            entries.len() - 1
        };
        if !agreed? {
            return dialogue.close().await;
        }
        let target = dialogue.read_target().await?;
        {
            let mut entries = record.lock().unwrap_or_else(PoisonError::into_inner);
            entries[place].target = Some(target.clone());
        }
        if let Some(SocksQuirk::RefuseWith(code)) = self.quirk {
            return dialogue.refuse(code).await;
        }
        let Ok(server) = self.host_map.connect(&target.to_string()).await else {
            return dialogue.refuse(CONNECTION_REFUSED).await;
        };
        dialogue.accept(&self.banner).await?;
        relay(dialogue.into_stream(), server, |_| ()).await
    }
}
