//! SOCKS5 (RFC 1928) with user name and password (RFC 1929).

use std::io;
use std::net::IpAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use url::Url;

use crate::error::proxy_refusal::socks_reply_error;
use crate::error::{Error, Kind};
use crate::proxy::Proxy;
use crate::target::Target;
use crate::transport::TransportStream;

const VERSION: u8 = 5;
const NO_AUTH: u8 = 0;
const PASSWORD: u8 = 2;

/// Asks a proxy to connect to a target.
pub(super) async fn open_tunnel(
    mut stream: TransportStream,
    target: &Target,
    proxy: &Proxy,
    url: &Url,
) -> Result<TransportStream, Error> {
    let done = handshake(&mut stream, target, proxy).await;
    match done {
        Ok(()) => Ok(stream),
        Err(SocksError::Auth) => Err(Error::new(Kind::ProxyAuth(None), url)),
        Err(SocksError::Reply(code)) => {
            Err(Error::new(Kind::ProxyRefused(None), url).with_source(socks_reply_error(code)))
        }
        // Its text would say no more.
        Err(SocksError::Io(error)) if error.kind() == io::ErrorKind::InvalidData => {
            Err(Error::new(Kind::NotSocks, url))
        }
        Err(SocksError::Io(error)) => Err(Error::new(Kind::Closed, url).with_source(error)),
    }
}

/// Why a proxy did not connect us.
enum SocksError {
    /// It wants credentials, or others.
    Auth,
    /// Its reply's code.
    Reply(u8),
    /// The connection broke, or it speaks something else.
    Io(io::Error),
}

impl From<io::Error> for SocksError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

async fn handshake(
    stream: &mut TransportStream,
    target: &Target,
    proxy: &Proxy,
) -> Result<(), SocksError> {
    let methods: &[u8] = if proxy.login.is_some() {
        &[VERSION, 2, NO_AUTH, PASSWORD]
    } else {
        &[VERSION, 1, NO_AUTH]
    };
    stream.write_all(methods).await?;
    stream.flush().await?;
    let mut chosen = [0; 2];
    stream.read_exact(&mut chosen).await?;
    match (chosen, &proxy.login) {
        ([VERSION, NO_AUTH], _) => {}
        ([VERSION, PASSWORD], Some(login)) => {
            let mut message = vec![1];
            push_with_length(&mut message, login.user.as_bytes())?;
            push_with_length(&mut message, login.password.expose().as_bytes())?;
            stream.write_all(&message).await?;
            stream.flush().await?;
            let mut answer = [0; 2];
            stream.read_exact(&mut answer).await?;
            if answer[1] != 0 {
                return Err(SocksError::Auth);
            }
        }
        ([VERSION, _], _) => return Err(SocksError::Auth),
        _ => return Err(io::Error::from(io::ErrorKind::InvalidData).into()),
    }
    connect(stream, target).await
}

async fn connect(stream: &mut TransportStream, target: &Target) -> Result<(), SocksError> {
    let mut request = vec![VERSION, 1, 0];
    match target.host.parse() {
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
            push_with_length(&mut request, target.host.as_bytes())?;
        }
    }
    request.extend(target.port.to_be_bytes());
    stream.write_all(&request).await?;
    stream.flush().await?;
    let mut reply = [0; 4];
    stream.read_exact(&mut reply).await?;
    if reply[0] != VERSION {
        return Err(io::Error::from(io::ErrorKind::InvalidData).into());
    }
    if reply[1] != 0 {
        return Err(SocksError::Reply(reply[1]));
    }
    // The address it is bound to, of no use here, must be read to its last byte: what follows is the target's.
    let length = match reply[3] {
        1 => 4,
        4 => 16,
        3 => usize::from(stream.read_u8().await?),
        _ => return Err(io::Error::from(io::ErrorKind::InvalidData).into()),
    };
    let mut bound = [0; 257];
    stream.read_exact(&mut bound[..length + 2]).await?;
    Ok(())
}

/// A length byte and that many bytes.
fn push_with_length(message: &mut Vec<u8>, text: &[u8]) -> io::Result<()> {
    let length =
        u8::try_from(text.len()).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
    message.push(length);
    message.extend(text);
    Ok(())
}
