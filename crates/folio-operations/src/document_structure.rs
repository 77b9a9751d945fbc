//! Operations on the structure of documents: sections, tables, links and embedded images.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use folio_resources::{
    Document, EmbeddedImage, ImageAnnotation, ImageId, Link, Outline, Rendition, Section, SectionId, Table, TextId,
    TextPosition,
};
use folio_storage::value::PageElements;
use folio_tools::extraction::check_ready;
use folio_tools::sections::{self, SECTION_TOKENS_DEFAULT, SECTION_TOKENS_MAX, SectionBounds, SectionText};
use folio_types::page::Order;
use folio_types::{DocumentId, Error, Result, limits};
use serde::Serialize;

use crate::context::Context;
use crate::declaration::Declaration;
use crate::documents::{Content, SERVICE, TEXT_BYTES, rendition};
use crate::filter;
use crate::list::{ListPage, ListRequest, Listing, ScanRead, SortKeys, bad_token, json_bytes};
use crate::operation::Operation;

/// Number of pages whose elements are read together.
// proto: none "internal; a page has a bounded number of elements"
const PAGES_AT_ONCE: u32 = 32;
/// Maximum number of elements that one read of a list returns.
// proto: none "internal; larger than any page size"
const READ_MAX: usize = 2 * limits::PAGE_SIZE_MAX as usize;

/// Returns the sections of a document, and the tables of some pages. A response ends at about 2 MiB.
#[derive(Debug, Clone, Serialize)]
pub struct GetDocumentStructure {
    pub document_id: DocumentId,
    /// The first page. 0 and 1: the first page of the document.
    pub from_page: u32,
    /// The maximum number of pages. 0: as many as fit.
    pub page_count: u32,
}

#[derive(Debug, Clone)]
pub struct StructurePages {
    pub text: TextId,
    pub document: Document,
    pub outline: Arc<Outline>,
    /// The sections that begin on the pages are those of the outline from `first_page` to before `end_page`.
    pub first_page: u32,
    pub end_page: u32,
    /// The tables with the numbers of their pages, in order.
    pub tables: Vec<(u32, Table)>,
}

impl StructurePages {
    /// Returns the sections that begin on the pages.
    pub fn sections(&self) -> impl Iterator<Item = &Section> {
        let pages = self.first_page..self.end_page;
        self.outline.sections().iter().filter(move |section| pages.contains(&section.start.page))
    }

    /// Returns the id of the section that contains a table.
    pub fn section_of(&self, (page, table): &(u32, Table)) -> Option<SectionId> {
        let position = TextPosition { page: *page, word: table.word };
        self.outline.section_at(position).map(|section| self.text.section(section.number))
    }

    /// Returns the number of the first page after the pages. None: no page follows.
    pub fn next_page(&self) -> Option<u32> {
        Some(self.end_page).filter(|next| *next <= self.document.pages && self.first_page <= self.document.pages)
    }
}

impl Operation for GetDocumentStructure {
    const DECLARATION: Declaration = SERVICE.read("GetDocumentStructure");
    type Output = StructurePages;

    async fn run(self, context: &Context) -> Result<StructurePages> {
        let document: Document = context.find(&self.document_id).await?;
        let (text, outline) = context.outlines().outline(context.stores(), &document).await?;
        let first_page = self.from_page.max(1);
        let count = if self.page_count == 0 { u32::MAX } else { self.page_count };
        let after = first_page.saturating_add(count).min(document.pages.saturating_add(1));
        let mut bytes: usize = outline
            .sections()
            .iter()
            .filter(|section| (first_page..after).contains(&section.start.page))
            .map(|section| section.title.len())
            .sum();
        let (mut tables, mut end_page) = (Vec::new(), first_page);
        while end_page < after && bytes < TEXT_BYTES {
            let count = PAGES_AT_ONCE.min(after - end_page);
            let pages = context.stores().texts.elements(&document.org, document.id.as_str(), end_page, count).await?;
            let mut next = end_page + count;
            for PageElements { number, tables: found, .. } in pages {
                let size: usize = found.iter().map(json_bytes).sum();
                if bytes.saturating_add(size) > TEXT_BYTES && number > first_page {
                    (next, bytes) = (number, TEXT_BYTES);
                    break;
                }
                bytes = bytes.saturating_add(size);
                tables.extend(found.into_iter().map(|table| (number, table)));
            }
            end_page = next;
        }
        Ok(StructurePages { text, document, outline, first_page, end_page, tables })
    }
}

