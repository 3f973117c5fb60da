//! The server of a transfer: one of ours, or the user's, with the URLs of the files.

use haul_net::{ClientConfig, Login, Secret};
use haul_s3::{MAX_DELETED_KEYS, MultipartUpload, S3Address, S3Client, S3Config, S3Error};
use haul_transfer::put::UploadTarget;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use url::Url;

use super::cell::{TransferCell, TransferStore};
use super::{EVENT_QUEUE, TransferWorkload, uploads};
use crate::cell::{FileSet, LevelError};
use crate::servers::{PooledServer, S3_ACCESS_KEY, S3_SECRET_KEY, ServeSpec, ServerPool};
use crate::workload::WorkloadError;

/// The folder of uploads to a server of ours, which is a bucket of its S3 store.
pub(super) const UPLOADS: &str = "uploads";

/// The folder of objects that are downloaded from a bucket of the user's.
const STORED: &str = "files";

/// The region of embedded stores.
const REGION: &str = "us-east-1";

/// A server, ready for a transfer.
#[derive(Debug)]
pub(super) struct TransferPeer {
    /// A client that has no connection yet.
    pub(super) client: S3Client,
    /// What is downloaded.
    pub(super) urls: Vec<Url>,
    /// The files of these URLs, where they are known.
    pub(super) files: Option<FileSet>,
    /// The processes of the server, where it is ours.
    pub(super) pids: Vec<u32>,
}

