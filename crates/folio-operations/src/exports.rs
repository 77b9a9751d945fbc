//! The export of extractions.

use std::collections::HashMap;
use std::fs::File;
use std::io::{Read as _, Seek as _, Write as _};

use bytes::Bytes;
use folio_export::{Record, Spool, TableFormat, io_error, temporary_file};
use folio_history::job::JobHeader;
use folio_jobs::JobControl;
use folio_resources::{CreationPeriod, Document, Extraction, ExtractionFilter};
use folio_storage::Stores;
use folio_tools::extraction;
use folio_types::limits::JOB_PAGE_ITEMS;
use folio_types::page::{Order, PageRequest};
use folio_types::{DocumentId, Error, ExtractionId, JobId, OrgId, Result, Timestamp};
use futures::stream::BoxStream;
use futures::{Stream, StreamExt as _, TryStreamExt as _};
use serde::Serialize;
use serde_json::Value;
use tokio::task::JoinError;
use tokio_util::task::AbortOnDropHandle;
use tracing::Instrument as _;

use crate::context::Context;
use crate::declaration::Declaration;
use crate::documents::Content;
use crate::export_permits::{ExportPermit, check_size};
use crate::extractions::{SERVICE, extraction_filter};
use crate::list::Period;
use crate::operation::Operation;

/// Number of extractions of one read.
const READ_EXTRACTIONS: u32 = 50;
/// Maximum size of a chunk of the file, in bytes.
// proto: DownloadExtractionsResponse.chunk "at most {} KiB"
// proto: ExportDictionaryResponse.chunk "at most {} KiB"
// proto: ExportTableResponse.chunk "at most {} KiB"
const CHUNK_BYTES: usize = 256 * 1024;
/// Maximum number of documents of a request.
// proto: DownloadExtractionsRequest.document_ids "at most {} different ones"
pub const EXPORT_DOCUMENTS_MAX: usize = 100;
/// Maximum number of jobs of a request.
// proto: DownloadExtractionsRequest.job_ids "at most {} different ones"
pub const EXPORT_JOBS_MAX: usize = 10;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum ExportFormat {
    /// An array of objects.
    Json,
    /// An object in each line.
    JsonLines,
    Csv,
    Xlsx,
}

/// Streams the extractions of documents, oldest first, or of jobs as a file.
#[derive(Debug, Clone, Serialize)]
pub struct DownloadExtractions {
    /// Empty: all documents.
    pub document_ids: Vec<DocumentId>,
    /// The jobs whose results are exported, in the order of their items. Excludes the other conditions. Empty: the conditions
    /// select the extractions.
    pub job_ids: Vec<JobId>,
    /// Times of creation. Default: all.
    pub period: Period,
    /// Same fields as the filter of [`ListExtractions`](crate::extractions::ListExtractions).
    pub filter: String,
    pub format: ExportFormat,
    /// If true, the export contains citations, confidences and reviews. Citations are checked again if the document was read
    /// again.
    pub has_citations: bool,
}

impl Operation for DownloadExtractions {
    const DECLARATION: Declaration = SERVICE.read("DownloadExtractions").long();
    type Output = Content;

    async fn run(self, context: &Context) -> Result<Content> {
        let (format, has_citations) = (self.format, self.has_citations);
        let (stores, org) = (context.stores().clone(), context.principal().org.clone());
        let pages = match self.job_ids.is_empty() {
            true => listed(stores.clone(), org.clone(), self.filters(context).await?),
            false => {
                let jobs = self.jobs(context).await?;
                results(stores.clone(), context.jobs().clone(), jobs)
            }
        };
        let records = records(stores, org, pages, has_citations);
        Ok(match format {
            ExportFormat::JsonLines => Content::new(json_lines(records)),
            ExportFormat::Json => Content::new(json_array(records)),
            ExportFormat::Csv => extraction_tables(records, TableFormat::Csv, context.export_permit().await?),
            ExportFormat::Xlsx => extraction_tables(records, TableFormat::Xlsx, context.export_permit().await?),
        })
    }
}