/// Returns the text of a section and of the sections in it. If the text exceeds the maximum, returns its beginning.
#[derive(Debug, Clone, Serialize)]
pub struct GetSection {
    #[serde(serialize_with = "as_text")]
    pub section_id: SectionId,
    /// The maximum number of tokens. 0: 2,000.
    pub max_tokens: u32,
}

fn as_text<T: fmt::Display, S: serde::Serializer>(id: &T, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(id)
}

#[derive(Debug, Clone)]
pub struct FoundSection {
    pub document: Document,
    pub text: SectionText,
    pub text_id: TextId,
}

impl Operation for GetSection {
    const DECLARATION: Declaration = SERVICE.read("GetSection");
    type Output = FoundSection;

    async fn run(self, context: &Context) -> Result<FoundSection> {
        let tokens = if self.max_tokens == 0 { SECTION_TOKENS_DEFAULT } else { self.max_tokens };
        if tokens > SECTION_TOKENS_MAX {
            return Err(Error::invalid_field("max_tokens", format!("must be at most {SECTION_TOKENS_MAX}")));
        }
        let document: Document = context.find(&self.section_id.text.document).await?;
        let bounds = SectionBounds { tokens: u64::from(tokens), bytes: TEXT_BYTES };
        let id = &self.section_id;
        let text = sections::read_section(context.stores(), context.outlines(), &document, id, bounds).await?;
        Ok(FoundSection { document, text, text_id: self.section_id.text })
    }
}

/// The position of an element in a text of a document: the page, and the number of the element on it from 0.
#[derive(Debug, Clone, PartialEq, Eq)]
struct ElementPosition {
    text: TextId,
    page: u32,
    number: u32,
}

impl fmt::Display for ElementPosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.page, self.number, self.text)
    }
}

impl FromStr for ElementPosition {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (page, rest) = text.split_once('.').ok_or(())?;
        let (number, text) = rest.split_once('.').ok_or(())?;
        let [page, number] = [page, number].map(|part| part.parse().map_err(drop));
        Ok(Self { text: text.parse().map_err(drop)?, page: page?, number: number? })
    }
}

/// An element with the number of its page.
#[derive(Debug, Clone, Serialize)]
pub struct OnPage<T> {
    pub page: u32,
    pub element: T,
}

/// Lists elements of the pages of a document in the order of the pages. The page tokens belong to the text of the document.
async fn list_elements<T: Serialize + Clone + Send + Sync>(
    context: &Context,
    name: &str,
    document_id: &DocumentId,
    request: &ListRequest,
    of_page: fn(PageElements) -> Vec<T>,
) -> Result<((Document, TextId), ListPage<OnPage<T>>)> {
    filter::require_empty(&request.filter)?;
    let scope = [name, context.principal().org.as_str(), document_id.as_str()];
    let listing = Listing::new(request, &scope, SortKeys::Ascending("page"), Order::Oldest, limits::PAGE_SIZE_MAX)?;
    let (document, text) = ready(context, document_id).await?;
    let read = async |ScanRead { after, limit, .. }: ScanRead<ElementPosition>| {
        // A page of another text would repeat or omit elements.
        if after.as_ref().is_some_and(|after| after.text != text) {
            return Err(bad_token());
        }
        let (mut found, mut next) = (Vec::new(), after.as_ref().map_or(1, |after| after.page));
        while next <= document.pages && found.len() < limit {
            let count = PAGES_AT_ONCE.min(document.pages - next + 1);
            let pages = context.stores().texts.elements(&document.org, document.id.as_str(), next, count).await?;
            for page in pages {
                let number_of_page = page.number;
                for (number, element) in (0..).zip(of_page(page)) {
                    let is_new =
                        after.as_ref().is_none_or(|after| (number_of_page, number) > (after.page, after.number));
                    if is_new && found.len() < limit {
                        let position = ElementPosition { text: text.clone(), page: number_of_page, number };
                        found.push((position, Some(OnPage { page: number_of_page, element })));
                    }
                }
            }
            next += count;
        }
        Ok(found)
    };
    let page = listing.scan(READ_MAX, None, read).await?;
    Ok(((document, text), page))
}

