//! Row A29: what peers do to requests that share an HTTP/2 connection.

use std::time::Duration;

use bytes::Bytes;
use futures_util::future::join_all;
use haul_lab::http2::frames::{
    data_frame, frame, go_away_frame, headers_frame, interim_headers_frame, padded_data_frame,
    reset_frame, settings_frame,
};
use haul_lab::http2::{
    FrameRequest, Http2FrameOrigin, Http2Origin, Http2Settings, StreamAction, alpn_server_config,
};
use haul_lab::{CertificateAuthority, ResourceContent, within};
use haul_net::{Client, ClientConfig, ConnectorConfig, HttpVersionChoice, Kind, TlsProblem};

use crate::http2::{
    BOTH_VERSIONS, config, file, get_shared, get_shared_body, slow_link, start_origin,
};
use crate::{LIMIT, body, client};

/// Error codes (RFC 9113 section 7).
const NO_ERROR: u32 = 0;
const INTERNAL_ERROR: u32 = 2;
const REFUSED_STREAM: u32 = 7;
const CANCEL: u32 = 8;
const ENHANCE_YOUR_CALM: u32 = 11;
const HTTP_1_1_REQUIRED: u32 = 13;

/// How long a peer may be silent in these tests.
const SILENCE: Duration = Duration::from_millis(300);

async fn start_frame_origin(
    script: impl Fn(FrameRequest) -> Option<Vec<u8>> + Send + Sync + 'static,
) -> (Http2FrameOrigin, Client) {
    let authority = CertificateAuthority::new();
    let tls = alpn_server_config(&authority.issue(&["127.0.0.1"]), None, &["h2"]);
    let origin = Http2FrameOrigin::start(tls, script).await;
    let client = client(ClientConfig {
        stall_timeout: SILENCE,
        response_timeout: SILENCE,
        ..config(&authority, HttpVersionChoice::Http2)
    });
    (origin, client)
}

async fn start_scripted_origin(
    settings: Http2Settings,
    script: impl Fn(&haul_lab::http2::Http2Request) -> StreamAction + Send + Sync + 'static,
) -> (Http2Origin, Client) {
    let authority = CertificateAuthority::new();
    let origin = start_origin(&authority, BOTH_VERSIONS, settings, script).await;
    let client = client(ClientConfig {
        stall_timeout: SILENCE,
        response_timeout: SILENCE,
        ..config(&authority, HttpVersionChoice::Http2)
    });
    (origin, client)
}

fn whole_response(stream: u32) -> Vec<u8> {
    [
        headers_frame(stream, Some(3), false),
        data_frame(stream, b"abc", true),
    ]
    .concat()
}

#[tokio::test]
async fn a29_no_request_is_sent_twice_when_a_peer_goes_away_in_a_batch() {
    let (origin, client) = start_scripted_origin(Http2Settings::default(), |request| {
        if request.number % 10 == 9 {
            StreamAction::GoAway(file(&request.path))
        } else {
            StreamAction::Respond(file(&request.path))
        }
    })
    .await;
    let one = async |n: usize| {
        let path = format!("/{n}");
        assert_eq!(
            get_shared_body(&client, &origin.url(&path)).await.unwrap(),
            file(&path)
        );
    };
    for batch in 0..20 {
        join_all((0..8).map(|n| one(batch * 8 + n))).await;
    }
    let mut paths: Vec<String> = origin
        .requests()
        .into_iter()
        .map(|request| request.path)
        .collect();
    paths.sort_unstable();
    paths.dedup();
    assert_eq!((paths.len(), origin.requests().len()), (160, 160));
    assert!(origin.connection_count() > 8);
}

#[tokio::test]
async fn a29_after_goaway_running_streams_finish_and_the_rest_uses_a_new_connection() {
    // Of three requests the origin takes two: it sends a GOAWAY that leaves out the third, and then both responses.
    let (origin, client) =
        start_frame_origin(|request| match (request.connection, request.number) {
            (0, 0 | 1) => Some(Vec::new()),
            (0, _) => Some(
                [
                    go_away_frame(3, NO_ERROR),
                    whole_response(1),
                    whole_response(3),
                ]
                .concat(),
            ),
            _ => Some(whole_response(request.stream)),
        })
        .await;
    let url = origin.url("/f");
    for result in join_all((0..3).map(|_| get_shared_body(&client, &url))).await {
        assert_eq!(result.unwrap(), b"abc");
    }
    assert_eq!(origin.connection_count(), 2);
    get_shared_body(&client, &url).await.unwrap();
    assert_eq!(origin.connection_count(), 2);
}

