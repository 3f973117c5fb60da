//! Downloads from drawn origins over redirects and proxies that are drawn as well: whatever is on the way, what counts as success is one whole
//! version, and the login of one origin never reaches another.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use haul_lab::{
    CertificateAuthority, Draw, DrawnOrigin, HttpProxy, Origin, OriginResponse, RecordedRequest,
    RequestMatcher, assert_seeds, faults,
};
use haul_net::ProxyRules;

use crate::drawn_origins::{case_of, check_download, download_seeds};
use crate::harness::serve;

const REDIRECTS: [u16; 5] = [301, 302, 303, 307, 308];

/// The login of the first origin.
const LOGIN: &str = "user:secret";

/// What is wrong with a download from an origin that has a login and redirects requests: to itself or to another origin, to what is there or not.
async fn check_redirects(seed: u64) -> Result<(), String> {
    let drawn = DrawnOrigin::new(seed);
    let mut case = case_of(&drawn, seed);
    let other = serve(drawn.resource()).await;
    let target = other.url("/f.bin");
    let is_healed = Arc::new(AtomicBool::new(false));
    let resource = drawn.resource().rule(RequestMatcher::always(), {
        let is_healed = Arc::clone(&is_healed);
        let share = Draw::new(seed, 1 << 40).one_of(&[20, 50, 100]);
        move |request, response| {
            let mut draw = Draw::new(seed, (1 << 41) + request.number_for_path as u64);
            let status = draw.one_of(&REDIRECTS);
            let to = match draw.below(10) {
                _ if is_healed.load(Ordering::Relaxed) => target.clone(),
                0 => "/f.bin".to_owned(),
                1 => "/missing".to_owned(),
                2 => "http://[".to_owned(),
                3 => "ftp://127.0.0.1/f.bin".to_owned(),
                4 => format!("{target}#part"),
                _ => target.clone(),
            };
            if draw.percent(share) {
                faults::redirect(status, to)(request, response);
            }
        }
    });
    let origin = serve(resource).await;
    let url = origin
        .url("/f.bin")
        .replacen("://", &format!("://{LOGIN}@"), 1);
    let requests = || origin.requests().len() + other.requests().len();
    let heal = || {
        is_healed.store(true, Ordering::Relaxed);
        origin.replace("/f.bin", drawn.honest_resource());
        other.replace("/f.bin", drawn.honest_resource());
    };
    check_download(&drawn, &mut case, &url, requests, heal).await?;
    let has_secret = |request: &RecordedRequest| {
        request.header("authorization").is_some() || request.header("cookie").is_some()
    };
    if other.requests().iter().any(has_secret) {
        Err("the login reached another origin".to_owned())
    } else {
        Ok(())
    }
}

/// What a drawn proxy does to a request.
fn apply_proxy_fault(draw: &mut Draw, request: &RecordedRequest, response: &mut OriginResponse) {
    match draw.below(12) {
        0 => faults::status(502)(request, response),
        1 => faults::status(503)(request, response),
        2 => faults::status(504)(request, response),
        3 => faults::status(429)(request, response),
        4 => faults::status(403)(request, response),
        5 => faults::status(407)(request, response),
        6 => faults::reset_connection(request, response),
        7 => faults::invalid_header_name(request, response),
        8 => faults::interim_response(103)(request, response),
        9 => faults::delay_response(std::time::Duration::from_millis(draw.below(300)))(
            request, response,
        ),
        10 => faults::endless_head(request, response),
        _ => faults::status(302)(request, response),
    }
}

/// What is wrong with a download by a proxy that fails, in the plain or through a tunnel.
async fn check_proxy(seed: u64) -> Result<(), String> {
    let drawn = DrawnOrigin::new(seed);
    let mut case = case_of(&drawn, seed);
    let mut builder = Origin::builder().resource("/f.bin", drawn.resource());
    if seed.is_multiple_of(3) {
        let authority = CertificateAuthority::new();
        let certificate = authority.issue(&["127.0.0.1"]);
        builder = builder.tls(certificate.server_config(None));
        case.client.tls.cacert = Some(authority.certificate_pem().into_bytes());
    }
    let origin = builder.start().await;
    let is_healed = Arc::new(AtomicBool::new(false));
    let share = Draw::new(seed, 1 << 42).one_of(&[5, 20, 50]);
    let proxy = HttpProxy::builder()
        .rule(RequestMatcher::always(), {
            let is_healed = Arc::clone(&is_healed);
            move |request, response| {
                let number = request.number_for_path as u64;
                let mut draw = Draw::new(seed, (1 << 43) + number);
                if draw.percent(share) && !is_healed.load(Ordering::Relaxed) {
                    apply_proxy_fault(&mut draw, request, response);
                }
            }
        })
        .start()
        .await;
    case.client.proxy = ProxyRules::all(proxy.url().parse().unwrap());
    let requests = || origin.requests().len().max(proxy.requests().len());
    let heal = || {
        is_healed.store(true, Ordering::Relaxed);
        origin.replace("/f.bin", drawn.honest_resource());
    };
    check_download(&drawn, &mut case, &origin.url("/f.bin"), requests, heal).await
}

/// The texts that [`assert_seeds`] takes.
fn texts(seed: u64, checked: Result<(), String>) -> Vec<String> {
    let text = checked.err();
    let text = text.map(|text| format!("{seed}: {text}: {:?}", DrawnOrigin::new(seed)));
    text.into_iter().collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn success_is_one_whole_version_whatever_redirects_there_are() {
    let check = |seed| async move { texts(seed, Box::pin(check_redirects(seed)).await) };
    assert_seeds(download_seeds(), check).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn success_is_one_whole_version_whatever_a_proxy_does() {
    let check = |seed| async move { texts(seed, Box::pin(check_proxy(seed)).await) };
    assert_seeds(download_seeds(), check).await;
}
