//! Conformance suite of [`folio_storage::TextStore`].

use folio_resources::{
    BoundingBox, CellPosition, Document, Heading, Link, LinkTarget, PageStructure, TextState, WordBoxes,
};
use folio_storage::value::{PageBoxes, PageElements, PageHeadings, PageText, TextGap};
use folio_storage::{IngestUpdate, NewPage, TextWait};
use folio_types::DocumentId;

use super::content_sizes::check_sizes;
use super::context::Context;
use super::{Failure, Outcome, check, same};

/// More rows than an index of waiting texts has in any test.
const ALL: usize = 100_000;

pub(crate) async fn suite(context: &Context) -> Outcome {
    pages(context).await?;
    programs(context).await?;
    positions(context).await?;
    deleted(context).await?;
    check_sizes(context).await
}

/// A page of text. The words of every third page have boxes, two of five texts are incomplete, every fourth page is a sheet, every
/// second page has a heading, and every third page has a link.
fn page(number: u32) -> NewPage {
    let gap = match number % 5 {
        1 => Some(TextGap::Cut),
        2 => Some(TextGap::Missing),
        _ => None,
    };
    let first_cell = number.is_multiple_of(4).then_some(CellPosition { row: number, column: 2 });
    let heading = || Heading { level: 1, title: format!("Heading {number}"), word: 0 };
    let link = || Link { anchor: "page".to_owned(), target: LinkTarget::Page(number), area: None };
    let structure = PageStructure {
        headings: number.is_multiple_of(2).then(heading).into_iter().collect(),
        links: number.is_multiple_of(3).then(link).into_iter().collect(),
        ..PageStructure::default()
    };
    let page = NewPage { gap, first_cell, structure, ..NewPage::of_text(number, format!("page {number}")) };
    let word = |left: f64| BoundingBox { left, top: 10.0, right: left + 20.0, bottom: 20.0 };
    match number % 3 {
        0 => NewPage { boxes: WordBoxes::new(100.0, 100.0, [word(0.0), word(f64::from(number))]), ..page },
        _ => page,
    }
}

fn texts(pages: &[NewPage]) -> Vec<PageText> {
    let text = |page: &NewPage| PageText {
        number: page.number,
        text: page.text.clone(),
        gap: page.gap,
        first_cell: page.first_cell,
    };
    pages.iter().map(text).collect()
}

fn boxes(pages: &[NewPage]) -> Vec<PageBoxes> {
    let with_boxes = pages.iter().filter(|page| !page.boxes.is_empty());
    with_boxes.map(|page| PageBoxes { number: page.number, boxes: page.boxes.clone() }).collect()
}

fn headings(pages: &[NewPage]) -> Vec<PageHeadings> {
    let with_headings = pages.iter().filter(|page| !page.structure.headings.is_empty());
    with_headings.map(|page| PageHeadings { number: page.number, headings: page.structure.headings.clone() }).collect()
}

fn elements(pages: &[NewPage]) -> Vec<PageElements> {
    let with_elements = pages.iter().filter(|page| page.structure.has_elements());
    let elements = |page: &NewPage| {
        let PageStructure { tables, links, images, .. } = page.structure.clone();
        PageElements { number: page.number, tables, links, images }
    };
    with_elements.map(elements).collect()
}

/// Checks the headings and the elements of a part of the pages of a document, and that another organization reads none.
async fn check_structure(context: &Context, id: &DocumentId, (from, count): (u32, u32), pages: &[NewPage]) -> Outcome {
    let (texts, id, other) = (&context.stores.texts, id.as_str(), context.other());
    same!(texts.headings(&context.org, id, from, count).await?, headings(pages), "the headings from page {from} on");
    same!(texts.elements(&context.org, id, from, count).await?, elements(pages), "the elements from page {from} on");
    same!(texts.headings(&other, id, from, count).await?, [], "headings in another organization");
    same!(texts.elements(&other, id, from, count).await?, [], "elements in another organization");
    Ok(())
}

async fn stored_boxes(context: &Context, id: &DocumentId, from: u32, count: u32) -> Result<Vec<PageBoxes>, Failure> {
    Ok(context.stores.texts.boxes(&context.org, id.as_str(), from, count).await?)
}

async fn ingest(context: &Context, id: &DocumentId, state: TextState, pages: &[NewPage]) -> Outcome {
    let update = IngestUpdate { state, pages: pages.to_vec(), lacks_program: false, at: context.now() };
    Ok(context.stores.texts.ingest(&context.org, id.as_str(), update).await?)
}

async fn lacks_program(context: &Context, id: &DocumentId) -> Outcome {
    let state = TextState::NoText("a program is missing".into());
    let update = IngestUpdate { state, pages: vec![], lacks_program: true, at: context.now() };
    Ok(context.stores.texts.ingest(&context.org, id.as_str(), update).await?)
}

/// Returns the attempts on a document in an index. None: the index does not contain the document.
async fn waiting(context: &Context, waits_for: TextWait, id: &DocumentId) -> Result<Option<u32>, Failure> {
    let rows = context.stores.texts.waiting_texts(waits_for, None, ALL).await?;
    let row = rows.into_iter().find(|row| row.org == context.org && row.id == id.as_str());
    Ok(row.map(|row| row.attempts))
}

async fn text(context: &Context, id: &DocumentId, from: u32, count: u32) -> Result<Vec<PageText>, Failure> {
    Ok(context.stores.texts.text(&context.org, id.as_str(), from, count).await?)
}

