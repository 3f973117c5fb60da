//! Rows A33 and A34: origins that cut every response, and origins and proxies that restart.

use std::time::Duration;

use bytes::Bytes;
use haul_lab::http2::{Http2Origin, Http2Settings, StreamAction, alpn_server_config};
use haul_lab::{
    CertificateAuthority, HttpProxy, Origin, OriginResource, RequestMatcher, ResourceContent,
    SlowLink, SlowLinkBuilder, StreamCut, faults,
};
use haul_net::ProxyRules;
use haul_plan::HttpVersionChoice;
use haul_transfer::{ConnectionCount, GetError, OriginError, RetryOptions};

use crate::batch::BatchCase;
use crate::harness::{JobCase, content, serve};

const RATE: u64 = 6 << 20;

/// The server that restarts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Restarted {
    Origin,
    Proxy,
}

/// Runs a download while a link restarts each time it has sent another MiB.
async fn with_restarts<T: std::fmt::Debug>(
    link: &mut SlowLink,
    times: u64,
    down_for: Duration,
    download: impl Future<Output = T>,
) -> T {
    let mut restarted = 0;
    let restarts = async {
        for number in 1..=times {
            while link.bytes_to_client() < number << 20 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            link.restart(down_for).await;
            restarted += 1;
        }
        std::future::pending().await
    };
    let output = tokio::select! {
        output = download => output,
        () = restarts => unreachable!("restarts never end"),
    };
    assert!(
        restarted > 0,
        "the download ended before a restart: {output:?}"
    );
    output
}

fn default_retries() -> RetryOptions {
    RetryOptions::default()
}

