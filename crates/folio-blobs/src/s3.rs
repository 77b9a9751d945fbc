//! Blobs in an S3 bucket.

use std::collections::VecDeque;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use folio_types::{BlobKey, DocumentId, Error, OrgId, Reason, Result, Timestamp};
use futures::stream::{self, BoxStream};
use futures::{StreamExt as _, TryStreamExt as _};
use object_store::aws::{AmazonS3, AmazonS3Builder};
use object_store::multipart::MultipartStore as _;
use object_store::path::Path;
use object_store::{BackoffConfig, ClientOptions, GetResult, ObjectStore, ObjectStoreExt as _, RetryConfig};

use super::writer::Upload;
use super::{CHUNK_BYTES, UNFINISHED_FOR, up_to_error};
use folio_storage::spans;
use folio_storage::{BlobReader, BlobStore, BlobWriter, StoredBlob};

folio_types::with_defaults! {
    /// Connection settings of a bucket. The standard environment variables of S3 clients supply missing values
    /// (`AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY`, `AWS_REGION`, `AWS_ENDPOINT_URL`, those of web identity and
    /// others).
    #[derive(Clone)]
    pub struct S3Options {
        /// `http://HOST:PORT` or `https://…`. None: Amazon S3. Requests use path-style addresses.
        pub endpoint: Option<String> = None,
        pub region: Option<String> = None,
        /// The id and the secret of the access key.
        pub keys: Option<(String, String)> = None,
        /// Size of a part of a large upload, in bytes (8 MiB; S3 requires at least 5 MiB). Each upload buffers one part
        /// in memory.
        pub part_bytes: usize = 8 * 1024 * 1024,
        /// Time limit for a connection without data (15 s).
        pub idle_timeout: Duration = Duration::from_secs(15),
        /// Maximum number of retries of a request (3), within `idle_timeout`.
        pub retries: usize = 3,
    }
}

impl std::fmt::Debug for S3Options {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("S3Options")
            .field("endpoint", &self.endpoint)
            .field("region", &self.region)
            .field("part_bytes", &self.part_bytes)
            .finish_non_exhaustive()
    }
}

fn failed(failure: &'static str) -> impl FnOnce(object_store::Error) -> Error {
    move |error| {
        tracing::error!(%error, failure, "S3 request failed");
        Error::unavailable(Reason::StoreUnavailable, failure)
    }
}

pub(super) async fn request<T>(
    name: &'static str,
    failure: &'static str,
    request: impl Future<Output = object_store::Result<T>>,
) -> Result<T> {
    spans::run_in_span("s3", name, async { request.await.map_err(failed(failure)) }).await
}

#[derive(Debug, Clone)]
pub(super) struct S3BlobStore {
    store: AmazonS3,
    prefix: Path,
    part_bytes: usize,
}

impl S3BlobStore {
    pub(super) fn open(bucket: &str, prefix: &str, options: &S3Options) -> Result<Self> {
        let client = ClientOptions::new()
            .with_timeout_disabled()
            .with_connect_timeout(Duration::from_secs(5))
            .with_read_timeout(options.idle_timeout);
        let retry = RetryConfig {
            backoff: BackoffConfig { max_backoff: Duration::from_secs(2), ..BackoffConfig::default() },
            max_retries: options.retries,
            retry_timeout: options.idle_timeout,
        };
        // The operator chooses an endpoint without TLS explicitly.
        let plain = options.endpoint.as_deref().is_some_and(|endpoint| endpoint.starts_with("http://"));
        let client = if plain { client.with_allow_http(true) } else { client };
        let mut builder =
            AmazonS3Builder::from_env().with_bucket_name(bucket).with_client_options(client).with_retry(retry);
        if let Some(endpoint) = &options.endpoint {
            builder = builder.with_endpoint(endpoint);
        }
        if let Some(region) = &options.region {
            builder = builder.with_region(region);
        }
        if let Some((id, secret)) = &options.keys {
            builder = builder.with_access_key_id(id).with_secret_access_key(secret);
        }
        let incomplete = |error| {
            let message = format!("the settings of the bucket are incomplete: {error}");
            Error::unavailable(Reason::StoreUnavailable, message)
        };
        let store = builder.build().map_err(incomplete)?;
        let prefix = Path::parse(prefix.trim_matches('/')).map_err(|error| {
            Error::invalid(
                Reason::InvalidField,
                format!("invalid key prefix {prefix:?} after the bucket name: {error}"),
            )
        })?;
        Ok(Self { store, prefix, part_bytes: options.part_bytes })
    }

