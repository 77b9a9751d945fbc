//! [`folio_storage::BlobStore`].

use std::collections::BTreeSet;
use std::time::Duration;

use bytes::Bytes;
use folio_types::{DocumentId, OrgId, Timestamp};
use futures::StreamExt as _;

use super::context::Context;
use super::{Failure, Outcome, check, same};
use folio_storage::StoredBlob;

const PIECE_BYTES: usize = 256 * 1024;
/// How far the store's clock may be from this one.
const CLOCKS_APART: Duration = Duration::from_secs(300);

pub(crate) async fn suite(context: &Context) -> Outcome {
    let (store, org, id) = (&context.stores.blobs, &context.org, context.document_id());
    same!(read(context, org, &id).await?, None, "a blob before it is written");
    store.delete(org, &id).await?;

    let mut writer = store.create(org, &id).await?;
    writer.write(Bytes::from_static(b"hello ")).await?;
    same!(read(context, org, &id).await?, None, "a blob whose writer has not finished");
    writer.write(Bytes::from_static(b"world")).await?;
    same!(read(context, org, &id).await?, None, "a blob whose writer has not finished");
    writer.finish().await?;
    same!(read(context, org, &id).await?, Some(b"hello world".to_vec()), "a blob");
    same!(read(context, &context.other(), &id).await?, None, "a blob of another organization");

    let mut dropped = store.create(org, &id).await?;
    dropped.write(Bytes::from_static(b"never")).await?;
    drop(dropped);
    same!(read(context, org, &id).await?, Some(b"hello world".to_vec()), "a blob after a writer was dropped");

    let large: Vec<u8> = (0..2 * PIECE_BYTES + 17).map(|at| u8::try_from(at % 251).unwrap_or(0)).collect();
    let mut writer = store.create(org, &id).await?;
    for piece in large.chunks(100_000) {
        writer.write(Bytes::copy_from_slice(piece)).await?;
    }
    let mut reader = store.open(org, &id).await?.ok_or_else(|| Failure("a blob is gone".to_owned()))?;
    writer.finish().await?;
    same!(reader.read().await?, Some(Bytes::from_static(b"hello world")), "a blob opened before it was replaced");
    check!(read(context, org, &id).await? == Some(large), "a large blob differs from what was written");

    let empty = context.document_id();
    store.create(org, &empty).await?.finish().await?;
    same!(read(context, org, &empty).await?, Some(Vec::new()), "an empty blob");
    store.delete(org, &id).await?;
    store.delete(org, &id).await?;
    same!(read(context, org, &id).await?, None, "a blob that was removed");
    same!(read(context, org, &empty).await?, Some(Vec::new()), "another blob after one was removed");
    scan(context).await
}

/// Blobs of two organizations, more than a page of any store holds small ones of, and one that is not finished.
async fn scan(context: &Context) -> Outcome {
    let (store, begun) = (&context.stores.blobs, Timestamp::now());
    let orgs = [OrgId::derive(&["scan", &context.fresh().to_string(), context.org.as_str()]), context.other()];
    let mut expected = BTreeSet::new();
    for number in 0..30 {
        for org in &orgs {
            let id = context.document_id();
            let mut writer = store.create(org, &id).await?;
            writer.write(Bytes::from(format!("blob {number}"))).await?;
            writer.finish().await?;
            expected.insert((org.clone(), id));
        }
    }
    let unfinished = store.create(&context.org, &context.document_id()).await?;
    let (found, times) = scanned(context, &orgs).await?;
    check!(found == expected, "the scan finds {} blobs and not these {}", found.len(), expected.len());
    let (from, until) = (begun - CLOCKS_APART, Timestamp::now() + CLOCKS_APART);
    check!(times.iter().all(|at| (from..until).contains(at)), "not the times of writing: {times:?}");
    drop(unfinished);
    for (org, id) in &expected {
        store.delete(org, id).await?;
    }
    same!(scanned(context, &orgs).await?.0, BTreeSet::new(), "blobs that were removed");
    Ok(())
}

type Found = BTreeSet<(OrgId, DocumentId)>;

/// What the scan finds of these organizations.
async fn scanned(context: &Context, orgs: &[OrgId]) -> Result<(Found, Vec<Timestamp>), Failure> {
    let (mut found, mut times) = (Found::new(), Vec::new());
    let mut blobs = context.stores.blobs.scan();
    while let Some(blob) = blobs.next().await {
        let StoredBlob { org, document, modified_at } = blob?;
        if !orgs.contains(&org) {
            continue;
        }
        times.push(modified_at);
        check!(found.insert((org, document.clone())), "the scan finds {document} twice");
    }
    Ok((found, times))
}

async fn read(context: &Context, org: &OrgId, id: &DocumentId) -> Result<Option<Vec<u8>>, Failure> {
    let Some(mut reader) = context.stores.blobs.open(org, id).await? else { return Ok(None) };
    let mut all = Vec::new();
    while let Some(piece) = reader.read().await? {
        check!(!piece.is_empty() && piece.len() <= PIECE_BYTES, "a piece of {} bytes", piece.len());
        all.extend_from_slice(&piece);
    }
    Ok(Some(all))
}
