//! [`crate::BlobStore`].

use bytes::Bytes;
use folio_types::{DocumentId, OrgId};

use super::context::Context;
use super::{Failure, Outcome, check, same};

const PIECE_BYTES: usize = 256 * 1024;

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
    Ok(())
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