#[tokio::test]
async fn a29_refused_requests_are_sent_again_with_fewer_streams_at_once() {
    let (origin, client) = start_scripted_origin(Http2Settings::default(), |request| {
        if request.concurrent > 4 {
            StreamAction::Reset(REFUSED_STREAM)
        } else {
            StreamAction::RespondAfter(Duration::from_millis(10), file(&request.path))
        }
    })
    .await;
    let urls: Vec<String> = (0..32).map(|n| origin.url(&format!("/{n}"))).collect();
    for result in join_all(urls.iter().map(|url| get_shared_body(&client, url))).await {
        result.unwrap();
    }
    assert!(origin.connection_count() <= 2);
}

#[tokio::test]
async fn a29_a_peer_that_refuses_every_request_gets_it_twice() {
    let (origin, client) = start_scripted_origin(Http2Settings::default(), |_| {
        StreamAction::Reset(REFUSED_STREAM)
    })
    .await;
    let error = get_shared(&client, &origin.url("/f")).await.unwrap_err();
    assert!(*error.kind() == Kind::Closed && error.is_transient());
    assert_eq!(origin.requests().len(), 2);
}

#[tokio::test]
async fn a29_other_resets_fail_one_request_and_are_not_retried() {
    for reason in [INTERNAL_ERROR, ENHANCE_YOUR_CALM, CANCEL] {
        let (origin, client) = start_scripted_origin(Http2Settings::default(), move |request| {
            if request.number == 0 {
                StreamAction::Reset(reason)
            } else {
                StreamAction::Respond(file(&request.path))
            }
        })
        .await;
        let error = get_shared(&client, &origin.url("/f")).await.unwrap_err();
        assert!(
            *error.kind() == Kind::Closed && error.is_transient(),
            "{reason}"
        );
        get_shared_body(&client, &origin.url("/f")).await.unwrap();
        assert_eq!((origin.connection_count(), origin.requests().len()), (1, 2));
    }
}

#[tokio::test]
async fn a29_a_body_that_is_reset_is_never_complete() {
    for reason in [NO_ERROR, INTERNAL_ERROR, REFUSED_STREAM] {
        for length in [Some(10), None] {
            let (origin, client) = start_frame_origin(move |request| {
                let (head, chunk) = (
                    headers_frame(request.stream, length, false),
                    data_frame(request.stream, b"half", false),
                );
                Some([head, chunk, reset_frame(request.stream, reason)].concat())
            })
            .await;
            let error = get_shared_body(&client, &origin.url("/f"))
                .await
                .unwrap_err();
            assert_eq!(*error.kind(), Kind::Closed, "{reason} {length:?}");
            assert_eq!(origin.connection_count(), 1);
        }
    }
}

#[tokio::test]
async fn a29_wrong_lengths_and_data_after_the_end_are_protocol_errors() {
    type MalformedResponse = fn(u32) -> Vec<u8>;
    let malformed: [MalformedResponse; 4] = [
        |stream| {
            [
                headers_frame(stream, Some(9), false),
                data_frame(stream, b"short", true),
            ]
            .concat()
        },
        |stream| {
            [
                headers_frame(stream, Some(2), false),
                data_frame(stream, b"long", true),
            ]
            .concat()
        },
        |stream| headers_frame(stream, Some(9), true),
        // Data for a stream that does not exist.
        |stream| {
            [
                headers_frame(stream, Some(9), false),
                data_frame(stream + 2, b"x", false),
            ]
            .concat()
        },
    ];
    for (index, response) in malformed.into_iter().enumerate() {
        let (origin, client) =
            start_frame_origin(move |request| Some(response(request.stream))).await;
        let error = get_shared_body(&client, &origin.url("/f"))
            .await
            .unwrap_err();
        assert_eq!(*error.kind(), Kind::Protocol, "{index}: {error:?}");
    }
    let (origin, client) = start_frame_origin(|request| {
        let late = [
            whole_response(request.stream),
            data_frame(request.stream, b"late", true),
        ];
        Some(late.concat())
    })
    .await;
    assert_eq!(
        get_shared_body(&client, &origin.url("/f")).await.unwrap(),
        b"abc"
    );
}

