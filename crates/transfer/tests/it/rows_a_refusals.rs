//! Rows A16 to A18, A21, A27: redirects, error statuses, connection limits, authentication and certificates.

use haul_lab::{
    CertificateAuthority, Origin, OriginResource, RequestMatcher, ResourceContent, faults,
};
use haul_net::{Kind, Login, Secret, TlsProblem, UserCredentials};
use haul_transfer::{ConnectionCount, GetError, NetworkError, OriginError};

use crate::harness::{JobCase, content, serve};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a16_redirects_are_followed_and_credentials_are_not_sent_to_the_target() {
    for status in [301, 302, 303, 307, 308] {
        let target = serve(OriginResource::new(content())).await;
        let redirecting = serve(OriginResource::new(content()).rule(
            RequestMatcher::always(),
            faults::status_with_header(status, "Location", target.url("/f.bin")),
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
        let run = case.get(&redirecting.url("/f.bin")).await;
        assert_eq!(run.outcome().final_url.as_str(), target.url("/f.bin"));
        case.assert_file(&content());
        assert!(
            redirecting
                .requests()
                .iter()
                .all(|request| request.header("authorization").is_some()
                    && request.header("cookie").is_some())
        );
        assert!(target.requests().len() > 3);
        assert!(
            target
                .requests()
                .iter()
                .all(|request| request.header("authorization").is_none()
                    && request.header("cookie").is_none())
        );
        assert_eq!(
            redirecting.requests().len(),
            1,
            "segments are requested from the target of the redirect"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a16_an_expired_token_is_renewed_by_a_request_to_the_first_url() {
    let target = Origin::builder()
        .resource(
            "/t",
            OriginResource::new(content()).rule(
                RequestMatcher::matching(|request| {
                    // Each token is valid for three requests.
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
    let token_url = target.url("/t");
    let redirecting = serve(OriginResource::new(content()).rule(
        RequestMatcher::always(),
        move |request, reply| {
            faults::status_with_header(
                302,
                "Location",
                format!("{token_url}?token={}", request.number_for_path * 2),
            )(request, reply);
        },
    ))
    .await;
    let mut case = JobCase::new();
    case.options.connections = ConnectionCount::Fixed(1);
    let run = case.get(&redirecting.url("/f.bin")).await;
    run.outcome();
    case.assert_file(&content());
    assert!(redirecting.requests().len() > 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a16_a_redirect_loop_is_an_error_after_twenty_redirects() {
    let origin = serve(OriginResource::new(content()).rule(
        RequestMatcher::always(),
        faults::status_with_header(302, "Location", "/f.bin".into()),
    ))
    .await;
    let run = JobCase::new().get(&origin.url("/f.bin")).await;
    assert!(
        matches!(run.error(), GetError::Network { error: NetworkError::Transport { source, .. }, .. } if matches!(source.kind(), Kind::Redirect(_)))
    );
    assert_eq!(origin.requests().len(), 21);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a17_an_origin_that_sends_503_gets_fewer_connections() {
    let case = JobCase::new();
    let busy = faults::status_with_header(503, "Retry-After", "0".into());
    let resource = OriginResource::new(content()).rule(
        RequestMatcher::matching(|request| request.number_for_path % 4 == 2),
        busy,
    );
    let (run, _origin) = case.run(resource).await;
    assert!(
        run.outcome().connections < 4,
        "settled on {}",
        run.outcome().connections
    );
    case.assert_file(&content());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a17_permanent_429_responses_fail_the_job_with_the_status() {
    let case = JobCase::new();
    let (run, origin) = case
        .run(OriginResource::new(content()).rule(RequestMatcher::always(), faults::status(429)))
        .await;
    assert!(
        matches!(run.error(), GetError::Origin { error: OriginError::Status { status, .. }, .. } if status.as_u16() == 429)
    );
    assert!(origin.requests().len() > 1 && origin.requests().len() < 20);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a18_the_connection_count_adapts_to_an_origin_that_accepts_four() {
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
        let run = case.get(&origin.url("/f.bin")).await;
        let connections = run.outcome().connections;
        assert!((3..=5).contains(&connections), "settled on {connections}");
        case.assert_file(&content);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a21_missing_credentials_name_the_realm_and_are_not_retried() {
    let case = JobCase::new();
    let challenge =
        faults::status_with_header(401, "WWW-Authenticate", "Basic realm=\"vault\"".into());
    let (run, origin) = case
        .run(OriginResource::new(content()).rule(RequestMatcher::always(), challenge))
        .await;
    assert!(run.error().to_string().contains("vault"), "{}", run.error());
    assert!(!run.error().remedies().is_empty());
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
        let (run, _origin) = case
            .run(OriginResource::new(content()).rule(locked, faults::status(401)))
            .await;
        run.outcome();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a21_digest_authentication_needs_one_challenge() {
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
    let (run, origin) = case
        .run(OriginResource::new(content()).rule(locked, rule))
        .await;
    run.outcome();
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
        let run = case.get(&origin.url("/f.bin")).await;
        let GetError::Network {
            error: NetworkError::Transport { source, .. },
            ..
        } = run.error()
        else {
            panic!("{:?}", run.error())
        };
        assert_eq!(*source.kind(), Kind::Tls(problem));
        assert!(
            !run.events
                .iter()
                .any(|event| matches!(event, haul_transfer::TransferEvent::Retry { .. }))
        );
        case.client.tls.cacert = None;
        case.client.tls.insecure = true;
        case.get(&origin.url("/f.bin")).await.outcome();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a27_a_valid_certificate_is_accepted_and_a_client_certificate_is_sent() {
    let authority = CertificateAuthority::new();
    let server = authority
        .issue(&["127.0.0.1"])
        .server_config(Some(&authority));
    let origin = Origin::builder()
        .tls(server)
        .resource("/f.bin", OriginResource::new(content()))
        .start()
        .await;
    let client_certificate = authority.issue(&["client"]);
    let mut case = JobCase::new();
    case.client.tls.cacert = Some(authority.certificate_pem().into_bytes());
    case.client.tls.client_certificate = Some(haul_net::ClientCertificate {
        certificates: client_certificate.certificate_pem.into_bytes(),
        key: client_certificate.key_pem.into_bytes(),
    });
    case.get(&origin.url("/f.bin")).await.outcome();
    case.assert_file(&content());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn permanent_error_statuses_are_not_retried() {
    // Two requests where the status may be about the range (row A38).
    for (status, requests) in [(400, 2), (403, 2), (404, 1), (410, 1), (451, 1), (501, 8)] {
        let case = JobCase::new();
        let (run, origin) = case
            .run(
                OriginResource::new(content())
                    .rule(RequestMatcher::always(), faults::status(status)),
            )
            .await;
        assert!(matches!(
            run.error(),
            GetError::Origin {
                error: OriginError::Status { .. },
                ..
            }
        ));
        assert_eq!(origin.requests().len(), requests, "{status}");
        assert!(case.listing().is_empty(), "{:?}", case.listing());
    }
}
