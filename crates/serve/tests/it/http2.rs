//! A client of HTTP/2 that is not the server's own library's.

pub(crate) mod frames;

use bytes::Bytes;
use haul_lab::within;
use http::{Request, Version};
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::client::{RequestPathway, TestResponse, trusting};
use crate::harness::{LIMIT, NAME, TestServer};

/// A byte stream.
pub(crate) trait TestHttp2Stream: AsyncRead + AsyncWrite + Unpin + Send {}
impl<S: AsyncRead + AsyncWrite + Unpin + Send> TestHttp2Stream for S {}

/// Runs something that waits, to its end or to the limit's.
pub(crate) fn run<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(within(LIMIT, future))
}

/// A request.
pub(crate) struct TestHttp2Request<'a> {
    pub(crate) method: &'a str,
    pub(crate) path: &'a str,
    pub(crate) fields: &'a [(&'a str, &'a str)],
    pub(crate) body: Option<&'a [u8]>,
}

/// Asks on a connection of its own.
pub(crate) fn ask(
    served: &TestServer,
    road: RequestPathway,
    asked: &TestHttp2Request<'_>,
) -> Result<TestResponse, h2::Error> {
    run(async {
        let stream = connect(served, road).await;
        let (sender, connection) = h2::client::handshake(stream).await?;
        tokio::select! {
            // It ends when nobody asks any more, which the other branch has done then.
            ended = connection => panic!("the connection ended: {ended:?}"),
            answer = exchange(sender, asked) => answer,
        }
    })
}

/// A byte stream on which both know that HTTP/2 is spoken.
pub(crate) async fn connect(served: &TestServer, road: RequestPathway) -> Box<dyn TestHttp2Stream> {
    if road == RequestPathway::Http2 {
        return Box::new(TcpStream::connect(served.plain).await.unwrap());
    }
    let socket = TcpStream::connect(served.tls).await.unwrap();
    let name = ServerName::try_from(NAME).unwrap();
    let connector = TlsConnector::from(trusting(&[b"h2"]));
    let stream = connector.connect(name, socket).await.unwrap();
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
    Box::new(stream)
}

/// One request and its answer.
async fn exchange(
    sender: h2::client::SendRequest<Bytes>,
    asked: &TestHttp2Request<'_>,
) -> Result<TestResponse, h2::Error> {
    let TestHttp2Request {
        method,
        path,
        fields,
        body,
    } = *asked;
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
    let (answer, mut stream) = sender.send_request(request, body.is_none())?;
    if let Some(body) = body {
        send(&mut stream, body).await?;
        // Whoever answered early may have reset it.
        let _ = stream.send_data(Bytes::new(), true);
    }
    let (head, mut incoming) = answer.await?.into_parts();
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

/// Sends bytes of a body; where they are not wanted any more it ends early.
pub(crate) async fn send(
    stream: &mut h2::SendStream<Bytes>,
    mut body: &[u8],
) -> Result<(), h2::Error> {
    while !body.is_empty() {
        stream.reserve_capacity(body.len());
        let Some(room) = std::future::poll_fn(|cx| stream.poll_capacity(cx)).await else {
            return Ok(());
        };
        let (now, later) = body.split_at(room?.min(body.len()));
        stream.send_data(Bytes::copy_from_slice(now), false)?;
        body = later;
    }
    Ok(())
}
