//! The server of a transfer: one of ours, or the user's, with the URLs of the files.

use haul_net::{ClientConfig, Login, Secret};
use haul_s3::{MAX_DELETED_KEYS, MultipartUpload, S3Address, S3Client, S3Config, S3Error};
use haul_transfer::put::UploadTarget;
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use url::Url;

use super::cell::TransferCell;
use super::{EVENT_QUEUE, TransferWorkload, uploads};
use crate::cell::{FileSet, LevelError};
use crate::servers::{PooledServer, S3_ACCESS_KEY, S3_SECRET_KEY, ServerPool};
use crate::workload::WorkloadError;

/// The folder of uploads to a server of ours, which is a bucket of its S3 store.
pub(super) const UPLOADS: &str = "uploads";

/// The folder of objects that are downloaded from a bucket of the user's.
pub(super) const STORED: &str = "files";

/// The region of embedded stores.
const REGION: &str = "us-east-1";

/// A server, ready for a transfer.
#[derive(Debug)]
pub(super) struct TransferPeer<T> {
    /// A client that has no connection yet.
    pub(super) client: S3Client,
    /// Where each file is downloaded from, or uploaded to.
    pub(super) files: Vec<T>,
    /// What the files must be, where that is known.
    pub(super) expected: Option<FileSet>,
    /// The processes of the server, where it is ours.
    pub(super) pids: Vec<u32>,
    /// Where the engine runs.
    pub(super) runtime: Handle,
}

/// The place in the user's bucket where our objects are. Nothing else in the bucket is read or written.
#[derive(Debug, Clone)]
pub(super) struct BucketFolder {
    /// The user's prefix and a random folder below it.
    prefix: S3Address,
    /// Sets of files of which some may be there.
    pub(super) begun: Vec<FileSet>,
    /// Those that are there in full, to be downloaded.
    pub(super) stored: Vec<FileSet>,
}

impl BucketFolder {
    /// A new one below the target, if that is an `s3://` URL that ends with a slash.
    pub(super) fn below(target: Option<&Url>) -> Option<Self> {
        let address = S3Address::from_url(target?).ok()?;
        if !address.is_prefix() {
            return None;
        }
        let random: u64 = rand::random();
        let key = format!("{}haul-bench-{random:016x}/", address.key);
        Some(Self {
            prefix: address.with_key(key),
            begun: Vec::new(),
            stored: Vec::new(),
        })
    }

    fn object(&self, folder: &str, files: FileSet, number: u32) -> S3Address {
        let path = ServerPool::file_path(files, number);
        let key = format!("{}{folder}/{path}", self.prefix.key);
        self.prefix.with_key(key)
    }

    /// Aborts uploads that were begun, and whose number the engine does not know: it was stopped before the response.
    pub(super) async fn abort_uploads(&self, client: &S3Client) -> Result<(), WorkloadError> {
        let failed = |error: S3Error| self.error("abort uploads to", error.kind);
        let pending = client.list_multipart_uploads(&self.prefix).await;
        for upload in pending.map_err(failed)? {
            let upload = MultipartUpload {
                address: self.prefix.with_key(upload.key),
                upload_id: upload.upload_id,
            };
            let aborted = client.abort_multipart_upload(&upload).await;
            aborted.map_err(failed)?;
        }
        Ok(())
    }

    /// Deletes the files of a set. Some of them may not exist.
    pub(super) async fn delete(
        &self,
        client: &S3Client,
        folder: &str,
        files: FileSet,
    ) -> Result<(), WorkloadError> {
        let keys: Vec<String> = (0..files.count)
            .map(|number| self.object(folder, files, number).key)
            .collect();
        for keys in keys.chunks(MAX_DELETED_KEYS) {
            let deleted = client.delete_objects(&self.prefix.bucket, keys).await;
            let failures = deleted.map_err(|error| self.error("delete", error.kind))?;
            if let Some(failure) = failures.first() {
                return Err(self.error("delete", &failure.code));
            }
        }
        Ok(())
    }

    fn error(&self, action: &'static str, cause: impl ToString) -> WorkloadError {
        WorkloadError::Store {
            action,
            place: self.prefix.to_string(),
            cause: cause.to_string(),
        }
    }
}

impl TransferWorkload {
    /// The server that has the files of a cell.
    pub(super) async fn source(
        &mut self,
        cell: &TransferCell,
        stop: &CancellationToken,
    ) -> Result<TransferPeer<Url>, WorkloadError> {
        if let Some(target) = self.options.target.clone() {
            let (files, expected) = match self.bucket.clone() {
                Some(bucket) => (
                    self.store_files(bucket, cell, stop).await?,
                    Some(cell.files),
                ),
                None => (vec![target], None),
            };
            return Ok(TransferPeer {
                client: self.connect_to_target(cell).await?,
                files,
                expected,
                pids: self.options.server_pids.clone(),
                runtime: Handle::current(),
            });
        }
        self.pool.add_files(cell.files).await?;
        let server = self.serve(cell, None).await?;
        let base = if cell.is_s3 {
            "s3://".to_owned()
        } else {
            format!("http://{}/", server.address)
        };
        let paths = (0..cell.files.count).map(|number| ServerPool::file_path(cell.files, number));
        Ok(TransferPeer {
            client: connect(server, cell).await?,
            files: paths.map(|path| own_url(&base, &path)).collect(),
            expected: Some(cell.files),
            pids: vec![server.pid],
            runtime: self.pool.lab().client_runtime(cell.link)?,
        })
    }

