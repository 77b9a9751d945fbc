//! Tests of the assistant's searches: a thread with documents searches only these.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use folio_tools::retrieval::{FoundPassages, PassageQuery, Retriever};
use folio_tools::{ToolError, ToolResources};
use folio_types::profile::Subject;
use folio_types::{DocumentId, Principal, Result};
use serde_json::json;

use crate::fixture::Fixture;

/// Records the documents of each search, and finds nothing.
#[derive(Default)]
struct Recorder(Mutex<Vec<Vec<DocumentId>>>);

#[async_trait]
impl Retriever for Recorder {
    async fn search(&self, _: &ToolResources, _: &Principal, query: &PassageQuery) -> Result<FoundPassages> {
        self.0.lock().unwrap().push(query.filter.document_ids.clone());
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
    assert_eq!(*recorder.0.lock().unwrap(), [vec![own.clone()], vec![own], vec![], vec![other]]);
}
