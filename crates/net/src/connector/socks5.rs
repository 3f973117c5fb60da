//! SOCKS5 (RFC 1928) with user name and password (RFC 1929).
//!
//! It is written here because it is two round trips and a hundred lines, and because the reply must be read to its last byte and
//! not one further: the next byte is the target's.

use std::io;
use std::net::IpAddr;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use url::Url;

use crate::error::proxy_refusal::socks_reply_error;
use crate::error::{Error, Kind};
use crate::proxy::Proxy;
use crate::target::Target;
use crate::transport::TransportStream;
use crate::zone::without_zone;

const VERSION: u8 = 5;
const NO_AUTH: u8 = 0;
const PASSWORD: u8 = 2;

/// Lets a proxy connect to a target.
pub(super) async fn open_tunnel(
    mut stream: TransportStream,
    target: &Target,
    proxy: &Proxy,
    url: &Url,
) -> Result<TransportStream, Error> {
    let result = handshake(&mut stream, target, proxy).await;
    match result {
        Ok(()) => Ok(stream),
        Err(SocksHandshakeError::Auth) => Err(Error::new(Kind::ProxyAuth(None), url)),
        Err(SocksHandshakeError::Reply(code)) => {
            Err(Error::new(Kind::ProxyRefused(None), url).with_source(socks_reply_error(code)))
        }
        Err(SocksHandshakeError::NotSocks) => Err(Error::new(Kind::NotSocks, url)),
        Err(SocksHandshakeError::Io(error)) => {
            Err(Error::new(Kind::Closed, url).with_source(error))
        }
    }
}

/// Why a proxy did not connect.
enum SocksHandshakeError {
    /// The proxy asks for credentials, or for others.
    Auth,
    /// The code of a reply that is a refusal.
    Reply(u8),
    /// The peer speaks another protocol.
    NotSocks,
    Io(io::Error),
}

impl From<io::Error> for SocksHandshakeError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// For fuzz targets: whether the proxy connects to a target.
#[cfg(feature = "fuzzing")]
pub(crate) async fn handshake_succeeds(
    stream: &mut (impl AsyncRead + AsyncWrite + Unpin + Send),
    target: &Target,
    proxy: &Proxy,
) -> bool {
    handshake(stream, target, proxy).await.is_ok()
}

async fn handshake(
    stream: &mut (impl AsyncRead + AsyncWrite + Unpin + Send),
    target: &Target,
    proxy: &Proxy,
) -> Result<(), SocksHandshakeError> {
    let methods: &[u8] = if proxy.login.is_some() {
        &[VERSION, 2, NO_AUTH, PASSWORD]
    } else {
        &[VERSION, 1, NO_AUTH]
    };
    stream.write_all(methods).await?;
    stream.flush().await?;
    let mut method = [0; 2];
    stream.read_exact(&mut method).await?;
    match (method, &proxy.login) {
        ([VERSION, NO_AUTH], _) => {}
        ([VERSION, PASSWORD], Some(login)) => {
            let mut message = vec![1];
            push_with_length(&mut message, login.user.as_bytes())?;
            push_with_length(&mut message, login.password.expose().as_bytes())?;
            stream.write_all(&message).await?;
            stream.flush().await?;
            let mut status = [0; 2];
            stream.read_exact(&mut status).await?;
            if status[1] != 0 {
                return Err(SocksHandshakeError::Auth);
            }
        }
        ([VERSION, _], _) => return Err(SocksHandshakeError::Auth),
        _ => return Err(SocksHandshakeError::NotSocks),
    }
    connect(stream, target).await
}

async fn connect(
    stream: &mut (impl AsyncRead + AsyncWrite + Unpin + Send),
    target: &Target,
) -> Result<(), SocksHandshakeError> {
    let mut request = vec![VERSION, 1, 0];
    let host = without_zone(&target.host);
    match host.parse() {
        Ok(IpAddr::V4(address)) => {
            request.push(1);
            request.extend(address.octets());
        }
        Ok(IpAddr::V6(address)) => {
            request.push(4);
            request.extend(address.octets());
        }
        Err(_) => {
            request.push(3);
            push_with_length(&mut request, host.as_bytes())?;
        }
    }
    request.extend(target.port.to_be_bytes());
    stream.write_all(&request).await?;
    stream.flush().await?;
    let mut reply = [0; 4];
    stream.read_exact(&mut reply).await?;
    if reply[0] != VERSION {
        return Err(SocksHandshakeError::NotSocks);
    }
    if reply[1] != 0 {
        return Err(SocksHandshakeError::Reply(reply[1]));
    }
    // The address that the proxy is bound to is of no use here, but the target's bytes begin after it.
    let length = match reply[3] {
        1 => 4,
        4 => 16,
        3 => usize::from(stream.read_u8().await?),
        _ => return Err(SocksHandshakeError::NotSocks),
    };
    let mut bound = [0; 257];
    stream.read_exact(&mut bound[..length + 2]).await?;
    Ok(())
}

/// Appends a length byte and that many bytes.
fn push_with_length(message: &mut Vec<u8>, text: &[u8]) -> io::Result<()> {
    let length =
        u8::try_from(text.len()).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
    message.push(length);
    message.extend(text);
    Ok(())
}
