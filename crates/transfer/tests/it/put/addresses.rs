//! A store whose name has several addresses (row F24).

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use haul_lab::{ObjectStore, within};
use haul_net::{ClientConfig, PinnedAddress};
use haul_transfer::put::{UploadEngine, UploadInput, UploadJob};
use http::HeaderMap;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::{LIMIT, MIB, PutTest, client_of, target};

/// Accepts connections for a store, and counts them.
async fn relay(listener: TcpListener, store: SocketAddr, count: Arc<AtomicUsize>) {
    let mut connections = JoinSet::new();
    while let Ok((mut client, _)) = listener.accept().await {
        count.fetch_add(1, Ordering::Relaxed);
        connections.spawn(async move {
            let mut server = TcpStream::connect(store).await.unwrap();
            // The client may reset it at the end.
            let _ = copy_bidirectional(&mut client, &mut server).await;
        });
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f24_connections_are_spread_over_the_addresses_of_a_name() {
    let test = PutTest::new(ObjectStore::start().await);
    let bytes = test.write(31 * MIB);
    let store = test.store.url().replace("http://", "").parse().unwrap();
    let addresses: [IpAddr; 3] = [1, 2, 3].map(|last| [127, 0, 0, last].into());
    let mut relays = JoinSet::new();
    let (mut port, mut counts) = (0, Vec::new());
    for address in addresses {
        let listener = TcpListener::bind((address, port)).await.unwrap();
        port = listener.local_addr().unwrap().port();
        counts.push(Arc::new(AtomicUsize::new(0)));
        relays.spawn(relay(listener, store, Arc::clone(counts.last().unwrap())));
    }
    let mut net = ClientConfig::default();
    net.connector.pinned_addresses = vec![PinnedAddress {
        host: "store.test".into(),
        port,
        addresses: addresses.to_vec(),
    }];
    let client = client_of(&format!("http://store.test:{port}"), net).await;
    let (sender, _events) = mpsc::channel(10_000);
    let engine = UploadEngine::new(client, test.options.clone(), sender);
    let job = UploadJob {
        id: 0,
        input: UploadInput::File(test.path()),
        target: target().into(),
        headers: HeaderMap::new(),
        conditions: HeaderMap::new(),
    };
    within(LIMIT, Box::pin(engine.put(job, test.stop.clone())))
        .await
        .unwrap();
    assert_eq!(test.object().unwrap(), bytes);
    let counts: Vec<usize> = counts
        .iter()
        .map(|count| count.load(Ordering::Relaxed))
        .collect();
    assert!(counts.iter().all(|count| *count > 0), "{counts:?}");
}
