//! What each failure means for other routes, and how many routes there may be.

use haul_lab::{
    CertificateAuthority, DnsReply, DnsServer, HttpProxy, RequestMatcher, SilentListener,
    SocksProxy, SocksQuirk, faults, within,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use super::routes::RouteFailure;
use super::*;

/// No test takes longer.
const LIMIT: Duration = Duration::from_secs(30);

/// How a route through this proxy fails, to an address where nothing listens.
async fn failure_through(proxy: &str) -> RouteFailure {
    let names = DnsServer::start(|_| DnsReply::NxDomain).await;
    let connector = ConnectorConfig {
        connect_timeout: Duration::from_millis(400),
        dns_servers: vec![names.address()],
        ..ConnectorConfig::default()
    };
    let upstream = Upstream::new(UpstreamOptions {
        proxies: vec![vec![proxy.parse().unwrap()]],
        connector,
        ..UpstreamOptions::default()
    });
    let target = "127.0.0.1:1".parse().unwrap();
    let upstream = upstream.unwrap();
    let reached = within(
        LIMIT,
        Box::pin(upstream.connect(&target, StreamPurpose::Tunnel)),
    );
    let error = reached.await.unwrap_err();
    assert_eq!(error.errors().len(), 1, "{error}");
    route_failure(&error.errors()[0])
}

/// The address of a server that sends these bytes and is no proxy.
async fn server_that_sends(bytes: &'static [u8]) -> (String, JoinSet<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let _ = stream.write_all(bytes).await;
            let _ = stream.shutdown().await;
            let _ = stream.read_to_end(&mut Vec::new()).await;
        }
    });
    (address, tasks)
}

#[tokio::test]
async fn a_proxy_that_cannot_be_reached_or_is_none_is_unreachable() {
    let silent = SilentListener::start().unwrap();
    let (ssh, _tasks) = server_that_sends(b"SSH-2.0-OpenSSH_9\r\n\r\n").await;
    let strange = HttpProxy::builder()
        .tls(
            CertificateAuthority::new()
                .issue(&["127.0.0.1"])
                .server_config(None),
        )
        .start()
        .await;
    for proxy in [
        "http://127.0.0.1:1".to_owned(),
        "socks5h://127.0.0.1:1".to_owned(),
        "http://proxy.test:3128".to_owned(),
        format!("http://{}", silent.address()),
        format!("http://{ssh}"),
        format!("socks5h://{ssh}"),
        format!("https://{ssh}"),
        strange.url(),
    ] {
        assert_eq!(
            failure_through(&proxy).await,
            RouteFailure::ProxyUnreachable,
            "{proxy}"
        );
    }
}

#[tokio::test]
async fn a_proxy_that_does_not_respond_gives_no_answer() {
    let (closing, _tasks) = server_that_sends(b"").await;
    let hanging = SocksProxy::builder()
        .quirk(SocksQuirk::CloseOnRequest)
        .start()
        .await;
    let mute = SocksProxy::builder()
        .quirk(SocksQuirk::Silent)
        .start()
        .await;
    for proxy in [
        format!("http://{closing}"),
        hanging.url("socks5h"),
        mute.url("socks5h"),
    ] {
        assert_eq!(
            failure_through(&proxy).await,
            RouteFailure::NoAnswer,
            "{proxy}"
        );
    }
}

#[tokio::test]
async fn a_rule_of_the_proxy_is_a_refusal_and_an_error_is_none() {
    for (status, expected) in [
        (403, RouteFailure::Refused),
        (404, RouteFailure::Refused),
        (405, RouteFailure::Refused),
        (407, RouteFailure::Refused),
        (429, RouteFailure::Refused),
        (302, RouteFailure::Refused),
        (500, RouteFailure::TargetUnreachable),
        (502, RouteFailure::TargetUnreachable),
        (503, RouteFailure::TargetUnreachable),
        (504, RouteFailure::TargetUnreachable),
    ] {
        let proxy = HttpProxy::builder()
            .rule(RequestMatcher::always(), faults::status(status))
            .start()
            .await;
        assert_eq!(failure_through(&proxy.url()).await, expected, "{status}");
    }
    for (code, expected) in [
        (1, RouteFailure::TargetUnreachable),
        (2, RouteFailure::Refused),
        (3, RouteFailure::TargetUnreachable),
        (4, RouteFailure::TargetUnreachable),
        (5, RouteFailure::TargetUnreachable),
        (8, RouteFailure::TargetUnreachable),
    ] {
        let proxy = SocksProxy::builder()
            .quirk(SocksQuirk::RefuseWith(code))
            .start()
            .await;
        assert_eq!(
            failure_through(&proxy.url("socks5h")).await,
            expected,
            "{code}"
        );
    }
    let locked = SocksProxy::builder()
        .require_login("me", "secret")
        .start()
        .await;
    assert_eq!(
        failure_through(&locked.url("socks5h")).await,
        RouteFailure::Refused
    );
}

