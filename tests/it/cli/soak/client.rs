//! One client of the soak test: sends random requests and records each response, or that there was none.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex};
use std::time::Duration;

use haul_lab::history::{
    BodyVersion, LogicalClock, Operation, OperationKind, OperationOutcome, StampedBody,
    WritePrecondition,
};
use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};

use super::wire::{BodyEncoding, SoakConnection, SoakRequest, SoakRequestError, SoakResponse};

/// Keys that are fought over: few, so that they meet; some in folders that are made with them.
pub(super) const KEYS: u64 = 10;

/// The state that all clients share.
#[derive(Default)]
pub(super) struct SoakState {
    pub(super) ticks: LogicalClock,
    /// The running server process: its number and its address.
    pub(super) life: Mutex<Option<(usize, SocketAddr)>>,
    /// Notified when a new server process runs, and at the end of the test.
    pub(super) news: Condvar,
    /// No more.
    pub(super) is_over: AtomicBool,
    /// The body that each entity tag identifies: never two.
    tags: Mutex<HashMap<String, StampedBody>>,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct RecordedOperation {
    pub(super) key: u64,
    /// The number of the server process.
    pub(super) life: usize,
    /// When the client saw the connection fail: the server must have been killed before. `None` if there was a response, or the client itself
    /// closed the connection.
    pub(super) lost: Option<u64>,
    pub(super) operation: Operation,
}

pub(super) struct SoakClient<'a> {
    shared: &'a SoakState,
    random: StdRng,
    /// Its versions are its own.
    next: u64,
    /// The last tag and version that it saw of each key.
    seen: HashMap<u64, (String, BodyVersion)>,
    wire: Option<SoakConnection>,
    life: usize,
    notes: Vec<RecordedOperation>,
}

pub(super) fn path(key: u64) -> String {
    match key % 3 {
        0 => format!("k{key}"),
        1 => format!("folder/k{key}"),
        _ => format!("a/b{key}/c/k"),
    }
}

impl SoakState {
    /// Waits for a later server process. `None` at the end of the test.
    fn life_after(&self, last: Option<usize>) -> Option<(usize, SocketAddr)> {
        let mut life = self.life.lock().unwrap();
        loop {
            if self.is_over.load(Ordering::SeqCst) {
                return None;
            }
            match *life {
                Some((number, address)) if last.is_none_or(|last| number > last) => {
                    return Some((number, address));
                }
                _ => {
                    life = self
                        .news
                        .wait_timeout(life, Duration::from_secs(1))
                        .unwrap()
                        .0
                }
            }
        }
    }

    /// Records the body that a tag identifies.
    fn tag(&self, answer: &SoakResponse, body: StampedBody) -> String {
        let tag = answer
            .field("etag")
            .unwrap_or_else(|| panic!("no ETag: {answer:?}"));
        let before = self.tags.lock().unwrap().insert(tag.to_owned(), body);
        assert!(
            before.is_none_or(|before| before == body),
            "{tag} identifies both {before:?} and {body:?}"
        );
        tag.to_owned()
    }

    fn version_of_tag(&self, tag: Option<&str>) -> Option<StampedBody> {
        self.tags.lock().unwrap().get(tag?).copied()
    }
}

impl<'a> SoakClient<'a> {
    pub(super) fn new(shared: &'a SoakState, seed: u64, number: u64) -> Self {
        Self {
            shared,
            random: StdRng::seed_from_u64(seed ^ (number << 32)),
            next: number << 40,
            seen: HashMap::new(),
            wire: None,
            life: 0,
            notes: Vec::new(),
        }
    }

    /// Sends requests until the end of the test.
    pub(super) fn run(mut self) -> Vec<RecordedOperation> {
        let mut life = self.shared.life_after(None);
        while let Some((number, address)) = life {
            self.life = number;
            self.wire = None;
            while !self.shared.is_over.load(Ordering::SeqCst) {
                if self.wire.is_none() {
                    self.wire = SoakConnection::connect(address).ok();
                }
                if self.wire.is_none() {
                    break;
                }
                self.step();
            }
            life = self.shared.life_after(Some(number));
        }
        self.notes
    }

    /// Some things, and back: as many as there are in a burst.
    pub(super) fn burst(
        mut self,
        count: usize,
        life: usize,
        address: SocketAddr,
    ) -> Vec<RecordedOperation> {
        self.life = life;
        for _ in 0..count {
            self.wire = self
                .wire
                .take()
                .or_else(|| SoakConnection::connect(address).ok());
            assert!(self.wire.is_some(), "it does not accept");
            self.step();
        }
        self.notes
    }

