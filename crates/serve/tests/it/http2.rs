//! An HTTP/2 client on the `h2` crate.

pub(crate) mod frames;

use bytes::Bytes;
use haul_lab::within;
use http::{Request, Version};
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::client::{TestResponse, TestTransport, client_config};
use crate::harness::{LIMIT, NAME, TestServer};

/// A byte stream.
pub(crate) trait TestHttp2Stream: AsyncRead + AsyncWrite + Unpin + Send {}
impl<S: AsyncRead + AsyncWrite + Unpin + Send> TestHttp2Stream for S {}

/// Runs a future with a time limit.
pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(within(LIMIT, future))
}

pub(crate) struct TestHttp2Request<'a> {
    pub(crate) method: &'a str,
    pub(crate) path: &'a str,
    pub(crate) fields: &'a [(&'a str, &'a str)],
    pub(crate) body: Option<&'a [u8]>,
}

/// Sends a request on a new connection.
pub(crate) fn request(
    server: &TestServer,
    transport: TestTransport,
    request: &TestHttp2Request<'_>,
) -> Result<TestResponse, h2::Error> {
    block_on(async {
        let stream = connect(server, transport).await;
        let (sender, connection) = h2::client::handshake(stream).await?;
        tokio::select! {
            // The connection ends when all senders are dropped, and then the other branch has finished.
            ended = connection => panic!("the connection ended: {ended:?}"),
            response = exchange(sender, request) => response,
        }
    })
}

/// Does the HTTP/2 handshake on a byte stream.
pub(crate) async fn connect(
    server: &TestServer,
    transport: TestTransport,
) -> Box<dyn TestHttp2Stream> {
    if transport == TestTransport::Http2 {
        return Box::new(TcpStream::connect(server.plain).await.unwrap());
    }
    let socket = TcpStream::connect(server.tls).await.unwrap();
    let name = ServerName::try_from(NAME).unwrap();
    let connector = TlsConnector::from(client_config(&[b"h2"]));
    let stream = connector.connect(name, socket).await.unwrap();
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
    Box::new(stream)
}

/// Sends one request and reads its response.
async fn exchange(
    sender: h2::client::SendRequest<Bytes>,
    request: &TestHttp2Request<'_>,
) -> Result<TestResponse, h2::Error> {
    let TestHttp2Request {
        method,
        path,
        fields,
        body,
    } = *request;
    let mut sender = sender.ready().await?;
    let uri = format!("http://{NAME}{path}");
    let mut request = Request::builder()
        .method(method)
        .uri(uri)
        .version(Version::HTTP_2);
    for (name, value) in fields {
        request = request.header(*name, *value);
    }
    let request = request.body(()).unwrap();
    let (response, mut stream) = sender.send_request(request, body.is_none())?;
    if let Some(body) = body {
        send_body(&mut stream, body).await?;
        // A server that responds early may have reset the stream.
        let _ = stream.send_data(Bytes::new(), true);
    }
    let (head, mut incoming) = response.await?.into_parts();
    let mut body = Vec::new();
    while let Some(data) = incoming.data().await {
        let data = data?;
        incoming.flow_control().release_capacity(data.len())?;
        body.extend_from_slice(&data);
    }
    let fields = head.headers.iter().map(|(name, value)| {
        let value = value.to_str().unwrap();
        (name.as_str().to_owned(), value.to_owned())
    });
    Ok(TestResponse {
        status: head.status.as_u16(),
        fields: fields.collect(),
        body,
    })
}

/// Sends bytes of a body. Stops early if the server resets the stream.
pub(crate) async fn send_body(
    stream: &mut h2::SendStream<Bytes>,
    mut body: &[u8],
) -> Result<(), h2::Error> {
    while !body.is_empty() {
        stream.reserve_capacity(body.len());
        let Some(capacity) = std::future::poll_fn(|cx| stream.poll_capacity(cx)).await else {
            return Ok(());
        };
        let (now, later) = body.split_at(capacity?.min(body.len()));
        stream.send_data(Bytes::copy_from_slice(now), false)?;
        body = later;
    }
    Ok(())
}