    fn folder(&self, name: &'static str) -> Path {
        self.prefix.clone().join(name)
    }

    fn path(&self, folder: &'static str, key: &BlobKey) -> Path {
        self.folder(folder).join(key.org.as_str()).join(key.document.as_str()).join(key.blob.as_str())
    }

    /// Aborts uploads that are still unfinished after a day.
    async fn abort_unfinished(&self) -> Result<()> {
        let folder = self.folder("unfinished");
        let mut records = self.store.list(Some(&folder));
        while let Some(record) = records.try_next().await.map_err(failed("unfinished uploads cannot be listed"))? {
            let age = Timestamp::now().as_millisecond() - record.last_modified.timestamp_millis();
            if u128::try_from(age).is_ok_and(|age| age > UNFINISHED_FOR.as_millis()) {
                self.abort(&folder, &record.location).await?;
            }
        }
        Ok(())
    }

    /// Aborts the multipart upload of a record in `folder`, and removes the record. Idempotent.
    async fn abort(&self, folder: &Path, record: &Path) -> Result<()> {
        let parts: Option<Vec<_>> = record.prefix_match(folder).map(Iterator::collect);
        if let Some([org, document, blob, upload]) = parts.as_deref() {
            let path = self.folder("blobs").join(org.as_ref()).join(document.as_ref()).join(blob.as_ref());
            let upload = decode_upload_id(upload.as_ref())?;
            match self.store.abort_multipart(&path, &upload).await {
                // If the upload has ended, only its record remains.
                Ok(()) | Err(object_store::Error::NotFound { .. }) => {}
                Err(error) => return Err(failed("an unfinished upload cannot be aborted")(error)),
            }
        }
        self.store.delete(record).await.map_err(failed("the record of an upload cannot be removed"))
    }

    /// Removes the blobs of an organization, and aborts its uploads in progress.
    async fn remove_all(&self, org: &OrgId) -> Result<()> {
        let (blobs, records) = (self.folder("blobs").join(org.as_str()), self.folder("unfinished").join(org.as_str()));
        self.remove_below(&blobs).await.map_err(failed("an organization's blobs cannot be removed"))?;
        // An upload for a deleted organization must not complete.
        let mut records = self.store.list(Some(&records));
        while let Some(record) = records.try_next().await.map_err(failed("unfinished uploads cannot be listed"))? {
            self.abort(&self.folder("unfinished"), &record.location).await?;
        }
        Ok(())
    }

    /// Removes all objects in a folder.
    async fn remove_below(&self, folder: &Path) -> object_store::Result<()> {
        let listed = self.store.list(Some(folder)).map_ok(|object| object.location).boxed();
        let mut removed = self.store.delete_stream(listed);
        loop {
            match removed.try_next().await {
                Ok(Some(_)) | Err(object_store::Error::NotFound { .. }) => {}
                Ok(None) => return Ok(()),
                Err(error) => return Err(error),
            }
        }
    }

    /// Returns None if the path is not the path of a blob.
    fn parse_blob_path(&self, path: &Path, modified_at: i64) -> Option<StoredBlob> {
        let parts: Vec<_> = path.prefix_match(&self.folder("blobs"))?.collect();
        let [org, document, blob] = parts.as_slice() else { return None };
        let key = BlobKey {
            org: org.as_ref().parse().ok()?,
            document: document.as_ref().parse().ok()?,
            blob: blob.as_ref().parse().ok()?,
        };
        Some(StoredBlob { key, modified_at: Timestamp::from_millisecond(modified_at).ok()? })
    }
}

