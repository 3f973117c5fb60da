//! The server's side of the SOCKS5 handshake, with quirks.

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// The protocol's version (RFC 1928 3).
const VERSION: u8 = 5;

/// The version of the login's own messages (RFC 1929 2).
const LOGIN_VERSION: u8 = 1;

const NO_LOGIN: u8 = 0;

const USER_PASSWORD: u8 = 2;

/// None of the offered methods is accepted.
const NO_ACCEPTABLE_METHOD: u8 = 0xff;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SocksTarget {
    /// An address that the client resolved.
    Ip(IpAddr, u16),
    /// A name for the proxy to resolve.
    Name(String, u16),
}

impl fmt::Display for SocksTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ip(IpAddr::V6(ip), port) => write!(f, "[{ip}]:{port}"),
            Self::Ip(ip, port) => write!(f, "{ip}:{port}"),
            Self::Name(name, port) => write!(f, "{name}:{port}"),
        }
    }
}

#[derive(Debug, Clone, Default)]
pub struct SocksRequest {
    pub offered_methods: Vec<u8>,
    /// The user and the password.
    pub login: Option<(String, String)>,
    pub target: Option<SocksTarget>,
}

/// How a proxy departs from the standard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SocksQuirk {
    /// Refuses every target with this code (RFC 1928 6).
    RefuseWith(u8),
    AcceptNoMethod,
    /// Replies to the greeting with another version.
    WrongVersion,
    /// Replies with an IPv6 address as the one that it connects from.
    BoundToIpv6,
    /// Replies with a name as the address that it connects from.
    BoundToName,
    /// Replies one byte at a time.
    Trickle,
    /// Closes the connection after the request.
    CloseOnRequest,
    /// Never sends anything.
    Silent,
}

#[derive(Debug)]
pub(super) struct SocksHandshake {
    /// The client's connection, until it is relayed.
    stream: TcpStream,
    /// How the proxy departs from the standard.
    quirk: Option<SocksQuirk>,
}

impl SocksHandshake {
    pub(super) fn new(stream: TcpStream, quirk: Option<SocksQuirk>) -> Self {
        Self { stream, quirk }
    }

    pub(super) fn into_stream(self) -> TcpStream {
        self.stream
    }

    /// Negotiates a method, and checks the login if one is required. Returns false if the client was refused.
    pub(super) async fn agree_on_method(
        &mut self,
        login: Option<&(String, String)>,
        request: &mut SocksRequest,
    ) -> io::Result<bool> {
        self.expect_byte(VERSION).await?;
        request.offered_methods = self.read_counted().await?;
        let wanted = if login.is_some() {
            USER_PASSWORD
        } else {
            NO_LOGIN
        };
        let offered = request.offered_methods.contains(&wanted)
            && !self.has_quirk(&SocksQuirk::AcceptNoMethod);
        let version = if self.has_quirk(&SocksQuirk::WrongVersion) {
            VERSION - 1
        } else {
            VERSION
        };
        let method = if offered {
            wanted
        } else {
            NO_ACCEPTABLE_METHOD
        };
        self.write(&[version, method]).await?;
        match login {
            Some(login) if offered => self.check_login(login, request).await,
            _ => Ok(offered),
        }
    }

    async fn check_login(
        &mut self,
        login: &(String, String),
        request: &mut SocksRequest,
    ) -> io::Result<bool> {
        self.expect_byte(LOGIN_VERSION).await?;
        let (user, password) = (self.read_counted().await?, self.read_counted().await?);
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        let given = (text(user), text(password));
        let right = given == *login;
        request.login = Some(given);
        self.write(&[LOGIN_VERSION, u8::from(!right)]).await?;
        Ok(right)
    }

    /// Reads the request and returns its target.
    pub(super) async fn read_target(&mut self) -> io::Result<SocksTarget> {
        self.expect_byte(VERSION).await?;
        // CONNECT, and a reserved byte.
        self.expect_byte(1).await?;
        self.expect_byte(0).await?;
        let kind = self.stream.read_u8().await?;
        let ip = match kind {
            1 => IpAddr::V4(Ipv4Addr::from_bits(self.stream.read_u32().await?)),
            4 => IpAddr::V6(Ipv6Addr::from_bits(self.stream.read_u128().await?)),
            3 => {
                let name = String::from_utf8_lossy(&self.read_counted().await?).into_owned();
                let port = self.stream.read_u16().await?;
                return self.unless_closed_on_request(SocksTarget::Name(name, port));
            }
            _ => return Err(io::ErrorKind::InvalidData.into()),
        };
        let port = self.stream.read_u16().await?;
        self.unless_closed_on_request(SocksTarget::Ip(ip, port))
    }

    fn unless_closed_on_request(&self, target: SocksTarget) -> io::Result<SocksTarget> {
        if self.has_quirk(&SocksQuirk::CloseOnRequest) {
            return Err(io::ErrorKind::ConnectionAborted.into());
        }
        Ok(target)
    }

    /// Replies with success, and appends the banner.
    pub(super) async fn accept(&mut self, banner: &[u8]) -> io::Result<()> {
        let bound: &[u8] = match self.quirk {
            Some(SocksQuirk::BoundToIpv6) => &[4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1],
            Some(SocksQuirk::BoundToName) => b"\x03\x0aproxy.test",
            _ => &[1, 127, 0, 0, 1],
        };
        self.write(&[&[VERSION, 0, 0], bound, &[0x12, 0x34], banner].concat())
            .await
    }

    /// Refuses the target.
    pub(super) async fn refuse(&mut self, code: u8) -> io::Result<()> {
        self.write(&[VERSION, code, 0, 1, 0, 0, 0, 0, 0, 0]).await?;
        self.close().await
    }

    /// Closes the connection so that the reply arrives, whatever the client still sends.
    pub(super) async fn close(&mut self) -> io::Result<()> {
        self.stream.shutdown().await?;
        let mut sink = [0; 256];
        while self.stream.read(&mut sink).await? > 0 {}
        Ok(())
    }

    fn has_quirk(&self, quirk: &SocksQuirk) -> bool {
        self.quirk.as_ref() == Some(quirk)
    }

    async fn expect_byte(&mut self, byte: u8) -> io::Result<()> {
        if self.stream.read_u8().await? == byte {
            return Ok(());
        }
        Err(io::ErrorKind::InvalidData.into())
    }

    /// Reads a length byte and so many bytes after it.
    async fn read_counted(&mut self) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; self.stream.read_u8().await?.into()];
        self.stream.read_exact(&mut bytes).await?;
        Ok(bytes)
    }

    async fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self.quirk {
            Some(SocksQuirk::Silent) => {
                // Until the client gives up.
                while self.stream.read_u8().await.is_ok() {}
                Err(io::ErrorKind::UnexpectedEof.into())
            }
            Some(SocksQuirk::Trickle) => {
                for byte in bytes {
                    self.stream.write_all(&[*byte]).await?;
                    tokio::task::yield_now().await;
                }
                Ok(())
            }
            _ => self.stream.write_all(bytes).await,
        }
    }
}