/// Lists the hyperlinks of a document.
#[derive(Debug, Clone, Serialize)]
pub struct ListLinks {
    pub document_id: DocumentId,
    pub list: ListRequest,
}

impl Operation for ListLinks {
    const DECLARATION: Declaration = SERVICE.read("ListLinks");
    type Output = ListPage<OnPage<Link>>;

    async fn run(self, context: &Context) -> Result<Self::Output> {
        Ok(list_elements(context, "links", &self.document_id, &self.list, |page| page.links).await?.1)
    }
}

/// Lists the images that are embedded in a document.
#[derive(Debug, Clone, Serialize)]
pub struct ListImages {
    pub document_id: DocumentId,
    pub list: ListRequest,
}

/// The images of a page of the list.
#[derive(Debug, Clone)]
pub struct ImagePage {
    pub page: ListPage<OnPage<DescribedImage>>,
    pub text: TextId,
}

/// An image with its description by a model.
#[derive(Debug, Clone, Serialize)]
pub struct DescribedImage {
    pub image: EmbeddedImage,
    /// None: no model has described the image.
    pub annotation: Option<ImageAnnotation>,
}

impl ImagePage {
    /// Returns the id of an image of the page.
    pub fn id(&self, image: &OnPage<DescribedImage>) -> ImageId {
        ImageId { text: self.text.clone(), page: image.page, number: image.element.image.number }
    }
}

impl Operation for ListImages {
    const DECLARATION: Declaration = SERVICE.read("ListImages");
    type Output = ImagePage;

    async fn run(self, context: &Context) -> Result<ImagePage> {
        let ((document, text), found) =
            list_elements(context, "images", &self.document_id, &self.list, |page| page.images).await?;
        let generation = document.text_generation.unwrap_or_default();
        let annotations = context.stores().image_annotations().list(&document.org, &document.id, generation).await?;
        let mut annotations: BTreeMap<_, _> =
            annotations.into_iter().map(|annotation| ((annotation.page, annotation.number), annotation)).collect();
        let described = |OnPage { page, element: image }: OnPage<EmbeddedImage>| {
            let annotation = annotations.remove(&(page, image.number));
            OnPage { page, element: DescribedImage { image, annotation } }
        };
        let ListPage { items, next_page_token, total_size, is_total_estimate } = found;
        let items = items.into_iter().map(described).collect();
        let page = ListPage { items, next_page_token, total_size, is_total_estimate };
        Ok(ImagePage { page, text })
    }
}

/// Returns a document with its text.
///
/// # Errors
/// `NOT_FOUND`, and `NO_TEXT` if the document has no text.
async fn ready(context: &Context, id: &DocumentId) -> Result<(Document, TextId)> {
    let document: Document = context.find(id).await?;
    check_ready(&document)?;
    let text = TextId::of(&document).ok_or_else(|| Error::internal("a text that is ready has no generation"))?;
    Ok((document, text))
}

/// Returns a copy of an image that is embedded in a document. The first request for an image makes the copy at a node.
#[derive(Debug, Clone, Serialize)]
pub struct GetDocumentImage {
    #[serde(serialize_with = "as_text")]
    pub image_id: ImageId,
}

impl Operation for GetDocumentImage {
    const DECLARATION: Declaration = SERVICE.read("GetDocumentImage").long();
    type Output = Content;

    async fn run(self, context: &Context) -> Result<Content> {
        let ImageId { text, page, number } = self.image_id;
        let (document, _) = ready(context, &text.document).await?;
        text.check_current(&document)?;
        let (org, id) = (&document.org, document.id.as_str());
        let found = context.stores().texts.elements(org, id, page, 1).await?;
        if !found.iter().flat_map(|page| &page.images).any(|image| image.number == number) {
            return Err(Error::invalid_field("image_id", format!("page {page} has no image {number}")));
        }
        rendition(context, &document, &Rendition::Embedded { page, number }).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_position_is_read_as_it_was_written() {
        let text: TextId = format!("{}.5f", DocumentId::derive(&["a"])).parse().unwrap();
        let position = ElementPosition { text, page: 12, number: 3 };
        assert_eq!(position.to_string().parse(), Ok(position));
        for bad in ["", "1", "1.", "a.1", "1.2", "1.2.3"] {
            assert!(bad.parse::<ElementPosition>().is_err(), "{bad}");
        }
    }
}