    /// The server that takes uploads.
    pub(super) async fn destination(
        &mut self,
        cell: &TransferCell,
    ) -> Result<TransferPeer<UploadTarget>, WorkloadError> {
        let numbers = 0..cell.files.count;
        if let Some(bucket) = &self.bucket {
            let objects = numbers.map(|number| bucket.object(UPLOADS, cell.files, number));
            return Ok(TransferPeer {
                client: self.connect_to_target(cell).await?,
                files: objects.map(UploadTarget::from).collect(),
                expected: Some(cell.files),
                pids: self.options.server_pids.clone(),
                runtime: Handle::current(),
            });
        }
        if self.options.target.is_some() {
            let expected = "get: files are uploaded to targets s3://BUCKET/PREFIX/ only";
            return Err(LevelError::new("direction", "put", expected).into());
        }
        let server = self.serve(cell, Some("--writable")).await?;
        let folder = self.pool.folder().join(UPLOADS);
        std::fs::create_dir_all(&folder).map_err(|source| WorkloadError::LocalIo {
            action: "make",
            path: folder,
            source,
        })?;
        let base = format!("http://{}/{UPLOADS}/", server.address);
        let targets = numbers.map(|number| {
            if cell.is_s3 {
                S3Address::new(UPLOADS, number.to_string()).into()
            } else {
                UploadTarget::Url(own_url(&base, &number.to_string()))
            }
        });
        Ok(TransferPeer {
            client: connect(server, cell).await?,
            files: targets.collect(),
            expected: Some(cell.files),
            pids: vec![server.pid],
            runtime: self.pool.lab().client_runtime(cell.link)?,
        })
    }

    async fn serve(
        &mut self,
        cell: &TransferCell,
        flag: Option<&str>,
    ) -> Result<PooledServer, WorkloadError> {
        let flags: Vec<&str> = flag
            .into_iter()
            .chain(cell.is_s3.then_some("--s3"))
            .collect();
        Ok(self.pool.serve(&flags, false, cell.link).await?)
    }

    async fn connect_to_target(&self, cell: &TransferCell) -> Result<S3Client, WorkloadError> {
        let config = with_idle_connections(self.options.client.clone(), cell);
        Ok(self.options.store.connect(config).await?)
    }

    /// Uploads the files of a cell to the user's bucket, unless they are there. Returns their URLs.
    async fn store_files(
        &mut self,
        bucket: BucketFolder,
        cell: &TransferCell,
        stop: &CancellationToken,
    ) -> Result<Vec<Url>, WorkloadError> {
        let files = cell.files;
        let objects = (0..files.count).map(|number| bucket.object(STORED, files, number));
        if !bucket.stored.contains(&files) {
            self.pool.add_files(files).await?;
            let cell = TransferCell {
                connections: None,
                part_bytes: None,
                ..*cell
            };
            let client = self.connect_to_target(&cell).await?;
            let sources = (0..).map(|number| self.source_file(files, number));
            let jobs = sources.zip(objects.clone().map(UploadTarget::from));
            let (events, mut receiver) = mpsc::channel(EVENT_QUEUE);
            let upload = uploads::upload_all(client, cell, jobs.collect(), events, stop.clone());
            let read_events = async { while receiver.recv().await.is_some() {} };
            let (uploaded, ()) = tokio::join!(Box::pin(upload), read_events);
            if let Some(cause) = uploaded.errors.into_keys().next() {
                return Err(bucket.error("store files at", cause));
            }
            let known = self.bucket.iter_mut();
            known.for_each(|bucket| bucket.stored.push(files));
        }
        Ok(objects.filter_map(|object| object.to_url().ok()).collect())
    }
}

/// A client for a server of ours: no proxy, and no credentials but its own.
async fn connect(server: PooledServer, cell: &TransferCell) -> Result<S3Client, WorkloadError> {
    let store = S3Config {
        endpoint_url: Some(own_url("http://", &server.address.to_string())),
        region: Some(REGION.to_owned()),
        access_key: Some(Login {
            user: S3_ACCESS_KEY.to_owned(),
            password: Secret::new(S3_SECRET_KEY.to_owned()),
        }),
        ..S3Config::default()
    };
    let config = with_idle_connections(ClientConfig::default(), cell);
    Ok(store.connect(config).await?)
}

/// Settings that keep as many connections as the cell uses.
fn with_idle_connections(config: ClientConfig, cell: &TransferCell) -> ClientConfig {
    let wanted = cell.connections.unwrap_or_default();
    ClientConfig {
        max_idle_per_host: config.max_idle_per_host.max(wanted),
        ..config
    }
}

/// A URL of a server of ours.
fn own_url(base: &str, path: &str) -> Url {
    let text = format!("{base}{path}");
    Url::parse(&text).unwrap_or_else(|_| unreachable!("a URL of numbers: {text}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_objects_are_below_a_random_prefix() {
        let below = |text: &str| BucketFolder::below(Some(&text.parse().unwrap()));
        let folder = below("s3://bucket/pre/fix/").unwrap();
        let files = FileSet {
            count: 2,
            bytes: 1024,
        };
        let object = folder.object(STORED, files, 1);
        assert!(object.key.starts_with("pre/fix/haul-bench-"), "{object}");
        assert!(object.key.ends_with("/files/2x1024/1"), "{object}");
        let other = below("s3://bucket/pre/fix/").unwrap();
        assert_ne!(other.object(STORED, files, 1), object);
        assert!(below("s3://bucket").is_some());
        for text in ["s3://bucket/object", "https://example.org/folder/"] {
            assert!(below(text).is_none(), "{text}");
        }
        assert!(BucketFolder::below(None).is_none());
    }
}
