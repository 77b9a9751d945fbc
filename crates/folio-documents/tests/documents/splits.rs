//! PDF files that are split.

use folio_documents::SplitPart;
use folio_resources::{DocumentChange, DocumentFilter, PageRange};
use folio_types::op::{Expected, Write};
use folio_types::page::PageRequest;
use folio_types::{Reason, RequestId};
use lopdf::dictionary;

use super::protected::protected;
use super::*;

fn part(first: u32, last: u32, name: Option<&str>) -> SplitPart {
    SplitPart { pages: PageRange { first, last }, name: name.map(str::to_owned) }
}

fn invoices() -> Vec<u8> {
    let page = |number: u32, line: &str| Page::of_lines(&["Acme Ltd", &format!("Invoice number: {number}"), line]);
    document(&[page(17, "Page 1 of 2"), page(17, "Page 2 of 2"), page(18, "Page 1 of 1"), page(19, "Page 1 of 1")])
}

#[tokio::test]
async fn a_split_makes_documents_of_the_pages_once() {
    let fixture = Fixture::new();
    let (_ingestor, queue) = fixture.ingestor(options());
    let uploader = fixture.uploader(Some(queue));
    let id = fixture.upload(&uploader, "scan", "scan.pdf", &invoices()).await.unwrap().document.id;
    let whole = fixture.settled(&id).await;
    let request: RequestId = "split".parse().unwrap();
    let parts = [part(1, 2, None), part(4, 4, Some("last.pdf"))];
    let split = uploader.split(&fixture.principal, &request, &whole, &parts).await.unwrap();
    let names: Vec<_> = split.iter().map(|document| document.name.as_str()).collect();
    assert_eq!(names, ["scan p. 1-2.pdf", "last.pdf"]);
    let origin = split[1].part.clone().unwrap();
    assert_eq!((origin.parent, origin.position, origin.pages), (id.clone(), 2, Some(parts[1].pages)));
    for (document, pages, number) in [(&split[0], 2, "17"), (&split[1], 1, "19")] {
        let read = fixture.settled(&document.id).await;
        assert_eq!((read.state, read.pages), (TextState::Ready, pages));
        let text = fixture.stores().texts.text(&fixture.principal.org, document.id.as_str(), 1, 9).await.unwrap();
        assert!(text[0].text.contains(&format!("Invoice number: {number}")), "{text:?}");
    }
    assert_eq!(fixture.document(&id).await, whole, "the original is unchanged");

    let again = uploader.split(&fixture.principal, &request, &whole, &parts).await.unwrap();
    let ids = |documents: &[Document]| documents.iter().map(|document| document.id.clone()).collect::<Vec<_>>();
    assert_eq!(ids(&again), ids(&split));
    let other = [part(1, 3, None), part(4, 4, None)];
    let error = uploader.split(&fixture.principal, &request, &whole, &other).await.unwrap_err();
    assert_eq!(error.reason, Reason::RequestIdConflict);
}

#[tokio::test]
async fn a_deleted_document_gets_no_parts() {
    let fixture = Fixture::new();
    let (_ingestor, queue) = fixture.ingestor(options());
    let uploader = fixture.uploader(Some(queue));
    let id = fixture.upload(&uploader, "scan", "scan.pdf", &invoices()).await.unwrap().document.id;
    let whole = fixture.settled(&id).await;
    let (org, at, key) = (&fixture.principal.org, fixture.environment.now(), "delete".parse().unwrap());
    let delete = Write::by_platform(org.clone(), key, at, Expected::Version(whole.version), DocumentChange::Delete);
    let documents = fixture.stores().of::<Document>();
    documents.decide(&id, delete).await.unwrap();
    // The request has read the document before its deletion.
    let parts = [part(1, 2, None), part(3, 4, None)];
    let error = uploader.split(&fixture.principal, &"split".parse().unwrap(), &whole, &parts).await.unwrap_err();
    assert_eq!(error.reason, Reason::NotFound);
    let filter = DocumentFilter { parent: Some(id), ..DocumentFilter::default() };
    assert!(documents.list(org, &filter, &PageRequest::default()).await.unwrap().items.is_empty());
}

#[tokio::test]
async fn only_ascending_pages_of_an_open_pdf_are_split() {
    let fixture = Fixture::new();
    let (_ingestor, queue) = fixture.ingestor(options());
    let uploader = fixture.uploader(Some(queue));
    let id = fixture.upload(&uploader, "scan", "scan.pdf", &invoices()).await.unwrap().document.id;
    let whole = fixture.settled(&id).await;
    let request: RequestId = "split".parse().unwrap();
    for (parts, field) in [
        (vec![part(1, 4, None)], "parts"),
        (vec![part(1, 2, None), part(2, 3, None)], "parts[1]"),
        (vec![part(0, 2, None), part(3, 3, None)], "parts[0]"),
        (vec![part(1, 2, None), part(3, 5, None)], "parts[1].last_page"),
        (vec![part(1, 2, Some(" a")), part(3, 3, None)], "parts[0].name"),
    ] {
        let error = uploader.split(&fixture.principal, &request, &whole, &parts).await.unwrap_err();
        assert_eq!((error.reason, error.violations[0].field.as_str()), (Reason::InvalidField, field));
    }
    let parts = [part(1, 1, None), part(2, 2, None)];
    let pages = [Page::of_lines(&["one"]), Page::of_lines(&["two"])];
    for (name, content) in [("locked.pdf", protected(&pages)), ("a.txt", b"text".to_vec())] {
        let id = fixture.upload(&uploader, name, name, &content).await.unwrap().document.id;
        let document = fixture.settled(&id).await;
        let error = uploader.split(&fixture.principal, &request, &document, &parts).await.unwrap_err();
        assert_eq!(error.reason, Reason::UnsupportedType, "{name}: {error}");
    }
}

#[tokio::test]
async fn bookmarks_of_the_first_level_are_read() {
    let fixture = Fixture::new();
    let mut pdf = lopdf::Document::load_mem(&invoices()).unwrap();
    let pages = pdf.get_pages();
    let second = pdf.add_object(dictionary! {
        "Title" => lopdf::Object::string_literal("Invoice 18"),
        "A" => dictionary! { "S" => "GoTo", "D" => vec![pages[&3].into(), "Fit".into()] },
    });
    let first = pdf.add_object(dictionary! {
        "Title" => lopdf::Object::string_literal("Invoice 17"),
        "Dest" => vec![pages[&1].into(), "Fit".into()],
        "Next" => second,
    });
    let outlines = pdf.add_object(dictionary! { "First" => first, "Last" => second });
    pdf.catalog_mut().unwrap().set("Outlines", outlines);
    let mut bytes = Vec::new();
    pdf.save_to(&mut bytes).unwrap();
    let id = fixture.stored("scan", "scan.pdf", &bytes).await;
    let found = fixture.uploader(None).bookmarks(&fixture.document(&id).await).await.unwrap();
    let found: Vec<_> = found.iter().map(|bookmark| (bookmark.page, bookmark.title.as_str())).collect();
    assert_eq!(found, [(1, "Invoice 17"), (3, "Invoice 18")]);
    let text = fixture.stored("text", "a.txt", b"text").await;
    assert!(fixture.uploader(None).bookmarks(&fixture.document(&text).await).await.unwrap().is_empty());
}
