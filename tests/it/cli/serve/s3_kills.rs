//! `kill -9` of `haul serve --s3` at twenty moments of uploads, and its next start: what was acknowledged is whole, nothing is wrong, and
//! what was unfinished goes on or is removed.

use std::net::SocketAddr;
use std::path::PathBuf;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use haul_digest::{DigestSet, hex};
use haul_lab::within;
use haul_plan::DigestAlgorithm;
use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::kill_relay::{KillMoment, KillRelay};
use super::test_folder;
use crate::cli::harness::{HaulDirectory, LIMIT, file_names};

const SERVE: [&str; 10] = [
    "serve",
    "d",
    "-w",
    "--s3",
    "--s3-key",
    "key:secret",
    "--anonymous",
    "rw",
    "-l",
    "127.0.0.1:0",
];

const MIB: u64 = 1 << 20;

/// The file that goes up in parts: four and a byte.
const LENGTH: u64 = 20 * MIB + 1;

/// A folder with the bucket `bucket`, and a server with a relay before it.
async fn start() -> (HaulDirectory, KillRelay) {
    let haul = test_folder();
    std::fs::create_dir(haul.path("d/bucket")).unwrap();
    let relay = KillRelay::start(&haul, &SERVE).await;
    let haul = haul
        .with_variable("AWS_ENDPOINT_URL_S3", &format!("http://{}", relay.address))
        .with_variable("AWS_ACCESS_KEY_ID", "key")
        .with_variable("AWS_SECRET_ACCESS_KEY", "secret");
    (haul, relay)
}

/// Sends a request of S3 without a signature, on a connection of its own. Returns the response.
async fn exchange(relay: SocketAddr, head: &str, body: &[u8]) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(relay).await?;
    let length = body.len();
    let fields = "Host: bucket.localhost\r\nConnection: close";
    let text = format!("{head}\r\n{fields}\r\nContent-Length: {length}\r\n\r\n");
    stream.write_all(text.as_bytes()).await?;
    stream.write_all(body).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    Ok(answer)
}

/// What a server says of an object: its entity tag, and its checksum.
async fn tag_and_checksum(relay: SocketAddr, key: &str) -> [String; 2] {
    let head = format!("HEAD /{key} HTTP/1.1\r\nx-amz-checksum-mode: ENABLED");
    let answer = within(LIMIT, exchange(relay, &head, b"")).await.unwrap();
    ["etag: ", "x-amz-checksum-crc64nvme: "].map(|name| {
        let line = answer.lines().find_map(|line| line.strip_prefix(name));
        line.unwrap_or_else(|| panic!("no {name} of {key}: {answer}"))
            .to_owned()
    })
}

/// Names in `.haul/multipart`.
fn unfinished(haul: &HaulDirectory) -> Vec<String> {
    let folder = haul.path("d/.haul/multipart");
    if folder.exists() {
        file_names(&folder)
    } else {
        Vec::new()
    }
}

/// What happens after a kill.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AfterKill {
    /// The client was killed, too, and the same command is run again.
    SameCommand,
    /// The client is still running.
    ClientGoesOn,
    /// The client was killed, too, and the upload is aborted.
    Abort,
}

/// Uploads in parts, and what is known of them.
struct PartUploads {
    haul: HaulDirectory,
    relay: KillRelay,
    bytes: Vec<u8>,
    /// Bytes of an upload that nothing interrupts, with its heads.
    total: u64,
    responses: u64,
    expected: [String; 2],
}

impl PartUploads {
    async fn start() -> Self {
        let (haul, relay) = start().await;
        let bytes: Vec<u8> = (0..LENGTH)
            .map(|at| (at.wrapping_mul(2_654_435_761)).to_le_bytes()[3])
            .collect();
        haul.write("large", &bytes);
        haul.run(&args(&address("k00"))).await.assert_code(0);
        let (total, responses) = (relay.sent(), relay.responses());
        let expected = tag_and_checksum(relay.address, "k00").await;
        Self {
            haul,
            relay,
            bytes,
            total,
            responses,
            expected,
        }
    }

    /// From the first request to the last response, each part and its ends.
    fn moments(&self) -> Vec<KillMoment> {
        let at_bytes = (1..=7)
            .map(|at| self.total * at / 7 - 1)
            .chain([100])
            .map(KillMoment::Sent);
        let last = self.responses;
        let lost = [1, 3, 4, last - 1, last].map(|count| KillMoment::Responded(count, false));
        let relayed = [1, 2, 5, last - 1, last].map(|count| KillMoment::Responded(count, true));
        let published = [KillMoment::Held(last); 2];
        at_bytes
            .chain(lost)
            .chain(relayed)
            .chain(published)
            .collect()
    }

