//! Ingestion of documents in one process: without a request, after `kill -9`, and with a lost index.

use std::collections::BTreeSet;

use folio_proto::v1;
use folio_proto::v1::ingestion_service_client::IngestionServiceClient;
use folio_proto::v1::retrieval_service_client::RetrievalServiceClient;

use crate::LIMIT;
use crate::client::Client;
use crate::sandbox::{Sandbox, Setup};

const SCRIPT: &str = "rules: []";

/// Returns the ingestion of a document as soon as its passages are those of its text.
async fn indexed(client: &Client, document: &str) -> v1::Ingestion {
    folio_testkit::wait_for("the passages", LIMIT, || async {
        let request = v1::GetIngestionRequest { document_id: document.to_owned() };
        let found = IngestionServiceClient::new(client.channel.clone()).get_ingestion(request).await.ok()?;
        found.into_inner().ingestion.filter(|found| found.state() == v1::IngestionState::Indexed)
    })
    .await
}

/// Waits until a search finds these documents, and no other ones.
async fn wait_until_found(client: &Client, query: &str, documents: &[String]) {
    folio_testkit::wait_for("the documents are found", LIMIT, || async {
        let request = v1::SearchRequest { query: query.to_owned(), ..Default::default() };
        let found = RetrievalServiceClient::new(client.channel.clone()).search(request).await.ok()?;
        let found: BTreeSet<String> = found.into_inner().passages.into_iter().map(|found| found.document_id).collect();
        found.iter().eq(documents.iter().collect::<BTreeSet<_>>()).then_some(())
    })
    .await;
}

/// Waits until the index of the only organization has segments.
async fn wait_for_index(sandbox: &Sandbox) {
    let folder = sandbox.data().join("index");
    folio_testkit::wait_for("the index", LIMIT, || async {
        let folders = std::fs::read_dir(&folder).ok()?.flatten().map(|entry| entry.path());
        folders.into_iter().any(|folder| folder.join("segments").is_dir()).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_document_is_found_after_its_upload_and_ingested_again_after_a_change() {
    // No sweep adds the passages to the index: the ingestion of the text does.
    let sandbox = Setup::new(SCRIPT).with("FOLIO_INDEX__SWEEP_INTERVAL_SECONDS", 86_400).start().await;
    let client = sandbox.client().await;
    let document = client.upload("pumps.md", b"# Pumps\n\nThe pump delivers water.\n").await;
    wait_until_found(&client, "pump", std::slice::from_ref(&document)).await;
    let first = indexed(&client, &document).await.passages.expect("passages");
    assert!(first.current && first.count == 1, "{first:?}");

    let changed = v1::Document { document_id: document.clone(), name: "fans.md".to_owned(), ..Default::default() };
    let request = v1::UpdateDocumentRequest { document: Some(changed), ..Default::default() };
    client.documents.clone().update_document(request).await.expect("the document is renamed");
    folio_testkit::wait_for("another generation", LIMIT, || async {
        let passages = indexed(&client, &document).await.passages.expect("passages");
        (passages.generation != first.generation).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_server_ends_its_ingestions_and_rebuilds_a_lost_index() {
    let mut sandbox = Setup::new(SCRIPT).with("FOLIO_INDEX__SWEEP_INTERVAL_SECONDS", 1).start().await;
    let client = sandbox.client().await;
    let mut documents = Vec::new();
    for number in 0..5 {
        let text = format!("# Report {number}\n\nSee [the next one](report-{}.md).\n", number + 1);
        documents.push(client.upload(&format!("report-{number}.md"), text.as_bytes()).await);
    }
    sandbox.kill();
    let _ = std::fs::remove_dir_all(sandbox.data().join("index"));
    let client = sandbox.restart().await;
    for document in &documents {
        let passages = indexed(&client, document).await.passages.expect("passages");
        assert!(passages.current && passages.count == 1, "{passages:?}");
    }
    wait_for_index(&sandbox).await;
    wait_until_found(&client, "report", &documents).await;
}
