//! HTTP of the store: requests are read whole, and responses written.

use std::sync::{Arc, Mutex, PoisonError};

use percent_encoding::percent_decode_str;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::operations::{StoreResponse, error, respond};
use super::{StoreFault, StoreRequest, StoreState};
use crate::origin::{RecordedRequest, read_head};
use crate::running_listener::reset_on_close;

/// Serves the requests of one connection.
pub(super) async fn serve(state: Arc<Mutex<StoreState>>, mut stream: TcpStream) {
    let mut buffer = Vec::new();
    while let Some((mut request, body)) = read_request(&mut stream, &mut buffer).await {
        let (response, fault) = {
            let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
            request.number = state.requests.len();
            request.body_length = body.len();
            state.requests.push(request.clone());
            let fault = (state.rule)(&request);
            (answer(&mut state, &request, &body, fault), fault)
        };
        match (fault, response) {
            (Some(StoreFault::Silence), _) => std::future::pending().await,
            (Some(StoreFault::Reset | StoreFault::LostResponse), _) | (_, None) => {
                reset_on_close(&stream);
                return;
            }
            (Some(StoreFault::CutHead), _) => {
                let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nETag: \"00").await;
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
        Some(StoreFault::Reset | StoreFault::Silence) => return None,
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
    stream: &mut TcpStream,
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
    let mut message = head.into_bytes();
    if request.method != "HEAD" {
        message.extend_from_slice(&response.body);
    }
    stream.write_all(&message).await
}

/// Reads a request and its body; `None` at the end of the connection. Bytes after it stay in the buffer.
async fn read_request(
    stream: &mut TcpStream,
    buffer: &mut Vec<u8>,
) -> Option<(StoreRequest, Vec<u8>)> {
    let head = read_head(stream, buffer).await.ok()??;
    let RecordedRequest {
        method,
        target,
        headers,
        ..
    } = RecordedRequest::parse(&head)?;
    let (path, query) = target.split_once('?').unwrap_or((&target, ""));
    let (bucket, key) = path
        .trim_start_matches('/')
        .split_once('/')
        .unwrap_or((path, ""));
    let parameters = query
        .split('&')
        .filter(|pair| !pair.is_empty())
        .map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            (decode(name), decode(value))
        });
    let request = StoreRequest {
        method,
        bucket: decode(bucket.trim_start_matches('/')),
        key: decode(key),
        query: parameters.collect(),
        headers: headers.into_iter().collect(),
        ..StoreRequest::default()
    };
    let length = request.headers.get("content-length");
    let length = length.and_then(|length| length.parse().ok()).unwrap_or(0);
    while buffer.len() < length {
        if stream.read_buf(buffer).await.ok()? == 0 {
            return None;
        }
    }
    let rest = buffer.split_off(length);
    Some((request, std::mem::replace(buffer, rest)))
}

/// Decodes percent escapes.
fn decode(text: &str) -> String {
    percent_decode_str(text).decode_utf8_lossy().into_owned()
}
