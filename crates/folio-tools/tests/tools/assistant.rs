//! Tests of the assistant's tools: the documents of the thread and the mentions of the message bound what they read, and values of
//! tables are computed by code.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use folio_resources::{Collection, CollectionChange, CollectionId, CollectionRule};
use folio_tools::retrieval::{FoundPassages, PassageFilter, PassageQuery, Retriever};
use folio_tools::{DocumentScope, Registry, ToolError, ToolResources};
use folio_types::op::Expected;
use folio_types::profile::Subject;
use folio_types::{DocumentId, Principal, Result, TagId};
use serde_json::{Value, json};

use crate::fixture::Fixture;
use crate::stacks::{filled_table, write};

/// Records the filter of each search, and finds nothing.
#[derive(Default)]
struct Recorder(Mutex<Vec<PassageFilter>>);

#[async_trait]
impl Retriever for Recorder {
    async fn search(&self, _: &ToolResources, _: &Principal, query: &PassageQuery) -> Result<FoundPassages> {
        self.0.lock().unwrap().push(query.filter.clone());
        Ok(FoundPassages::default())
    }
}

#[tokio::test]
async fn a_thread_about_the_organization_searches_its_documents_or_all() {
    let mut test = Fixture::new().await;
    let recorder = Arc::new(Recorder::default());
    test.context.resources.retriever = recorder.clone();
    test.context.subject = Some(Subject::Organization);
    let (own, other) = (test.document(), DocumentId::derive(&["other"]));
    let named = |id: &DocumentId| json!({ "query": "total", "document_ids": [id] });
    test.call("retrieve_documents", json!({ "query": "total" })).await.unwrap();
    test.call("retrieve_documents", named(&own)).await.unwrap();
    let refused = test.call("retrieve_documents", named(&other)).await.unwrap_err();
    let ToolError::ForModel(message) = refused else { panic!("{refused:?}") };
    assert!(message.contains("is not a document of this conversation"), "{message}");
    test.context.documents.clear();
    test.call("retrieve_documents", json!({ "query": "total" })).await.unwrap();
    test.call("retrieve_documents", named(&other)).await.unwrap();
    let searched: Vec<_> = recorder.0.lock().unwrap().iter().map(|filter| filter.document_ids.clone()).collect();
    assert_eq!(searched, [vec![own.clone()], vec![own], vec![], vec![other]]);
}

/// Creates a collection of the documents with a tag.
async fn collection(test: &Fixture, tag: &TagId) -> CollectionId {
    let id = CollectionId::derive(&["contracts"]);
    let rule = CollectionRule { tags: vec![tag.clone()], metadata: BTreeMap::new() };
    let create = CollectionChange::Create { name: "Contracts".to_owned(), description: None, rule };
    write::<Collection>(test, &id, Expected::Absent, create).await;
    id
}

/// Returns the arguments that name the first section of a document.
async fn section(test: &mut Fixture, document: &DocumentId) -> Value {
    let outline = test.ok("pdf_outline", json!({ "document_id": document })).await;
    json!({ "section_id": outline["sections"][0]["section_id"] })
}

