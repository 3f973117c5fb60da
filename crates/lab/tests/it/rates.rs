//! Rates and delays of an origin. A limiter must not be faster than its limit. How much slower it is depends on the load of the machine, so
//! that bound is generous.

use std::time::Duration;

use haul_lab::{
    Origin, OriginBuilder, OriginResource, RequestMatcher, ResourceContent, faults, within,
};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::raw::{LIMIT, RawConnection};

/// The length of the file in bytes.
const SIZE: u64 = 200_000;

/// The rate, in bytes a second, at which the file takes 200 ms.
const RATE: u64 = 1_000_000;

/// The shortest time at [`RATE`]: the limiter may catch up by 10 ms.
const TIME: Duration = Duration::from_millis(190);

/// How much longer it may take on a loaded machine.
const PATIENCE: u32 = 5;

fn origin() -> OriginBuilder {
    Origin::builder().resource(
        "/f.bin",
        OriginResource::new(ResourceContent::random(1, SIZE)),
    )
}

/// Downloads the file over so many connections at once. Returns how long each took.
async fn times(origin: &Origin, connections: usize) -> Vec<Duration> {
    let address = origin.address();
    let mut tasks = JoinSet::new();
    for _ in 0..connections {
        tasks.spawn(async move {
            let mut raw = RawConnection::to(address).await;
            let begun = Instant::now();
            let response = raw.exchange("GET /f.bin", &[]).await;
            assert!(
                response.complete && response.body == ResourceContent::random(1, SIZE).to_vec()
            );
            begun.elapsed()
        });
    }
    within(LIMIT, tasks.join_all()).await
}

fn assert_near(time: Duration, expected: Duration) {
    assert!(
        time >= expected,
        "faster than its limit: {time:?}, not {expected:?}"
    );
    assert!(
        time < expected * PATIENCE,
        "too slow: {time:?}, not {expected:?}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_connection_has_its_own_rate() {
    let origin = origin().rate_per_connection(RATE).start().await;
    for time in times(&origin, 4).await {
        assert_near(time, TIME);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_connections_share_a_total() {
    let origin = origin().total_rate(4 * RATE).start().await;
    let longest = times(&origin, 4).await.into_iter().max().unwrap();
    assert_near(longest, TIME);
}

#[tokio::test]
async fn a_rate_limits_all_requests_of_a_connection_together() {
    let origin = origin().rate_per_connection(RATE).start().await;
    let mut raw = RawConnection::to(origin.address()).await;
    let begun = Instant::now();
    for start in (0..SIZE).step_by(10_000) {
        let range = format!("Range: bytes={start}-{}", start + 9_999);
        assert_eq!(
            raw.exchange("GET /f.bin", &[&range]).await.body.len(),
            10_000
        );
    }
    assert_near(begun.elapsed(), TIME);
}

#[tokio::test]
async fn bytes_arrive_evenly() {
    let origin = origin().rate_per_connection(RATE).start().await;
    let mut raw = RawConnection::to(origin.address()).await;
    raw.send_request("GET /f.bin", &[]).await;
    raw.head().await.unwrap();
    let begun = Instant::now();
    raw.fill(20_000).await;
    assert!(
        begun.elapsed() < TIME,
        "a tenth of the file took {:?}",
        begun.elapsed()
    );
    assert!(
        raw.buffer.len() < 150_000,
        "{} bytes arrived at once",
        raw.buffer.len()
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a20_one_connection_is_slower_than_the_others() {
    let slow = OriginResource::new(ResourceContent::random(1, SIZE))
        .rule(RequestMatcher::on_connection(0), faults::body_rate(RATE));
    let origin = Origin::builder().resource("/f.bin", slow).start().await;
    let mut times = times(&origin, 3).await;
    times.sort();
    assert_near(times[2], TIME);
    assert!(times[1] < times[2] / 2, "{times:?}");
}

#[tokio::test]
async fn a19_a_slow_drip_is_byte_by_byte() {
    let drip = OriginResource::new(ResourceContent::random(1, SIZE))
        .rule(RequestMatcher::always(), faults::body_rate(20));
    let origin = Origin::builder().resource("/f.bin", drip).start().await;
    let mut raw = RawConnection::to(origin.address()).await;
    raw.send_request("GET /f.bin", &[]).await;
    raw.head().await.unwrap();
    let begun = Instant::now();
    raw.fill(3).await;
    assert_near(begun.elapsed(), Duration::from_millis(90));
}

#[tokio::test]
async fn responses_arrive_after_the_delay() {
    let latency = Duration::from_millis(40);
    let origin = origin().latency(latency).start().await;
    let mut raw = RawConnection::to(origin.address()).await;
    for _ in 0..3 {
        let begun = Instant::now();
        assert!(raw.exchange("GET /f.bin", &[]).await.complete);
        assert!(begun.elapsed() >= latency && begun.elapsed() < latency * PATIENCE);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_limit_there_is_no_delay() {
    let size = 64 << 20;
    let origin = Origin::builder()
        .resource(
            "/f.bin",
            OriginResource::new(ResourceContent::random(1, size)),
        )
        .start()
        .await;
    let mut raw = RawConnection::to(origin.address()).await;
    raw.send_request("GET /f.bin", &[]).await;
    raw.head().await.unwrap();
    let begun = Instant::now();
    let mut read = raw.buffer.len() as u64;
    let mut buffer = vec![0; 1 << 18];
    while read < size {
        let count = tokio::io::AsyncReadExt::read(&mut raw.stream, &mut buffer)
            .await
            .unwrap();
        assert!(count > 0);
        read += count as u64;
    }
    let rate = size as f64 / begun.elapsed().as_secs_f64();
    assert!(rate > 100e6, "{:.0} MB/s", rate / 1e6);
}
