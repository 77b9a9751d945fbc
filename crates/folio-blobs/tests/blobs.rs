//! Blobs in a bucket and in a shared folder.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use folio_blobs::{S3Options, blobs_at};
use folio_storage::{BlobStore, Stores};
use folio_storage_embedded::{EmbeddedStore, Options};
use folio_test_servers::S3;
use folio_types::{BlobId, BlobKey, DocumentId, OrgId, Reason};
use futures::TryStreamExt as _;

const MEBIBYTE: usize = 1024 * 1024;

/// Parses `http://KEY:SECRET@HOST:PORT/BUCKET`.
fn options(url: &str) -> (S3Options, String) {
    let (keys, rest) = url.strip_prefix("http://").unwrap().split_once('@').unwrap();
    let (key, secret) = keys.split_once(':').unwrap();
    let (host, bucket) = rest.split_once('/').unwrap();
    let options = S3Options {
        endpoint: Some(format!("http://{host}")),
        region: Some("us-east-1".to_owned()),
        keys: Some((key.to_owned(), secret.to_owned())),
        part_bytes: 5 * MEBIBYTE,
        idle_timeout: Duration::from_secs(5),
        ..S3Options::default()
    };
    (options, bucket.to_owned())
}

fn bucket(prefix: &str) -> Arc<dyn BlobStore> {
    let (options, bucket) = options(&folio_test_servers::s3().unwrap());
    blobs_at(&format!("s3://{bucket}/{prefix}"), &options).unwrap()
}

/// Runs the suite on these blobs, and on an embedded store for all other data.
async fn passes(blobs: Arc<dyn BlobStore>) {
    let folder = tempfile::tempdir().unwrap();
    let store = EmbeddedStore::open(Options::at(folder.path())).unwrap();
    for nonce in ["first", "second"] {
        let stores = Stores { blobs: Arc::clone(&blobs), ..store.stores() };
        folio_storage_conformance::run("blobs", stores, nonce).await.unwrap();
    }
    store.close().await;
}

#[tokio::test]
async fn bucket_passes_its_suite() {
    passes(bucket(&unique("suite"))).await;
    passes(bucket("")).await;
}

#[tokio::test]
async fn shared_folder_passes_its_suite() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("blobs");
    passes(blobs_at(path.to_str().unwrap(), &S3Options::default()).unwrap()).await;
}

fn unique(name: &str) -> String {
    format!("{name}-{}", std::process::id())
}

fn key(name: &str) -> BlobKey {
    let name = unique(name);
    let (org, document, blob) = (OrgId::derive(&[&name]), DocumentId::derive(&[&name]), BlobId::derive(&[&name]));
    BlobKey { org, document, blob }
}

/// Returns bytes whose values depend on their positions.
fn content(length: usize) -> Bytes {
    (0..length).map(|at| u8::try_from((at / 7 + at / 65_521) % 251).unwrap()).collect()
}

async fn write(blobs: &dyn BlobStore, key: &BlobKey, bytes: &Bytes) {
    let mut writer = blobs.create(key).await.unwrap();
    for at in (0..bytes.len()).step_by(700_000) {
        writer.write(bytes.slice(at..bytes.len().min(at + 700_000))).await.unwrap();
    }
    writer.finish().await.unwrap();
}

async fn read(blobs: &dyn BlobStore, key: &BlobKey) -> Option<Vec<u8>> {
    let mut reader = blobs.open(key).await.unwrap()?;
    let mut all = Vec::new();
    while let Some(chunk) = reader.read().await.unwrap() {
        assert!(chunk.len() <= 256 * 1024);
        all.extend_from_slice(&chunk);
    }
    Some(all)
}

#[tokio::test]
async fn large_blobs_are_sent_in_parts_and_read_back_unchanged() {
    let blobs = bucket(&unique("large"));
    let key = key("large");
    // The first length ends within a part, the second at the end of a part.
    for length in [12 * MEBIBYTE + 17, 10 * MEBIBYTE] {
        let bytes = content(length);
        write(&*blobs, &key, &bytes).await;
        assert!(read(&*blobs, &key).await.unwrap() == bytes, "{length} bytes changed");
    }
}

/// Returns every file below a folder except the lock files of the server.
fn files(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
            if entry.file_name() == ".vgwlocks" {
                continue;
            }
            if entry.file_type().unwrap().is_dir() {
                folders.push(entry.path());
            } else {
                found.push(entry.path().to_string_lossy().into_owned());
            }
        }
    }
    found
}