impl DownloadExtractions {
    /// Returns a filter for each document, or one for all documents.
    ///
    /// # Errors
    /// `INVALID_FIELD`; `NOT_FOUND` if a document does not exist.
    async fn filters(self, context: &Context) -> Result<Vec<ExtractionFilter>> {
        let Period { start_time, end_time } = self.period;
        self.period.bounds(|_| Timestamp::MIN, Timestamp::MAX)?;
        let mut filter = extraction_filter(&self.filter)?;
        if start_time.is_some() || end_time.is_some() {
            filter.created = Some(CreationPeriod { start: start_time, end: end_time });
        }
        if self.document_ids.is_empty() {
            return Ok(vec![filter]);
        }
        let of_document = |document| ExtractionFilter { document: Some(document), ..filter.clone() };
        Ok(check_documents(context, self.document_ids).await?.into_iter().map(of_document).collect())
    }

    /// Returns the jobs.
    ///
    /// # Errors
    /// `INVALID_FIELD` if there are other conditions; `NOT_FOUND` if a job does not exist.
    async fn jobs(self, context: &Context) -> Result<Vec<JobHeader>> {
        let has_period = self.period.start_time.is_some() || self.period.end_time.is_some();
        if has_period || !self.document_ids.is_empty() || !self.filter.is_empty() {
            let message =
                "an export of jobs has no other conditions: omit document_ids, filter, start_time and end_time";
            return Err(Error::invalid_field("job_ids", message));
        }
        let mut jobs = Vec::with_capacity(self.job_ids.len());
        for job in &self.job_ids {
            jobs.push(context.jobs().find(&context.principal().org, job).await?);
        }
        Ok(jobs)
    }
}

/// Returns the documents. Error: `NOT_FOUND` if one does not exist.
async fn check_documents(context: &Context, ids: Vec<DocumentId>) -> Result<Vec<DocumentId>> {
    let found = context.stores().of::<Document>().get_many(&context.principal().org, &ids).await?;
    match ids.iter().find(|id| !found.iter().any(|document| document.id == **id)) {
        Some(missing) => Err(Error::not_found("document", missing)),
        None => Ok(ids),
    }
}

type Pages = BoxStream<'static, Result<Vec<Extraction>>>;
/// Pages of the records of an export.
pub(crate) type Records<T = Record> = BoxStream<'static, Result<Vec<T>>>;

/// Reads the extractions that match one of the filters, in pages.
fn listed(stores: Stores, org: OrgId, filters: Vec<ExtractionFilter>) -> Pages {
    async_stream::try_stream! {
        for filter in filters {
            let mut request = PageRequest { size: READ_EXTRACTIONS, order: Order::Oldest, ..PageRequest::default() };
            loop {
                let page = stores.of::<Extraction>().list(&org, &filter, &request).await?;
                yield page.items;
                match page.next {
                    Some(next) => request.token = Some(next),
                    None => break,
                }
            }
        }
    }
    .boxed()
}

/// Reads the extractions that are results of jobs, in pages. A result that was deleted is absent.
fn results(stores: Stores, jobs: JobControl, headers: Vec<JobHeader>) -> Pages {
    async_stream::try_stream! {
        for job in headers {
            let mut before = 0;
            for _ in 0..job.page_count() {
                let outcomes = jobs.outcomes(job.org(), &job.id, before).await?;
                before = before.saturating_add(u32::try_from(JOB_PAGE_ITEMS).unwrap_or(u32::MAX));
                let ids: Vec<ExtractionId> =
                    outcomes.iter().filter_map(|outcome| extraction_of(&outcome.value)).collect::<Result<_>>()?;
                for ids in ids.chunks(READ_EXTRACTIONS as usize) {
                    yield stores.of::<Extraction>().get_many(job.org(), ids).await?;
                }
            }
        }
    }
    .boxed()
}

/// Returns the extraction that is the result of an item. None: the job has other results.
fn extraction_of(outcome: &Value) -> Option<Result<ExtractionId>> {
    outcome.get("extraction_id").and_then(Value::as_str).map(str::parse)
}

