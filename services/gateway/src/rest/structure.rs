//! The routes of the structure of documents, and of parts of PDF files. No client of DocRouter calls them.

use folio_documents::SplitReason;
use folio_operations::ListRequest;
use folio_operations::document_splits::{NamedPart, ProposeSplit, RequestedPart, SplitDocument};
use folio_operations::document_structure::{
    DescribedImage, FoundSection, GetDocumentImage, GetDocumentStructure, GetSection, ImagePage, ListImages, ListLinks,
    OnPage, StructurePages,
};
use folio_resources::{ImageId, Link, LinkTarget, PageArea, Section, SectionId, Table, TextId, fields};
use folio_types::{DocumentId, Error};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::endpoint::{get, post};
use super::extract::{Client, Id, Json, Query};
use super::failure::Failure;
use super::list::{Limit, Skip, page, to_i32};
use super::reply::Reply;
use super::routes::{Level, Route, org_path, route};
use super::streamed::{File, Streamed};

pub(super) fn routes() -> Vec<Route> {
    vec![
        route::<GetDocumentStructure>(Level::Own, get(org_path!("/documents/{document_id}/structure"), structure)),
        route::<GetSection>(Level::Own, get(org_path!("/documents/{document_id}/section"), section)),
        route::<ListLinks>(Level::Own, get(org_path!("/documents/{document_id}/hyperlinks"), hyperlinks)),
        route::<ListImages>(Level::Own, get(org_path!("/documents/{document_id}/images"), images)),
        route::<GetDocumentImage>(Level::Own, get(org_path!("/documents/{document_id}/image"), image)),
        route::<ProposeSplit>(Level::Own, get(org_path!("/documents/{document_id}/split"), propose)),
        route::<SplitDocument>(Level::Own, post(org_path!("/documents/{document_id}/split"), split)),
    ]
}

/// The query parameters of a structure.
#[derive(Debug, Deserialize, ToSchema)]
struct StructureQuery {
    /// The first page. Default: 1.
    from_page: Option<u32>,
    /// Maximum number of pages. Default: as many as fit into about 2 MiB.
    page_count: Option<u32>,
}

/// The query parameters of a section.
#[derive(Debug, Deserialize, ToSchema)]
struct SectionQuery {
    /// The section, or the `rest_id` of an earlier response.
    section_id: String,
    /// Maximum number of tokens, at most 100,000. Default: 2,000.
    max_tokens: Option<u32>,
}

/// The query parameters of a list of links or images.
#[derive(Debug, Deserialize, ToSchema)]
struct ElementQuery {
    /// Number of items before the page.
    #[serde(default)]
    #[schema(value_type = u32)]
    skip: Skip,
    /// Maximum number of items of the page, at most 100.
    #[serde(default)]
    #[schema(value_type = u32, minimum = 1, maximum = 100, default = 10)]
    limit: Limit,
}

/// The query parameter of an image.
#[derive(Debug, Deserialize, ToSchema)]
struct ImageQuery {
    /// The image, from the list of images.
    image_id: String,
}

/// A rectangle on a page, in fractions of its width and height from the upper left corner.
#[derive(Debug, Serialize, ToSchema)]
struct ElementAreaBody {
    left: f64,
    top: f64,
    right: f64,
    bottom: f64,
}

impl From<PageArea> for ElementAreaBody {
    fn from(area: PageArea) -> Self {
        let area = area.fractions();
        Self { left: area.left, top: area.top, right: area.right, bottom: area.bottom }
    }
}

/// A section.
#[derive(Debug, Serialize, ToSchema)]
struct SectionBody {
    /// Identifies the section until the text is extracted again.
    section_id: String,
    /// The section that contains this one. Null: a section of the highest level.
    parent_section_id: Option<String>,
    /// The level of the heading, from 1. 0: the section has no heading.
    level: u8,
    /// The title. Empty: the section has no heading.
    title: String,
    /// The page on which the section begins, from 1.
    first_page: u32,
    /// The page on which the section, with the sections in it, ends.
    last_page: u32,
}

