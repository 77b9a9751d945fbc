//! Parts of a PDF with several documents: the split that a request makes, and the bookmarks for a proposal.
//!
//! The child process writes the parts. Each part is a document under an id that is derived from the request, so that a repeated
//! request returns the same documents, and completes a split that a crash interrupted. The split document is unchanged.

use folio_resources::fields::check_name;
use folio_resources::{Document, DocumentPart, PageRange, PartBudget, TextState};
use folio_types::{DocumentId, Error, Principal, Reason, RequestId, Result, limits};

use crate::ingest::attempts::{SCRATCH_PREFIX, copy, disk};
use crate::isolate::{ChildError, ChildProcesses, Files};
use crate::part_upload::{NewPart, PartOutcome};
use crate::reader::task;
use crate::sniff::{Route, route};
use crate::unpacked::{Entry, Unpacked};
use crate::upload::Uploader;
use crate::worker::unpack::UnpackLimits;
use crate::worker::{Job, Line};

/// Maximum size of the output with bookmarks, in bytes.
const BOOKMARKS_BYTES: u64 = 2 * 1024 * 1024;

/// A part of a split, as a request names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SplitPart {
    pub pages: PageRange,
    /// Name of the document. None: the name of the split document with the pages.
    pub name: Option<String>,
}

/// A bookmark of the first level of a PDF.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageBookmark {
    pub page: u32,
    pub title: String,
}

impl Uploader {
    /// Splits a PDF into documents, in the order of `parts`. A repeated request returns the same documents.
    ///
    /// # Errors
    /// `INVALID_FIELD` if the parts are not ascending ranges of the pages; `UNSUPPORTED_TYPE` if the document is no PDF, or cannot be
    /// split; `NO_TEXT` if its text is not extracted yet; `QUOTA_EXCEEDED`; `REQUEST_ID_CONFLICT` if the request id was used for other
    /// parts; `NOT_FOUND` if the document, or the parts of the request, were deleted.
    pub async fn split(
        &self,
        principal: &Principal,
        request: &RequestId,
        document: &Document,
        parts: &[SplitPart],
    ) -> Result<Vec<Document>> {
        check_split_parts(parts)?;
        check_document(document, parts)?;
        let new: Vec<DocumentId> =
            (1..=parts.len()).map(|number| part_id(principal, request, document, number)).collect();
        if let Some(first) = new.first()
            && let Some(found) = self.stores().of::<Document>().get(&document.org, first).await?
            && let Some(complete) = self.repeated(found, &new, parts).await?
        {
            return Ok(complete);
        }
        let bounds = UnpackLimits {
            parts: u32::try_from(parts.len()).unwrap_or(u32::MAX),
            bytes: limits::PARTS_BYTES,
            part_bytes: self.max_bytes(),
        };
        let ranges = parts.iter().map(|part| (part.pages.first, part.pages.last)).collect();
        let job = Job::Split { ranges, limits: bounds };
        // The permit precedes the copy, so that waiting requests use no disk.
        let permit = self.reader_permit(&document.org).await?;
        let (folder, file) = self.local_copy(document).await?;
        let unpacked = self.reader().unpack(job, bounds, &file, folder.path()).await?;
        // Storing the parts needs no child process.
        drop(permit);
        let Unpacked { file: written, entries, rest } = unpacked;
        let spans: Vec<_> = entries.into_iter().filter_map(|Entry { content, .. }| content.ok()).collect();
        if let Some(reason) = rest.or_else(|| (spans.len() != parts.len()).then(|| "pages are missing".to_owned())) {
            return Err(Error::precondition(Reason::UnsupportedType, format!("the PDF cannot be split: {reason}")));
        }
        let depth = document.part.as_ref().map_or(0, |part| part.depth);
        let mut created = Vec::with_capacity(parts.len());
        for (((number, id), span), part) in (1..).zip(new).zip(spans).zip(parts) {
            let new = NewPart {
                id: id.clone(),
                by: principal.user.clone(),
                name: part.name.clone().unwrap_or_else(|| default_name(&document.name, part.pages)),
                span,
                part: DocumentPart {
                    parent: document.id.clone(),
                    position: number,
                    path: String::new(),
                    pages: Some(part.pages),
                    depth,
                    budget: PartBudget::default(),
                },
            };
            created.push(match self.store_part(document, new, &written).await? {
                PartOutcome::Created(document) => *document,
                PartOutcome::Existing => self.existing(document, &id, part.pages).await?,
                PartOutcome::Refused(error) => return Err(error),
                PartOutcome::ParentDeleted => return Err(Error::not_found("document", &document.id)),
            });
        }
        Ok(created)
    }

