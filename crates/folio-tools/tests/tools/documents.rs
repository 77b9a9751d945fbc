//! Tests of the document tools.

use std::sync::Arc;

use folio_resources::{Document, EmbeddedImage, Heading, Link, LinkTarget, PageStructure, Table, TextState};
use folio_storage::{IngestUpdate, NewPage};
use folio_types::Timestamp;
use serde_json::json;

use crate::fixture::{Fixture, PAGES, text};

/// Returns the ids of the sections of the conversation's document.
pub(crate) async fn section_ids(test: &mut Fixture) -> Vec<String> {
    let outline = test.ok("pdf_outline", json!({})).await;
    outline["sections"].as_array().unwrap().iter().map(|section| text(&section["section_id"])).collect()
}

/// Replaces the text of the conversation's document by two pages with three headings.
async fn with_structure(test: &mut Fixture) {
    let heading = |level, title: &str, word| Heading { level, title: title.to_owned(), word };
    let rows = vec![vec!["Item".to_owned(), "Price".to_owned()]];
    let first = PageStructure {
        headings: vec![heading(1, "Scope", 2)],
        links: vec![Link {
            anchor: "terms".to_owned(),
            target: LinkTarget::Url("https://example.com".to_owned()),
            area: None,
        }],
        images: vec![EmbeddedImage { number: 2, width: 9, height: 9, caption: "Fig. 1".to_owned(), area: None }],
        ..PageStructure::default()
    };
    let second = PageStructure {
        headings: vec![heading(2, "Services", 0), heading(1, "Fees", 4)],
        tables: vec![Table { word: 5, words: 2, rows, area: None, is_cut: false }],
        links: vec![Link { anchor: String::new(), target: LinkTarget::Page(1), area: None }],
        ..PageStructure::default()
    };
    let page = |number, text: &str, structure| NewPage { structure, ..NewPage::of_text(number, text) };
    let pages = vec![
        page(1, "Some words\nScope\nThe scope is wide.", first),
        page(2, "Services\nThey are many.\nFees\nItem  Price", second),
    ];
    let id = test.document();
    // Another time is another generation of the text.
    test.environment.advance(std::time::Duration::from_secs(1));
    test.ingest(&id, pages).await;
}

#[tokio::test]
async fn an_outline_has_the_sections_and_the_elements_of_a_document() {
    let mut test = Fixture::new().await;
    with_structure(&mut test).await;
    let outline = test.ok("pdf_outline", json!({})).await;
    let sections: Vec<_> = outline["sections"].as_array().unwrap().iter().collect();
    let shown: Vec<_> = sections
        .iter()
        .map(|found| json!([found["level"], found["title"], found["first_page"], found["last_page"]]))
        .collect();
    assert_eq!(
        shown,
        [json!([0, "", 1, 1]), json!([1, "Scope", 1, 2]), json!([2, "Services", 2, 2]), json!([1, "Fees", 2, 2])]
    );
    assert_eq!(outline["tables"], json!([{ "page": 2, "rows": 1, "columns": 2 }]));
    let links = json!([
        { "page": 1, "anchor": "terms", "url": "https://example.com" },
        { "page": 2, "anchor": "", "to_page": 1 },
    ]);
    assert_eq!(outline["links"], links);
    assert_eq!((&outline["images"][0]["page"], &outline["images"][0]["caption"]), (&json!(1), &json!("Fig. 1")));
    assert!(text(&outline["images"][0]["image_id"]).ends_with(".p1i2"));
    assert_eq!((outline.get("next_from_page"), outline.get("incomplete")), (None, None));
    let rest = test.ok("pdf_outline", json!({ "from_page": 2 })).await;
    assert_eq!(rest["sections"].as_array().unwrap().len(), 2);
    assert!(test.error_of("pdf_outline", json!({ "from_page": 3 })).await.contains("has 2 pages"));
}

#[tokio::test]
async fn an_outline_of_a_long_document_continues_on_a_later_page() {
    let mut test = Fixture::new().await;
    let page = |number: u32| NewPage {
        structure: PageStructure {
            headings: (0..20).map(|word| Heading { level: 1, title: "x".repeat(200), word }).collect(),
            links: vec![Link { anchor: "a".repeat(200), target: LinkTarget::Page(1), area: None }; 10],
            ..PageStructure::default()
        },
        ..NewPage::of_text(number, "word ".repeat(20))
    };
    let id = test.document();
    test.environment.advance(std::time::Duration::from_secs(1));
    test.ingest(&id, (1..=90).map(page).collect()).await;
    let (mut from, mut found, mut calls) = (1, 0, 0);
    loop {
        let outline = test.ok("pdf_outline", json!({ "from_page": from })).await;
        assert!(outline.to_string().len() <= folio_types::limits::TOOL_RESULT_BYTES);
        found += outline["sections"].as_array().unwrap().len();
        calls += 1;
        match outline.get("next_from_page") {
            Some(next) => from = next.as_u64().unwrap(),
            None => break,
        }
    }
    assert_eq!(found, 20 * 90);
    assert!(calls > 5, "{calls}");
}

