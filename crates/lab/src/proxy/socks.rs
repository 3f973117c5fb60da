//! A SOCKS5 proxy that records requests, with an optional login and quirks (RFC 1928, RFC 1929).

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::net::TcpStream;

use super::socks_handshake::{SocksHandshake, SocksQuirk, SocksRequest};
use super::target::{HostMap, relay};
use crate::running_listener::{FirstPanic, RunningListener};

/// The code of a connection that was refused (RFC 1928 6).
const CONNECTION_REFUSED: u8 = 5;

#[derive(Debug, Default)]
pub struct SocksProxyBuilder {
    /// The behaviour towards its connections.
    script: SocksScript,
}

/// How a SOCKS5 proxy serves a connection.
#[derive(Debug, Default, Clone)]
struct SocksScript {
    /// The addresses of names.
    host_map: HostMap,
    /// The required user and password, if any.
    login: Option<(String, String)>,
    /// How it departs from the standard.
    quirk: Option<SocksQuirk>,
    /// Bytes in the same packet as the reply of success, before those of the target.
    banner: Vec<u8>,
}

impl SocksProxyBuilder {
    /// Connects requests for this host and port to this address.
    #[must_use]
    pub fn route(mut self, target: &str, address: SocketAddr) -> Self {
        self.script.host_map.add(target, address);
        self
    }

    #[must_use]
    pub fn require_login(mut self, user: &str, password: &str) -> Self {
        self.script.login = Some((user.into(), password.into()));
        self
    }

    /// Makes it depart from the standard.
    #[must_use]
    pub fn quirk(mut self, quirk: SocksQuirk) -> Self {
        self.script.quirk = Some(quirk);
        self
    }

    /// Acts as a target that speaks first, in the same packet as the proxy's reply.
    #[must_use]
    pub fn banner(mut self, bytes: &[u8]) -> Self {
        self.script.banner = bytes.into();
        self
    }

    /// Starts the proxy on a free port of 127.0.0.1.
    ///
    /// # Panics
    /// When there is no free port.
    pub async fn start(self) -> SocksProxy {
        let log = SocksRequestLog::default();
        let (script, record) = (Arc::new(self.script), Arc::clone(&log));
        let serve = move |stream| {
            let (script, record) = (Arc::clone(&script), Arc::clone(&record));
            async move {
                // The client sees how it ends; nobody here needs the error.
                let _ = script.serve(stream, &record).await;
            }
        };
        let ip = IpAddr::V4(Ipv4Addr::LOCALHOST);
        SocksProxy {
            listener: RunningListener::start(ip, FirstPanic::default(), serve).await,
            request_log: log,
        }
    }
}

type SocksRequestLog = Arc<Mutex<Vec<SocksRequest>>>;

/// A running SOCKS5 proxy. When dropped, it closes all its connections.
#[derive(Debug)]
pub struct SocksProxy {
    /// The tasks.
    listener: RunningListener,
    /// The requests of all connections.
    request_log: SocksRequestLog,
}

impl SocksProxy {
    #[must_use]
    pub fn builder() -> SocksProxyBuilder {
        SocksProxyBuilder::default()
    }

    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.listener.address
    }

    /// Its URL under a scheme: `socks5` lets the client resolve names, `socks5h` the proxy.
    #[must_use]
    pub fn url(&self, scheme: &str) -> String {
        format!("{scheme}://{}", self.address())
    }

    /// All requests so far, in order: one for each connection that sent its login or got past the greeting.
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
        let mut handshake = SocksHandshake::new(stream, self.quirk.clone());
        let mut request = SocksRequest::default();
        let agreed = handshake
            .agree_on_method(self.login.as_ref(), &mut request)
            .await;
        let index = {
            let mut entries = record.lock().unwrap_or_else(PoisonError::into_inner);
            entries.push(request.clone());
            entries.len() - 1
        };
        if !agreed? {
            return handshake.close().await;
        }
        let target = handshake.read_target().await?;
        {
            let mut entries = record.lock().unwrap_or_else(PoisonError::into_inner);
            entries[index].target = Some(target.clone());
        }
        if let Some(SocksQuirk::RefuseWith(code)) = self.quirk {
            return handshake.refuse(code).await;
        }
        let Ok(server) = self.host_map.connect(&target.to_string()).await else {
            return handshake.refuse(CONNECTION_REFUSED).await;
        };
        handshake.accept(&self.banner).await?;
        relay(handshake.into_stream(), server, |_| ()).await
    }
}
