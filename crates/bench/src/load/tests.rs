//! Loads on lab servers: `pace` is about time, `failures` about errors, `connections` about what is between a slot and a server.

mod connections;
mod failures;
mod pace;

use std::sync::Arc;
use std::time::Duration;

use haul_lab::{CertificateAuthority, Origin, OriginResource, ResourceContent, within};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, RootCertStore};

use super::*;

const BOTH_CLIENTS: [LoadClient; 2] = [LoadClient::Threads, LoadClient::Async];

/// 100 GETs, 4 at a time.
pub(super) fn plan(url: &str) -> LoadPlan {
    LoadPlan {
        files: None,
        urls: vec![url.parse().unwrap()],
        method: LoadMethod::Get,
        put_bytes: 0,
        connect_to: None,
        network: Network::Machine,
        proxy: None,
        client: LoadClient::Async,
        concurrency: 4,
        protocol: LoadProtocol::Http,
        is_kept_alive: true,
        pace: LoadPace::Closed,
        end: LoadEnd::Requests(100),
        tls: client_tls(&CertificateAuthority::new()),
        max_rate: None,
    }
}

fn client_tls(authority: &CertificateAuthority) -> Arc<ClientConfig> {
    let certificate = CertificateDer::from_pem_slice(authority.certificate_pem().as_bytes());
    let mut roots = RootCertStore::empty();
    roots.add(certificate.unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap();
    Arc::new(builder.with_root_certificates(roots).with_no_client_auth())
}

async fn run(plan: LoadPlan) -> Measurement {
    let load = run_load(plan, CancellationToken::new());
    within(Duration::from_secs(60), load)
        .await
        .unwrap()
        .measurement
}

fn resource(bytes: u64) -> OriginResource {
    OriginResource::new(ResourceContent::random(1, bytes))
}

async fn serve(resource: OriginResource) -> Origin {
    Origin::builder().resource("/f", resource).start().await
}

/// The errors, as one text.
fn errors(measurement: &Measurement) -> String {
    let errors = measurement.errors.iter();
    let texts: Vec<String> = errors
        .map(|(kind, count)| format!("{count} {kind}"))
        .collect();
    texts.join(", ")
}