    /// Returns the documents of an earlier request with the same id. None: the split is incomplete.
    async fn repeated(
        &self,
        first: Document,
        ids: &[DocumentId],
        parts: &[SplitPart],
    ) -> Result<Option<Vec<Document>>> {
        let documents = self.stores().of::<Document>();
        let mut found = Vec::with_capacity(ids.len());
        for (id, part) in ids.iter().zip(parts) {
            let Some(document) = documents.get(&first.org, id).await? else { return Ok(None) };
            check_pages(&document, part.pages)?;
            found.push(document);
        }
        Ok(Some(found))
    }

    async fn existing(&self, parent: &Document, id: &DocumentId, pages: PageRange) -> Result<Document> {
        let found = self.stores().of::<Document>().get(&parent.org, id).await?;
        let document = found.ok_or_else(|| Error::not_found("document of this request_id", id))?;
        check_pages(&document, pages)?;
        Ok(document)
    }

    /// Reads the bookmarks of a PDF. Empty: the file has none, is no PDF, or cannot be read.
    ///
    /// # Errors
    /// The child process cannot be started, or the store or the disk fails.
    pub async fn bookmarks(&self, document: &Document) -> Result<Vec<PageBookmark>> {
        if route(&document.media_type) != Route::Pdf || document.is_protected {
            return Ok(Vec::new());
        }
        let _permit = self.reader_permit(&document.org).await?;
        let (folder, file) = self.local_copy(document).await?;
        let options = self.reader().options();
        let children = ChildProcesses::new(options.worker.clone(), folder.path().to_owned());
        let files = Files { input: Some(&file), ..Files::default() };
        let output =
            children.run(&task(options, Job::Bookmarks), files, options.child_timeout(), BOOKMARKS_BYTES).await;
        let output = match output {
            Ok(output) => output,
            Err(error @ ChildError::Start(_)) => {
                return Err(Error::unavailable(Reason::Overloaded, error.to_string()));
            }
            Err(_) => return Ok(Vec::new()),
        };
        let line = output.split(|byte| *byte == b'\n').next().unwrap_or_default();
        let Ok(Line::FirstLevelBookmarks(found)) = serde_json::from_slice(line) else { return Ok(Vec::new()) };
        Ok(found.into_iter().map(|found| PageBookmark { page: found.page, title: found.title }).collect())
    }

    /// Copies the file of a document to a temporary folder.
    async fn local_copy(&self, document: &Document) -> Result<(tempfile::TempDir, std::path::PathBuf)> {
        let blob = self.stores().blobs.open(&document.blob_key()).await?;
        let blob = blob.ok_or_else(|| Error::not_found("document", &document.id))?;
        let scratch = self.reader().scratch();
        tokio::fs::create_dir_all(&scratch).await.map_err(disk)?;
        let folder = tempfile::Builder::new().prefix(SCRATCH_PREFIX).tempdir_in(scratch).map_err(disk)?;
        let file = folder.path().join("document");
        copy(blob, &file).await?;
        Ok((folder, file))
    }
}

