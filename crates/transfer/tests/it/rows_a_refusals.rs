//! Rows A16 to A18, A21, A27: what an origin refuses, and where it sends one.
use haul_lab::{
    CertificateAuthority, Origin, OriginResource, RequestMatcher, ResourceContent, faults,
};
use haul_net::{Kind, Login, Secret, TlsProblem, UserCredentials};
use haul_transfer::{ConnectionCount, GetError};

use crate::harness::{JobCase, content, serve};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a16_redirects_are_followed_and_credentials_stay_with_their_origin() {
    for status in [301, 302, 303, 307, 308] {
        let far = serve(OriginResource::new(content())).await;
        let near = serve(OriginResource::new(content()).rule(
            RequestMatcher::always(),
            faults::status_with_header(status, "Location", far.url("/f.bin")),
        ))
        .await;
        let mut case = JobCase::new();
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
        assert!(
            near.requests()
                .iter()
                .all(|request| request.header("authorization").is_some()
                    && request.header("cookie").is_some())
        );
        assert!(far.requests().len() > 3);
        assert!(
            far.requests()
                .iter()
                .all(|request| request.header("authorization").is_none()
                    && request.header("cookie").is_none())
        );
        assert_eq!(
            near.requests().len(),
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
            OriginResource::new(content()).rule(
                RequestMatcher::matching(|request| {
                    // Each token is good for three requests.
                    let token: usize = request
                        .target
                        .split("token=")
                        .nth(1)
                        .and_then(|t| t.parse().ok())
                        .unwrap_or(0);
                    request.number_for_path >= (token + 1) * 3
                }),
                faults::status(403),
            ),
        )
        .start()
        .await;
    let target = far.url("/t");
    let near = serve(OriginResource::new(content()).rule(
        RequestMatcher::always(),
        move |request, reply| {
            faults::status_with_header(
                302,
                "Location",
                format!("{target}?token={}", request.number_for_path * 2),
            )(request, reply);
        },
    ))
    .await;
    let mut case = JobCase::new();
    case.options.connections = ConnectionCount::Fixed(1);
    let ran = case.get(&near.url("/f.bin")).await;
    ran.outcome();
    case.assert_file(&content());
    assert!(near.requests().len() > 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a16_redirect_loops_end() {
    let origin = serve(OriginResource::new(content()).rule(
        RequestMatcher::always(),
        faults::status_with_header(302, "Location", "/f.bin".into()),
    ))
    .await;
    let ran = JobCase::new().get(&origin.url("/f.bin")).await;
    assert!(
        matches!(ran.error(), GetError::Transport { source, .. } if matches!(source.kind(), Kind::Redirect(_)))
    );
    assert_eq!(origin.requests().len(), 21);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a17_busy_origins_get_fewer_connections_and_retries_after_a_wait() {
    let case = JobCase::new();
    let busy = faults::status_with_header(503, "Retry-After", "0".into());
    let resource = OriginResource::new(content()).rule(
        RequestMatcher::matching(|request| request.number_for_path % 4 == 2),
        busy,
    );
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
    let case = JobCase::new();
    let (ran, origin) = case
        .run(OriginResource::new(content()).rule(RequestMatcher::always(), faults::status(429)))
        .await;
    assert!(matches!(ran.error(), GetError::Status { status, .. } if status.as_u16() == 429));
    assert!(origin.requests().len() > 1 && origin.requests().len() < 20);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a18_an_origin_that_accepts_four_connections_gets_four() {
    let rules: [fn(&haul_lab::RecordedRequest, &mut haul_lab::OriginResponse); 2] =
        [faults::reset_connection, |request, reply| {
            faults::status(403)(request, reply)
        }];
    for rule in rules {
        let mut case = JobCase::new();
        case.options.connections = ConnectionCount::Fixed(8);
        let content = ResourceContent::random(9, 8 << 20);
        let resource = OriginResource::new(content.clone())
            .rule(RequestMatcher::above_open_connections(4), rule);
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
    let case = JobCase::new();
    let challenge =
        faults::status_with_header(401, "WWW-Authenticate", "Basic realm=\"vault\"".into());
    let (ran, origin) = case
        .run(OriginResource::new(content()).rule(RequestMatcher::always(), challenge))
        .await;
    assert!(ran.error().to_string().contains("vault"), "{}", ran.error());
    assert!(ran.error().hint().is_some());
    assert_eq!(origin.requests().len(), 1);
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
            UserCredentials {
                login: Some(login),
                ..UserCredentials::default()
            },
            "Basic dTpw",
        ),
        (
            UserCredentials {
                bearer: Some(Secret::new("t0k".into())),
                ..UserCredentials::default()
            },
            "Bearer t0k",
        ),
        (
            UserCredentials {
                netrc: Some(netrc),
                ..UserCredentials::default()
            },
            "Basic dTpw",
        ),
    ] {
        let mut case = JobCase::new();
        case.client.credentials = credentials;
        let locked = RequestMatcher::matching(move |request| {
            request.header("authorization") != Some(expected)
        });
        let (ran, _origin) = case
            .run(OriginResource::new(content()).rule(locked, faults::status(401)))
            .await;
        ran.outcome();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a21_digest_is_answered_after_one_challenge() {
    let mut case = JobCase::new();
    case.options.connections = ConnectionCount::Fixed(1);
    case.client.credentials.login = Some(Login {
        user: "u".into(),
        password: Secret::new("p".into()),
    });
    let locked = RequestMatcher::matching(|request| {
        !request
            .header("authorization")
            .is_some_and(|sent| sent.starts_with("Digest ") && sent.contains("username=\"u\""))
    });
    let challenge = "Digest realm=\"vault\", qop=\"auth\", nonce=\"n1\", algorithm=SHA-256";
    let rule = faults::status_with_header(401, "WWW-Authenticate", challenge.into());
    let (ran, origin) = case
        .run(OriginResource::new(content()).rule(locked, rule))
        .await;
    ran.outcome();
    case.assert_file(&content());
    assert_eq!(
        origin
            .requests()
            .iter()
            .filter(|request| request.status == 401)
            .count(),
        1
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a27_bad_certificates_are_refused_once_with_the_reason() {
    let authority = CertificateAuthority::new();
    for (issued, problem) in [
        (authority.issue_expired(&["127.0.0.1"]), TlsProblem::Expired),
        (authority.issue(&["other.test"]), TlsProblem::WrongHost),
        (
            CertificateAuthority::self_signed(&["127.0.0.1"]),
            TlsProblem::UnknownIssuer,
        ),
        (
            CertificateAuthority::new().issue(&["127.0.0.1"]),
            TlsProblem::UnknownIssuer,
        ),
    ] {
        let origin = Origin::builder()
            .tls(issued.server_config(None))
            .resource("/f.bin", OriginResource::new(content()))
            .start()
            .await;
        let mut case = JobCase::new();
        case.client.tls.cacert = Some(authority.certificate_pem().into_bytes());
        let ran = case.get(&origin.url("/f.bin")).await;
        let GetError::Transport { source, .. } = ran.error() else {
            panic!("{:?}", ran.error())
        };
        assert_eq!(*source.kind(), Kind::Tls(problem));
        assert!(
            !ran.events
                .iter()
                .any(|event| matches!(event, haul_transfer::TransferEvent::Retry { .. }))
        );
        case.client.tls.cacert = None;
        case.client.tls.insecure = true;
        case.get(&origin.url("/f.bin")).await.outcome();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a27_a_good_certificate_and_a_client_certificate_work() {
    let authority = CertificateAuthority::new();
    let server = authority
        .issue(&["127.0.0.1"])
        .server_config(Some(&authority));
    let origin = Origin::builder()
        .tls(server)
        .resource("/f.bin", OriginResource::new(content()))
        .start()
        .await;
    let me = authority.issue(&["client"]);
    let mut case = JobCase::new();
    case.client.tls.cacert = Some(authority.certificate_pem().into_bytes());
    case.client.tls.client_certificate = Some(haul_net::ClientCertificate {
        certificates: me.certificate_pem.into_bytes(),
        key: me.key_pem.into_bytes(),
    });
    case.get(&origin.url("/f.bin")).await.outcome();
    case.assert_file(&content());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn final_statuses_are_not_retried() {
    for status in [400, 404, 410, 451] {
        let case = JobCase::new();
        let (ran, origin) = case
            .run(
                OriginResource::new(content())
                    .rule(RequestMatcher::always(), faults::status(status)),
            )
            .await;
        assert!(matches!(ran.error(), GetError::Status { .. }));
        assert_eq!(origin.requests().len(), 1);
        assert!(case.listing().is_empty(), "{:?}", case.listing());
    }
}
