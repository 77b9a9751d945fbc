//! Ingestion of documents in one process: without a request, after `kill -9`, and with a lost index.

use std::time::{Duration, Instant};

use folio_proto::v1;
use folio_proto::v1::ingestion_service_client::IngestionServiceClient;

use crate::LIMIT;
use crate::client::Client;
use crate::sandbox::{Sandbox, Setup};

const SCRIPT: &str = "rules: []";
/// Maximum time from an upload until searches find the document, on a busy machine. Shorter than the half minute after which a
/// job that waits starts again, and than the interval of the sweeps.
const SEARCHABLE_WITHIN: Duration = Duration::from_secs(20);

/// Returns the ingestion of a document as soon as its passages are those of its text.
async fn indexed(client: &Client, document: &str) -> v1::Ingestion {
    folio_testkit::wait_for("the passages", LIMIT, || async {
        let request = v1::GetIngestionRequest { document_id: document.to_owned() };
        let found = IngestionServiceClient::new(client.channel.clone()).get_ingestion(request).await.ok()?;
        found.into_inner().ingestion.filter(|found| found.state() == v1::IngestionState::Indexed)
    })
    .await
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
async fn a_document_is_ingested_within_seconds_and_again_after_a_change() {
    let sandbox = Sandbox::start(SCRIPT).await;
    let client = sandbox.client().await;
    let document = client.upload("pumps.md", b"# Pumps\n\nThe pump delivers water.\n").await;
    let ready = Instant::now();
    let first = indexed(&client, &document).await.passages.expect("passages");
    let time = ready.elapsed();
    assert!(time < SEARCHABLE_WITHIN, "{time:?}");
    assert!(first.current && first.count == 1, "{first:?}");
    wait_for_index(&sandbox).await;

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
}
