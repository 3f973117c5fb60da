//! The servers of an experiment: each is started when a cell first needs it, and runs until the experiment ends.
//!
//! All `haul serve` processes serve one temporary folder. It is in memory where that is possible: the question is what ways of
//! moving bytes cost, and a disk would be the slowest part of most answers.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fs::File;
use std::io::{self, Write as _};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use haul_lab::{CertificateFiles, ResourceContent};
use haul_net::{TlsConfigError, TlsOptions};
use tempfile::TempDir;

use super::lab::LabServers;
use super::link::{KernelLinkSpec, LinkSpec};
use super::network::Network;
use super::process::{HaulProcess, ServerError};
use crate::cell::FileSet;

/// What the names of temporary folders begin with.
const FOLDER_PREFIX: &str = "haul-bench-";

/// The folder of Linux that is in memory.
const MEMORY_FOLDER: &str = "/dev/shm";
/// The free space from which on it is used. Containers often have 64 MiB there, less than a large file.
const MIN_MEMORY_SPACE: u64 = 2 << 30;
/// The space that file sets leave free.
const SPARE_SPACE: u64 = 64 << 20;

/// Connections that a warm tunnel keeps open: more than an experiment uses at once, since a replacement takes a round trip.
const WARM_CONNECTIONS: &str = "16";

/// Any number: the bytes must be reproducible, and not compressible.
const SEED: u64 = 0x6265_6e63;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PooledServer {
    /// Where clients at the other end of the link connect.
    pub address: SocketAddr,
    /// The number of its process.
    pub pid: u32,
}

/// The servers of an experiment. All end when this is dropped, and the folder is removed.
#[derive(Debug)]
pub struct ServerPool {
    program: PathBuf,
    folder: TempDir,
    /// File sets that are in the folder.
    files: Vec<FileSet>,
    /// By their arguments, and the kernel link at one of whose ends they are.
    processes: HashMap<(Vec<PathBuf>, Option<KernelLinkSpec>), HaulProcess>,
    /// By the address of their server.
    certificates: HashMap<Ipv4Addr, CertificateFiles>,
    lab: LabServers,
}

impl ServerPool {
    /// A pool without servers. `program` is haul.
    ///
    /// # Errors
    /// There is no temporary folder, or there are no threads.
    pub fn new(program: PathBuf) -> Result<Self, ServerError> {
        Ok(Self {
            program,
            folder: bench_folder(true)?,
            files: Vec::new(),
            processes: HashMap::new(),
            certificates: HashMap::new(),
            lab: LabServers::new()?,
        })
    }

    /// A `haul serve` with these flags, at the far end of a link. Clients of one with TLS use [`client_tls`](Self::client_tls), and those of an S3 store
    /// the key [`S3_ACCESS_KEY`](super::S3_ACCESS_KEY).
    ///
    /// # Errors
    /// It does not start, or has ended meanwhile.
    pub async fn serve(
        &mut self,
        flags: &[&str],
        is_tls: bool,
        link: LinkSpec,
    ) -> Result<PooledServer, ServerError> {
        let ends = self.lab.ends(link)?;
        let mut arguments = vec!["serve".into(), self.folder().to_owned()];
        let listen = format!("{}:0", ends.server_ip);
        let flags = ["--listen", &listen]
            .into_iter()
            .chain(flags.iter().copied());
        arguments.extend(flags.map(PathBuf::from));
        if is_tls {
            let files = self.certificate_files(ends.server_ip)?;
            let (certificate, key) = (files.certificate.clone(), files.key.clone());
            arguments.extend(["--cert".into(), certificate, "--key".into(), key]);
        }
        let server = self.process(arguments, link, &ends.server).await?;
        Ok(PooledServer {
            address: self.lab.relay(server.address, link).await?,
            ..server
        })
    }

    /// A `haul tunnel` near the client of a link, to a target through an HTTP proxy. A warm one keeps connections open in advance.
    ///
    /// # Errors
    /// It does not start, or has ended meanwhile.
    pub async fn tunnel(
        &mut self,
        target: SocketAddr,
        proxy: SocketAddr,
        is_warm: bool,
        link: LinkSpec,
    ) -> Result<PooledServer, ServerError> {
        let (listen, proxy) = (format!("0:{target}"), format!("http://{proxy}"));
        // Without a log of each connection, which would be part of the cost.
        let mut arguments = vec!["tunnel", &listen, "--proxy", &proxy, "--log", "/dev/null"];
        if is_warm {
            arguments.extend(["--warm", WARM_CONNECTIONS]);
        }
        let arguments = arguments.into_iter().map(PathBuf::from);
        let network = self.lab.ends(link)?.client;
        self.process(arguments.collect(), link, &network).await
    }

