//! [`folio_storage::DocumentStore`].

use std::collections::BTreeMap;

use folio_resources::{
    Document, DocumentChange, DocumentFilter, DocumentPatch, Extraction, Resource as _, Tag, TagChange, TextState,
};
use folio_types::op::{Decided, Expected, OpResult};
use folio_types::page::PageRequest;
use folio_types::{DocumentId, PromptRevId};
use serde_json::json;

use super::context::{Context, create_document, done};
use super::paging::{Names, orders};
use super::{Failure, Outcome, check, refused, same};
use folio_storage::{IngestUpdate, NewPage, Waits};

/// More rows than a system index holds in any test.
const ALL: usize = 100_000;

pub(crate) async fn suite(context: &Context) -> Outcome {
    changes(context).await?;
    text(context).await?;
    lacking(context).await?;
    deletion(context).await?;
    lists(context).await
}

async fn get(context: &Context, id: &DocumentId) -> Result<Document, Failure> {
    let found = context.stores.of::<Document>().get(&context.org, id).await?;
    found.ok_or_else(|| Failure("a document is missing".to_owned()))
}

async fn changes(context: &Context) -> Outcome {
    let (store, id) = (context.stores.of::<Document>(), context.document_id());
    let (one, other) = (context.tag("one").await?, context.tag("other").await?);
    let create = create_document("a.txt", &[other.clone(), one.clone(), other.clone()]);
    let write = context.write(Expected::Absent, create)?;
    let result = done(store.decide(&id, write.clone()).await?)?;
    same!(result, OpResult::Resource { id: id.to_string(), name: "a.txt".into() }, "the result of a creation");
    let document = get(context, &id).await?;
    same!((document.version, document.created_at, document.pages), (1, write.at, 0), "a new document");
    same!((document.state, document.tags), (TextState::Uploaded, vec![other.clone(), one.clone()]), "a new document");
    same!(store.get(&context.other(), &id).await?, None, "a document of another organization");

    let metadata = BTreeMap::from([("customer".to_owned(), "Äcme".to_owned())]);
    let patch = DocumentPatch { name: Some("b.txt".into()), tags: Some(vec![]), metadata: Some(metadata.clone()) };
    let change = DocumentChange::Update(patch);
    done(store.decide(&id, context.write(Expected::Version(1), change.clone())?).await?)?;
    let document = get(context, &id).await?;
    same!((document.version, document.name.as_str(), document.metadata), (2, "b.txt", metadata), "a changed document");
    done(store.decide(&id, context.write(Expected::Version(2), change)?).await?)?;
    same!(get(context, &id).await?.version, 2, "the version after no change");
    let moved = store.decide(&id, context.write(Expected::Version(1), DocumentChange::Delete)?).await?;
    same!(moved, Decided::Moved, "a deletion expecting an older version");

    let delete = context.write(Expected::Version(1), TagChange::Delete)?;
    done(context.stores.of::<Tag>().decide(&one, delete).await?)?;
    let dead = DocumentPatch { tags: Some(vec![one.clone()]), ..DocumentPatch::default() };
    let write = context.write(Expected::Version(2), DocumentChange::Update(dead))?;
    refused!(store.decide(&id, write).await, NotFound, "a change to a tag that is gone");
    let write = context.write(Expected::Absent, create_document("c.txt", &[one]))?;
    refused!(store.decide(&context.document_id(), write).await, NotFound, "a document with a tag that is gone");
    Ok(())
}

fn page(number: u32) -> NewPage {
    NewPage { number, text: format!("page {number}") }
}

async fn pending(context: &Context, id: &DocumentId) -> Result<Option<u32>, Failure> {
    waiting(context, Waits::ForItsTurn, id).await
}

async fn waiting(context: &Context, waits: Waits, id: &DocumentId) -> Result<Option<u32>, Failure> {
    let rows = context.stores.texts.pending_text(waits, ALL).await?;
    let row = rows.into_iter().find(|row| row.org == context.org && row.document == *id);
    Ok(row.map(|row| row.attempts))
}

