//! A FUSE file system in this process that delays replies until the test releases them, or fails.
//!
//! It implements the FUSE protocol (linux/fuse.h, version 7.31) as far as lookups, reads and
//! listings need it. It has a folder with two files: reads of `read` wait for [`ReadGate`], as do
//! lookups of `found` and the listing of the folder.
//!
//! It also has folders with one entry each that fails at once ([`BROKEN`]).

use std::ffi::CString;
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex};

use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};

/// The content of both files.
pub(crate) const CONTENT: &[u8] = b"worth waiting for";

const ROOT: u64 = 1;
const READ: u64 = 2;
const FOUND: u64 = 3;

/// Folders, the type of their entry, and the error number of the entry. The node numbers of the folders
/// count from [`FIRST`], and those of the entries are higher by [`WITHIN`].
pub(crate) const BROKEN: [(&str, &str, i32); 5] = [
    // A file that ends in an error.
    ("torn", "file", 5),
    // A file that cannot be opened.
    ("shut", "file", 13),
    // A folder that cannot be opened.
    ("barred", "folder", 13),
    // An entry that is listed but cannot be looked up.
    ("lost", "file", 5),
    // A listing that ends in an error.
    ("cut", "file", 5),
];
const FIRST: u64 = 10;
const WITHIN: u64 = 10;
const TORN: u64 = FIRST;
const SHUT: u64 = FIRST + 1;
const BARRED: u64 = FIRST + 2;
const LOST: u64 = FIRST + 3;
const CUT: u64 = FIRST + 4;

/// The length of the file that ends in an error, and the offset of the error.
const TORN_LENGTH: u64 = 1 << 20;
const ERROR_OFFSET: u64 = 512 << 10;

/// `ENOENT`, `EIO`, `EACCES` and `ENOSYS`, negative as in replies.
const NO_ENTRY: i32 = -2;
const IO_ERROR: i32 = -5;
const DENIED: i32 = -13;
const NOT_IMPLEMENTED: i32 = -38;

/// Blocks replies until the test opens it.
#[derive(Default)]
struct ReadGate {
    state: Mutex<SlowFilesystemState>,
    changed: Condvar,
}

#[derive(Default)]
struct SlowFilesystemState {
    is_open: bool,
    waiting: usize,
}

impl ReadGate {
    fn wait(&self) {
        let mut state = self.state.lock().unwrap();
        state.waiting += 1;
        while !state.is_open {
            state = self.changed.wait(state).unwrap();
        }
        state.waiting -= 1;
    }
}

/// The mounted file system.
pub(crate) struct SlowFilesystem {
    path: PathBuf,
    gate: Arc<ReadGate>,
}

impl SlowFilesystem {
    /// Mounts the file system on a folder. `None` if the test may not mount one.
    pub(crate) fn mount(path: &Path) -> Option<Self> {
        let device = File::options()
            .read(true)
            .write(true)
            .open("/dev/fuse")
            .ok()?;
        let options = format!(
            "fd={},rootmode=40000,user_id=0,group_id=0,allow_other",
            std::os::fd::AsRawFd::as_raw_fd(&device)
        );
        let options = CString::new(options).unwrap();
        let flags = MountFlags::NOSUID | MountFlags::NODEV;
        mount("haul-test", path, "fuse", flags, Some(options.as_c_str())).ok()?;
        let gate = Arc::new(ReadGate::default());
        let inside = Arc::clone(&gate);
        std::thread::spawn(move || serve(&Arc::new(device), &inside));
        Some(Self {
            path: path.to_owned(),
            gate,
        })
    }

    /// The number of blocked replies.
    pub(crate) fn waiting(&self) -> usize {
        self.gate.state.lock().unwrap().waiting
    }

    /// Releases all replies, present and future.
    pub(crate) fn open(&self) {
        self.gate.state.lock().unwrap().is_open = true;
        self.gate.changed.notify_all();
    }
}

impl Drop for SlowFilesystem {
    fn drop(&mut self) {
        self.open();
        let _ = unmount(&self.path, UnmountFlags::DETACH);
    }
}

/// Replies until the file system is unmounted. A blocked reply has a thread of its own.
fn serve(device: &Arc<File>, gate: &Arc<ReadGate>) {
    let mut buffer = vec![0; 1 << 20];
    while let Ok(len) = (&**device).read(&mut buffer) {
        let request = buffer[..len].to_vec();
        let (device, inside) = (Arc::clone(device), Arc::clone(gate));
        let response = move || {
            let unique = &request[8..16];
            let Some(response) = reply(&request, &inside) else {
                return;
            };
            let (error, bytes) = match response {
                Ok(bytes) => (0, bytes),
                Err(error) => (error, Vec::new()),
            };
            let len = u32::try_from(16 + bytes.len()).unwrap();
            let all = [
                &len.to_le_bytes()[..],
                &i32::to_le_bytes(error),
                unique,
                &bytes,
            ]
            .concat();
            // The calling process may have been interrupted.
            let _ = (&*device).write(&all);
        };
        std::thread::spawn(response);
    }
}