    /// The process with these arguments in a network of a link, which is started if it is not there.
    async fn process(
        &mut self,
        arguments: Vec<PathBuf>,
        link: LinkSpec,
        network: &Network,
    ) -> Result<PooledServer, ServerError> {
        let process = match self.processes.entry((arguments, link.kernel())) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => {
                let process = HaulProcess::start(&self.program, &new.key().0, network).await?;
                new.insert(process)
            }
        };
        process.check()?;
        Ok(PooledServer {
            address: process.address(),
            pid: process.pid(),
        })
    }

    /// The servers in this process.
    pub fn lab(&mut self) -> &mut LabServers {
        &mut self.lab
    }

    /// The folder that all `haul serve` serve.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Writes a file set into the folder, unless it is there. File N of it is [`file_path`](Self::file_path).
    ///
    /// # Errors
    /// There is no space, or the system's.
    pub async fn add_files(&mut self, files: FileSet) -> Result<(), ServerError> {
        if self.files.contains(&files) {
            return Ok(());
        }
        let path = self.folder().join(Self::folder_name(files));
        let error_path = path.clone();
        let written = tokio::task::spawn_blocking(move || write_files(&path, files))
            .await
            .unwrap_or_else(|error| Err(io::Error::other(error)));
        written.map_err(|source| ServerError::File {
            path: error_path,
            source,
        })?;
        self.files.push(files);
        Ok(())
    }

    /// The folder of a set below the folder of all: a path of URLs, or a bucket.
    #[must_use]
    pub fn folder_name(files: FileSet) -> String {
        format!("{}x{}", files.count, files.bytes)
    }

    /// The path of a file of a set below the folder, with slashes: the path of its URL, or its bucket and key.
    #[must_use]
    pub fn file_path(files: FileSet, number: u32) -> String {
        format!("{}/{number}", Self::folder_name(files))
    }

    /// What a file of a set holds, in pieces.
    pub fn file_pieces(files: FileSet, number: u32) -> impl Iterator<Item = Vec<u8>> {
        let content = ResourceContent::random(SEED.wrapping_add(number.into()), files.bytes);
        let starts = (0..files.bytes).step_by(PIECE);
        starts.map(move |start| content.slice(start..start + PIECE as u64))
    }

    /// TLS settings that trust the certificates of TLS servers and nothing else.
    ///
    /// # Errors
    /// None that is expected of a new certificate.
    pub fn client_tls(&mut self) -> Result<Arc<rustls::ClientConfig>, TlsConfigError> {
        let options = TlsOptions {
            cacert: Some(self.lab.authority().certificate_pem().into_bytes()),
            ..TlsOptions::default()
        };
        options.client_config()
    }

    fn certificate_files(&mut self, server: Ipv4Addr) -> Result<&CertificateFiles, ServerError> {
        Ok(match self.certificates.entry(server) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => {
                let issued = self.lab.authority().issue(&[&server.to_string()]);
                let written = issued.write_files().map_err(|source| ServerError::File {
                    path: std::env::temp_dir(),
                    source,
                })?;
                new.insert(written)
            }
        })
    }
}

/// A temporary folder; in memory if that is wished and there is space enough.
///
/// # Errors
/// It cannot be made.
pub(crate) fn bench_folder(in_memory: bool) -> Result<TempDir, ServerError> {
    let memory = Path::new(MEMORY_FOLDER);
    let parent = std::env::temp_dir();
    for folder in [memory, &parent] {
        remove_left_folders(folder);
    }
    let prefix = format!("{FOLDER_PREFIX}{}-", std::process::id());
    let mut builder = tempfile::Builder::new();
    builder.prefix(&prefix);
    if in_memory
        && free_space(memory).is_ok_and(|space| space >= MIN_MEMORY_SPACE)
        && let Ok(folder) = builder.tempdir_in(memory)
    {
        return Ok(folder);
    }
    let folder = builder.tempdir_in(&parent);
    folder.map_err(|source| ServerError::File {
        path: parent,
        source,
    })
}