/// Places with so many alternatives.
fn places(counts: &[usize]) -> Vec<Vec<Proxy>> {
    let proxy = |place: usize, n: usize| format!("http://p{place}-{n}.test:1").parse().unwrap();
    let place = |(place, count): (usize, &usize)| (0..*count).map(|n| proxy(place, n)).collect();
    counts.iter().enumerate().map(place).collect()
}

#[test]
fn alternatives_multiply_in_their_order() {
    let names = |counts: &[usize]| -> Vec<String> {
        let chains = chains(places(counts)).unwrap();
        chains.iter().map(|chain| chain.name.to_string()).collect()
    };
    assert_eq!(
        names(&[2, 2]),
        [
            "p0-0.test:1 > p1-0.test:1",
            "p0-0.test:1 > p1-1.test:1",
            "p0-1.test:1 > p1-0.test:1",
            "p0-1.test:1 > p1-1.test:1",
        ]
    );
    assert_eq!(names(&[]), [""; 0]);
    // A place without alternatives does not count.
    assert_eq!(names(&[1, 0, 1]), ["p0-0.test:1 > p2-0.test:1"]);
    assert_eq!(names(&[4, 4]).len(), MAX_ROUTES);
    assert_eq!(names(&[1; 40]).len(), 1);
}

#[test]
fn more_routes_than_can_be_tried_are_refused() {
    for counts in [
        &[17][..],
        &[4, 5],
        &[2, 2, 2, 2, 2],
        &[17, 1],
        &[1, 17],
        &[1000, 1000, 1000],
    ] {
        assert!(
            matches!(
                chains(places(counts)),
                Err(UpstreamConfigError::TooManyRoutes)
            ),
            "{counts:?}"
        );
    }
}

#[tokio::test]
async fn a_target_that_is_no_host_name_is_an_error() {
    let upstream = Upstream::new(UpstreamOptions::default()).unwrap();
    let target = Target {
        host: "a b".into(),
        port: 1,
    };
    let error = upstream
        .connect(&target, StreamPurpose::Tunnel)
        .await
        .unwrap_err();
    assert_eq!(error.to_string(), "this is not a host name");
}

/// Each route has its share of the time that is left. No route comes after TLS with the target, which has all of it.
#[tokio::test(start_paused = true)]
async fn e6_all_routes_and_tls_with_the_target_share_the_connect_timeout() {
    let proxy = HttpProxy::builder().start().await;
    let mute = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let silent = format!("http://{}", mute.local_addr().unwrap());
    assert_eq!(tried_for(8, &mute, [&silent, &proxy.url()]).await, (2, 8));
    assert_eq!(tried_for(8, &mute, [&proxy.url(), &silent]).await, (1, 8));
}

/// How many routes through these proxies are tried to a target that does not respond to TLS, and for how many seconds.
async fn tried_for(limit: u64, mute: &TcpListener, proxies: [&str; 2]) -> (usize, u64) {
    let limit = Duration::from_secs(limit);
    let upstream = Upstream::new(UpstreamOptions {
        proxies: vec![proxies.map(|proxy| proxy.parse().unwrap()).into()],
        target_tls: true,
        connector: ConnectorConfig {
            connect_timeout: limit,
            ..ConnectorConfig::default()
        },
        ..UpstreamOptions::default()
    });
    let target = mute.local_addr().unwrap().to_string().parse().unwrap();
    let begun = Instant::now();
    let reached = upstream
        .unwrap()
        .connect(&target, StreamPurpose::Tunnel)
        .await;
    let errors = reached.unwrap_err();
    // The paused clock has a resolution of a millisecond.
    (errors.errors().len(), begun.elapsed().as_secs())
}