    fn object(&self, key: &str) -> PathBuf {
        self.haul.path("d/bucket").join(key)
    }

    /// Asserts that an object is not there, or is whole. Returns whether it is there.
    async fn is_whole(&self, key: &str) -> bool {
        let Ok(found) = std::fs::read(self.object(key)) else {
            return false;
        };
        assert!(found == self.bytes, "{key}: {} bytes", found.len());
        assert_eq!(
            tag_and_checksum(self.relay.address, key).await,
            self.expected
        );
        true
    }

    /// An upload during which the server is killed.
    async fn killed_at(&mut self, address: &str, moment: KillMoment, after: AfterKill) {
        let args = args(address);
        let key = address.rsplit('/').next().unwrap();
        self.relay.kill_at(moment);
        let mut client = self.haul.start(&args);
        match moment {
            KillMoment::Held(_) => self.kill_when_published(key).await,
            _ => within(LIMIT, self.relay.killed()).await,
        }
        if after != AfterKill::ClientGoesOn {
            client.child.start_kill().unwrap();
            within(LIMIT, client.child.wait()).await.unwrap();
        }
        let sent = self.relay.sent();
        self.relay.restart(&self.haul, &SERVE).await;
        let was_there = self.is_whole(key).await;
        self.relay.kill_at(KillMoment::Never);
        match after {
            AfterKill::ClientGoesOn => client.wait().await.assert_code(0),
            AfterKill::SameCommand => self.haul.run(&args).await.assert_code(0),
            AfterKill::Abort => {
                let aborted = self.haul.run(&[&args[..], &["--abort"]].concat()).await;
                aborted.assert_code(0);
                assert_eq!(self.is_whole(key).await, was_there);
                return self.check_unfinished(moment).await;
            }
        };
        assert!(self.is_whole(key).await, "{key} {moment:?} {after:?}");
        // Two parts were under way, and a client that goes on may begin another one before the server is dead.
        let parts = if after == AfterKill::ClientGoesOn {
            3
        } else {
            2
        };
        let most = self.total + parts * 5 * MIB + MIB / 2;
        let all = sent + self.relay.sent();
        assert!(all <= most, "{all} bytes, {key} {moment:?} {after:?}");
        self.check_unfinished(moment).await;
    }

    /// Kills the server when the object has its name, and the upload has not ended.
    async fn kill_when_published(&self, key: &str) {
        let object = self.object(key);
        let published = async {
            while !object.exists() {
                tokio::task::yield_now().await;
            }
        };
        within(LIMIT, published).await;
        self.relay.kill();
    }

    /// Nothing is left, unless the client never learned of the upload.
    async fn check_unfinished(&self, moment: KillMoment) {
        let is_unknown = matches!(moment, KillMoment::Responded(1 | 2, false));
        if is_unknown {
            let aborted = self.haul.run(&["put", "--abort", "s3://bucket/"]).await;
            aborted.assert_code(0);
        }
        assert_eq!(unfinished(&self.haul), [""; 0], "{moment:?}");
    }
}

fn address(key: &str) -> String {
    format!("s3://bucket/{key}")
}

fn args(address: &str) -> [&str; 8] {
    [
        "put",
        "large",
        address,
        "--part-size",
        "5M",
        "-x",
        "2",
        "-q",
    ]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn uploads_in_parts_survive_a_server_killed_at_twenty_moments() {
    let mut uploads = PartUploads::start().await;
    let moments = uploads.moments();
    assert_eq!(moments.len(), 20);
    for (at, moment) in moments.into_iter().enumerate() {
        let key = format!("k{:02}", at + 1);
        let after = match at % 3 {
            0 => AfterKill::SameCommand,
            1 => AfterKill::ClientGoesOn,
            _ => AfterKill::Abort,
        };
        uploads.killed_at(&address(&key), moment, after).await;
    }
    let state = uploads.haul.path(".local/state/haul/uploads");
    assert_eq!(file_names(&state), [""; 0]);
}

/// The same with a plain URL. Its first request asks whether the server takes parts.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn uploads_in_parts_to_a_plain_url_survive_a_killed_server() {
    let mut uploads = PartUploads::start().await;
    let last = uploads.responses + 1;
    let moments = [
        KillMoment::Sent(uploads.total * 3 / 4),
        KillMoment::Responded(3, false),
        KillMoment::Sent(uploads.total / 2),
        KillMoment::Responded(2, false),
        KillMoment::Responded(3, true),
        KillMoment::Responded(4, false),
        KillMoment::Responded(last, false),
        KillMoment::Responded(last, false),
        KillMoment::Held(last),
    ];
    for (at, moment) in moments.into_iter().enumerate() {
        let address = format!("http://{}/bucket/k{at}", uploads.relay.address);
        let after = match at % 3 {
            0 => AfterKill::SameCommand,
            1 => AfterKill::ClientGoesOn,
            _ => AfterKill::Abort,
        };
        uploads.killed_at(&address, moment, after).await;
    }
}