#[tokio::test]
async fn the_headings_of_a_long_document_are_read_once_for_all_sections() {
    let mut test = Fixture::new().await;
    let page = |number: u32| NewPage {
        structure: PageStructure {
            headings: vec![Heading { level: 1, title: format!("Part {number}"), word: 0 }],
            ..PageStructure::default()
        },
        ..NewPage::of_text(number, format!("Part {number} of the terms."))
    };
    let id = test.document();
    test.environment.advance(std::time::Duration::from_secs(1));
    test.ingest(&id, (1..=2_000).map(page).collect()).await;
    let (resources, org) = (test.context.resources.clone(), test.context.principal.org.clone());
    let document = resources.stores.of::<Document>().get(&org, &id).await.unwrap().unwrap();
    let (text_id, first) = resources.outlines.outline(&resources.stores, &document).await.unwrap();
    let numbers: Vec<u32> = first.sections().iter().map(|section| section.number).rev().take(3).collect();
    for (number, page) in numbers.into_iter().zip([2_000, 1_999, 1_998]) {
        let section = text_id.section(number);
        let read = test.ok("section_reader", json!({ "section_id": section.to_string() })).await;
        assert!(text(&read["text"]).contains(&format!("Part {page} of the terms.")), "{read}");
    }
    let (_, again) = resources.outlines.outline(&resources.stores, &document).await.unwrap();
    assert!(Arc::ptr_eq(&first, &again), "the outline is cached");
}

#[tokio::test]
async fn a_section_is_read_within_its_tokens_and_continued() {
    let mut test = Fixture::new().await;
    with_structure(&mut test).await;
    let ids = section_ids(&mut test).await;
    let whole = test.ok("section_reader", json!({ "section_id": ids[1] })).await;
    assert_eq!(whole["text"], "--- page 1 ---\nScope\nThe scope is wide.\n--- page 2 ---\nServices\nThey are many.\n");
    assert_eq!((&whole["title"], &whole["level"], whole.get("truncated")), (&json!("Scope"), &json!(1), None));
    let (mut id, mut words, mut calls) = (ids[1].clone(), Vec::new(), 0);
    loop {
        let part = test.ok("section_reader", json!({ "section_id": id, "max_tokens": 4 })).await;
        let part_text = text(&part["text"]);
        let lines = part_text.lines().filter(|line| !line.starts_with("--- page"));
        words.extend(lines.flat_map(str::split_whitespace).map(str::to_owned));
        calls += 1;
        match part.get("rest_id") {
            Some(rest) => id = text(rest),
            None => break,
        }
        assert_eq!(part["truncated"], true);
    }
    assert_eq!(words.concat(), "ScopeThescopeiswide.ServicesTheyaremany.");
    assert!(calls > 2, "{calls}");
    test.assert_errors(
        "section_reader",
        [
            (json!({ "section_id": "Scope" }), "pdf_outline"),
            (json!({ "section_id": ids[1].replace(".s1", ".s9") }), "no section 9"),
            (json!({ "section_id": format!("{}@7-0", ids[3]) }), "page 7"),
        ],
    )
    .await;
    with_structure(&mut test).await;
    let error = test.error_of("section_reader", json!({ "section_id": ids[1] })).await;
    assert!(error.contains("earlier text"), "{error}");
}

#[tokio::test]
async fn text_is_returned_by_page_and_completely() {
    let mut test = Fixture::new().await;
    let one = test.ok("get_ocr_text", json!({ "page_num": 2.0 })).await;
    assert_eq!((text(&one["text"]).trim(), &one["pages"]), (PAGES[1], &json!(2)));
    let all = text(&test.ok("get_ocr_text", json!({})).await["text"]);
    assert!(all.contains("--- page 1 ---\nInvoice INV-7") && all.contains("--- page 2 ---\nSecond page"), "{all}");
    assert!(test.error_of("get_ocr_text", json!({ "page_num": 3 })).await.contains("has 2 pages"));
}

#[tokio::test]
async fn long_text_is_cut_with_a_mark() {
    let mut test = Fixture::new().await;
    let page = "ä".repeat(20_000);
    let pages = [page.as_str(); 3];
    let long = test.add_document("long", &pages, &[]).await;
    test.context.documents = vec![long];
    let all = test.ok("get_ocr_text", json!({})).await;
    assert!(text(&all["truncated"]).contains("page 2"), "{}", all["truncated"]);
    assert!(text(&all["text"]).ends_with("[… cut]"));
    assert!(all.to_string().len() <= folio_types::limits::TOOL_RESULT_BYTES);
    assert_eq!(test.ok("get_ocr_text", json!({ "page_num": 3 })).await.get("truncated"), None);
}