impl SectionBody {
    fn new(text: &TextId, section: &Section, pages: u32) -> Self {
        let id = |number| text.section(number).to_string();
        Self {
            section_id: id(section.number),
            parent_section_id: section.parent.map(id),
            level: section.level,
            title: section.title.clone(),
            first_page: section.start.page,
            last_page: section.last_page(pages),
        }
    }
}

/// A table.
#[derive(Debug, Serialize, ToSchema)]
struct TableBody {
    /// The page, from 1.
    page: u32,
    /// The section that contains the table.
    section_id: Option<String>,
    /// The cells by row. All rows have the same number of cells.
    rows: Vec<Vec<String>>,
    /// The rectangle of the table. Null: the format has no positions.
    area: Option<ElementAreaBody>,
    /// True if rows were dropped.
    is_cut: bool,
}

impl TableBody {
    fn new(pages: &StructurePages, found: &(u32, Table)) -> Self {
        let (page, table) = found;
        Self {
            page: *page,
            section_id: pages.section_of(found).map(|id| id.to_string()),
            rows: table.rows.clone(),
            area: table.area.map(Into::into),
            is_cut: table.is_cut,
        }
    }
}

/// The sections and tables of some pages.
#[derive(Debug, Serialize, ToSchema)]
struct StructureBody {
    /// The sections that begin on the pages, in order.
    sections: Vec<SectionBody>,
    /// The tables on the pages, in order.
    tables: Vec<TableBody>,
    /// Number of pages of the document.
    total_pages: u32,
    /// The page with which the next request continues. Null: no page follows.
    next_page: Option<u32>,
}

/// A part of the text of a page.
#[derive(Debug, Serialize, ToSchema)]
struct SectionPage {
    /// The number of the page, from 1.
    number: u32,
    text: String,
}

/// The text of a section and of the sections in it. If the text exceeds the maximum, its beginning.
#[derive(Debug, Serialize, ToSchema)]
struct SectionTextBody {
    section: SectionBody,
    /// The text by page. Pages without text of the section are left out.
    pages: Vec<SectionPage>,
    /// About the number of tokens of the text.
    tokens: u64,
    /// The id of the rest of the text, for another request. Null: the text is complete.
    rest_id: Option<String>,
}

/// A hyperlink.
#[derive(Debug, Serialize, ToSchema)]
struct HyperlinkBody {
    /// The page, from 1.
    page: u32,
    /// The linked text. Empty: the link has none.
    anchor_text: String,
    /// The target as it is in the document. It is not checked. Null: the target is a page of the document.
    url: Option<String>,
    /// The target in the same document. Null: the target is a URL.
    target_page: Option<u32>,
    /// The rectangle of the link. Null: the format has no positions.
    area: Option<ElementAreaBody>,
}

impl From<OnPage<Link>> for HyperlinkBody {
    fn from(OnPage { page, element }: OnPage<Link>) -> Self {
        let Link { anchor, target, area } = element;
        let (url, target_page) = match target {
            LinkTarget::Url(url) => (Some(url), None),
            LinkTarget::Page(page) => (None, Some(page)),
        };
        Self { page, anchor_text: anchor, url, target_page, area: area.map(Into::into) }
    }
}

/// A page of the hyperlinks of a document.
#[derive(Debug, Serialize, ToSchema)]
struct HyperlinkList {
    /// The links in the order of the pages.
    links: Vec<HyperlinkBody>,
    /// Number of links, exact up to 1,024.
    total_count: u64,
    /// Number of links before the page.
    skip: u32,
}

/// The description of an image by a model.
#[derive(Debug, Serialize, ToSchema)]
struct ImageDescriptionBody {
    caption: String,
    steps: Vec<String>,
    entities: Vec<String>,
    /// The model that wrote the description.
    model: String,
}