/// Some interim responses are skipped. More than any peer has reason to send end their request, and the connection goes on.
#[tokio::test]
async fn a29_interim_responses_without_end_are_an_error() {
    let (origin, client) = start_frame_origin(|request| {
        let interim = match request.number {
            0 => interim_headers_frame(request.stream, 103, 10).repeat(1_001),
            _ => interim_headers_frame(request.stream, 103, 10).repeat(1_000),
        };
        Some([interim, whole_response(request.stream)].concat())
    })
    .await;
    let url = origin.url("/f");
    let error = get_shared_body(&client, &url).await.unwrap_err();
    assert_eq!(*error.kind(), Kind::Protocol);
    assert_eq!(get_shared_body(&client, &url).await.unwrap(), b"abc");
    assert_eq!(origin.connection_count(), 1);
}

#[tokio::test]
async fn a29_padding_trailers_and_empty_frames_are_not_part_of_a_body() {
    let (origin, client) = start_frame_origin(|request| {
        let id = request.stream;
        let trailers = frame(1, 0x5, id, &[0x0f, 0x0d, 1, b'3']);
        Some(
            [
                settings_frame(5, 16_384),
                frame(6, 0, 0, b"8 octets"),
                headers_frame(id, Some(3), false),
                padded_data_frame(id, b"a", 255, false),
                data_frame(id, b"", false),
                padded_data_frame(id, b"bc", 0, false),
                trailers,
            ]
            .concat(),
        )
    })
    .await;
    for _ in 0..2 {
        assert_eq!(
            get_shared_body(&client, &origin.url("/f")).await.unwrap(),
            b"abc"
        );
    }
    assert_eq!(origin.connection_count(), 1);
}

#[tokio::test]
async fn a29_tiny_windows_tiny_frames_and_bodies_larger_than_the_window() {
    let settings = Http2Settings {
        initial_window: 1,
        max_frame_bytes: 7,
        ..Http2Settings::default()
    };
    let (origin, client) = start_scripted_origin(settings, |request| {
        StreamAction::Respond(file(&request.path))
    })
    .await;
    let one = async |n: usize| {
        let path = format!("/{n}");
        assert_eq!(
            get_shared_body(&client, &origin.url(&path)).await.unwrap(),
            file(&path)
        );
    };
    join_all((0..8).map(one)).await;
    // Five bodies at once are larger than the window of a connection.
    let large = Bytes::from(ResourceContent::random(9, 5_000_000).to_vec());
    let served = large.clone();
    let (origin, client) = start_scripted_origin(Http2Settings::default(), move |_| {
        StreamAction::Respond(served.clone())
    })
    .await;
    let url = origin.url("/f");
    for result in join_all((0..5).map(|_| get_shared_body(&client, &url))).await {
        assert!(result.unwrap() == large);
    }
}

#[tokio::test]
async fn a29_a_silent_body_stalls_and_other_streams_go_on() {
    let (origin, client) = start_scripted_origin(Http2Settings::default(), |request| {
        let body = file(&request.path);
        match request.path.as_str() {
            "/hangs" => StreamAction::Hang(1_000, body),
            _ => StreamAction::RespondAfter(SILENCE / 10, body),
        }
    })
    .await;
    let (hangs, other) = (origin.url("/hangs"), origin.url("/f"));
    let mut response = get_shared(&client, &hangs).await.unwrap();
    let stalled = async {
        let mut received = 0;
        loop {
            match within(LIMIT, response.chunk()).await {
                Ok(chunk) => received += chunk.unwrap().len(),
                Err(error) => break (received, error.kind().clone()),
            }
        }
    };
    let others = async {
        for _ in 0..20 {
            get_shared_body(&client, &other).await.unwrap();
        }
    };
    let (stalled, ()) = tokio::join!(stalled, others);
    assert_eq!(stalled, (1_000, Kind::Stall));
    drop(response);
    get_shared_body(&client, &other).await.unwrap();
    assert_eq!(
        (origin.connection_count(), origin.reset_reasons()),
        (1, vec![CANCEL])
    );
}

#[tokio::test]
async fn a29_a_silent_connection_is_not_used_again() {
    for sent in [0, 1_000] {
        let (origin, client) = start_scripted_origin(Http2Settings::default(), move |request| {
            match request.connection {
                0 if sent == 0 => StreamAction::Hang(0, Bytes::new()),
                0 => StreamAction::Hang(sent, file(&request.path)),
                _ => StreamAction::Respond(file(&request.path)),
            }
        })
        .await;
        let error = get_shared_body(&client, &origin.url("/f"))
            .await
            .unwrap_err();
        let expected = match sent {
            0 => Kind::ResponseTimeout,
            _ => Kind::Stall,
        };
        assert_eq!(*error.kind(), expected);
        get_shared_body(&client, &origin.url("/f")).await.unwrap();
        assert_eq!(origin.connection_count(), 2);
    }
}

