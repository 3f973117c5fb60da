//! Connections and requests to the test servers of `haul_lab`: proxies, credentials, connection reuse, limits, hostile peers and
//! malformed input.

#![expect(
    clippy::unwrap_used,
    reason = "a test that cannot go on should stop where it is"
)]

mod a29;
mod a47;
mod bodies;
mod connections;
mod credentials;
mod dns;
mod hostile_input;
mod hostile_proxies;
mod http2;
mod low_water;
mod proxies;
mod trust;

use std::time::Duration;

use haul_lab::{CertificateAuthority, within};
use haul_net::{Client, ClientConfig, Error, FetchRequest, FetchResponse, TlsOptions};
use url::Url;

/// The time limit of one step of a test.
const LIMIT: Duration = Duration::from_secs(20);

/// The host names in the certificates of origins.
const LOCAL_NAMES: &[&str] = &["127.0.0.1", "localhost"];

fn client(config: ClientConfig) -> Client {
    Client::new(config).unwrap()
}

fn trusting(authority: &CertificateAuthority) -> TlsOptions {
    TlsOptions {
        cacert: Some(authority.certificate_pem().into_bytes()),
        ..TlsOptions::default()
    }
}

/// A GET of the whole resource over a connection that it does not share.
async fn get(client: &Client, url: &str) -> Result<FetchResponse, Error> {
    fetch(client, url, false).await
}

async fn fetch(client: &Client, url: &str, may_multiplex: bool) -> Result<FetchResponse, Error> {
    let url: Url = url.parse().unwrap();
    let fetch = FetchRequest {
        may_multiplex,
        ..FetchRequest::get(&url)
    };
    within(LIMIT, client.fetch(fetch)).await
}

/// Reads the whole body and returns the connection to the pool.
async fn body(mut response: FetchResponse) -> Result<Vec<u8>, Error> {
    let mut bytes = Vec::new();
    while let Some(chunk) = within(LIMIT, response.chunk()).await? {
        bytes.extend_from_slice(&chunk);
    }
    response.recycle();
    Ok(bytes)
}
