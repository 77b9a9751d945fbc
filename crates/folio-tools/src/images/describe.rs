//! Describes the images of a document, and returns the stored descriptions as context of its passages.
//!
//! | image | result |
//! |---|---|
//! | has a description of the current text | kept, without a model call |
//! | no model with vision is chosen | skipped: [`SkipReason::NoModel`] |
//! | its file has no bytes for images, or is protected | skipped |
//! | beyond [`IMAGES_PER_RUN`] of this call, or [`IMAGE_ANNOTATIONS_MAX`] of the document | skipped |
//! | cannot be read, or the model refuses it | skipped, and the first failure is returned |
//! | described | stored at once, so that an error later in the run loses no paid description |

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use folio_llm::ModelInfo;
use folio_passages::ImageSummary;
use folio_resources::{
    Document, EmbeddedImage, IMAGE_ANNOTATIONS_MAX, ImageAnnotation, ImageDescription, ImageId, TextId,
};
use folio_storage::Stores;
use folio_types::message::Usage;
use folio_types::{Code, DocumentId, Error, OrgId, Reason, Result, Timestamp, UserId};

use super::model_call::{self, Subject};
use crate::document_text::check_ready;
use crate::tool::ToolResources;

/// Maximum number of images that one call of [`describe_images`] describes.
pub const IMAGES_PER_RUN: u32 = 100;
/// Number of pages whose images are read together.
const PAGES_AT_ONCE: u32 = 32;
/// Maximum length of the text of a page that precedes the caption in the text near an image, in characters.
const PAGE_CHARS: usize = 1_000;

/// The origin of model calls for descriptions.
#[derive(Debug, Clone)]
pub struct DescribeCall {
    pub user: UserId,
    /// The first part of the keys of the model calls in the ledger, followed by the page and the number of the image. Unique for each
    /// attempt: (job, item, epoch, attempt), or (call, epoch).
    pub key: String,
}

/// Reason for which an image has no new description.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SkipReason {
    NoModel,
    /// The file does not contain the image, or its format is not read.
    Format,
    Protected,
    TooMany,
    /// The image cannot be read, or the model refused it.
    Failed,
}

impl fmt::Display for SkipReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoModel => "the organization has no model for descriptions of images",
            Self::Format => "the file does not contain the image in a format that can be read",
            Self::Protected => "the images of a protected file cannot be read",
            Self::TooMany => "the maximum number of descriptions is reached",
            Self::Failed => "the image could not be described",
        })
    }
}

/// The result of [`describe_images`].
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DescribedImages {
    /// Number of images that this call described.
    pub described: u32,
    /// Number of images that had a description of the current text.
    pub known: u32,
    /// Numbers of skipped images by reason.
    pub skipped: BTreeMap<SkipReason, u32>,
    /// The message of the first failure of an image.
    pub failure: Option<String>,
    /// The usage of the model calls with the charged credits.
    pub usage: Usage,
}

impl DescribedImages {
    /// Returns a sentence for each reason for which images were skipped.
    pub fn omissions(&self) -> impl Iterator<Item = String> {
        self.skipped.iter().map(|(reason, count)| format!("images without a description: {count} ({reason})"))
    }

    fn skip(&mut self, reason: SkipReason) {
        let count = self.skipped.entry(reason).or_default();
        *count = count.saturating_add(1);
    }
}

/// Describes the images of a document that have no description of its current text, for the job of an ingestion. A repetition continues after
/// the stored descriptions.
///
/// # Errors
/// `NOT_FOUND`; `NO_TEXT` if the document has no text; `VERSION_CONFLICT` if the text changes meanwhile; a lack of credit, and retriable errors.
pub async fn describe_images(
    resources: &ToolResources,
    org: &OrgId,
    document: &DocumentId,
    call: &DescribeCall,
) -> Result<DescribedImages> {
    let document = find(&resources.stores, org, document).await?;
    let text = text_of(&document)?;
    let store = resources.stores.image_annotations();
    store.remove_earlier(org, &document.id, text, resources.environment.now()).await?;
    let stored = store.list(org, &document.id, text).await?;
    let known: BTreeSet<(u32, u32)> = stored.iter().map(|annotation| (annotation.page, annotation.number)).collect();
    let catalogue = resources.models.catalogue(org).await?;
    let mut run = Run { resources, call, document: &document, text, known, result: DescribedImages::default() };
    let mut next = 1;
    while next <= document.pages {
        let count = PAGES_AT_ONCE.min(document.pages - next + 1);
        for page in resources.stores.texts.elements(org, document.id.as_str(), next, count).await? {
            run.page(catalogue.image_model(), page.number, &page.images).await?;
        }
        next += count;
    }
    Ok(run.result)
}

/// One call of [`describe_images`].
struct Run<'a> {
    resources: &'a ToolResources,
    call: &'a DescribeCall,
    document: &'a Document,
    text: Timestamp,
    /// The images with a description: page and number.
    known: BTreeSet<(u32, u32)>,
    result: DescribedImages,
}