/// An image that is embedded in a document.
#[derive(Debug, Serialize, ToSchema)]
struct EmbeddedImageBody {
    /// Identifies the image until the text is extracted again.
    image_id: String,
    /// The page, from 1.
    page: u32,
    /// A line near the image, or its alternative text. Empty: none was found.
    caption: String,
    /// Width in pixels. 0: unknown.
    width: u32,
    /// Height in pixels. 0: unknown.
    height: u32,
    /// The rectangle of the image. Null: the format has no positions.
    area: Option<ElementAreaBody>,
    /// Null: no model has described the image.
    description: Option<ImageDescriptionBody>,
}

impl EmbeddedImageBody {
    fn new(id: &ImageId, found: OnPage<DescribedImage>) -> Self {
        let DescribedImage { image, annotation } = found.element;
        let described = annotation.map(|annotation| ImageDescriptionBody {
            caption: annotation.description.caption,
            steps: annotation.description.steps,
            entities: annotation.description.entities,
            model: annotation.model,
        });
        Self {
            image_id: id.to_string(),
            page: found.page,
            caption: image.caption,
            width: image.width,
            height: image.height,
            area: image.area.map(Into::into),
            description: described,
        }
    }
}

/// A page of the images of a document.
#[derive(Debug, Serialize, ToSchema)]
struct EmbeddedImageList {
    /// The images in the order of the pages.
    images: Vec<EmbeddedImageBody>,
    /// Number of images, exact up to 1,024.
    total_count: u64,
    /// Number of images before the page.
    skip: u32,
}

/// A document that a PDF file seems to contain.
#[derive(Debug, Serialize, ToSchema)]
struct ProposedPartBody {
    /// The first page, from 1.
    first_page: u32,
    last_page: u32,
    /// The name that the document receives by default.
    name: String,
    /// `start`, `numbering_restarts`, `document_number`, `blank_page_before` and `bookmark`: the signals that a document begins.
    reasons: Vec<&'static str>,
}

/// The documents that a PDF file seems to contain.
#[derive(Debug, Serialize, ToSchema)]
struct SplitProposalBody {
    /// One part: the file seems to contain one document.
    parts: Vec<ProposedPartBody>,
}

/// A document of a split.
#[derive(Debug, Deserialize, ToSchema)]
struct SplitPartFields {
    /// The first page, from 1.
    first_page: u32,
    last_page: u32,
    /// The name. Null: the name of the PDF with the pages.
    name: Option<String>,
}

/// The documents of a split: 2 to 200 ascending ranges without a common page. Pages may be left out.
#[derive(Debug, Deserialize, ToSchema)]
struct SplitFields {
    parts: Vec<SplitPartFields>,
}

/// A document that a split created.
#[derive(Debug, Serialize, ToSchema)]
struct SplitDocumentBody {
    /// Identifies the document.
    id: String,
    /// The name.
    document_name: String,
}

/// The documents that a split created, in the order of the parts.
#[derive(Debug, Serialize, ToSchema)]
struct SplitDocumentList {
    documents: Vec<SplitDocumentBody>,
}

async fn structure(
    client: Client,
    Id(document_id): Id<DocumentId>,
    Query(query): Query<StructureQuery>,
) -> Reply<Json<StructureBody>> {
    let (from_page, page_count) = (query.from_page.unwrap_or_default(), query.page_count.unwrap_or_default());
    let pages = client.run(GetDocumentStructure { document_id, from_page, page_count }).await?;
    let total_pages = pages.document.pages;
    Ok(Json(StructureBody {
        sections: pages.sections().map(|section| SectionBody::new(&pages.text, section, total_pages)).collect(),
        tables: pages.tables.iter().map(|found| TableBody::new(&pages, found)).collect(),
        total_pages,
        next_page: pages.next_page(),
    }))
}