#[tokio::test]
async fn missing_text_is_reported_with_its_reason() {
    let mut test = Fixture::new().await;
    let (org, id) = (test.context.principal.org.clone(), test.document());
    for (state, says) in [
        (TextState::Processing, "still being extracted"),
        (TextState::NoText("Tesseract is not installed".to_owned()), "Tesseract"),
        (TextState::Failed("malformed".to_owned()), "malformed"),
    ] {
        let update =
            IngestUpdate { state, pages: Vec::new(), lacks_program: false, at: Timestamp::constant(1_790_000_001, 0) };
        test.context.resources.stores.texts.ingest(&org, id.as_str(), update).await.unwrap();
        let message = test.error_of("get_ocr_text", json!({})).await;
        assert!(message.contains(says), "{message}");
    }
    test.context.documents.clear();
    assert!(test.error_of("get_ocr_text", json!({})).await.contains("has no document"));
}

#[tokio::test]
async fn documents_are_listed_by_name_tag_and_metadata() {
    let mut test = Fixture::new().await;
    let tag = test.tag("billing").await;
    test.add_document("Contract.pdf", &["x"], std::slice::from_ref(&tag)).await;
    for (arguments, total) in [
        (json!({}), 2),
        (json!({ "name_search": "CONTR" }), 1),
        (json!({ "tag_ids": [tag] }), 1),
        (json!({ "metadata_search": { "customer": "acm" } }), 2),
        (json!({ "metadata_search": { "customer": "other" } }), 0),
        (json!({ "name_search": "invoice", "tag_ids": [tag] }), 0),
    ] {
        let listed = test.ok("list_documents", arguments.clone()).await;
        assert_eq!(listed["total"], json!(total), "{arguments}");
    }
    let first = &test.ok("list_documents", json!({ "tag_ids": [tag] })).await["documents"][0];
    assert_eq!((&first["document_name"], &first["text"]), (&json!("Contract.pdf"), &json!("ready")));
}

#[tokio::test]
async fn a_document_is_changed_by_id_and_defaults_to_the_conversations_document() {
    let mut test = Fixture::new().await;
    let tag = test.tag("billing").await;
    test.ok("update_document", json!({ "document_name": "a.pdf", "tag_ids": [tag, tag], "metadata": { "k": "v" } }))
        .await;
    let org = test.context.principal.org.clone();
    let stored = async |test: &Fixture| {
        test.context.resources.stores.of::<Document>().get(&org, &test.document()).await.unwrap().unwrap()
    };
    let changed = stored(&test).await;
    assert_eq!((changed.name.as_str(), changed.tags, changed.metadata["k"].as_str()), ("a.pdf", vec![tag], "v"));
    test.ok("update_document", json!({ "document_id": test.document(), "document_name": "b.pdf" })).await;
    let changed = stored(&test).await;
    assert_eq!((changed.name.as_str(), changed.metadata.len()), ("b.pdf", 1));
    let ghost = folio_types::TagId::derive(&["ghost"]);
    let cases = [
        (json!({}), "Nothing to change"),
        (json!({ "document_name": "a\nb" }), "control characters"),
        (json!({ "tag_ids": [ghost] }), "list_tags"),
        (json!({ "metadata": { "": "v" } }), "metadata"),
        (json!({ "document_id": "a.pdf", "document_name": "x" }), "list_documents"),
    ];
    test.assert_errors("update_document", cases).await;
}

#[tokio::test]
async fn a_turn_that_deleted_its_own_document_gets_errors_about_it() {
    let mut test = Fixture::new().await;
    let (_, prompt) = test.invoice_prompt().await;
    test.extract(r#"{"total": 1}"#).await;
    assert!(test.context.working.extraction.is_some());
    let deleted = test.ok("delete_document", json!({})).await;
    assert_eq!(deleted["deleted"], json!(test.document()));
    assert_eq!(test.context.working.extraction, None);
    for (name, arguments) in [
        ("get_ocr_text", json!({})),
        ("run_extraction", json!({ "prompt_revid": prompt })),
        ("get_extraction_result", json!({})),
        ("update_extraction_field", json!({ "path": "total", "value": 2 })),
        ("update_document", json!({ "document_name": "x" })),
        ("delete_document", json!({})),
    ] {
        let message = test.error_of(name, arguments).await;
        assert!(message.contains("was deleted"), "{name}: {message}");
    }
}