impl Run<'_> {
    async fn page(&mut self, model: Option<&ModelInfo>, page: u32, images: &[EmbeddedImage]) -> Result<()> {
        let mut page_text = None;
        for image in images {
            if self.known.contains(&(page, image.number)) {
                self.result.known = self.result.known.saturating_add(1);
                continue;
            }
            let is_full = self.result.described >= IMAGES_PER_RUN || self.known.len() >= IMAGE_ANNOTATIONS_MAX;
            let model = match model {
                None => Err(SkipReason::NoModel),
                Some(_) if self.document.is_protected => Err(SkipReason::Protected),
                // An attempt to copy each image of a page on the web would delay the ingestion.
                Some(_) if image.width == 0 || image.height == 0 => Err(SkipReason::Format),
                Some(_) if is_full => Err(SkipReason::TooMany),
                Some(model) => Ok(model),
            };
            let model = match model {
                Ok(model) => model,
                Err(reason) => {
                    self.result.skip(reason);
                    continue;
                }
            };
            if page_text.is_none() {
                page_text = Some(self.page_text(page).await?);
            }
            let near = format!("{} {}", image.caption, page_text.as_deref().unwrap_or_default());
            self.image(model, (page, image.number), &near).await?;
        }
        Ok(())
    }

    /// Returns the beginning of the text of a page.
    async fn page_text(&self, page: u32) -> Result<String> {
        let (org, id) = (&self.document.org, self.document.id.as_str());
        let pages = self.resources.stores.texts.text(org, id, page, 1).await?;
        Ok(pages.first().map(|page| page.text.chars().take(PAGE_CHARS).collect()).unwrap_or_default())
    }

    async fn image(&mut self, model: &ModelInfo, position: (u32, u32), near: &str) -> Result<()> {
        let described = describe(self.resources, model, self.call, (self.document, self.text), position, near);
        let (described, usage) = described.await;
        self.result.usage = self.result.usage.plus(usage);
        match described {
            Ok(_) => {
                self.known.insert(position);
                self.result.described = self.result.described.saturating_add(1);
            }
            Err(error) if error.reason == Reason::UnsupportedType => self.result.skip(SkipReason::Format),
            // Another image would fail alike, or the next attempt may succeed.
            Err(error) if ends_run(&error) => return Err(error),
            Err(error) => {
                self.result.skip(SkipReason::Failed);
                self.result.failure.get_or_insert(error.message);
            }
        }
        Ok(())
    }
}

/// Returns true for an error that does not concern a single image.
fn ends_run(error: &Error) -> bool {
    // An answer that is no description may be repeated forever.
    let is_of_image = matches!(error.reason, Reason::ModelFailed | Reason::ModelRefused | Reason::InvalidField);
    let lacks_credit = matches!(error.reason, Reason::CreditExhausted | Reason::BudgetExhausted);
    !is_of_image && (lacks_credit || error.is_retriable() || matches!(error.code, Code::NotFound | Code::Internal))
}

/// Reads an image, describes it, and stores the description. Returns the usage of the model calls also after an error.
pub(super) async fn describe(
    resources: &ToolResources,
    model: &ModelInfo,
    call: &DescribeCall,
    (document, text): (&Document, Timestamp),
    (page, number): (u32, u32),
    neighbor_text: &str,
) -> (Result<ImageAnnotation>, Usage) {
    let mut usage = Usage::default();
    let described = async {
        // Without space each attempt would pay the model.
        resources.stores.rows.check_space().await?;
        let read = resources.images.embedded(document, page, number).await?;
        let subject = Subject { document, page, number, read, neighbor_text };
        let description = model_call::describe(resources, model, (&call.user, &call.key), &subject, &mut usage).await?;
        store(resources, (document, text), (page, number), (description, &model.name)).await
    };
    let described = described.await;
    (described, usage)
}

async fn store(
    resources: &ToolResources,
    (document, text): (&Document, Timestamp),
    (page, number): (u32, u32),
    (description, model): (ImageDescription, &str),
) -> Result<ImageAnnotation> {
    let (stores, at) = (&resources.stores, resources.environment.now());
    let annotation = ImageAnnotation { text_generation: text, page, number, description, model: model.to_owned(), at };
    let (org, id) = (&document.org, &document.id);
    stores.image_annotations().put(org, id, &annotation).await?;
    // The document may have been deleted, or its text extracted again, while the model answered.
    match stores.of::<Document>().get(org, id).await? {
        None => {
            stores.image_annotations().remove_document(org, id).await?;
            Err(Error::not_found("document", id))
        }
        Some(current) if current.text_generation != Some(text) => {
            let newest = current.text_generation.unwrap_or(Timestamp::MAX);
            stores.image_annotations().remove_earlier(org, id, newest, at).await?;
            let message =
                "the text of the document was extracted again while its images were described; repeat the call";
            Err(Error::version_conflict(message))
        }
        Some(_) => Ok(annotation),
    }
}

async fn find(stores: &Stores, org: &OrgId, id: &DocumentId) -> Result<Document> {
    stores.of::<Document>().get(org, id).await?.ok_or_else(|| Error::not_found("document", id))
}

/// Returns the time that identifies the current text of a document.
///
/// # Errors
/// `NO_TEXT`.
pub(super) fn text_of(document: &Document) -> Result<Timestamp> {
    check_ready(document)?;
    document.text_generation.ok_or_else(|| Error::internal("a text that is ready has no generation"))
}

/// Returns the stored descriptions of the images of the current text of a document, as context of its passages. Calls no model. Empty if
/// the document has no text.
pub async fn stored_summaries(stores: &Stores, document: &Document) -> Result<Vec<ImageSummary>> {
    let (Some(text), Some(generation)) = (TextId::of(document), document.text_generation) else {
        return Ok(Vec::new());
    };
    let annotations = stores.image_annotations().list(&document.org, &document.id, generation).await?;
    Ok(image_summaries(&text, &annotations))
}

/// Returns descriptions as context of passages. The chunks of the page of an image receive `Image Summary: …`, and the id, the page and the
/// file name as metadata.
fn image_summaries(text: &TextId, annotations: &[ImageAnnotation]) -> Vec<ImageSummary> {
    let summary = |annotation: &ImageAnnotation| {
        let id = ImageId { text: text.clone(), page: annotation.page, number: annotation.number };
        ImageSummary {
            image_id: id.to_string(),
            page: annotation.page,
            section_id: None,
            summary: annotation.description.summary(),
            file_name: None,
        }
    };
    annotations.iter().map(summary).collect()
}