#[async_trait]
impl BlobStore for S3BlobStore {
    async fn create(&self, key: &BlobKey) -> Result<Box<dyn BlobWriter>> {
        let (blob, records) = (self.path("blobs", key), self.path("unfinished", key));
        Ok(Box::new(Upload::new(self.store.clone(), blob, records, self.part_bytes)))
    }

    async fn open(&self, key: &BlobKey) -> Result<Option<Box<dyn BlobReader>>> {
        let found = spans::run_in_span("s3", "get", async {
            match self.store.get(&self.path("blobs", key)).await {
                Ok(found) => Ok(Some(found)),
                Err(object_store::Error::NotFound { .. }) => Ok(None),
                Err(error) => Err(failed("a blob cannot be opened")(error)),
            }
        });
        let reader = |found: GetResult| Reader { rest: found.into_stream(), chunks: VecDeque::new() };
        Ok(found.await?.map(|found| Box::new(reader(found)) as Box<dyn BlobReader>))
    }

    async fn delete(&self, key: &BlobKey) -> Result<()> {
        spans::run_in_span("s3", "delete", async {
            match self.store.delete(&self.path("blobs", key)).await {
                Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
                Err(error) => Err(failed("a blob cannot be removed")(error)),
            }
        })
        .await
    }

    async fn delete_document(&self, org: &OrgId, id: &DocumentId) -> Result<()> {
        let folder = self.folder("blobs").join(org.as_str()).join(id.as_str());
        let removed =
            async { self.remove_below(&folder).await.map_err(failed("a document's blobs cannot be removed")) };
        spans::run_in_span("s3", "delete_document", removed).await
    }

    async fn delete_all(&self, org: &OrgId) -> Result<()> {
        spans::run_in_span("s3", "delete_all", self.remove_all(org)).await
    }

    fn scan(&self) -> BoxStream<'static, Result<StoredBlob>> {
        let (aborting, listing) = (self.clone(), self.clone());
        let aborted =
            stream::once(async move { aborting.abort_unfinished().await }).filter_map(|done| async { done.err() });
        let blobs = listing.store.list(Some(&self.folder("blobs"))).filter_map(move |found| {
            let blob = match found {
                Ok(object) => {
                    listing.parse_blob_path(&object.location, object.last_modified.timestamp_millis()).map(Ok)
                }
                Err(error) => Some(Err(failed("the blobs cannot be listed")(error))),
            };
            std::future::ready(blob)
        });
        up_to_error(aborted.map(Err).chain(blobs))
    }
}

/// Returns the id of an upload from the name of its record, in which some characters are percent-encoded.
fn decode_upload_id(record: &str) -> Result<String> {
    let id = Path::from_url_path(record).map_err(|error| {
        Error::internal(format!("the record of an upload has a malformed name {record:?}: {error}"))
    })?;
    Ok(id.to_string())
}

struct Reader {
    rest: BoxStream<'static, object_store::Result<Bytes>>,
    chunks: VecDeque<Bytes>,
}

#[async_trait]
impl BlobReader for Reader {
    async fn read(&mut self) -> Result<Option<Bytes>> {
        while self.chunks.is_empty() {
            let Some(mut chunk) = self.rest.try_next().await.map_err(failed("a blob cannot be read"))? else {
                return Ok(None);
            };
            while !chunk.is_empty() {
                self.chunks.push_back(chunk.split_to(chunk.len().min(CHUNK_BYTES)));
            }
        }
        Ok(self.chunks.pop_front())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_record_of_an_upload_yields_its_id() {
        for id in ["2~WDQ6e3wmnKvTDqzcQuaQnNbSYQ3J6Gq", "VXBsb2FkIElE.-_", "a#b%7Ec*[d]?e|f"] {
            let record = Path::from("unfinished").join("org").join("document").join(id);
            let name = record.parts().next_back().unwrap();
            assert_eq!(decode_upload_id(name.as_ref()).unwrap(), id);
        }
    }
}