/// The place in the user's bucket where our objects are. Nothing else in the bucket is read or written.
#[derive(Debug, Clone)]
pub(super) struct BucketFolder {
    /// The user's prefix and a random folder below it.
    prefix: S3Address,
    /// Sets of files to be downloaded that are there, or were begun to be stored.
    pub(super) stored: Vec<FileSet>,
    /// Those that are there in full.
    complete: Vec<FileSet>,
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
            stored: Vec::new(),
            complete: Vec::new(),
        })
    }

    fn object(&self, folder: &str, files: FileSet, number: u32) -> S3Address {
        let path = ServerPool::file_path(files, number);
        let key = format!("{}{folder}/{path}", self.prefix.key);
        self.prefix.with_key(key)
    }

    /// Deletes what was uploaded in a measurement.
    pub(super) async fn delete_uploads(
        &self,
        client: &S3Client,
        files: FileSet,
    ) -> Result<(), WorkloadError> {
        self.delete(client, UPLOADS, files).await
    }

    /// Deletes what was there to be downloaded.
    pub(super) async fn delete_stored(&mut self, client: &S3Client) -> Result<(), WorkloadError> {
        while let Some(files) = self.stored.last().copied() {
            self.delete(client, STORED, files).await?;
            self.complete.retain(|complete| *complete != files);
            self.stored.pop();
        }
        Ok(())
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

    async fn delete(
        &self,
        client: &S3Client,
        folder: &str,
        files: FileSet,
    ) -> Result<(), WorkloadError> {
        let keys = (0..files.count).map(|number| self.object(folder, files, number).key);
        let keys: Vec<String> = keys.collect();
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
        WorkloadError::Bucket {
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
    ) -> Result<TransferPeer, WorkloadError> {
        if let Some(target) = &self.options.target {
            let client = self.connect_to_target(cell).await?;
            let (urls, files) = match self.bucket {
                Some(_) => {
                    self.store_files(cell.files, stop).await?;
                    (self.stored_urls(cell.files), Some(cell.files))
                }
                None => (vec![target.clone()], None),
            };
            return Ok(TransferPeer {
                client,
                urls,
                files,
                pids: self.options.server_pids.clone(),
            });
        }
        self.pool.add_files(cell.files).await?;
        let server = self.serve(cell, false).await?;
        let base = match cell.store {
            TransferStore::Http => format!("http://{}/", server.address),
            TransferStore::S3 => "s3://".to_owned(),
        };
        let paths = (0..cell.files.count).map(|number| ServerPool::file_path(cell.files, number));
        Ok(TransferPeer {
            client: connect(server, cell).await?,
            urls: paths.map(|path| own_url(&base, &path)).collect(),
            files: Some(cell.files),
            pids: vec![server.pid],
        })
    }

    /// The server that takes uploads, and the target of each file.
    pub(super) async fn destination(
        &mut self,
        cell: &TransferCell,
    ) -> Result<(TransferPeer, Vec<UploadTarget>), WorkloadError> {
        let numbers = 0..cell.files.count;
        let (client, pids, targets) = match (&self.bucket, &self.options.target) {
            (Some(bucket), _) => {
                let objects = numbers.map(|number| bucket.object(UPLOADS, cell.files, number));
                let targets = objects.map(UploadTarget::from).collect();
                let client = self.connect_to_target(cell).await?;
                (client, self.options.server_pids.clone(), targets)
            }
            (None, Some(_)) => {
                return Err(WorkloadError::Level(LevelError {
                    factor: "direction",
                    level: "put".to_owned(),
                    expected: "get: files are uploaded to targets s3://BUCKET/PREFIX/ only",
                }));
            }
            (None, None) => {
                let server = self.serve(cell, true).await?;
                let folder = self.pool.folder().join(UPLOADS);
                let made = std::fs::create_dir_all(&folder);
                made.map_err(|source| WorkloadError::LocalIo {
                    action: "make",
                    path: folder,
                    source,
                })?;
                let base = format!("http://{}/{UPLOADS}/", server.address);
                let targets = numbers.map(|number| match cell.store {
                    TransferStore::Http => UploadTarget::Url(own_url(&base, &number.to_string())),
                    TransferStore::S3 => S3Address::new(UPLOADS, number.to_string()).into(),
                });
                (
                    connect(server, cell).await?,
                    vec![server.pid],
                    targets.collect(),
                )
            }
        };
        let peer = TransferPeer {
            client,
            urls: Vec::new(),
            files: Some(cell.files),
            pids,
        };
        Ok((peer, targets))
    }

    async fn serve(
        &mut self,
        cell: &TransferCell,
        is_writable: bool,
    ) -> Result<PooledServer, WorkloadError> {
        let spec = ServeSpec {
            is_writable,
            is_s3: cell.store == TransferStore::S3,
            ..ServeSpec::default()
        };
        Ok(self.pool.serve(&spec, cell.link).await?)
    }

    async fn connect_to_target(&self, cell: &TransferCell) -> Result<S3Client, WorkloadError> {
        let config = with_idle_connections(self.options.client.clone(), cell);
        Ok(self.options.store.connect(config).await?)
    }

    /// Uploads the files of a set to the user's bucket, unless they are there.
    async fn store_files(
        &mut self,
        files: FileSet,
        stop: &CancellationToken,
    ) -> Result<(), WorkloadError> {
        let Some(bucket) = &mut self.bucket else {
            return Ok(());
        };
        if bucket.complete.contains(&files) {
            return Ok(());
        }
        // First, so that those of an upload that fails are deleted, too.
        bucket.stored.push(files);
        let bucket = bucket.clone();
        self.pool.add_files(files).await?;
        let cell = TransferCell {
            files,
            ..TransferCell::default()
        };
        let client = self.connect_to_target(&cell).await?;
        let objects = (0..files.count).map(|number| {
            let object = bucket.object(STORED, files, number);
            (self.source_file(files, number), UploadTarget::from(object))
        });
        let (events, mut receiver) = mpsc::channel(EVENT_QUEUE);
        let upload = uploads::upload_all(client, cell, objects.collect(), events, stop.clone());
        let read_events = async { while receiver.recv().await.is_some() {} };
        let (uploaded, ()) = tokio::join!(Box::pin(upload), read_events);
        if let Some(cause) = uploaded.errors.into_keys().next() {
            return Err(bucket.error("store files at", cause));
        }
        self.bucket
            .iter_mut()
            .for_each(|bucket| bucket.complete.push(files));
        Ok(())
    }

    fn stored_urls(&self, files: FileSet) -> Vec<Url> {
        let objects = self.bucket.iter().flat_map(|bucket| {
            (0..files.count).map(move |number| bucket.object(STORED, files, number))
        });
        objects.filter_map(|object| object.to_url().ok()).collect()
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
