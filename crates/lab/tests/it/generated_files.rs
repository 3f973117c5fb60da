//! Generated files as clients see them, and the listener that does not respond.

use std::time::Duration;

use haul_lab::{FileFault, GeneratedFiles, Origin, SilentListener};
use tokio::net::TcpStream;

use crate::raw::{ConnectionEnd, RawConnection, RawResponse};

/// Sends one request over a new connection. A stalled response is dropped.
async fn get(origin: &Origin, path: &str) -> RawResponse {
    let mut raw = RawConnection::to(origin.address()).await;
    raw.exchange(&format!("GET {path}"), &["Range: bytes=0-99999"])
        .await
}

async fn serve(files: &GeneratedFiles) -> Origin {
    Origin::builder()
        .generated_files(files.clone())
        .start()
        .await
}

#[tokio::test]
async fn files_have_the_predicted_content_and_change_at_most_once() {
    let files = GeneratedFiles::new(5, 1..5000).with_changing_files(0.5);
    let origin = serve(&files).await;
    let mut changed = 0;
    for path in (0..20).map(|n| format!("/{n}")) {
        let mut tags = Vec::new();
        for request in 0..3 {
            let response = get(&origin, &path).await;
            let version = files.version(&path, request);
            assert_eq!((response.status(), response.complete), (206, true));
            assert!(response.body == files.content(&path, version).to_vec());
            tags.push(response.field("ETag").unwrap().to_owned());
        }
        let changes = files.version(&path, 1) == 1;
        changed += usize::from(changes);
        assert_eq!((tags[0] != tags[1], tags[1] == tags[2]), (changes, true));
    }
    assert!((1..20).contains(&changed));
}

#[tokio::test]
async fn each_fault_does_what_its_name_says() {
    for fault in FileFault::ALL {
        let files = GeneratedFiles::new(5, 1000..2000).with_permanent_fault(fault, 1.0);
        let origin = serve(&files).await;
        if fault == FileFault::Stall {
            let mut raw = RawConnection::to(origin.address()).await;
            raw.send_request("GET /f", &[]).await;
            let half = files.content("/f", 0).length() / 2;
            raw.head().await.unwrap();
            raw.fill(usize::try_from(half).unwrap()).await;
            assert!(raw.is_silent().await);
            continue;
        }
        let response = get(&origin, "/f").await;
        let status = (!response.head.is_empty()).then(|| response.status());
        let whole = response.complete && response.body == files.content("/f", 0).to_vec();
        assert!(!whole, "{fault:?} breaks nothing");
        let (expected, complete) = match fault {
            FileFault::Reset => (None, false),
            FileFault::Status500 => (Some(500), true),
            FileFault::Status503 => (Some(503), true),
            FileFault::Status429 => (Some(429), true),
            FileFault::Status404 => (Some(404), true),
            FileFault::ErrorPage => (Some(200), true),
            FileFault::ShortChunks => (Some(206), true),
            _ => (Some(206), false),
        };
        // A reset may overtake the head.
        if fault != FileFault::ResetMidBody {
            assert_eq!(
                (status, response.complete),
                (expected, complete),
                "{fault:?}"
            );
        }
        let reset = matches!(fault, FileFault::Reset | FileFault::ResetMidBody);
        assert_eq!(response.end == ConnectionEnd::Reset, reset, "{fault:?}");
    }
}

#[tokio::test]
async fn resources_take_precedence_over_generated_files() {
    let own = haul_lab::OriginResource::new(haul_lab::ResourceContent::fixed("own"));
    let builder = Origin::builder().generated_files(GeneratedFiles::new(5, 9..10));
    let origin = builder.resource("/own", own).start().await;
    assert_eq!(get(&origin, "/own").await.body, b"own");
    assert_eq!(get(&origin, "/other").await.body.len(), 9);
}

#[tokio::test]
async fn a_silent_listener_does_not_respond() {
    let silent = SilentListener::start().unwrap();
    for address in [silent.address(), silent.address_on([127, 8, 7, 6].into())] {
        let connect = TcpStream::connect(address);
        let waited = tokio::time::timeout(Duration::from_millis(300), connect).await;
        assert!(waited.is_err(), "{address} responded {waited:?}");
    }
}