/// Returns the id of a part. The user and the request are a part of it, as in the id of an uploaded document.
fn part_id(principal: &Principal, request: &RequestId, document: &Document, number: usize) -> DocumentId {
    let (org, user) = (principal.org.as_str(), principal.user.as_str());
    DocumentId::derive(&["split", org, user, request.as_str(), document.id.as_str(), &number.to_string()])
}

fn check_pages(document: &Document, pages: PageRange) -> Result<()> {
    if document.part.as_ref().and_then(|part| part.pages) == Some(pages) {
        return Ok(());
    }
    Err(Error::request_id_conflict())
}

/// Checks that the parts are 2 to [`limits::SPLIT_PARTS_MAX`] ascending ranges without a common page. Pages may be left out.
///
/// # Errors
/// `INVALID_FIELD` of `parts`.
pub fn check_split_parts(parts: &[SplitPart]) -> Result<()> {
    if !(2..=limits::SPLIT_PARTS_MAX).contains(&parts.len()) {
        let problem = format!("has {} elements, expected 2 to {}", parts.len(), limits::SPLIT_PARTS_MAX);
        return Err(Error::invalid_field("parts", problem));
    }
    let mut previous = 0;
    for (at, part) in parts.iter().enumerate() {
        let PageRange { first, last } = part.pages;
        if first <= previous || last < first {
            let problem = format!("invalid pages {first} to {last}: expected an ascending range after page {previous}");
            return Err(Error::invalid_field(format!("parts[{at}]"), problem));
        }
        part.name.as_ref().map_or(Ok(()), |name| check_name(&format!("parts[{at}].name"), name))?;
        previous = last;
    }
    Ok(())
}

/// Checks that a document is a PDF with the pages of the parts.
fn check_document(document: &Document, parts: &[SplitPart]) -> Result<()> {
    if route(&document.media_type) != Route::Pdf {
        let message = format!("only a PDF can be split, the file is {}", document.media_type);
        return Err(Error::precondition(Reason::UnsupportedType, message));
    }
    if document.is_protected {
        let message = "the PDF cannot be split: it is protected by a password, which is not stored";
        return Err(Error::precondition(Reason::UnsupportedType, message));
    }
    if !document.state.is_settled() {
        let message = "the text of the document is not extracted yet; its pages are unknown";
        return Err(Error::precondition(Reason::NoText, message));
    }
    // The pages of a document without text are not counted; the child process checks them.
    if document.state == TextState::Ready
        && let Some(at) = parts.iter().position(|part| part.pages.last > document.pages)
    {
        let problem = format!("must be at most {}, the number of pages of the document", document.pages);
        return Err(Error::invalid_field(format!("parts[{at}].last_page"), problem));
    }
    Ok(())
}

/// Returns the name of a part without a name: the name of the split document with the pages before the extension.
pub fn default_name(name: &str, PageRange { first, last }: PageRange) -> String {
    let stem = match name.rsplit_once('.') {
        Some((stem, extension)) if extension.eq_ignore_ascii_case("pdf") && !stem.is_empty() => stem,
        _ => name,
    };
    let end = if first == last { format!(" p. {first}.pdf") } else { format!(" p. {first}-{last}.pdf") };
    let stem: String = stem.chars().take(limits::NAME_CHARS - end.chars().count()).collect();
    format!("{}{end}", stem.trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_without_a_name_has_the_name_of_the_document_and_its_pages() {
        let pages = |first, last| PageRange { first, last };
        assert_eq!(default_name("scan.PDF", pages(2, 4)), "scan p. 2-4.pdf");
        assert_eq!(default_name("scan", pages(3, 3)), "scan p. 3.pdf");
        assert_eq!(default_name(".pdf", pages(1, 1)), ".pdf p. 1.pdf");
        let long = default_name(&"x".repeat(limits::NAME_CHARS), pages(10, 200));
        assert!(long.ends_with(" p. 10-200.pdf") && long.chars().count() == limits::NAME_CHARS, "{long}");
    }
}
