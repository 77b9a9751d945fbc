//! A node dies at each step of a job that ingests documents with links to each other: each document has exactly one live
//! generation of passages, no other generation is stored, and each model call is charged once. The checker reads the charges.

use folio_proto::v1;
use folio_proto::v1::ingestion_service_client::IngestionServiceClient;
use folio_proto::v1::provider_service_client::ProviderServiceClient;
use folio_proto::v1::retrieval_service_client::RetrievalServiceClient;
use folio_storage::value::{PassageGeneration, decode};
use folio_testkit::wait_for;
use folio_tests::harness::LIMIT;
use folio_tests::harness::client::Client;
use folio_types::DocumentId;

use crate::job_steps::{assert_done, die, die_and_recover, stop_nodes};
use crate::test_cluster::{EMBEDDING_MODEL, TestCluster, on_cluster};

const SCRIPT: &str = "rules: []";
const DOCUMENTS: usize = 20;

/// Makes the organization compute vectors.
async fn choose_embedding_model(client: &Client) {
    let request =
        v1::SetModelDefaultsRequest { embedding_model: Some(EMBEDDING_MODEL.to_owned()), ..Default::default() };
    let set = ProviderServiceClient::new(client.channel.clone()).set_model_defaults(request).await;
    set.expect("the model is chosen");
}

/// Uploads documents, each with a link to the next one.
async fn upload_linked(client: &Client) -> Vec<String> {
    let mut documents = Vec::new();
    for number in 0..DOCUMENTS {
        let next = (number + 1) % DOCUMENTS;
        let text = format!(
            "# Report {number}\n\nSee [report {next}](report-{next}.md).\n\n## Details\n\nThe pump {number} delivers water.\n"
        );
        documents.push(client.upload(&format!("report-{number}.md"), text.as_bytes()).await);
    }
    documents
}

pub(crate) async fn start_ingestion(client: &Client, document_ids: Vec<String>) -> String {
    let request = v1::StartIngestionRequest { document_ids, ..Default::default() };
    let created = IngestionServiceClient::new(client.channel.clone()).start_ingestion(request).await;
    created.expect("the ingestion is accepted").into_inner().job.expect("a job").job_id
}

/// Returns the group of the rows of the generations of a document.
fn generations_of(document: &DocumentId) -> String {
    format!("passage_generation/{document}")
}

/// Returns the numbers of the stored generations of a document, and the number of the passages of the live one.
async fn stored(test: &TestCluster, document: &str) -> (Vec<u64>, usize) {
    let (stores, org) = (test.stores(), &test.cluster.tenants[0].org);
    let id: DocumentId = document.parse().expect("an id");
    let rows = stores.rows.list(org, &generations_of(&id)).await.expect("the store answers");
    let generation = |row: &Vec<u8>| decode::<PassageGeneration>(row).expect("a generation").generation;
    let Some(head) = stores.passages().head(org, &id).await.expect("the store answers") else {
        return (rows.iter().map(generation).collect(), 0);
    };
    let numbers: Vec<u32> = (0..head.passages).collect();
    let passages = stores.passages().read(org, &id, head.generation, &numbers).await.expect("the store answers");
    assert_eq!(passages.len(), numbers.len(), "the live generation of {document} is complete");
    assert!(passages.iter().all(|passage| passage.vectors.len() == 1), "each passage of {document} has a vector");
    let generations: Vec<u64> = rows.iter().map(generation).collect();
    assert_eq!(generations, [head.generation], "the stored generations of {document}");
    (generations, passages.len())
}

#[test]
fn invariant_3_a_node_may_die_at_each_step_of_an_ingestion() {
    on_cluster(SCRIPT, async |test| {
        let client = test.client(0).await;
        choose_embedding_model(&client).await;
        let documents = upload_linked(&client).await;
        stop_nodes(test);
        let job = start_ingestion(&client, documents.clone()).await;
        die_and_recover(test).await;
        assert_done(&[test.ended_job(&job).await]);
        for document in &documents {
            let (_, passages) = stored(test, document).await;
            assert_eq!(passages, 2, "each section of {document} has a passage");
        }
        test.assert_clean().await;

        let (first, rest) = documents.split_first().expect("a document");
        let request = v1::DeleteDocumentRequest { document_id: first.clone(), ..Default::default() };
        client.documents.clone().delete_document(request).await.expect("the document is deleted");
        let id: DocumentId = first.parse().expect("an id");
        wait_for("the removal of the passages", LIMIT, || async {
            // The passages are removed between two reads, so that the checks of a live generation do not apply.
            let (stores, org) = (test.stores(), &test.cluster.tenants[0].org);
            let head = stores.passages().head(org, &id).await.expect("the store answers");
            let rows = stores.rows.list(org, &generations_of(&id)).await.expect("the store answers");
            (head.is_none() && rows.is_empty()).then_some(())
        })
        .await;
        for document in rest {
            assert_eq!(stored(test, document).await.1, 2, "the passages of other documents remain");
        }
    });
}

#[test]
fn invariant_3_a_node_may_die_between_the_stores_and_the_index() {
    on_cluster(SCRIPT, async |test| {
        let client = test.client(0).await;
        choose_embedding_model(&client).await;
        let document = client.upload("pumps.md", b"# Pumps\n\nThe pump delivers water.\n").await;
        stop_nodes(test);
        let job = start_ingestion(&client, vec![document.clone()]).await;
        die(test, &["passages:before", "passages:after", "index:after"]).await;
        test.start_others(&[]).await;
        assert_done(&[test.ended_job(&job).await]);
        assert_eq!(stored(test, &document).await.1, 1, "the section has a passage");
        let request = v1::SearchRequest { query: "pump".to_owned(), ..Default::default() };
        let retrieval = RetrievalServiceClient::new(client.channel.clone());
        let found = wait_for("the passage in the index", 3 * LIMIT, || async {
            let found = retrieval.clone().search(request.clone()).await.ok()?.into_inner();
            (!found.passages.is_empty()).then_some(found)
        })
        .await;
        assert_eq!(found.passages.len(), 1, "{found:?}");
        test.assert_clean().await;
    });
}