async fn pages(context: &Context) -> Outcome {
    let id = context.document("text.pdf").await?;
    same!(waiting(context, TextWait::Worker, &id).await?, Some(0), "attempts on a new document");
    for attempts in [1, 2] {
        ingest(context, &id, TextState::Processing, &[]).await?;
        same!(waiting(context, TextWait::Worker, &id).await?, Some(attempts), "attempts that began");
    }
    let pages: Vec<_> = (1..=12).map(page).collect();
    ingest(context, &id, TextState::Ready, &pages).await?;
    same!(waiting(context, TextWait::Worker, &id).await?, None, "attempts on a document whose text is settled");
    let document = context.stores.of::<Document>().get(&context.org, &id).await?;
    let seen = document.map(|document| (document.version, document.pages, document.state));
    same!(seen, Some((1, 12, TextState::Ready)), "a document with text");
    same!(text(context, &id, 1, 100).await?, texts(&pages), "the whole text");
    same!(stored_boxes(context, &id, 1, 100).await?, boxes(&pages), "the boxes of all pages");
    same!(
        stored_boxes(context, &id, 4, 5).await?,
        boxes(pages.get(3..8).unwrap_or_default()),
        "the boxes of some pages"
    );
    same!(context.stores.texts.boxes(&context.other(), id.as_str(), 1, 9).await?, [], "boxes in another organization");
    check_structure(context, &id, (1, 100), &pages).await?;
    check_structure(context, &id, (4, 5), pages.get(3..8).unwrap_or_default()).await?;
    same!(text(context, &id, 9, 3).await?, texts(pages.get(8..11).unwrap_or_default()), "three pages");
    same!(text(context, &id, 13, 3).await?, [], "pages after the end");
    same!(context.stores.texts.text(&context.other(), id.as_str(), 1, 3).await?, [], "pages in another organization");
    let long: Vec<_> = (1..=4).map(|number| NewPage::of_text(number, format!("{number}").repeat(50_000))).collect();
    ingest(context, &id, TextState::Ready, &long).await?;
    same!(text(context, &id, 1, 4).await?, texts(&long), "long pages");
    same!(stored_boxes(context, &id, 1, 100).await?, [], "boxes of a text that was replaced by one without");
    check_structure(context, &id, (1, 100), &long).await?;
    ingest(context, &id, TextState::NoText("empty".into()), &[]).await?;
    same!(text(context, &id, 1, 100).await?, [], "a text that was replaced by none");
    let missing = context.document_id();
    ingest(context, &missing, TextState::Processing, &[page(1)]).await?;
    same!(waiting(context, TextWait::Worker, &missing).await?, None, "attempts on a document that never existed");
    Ok(())
}

/// Checks that a document that lacks a program is only in the index of [`TextWait::Program`].
async fn programs(context: &Context) -> Outcome {
    let id = context.document("image.png").await?;
    for (again, attempts) in [(TextState::Uploaded, Some(0)), (TextState::Ready, None)] {
        same!(waiting(context, TextWait::Program, &id).await?, None, "a document before it lacks a program");
        ingest(context, &id, TextState::Processing, &[]).await?;
        lacks_program(context, &id).await?;
        same!(waiting(context, TextWait::Program, &id).await?, Some(0), "a document that lacks a program");
        same!(waiting(context, TextWait::Worker, &id).await?, None, "attempts on a document that lacks a program");
        ingest(context, &id, again, &[]).await?;
        same!(waiting(context, TextWait::Program, &id).await?, None, "a document that is read again");
        same!(waiting(context, TextWait::Worker, &id).await?, attempts, "attempts on a document that is read again");
    }
    Ok(())
}

/// Checks that pages of an index continue after a position, also if the document at the position does not wait anymore.
async fn positions(context: &Context) -> Outcome {
    let ids = [context.document("first.pdf").await?, context.document("second.pdf").await?];
    let mut rows = context.stores.texts.waiting_texts(TextWait::Worker, None, ALL).await?;
    rows.retain(|row| row.org == context.org && ids.iter().any(|id| row.id == id.as_str()));
    let Ok([before, last]) = <[_; 2]>::try_from(rows) else {
        return Err(Failure("expected two waiting documents".to_owned()));
    };
    for _ in 0..2 {
        let after = context.stores.texts.waiting_texts(TextWait::Worker, Some(&before), ALL).await?;
        check!(!after.contains(&before), "a row up to the position is returned");
        check!(after.contains(&last), "a row after the position is missing");
        ingest(context, &before.id.parse()?, TextState::Ready, &[page(1)]).await?;
    }
    Ok(())
}

async fn deleted(context: &Context) -> Outcome {
    let id = context.document("deleted.png").await?;
    ingest(context, &id, TextState::Ready, &[page(3)]).await?;
    lacks_program(context, &id).await?;
    context.delete_document(&id).await?;
    for _ in 0..2 {
        same!(text(context, &id, 1, 9).await?, [], "the text of a deleted document");
        same!(stored_boxes(context, &id, 1, 9).await?, [], "the boxes of a deleted document");
        check_structure(context, &id, (1, 9), &[]).await?;
        for waits_for in [TextWait::Worker, TextWait::Program] {
            same!(waiting(context, waits_for, &id).await?, None, "a deleted document that waits");
        }
        ingest(context, &id, TextState::Processing, &[page(1)]).await?;
        lacks_program(context, &id).await?;
    }
    Ok(())
}
