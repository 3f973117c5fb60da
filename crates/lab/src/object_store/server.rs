//! HTTP of the store: requests are read whole, and responses written.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufStream};
use tokio::net::TcpStream;

use super::operations::{StoreResponse, error, respond};
use super::{StoreFault, StoreRequest, StoreState};
use crate::running_listener::reset_on_close;

/// Serves the requests of one connection.
pub(super) async fn serve(state: Arc<Mutex<StoreState>>, stream: TcpStream) {
    let mut stream = BufStream::new(stream);
    while let Some((mut request, body)) = read_request(&mut stream).await {
        let (response, fault) = {
            let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
            request.number = state.requests.len();
            request.body_length = body.len();
            state.requests.push(request.clone());
            let fault = (state.rule)(&request);
            (answer(&mut state, &request, &body, fault), fault)
        };
        match (fault, response) {
            (Some(StoreFault::Reset | StoreFault::LostResponse), _) | (_, None) => {
                reset_on_close(stream.get_ref());
                return;
            }
            (Some(StoreFault::CutHead), _) => {
                let cut = stream.write_all(b"HTTP/1.1 200 OK\r\nETag: \"00").await;
                let _ = cut.and(stream.flush().await);
                return;
            }
            (Some(StoreFault::CutBody), Some(mut response)) => {
                let length = response.body.len();
                response.length.get_or_insert(length);
                response.body.truncate(length / 2);
                let _ = write(&mut stream, &request, &response).await;
                return;
            }
            (_, Some(response)) => {
                if write(&mut stream, &request, &response).await.is_err() {
                    return;
                }
            }
        }
    }
}

/// The response to a request, with its fault.
fn answer(
    state: &mut StoreState,
    request: &StoreRequest,
    body: &[u8],
    fault: Option<StoreFault>,
) -> Option<StoreResponse> {
    Some(match fault {
        None | Some(StoreFault::LostResponse | StoreFault::CutHead | StoreFault::CutBody) => {
            respond(state, request, body)
        }
        Some(StoreFault::Reset) => return None,
        Some(StoreFault::Error(status, code)) => error(status, code),
        Some(StoreFault::ErrorIn200(code)) => StoreResponse {
            status: 200,
            ..error(200, code)
        },
        Some(StoreFault::Ignored) => StoreResponse::empty(204),
        Some(StoreFault::CutDocument) => StoreResponse::document(
            "<?xml version=\"1.0\"?><CompleteMultipartUploadResult><ETa".to_owned(),
        ),
        Some(StoreFault::Document(text)) => StoreResponse::document(text.to_owned()),
        Some(StoreFault::OtherChecksum) => {
            let mut response = respond(state, request, body);
            for (name, value) in &mut response.headers {
                if name.starts_with("x-amz-checksum-crc64") {
                    "AAAAAAAAAAA=".clone_into(value);
                }
            }
            let end = "</ChecksumCRC64NVME>";
            if let Some(at) = response.body_text().find(end) {
                let text = response.body_text();
                response.body = format!("{}AAAAAAAAAAA={}", &text[..at - 12], &text[at..]).into();
            }
            response
        }
    })
}

async fn write(
    stream: &mut BufStream<TcpStream>,
    request: &StoreRequest,
    response: &StoreResponse,
) -> std::io::Result<()> {
    let length = response.length.unwrap_or(response.body.len());
    let mut head = format!(
        "HTTP/1.1 {} X\r\nContent-Length: {length}\r\n",
        response.status
    );
    for (name, value) in &response.headers {
        head.push_str(name);
        head.push_str(": ");
        head.push_str(value);
        head.push_str("\r\n");
    }
    head.push_str("\r\n");
    stream.write_all(head.as_bytes()).await?;
    if request.method != "HEAD" {
        stream.write_all(&response.body).await?;
    }
    stream.flush().await
}

/// Reads a request and its body; `None` at the end of the connection.
async fn read_request(stream: &mut BufStream<TcpStream>) -> Option<(StoreRequest, Vec<u8>)> {
    let mut line = String::new();
    stream
        .read_line(&mut line)
        .await
        .ok()
        .filter(|read| *read > 0)?;
    let mut words = line.split_whitespace();
    let (method, target) = (words.next()?.to_owned(), words.next()?.to_owned());
    let mut request = StoreRequest {
        method,
        ..StoreRequest::default()
    };
    loop {
        let mut field = String::new();
        stream.read_line(&mut field).await.ok()?;
        match field.trim_end().split_once(':') {
            Some((name, value)) => {
                request
                    .headers
                    .insert(name.to_ascii_lowercase(), value.trim().to_owned());
            }
            None => break,
        }
    }
    let (path, query) = target.split_once('?').unwrap_or((&target, ""));
    let (bucket, key) = path
        .trim_start_matches('/')
        .split_once('/')
        .unwrap_or((path, ""));
    request.bucket = decode(bucket.trim_start_matches('/'));
    request.key = decode(key);
    request.query = query
        .split('&')
        .filter(|pair| !pair.is_empty())
        .map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            (decode(name), decode(value))
        })
        .collect();
    let length = request.headers.get("content-length");
    let length = length.and_then(|length| length.parse().ok()).unwrap_or(0);
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await.ok()?;
    Some((request, body))
}

/// Decodes percent escapes.
fn decode(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        let digits = [rest.clone().next(), rest.clone().nth(1)];
        match (byte, digits) {
            (b'%', [Some(high), Some(low)]) => {
                let hex = [high, low];
                let value = str::from_utf8(&hex)
                    .ok()
                    .and_then(|hex| u8::from_str_radix(hex, 16).ok());
                bytes.push(value.unwrap_or(b'%'));
                rest.nth(1);
            }
            _ => bytes.push(byte),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
