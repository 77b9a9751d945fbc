//! Conformance suite of [`folio_storage::BlobStore`].

use std::collections::BTreeSet;
use std::time::Duration;

use bytes::Bytes;
use folio_types::{BlobId, BlobKey, OrgId, Timestamp};
use futures::StreamExt as _;

use super::context::{Context, blob_key};
use super::{Failure, Outcome, check, same};
use folio_storage::StoredBlob;

const CHUNK_BYTES: usize = 256 * 1024;
/// Maximum difference between the store's clock and the clock of this process.
const CLOCK_SKEW_MAX: Duration = Duration::from_secs(300);

pub(crate) async fn suite(context: &Context) -> Outcome {
    let (store, id) = (&context.stores.blobs, &blob_key(&context.org, &context.document_id()));
    same!(read(context, id).await?, None, "a blob before it is written");
    store.delete(id).await?;

    let mut writer = store.create(id).await?;
    writer.write(Bytes::from_static(b"hello ")).await?;
    same!(read(context, id).await?, None, "a blob whose writer has not finished");
    writer.write(Bytes::from_static(b"world")).await?;
    same!(read(context, id).await?, None, "a blob whose writer has not finished");
    writer.finish().await?;
    same!(read(context, id).await?, Some(b"hello world".to_vec()), "a blob");
    let of_other = BlobKey { org: context.other(), ..id.clone() };
    same!(read(context, &of_other).await?, None, "a blob of another organization");

    let mut dropped = store.create(id).await?;
    dropped.write(Bytes::from_static(b"never")).await?;
    drop(dropped);
    same!(read(context, id).await?, Some(b"hello world".to_vec()), "a blob after a writer was dropped");

    let large: Vec<u8> = (0..2 * CHUNK_BYTES + 17).map(|at| u8::try_from(at % 251).unwrap_or(0)).collect();
    let mut writer = store.create(id).await?;
    for chunk in large.chunks(100_000) {
        writer.write(Bytes::copy_from_slice(chunk)).await?;
    }
    let mut reader = store.open(id).await?.ok_or_else(|| Failure("a blob is missing".to_owned()))?;
    writer.finish().await?;
    same!(reader.read().await?, Some(Bytes::from_static(b"hello world")), "a blob opened before it was replaced");
    check!(read(context, id).await? == Some(large), "a large blob differs from the written bytes");

    let empty = &blob_key(&context.org, &context.document_id());
    store.create(empty).await?.finish().await?;
    same!(read(context, empty).await?, Some(Vec::new()), "an empty blob");
    store.delete(id).await?;
    store.delete(id).await?;
    same!(read(context, id).await?, None, "a removed blob");
    same!(read(context, empty).await?, Some(Vec::new()), "another blob after one was removed");
    uploads_of_one_document(context).await?;
    scan(context).await
}

/// Writes several blobs of one document. Removing one keeps the others, and removing all keeps those of other documents.
async fn uploads_of_one_document(context: &Context) -> Outcome {
    let (store, first) = (&context.stores.blobs, blob_key(&context.org, &context.document_id()));
    let keys = ["first", "second", "third"].map(|name| BlobKey { blob: BlobId::derive(&[name]), ..first.clone() });
    let [removed, kept, _] = &keys;
    let other = blob_key(&context.org, &context.document_id());
    for key in keys.iter().chain([&other]) {
        let mut writer = store.create(key).await?;
        writer.write(Bytes::from(key.blob.to_string())).await?;
        writer.finish().await?;
    }
    let bytes = |key: &BlobKey| Some(key.blob.to_string().into_bytes());
    store.delete(removed).await?;
    same!(read(context, removed).await?, None, "a removed blob of a document with others");
    same!(read(context, kept).await?, bytes(kept), "a blob after another of its document was removed");
    store.delete_document(&context.org, &first.document).await?;
    store.delete_document(&context.org, &first.document).await?;
    for key in &keys {
        same!(read(context, key).await?, None, "a blob of a document whose blobs were removed");
    }
    same!(read(context, &other).await?, bytes(&other), "a blob of another document");
    Ok(())
}

/// Scans the blobs of two organizations, more than one page of any store, and one unfinished blob.
async fn scan(context: &Context) -> Outcome {
    let (store, started_at) = (&context.stores.blobs, Timestamp::now());
    let orgs = [OrgId::derive(&["scan", &context.fresh().to_string(), context.org.as_str()]), context.other()];
    let mut expected = BTreeSet::new();
    for number in 0..30 {
        for org in &orgs {
            let key = blob_key(org, &context.document_id());
            let mut writer = store.create(&key).await?;
            writer.write(Bytes::from(format!("blob {number}"))).await?;
            writer.finish().await?;
            expected.insert(key);
        }
    }
    let unfinished = store.create(&blob_key(&context.org, &context.document_id())).await?;
    let (found, times) = scanned(context, &orgs).await?;
    check!(found == expected, "the scan finds {} blobs instead of these {}", found.len(), expected.len());
    let (from, until) = (started_at - CLOCK_SKEW_MAX, Timestamp::now() + CLOCK_SKEW_MAX);
    check!(times.iter().all(|at| (from..until).contains(at)), "the times differ from the times of writing: {times:?}");
    drop(unfinished);
    for key in &expected {
        store.delete(key).await?;
    }
    same!(scanned(context, &orgs).await?.0, BTreeSet::new(), "removed blobs");
    Ok(())
}

type Found = BTreeSet<BlobKey>;

/// Returns the blobs of these organizations that the scan finds.
async fn scanned(context: &Context, orgs: &[OrgId]) -> Result<(Found, Vec<Timestamp>), Failure> {
    let (mut found, mut times) = (Found::new(), Vec::new());
    let mut blobs = context.stores.blobs.scan();
    while let Some(blob) = blobs.next().await {
        let StoredBlob { key, modified_at } = blob?;
        if !orgs.contains(&key.org) {
            continue;
        }
        times.push(modified_at);
        check!(found.insert(key.clone()), "the scan finds {key:?} twice");
    }
    Ok((found, times))
}

async fn read(context: &Context, key: &BlobKey) -> Result<Option<Vec<u8>>, Failure> {
    let Some(mut reader) = context.stores.blobs.open(key).await? else { return Ok(None) };
    let mut all = Vec::new();
    while let Some(chunk) = reader.read().await? {
        check!(!chunk.is_empty() && chunk.len() <= CHUNK_BYTES, "a chunk of {} bytes", chunk.len());
        all.extend_from_slice(&chunk);
    }
    Ok(Some(all))
}