/// The names of the documents of a page are one read.
fn records(stores: Stores, org: OrgId, mut pages: Pages, has_citations: bool) -> Records {
    async_stream::try_stream! {
        while let Some(extractions) = pages.try_next().await? {
            let mut ids: Vec<DocumentId> = extractions.iter().map(|extraction| extraction.document.clone()).collect();
            ids.sort();
            ids.dedup();
            let documents = stores.of::<Document>().get_many(&org, &ids).await?;
            let documents: HashMap<DocumentId, Document> =
                documents.into_iter().map(|document| (document.id.clone(), document)).collect();
            let mut records = Vec::with_capacity(extractions.len());
            for mut extraction in extractions {
                let document = documents.get(&extraction.document);
                if let Some(document) = document.filter(|_| has_citations) {
                    extraction = extraction::check_again(&stores, document, extraction).await?;
                }
                let name = document.map(|document| document.name.as_str()).unwrap_or_default();
                records.push(Record::new(&extraction, name, has_citations));
            }
            yield records;
        }
    }
    .boxed()
}

fn to_json(record: &impl Serialize) -> Result<Vec<u8>> {
    serde_json::to_vec(record).map_err(|error| Error::internal(format!("a record is not JSON: {error}")))
}

pub(crate) fn json_lines<T: Serialize + Send + 'static>(records: Records<T>) -> BoxStream<'static, Result<Bytes>> {
    let lines = |records: Vec<T>| {
        let mut text = Vec::new();
        for record in &records {
            text.extend(to_json(record)?);
            text.push(b'\n');
        }
        Ok(Bytes::from(text))
    };
    chunked(records.map(move |records| records.and_then(lines)))
}

/// Divides bytes into chunks.
pub(crate) fn chunked(bytes: impl Stream<Item = Result<Bytes>> + Send + 'static) -> BoxStream<'static, Result<Bytes>> {
    let chunks = |mut bytes: Bytes| {
        let mut chunks = Vec::new();
        while !bytes.is_empty() {
            chunks.push(Ok(bytes.split_to(CHUNK_BYTES.min(bytes.len()))));
        }
        futures::stream::iter(chunks)
    };
    bytes.map_ok(chunks).try_flatten().boxed()
}

pub(crate) fn json_array<T: Serialize + Send + Sync + 'static>(
    mut records: Records<T>,
) -> BoxStream<'static, Result<Bytes>> {
    chunked(async_stream::try_stream! {
        let mut before = "[\n";
        while let Some(page) = records.try_next().await? {
            let mut text = Vec::new();
            for record in &page {
                text.extend_from_slice(std::mem::replace(&mut before, ",\n").as_bytes());
                text.extend(to_json(record)?);
            }
            yield Bytes::from(text);
        }
        yield Bytes::from_static(if before == "[\n" { b"[]\n" } else { b"\n]\n" });
    })
}

fn extraction_tables(records: Records, format: TableFormat, permit: ExportPermit) -> Content {
    tables(records, Spool::new, Spool::add, (format, permit))
}

/// Writes the file before its first chunk, because a table starts with all of its columns. `new` creates the spool, and `add` adds a
/// record to it.
pub(crate) fn tables<T: Send + Sync + 'static>(
    mut records: Records<T>,
    new: impl FnOnce() -> Result<Spool> + Send + 'static,
    add: fn(&mut Spool, &T) -> Result<()>,
    (format, permit): (TableFormat, ExportPermit),
) -> Content {
    download(permit, async move {
        let mut spool = blocking(new).await?;
        while let Some(page) = records.try_next().await? {
            spool = blocking(move || {
                page.iter().try_for_each(|record| add(&mut spool, record))?;
                Ok(spool)
            })
            .await?;
        }
        blocking(move || spool.finish(format)).await
    })
}

/// Writes the file before its first chunk, so that a slow caller keeps no page of records in memory.
pub(crate) fn spooled(mut chunks: BoxStream<'static, Result<Bytes>>, permit: ExportPermit) -> Content {
    download(permit, async move {
        let (mut file, mut size) = (blocking(temporary_file).await?, 0_u64);
        while let Some(chunk) = chunks.try_next().await? {
            size = size.saturating_add(u64::try_from(chunk.len()).unwrap_or(u64::MAX));
            check_size(size)?;
            file = blocking(move || {
                file.write_all(&chunk).map_err(io_error)?;
                Ok(file)
            })
            .await?;
        }
        blocking(move || {
            file.rewind().map_err(io_error)?;
            Ok(file)
        })
        .await
    })
}

