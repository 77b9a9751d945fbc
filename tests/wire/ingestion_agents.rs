//! The modes `fast` and `agentic` of an ingestion, with a scripted model, and a server that is killed while agents work.

use folio_proto::v1;
use folio_proto::v1::ingestion_service_client::IngestionServiceClient;
use folio_testkit::wait_for;
use folio_tests::harness::ingestion::{AGENT_RULES, manual};

use crate::LIMIT;
use crate::client::{Authorized, Client};
use crate::sandbox::Sandbox;

/// The last agent waits at the gate `index` before its second model call.
const GATED_RULE: &str = r#"
  - when: {system: {contains: You make the chunks of one document searchable}, round: 2}
    fault: {hold: {gate: index}}
    answer:
      calls: [{name: rag_chunk_index, arguments: {chunks_id: "{{last.ingestion_status.chunks.0.chunks_id}}"}}]
"#;

pub(crate) fn ingestions(client: &Client) -> IngestionServiceClient<Authorized> {
    IngestionServiceClient::new(client.channel.clone())
}

/// Uploads a document, and waits until its text was ingested without a request.
pub(crate) async fn upload(client: &Client, name: &str, text: &str) -> String {
    let document = client.upload(name, text.as_bytes()).await;
    wait_until_ingested(client, &document).await;
    document
}

/// Waits until the index contains the passages of the text of a document.
pub(crate) async fn wait_until_ingested(client: &Client, document: &str) {
    wait_for("the passages", LIMIT, || async {
        let request = v1::GetIngestionRequest { document_id: document.to_owned() };
        let found = ingestions(client).get_ingestion(request).await.ok()?.into_inner().ingestion?;
        (found.state() == v1::IngestionState::Indexed).then_some(())
    })
    .await;
}

pub(crate) async fn start(client: &Client, document: &str, mode: v1::IngestionMode) -> String {
    let request = v1::StartIngestionRequest {
        document_ids: vec![document.to_owned()],
        mode: mode.into(),
        ..v1::StartIngestionRequest::default()
    };
    let created = ingestions(client).start_ingestion(request).await.unwrap().into_inner();
    created.job.unwrap().job_id
}

/// Waits for the end of a job, and returns the passages of its document.
pub(crate) async fn ended(client: &Client, job_id: &str, document: &str) -> v1::DocumentPassages {
    let job = wait_for("the job ends", 3 * LIMIT, || async {
        let request = v1::GetJobRequest { job_id: job_id.to_owned() };
        let job = client.jobs.clone().get_job(request).await.ok()?.into_inner().job?;
        matches!(job.state(), v1::JobState::Completed | v1::JobState::Failed).then_some(job)
    })
    .await;
    assert_eq!((job.state(), job.done_items), (v1::JobState::Completed, 1), "{job:?}");
    let request = v1::GetIngestionRequest { document_id: document.to_owned() };
    let found = ingestions(client).get_ingestion(request).await.unwrap().into_inner().ingestion.unwrap();
    assert_eq!((found.state(), found.job_id.as_str()), (v1::IngestionState::Indexed, job_id), "{found:?}");
    found.passages.unwrap()
}

#[tokio::test]
async fn both_modes_index_a_document_and_agents_continue_after_a_kill() {
    let mut sandbox = Sandbox::start(format!("rules:{GATED_RULE}{AGENT_RULES}")).await;
    let client = sandbox.client().await;
    let document = upload(&client, "manual.md", &manual()).await;
    let fast = start(&client, &document, v1::IngestionMode::Fast).await;
    let by_code = ended(&client, &fast, &document).await;
    let calls = sandbox.sim.chat_requests().await.len();
    assert_eq!(calls, 3, "two sections and the document");

    // The server dies while the last agent waits for the model.
    let document = upload(&client, "copy.md", &manual()).await;
    let agentic = start(&client, &document, v1::IngestionMode::Agentic).await;
    sandbox.sim.wait_for_waiting_request().await;
    sandbox.kill();
    sandbox.sim.open_gate("index").await;
    let client = sandbox.restart().await;
    let by_agents = ended(&client, &agentic, &document).await;
    assert_eq!((by_agents.count, by_agents.current), (by_code.count, true));
    let request = v1::ListThreadsRequest::default();
    let listed = client.threads.clone().list_threads(request).await.unwrap().into_inner();
    assert!(listed.threads.is_empty(), "the threads of agents are hidden");
}