    fn step(&mut self) {
        let key = self.random.random_range(0..KEYS);
        match self.random.random_range(0..100) {
            0..38 => self.read(key, "GET", String::new()),
            38..42 => self.read(key, "HEAD", String::new()),
            42..46 => self.read(key, "GET", "Range: bytes=0-31\r\n".to_owned()),
            46..50 => self.revalidate(key),
            50..53 => self.start_and_abandon_read(key),
            53..84 => self.write(key),
            84..92 => self.cut_off(key),
            _ => self.delete(key),
        }
    }

    /// Reads a whole key, at the end of the test.
    pub(super) fn read_all(mut self, life: usize, address: SocketAddr) -> Vec<RecordedOperation> {
        self.life = life;
        for key in 0..KEYS {
            self.wire = self
                .wire
                .take()
                .or_else(|| SoakConnection::connect(address).ok());
            self.read(key, "GET", String::new());
        }
        self.notes
    }

    fn read(&mut self, key: u64, method: &str, fields: String) {
        let begun = self.shared.ticks.tick();
        let request = SoakRequest {
            method,
            path: &path(key),
            fields,
            body: None,
        };
        let Some(answer) = self.send_request(key, OperationKind::Read, begun, &request) else {
            return;
        };
        let found = match answer.status {
            404 => None,
            200 if method == "GET" => Some(
                StampedBody::verify(&answer.body).unwrap_or_else(|torn| panic!("{key}: {torn}")),
            ),
            206 => {
                let body =
                    StampedBody::from_prefix(&answer.body).unwrap_or_else(|| panic!("{answer:?}"));
                let range = format!("bytes 0-31/{}", body.length);
                assert_eq!(answer.field("content-range"), Some(&*range), "{answer:?}");
                Some(body)
            }
            // The body of a tag is known once it was read.
            200 | 304 => match self.shared.version_of_tag(answer.field("etag")) {
                Some(body) => Some(body),
                None => return,
            },
            _ => panic!("{method} {key}: {answer:?}"),
        };
        if let Some(body) = found {
            assert_eq!(body.key, key, "bytes of another key");
            if answer.status == 200 {
                assert_eq!(
                    answer.field("content-length"),
                    Some(&*body.length.to_string()),
                    "{answer:?}"
                );
            }
            let tag = self.shared.tag(&answer, body);
            self.seen.insert(key, (tag, body.version));
        }
        self.record(
            key,
            OperationKind::Read,
            begun,
            OperationOutcome::Found(found.map(|body| body.version)),
        );
    }

    fn revalidate(&mut self, key: u64) {
        let fields = match self.seen.get(&key) {
            Some((tag, _)) => format!("If-None-Match: {tag}\r\n"),
            None => String::new(),
        };
        self.read(key, "GET", fields);
    }

    fn start_and_abandon_read(&mut self, key: u64) {
        let request = SoakRequest {
            method: "GET",
            path: &path(key),
            fields: String::new(),
            body: None,
        };
        let most = self.random.random_range(0..10_000);
        if let Some(wire) = self.wire.take() {
            wire.read_head_and_drop(&request, most);
        }
    }

    fn write(&mut self, key: u64) {
        let (condition, fields) = self.condition(key);
        let body = self.body(key);
        let bytes = body.to_vec();
        let encoding = if self.random.random_bool(0.25) {
            BodyEncoding::Chunked
        } else {
            BodyEncoding::Length
        };
        let action = OperationKind::Write(body.version, condition);
        let begun = self.shared.ticks.tick();
        let request = SoakRequest {
            method: "PUT",
            path: &path(key),
            fields,
            body: Some((&bytes, encoding)),
        };
        let Some(answer) = self.send_request(key, action, begun, &request) else {
            return;
        };
        let outcome = match answer.status {
            201 | 204 => {
                let tag = self.shared.tag(&answer, body);
                self.seen.insert(key, (tag, body.version));
                OperationOutcome::Succeeded {
                    replaced: Some(answer.status == 204),
                }
            }
            412 if condition != WritePrecondition::Always => {
                // Refused before its body was read, so the connection cannot be used for another request.
                self.wire = None;
                OperationOutcome::ConditionFailed
            }
            _ => panic!("PUT {key}: {answer:?}"),
        };
        self.record(key, action, begun, outcome);
    }

