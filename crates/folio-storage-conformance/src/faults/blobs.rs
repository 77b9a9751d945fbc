//! Faults of [`BlobStore`].

use std::sync::Arc;

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use folio_storage::{BlobStore, BlobWriter, StoredBlob};
use folio_types::{BlobKey, Result, Timestamp};
use futures::TryStreamExt as _;
use futures::stream::{BoxStream, StreamExt as _};

use crate::layer::BlobLayer;

#[derive(Default)]
pub(super) struct BlobVisibleBeforeFinish;

#[async_trait]
impl BlobLayer for BlobVisibleBeforeFinish {
    async fn create(&self, below: &Arc<dyn BlobStore>, key: &BlobKey) -> Result<Box<dyn BlobWriter>> {
        let (below, key) = (Arc::clone(below), key.clone());
        Ok(Box::new(WriteThrough { below, key, written: BytesMut::new() }))
    }
}

/// Stores the whole blob again with each chunk.
struct WriteThrough {
    below: Arc<dyn BlobStore>,
    key: BlobKey,
    written: BytesMut,
}

impl WriteThrough {
    async fn store(&self) -> Result<()> {
        let mut writer = self.below.create(&self.key).await?;
        writer.write(Bytes::copy_from_slice(&self.written)).await?;
        writer.finish().await
    }
}

#[async_trait]
impl BlobWriter for WriteThrough {
    async fn write(&mut self, chunk: Bytes) -> Result<()> {
        self.written.extend_from_slice(&chunk);
        self.store().await
    }

    async fn finish(self: Box<Self>) -> Result<()> {
        self.store().await
    }
}

#[derive(Default)]
pub(super) struct BlobTimeUnknown;

#[async_trait]
impl BlobLayer for BlobTimeUnknown {
    fn scan(&self, below: &dyn BlobStore) -> BoxStream<'static, Result<StoredBlob>> {
        below.scan().map_ok(|blob| StoredBlob { modified_at: Timestamp::UNIX_EPOCH, ..blob }).boxed()
    }
}
