//! A proposal whose node is killed is made once, over Redis and a CQL server.

use folio_proto::v1;
use folio_tests::harness::client::Client;
use folio_tests::harness::settings::INVOICE;

use crate::jobs::owner;
use crate::test_cluster::on_cluster;

/// The model call of the second round waits until the gate `g` is opened.
const SCRIPT: &str = r#"
rules:
  - when: {response_format: true}
    answer: {text: '{"total": 957}'}
  - when: {user: {contains: Analyze this document}, round: 1}
    answer:
      calls:
        - name: create_schema
          arguments:
            name: Invoice
            response_format:
              type: json_schema
              json_schema:
                name: invoice
                strict: true
                schema:
                  type: object
                  properties: {total: {type: number}}
                  required: [total]
                  additionalProperties: false
        - name: create_prompt
          arguments: {name: Invoice, content: Read the total., schema_id: $create_schema.schema_id}
  - when: {user: {contains: Analyze this document}, round: 2}
    fault: {hold: {gate: g}}
    answer: {calls: [{name: run_extraction, arguments: {}}]}
  - when: {user: {contains: Analyze this document}}
    answer: {text: An invoice.}
"#;

#[test]
fn invariant_5_a_run_of_a_killed_node_makes_one_proposal() {
    on_cluster(SCRIPT, async |test| {
        let client = test.client(0).await;
        let document_id = upload_with_auto_create(&client, "auto.txt").await;

        test.cluster.sim.wait_for_waiting_request().await;
        let jobs = client.jobs.clone().list_jobs(v1::ListJobsRequest::default()).await;
        let job = jobs.expect("a list").into_inner().jobs.remove(0);
        assert_eq!(job.kind, "auto_create");
        let number = owner(test, &job.job_id).await;
        test.node(number).kill();
        test.cluster.sim.open_gate("g").await;

        let client = test.client(1).await;
        let ended = test.ended_job(&job.job_id).await;
        assert_eq!(ended.state(), v1::JobState::Completed, "{ended:?}");
        let request = v1::ListProposalsRequest { filter: format!("document:{document_id}"), ..Default::default() };
        let listed = client.proposals.clone().list_proposals(request).await;
        let listed = listed.expect("a list").into_inner();
        assert_eq!((listed.total_size, listed.proposals[0].state()), (1, v1::ProposalState::Proposed), "{listed:?}");
        let schemas = client.schemas.clone().list_schemas(v1::ListSchemasRequest::default()).await;
        let prompts = client.prompts.clone().list_prompts(v1::ListPromptsRequest::default()).await;
        let extractions = client.extractions.clone().list_extractions(v1::ListExtractionsRequest::default()).await;
        let totals = (
            schemas.expect("a list").into_inner().total_size,
            prompts.expect("a list").into_inner().total_size,
            extractions.expect("a list").into_inner().total_size,
        );
        assert_eq!(totals, (1, 1, 1), "nothing is left of an interrupted attempt");
        test.assert_clean().await;
    });
}

/// Uploads a document with automatic creation, without waiting for its text. Returns its id.
pub(crate) async fn upload_with_auto_create(client: &Client, name: &str) -> String {
    let description = v1::DocumentDescription { name: name.to_owned(), auto_create: Some(true), ..Default::default() };
    client.try_upload_as(description, INVOICE.as_bytes()).await.expect("the upload is accepted").document_id
}