#[tokio::test]
async fn mentioned_tags_and_collections_bound_searches_and_sections() {
    let mut test = Fixture::new().await;
    let (tag, other_tag) = (test.tag("contracts").await, test.tag("other").await);
    let tagged = test.add_document("lease.pdf", &["# Lease", "Rent: 900"], std::slice::from_ref(&tag)).await;
    let collection = collection(&test, &tag).await;
    let own = test.document();
    let (of_tagged, of_untagged) = (section(&mut test, &tagged).await, section(&mut test, &own).await);
    let recorder = Arc::new(Recorder::default());
    test.context.resources.retriever = recorder.clone();
    test.context.subject = Some(Subject::Organization);
    test.context.documents.clear();
    for scope in [
        DocumentScope { tags: vec![tag.clone()], collections: Vec::new() },
        DocumentScope { tags: Vec::new(), collections: vec![collection.clone()] },
        DocumentScope { tags: vec![tag.clone()], collections: vec![collection.clone()] },
    ] {
        test.context.scope = scope.clone();
        test.ok("retrieve_documents", json!({ "query": "rent", "tag_ids": [tag] })).await;
        test.ok("retrieve_documents", json!({ "query": "rent", "tag_ids": [other_tag] })).await;
        let filters = std::mem::take(&mut *recorder.0.lock().unwrap());
        let more = |named: &TagId| [vec![named.clone()], scope.tags.clone()].concat();
        assert_eq!(filters[0].tag_ids, [tag.clone()], "each tag once");
        assert_eq!(filters[1].tag_ids, more(&other_tag));
        assert!(filters.iter().all(|filter| filter.collection_ids == scope.collections));
        test.ok("section_reader", of_tagged.clone()).await;
        let refused = test.error_of("section_reader", of_untagged.clone()).await;
        assert!(refused.contains("is not a document of this conversation"), "{refused}");
    }
    test.context.scope = DocumentScope { collections: vec![CollectionId::derive(&["deleted"])], ..Default::default() };
    let refused = test.error_of("section_reader", of_tagged.clone()).await;
    assert!(
        refused.contains("collection") && refused.contains("not found"),
        "a deleted collection widens nothing: {refused}"
    );
    test.context.scope = DocumentScope::default();
    test.context.documents = vec![own];
    let refused = test.error_of("section_reader", of_tagged).await;
    assert!(refused.contains("is not a document of this conversation"), "{refused}");
}

#[tokio::test]
async fn values_of_tables_count_the_rows_of_readable_documents() {
    let mut test = Fixture::new().await;
    let tag = test.tag("paid").await;
    let (own, other) =
        (test.document(), test.add_document("other.txt", &["Total: 7"], std::slice::from_ref(&tag)).await);
    filled_table(&mut test, &[(&own, 120.5), (&other, 7.0)]).await;
    test.tools = Registry::standard().unwrap().profile("assistant").unwrap();
    test.context.subject = Some(Subject::Organization);
    test.context.documents.clear();
    let listed = test.ok("list_tables", json!({ "name_search": "invoi" })).await;
    let table = &listed["tables"][0];
    assert_eq!((&listed["total"], &table["name"]), (&json!(1), &json!("Invoices")), "{listed}");
    assert_eq!(table["columns"][0], json!({ "name": "Total", "type": "number", "unit": "EUR" }));
    let sum = |stack: &Value| json!({ "stack_id": stack, "function": "sum", "column": "total" });
    for stack in [&table["stack_id"], &json!("invoices")] {
        let found = test.ok("ask_table", sum(stack)).await;
        let result = &found["results"][0];
        assert_eq!((&result["value"], &result["unit"], &found["rows"]), (&json!("127.5"), &json!("EUR"), &json!(2)));
        assert_eq!(result["expression"], "sum(Total) of Invoices");
    }
    test.context.scope = DocumentScope { tags: vec![tag], collections: Vec::new() };
    let found = test.ok("ask_table", sum(&json!("Invoices"))).await;
    assert_eq!((&found["results"][0]["value"], &found["rows"]), (&json!("7"), &json!(1)), "{found}");
    test.context.scope = DocumentScope::default();
    test.context.documents = vec![own];
    let found = test.ok("ask_table", sum(&json!("Invoices"))).await;
    assert_eq!((&found["results"][0]["value"], &found["rows"]), (&json!("120.5"), &json!(1)), "{found}");

    let of = |arguments: Value| {
        let mut all = json!({ "stack_id": "Invoices", "function": "sum", "column": "Total" });
        all.as_object_mut().unwrap().extend(arguments.as_object().unwrap().clone());
        all
    };
    test.assert_errors(
        "ask_table",
        [
            (of(json!({ "stack_id": "Bills" })), "Invoices"),
            (of(json!({ "column": "Sum" })), "\"Total\""),
            (of(json!({ "column": null })), "is required"),
            (of(json!({ "column": "Kind" })), "not defined"),
            (of(json!({ "filter": { "Kind": "letter" } })), "must be one of"),
            (of(json!({ "group_by": ["Sum"] })), "no column"),
        ],
    )
    .await;
}