async fn text(context: &Context) -> Outcome {
    let id = context.document("text.pdf", &[]).await?;
    same!(pending(context, &id).await?, Some(0), "attempts on a new document");
    for attempts in [1, 2] {
        let update =
            IngestUpdate { state: TextState::Processing, pages: vec![], lacks_program: false, at: context.now() };
        context.stores.texts.ingest(&context.org, &id, update).await?;
        same!(pending(context, &id).await?, Some(attempts), "attempts that began");
    }
    let pages: Vec<_> = (1..=12).map(page).collect();
    let update =
        IngestUpdate { state: TextState::Ready, pages: pages.clone(), lacks_program: false, at: context.now() };
    context.stores.texts.ingest(&context.org, &id, update).await?;
    same!(pending(context, &id).await?, None, "attempts on a document whose text is settled");
    let document = get(context, &id).await?;
    same!((document.version, document.pages, document.state), (1, 12, TextState::Ready), "a document with text");
    same!(context.stores.texts.text(&context.org, &id, 1, 100).await?, pages, "the whole text");
    same!(context.stores.texts.text(&context.org, &id, 9, 3).await?, [page(9), page(10), page(11)], "three pages");
    same!(context.stores.texts.text(&context.org, &id, 13, 3).await?, [], "pages behind the end");
    same!(context.stores.texts.text(&context.other(), &id, 1, 3).await?, [], "pages for another organization");
    let long: Vec<_> = (1..=4).map(|number| NewPage { number, text: format!("{number}").repeat(50_000) }).collect();
    let update = IngestUpdate { state: TextState::Ready, pages: long.clone(), lacks_program: false, at: context.now() };
    context.stores.texts.ingest(&context.org, &id, update).await?;
    same!(context.stores.texts.text(&context.org, &id, 1, 4).await?, long, "long pages");
    let update = IngestUpdate {
        state: TextState::NoText("empty".into()),
        pages: vec![],
        lacks_program: false,
        at: context.now(),
    };
    context.stores.texts.ingest(&context.org, &id, update).await?;
    same!(context.stores.texts.text(&context.org, &id, 1, 100).await?, [], "the text after it was replaced by none");
    let nobody = context.document_id();
    let update =
        IngestUpdate { state: TextState::Processing, pages: vec![page(1)], lacks_program: false, at: context.now() };
    context.stores.texts.ingest(&context.org, &nobody, update).await?;
    same!(pending(context, &nobody).await?, None, "what was found out about a document that never was");
    Ok(())
}

/// A document that lacks a program: settled, and found again.
async fn lacking(context: &Context) -> Outcome {
    let lacks = |id: DocumentId| async move { waiting(context, Waits::ForProgram, &id).await };
    let update =
        |state: TextState, lacks_program: bool| IngestUpdate { state, pages: vec![], lacks_program, at: context.now() };
    let missing = || TextState::NoText("a program is missing".into());
    let (id, gone) = (context.document("image.png", &[]).await?, context.document("gone.png", &[]).await?);
    same!(lacks(id.clone()).await?, None, "a new document");
    for id in [&id, &gone] {
        context.stores.texts.ingest(&context.org, id, update(TextState::Processing, false)).await?;
        context.stores.texts.ingest(&context.org, id, update(missing(), true)).await?;
        same!(lacks(id.clone()).await?, Some(0), "a document that lacks a program");
        same!(pending(context, id).await?, None, "its turn, which it had");
    }
    context.stores.texts.ingest(&context.org, &id, update(TextState::Uploaded, false)).await?;
    same!(lacks(id.clone()).await?, None, "a document that is to be read again");
    same!(pending(context, &id).await?, Some(0), "attempts on a document that is to be read again");
    context.stores.texts.ingest(&context.org, &id, update(missing(), true)).await?;
    context.stores.texts.ingest(&context.org, &id, update(TextState::Ready, false)).await?;
    same!(lacks(id.clone()).await?, None, "a document whose text was read after all");
    context.delete_document(&gone).await?;
    same!(lacks(gone.clone()).await?, None, "a deleted document");
    context.stores.texts.ingest(&context.org, &gone, update(missing(), true)).await?;
    same!(lacks(gone).await?, None, "a deleted document of which it was found out late");
    Ok(())
}