#[tokio::test]
async fn a47_a_request_waits_on_for_its_response_while_others_avoid_the_silent_connection() {
    let authority = CertificateAuthority::new();
    let settings = Http2Settings::default();
    let origin = start_origin(&authority, BOTH_VERSIONS, settings, |request| match request
        .connection
    {
        0 => StreamAction::Hang(0, Bytes::new()),
        _ => StreamAction::Respond(file(&request.path)),
    })
    .await;
    let client = client(ClientConfig {
        stall_timeout: SILENCE,
        response_timeout: SILENCE * 4,
        ..config(&authority, HttpVersionChoice::Http2)
    });
    let (slow, url) = (origin.url("/slow"), origin.url("/f"));
    let started = tokio::time::Instant::now();
    let waiting = async {
        let error = get_shared(&client, &slow).await.unwrap_err();
        (error.kind().clone(), started.elapsed() >= SILENCE * 4)
    };
    let others = async {
        tokio::time::sleep(SILENCE * 2).await;
        get_shared_body(&client, &url).await.unwrap();
        started.elapsed() < SILENCE * 4
    };
    let outcome = tokio::join!(waiting, others);
    assert_eq!(outcome, ((Kind::ResponseTimeout, true), true));
    assert_eq!(origin.connection_count(), 2);
}

#[tokio::test]
async fn a29_a_dropped_response_resets_its_stream_and_keeps_the_connection() {
    let (origin, client) = start_scripted_origin(Http2Settings::default(), |request| match request
        .path
        .as_str()
    {
        "/f" => StreamAction::Respond(file("/f")),
        _ => StreamAction::Hang(1_000, file(&request.path)),
    })
    .await;
    drop(get_shared(&client, &origin.url("/dropped")).await.unwrap());
    get_shared(&client, &origin.url("/discarded"))
        .await
        .unwrap()
        .discard()
        .await;
    get_shared(&client, &origin.url("/recycled"))
        .await
        .unwrap()
        .recycle();
    get_shared_body(&client, &origin.url("/f")).await.unwrap();
    let all_reset = async {
        while origin.reset_reasons().len() < 3 {
            tokio::task::yield_now().await;
        }
    };
    within(LIMIT, all_reset).await;
    assert_eq!(
        (origin.connection_count(), origin.reset_reasons()),
        (1, vec![CANCEL; 3])
    );
}

#[tokio::test]
async fn a29_a_lost_connection_is_replaced_once_if_it_was_used_before() {
    let (origin, client) =
        start_scripted_origin(Http2Settings::default(), |request| match request.number {
            1 | 3 | 4 => StreamAction::CloseConnection,
            _ => StreamAction::Respond(file(&request.path)),
        })
        .await;
    let url = origin.url("/f");
    get_shared_body(&client, &url).await.unwrap();
    // The origin closes the connection at the second request, which is sent again as the third.
    get_shared_body(&client, &url).await.unwrap();
    assert_eq!(origin.requests().len(), 3);
    let error = get_shared(&client, &url).await.unwrap_err();
    assert!(*error.kind() == Kind::Closed && error.is_transient());
    assert_eq!(origin.requests().len(), 5);
}

#[tokio::test]
async fn a29_a_peer_that_requires_http_1_gets_it() {
    let authority = CertificateAuthority::new();
    let origin = start_origin(
        &authority,
        BOTH_VERSIONS,
        Http2Settings::default(),
        |request| {
            if request.is_http2 {
                StreamAction::Reset(HTTP_1_1_REQUIRED)
            } else {
                StreamAction::Respond(file(&request.path))
            }
        },
    )
    .await;
    let forced = client(config(&authority, HttpVersionChoice::Http2));
    let error = get_shared(&forced, &origin.url("/f")).await.unwrap_err();
    assert_eq!(*error.kind(), Kind::Tls(TlsProblem::NoHttp2));
    let (_link, url) = slow_link(origin.address()).await;
    let client = client(config(&authority, HttpVersionChoice::Auto));
    for _ in 0..3 {
        assert_eq!(
            get_shared_body(&client, &format!("{url}/f")).await.unwrap(),
            file("/f")
        );
    }
    let is_http2: Vec<bool> = origin
        .requests()
        .iter()
        .map(|request| request.is_http2)
        .collect();
    assert_eq!(is_http2, [true, true, false, false, false]);
}

