//! Row A29: what peers do to requests that share a connection.

use std::time::Duration;

use bytes::Bytes;
use futures_util::future::join_all;
use haul_lab::http2::frames::{
    data_frame, frame, go_away_frame, headers_frame, padded_data_frame, reset_frame, settings_frame,
};
use haul_lab::http2::{
    FrameRequest, Http2FrameOrigin, Http2Origin, Http2Settings, StreamAction, alpn_server_config,
};
use haul_lab::{CertificateAuthority, ResourceContent, within};
use haul_net::{Client, ClientConfig, ConnectorConfig, HttpVersionChoice, Kind, TlsProblem};

use crate::http2::{BOTH, config, far, fetched, file, get, origin};
use crate::{LIMIT, body, client};

/// Reasons (RFC 9113 section 7).
const NO_ERROR: u32 = 0;
const INTERNAL_ERROR: u32 = 2;
const REFUSED_STREAM: u32 = 7;
const CANCEL: u32 = 8;
const ENHANCE_YOUR_CALM: u32 = 11;
const HTTP_1_1_REQUIRED: u32 = 13;

/// How long a peer may be silent in these tests.
const SILENCE: Duration = Duration::from_millis(300);

async fn framing(
    script: impl Fn(FrameRequest) -> Option<Vec<u8>> + Send + Sync + 'static,
) -> (Http2FrameOrigin, Client) {
    let authority = CertificateAuthority::new();
    let tls = alpn_server_config(&authority.issue(&["127.0.0.1"]), None, &["h2"]);
    let origin = Http2FrameOrigin::start(tls, script).await;
    let client = client(ClientConfig {
        stall_timeout: SILENCE,
        ..config(&authority, HttpVersionChoice::Http2)
    });
    (origin, client)
}

async fn scripted(
    settings: Http2Settings,
    script: impl Fn(&haul_lab::http2::Http2Request) -> StreamAction + Send + Sync + 'static,
) -> (Http2Origin, Client) {
    let authority = CertificateAuthority::new();
    let origin = origin(&authority, BOTH, settings, script).await;
    let client = client(ClientConfig {
        stall_timeout: SILENCE,
        ..config(&authority, HttpVersionChoice::Http2)
    });
    (origin, client)
}

fn whole(stream: u32) -> Vec<u8> {
    [
        headers_frame(stream, Some(3), false),
        data_frame(stream, b"abc", true),
    ]
    .concat()
}

#[tokio::test]
async fn a29_a_peer_that_goes_away_mid_batch_is_asked_for_nothing_twice() {
    let (origin, client) = scripted(Http2Settings::default(), |asked| {
        if asked.number % 10 == 9 {
            StreamAction::GoAway(file(&asked.path))
        } else {
            StreamAction::Respond(file(&asked.path))
        }
    })
    .await;
    let one = async |n: usize| {
        let path = format!("/{n}");
        assert_eq!(
            fetched(&client, &origin.url(&path)).await.unwrap(),
            file(&path)
        );
    };
    for batch in 0..20 {
        join_all((0..8).map(|n| one(batch * 8 + n))).await;
    }
    let mut paths: Vec<String> = origin
        .requests()
        .into_iter()
        .map(|asked| asked.path)
        .collect();
    paths.sort_unstable();
    paths.dedup();
    assert_eq!((paths.len(), origin.requests().len()), (160, 160));
    assert!(origin.connection_count() > 8);
}

#[tokio::test]
async fn a29_what_runs_when_a_peer_goes_away_is_finished_and_the_rest_goes_elsewhere() {
    // Three requests come; the first two are looked at, and answered after the word that the third is not.
    let (origin, client) = framing(|heard| match (heard.connection, heard.number) {
        (0, 0 | 1) => Some(Vec::new()),
        (0, _) => Some([go_away_frame(3, NO_ERROR), whole(1), whole(3)].concat()),
        _ => Some(whole(heard.stream)),
    })
    .await;
    let url = origin.url("/f");
    for came in join_all((0..3).map(|_| fetched(&client, &url))).await {
        assert_eq!(came.unwrap(), b"abc");
    }
    assert_eq!(origin.connection_count(), 2);
    fetched(&client, &url).await.unwrap();
    assert_eq!(origin.connection_count(), 2);
}