    /// Sends an incomplete body, which no read may return.
    fn cut_off(&mut self, key: u64) {
        let body = self.body(key);
        let bytes = body.to_vec();
        // Sometimes only one byte is missing.
        let end = match self.random.random_range(0..4) {
            0 => bytes.len() - 1,
            _ => self.random.random_range(0..bytes.len()),
        };
        let encoding = match self.random.random_range(0..3) {
            0 => BodyEncoding::ChunkedCut(end),
            1 => BodyEncoding::ChunkedCut(bytes.len()),
            _ => BodyEncoding::LengthCut(end),
        };
        let begun = self.shared.ticks.tick();
        let request = SoakRequest {
            method: "PUT",
            path: &path(key),
            fields: String::new(),
            body: Some((&bytes, encoding)),
        };
        if let Some(wire) = self.wire.take() {
            wire.abandon(&request);
        }
        self.record(
            key,
            OperationKind::Write(body.version, WritePrecondition::Always),
            begun,
            OperationOutcome::Failed,
        );
    }

    fn delete(&mut self, key: u64) {
        let (condition, fields) = if self.random.random_bool(0.3) {
            self.condition(key)
        } else {
            (WritePrecondition::Always, String::new())
        };
        let action = OperationKind::Delete(condition);
        let begun = self.shared.ticks.tick();
        let request = SoakRequest {
            method: "DELETE",
            path: &path(key),
            fields,
            body: None,
        };
        let Some(answer) = self.send_request(key, action, begun, &request) else {
            return;
        };
        let (action, outcome) = match answer.status {
            204 => (
                action,
                OperationOutcome::Succeeded {
                    replaced: Some(true),
                },
            ),
            // Conditions do not apply if there is nothing to delete (RFC 9110 13.2.1).
            404 => (
                OperationKind::Delete(WritePrecondition::Always),
                OperationOutcome::Succeeded {
                    replaced: Some(false),
                },
            ),
            412 if condition != WritePrecondition::Always => {
                (action, OperationOutcome::ConditionFailed)
            }
            _ => panic!("DELETE {key}: {answer:?}"),
        };
        self.record(key, action, begun, outcome);
    }

    /// A condition and its header fields: none in most cases.
    fn condition(&mut self, key: u64) -> (WritePrecondition, String) {
        match (self.random.random_range(0..10), self.seen.get(&key)) {
            (0..2, _) => (WritePrecondition::Absent, "If-None-Match: *\r\n".to_owned()),
            (2..4, Some((tag, version))) => (
                WritePrecondition::Matches(*version),
                format!("If-Match: {tag}\r\n"),
            ),
            (4, _) => (WritePrecondition::Present, "If-Match: *\r\n".to_owned()),
            _ => (WritePrecondition::Always, String::new()),
        }
    }

    /// A new body of random length, often near a limit at which the server works differently.
    fn body(&mut self, key: u64) -> StampedBody {
        self.next += 1;
        let length = match self.random.random_range(0..20) {
            0..9 => self.random.random_range(StampedBody::MIN_LENGTH..3000),
            9..13 => self.random.random_range((64 << 10) - 40..(64 << 10) + 40),
            13..17 => self.random.random_range(3000..700_000),
            17..19 => self.random.random_range((512 << 10) - 40..(512 << 10) + 40),
            _ => self.random.random_range(1 << 20..4 << 20),
        };
        StampedBody {
            key,
            version: BodyVersion(self.next),
            length,
        }
    }

    /// Sends a request, and records the outcome if there is no response.
    fn send_request(
        &mut self,
        key: u64,
        action: OperationKind,
        begun: u64,
        request: &SoakRequest<'_>,
    ) -> Option<SoakResponse> {
        let (error, outcome) = match self.wire.take()?.exchange(request) {
            Ok((answer, wire)) => {
                self.wire = wire;
                return Some(answer);
            }
            Err(SoakRequestError::Unsent(error)) => (error, OperationOutcome::Failed),
            Err(SoakRequestError::Unanswered(error)) => (error, OperationOutcome::Unknown),
        };
        assert!(
            !is_timeout(&error),
            "no answer to {} {key}: {error}",
            request.method
        );
        // If the server refuses the request before all was sent, the client may see a closed connection instead of a response.
        let may_end = outcome == OperationOutcome::Failed
            && matches!(action, OperationKind::Write(_, condition) if condition != WritePrecondition::Always);
        self.notes.push(RecordedOperation {
            key,
            life: self.life,
            lost: (!may_end).then(|| self.shared.ticks.tick()),
            operation: Operation {
                kind: action,
                started_at: begun,
                finished_at: u64::MAX,
                outcome,
            },
        });
        None
    }

    fn record(&mut self, key: u64, action: OperationKind, begun: u64, outcome: OperationOutcome) {
        let ended = self.shared.ticks.tick();
        self.notes.push(RecordedOperation {
            key,
            life: self.life,
            lost: None,
            operation: Operation {
                kind: action,
                started_at: begun,
                finished_at: ended,
                outcome,
            },
        });
    }
}

fn is_timeout(error: &std::io::Error) -> bool {
    matches!(
        error.kind(),
        std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut
    )
}
