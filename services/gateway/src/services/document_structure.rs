//! The messages of the structure of documents.

use folio_operations::document_structure::{DescribedImage, OnPage};
use folio_proto::{time, v1};
use folio_resources::{
    ImageAnnotation, ImageDescription, ImageId, Link, LinkTarget, PageArea, Section, SectionId, Table, TextId,
};

/// `pages`: the number of pages of the document.
pub(super) fn section(text: &TextId, section: &Section, pages: u32) -> v1::DocumentSection {
    let id = |number| text.section(number);
    v1::DocumentSection {
        section_id: id(section.number).to_string(),
        parent_section_id: section_id(section.parent.map(id)),
        level: section.level.into(),
        title: section.title.clone(),
        first_page: section.start.page,
        last_page: section.last_page(pages),
        first_word: section.start.word,
    }
}

/// Returns the text of an id. Empty: there is none.
pub(super) fn section_id(id: Option<SectionId>) -> String {
    id.map(|id| id.to_string()).unwrap_or_default()
}

pub(super) fn table((page, table): &(u32, Table), section_id: String) -> v1::DocumentTable {
    v1::DocumentTable {
        page: *page,
        section_id,
        rows: table.rows.iter().map(|cells| v1::TableRow { cells: cells.clone() }).collect(),
        first_word: table.word,
        word_count: table.words,
        bounding_box: bounding_box(table.area),
        is_cut: table.is_cut,
    }
}

pub(super) fn link(OnPage { page, element }: OnPage<Link>) -> v1::DocumentLink {
    let Link { anchor, target, area } = element;
    let target = match target {
        LinkTarget::Url(url) => v1::document_link::Target::Url(url),
        LinkTarget::Page(page) => v1::document_link::Target::TargetPage(page),
    };
    v1::DocumentLink { page, anchor_text: anchor, target: Some(target), bounding_box: bounding_box(area) }
}

pub(super) fn image(id: ImageId, found: &OnPage<DescribedImage>) -> v1::DocumentImage {
    let DescribedImage { image, annotation } = &found.element;
    v1::DocumentImage {
        image_id: id.to_string(),
        page: found.page,
        caption: image.caption.clone(),
        width: image.width,
        height: image.height,
        bounding_box: bounding_box(image.area),
        annotation: annotation.as_ref().map(described),
    }
}

fn described(annotation: &ImageAnnotation) -> v1::ImageAnnotation {
    let ImageDescription { caption, steps, entities } = annotation.description.clone();
    let (model, create_time) = (annotation.model.clone(), Some(time::to_proto(annotation.at)));
    v1::ImageAnnotation { caption, steps, entities, model, create_time }
}

fn bounding_box(area: Option<PageArea>) -> Option<v1::BoundingBox> {
    area.map(|area| area.fractions().into())
}
