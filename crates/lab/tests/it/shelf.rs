//! A shelf on the wire: what it says of itself is what a client meets; and the address where nothing answers.

use std::time::Duration;

use haul_lab::{FileFault, GeneratedFiles, Origin, SilentListener};
use tokio::net::TcpStream;

use crate::raw::{ConnectionEnd, RawConnection, RawResponse};

/// One request over a connection of its own; a stall is given up.
async fn get(origin: &Origin, path: &str) -> RawResponse {
    let mut raw = RawConnection::to(origin.address()).await;
    raw.ask(&format!("GET {path}"), &["Range: bytes=0-99999"])
        .await
}

async fn serve(shelf: &GeneratedFiles) -> Origin {
    Origin::builder()
        .generated_files(shelf.clone())
        .start()
        .await
}

#[tokio::test]
async fn files_are_what_the_shelf_says_and_change_once_if_they_do() {
    let shelf = GeneratedFiles::new(5, 1..5000).with_changing_files(0.5);
    let origin = serve(&shelf).await;
    let mut changed = 0;
    for path in (0..20).map(|n| format!("/{n}")) {
        let mut tags = Vec::new();
        for request in 0..3 {
            let answer = get(&origin, &path).await;
            let version = shelf.version(&path, request);
            assert_eq!((answer.status(), answer.complete), (206, true));
            assert!(answer.body == shelf.content(&path, version).to_vec());
            tags.push(answer.field("ETag").unwrap().to_owned());
        }
        let changes = shelf.version(&path, 1) == 1;
        changed += usize::from(changes);
        assert_eq!((tags[0] != tags[1], tags[1] == tags[2]), (changes, true));
    }
    assert!((1..20).contains(&changed));
}

#[tokio::test]
async fn each_fault_is_what_it_is_called() {
    for fault in FileFault::ALL {
        let shelf = GeneratedFiles::new(5, 1000..2000).with_permanent_fault(fault, 1.0);
        let origin = serve(&shelf).await;
        if fault == FileFault::Stall {
            let mut raw = RawConnection::to(origin.address()).await;
            raw.request("GET /f", &[]).await;
            let half = shelf.content("/f", 0).length() / 2;
            raw.head().await.unwrap();
            raw.fill(usize::try_from(half).unwrap()).await;
            assert!(raw.is_silent().await);
            continue;
        }
        let answer = get(&origin, "/f").await;
        let status = (!answer.head.is_empty()).then(|| answer.status());
        let whole = answer.complete && answer.body == shelf.content("/f", 0).to_vec();
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
        // A reset may overtake the head that was sent before it.
        if fault != FileFault::ResetMidBody {
            assert_eq!((status, answer.complete), (expected, complete), "{fault:?}");
        }
        let reset = matches!(fault, FileFault::Reset | FileFault::ResetMidBody);
        assert_eq!(answer.end == ConnectionEnd::Reset, reset, "{fault:?}");
    }
}

#[tokio::test]
async fn what_has_a_resource_is_not_on_the_shelf() {
    let own = haul_lab::OriginResource::new(haul_lab::ResourceContent::fixed("own"));
    let builder = Origin::builder().generated_files(GeneratedFiles::new(5, 9..10));
    let origin = builder.resource("/own", own).start().await;
    assert_eq!(get(&origin, "/own").await.body, b"own");
    assert_eq!(get(&origin, "/other").await.body.len(), 9);
}

#[tokio::test]
async fn nothing_answers_where_it_is_silent() {
    let silent = SilentListener::start().unwrap();
    for address in [silent.address(), silent.address_on([127, 8, 7, 6].into())] {
        let connect = TcpStream::connect(address);
        let waited = tokio::time::timeout(Duration::from_millis(300), connect).await;
        assert!(waited.is_err(), "{address} said {waited:?}");
    }
}