async fn section(
    client: Client,
    Id(document_id): Id<DocumentId>,
    Query(query): Query<SectionQuery>,
) -> Reply<Json<SectionTextBody>> {
    let section_id: SectionId = fields::id("section_id", &query.section_id)?;
    is_of_document("section_id", &section_id.text, &document_id)?;
    let operation = GetSection { section_id, max_tokens: query.max_tokens.unwrap_or_default() };
    let FoundSection { document, text, text_id } = client.run(operation).await?;
    Ok(Json(SectionTextBody {
        section: SectionBody::new(&text_id, &text.section, document.pages),
        pages: text.pages.into_iter().map(|page| SectionPage { number: page.number, text: page.text }).collect(),
        tokens: text.tokens,
        rest_id: text.rest.map(|rest| rest.to_string()),
    }))
}

/// Checks that an id in the query names an element of the document in the path.
fn is_of_document(field: &str, text: &TextId, document: &DocumentId) -> Result<(), Failure> {
    if text.document == *document {
        return Ok(());
    }
    Err(Error::invalid_field(field, "is not of the document in the path").into())
}

async fn hyperlinks(
    client: Client,
    Id(document_id): Id<DocumentId>,
    Query(query): Query<ElementQuery>,
) -> Reply<Json<HyperlinkList>> {
    let read = |list| client.run(ListLinks { document_id: document_id.clone(), list });
    let page = page(query.skip, query.limit, ListRequest::default(), read).await?;
    let links = page.rows.into_iter().map(Into::into).collect();
    Ok(Json(HyperlinkList { links, total_count: page.total_count, skip: page.skip }))
}

async fn images(
    client: Client,
    Id(document_id): Id<DocumentId>,
    Query(query): Query<ElementQuery>,
) -> Reply<Json<EmbeddedImageList>> {
    let (page_size, skip) = (to_i32(query.limit.0), to_i32(query.skip.0));
    let list = ListRequest { page_size, skip, ..ListRequest::default() };
    let ImagePage { page, text } = client.run(ListImages { document_id, list }).await?;
    let body = |found: OnPage<DescribedImage>| {
        let id = ImageId { text: text.clone(), page: found.page, number: found.element.image.number };
        EmbeddedImageBody::new(&id, found)
    };
    let images = page.items.into_iter().map(body).collect();
    Ok(Json(EmbeddedImageList { images, total_count: page.total_size, skip: query.skip.0 }))
}

async fn image(
    client: Client,
    Id(document_id): Id<DocumentId>,
    Query(query): Query<ImageQuery>,
) -> Reply<Streamed<File>> {
    let image_id: ImageId = fields::id("image_id", &query.image_id)?;
    is_of_document("image_id", &image_id.text, &document_id)?;
    let content = client.run(GetDocumentImage { image_id }).await?;
    Ok(Streamed::new(&client, "image/png", content.into_stream()))
}

async fn propose(client: Client, Id(document_id): Id<DocumentId>) -> Reply<Json<SplitProposalBody>> {
    let reason = |reason: &SplitReason| match reason {
        SplitReason::Start => "start",
        SplitReason::NumberingRestarts => "numbering_restarts",
        SplitReason::DocumentNumber => "document_number",
        SplitReason::BlankPageBefore => "blank_page_before",
        SplitReason::Bookmark => "bookmark",
    };
    let part = |NamedPart { part, name }: NamedPart| ProposedPartBody {
        first_page: part.pages.first,
        last_page: part.pages.last,
        name,
        reasons: part.reasons.iter().map(reason).collect(),
    };
    let parts = client.run(ProposeSplit { document_id }).await?.into_iter().map(part).collect();
    Ok(Json(SplitProposalBody { parts }))
}

async fn split(
    client: Client,
    Id(document_id): Id<DocumentId>,
    Json(fields): Json<SplitFields>,
) -> Reply<Json<SplitDocumentList>> {
    let part = |SplitPartFields { first_page, last_page, name }: SplitPartFields| RequestedPart {
        first_page,
        last_page,
        name,
    };
    let parts = fields.parts.into_iter().map(part).collect();
    let created = client.run(SplitDocument { document_id, parts }).await?;
    let documents = created
        .into_iter()
        .map(|document| SplitDocumentBody { id: document.id.to_string(), document_name: document.name })
        .collect();
    Ok(Json(SplitDocumentList { documents }))
}