async fn deletion(context: &Context) -> Outcome {
    let (store, org) = (context.stores.of::<Document>(), &context.org);
    let tag = context.tag("hangs").await?;
    let id = context.document("gone.txt", &[tag]).await?;
    let update =
        IngestUpdate { state: TextState::Ready, pages: vec![page(1)], lacks_program: false, at: context.now() };
    context.stores.texts.ingest(org, &id, update).await?;
    let prompt = PromptRevId::new(context.prompt_id(), 1);
    let extraction = context.extraction(&id, &prompt, json!({"total": 1})).await?;
    let create = context.write(Expected::Version(1), DocumentChange::Delete)?;
    same!(done(store.decide(&id, create.clone()).await?)?, OpResult::Deleted, "the result of a deletion");
    same!(store.get(org, &id).await?, None, "a deleted document");
    same!(context.stores.texts.text(org, &id, 1, 9).await?, [], "the text of a deleted document");
    same!(context.stores.of::<Extraction>().get(org, &extraction).await?, None, "an extraction of a deleted document");
    let late =
        IngestUpdate { state: TextState::Processing, pages: vec![page(1)], lacks_program: false, at: context.now() };
    context.stores.texts.ingest(org, &id, late).await?;
    same!(pending(context, &id).await?, None, "what was found out about a deleted document");
    same!(context.stores.texts.text(org, &id, 1, 9).await?, [], "text that came after the deletion");
    let late = store.decide(&id, context.write(Expected::Version(1), DocumentChange::Delete)?).await?;
    same!(late, Decided::Moved, "a write expecting version 1 of what was deleted then");

    let rows = store.deleted(ALL).await?;
    check!(rows.contains(&(org.clone(), id.clone(), create.at)), "a deleted document is not to be cleaned up");
    let target = Document::target(&id);
    store.forget_deleted(org, &id).await?;
    store.forget_deleted(org, &id).await?;
    check!(!store.deleted(ALL).await?.iter().any(|(_, found, _)| *found == id), "a forgotten one is to be cleaned up");
    check!(context.stores.ops.row(org, &target, &create.op).await?.is_some(), "the op row of the deletion is gone");
    let alive = context.document("alive.txt", &[]).await?;
    store.forget_deleted(org, &alive).await?;
    same!(get(context, &alive).await?.name, "alive.txt", "a live document that was to be forgotten");
    Ok(())
}

async fn lists(context: &Context) -> Outcome {
    let context = Context::new(context.stores.clone(), "documents-lists", context.org.as_str());
    let (red, blue) = (context.tag("red").await?, context.tag("blue").await?);
    let made = [
        ("Invoice 1.pdf", vec![red.clone()], "Berlin"),
        ("note.txt", vec![], "Köln"),
        ("invoice 2.pdf", vec![blue.clone(), red.clone()], "KÖLN-Süd"),
        ("Überweisung", vec![blue.clone()], "Bonn"),
    ];
    for (name, tags, city) in &made {
        let id = context.document("before", tags).await?;
        let patch = DocumentPatch {
            name: Some((*name).to_owned()),
            metadata: Some(BTreeMap::from([("city".to_owned(), (*city).to_owned())])),
            tags: None,
        };
        let write = context.write(Expected::Version(1), DocumentChange::Update(patch))?;
        done(context.stores.of::<Document>().decide(&id, write).await?)?;
    }
    let gone = context.document("invoice gone", std::slice::from_ref(&red)).await?;
    context.delete_document(&gone).await?;
    let list = |filter: DocumentFilter| {
        let context = &context;
        move |page: PageRequest| {
            let filter = filter.clone();
            async move {
                let page = context.stores.of::<Document>().list(&context.org, &filter, &page).await?;
                let names = page.items.into_iter().map(|document| document.name).collect();
                Ok(Names { names, next: page.next, total: page.total })
            }
        }
    };
    let named = |search: &str| DocumentFilter { name_search: Some(search.into()), ..DocumentFilter::default() };
    let tagged = |tags| DocumentFilter { all_tags: tags, ..DocumentFilter::default() };
    let placed = |city: &str| DocumentFilter {
        metadata: BTreeMap::from([("city".to_owned(), city.to_owned())]),
        ..DocumentFilter::default()
    };
    orders(&["Invoice 1.pdf", "note.txt", "invoice 2.pdf", "Überweisung"], list(DocumentFilter::default())).await?;
    orders(&["Invoice 1.pdf", "invoice 2.pdf"], list(named("INVOICE"))).await?;
    orders(&["Überweisung"], list(named("überW"))).await?;
    orders(&["Invoice 1.pdf", "invoice 2.pdf"], list(tagged(vec![red.clone()]))).await?;
    orders(&["invoice 2.pdf"], list(tagged(vec![red, blue]))).await?;
    orders(&["note.txt", "invoice 2.pdf"], list(placed("köln"))).await?;
    let elsewhere = context.stores.of::<Document>().list(&context.other(), &named(""), &PageRequest::default()).await?;
    same!(elsewhere.total, 0, "documents of another organization");
    Ok(())
}
