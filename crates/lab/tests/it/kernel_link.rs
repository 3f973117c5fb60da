//! The kernel link: connections of the kernel's own TCP between two namespaces. Without TUN devices or namespaces each test says that it was skipped.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::time::Duration;

use haul_lab::kernel_link::{KernelLink, KernelLinkOptions, LinkDirectionOptions};
use haul_lab::{Origin, OriginResource, ResourceContent};
use tokio::time::Instant;

use crate::raw::{LIMIT, RawConnection};

const MS: Duration = Duration::from_millis(1);

/// How long a connection is quiet before it counts as stuck: longer than a round trip, and than the pauses of a busy machine.
const QUIET: Duration = Duration::from_millis(400);

fn start(direction: LinkDirectionOptions) -> Option<KernelLink> {
    KernelLink::start_or_skip(&KernelLinkOptions::symmetric(direction))
}

/// A rate, and a delay of 5 ms.
fn mbit(megabits: u64) -> LinkDirectionOptions {
    LinkDirectionOptions {
        delay: 5 * MS,
        bits_per_second: Some(megabits * 1_000_000),
        ..LinkDirectionOptions::default()
    }
}

/// A connection of the client to a thread of the server that sends bytes, and the thread.
fn download(
    link: &KernelLink,
    content: &ResourceContent,
) -> (TcpStream, std::thread::JoinHandle<()>) {
    let listen = || TcpListener::bind((KernelLink::SERVER_IP, 0));
    let listener = link.server().run(listen).unwrap();
    let address = listener.local_addr().unwrap();
    let bytes = content.to_vec();
    let sender = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream.write_all(&bytes).unwrap();
    });
    let client = link.client().run(|| TcpStream::connect(address)).unwrap();
    client.set_read_timeout(Some(LIMIT)).unwrap();
    (client, sender)
}

fn read(stream: &mut TcpStream, bytes: usize) -> Vec<u8> {
    let mut buffer = vec![0; bytes];
    stream.read_exact(&mut buffer).unwrap();
    buffer
}

/// Reads until nothing comes any more.
fn read_until_quiet(stream: &mut TcpStream, received: &mut Vec<u8>) {
    stream.set_read_timeout(Some(QUIET)).unwrap();
    let stopped = stream.read_to_end(received).unwrap_err();
    assert_eq!(stopped.kind(), ErrorKind::WouldBlock);
    stream.set_read_timeout(Some(LIMIT)).unwrap();
}

#[test]
fn connecting_takes_the_delays_of_both_directions() {
    let Some(link) = start(LinkDirectionOptions::default()) else {
        return;
    };
    link.to_server().change(|options| options.delay = 30 * MS);
    link.to_client().change(|options| options.delay = 10 * MS);
    let content = ResourceContent::fixed("");
    let time = || {
        let begun = Instant::now();
        drop(download(&link, &content));
        begun.elapsed()
    };
    // A busy machine delays some, hardly all.
    let shortest = (0..10).map(|_| time()).min().unwrap();
    assert!(
        (40 * MS..50 * MS).contains(&shortest),
        "{shortest:?} instead of 40 ms"
    );
}

#[test]
fn a_transfer_takes_its_bytes_over_the_rate() {
    let Some(link) = start(mbit(100)) else { return };
    let content = ResourceContent::random(1, 4 << 20);
    let begun = Instant::now();
    let (mut client, sender) = download(&link, &content);
    assert!(read(&mut client, 4 << 20) == content.to_vec());
    let time = begun.elapsed();
    assert!(time >= 335 * MS, "faster than 100 Mbit/s: {time:?}");
    assert!(time < 2000 * MS, "{time:?}");
    sender.join().unwrap();
    let counts = link.to_client().counts();
    assert!(counts.delivered > (4 << 20) / 1500, "{counts:?}");
    assert_eq!(
        (counts.lost, counts.too_large, counts.while_down),
        (0, 0, 0)
    );
}

#[test]
fn bytes_arrive_intact_over_a_link_that_loses_and_reorders() {
    let Some(link) = start(LinkDirectionOptions {
        loss: 0.01,
        reordering: 0.02,
        ..mbit(100)
    }) else {
        return;
    };
    let content = ResourceContent::random(1, 2 << 20);
    let (mut client, sender) = download(&link, &content);
    assert!(read(&mut client, 2 << 20) == content.to_vec());
    sender.join().unwrap();
    let counts = link.to_client().counts();
    assert!(counts.lost > 0, "{counts:?}");
}

#[test]
fn a_link_changes_its_rate_and_comes_back_during_a_transfer() {
    let Some(link) = start(mbit(200)) else { return };
    let content = ResourceContent::random(1, 6 << 20);
    let (mut client, sender) = download(&link, &content);
    let mut received = read(&mut client, 1 << 20);

    link.to_client().change(|options| options.is_down = true);
    read_until_quiet(&mut client, &mut received);
    assert!(received.len() < 6 << 20, "the link was never down");
    assert!(link.to_client().counts().while_down > 0);

    link.to_client().change(|options| *options = mbit(20));
    // What was on its way is not sent at the new rate.
    received.extend(read(&mut client, 1 << 19));
    let begun = Instant::now();
    received.extend(read(&mut client, 1 << 20));
    let time = begun.elapsed();
    assert!(time >= 300 * MS, "1 MiB at 20 Mbit/s took {time:?}");
    link.to_client().change(|options| *options = mbit(500));
    client.read_to_end(&mut received).unwrap();
    assert!(received == content.to_vec());
    sender.join().unwrap();
}

#[test]
fn a_black_hole_swallows_large_packets_only() {
    let Some(link) = start(LinkDirectionOptions {
        max_packet: 1000,
        ..mbit(100)
    }) else {
        return;
    };
    let content = ResourceContent::random(1, 500);
    let (mut client, sender) = download(&link, &content);
    assert!(read(&mut client, 500) == content.to_vec());
    sender.join().unwrap();
    assert_eq!(link.to_client().counts().too_large, 0);

    let content = ResourceContent::random(1, 100_000);
    let (mut client, sender) = download(&link, &content);
    let mut received = Vec::new();
    read_until_quiet(&mut client, &mut received);
    assert_eq!(received.len(), 0);
    assert!(link.to_client().counts().too_large > 0);
    let options = link.to_client();
    options.change(|options| options.max_packet = usize::MAX);
    client.read_to_end(&mut received).unwrap();
    assert!(received == content.to_vec());
    sender.join().unwrap();
}

#[test]
fn runtimes_and_child_processes_are_in_their_namespaces() {
    let Some(link) = start(mbit(100)) else { return };
    let server = link.server().runtime().unwrap();
    let content = ResourceContent::random(1, 100_000);
    let origin = Origin::builder()
        .resource("/f.bin", OriginResource::new(content.clone()))
        .listen_on(KernelLink::SERVER_IP.into());
    let origin = server.block_on(origin.start());
    let client = link.client().runtime().unwrap();
    let response = client.block_on(async {
        let mut raw = RawConnection::to(origin.address()).await;
        raw.exchange("GET /f.bin", &[]).await
    });
    assert!(response.body == content.to_vec());

    let interfaces = || Command::new("cat").arg("/proc/net/dev").output().unwrap();
    let has_link = |output: &[u8]| String::from_utf8_lossy(output).contains("link0:");
    assert!(has_link(&link.client().run(interfaces).stdout));
    assert!(!has_link(&interfaces().stdout));
}