#[tokio::test]
async fn a29_refused_requests_are_sent_again_as_many_at_once_as_are_taken() {
    let (origin, client) = scripted(Http2Settings::default(), |asked| {
        if asked.concurrent > 4 {
            StreamAction::Reset(REFUSED_STREAM)
        } else {
            StreamAction::RespondAfter(Duration::from_millis(10), file(&asked.path))
        }
    })
    .await;
    let urls: Vec<String> = (0..32).map(|n| origin.url(&format!("/{n}"))).collect();
    for came in join_all(urls.iter().map(|url| fetched(&client, url))).await {
        came.unwrap();
    }
    assert!(origin.connection_count() <= 2);
}

#[tokio::test]
async fn a29_one_who_refuses_everything_is_asked_twice() {
    let (origin, client) = scripted(Http2Settings::default(), |_| {
        StreamAction::Reset(REFUSED_STREAM)
    })
    .await;
    let error = get(&client, &origin.url("/f")).await.unwrap_err();
    assert!(*error.kind() == Kind::Closed && error.is_transient());
    assert_eq!(origin.requests().len(), 2);
}

#[tokio::test]
async fn a29_other_resets_end_one_request_and_are_not_answered_by_another() {
    for reason in [INTERNAL_ERROR, ENHANCE_YOUR_CALM, CANCEL] {
        let (origin, client) = scripted(Http2Settings::default(), move |asked| {
            if asked.number == 0 {
                StreamAction::Reset(reason)
            } else {
                StreamAction::Respond(file(&asked.path))
            }
        })
        .await;
        let error = get(&client, &origin.url("/f")).await.unwrap_err();
        assert!(
            *error.kind() == Kind::Closed && error.is_transient(),
            "{reason}"
        );
        fetched(&client, &origin.url("/f")).await.unwrap();
        assert_eq!((origin.connection_count(), origin.requests().len()), (1, 2));
    }
}

#[tokio::test]
async fn a29_a_body_that_is_reset_is_never_taken_for_a_whole_one() {
    for reason in [NO_ERROR, INTERNAL_ERROR, REFUSED_STREAM] {
        for length in [Some(10), None] {
            let (origin, client) = framing(move |heard| {
                let (head, piece) = (
                    headers_frame(heard.stream, length, false),
                    data_frame(heard.stream, b"half", false),
                );
                Some([head, piece, reset_frame(heard.stream, reason)].concat())
            })
            .await;
            let error = fetched(&client, &origin.url("/f")).await.unwrap_err();
            assert_eq!(*error.kind(), Kind::Closed, "{reason} {length:?}");
            assert_eq!(origin.connection_count(), 1);
        }
    }
}

#[tokio::test]
async fn a29_lengths_that_are_not_kept_and_data_after_the_end_are_found_out() {
    type Wrong = fn(u32) -> Vec<u8>;
    let wrong: [Wrong; 4] = [
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
        // On a connection: what is sent to nobody.
        |stream| {
            [
                headers_frame(stream, Some(9), false),
                data_frame(stream + 2, b"x", false),
            ]
            .concat()
        },
    ];
    for (at, wrong) in wrong.into_iter().enumerate() {
        let (origin, client) = framing(move |heard| Some(wrong(heard.stream))).await;
        let error = fetched(&client, &origin.url("/f")).await.unwrap_err();
        assert_eq!(*error.kind(), Kind::Protocol, "{at}: {error:?}");
    }
    let (origin, client) = framing(|heard| {
        let late = [whole(heard.stream), data_frame(heard.stream, b"late", true)];
        Some(late.concat())
    })
    .await;
    assert_eq!(fetched(&client, &origin.url("/f")).await.unwrap(), b"abc");
}

