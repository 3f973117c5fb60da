//! Streams and requests against the lab: proxies, credentials, reuse, limits; and what hostile peers and typing errors make.

#![expect(
    clippy::unwrap_used,
    reason = "a test that cannot go on should stop where it is"
)]

mod a29;
mod connections;
mod credentials;
mod dns;
mod hostile_input;
mod hostile_proxies;
mod http2;
mod low_water;
mod proxies;
mod route_latency;
mod trust;

use std::time::Duration;

use haul_lab::within;
use haul_net::{Client, ClientConfig, Error, FetchRequest, FetchResponse};
use url::Url;

/// No test takes longer.
const LIMIT: Duration = Duration::from_secs(20);

fn client(config: ClientConfig) -> Client {
    Client::new(config).unwrap()
}

/// A GET of everything.
async fn get(client: &Client, url: &str) -> Result<FetchResponse, Error> {
    let url: Url = url.parse().unwrap();
    let fetch = FetchRequest {
        user_headers: None,
        url: &url,
        user_url: &url,
        range: None,
        conditions: http::HeaderMap::new(),
        may_multiplex: false,
    };
    within(LIMIT, client.fetch(fetch)).await
}

/// The whole body; its connection is given back.
async fn body(mut answer: FetchResponse) -> Result<Vec<u8>, Error> {
    let mut bytes = Vec::new();
    while let Some(piece) = within(LIMIT, answer.chunk()).await? {
        bytes.extend_from_slice(&piece);
    }
    answer.recycle();
    Ok(bytes)
}