async fn assert_download_survives(
    restarted: Restarted,
    connections: usize,
    times: u64,
    down_ms: u64,
) {
    let content = ResourceContent::random(4, (4 << 20) + 4321);
    let origin = Origin::builder()
        .resource("/f.bin", OriginResource::new(content.clone()))
        .start()
        .await;
    let proxy = HttpProxy::builder().start().await;
    let target = match restarted {
        Restarted::Origin => origin.address(),
        Restarted::Proxy => proxy.address(),
    };
    let mut link = SlowLinkBuilder::new(target).total_rate(RATE).start().await;
    let mut case = JobCase::new();
    case.options.connections = ConnectionCount::Fixed(connections);
    case.options.retry = default_retries();
    let link_address = link.address();
    let url = match restarted {
        Restarted::Origin => format!("http://{link_address}/f.bin"),
        Restarted::Proxy => {
            let proxy = format!("http://{link_address}");
            case.client.proxy = ProxyRules::all(proxy.parse().unwrap());
            origin.url("/f.bin")
        }
    };
    let down_for = Duration::from_millis(down_ms);
    let run = with_restarts(&mut link, times, down_for, Box::pin(case.get(&url))).await;
    let description =
        format!("{restarted:?}, {connections} connections, {times} times, {down_ms} ms");
    assert!(run.result.is_ok(), "{description}: {:?}", run.error());
    case.assert_file(&content);
    assert!(
        run.retries() < 40 * usize::try_from(times).unwrap(),
        "{description}: {} messages",
        run.retries()
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a34_a_download_survives_restarts_of_its_origin_and_of_its_proxy() {
    use Restarted::{Origin, Proxy};
    tokio::join!(
        assert_download_survives(Origin, 1, 1, 300),
        assert_download_survives(Origin, 16, 1, 300),
        assert_download_survives(Origin, 1, 3, 300),
        assert_download_survives(Origin, 16, 3, 300),
        assert_download_survives(Origin, 1, 1, 1000),
        assert_download_survives(Origin, 16, 1, 1000),
        assert_download_survives(Origin, 16, 3, 1000),
        assert_download_survives(Proxy, 16, 1, 300),
        assert_download_survives(Proxy, 16, 3, 1000),
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a34_a_batch_survives_restarts_of_its_origin_and_of_its_proxy() {
    async fn assert_survives(restarted: Restarted, times: u64, down_ms: u64) {
        let contents: Vec<_> = (0..600)
            .map(|n| ResourceContent::random(n, 10_000 + n))
            .collect();
        let mut builder = Origin::builder();
        for (n, content) in contents.iter().enumerate() {
            let resource = OriginResource::new(content.clone());
            builder = builder.resource(&format!("/{n}.bin"), resource);
        }
        let origin = builder.start().await;
        let proxy = HttpProxy::builder().start().await;
        let target = match restarted {
            Restarted::Origin => origin.address(),
            Restarted::Proxy => proxy.address(),
        };
        let mut link = SlowLinkBuilder::new(target).total_rate(RATE).start().await;
        let mut case = BatchCase::new();
        case.get.retry = default_retries();
        let mut base = format!("http://{}", link.address());
        if restarted == Restarted::Proxy {
            case.client.proxy = ProxyRules::all(base.parse().unwrap());
            base = origin.url("");
        }
        let urls = (0..contents.len()).map(|n| format!("{base}/{n}.bin"));
        let down_for = Duration::from_millis(down_ms);
        let run = with_restarts(&mut link, times, down_for, Box::pin(case.download(urls))).await;
        assert_eq!(
            run.counts(),
            (600, 0, 0),
            "{restarted:?}: {:?}",
            run.warnings
        );
        for (n, content) in contents.iter().enumerate() {
            case.assert_file(&format!("{n}.bin"), content);
        }
    }
    tokio::join!(
        assert_survives(Restarted::Origin, 3, 300),
        assert_survives(Restarted::Origin, 1, 5000),
        assert_survives(Restarted::Proxy, 1, 1000),
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a34_a_batch_over_http2_survives_restarts_of_its_origin() {
    let file = |path: &str| {
        let seed = path.bytes().map(u64::from).sum();
        ResourceContent::random(seed, 9_000)
    };
    let authority = CertificateAuthority::new();
    let certificate = authority.issue(&["127.0.0.1", "localhost"]);
    let tls = alpn_server_config(&certificate, None, &["h2", "http/1.1"]);
    let origin = Http2Origin::start(tls, Http2Settings::default(), move |request| {
        StreamAction::Respond(Bytes::from(file(&request.path).to_vec()))
    })
    .await;
    let mut link = SlowLinkBuilder::new(origin.address())
        .total_rate(RATE)
        .start()
        .await;
    let mut case = BatchCase::new();
    case.get.retry = default_retries();
    case.client.http_version = HttpVersionChoice::Http2;
    case.client.tls.cacert = Some(authority.certificate_pem().into_bytes());
    let base = format!("https://{}", link.address());
    let urls = (0..500).map(|n| format!("{base}/{n}.bin"));
    let down_for = Duration::from_millis(300);
    let run = with_restarts(&mut link, 3, down_for, Box::pin(case.download(urls))).await;
    assert_eq!(run.counts(), (500, 0, 0), "{:?}", run.warnings);
    for n in 0..500 {
        case.assert_file(&format!("{n}.bin"), &file(&format!("/{n}.bin")));
    }
}

/// Every response is cut to a third of its body, but to one byte at least.
fn cut_to_a_third(content: ResourceContent) -> OriginResource {
    OriginResource::new(content).rule(RequestMatcher::always(), |_, response| {
        let after = response.body.length().div_ceil(3);
        response.cut = Some(StreamCut::Close { after });
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a33_an_origin_that_cuts_every_response_to_a_third_delivers_the_file_within_seconds() {
    for connections in [1, 4] {
        let mut case = JobCase::new();
        case.options.connections = ConnectionCount::Fixed(connections);
        case.options.retry = default_retries();
        let (run, _origin) = case.run(cut_to_a_third(content())).await;
        case.assert_file(&content());
        let elapsed = run.outcome().elapsed;
        assert!(
            elapsed < Duration::from_secs(8),
            "{connections}: {elapsed:?}"
        );
    }
    let file = ResourceContent::random(3, 200_000);
    let origin = serve(cut_to_a_third(file.clone())).await;
    let mut case = BatchCase::new();
    case.get.retry = default_retries();
    let run = case.download([origin.url("/f.bin")]).await;
    assert_eq!(run.counts(), (1, 0, 0), "{:?}", run.warnings);
    case.assert_file("f.bin", &file);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a17_a_retry_after_of_an_hour_ends_the_job_at_once() {
    let busy = || faults::status_with_header(503, "Retry-After", "3600".into());
    let resource = OriginResource::new(content()).rule(RequestMatcher::always(), busy());
    let case = JobCase::new();
    let (run, origin) = case.run(resource).await;
    assert!(matches!(
        run.error(),
        GetError::Origin {
            error: OriginError::Status { .. },
            ..
        }
    ));
    let text = run.error().to_string();
    assert!(
        text.ends_with("503 Service Unavailable, and asks to wait for 60 min"),
        "{text}"
    );
    assert_eq!(origin.requests().len(), 1);
}

/// Bytes of the version before are not left in it, whether they came in order or in parts.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a5_a_resource_that_has_become_empty_is_an_empty_file() {
    for sends_parts in [true, false] {
        let emptied = OriginResource::new(ResourceContent::fixed(&b""[..])).etag("\"v2\"");
        let mut resource = OriginResource::new(content())
            .rule(RequestMatcher::first(1), faults::close_after(100_000));
        if !sends_parts {
            resource = resource.rule(RequestMatcher::always(), faults::ignore_range);
        }
        let resource = resource.rule(RequestMatcher::after_first(1), faults::serve_other(emptied));
        let case = JobCase::new();
        let (run, _origin) = case.run(resource).await;
        run.outcome();
        case.assert_file(&ResourceContent::fixed(&b""[..]));
    }
}