/// A key whose versions one writer puts, one after the other.
#[derive(Debug, Default)]
struct WrittenKey {
    /// The last version that was acknowledged.
    acknowledged: u64,
    /// The last version that was sent.
    sent: u64,
}

impl WrittenKey {
    /// Puts versions until the server does not respond.
    async fn write(&mut self, relay: SocketAddr, key: &str) {
        loop {
            self.sent += 1;
            let head = format!("PUT /{key} HTTP/1.1");
            let answer = exchange(relay, &head, &version_bytes(key, self.sent)).await;
            match answer {
                Ok(answer) if answer.starts_with("HTTP/1.1 200 ") => self.acknowledged = self.sent,
                Ok(answer) if !answer.is_empty() => {
                    panic!("{answer}")
                }
                _ => return,
            }
        }
    }

    /// Asserts that the key has the last version that was acknowledged, or one after it, whole.
    async fn check(&self, haul: &HaulDirectory, relay: SocketAddr, key: &str) {
        let Ok(found) = std::fs::read(haul.path("d/bucket").join(key)) else {
            assert_eq!(self.acknowledged, 0, "{key} is gone");
            return;
        };
        let mut versions = self.acknowledged.max(1)..=self.sent;
        let is_whole = versions.any(|version| found == version_bytes(key, version));
        assert!(is_whole, "{key}: {} bytes, {self:?}", found.len());
        let mut digests = DigestSet::new([DigestAlgorithm::Md5, DigestAlgorithm::Crc64Nvme]);
        digests.update(&found);
        let digests = digests.finish();
        let tag = format!("\"{}\"", hex(&digests[0].digest));
        let checksum = STANDARD.encode(&digests[1].digest);
        assert_eq!(tag_and_checksum(relay, key).await, [tag, checksum], "{key}");
    }
}

/// Bytes of one version of one key, from none to 200 KB.
fn version_bytes(key: &str, version: u64) -> Vec<u8> {
    let length = usize::try_from(version * 37_813 % 200_000).unwrap();
    let stamp = format!("{key} {version} ").into_bytes();
    stamp.into_iter().cycle().take(length).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn objects_survive_a_server_killed_at_twenty_moments() {
    const SEED: u64 = 14;
    let mut random = StdRng::seed_from_u64(SEED);
    let (haul, mut relay) = start().await;
    let names = ["a", "b", "folder/c", "folder/deeper/d"];
    let mut keys = names.map(|_| WrittenKey::default());
    for kill in 0..20 {
        relay.kill_at(match kill % 4 {
            0 => KillMoment::Responded(random.random_range(1..20), false),
            1 => KillMoment::Responded(random.random_range(1..20), true),
            _ => KillMoment::Sent(random.random_range(1..1_500_000)),
        });
        let [a, b, c, d] = &mut keys;
        let writers = async {
            tokio::join!(
                a.write(relay.address, names[0]),
                b.write(relay.address, names[1]),
                c.write(relay.address, names[2]),
                d.write(relay.address, names[3]),
            )
        };
        within(LIMIT, writers).await;
        relay.restart(&haul, &SERVE).await;
        for (key, name) in keys.iter().zip(names) {
            key.check(&haul, relay.address, name).await;
        }
        let files = file_names(&haul.path("d/.haul"));
        let left: Vec<_> = files
            .iter()
            .filter(|name| name.starts_with(".haul-"))
            .collect();
        assert_eq!(left, [""; 0], "kill {kill}, seed {SEED}");
    }
    assert!(keys.iter().all(|key| key.acknowledged > 20), "{keys:?}");
}