/// Returns the content of a file. `write` writes it and returns it with the position at its start. The file is written at once and
/// without regard to the caller's speed, so that the permit ends soon. Dropping the content cancels the work.
fn download(permit: ExportPermit, write: impl Future<Output = Result<File>> + Send + 'static) -> Content {
    let write = async move {
        let file = write.await?;
        let bytes = file.metadata().map_err(io_error)?.len();
        Ok::<_, Error>((file, permit.finish(bytes)?))
    };
    let written = AbortOnDropHandle::new(tokio::spawn(write.in_current_span()));
    Content::new(async_stream::try_stream! {
        let (mut file, _reserved) = written.await.unwrap_or_else(|error| Err(failed(error)))?;
        loop {
            let (rest, chunk) = blocking(move || {
                let mut chunk = Vec::new();
                (&mut file).take(CHUNK_BYTES as u64).read_to_end(&mut chunk).map_err(io_error)?;
                Ok((file, chunk))
            })
            .await?;
            if chunk.is_empty() {
                break;
            }
            file = rest;
            yield Bytes::from(chunk);
        }
    })
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|error| Err(failed(error)))
}

/// Returns the error of a task that panicked or was cancelled.
fn failed(error: JoinError) -> Error {
    Error::internal(format!("the export failed: {error}"))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use folio_testkit::wait_for;

    use super::*;
    use crate::RunningExports;

    async fn permit(exports: &RunningExports, org: &str) -> ExportPermit {
        let org = OrgId::derive(&[org]);
        let deadline = tokio::time::Instant::now() + Duration::from_secs(20);
        exports.begin(&org, exports.written.acquire(&org, 1, deadline).await.unwrap())
    }

    /// Returns an export with a header and no rows.
    async fn table(exports: &RunningExports, org: &str) -> Content {
        let records: Records<u8> = futures::stream::once(async { Ok(vec![0]) }).boxed();
        tables(records, Spool::new, |_, _| Ok(()), (TableFormat::Csv, permit(exports, org).await))
    }

    /// Returns an export of `bytes` bytes.
    async fn json(exports: &RunningExports, org: &str, bytes: usize) -> Content {
        let chunks = chunked(futures::stream::once(async move { Ok(Bytes::from(vec![b'x'; bytes])) }));
        spooled(chunks, permit(exports, org).await)
    }

    #[tokio::test]
    async fn invariant_10_slow_downloads_of_four_organizations_do_not_block_a_fifth() {
        let exports = RunningExports::default();
        let mut slow = Vec::new();
        for org in ["a", "b", "c", "d"] {
            // The caller reads nothing of the first file, and only the first chunk of the second one.
            slow.push(table(&exports, org).await.into_stream());
            let mut file = json(&exports, org, 3 * CHUNK_BYTES).await.into_stream();
            assert_eq!(file.try_next().await.unwrap().map(|chunk| chunk.len()), Some(CHUNK_BYTES));
            slow.push(file);
        }
        wait_for("the files to be complete", Duration::from_secs(20), async || (exports.count() == 0).then_some(()))
            .await;
        let read: Vec<Bytes> = table(&exports, "e").await.into_stream().try_collect().await.unwrap();
        assert_eq!(read.concat(), b"extraction_id\n");
        let read: Vec<Bytes> = json(&exports, "e", CHUNK_BYTES + 1).await.into_stream().try_collect().await.unwrap();
        assert_eq!(read.concat(), vec![b'x'; CHUNK_BYTES + 1]);
    }

    #[tokio::test]
    async fn a_dropped_export_releases_its_permit() {
        let exports = RunningExports::default();
        let content = spooled(futures::stream::pending().boxed(), permit(&exports, "a").await);
        assert_eq!(exports.count(), 1);
        drop(content);
        wait_for("the permit", Duration::from_secs(20), async || (exports.count() == 0).then_some(())).await;
    }
}
