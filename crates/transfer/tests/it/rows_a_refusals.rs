//! Rows A16 to A18, A21, A27, A28: what an origin refuses, and where it sends one.

use std::net::SocketAddr;
use std::time::Duration;

use haul_lab::{Authority, Content, Origin, Resource, When, breakage};
use haul_net::{ConnectorConfig, Credentials, Kind, Login, Secret, TlsProblem, connector::Pin};
use haul_transfer::{Connections, GetError};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::time::timeout;

use crate::harness::{Case, Ran, content, serve};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a16_redirects_are_followed_and_credentials_stay_with_their_origin() {
    for status in [301, 302, 303, 307, 308] {
        let far = serve(Resource::new(content())).await;
        let near = serve(Resource::new(content()).rule(
            When::always(),
            breakage::status_with(status, "Location", far.url("/f.bin")),
        ))
        .await;
        let mut case = Case::new();
        case.client.credentials.login = Some(Login {
            user: "u".into(),
            password: Secret::new("p".into()),
        });
        case.client
            .headers
            .insert("cookie", "secret".parse().unwrap());
        let ran = case.get(&near.url("/f.bin")).await;
        assert_eq!(ran.outcome().final_url.as_str(), far.url("/f.bin"));
        case.assert_file(&content());
        assert!(near.asked().iter().all(
            |asked| asked.header("authorization").is_some() && asked.header("cookie").is_some()
        ));
        assert!(far.asked().len() > 3);
        assert!(far.asked().iter().all(
            |asked| asked.header("authorization").is_none() && asked.header("cookie").is_none()
        ));
        assert_eq!(
            near.asked().len(),
            1,
            "segments go straight to where the redirect led"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a16_a_token_that_expires_is_fetched_again_from_the_first_url() {
    let far = Origin::builder()
        .resource(
            "/t",
            Resource::new(content()).rule(
                When::is(|asked| {
                    // Each token is good for three requests.
                    let token: usize = asked
                        .target
                        .split("token=")
                        .nth(1)
                        .and_then(|t| t.parse().ok())
                        .unwrap_or(0);
                    asked.number >= (token + 1) * 3
                }),
                breakage::status(403),
            ),
        )
        .start()
        .await;
    let target = far.url("/t");
    let near = serve(
        Resource::new(content()).rule(When::always(), move |asked, reply| {
            breakage::status_with(
                302,
                "Location",
                format!("{target}?token={}", asked.number * 2),
            )(asked, reply);
        }),
    )
    .await;
    let mut case = Case::new();
    case.options.connections = Connections::Fixed(1);
    let ran = case.get(&near.url("/f.bin")).await;
    ran.outcome();
    case.assert_file(&content());
    assert!(near.asked().len() > 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a16_loops_end() {
    let origin = serve(Resource::new(content()).rule(
        When::always(),
        breakage::status_with(302, "Location", "/f.bin".into()),
    ))
    .await;
    let ran = Case::new().get(&origin.url("/f.bin")).await;
    assert!(
        matches!(ran.error(), GetError::Transport { source, .. } if matches!(source.kind(), Kind::Redirect(_)))
    );
    assert_eq!(origin.asked().len(), 21);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a17_busy_origins_are_waited_for_and_get_fewer_connections() {
    let case = Case::new();
    let busy = breakage::status_with(503, "Retry-After", "0".into());
    let resource = Resource::new(content()).rule(When::is(|asked| asked.number % 4 == 2), busy);
    let (ran, _origin) = case.run(resource).await;
    assert!(
        ran.outcome().connections < 4,
        "settled on {}",
        ran.outcome().connections
    );
    case.assert_file(&content());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a17_an_origin_that_stays_busy_ends_the_job_with_its_status() {
    let case = Case::new();
    let (ran, origin) = case
        .run(Resource::new(content()).rule(When::always(), breakage::status(429)))
        .await;
    assert!(matches!(ran.error(), GetError::Status { status, .. } if status.as_u16() == 429));
    assert!(origin.asked().len() > 1 && origin.asked().len() < 20);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a18_an_origin_that_takes_four_connections_gets_four() {
    let rules: [fn(&haul_lab::Asked, &mut haul_lab::Reply); 2] =
        [breakage::refuse, |asked, reply| {
            breakage::status(403)(asked, reply)
        }];
    for rule in rules {
        let mut case = Case::new();
        case.options.connections = Connections::Fixed(8);
        let content = Content::random(9, 8 << 20);
        let resource = Resource::new(content.clone()).rule(When::crowded(4), rule);
        let origin = Origin::builder()
            .resource("/f.bin", resource)
            .rate_per_connection(4 << 20)
            .start()
            .await;
        let ran = case.get(&origin.url("/f.bin")).await;
        let settled = ran.outcome().connections;
        assert!((3..=5).contains(&settled), "settled on {settled}");
        case.assert_file(&content);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a21_missing_credentials_name_the_realm_and_are_not_retried() {
    let case = Case::new();
    let challenge = breakage::status_with(401, "WWW-Authenticate", "Basic realm=\"vault\"".into());
    let (ran, origin) = case
        .run(Resource::new(content()).rule(When::always(), challenge))
        .await;
    assert!(ran.error().to_string().contains("vault"), "{}", ran.error());
    assert!(ran.error().hint().is_some());
    assert_eq!(origin.asked().len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a21_basic_bearer_and_netrc_are_sent() {
    let login = Login {
        user: "u".into(),
        password: Secret::new("p".into()),
    };
    let netrc = haul_net::Netrc::parse("machine 127.0.0.1 login u password p").unwrap();
    for (credentials, expected) in [
        (
            Credentials {
                login: Some(login),
                ..Credentials::default()
            },
            "Basic dTpw",
        ),
        (
            Credentials {
                bearer: Some(Secret::new("t0k".into())),
                ..Credentials::default()
            },
            "Bearer t0k",
        ),
        (
            Credentials {
                netrc: Some(netrc),
                ..Credentials::default()
            },
            "Basic dTpw",
        ),
    ] {
        let mut case = Case::new();
        case.client.credentials = credentials;
        let locked = When::is(move |asked| asked.header("authorization") != Some(expected));
        let (ran, _origin) = case
            .run(Resource::new(content()).rule(locked, breakage::status(401)))
            .await;
        ran.outcome();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a21_digest_is_answered_after_one_challenge() {
    let mut case = Case::new();
    case.options.connections = Connections::Fixed(1);
    case.client.credentials.login = Some(Login {
        user: "u".into(),
        password: Secret::new("p".into()),
    });
    let locked = When::is(|asked| {
        !asked
            .header("authorization")
            .is_some_and(|sent| sent.starts_with("Digest ") && sent.contains("username=\"u\""))
    });
    let challenge = "Digest realm=\"vault\", qop=\"auth\", nonce=\"n1\", algorithm=SHA-256";
    let rule = breakage::status_with(401, "WWW-Authenticate", challenge.into());
    let (ran, origin) = case.run(Resource::new(content()).rule(locked, rule)).await;
    ran.outcome();
    case.assert_file(&content());
    assert_eq!(
        origin
            .asked()
            .iter()
            .filter(|asked| asked.status == 401)
            .count(),
        1
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a27_bad_certificates_are_refused_once_with_what_is_wrong() {
    let authority = Authority::new();
    for (issued, problem) in [
        (authority.issue_expired(&["127.0.0.1"]), TlsProblem::Expired),
        (authority.issue(&["other.test"]), TlsProblem::WrongHost),
        (
            Authority::self_signed(&["127.0.0.1"]),
            TlsProblem::UnknownIssuer,
        ),
        (
            Authority::new().issue(&["127.0.0.1"]),
            TlsProblem::UnknownIssuer,
        ),
    ] {
        let origin = Origin::builder()
            .tls(issued.server(None))
            .resource("/f.bin", Resource::new(content()))
            .start()
            .await;
        let mut case = Case::new();
        case.client.tls.cacert = Some(authority.pem().into_bytes());
        let ran = case.get(&origin.url("/f.bin")).await;
        let GetError::Transport { source, .. } = ran.error() else {
            panic!("{:?}", ran.error())
        };
        assert_eq!(*source.kind(), Kind::Tls(problem));
        assert!(
            !ran.events
                .iter()
                .any(|event| matches!(event, haul_transfer::Event::Retry { .. }))
        );
        case.client.tls.cacert = None;
        case.client.tls.insecure = true;
        case.get(&origin.url("/f.bin")).await.outcome();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a27_a_good_certificate_and_a_client_certificate_work() {
    let authority = Authority::new();
    let server = authority.issue(&["127.0.0.1"]).server(Some(&authority));
    let origin = Origin::builder()
        .tls(server)
        .resource("/f.bin", Resource::new(content()))
        .start()
        .await;
    let me = authority.issue(&["client"]);
    let mut case = Case::new();
    case.client.tls.cacert = Some(authority.pem().into_bytes());
    case.client.tls.identity = Some(haul_net::Identity {
        certificates: me.certificate.into_bytes(),
        key: me.key.into_bytes(),
    });
    case.get(&origin.url("/f.bin")).await.outcome();
    case.assert_file(&content());
}

/// Downloads from an origin on 127.0.0.1 whose name has these addresses before that one.
async fn with_addresses_before(origin: &Origin, before: &[&str]) -> Ran {
    let port = origin.address().port();
    let mut case = Case::new();
    case.client.connector.pins = vec![Pin {
        host: "twofold.test".into(),
        port,
        addresses: [before, &["127.0.0.1"]]
            .concat()
            .iter()
            .map(|address| address.parse().unwrap())
            .collect(),
    }];
    let ran = case.get(&format!("http://twofold.test:{port}/f.bin")).await;
    case.assert_file(&content());
    ran
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a28_an_address_that_refuses_costs_no_pause() {
    let origin = serve(Resource::new(content())).await;
    // Nothing listens on the first two: one of each family.
    let ran = with_addresses_before(&origin, &["::1", "127.0.0.77"]).await;
    assert_eq!(ran.outcome().retries, 0);
}

/// An address on which connecting brings neither an answer nor an error: nobody takes connections from a full queue.
#[cfg(target_os = "linux")]
async fn silent(address: SocketAddr) -> (TcpListener, Vec<TcpStream>) {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(address).unwrap();
    let listener = socket.listen(0).unwrap();
    let mut waiting = Vec::new();
    while let Ok(stream) = timeout(Duration::from_millis(100), TcpStream::connect(address)).await {
        waiting.push(stream.unwrap());
        assert!(waiting.len() < 64, "its queue has no end");
    }
    (listener, waiting)
}

#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a28_an_address_that_is_silent_is_not_waited_for() {
    let origin = serve(Resource::new(content())).await;
    let port = origin.address().port();
    let _silent = silent(([127, 0, 0, 78], port).into()).await;
    // Waited for, it would cost the connect timeout, and then a retry.
    let ran = with_addresses_before(&origin, &["127.0.0.78"]).await;
    assert_eq!(ran.outcome().retries, 0);
    assert!(ran.outcome().elapsed < ConnectorConfig::default().connect_timeout);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn final_statuses_are_not_retried() {
    for status in [400, 404, 410, 451] {
        let case = Case::new();
        let (ran, origin) = case
            .run(Resource::new(content()).rule(When::always(), breakage::status(status)))
            .await;
        assert!(matches!(ran.error(), GetError::Status { .. }));
        assert_eq!(origin.asked().len(), 1);
        assert!(case.listing().is_empty(), "{:?}", case.listing());
    }
}
