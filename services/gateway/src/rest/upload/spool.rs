//! Temporary files without a name: the operating system removes them with their last reader.

use std::fs::File;
use std::io::Seek as _;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use folio_operations::documents::Content;
use folio_permits::{Amount, Permit, Permits, RefusalReason};
use folio_proto::status;
use folio_types::{Error, OrgId, Reason, Result};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::options::Options;

/// Size of a chunk that is read from a temporary file.
const CHUNK_BYTES: usize = 64 * 1024;

/// The permits of bytes on disk, in total and per organization. Clones share the permits.
#[derive(Debug, Clone)]
pub(crate) struct Spools(Permits<OrgId>);

impl Spools {
    pub(crate) fn new(options: &Options) -> Self {
        let amount = |bytes| Amount { permits: usize::MAX, bytes };
        let per_organization = amount(options.upload_spool_bytes_per_organization);
        Self(Permits::without_queue(amount(options.upload_spool_bytes), per_organization))
    }

    /// Reserves bytes on disk until the permit and its clones are dropped. Error: `OVERLOADED`.
    pub(super) fn reserve(&self, org: &OrgId, bytes: u64) -> Result<SpoolPermit> {
        let permit = self.0.try_acquire(org, bytes).map_err(|reason| {
            let whose = if reason == RefusalReason::KeyBound { "the organization" } else { "the server" };
            let message = format!("{whose} has too many bytes in uploads; try again later");
            Error::exhausted(Reason::Overloaded, message).retry_after(status::RETRY_SOON)
        })?;
        Ok(Arc::new(permit))
    }
}

pub(super) type SpoolPermit = Arc<Permit<OrgId>>;

/// A temporary file that is written once and read once.
#[derive(Debug)]
pub(super) struct SpooledFile {
    file: File,
    size_bytes: u64,
    _permit: SpoolPermit,
}

impl SpooledFile {
    /// Wraps a written file. Blocks.
    pub(super) fn of(mut file: File, permit: SpoolPermit) -> Result<Self> {
        let size_bytes = file.stream_position().and_then(|size| file.rewind().map(|()| size)).map_err(io_error)?;
        Ok(Self { file, size_bytes, _permit: permit })
    }

    pub(super) fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    /// Returns the file at its start.
    pub(super) fn into_file(self) -> (File, SpoolPermit) {
        (self.file, self._permit)
    }

    pub(super) fn into_content(self) -> Content {
        let (file, permit) = self.into_file();
        let read = |(mut file, permit): (tokio::fs::File, SpoolPermit)| async move {
            let mut chunk = BytesMut::with_capacity(CHUNK_BYTES);
            let count = file.read_buf(&mut chunk).await.map_err(io_error)?;
            Ok::<_, Error>((count > 0).then(|| (chunk.freeze(), (file, permit))))
        };
        Content::new(futures::stream::try_unfold((tokio::fs::File::from_std(file), permit), read))
    }
}

/// Creates a temporary file. Blocks.
pub(super) fn create() -> Result<File> {
    tempfile::tempfile().map_err(io_error)
}

/// A temporary file that receives chunks.
pub(super) struct SpoolWriter {
    file: tokio::fs::File,
    permit: SpoolPermit,
}

impl SpoolWriter {
    pub(super) async fn create(permit: SpoolPermit) -> Result<Self> {
        let file = tokio::task::spawn_blocking(create).await;
        let file = file.map_err(|_| Error::internal("the creation of a temporary file was cancelled"))??;
        Ok(Self { file: tokio::fs::File::from_std(file), permit })
    }

    pub(super) async fn write(&mut self, chunk: &Bytes) -> Result<()> {
        self.file.write_all(chunk).await.map_err(io_error)
    }

    pub(super) async fn finish(mut self) -> Result<SpooledFile> {
        self.file.flush().await.map_err(io_error)?;
        let file = self.file.into_std().await;
        SpooledFile::of(file, self.permit)
    }
}

/// Returns the error of a failed access to the temporary folder.
pub(super) fn io_error(error: std::io::Error) -> Error {
    Error::internal(format!("a temporary file of an upload failed: {error}"))
}

#[cfg(test)]
mod tests {
    use futures::TryStreamExt as _;

    use super::*;

    #[tokio::test]
    async fn a_file_is_read_as_it_was_written_and_its_bytes_are_reserved_until_then() {
        let options =
            Options { upload_spool_bytes: 300, upload_spool_bytes_per_organization: 200, ..Options::default() };
        let (spools, one, other) = (Spools::new(&options), OrgId::derive(&["a"]), OrgId::derive(&["b"]));
        let mut writer = SpoolWriter::create(spools.reserve(&one, 150).unwrap()).await.unwrap();
        assert!(spools.reserve(&one, 51).unwrap_err().message.contains("organization"));
        assert!(spools.reserve(&other, 151).unwrap_err().message.contains("server"));
        let parts = [vec![1; 100_000], vec![2; 50_000]].map(Bytes::from);
        for part in &parts {
            writer.write(part).await.unwrap();
        }
        let file = writer.finish().await.unwrap();
        assert_eq!(file.size_bytes(), 150_000);
        let content: Vec<Bytes> = file.into_content().into_stream().try_collect().await.unwrap();
        assert!(content.iter().all(|chunk| chunk.len() <= CHUNK_BYTES));
        assert_eq!(content.concat(), parts.concat());
        spools.reserve(&one, 200).unwrap();
    }
}