#[tokio::test]
async fn a29_http_1_is_used_also_after_a_refused_request() {
    let authority = CertificateAuthority::new();
    let origin = start_origin(
        &authority,
        BOTH_VERSIONS,
        Http2Settings::default(),
        |request| match (request.is_http2, request.number) {
            (true, 0) => StreamAction::Reset(REFUSED_STREAM),
            (true, _) => StreamAction::Reset(HTTP_1_1_REQUIRED),
            (false, _) => StreamAction::Respond(file(&request.path)),
        },
    )
    .await;
    let (_link, url) = slow_link(origin.address()).await;
    let client = client(config(&authority, HttpVersionChoice::Auto));
    let url = format!("{url}/f");
    assert_eq!(get_shared_body(&client, &url).await.unwrap(), file("/f"));
    let is_http2: Vec<bool> = origin
        .requests()
        .iter()
        .map(|request| request.is_http2)
        .collect();
    assert_eq!(is_http2, [true, true, false]);
}

#[tokio::test]
async fn a29_full_connections_are_an_error_of_their_own() {
    let authority = CertificateAuthority::new();
    let settings = Http2Settings {
        max_streams: Some(1),
        ..Http2Settings::default()
    };
    let origin = start_origin(&authority, BOTH_VERSIONS, settings, |request| match request
        .path
        .as_str()
    {
        "/f" => StreamAction::Respond(file("/f")),
        _ => StreamAction::Hang(1_000, file(&request.path)),
    })
    .await;
    let client = client(ClientConfig {
        stall_timeout: SILENCE,
        response_timeout: SILENCE,
        connector: ConnectorConfig {
            connect_timeout: SILENCE * 2,
            ..ConnectorConfig::default()
        },
        ..config(&authority, HttpVersionChoice::Http2)
    });
    // The first response tells how many streams the origin takes. Bodies that nobody reads occupy them.
    get_shared_body(&client, &origin.url("/f")).await.unwrap();
    let first = get_shared(&client, &origin.url("/a")).await.unwrap();
    let _second = get_shared(&client, &origin.url("/b")).await.unwrap();
    let error = get_shared(&client, &origin.url("/f")).await.unwrap_err();
    let peer = origin.address().to_string();
    assert_eq!(*error.kind(), Kind::ConnectionsBusy(peer.clone()));
    assert!(error.is_transient() && error.to_string().contains(&peer));
    drop(first);
    get_shared_body(&client, &origin.url("/f")).await.unwrap();
    assert_eq!(origin.connection_count(), 2);
}

#[tokio::test]
async fn a29_a23_endless_heads_and_floods_of_frames_end_with_an_error() {
    // A literal header field of 16,000 bytes, again and again.
    let mut field = vec![0x00, 1, b'x', 0x7f, 0x81, 0x7c];
    field.resize(field.len() + 16_000, b'y');
    let endless = move |request: FrameRequest| {
        let mut frames = frame(1, 0, request.stream, &[0x88]);
        for _ in 0..200 {
            frames.extend(frame(9, 0, request.stream, &field));
        }
        Some(frames)
    };
    let (origin, limited) = start_frame_origin(endless).await;
    let error = get_shared(&limited, &origin.url("/f")).await.unwrap_err();
    assert_eq!(*error.kind(), Kind::Protocol, "{error:?}");
    // Empty data frames: each is allowed, a flood of them is not.
    let (origin, flooded) = start_frame_origin(|request| {
        let mut frames = headers_frame(request.stream, None, false);
        (0..50_000).for_each(|_| frames.extend(data_frame(request.stream, b"", false)));
        Some(frames)
    })
    .await;
    let error = get_shared_body(&flooded, &origin.url("/f"))
        .await
        .unwrap_err();
    assert_eq!(*error.kind(), Kind::Protocol, "{error:?}");
}

#[tokio::test]
async fn a29_a_response_outlives_its_client() {
    let (origin, client) = start_scripted_origin(Http2Settings::default(), |_| {
        StreamAction::Respond(Bytes::from(ResourceContent::random(1, 3_000_000).to_vec()))
    })
    .await;
    let response = get_shared(&client, &origin.url("/f")).await.unwrap();
    drop(client);
    assert_eq!(body(response).await.unwrap().len(), 3_000_000);
}