#[tokio::test]
async fn dropped_upload_leaves_neither_parts_nor_record() {
    let server = S3::start().unwrap();
    let (options, bucket) = options(&server.url());
    let blobs = blobs_at(&format!("s3://{bucket}"), &options).unwrap();
    let key = key("dropped");
    let mut writer = blobs.create(&key).await.unwrap();
    writer.write(content(11 * MEBIBYTE)).await.unwrap();
    assert!(files(server.data()).len() >= 3, "two parts and a record: {:?}", files(server.data()));
    assert_eq!(read(&*blobs, &key).await, None);
    drop(writer);
    let nothing = async || files(server.data()).is_empty().then_some(());
    folio_testkit::wait_for("the parts to be removed", Duration::from_secs(30), nothing).await;
}

#[tokio::test]
async fn scan_aborts_the_uploads_of_dead_processes_a_day_later() {
    let server = S3::start().unwrap();
    let (options, bucket) = options(&server.url());
    let blobs = blobs_at(&format!("s3://{bucket}"), &options).unwrap();
    let key = key("forgotten");
    let mut writer = blobs.create(&key).await.unwrap();
    writer.write(content(6 * MEBIBYTE)).await.unwrap();
    // Simulates a process that was killed.
    std::mem::forget(writer);
    assert!(blobs.scan().try_collect::<Vec<_>>().await.unwrap().is_empty());
    let left = files(server.data());
    assert!(left.len() >= 2, "a part and a record: {left:?}");
    let record = left.iter().find(|file| file.contains("/unfinished/")).unwrap();
    let days_ago = SystemTime::now() - Duration::from_secs(25 * 3600);
    std::fs::File::options().write(true).open(record).unwrap().set_modified(days_ago).unwrap();
    assert!(blobs.scan().try_collect::<Vec<_>>().await.unwrap().is_empty());
    assert_eq!(files(server.data()), Vec::<String>::new());
}

#[tokio::test]
async fn scan_of_a_shared_folder_removes_only_uploads_that_are_a_day_old() {
    let folder = tempfile::tempdir().unwrap();
    let open = || blobs_at(folder.path().to_str().unwrap(), &S3Options::default()).unwrap();
    let (one, other) = (open(), open());
    let key = key("folder");
    // Nothing is written to this upload, because a write could end after the test sets the time of the file.
    std::mem::forget(one.create(&key).await.unwrap());
    let [left] = files(folder.path()).try_into().unwrap();
    let mut writer = one.create(&key).await.unwrap();
    writer.write(Bytes::from_static(b"alive")).await.unwrap();
    let days_ago = SystemTime::now() - Duration::from_secs(25 * 3600);
    std::fs::File::options().write(true).open(left).unwrap().set_modified(days_ago).unwrap();
    assert!(other.scan().try_collect::<Vec<_>>().await.unwrap().is_empty());
    drop(open());
    writer.finish().await.unwrap();
    assert_eq!(read(&*other, &key).await.unwrap(), b"alive");
    assert_eq!(files(folder.path()).len(), 1);
}

#[tokio::test]
async fn unavailable_bucket_is_an_error_and_recovers_without_a_restart() {
    let mut server = S3::start().unwrap();
    let (mut options, bucket) = options(&server.url());
    options.retries = 1;
    let blobs = blobs_at(&format!("s3://{bucket}/deep/prefix"), &options).unwrap();
    let key = key("away");
    write(&*blobs, &key, &content(1_000)).await;
    server.kill();
    let refused = blobs.open(&key).await.err().unwrap();
    assert_eq!(refused.reason, Reason::StoreUnavailable);
    let mut writer = blobs.create(&key).await.unwrap();
    writer.write(content(10)).await.unwrap();
    assert_eq!(writer.finish().await.unwrap_err().reason, Reason::StoreUnavailable);
    assert!(blobs.scan().try_collect::<Vec<_>>().await.is_err());
    server.run().unwrap();
    assert_eq!(read(&*blobs, &key).await.unwrap(), content(1_000));
}

#[tokio::test]
async fn malformed_address_is_refused() {
    for address in ["", "gs://bucket", "s3://bucket/a//b"] {
        let refused = blobs_at(address, &S3Options::default()).err().map(|error| error.reason);
        assert_eq!(refused, Some(Reason::InvalidField), "{address:?}");
    }
}