#[tokio::test]
async fn a29_padding_trailers_and_small_steps_are_no_part_of_a_body() {
    let (origin, client) = framing(|heard| {
        let id = heard.stream;
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
        assert_eq!(fetched(&client, &origin.url("/f")).await.unwrap(), b"abc");
    }
    assert_eq!(origin.connection_count(), 1);
}

#[tokio::test]
async fn a29_tiny_windows_and_frames_and_bodies_beyond_our_window() {
    let settings = Http2Settings {
        initial_window: 1,
        max_frame_bytes: 7,
        ..Http2Settings::default()
    };
    let (origin, client) =
        scripted(settings, |asked| StreamAction::Respond(file(&asked.path))).await;
    let one = async |n: usize| {
        let path = format!("/{n}");
        assert_eq!(
            fetched(&client, &origin.url(&path)).await.unwrap(),
            file(&path)
        );
    };
    join_all((0..8).map(one)).await;
    // More at once than all of them may send before they are read.
    let large = Bytes::from(ResourceContent::random(9, 5_000_000).to_vec());
    let served = large.clone();
    let (origin, client) = scripted(Http2Settings::default(), move |_| {
        StreamAction::Respond(served.clone())
    })
    .await;
    let url = origin.url("/f");
    for came in join_all((0..5).map(|_| fetched(&client, &url))).await {
        assert!(came.unwrap() == large);
    }
}

#[tokio::test]
async fn a29_one_body_that_stands_still_is_a_stall_and_the_others_go_on() {
    let (origin, client) = scripted(Http2Settings::default(), |asked| {
        let body = file(&asked.path);
        match asked.path.as_str() {
            "/hangs" => StreamAction::Hang(1_000, body),
            _ => StreamAction::RespondAfter(SILENCE / 10, body),
        }
    })
    .await;
    let (hangs, other) = (origin.url("/hangs"), origin.url("/f"));
    let mut answer = get(&client, &hangs).await.unwrap();
    let stalled = async {
        let mut came = 0;
        loop {
            match within(LIMIT, answer.chunk()).await {
                Ok(piece) => came += piece.unwrap().len(),
                Err(error) => break (came, error.kind().clone()),
            }
        }
    };
    let others = async {
        for _ in 0..20 {
            fetched(&client, &other).await.unwrap();
        }
    };
    let (stalled, ()) = tokio::join!(stalled, others);
    assert_eq!(stalled, (1_000, Kind::Stall));
    drop(answer);
    fetched(&client, &other).await.unwrap();
    assert_eq!(
        (origin.connection_count(), origin.reset_reasons()),
        (1, vec![CANCEL])
    );
}

#[tokio::test]
async fn a29_a_connection_on_which_nothing_comes_is_not_asked_again() {
    for sent in [0, 1_000] {
        let (origin, client) = scripted(Http2Settings::default(), move |asked| {
            match asked.connection {
                0 if sent == 0 => StreamAction::Hang(0, Bytes::new()),
                0 => StreamAction::Hang(sent, file(&asked.path)),
                _ => StreamAction::Respond(file(&asked.path)),
            }
        })
        .await;
        let error = fetched(&client, &origin.url("/f")).await.unwrap_err();
        assert_eq!(*error.kind(), Kind::Stall);
        fetched(&client, &origin.url("/f")).await.unwrap();
        assert_eq!(origin.connection_count(), 2);
    }
}

#[tokio::test]
async fn a29_an_answer_that_is_dropped_is_given_up_and_its_connection_is_not() {
    let (origin, client) = scripted(Http2Settings::default(), |asked| {
        match asked.path.as_str() {
            "/f" => StreamAction::Respond(file("/f")),
            _ => StreamAction::Hang(1_000, file(&asked.path)),
        }
    })
    .await;
    drop(get(&client, &origin.url("/dropped")).await.unwrap());
    get(&client, &origin.url("/discarded"))
        .await
        .unwrap()
        .discard()
        .await;
    get(&client, &origin.url("/recycled"))
        .await
        .unwrap()
        .recycle();
    fetched(&client, &origin.url("/f")).await.unwrap();
    let all = async {
        while origin.reset_reasons().len() < 3 {
            tokio::task::yield_now().await;
        }
    };
    within(LIMIT, all).await;
    assert_eq!(
        (origin.connection_count(), origin.reset_reasons()),
        (1, vec![CANCEL; 3])
    );
}

#[tokio::test]
async fn a29_a_connection_that_is_lost_is_replaced_once_if_it_was_used_before() {
    let (origin, client) = scripted(Http2Settings::default(), |asked| match asked.number {
        1 | 3 | 4 => StreamAction::CloseConnection,
        _ => StreamAction::Respond(file(&asked.path)),
    })
    .await;
    let url = origin.url("/f");
    fetched(&client, &url).await.unwrap();
    // The second is closed upon, and sent again as the third.
    fetched(&client, &url).await.unwrap();
    assert_eq!(origin.requests().len(), 3);
    let error = get(&client, &url).await.unwrap_err();
    assert!(*error.kind() == Kind::Closed && error.is_transient());
    assert_eq!(origin.requests().len(), 5);
}

#[tokio::test]
async fn a29_a_peer_that_wants_http_1_gets_it() {
    let authority = CertificateAuthority::new();
    let origin = origin(&authority, BOTH, Http2Settings::default(), |asked| {
        if asked.is_http2 {
            StreamAction::Reset(HTTP_1_1_REQUIRED)
        } else {
            StreamAction::Respond(file(&asked.path))
        }
    })
    .await;
    let forced = client(config(&authority, HttpVersionChoice::Http2));
    let error = get(&forced, &origin.url("/f")).await.unwrap_err();
    assert_eq!(*error.kind(), Kind::Tls(TlsProblem::NoHttp2));
    let (_proxy, client) = far(config(&authority, HttpVersionChoice::Auto)).await;
    for _ in 0..3 {
        assert_eq!(
            fetched(&client, &origin.url("/f")).await.unwrap(),
            file("/f")
        );
    }
    let asked: Vec<bool> = origin
        .requests()
        .iter()
        .map(|asked| asked.is_http2)
        .collect();
    assert_eq!(asked, [true, true, false, false, false]);
}

#[tokio::test]
async fn a29_a_refusal_before_it_does_not_stand_in_the_way_of_http_1() {
    let authority = CertificateAuthority::new();
    let origin = origin(&authority, BOTH, Http2Settings::default(), |asked| {
        match (asked.is_http2, asked.number) {
            (true, 0) => StreamAction::Reset(REFUSED_STREAM),
            (true, _) => StreamAction::Reset(HTTP_1_1_REQUIRED),
            (false, _) => StreamAction::Respond(file(&asked.path)),
        }
    })
    .await;
    let (_proxy, client) = far(config(&authority, HttpVersionChoice::Auto)).await;
    let url = origin.url("/f");
    assert_eq!(fetched(&client, &url).await.unwrap(), file("/f"));
    let asked: Vec<bool> = origin
        .requests()
        .iter()
        .map(|asked| asked.is_http2)
        .collect();
    assert_eq!(asked, [true, true, false]);
}

#[tokio::test]
async fn a29_connections_that_work_and_are_full_are_not_told_as_none() {
    let authority = CertificateAuthority::new();
    let settings = Http2Settings {
        max_streams: Some(1),
        ..Http2Settings::default()
    };
    let origin = origin(&authority, BOTH, settings, |asked| {
        match asked.path.as_str() {
            "/f" => StreamAction::Respond(file("/f")),
            _ => StreamAction::Hang(1_000, file(&asked.path)),
        }
    })
    .await;
    let client = client(ClientConfig {
        stall_timeout: SILENCE,
        connector: ConnectorConfig {
            connect_timeout: SILENCE * 2,
            ..ConnectorConfig::default()
        },
        ..config(&authority, HttpVersionChoice::Http2)
    });
    // By now it is known how many are taken at once. Bodies that nobody reads take up the room.
    fetched(&client, &origin.url("/f")).await.unwrap();
    let first = get(&client, &origin.url("/a")).await.unwrap();
    let _second = get(&client, &origin.url("/b")).await.unwrap();
    let error = get(&client, &origin.url("/f")).await.unwrap_err();
    let peer = origin.address().to_string();
    assert_eq!(*error.kind(), Kind::ConnectionsBusy(peer.clone()));
    assert!(error.is_transient() && error.to_string().contains(&peer));
    drop(first);
    fetched(&client, &origin.url("/f")).await.unwrap();
    assert_eq!(origin.connection_count(), 2);
}

#[tokio::test]
async fn a29_a23_heads_without_end_and_floods_end_with_an_error() {
    // A literal field of sixteen thousand bytes, over and over.
    let mut field = vec![0x00, 1, b'x', 0x7f, 0x81, 0x7c];
    field.resize(field.len() + 16_000, b'y');
    let endless = move |heard: FrameRequest| {
        let mut frames = frame(1, 0, heard.stream, &[0x88]);
        for _ in 0..200 {
            frames.extend(frame(9, 0, heard.stream, &field));
        }
        Some(frames)
    };
    let (origin, limited) = framing(endless).await;
    let error = get(&limited, &origin.url("/f")).await.unwrap_err();
    assert_eq!(*error.kind(), Kind::Protocol, "{error:?}");
    // Frames of no bytes: each is allowed, a million of them are not.
    let (origin, flooded) = framing(|heard| {
        let mut frames = headers_frame(heard.stream, None, false);
        (0..50_000).for_each(|_| frames.extend(data_frame(heard.stream, b"", false)));
        Some(frames)
    })
    .await;
    let error = fetched(&flooded, &origin.url("/f")).await.unwrap_err();
    assert_eq!(*error.kind(), Kind::Protocol, "{error:?}");
}

#[tokio::test]
async fn a29_an_answer_outlives_its_client() {
    let (origin, client) = scripted(Http2Settings::default(), |_| {
        StreamAction::Respond(Bytes::from(ResourceContent::random(1, 3_000_000).to_vec()))
    })
    .await;
    let answer = get(&client, &origin.url("/f")).await.unwrap();
    drop(client);
    assert_eq!(body(answer).await.unwrap().len(), 3_000_000);
}
