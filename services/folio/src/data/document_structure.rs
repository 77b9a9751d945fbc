//! `folio document outline`, `section`, `links` and `images`.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use folio_proto::v1;
use serde_json::{Value, json};

use super::export::Destination;
use super::output::View;
use super::{DataArguments, ItemArguments, list_items};
use crate::client::{Client, answer, explain};
use crate::documents;

#[derive(Debug, clap::Args)]
pub(crate) struct Section {
    /// The id of the section, from `folio document outline`.
    #[arg(value_name = "SECTION ID")]
    section_id: String,
    /// Maximum number of tokens [default: the whole section].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    tokens: Option<u32>,
    #[command(flatten)]
    data: DataArguments,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Elements {
    /// Maximum number of items.
    #[arg(long, value_name = "N", default_value = "1000")]
    limit: usize,
    #[command(flatten)]
    item: ItemArguments,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Images {
    /// Write the images of a PDF file to this folder.
    #[arg(long, value_name = "FOLDER")]
    to: Option<PathBuf>,
    #[command(flatten)]
    elements: Elements,
}

impl Section {
    pub(super) async fn run(&self) -> Result<()> {
        self.data.run(async |client| section(&client, &self.section_id, self.tokens).await).await
    }
}

impl Elements {
    pub(super) async fn run(&self) -> Result<()> {
        self.item.data.run(async |client| links(&client, &self.item.item, self.limit).await).await
    }
}

impl Images {
    pub(super) async fn run(&self) -> Result<()> {
        let Elements { limit, item } = &self.elements;
        item.data.run(async |client| images(&client, &item.item, *limit, self.to.as_deref()).await).await
    }
}

/// Returns the sections of a document. A title in the table is indented by its level.
pub(super) async fn outline(client: &Client, what: &str) -> Result<View> {
    let document_id = documents::id(client, what).await?;
    let (mut rows, mut from_page) = (Vec::new(), 1);
    while from_page > 0 {
        let request = v1::GetDocumentStructureRequest { document_id: document_id.clone(), from_page, page_count: 0 };
        let part = answer(client.documents().get_document_structure(request)).await?;
        rows.extend(part.sections.iter().map(section_row));
        from_page = part.next_page;
    }
    Ok(View::list(["title", "first_page", "last_page", "section_id"], rows))
}

fn section_row(section: &v1::DocumentSection) -> Value {
    let indent = usize::try_from(section.level.saturating_sub(1)).unwrap_or_default();
    json!({
        "section_id": section.section_id, "parent_section_id": section.parent_section_id, "level": section.level,
        "title": format!("{}{}", "  ".repeat(indent), section.title),
        "first_page": section.first_page, "last_page": section.last_page,
    })
}

/// Prints the text of a section. Without a maximum number of tokens, the command also reads the parts after a cut.
async fn section(client: &Client, section_id: &str, tokens: Option<u32>) -> Result<View> {
    let (mut pages, mut next) = (Vec::<Value>::new(), section_id.to_owned());
    let mut text = String::new();
    while !next.is_empty() {
        let request = v1::GetSectionRequest { section_id: next, max_tokens: tokens.unwrap_or(PART_TOKENS) };
        let part = answer(client.documents().get_section(request)).await?;
        for v1::PageText { number, text: of_page } in part.pages {
            text.push_str(&of_page);
            text.push('\n');
            pages.push(json!({ "number": number, "text": of_page }));
        }
        if tokens.is_some() {
            if !part.rest_id.is_empty() {
                crate::terminal::note(&format!("the text was cut; the rest: folio document section {}", part.rest_id));
            }
            break;
        }
        next = part.rest_id;
    }
    Ok(View::list(["number", "text"], pages).text(text))
}

/// Number of tokens of a request for a part of a whole section.
const PART_TOKENS: u32 = 50_000;

async fn links(client: &Client, what: &str, limit: usize) -> Result<View> {
    let document_id = documents::id(client, what).await?;
    let found = list_items! {
        limit, client.documents().list_links(ListLinksRequest { document_id: document_id.clone() }) => links
    };
    Ok(View::list(["page", "anchor_text", "target"], found.await?.iter().map(link_row).collect()))
}

fn link_row(link: &v1::DocumentLink) -> Value {
    let target = match &link.target {
        Some(v1::document_link::Target::Url(url)) => url.clone(),
        Some(v1::document_link::Target::TargetPage(page)) => format!("page {page}"),
        None => String::new(),
    };
    json!({ "page": link.page, "anchor_text": link.anchor_text, "target": target })
}

/// Lists the images of a document, and writes them to a folder if one is given.
async fn images(client: &Client, what: &str, limit: usize, folder: Option<&Path>) -> Result<View> {
    let document_id = documents::id(client, what).await?;
    let found = list_items! {
        limit, client.documents().list_images(ListImagesRequest { document_id: document_id.clone() }) => images
    };
    let mut rows = Vec::new();
    for image in found.await? {
        let file = match folder {
            None => None,
            Some(folder) => Some(write_image(client, &image, folder).await?),
        };
        rows.push(image_row(&image, file));
    }
    let columns =
        ["page", "width", "height", "caption", "description", if folder.is_some() { "file" } else { "image_id" }];
    Ok(View::list(columns, rows))
}

/// Returns the row of an image. Its description is empty if no model has described it.
fn image_row(image: &v1::DocumentImage, file: Option<String>) -> Value {
    let v1::ImageAnnotation { caption: description, steps, entities, model, .. } =
        image.annotation.clone().unwrap_or_default();
    json!({
        "image_id": image.image_id, "page": image.page, "caption": image.caption, "width": image.width,
        "height": image.height, "file": file, "description": description, "steps": steps, "entities": entities,
        "model": model,
    })
}

/// Writes an image to a file in a folder. Returns the name of the file, which contains the end of the id.
async fn write_image(client: &Client, image: &v1::DocumentImage, folder: &Path) -> Result<String> {
    std::fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let end = image.image_id.rsplit('.').next().unwrap_or_default();
    let end: String = end.chars().filter(char::is_ascii_alphanumeric).collect();
    let path = folder.join(format!("{end}.png"));
    let request = v1::GetDocumentImageRequest { image_id: image.image_id.clone() };
    let mut parts = answer(client.documents().get_document_image(request)).await?;
    let mut destination = Destination::open(Some(&path))?;
    while let Some(part) = parts.message().await.map_err(|status| explain(&status))? {
        destination.write(&part.chunk)?;
    }
    destination.finish()?;
    Ok(path.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::super::output::Format;
    use super::*;

    #[test]
    fn sections_are_indented_by_their_levels() {
        let section = |level, title: &str| v1::DocumentSection {
            level,
            title: title.to_owned(),
            ..v1::DocumentSection::default()
        };
        let rows = [section(0, ""), section(1, "Scope"), section(2, "Services")].iter().map(section_row).collect();
        let table = View::list(["title"], rows).render(Format::Table);
        assert!(table.contains("\nScope") && table.contains("\n  Services"), "{table}");
    }

    #[test]
    fn an_image_has_its_description() {
        let annotation = v1::ImageAnnotation {
            caption: "A pump.".to_owned(),
            entities: vec!["ACME".to_owned()],
            ..v1::ImageAnnotation::default()
        };
        let described = v1::DocumentImage { annotation: Some(annotation), ..v1::DocumentImage::default() };
        let row = image_row(&described, None);
        assert_eq!((&row["description"], &row["entities"]), (&json!("A pump."), &json!(["ACME"])));
        assert_eq!(image_row(&v1::DocumentImage::default(), None)["description"], "");
    }

    #[test]
    fn a_link_has_its_target() {
        let link = |target| link_row(&v1::DocumentLink { target, ..v1::DocumentLink::default() });
        let page = v1::document_link::Target::TargetPage(3);
        assert_eq!(link(Some(page))["target"], "page 3");
        assert_eq!(
            link(Some(v1::document_link::Target::Url("https://example.com".to_owned())))["target"],
            "https://example.com"
        );
        assert_eq!(link(None)["target"], "");
    }
}