/// Removes the folders of processes that were killed. Their names have the numbers of the processes.
fn remove_left_folders(parent: &Path) {
    if !Path::new("/proc/self").exists() {
        return;
    }
    for entry in std::fs::read_dir(parent).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let rest = name
            .to_str()
            .and_then(|name| name.strip_prefix(FOLDER_PREFIX));
        let pid = rest.and_then(|rest| rest.split_once('-')?.0.parse::<u32>().ok());
        if pid.is_some_and(|pid| !Path::new(&format!("/proc/{pid}")).exists()) {
            // Another haul may be doing the same.
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

/// The bytes that a program may still write there.
fn free_space(path: &Path) -> io::Result<u64> {
    let status = rustix::fs::statvfs(path)?;
    Ok(status.f_bavail.saturating_mul(status.f_frsize))
}

fn write_files(folder: &Path, files: FileSet) -> io::Result<()> {
    std::fs::create_dir_all(folder)?;
    let needed = files.bytes.saturating_mul(files.count.into());
    if free_space(folder)? < needed.saturating_add(SPARE_SPACE) {
        return Err(io::ErrorKind::StorageFull.into());
    }
    for number in 0..files.count {
        let mut file = File::create(folder.join(number.to_string()))?;
        for piece in ServerPool::file_pieces(files, number) {
            file.write_all(&piece)?;
        }
    }
    Ok(())
}

/// Bytes that are made at once.
const PIECE: usize = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    fn pool() -> ServerPool {
        ServerPool::new("/nowhere/haul".into()).unwrap()
    }

    #[tokio::test]
    async fn a_file_set_is_written_once_and_right() {
        let mut pool = pool();
        let files = FileSet {
            count: 3,
            bytes: (1 << 20) + 7,
        };
        pool.add_files(files).await.unwrap();
        for number in 0..3 {
            let path = pool.folder().join(ServerPool::file_path(files, number));
            let content: Vec<u8> = ServerPool::file_pieces(files, number).flatten().collect();
            assert!(std::fs::read(&path).unwrap() == content, "{path:?}");
        }
        let first = pool.folder().join("3x1048583/0");
        std::fs::remove_file(&first).unwrap();
        pool.add_files(files).await.unwrap();
        assert!(!first.exists());
        let empty = FileSet { count: 1, bytes: 0 };
        pool.add_files(empty).await.unwrap();
        assert_eq!(std::fs::read(pool.folder().join("1x0/0")).unwrap(), b"");
    }

    #[test]
    fn folders_of_killed_processes_are_removed_and_others_are_not() {
        let parent = tempfile::tempdir().unwrap();
        // Linux has no process of this number.
        let names = [
            "haul-bench-4294967295-a",
            "haul-bench-1-b",
            "haul-bench-x",
            "other",
        ];
        for name in names {
            std::fs::create_dir(parent.path().join(name)).unwrap();
        }
        remove_left_folders(parent.path());
        let is_there = |name| parent.path().join(name).exists();
        let expected = [!cfg!(target_os = "linux"), true, true, true];
        assert_eq!(names.map(is_there), expected);
    }

    #[tokio::test]
    async fn a_set_that_is_larger_than_the_space_is_refused_before_it_fills_it() {
        let mut pool = pool();
        let files = FileSet {
            count: u32::MAX,
            bytes: 1 << 40,
        };
        let ServerError::File { path, source } = pool.add_files(files).await.unwrap_err() else {
            panic!("another error");
        };
        assert_eq!(source.kind(), io::ErrorKind::StorageFull);
        assert_eq!(std::fs::read_dir(path).unwrap().count(), 0);
    }

    #[tokio::test]
    async fn a_pool_ends_with_all_its_servers_and_its_folder() {
        let mut pool = pool();
        let folder = pool.folder().to_owned();
        let proxy = pool.lab().http_proxy(LinkSpec::default()).await.unwrap();
        let spec = LinkSpec::parse("1ms").unwrap();
        let link = pool.lab().relay(proxy, spec).await.unwrap();
        assert_ne!(link, proxy);
        assert_eq!(pool.lab().relay(proxy, spec).await.unwrap(), link);
        assert_eq!(
            pool.lab().relay(proxy, LinkSpec::default()).await.unwrap(),
            proxy
        );
        drop(tokio::net::TcpStream::connect(link).await.unwrap());
        drop(pool);
        assert!(!folder.exists());
        let are_closed = async {
            while tokio::net::TcpStream::connect(link).await.is_ok()
                || tokio::net::TcpStream::connect(proxy).await.is_ok()
            {
                tokio::task::yield_now().await;
            }
        };
        haul_lab::within(std::time::Duration::from_secs(20), are_closed).await;
    }
}