/// The reply to a request; some need none.
fn reply(request: &[u8], gate: &ReadGate) -> Option<Result<Vec<u8>, i32>> {
    let number = |at: usize| u32::from_le_bytes(request[at..at + 4].try_into().unwrap());
    let node = u64::from_le_bytes(request[16..24].try_into().unwrap());
    let rest = &request[40..];
    Some(match number(4) {
        // LOOKUP
        1 => lookup(node, rest, gate),
        // FORGET, INTERRUPT, BATCH_FORGET
        2 | 36 | 42 => return None,
        // GETATTR
        3 => Ok([&[0; 16], &attributes(node)[..]].concat()),
        // OPEN, OPENDIR
        14 | 27 if [SHUT + WITHIN, BARRED + WITHIN].contains(&node) => Err(DENIED),
        14 | 27 => Ok(vec![0; 16]),
        // READ, READDIR: at an offset.
        15 => read(node, offset(rest), gate),
        // RELEASE, FLUSH, RELEASEDIR, ACCESS
        18 | 25 | 29 | 34 => Ok(Vec::new()),
        // INIT: 7.31, folders need no lock (PARALLEL_DIROPS), at most 64 requests at a time in the
        // background, 4 KiB for each write.
        26 => Ok([[7, 31, 0, 1 << 18, 64 | 48 << 16, 4096], [0; 6], [0; 6]]
            .concat()
            .iter()
            .take(16)
            .copied()
            .flat_map(u32::to_le_bytes)
            .collect()),
        28 => list(node, offset(rest), gate),
        _ => Err(NOT_IMPLEMENTED),
    })
}

fn offset(rest: &[u8]) -> u64 {
    u64::from_le_bytes(rest[8..16].try_into().unwrap())
}

fn read(node: u64, at: u64, gate: &ReadGate) -> Result<Vec<u8>, i32> {
    match node.checked_sub(WITHIN) {
        Some(TORN) if at < ERROR_OFFSET => Ok(vec![b'x'; 4096]),
        Some(TORN) => Err(IO_ERROR),
        Some(FIRST..) => Ok(CONTENT.to_vec()),
        _ => {
            gate.wait();
            let at = usize::try_from(at).unwrap();
            Ok(CONTENT.get(at..).unwrap_or_default().to_vec())
        }
    }
}

fn list(node: u64, at: u64, gate: &ReadGate) -> Result<Vec<u8>, i32> {
    let Some((_, name, _)) = broken(node) else {
        // The listing has ended.
        gate.wait();
        return Ok(Vec::new());
    };
    match (at, node) {
        (0, _) => {
            // `struct fuse_dirent`: a node, the offset after it, the length of the name, the type.
            let kind: u32 = if node == BARRED { 4 } else { 8 };
            let mut entry = [(node + WITHIN).to_le_bytes(), 1_u64.to_le_bytes()].concat();
            for number in [u32::try_from(name.len()).unwrap(), kind] {
                entry.extend_from_slice(&number.to_le_bytes());
            }
            entry.extend_from_slice(name.as_bytes());
            entry.resize(entry.len().next_multiple_of(8), 0);
            Ok(entry)
        }
        (_, CUT) => Err(IO_ERROR),
        _ => Ok(Vec::new()),
    }
}

/// The broken folder of a node.
fn broken(node: u64) -> Option<&'static (&'static str, &'static str, i32)> {
    let index = usize::try_from(node.checked_sub(FIRST)?).unwrap();
    BROKEN.get(index)
}

fn lookup(parent: u64, name: &[u8], gate: &ReadGate) -> Result<Vec<u8>, i32> {
    let name = name.strip_suffix(b"\0").unwrap_or(name);
    let folder = BROKEN.iter().zip(FIRST..);
    let mut folder = folder.filter(|((folder, ..), _)| folder.as_bytes() == name);
    let node = match (parent, name) {
        (ROOT, b"read") => READ,
        (ROOT, b"found") => {
            gate.wait();
            FOUND
        }
        (ROOT, _) => folder.next().map(|(_, node)| node).ok_or(NO_ENTRY)?,
        (LOST, _) => return Err(IO_ERROR),
        (parent, name) => match broken(parent) {
            Some((_, inner, _)) if inner.as_bytes() == name => parent + WITHIN,
            _ => return Err(NO_ENTRY),
        },
    };
    // The node's number; nothing may be cached.
    Ok([&node.to_le_bytes()[..], &[0; 32], &attributes(node)].concat())
}

/// `struct fuse_attr`.
fn attributes(node: u64) -> Vec<u8> {
    let (mode, size) = match node {
        ROOT | FIRST..=CUT => (0o40_755, 0),
        _ if node == BARRED + WITHIN => (0o40_755, 0),
        _ if node == TORN + WITHIN => (0o100_644, TORN_LENGTH),
        _ => (0o100_644, CONTENT.len() as u64),
    };
    let long = [node, size, 1, 0, 0, 0];
    let short: [u32; 10] = [0, 0, 0, mode, 1, 0, 0, 0, 4096, 0];
    let long = long.iter().flat_map(|number| number.to_le_bytes());
    long.chain(short.iter().flat_map(|number| number.to_le_bytes()))
        .collect()
}
