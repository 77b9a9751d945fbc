//! A node dies at each step of each kind of job, before and after its write: the job ends once, with one result for each item, one
//! charge for each model call, and no orphan. The checker reads the charges and finds orphans.

use std::collections::BTreeSet;

use axum::http::HeaderMap;
use folio_proto::v1;
use folio_proto::v1::webhook_endpoint_service_client::WebhookEndpointServiceClient;
use folio_testkit::wait_for;
use folio_tests::harness::LIMIT;
use folio_tests::harness::client::Client;
use folio_tests::harness::settings::INVOICE;
use folio_tests::harness::webhook_receiver::receiver;

use crate::jobs::report;
use crate::proposals::upload_with_auto_create;
use crate::steps::die_at_each;
use crate::test_cluster::{TestCluster, on_cluster};

/// The second window of a long document waits until the gate `g` is opened.
const SCRIPT: &str = r#"
rules:
  - when: {user: {contains: Part 2 of}}
    fault: {hold: {gate: g}}
    answer: {text: '{"total": 957}'}
  - when: {response_format: true}
    answer: {text: '{"total": 957}'}
  - when: {user: {contains: Analyze this document}}
    rounds:
      - calls: [{name: get_ocr_text}]
      - calls:
          - name: create_schema
            arguments:
              name: 'Invoice {{last.get_ocr_text.document_id}}'
              response_format:
                type: json_schema
                json_schema:
                  name: bill
                  strict: true
                  schema: {type: object, properties: {total: {type: number}}, required: [total], additionalProperties: false}
          - name: create_prompt
            arguments:
              name: 'Invoice {{last.get_ocr_text.document_id}}'
              content: Read the total.
              schema_id: $create_schema.schema_id
      - calls: [{name: run_extraction, arguments: {}}]
      - text: An invoice.
"#;

/// Steps of every job until the end of its first item, and afterwards.
const FIRST_STEPS: [&str; 4] = ["start:before", "start:after", "begin:before", "begin:after"];
const LAST_STEPS: [&str; 4] = ["finish:before", "finish:after", "complete:before", "complete:after"];
/// Steps of a job that stores the progress of its item.
const PROGRESS_STEPS: [&str; 2] = ["checkpoint:before", "checkpoint:after"];
/// Steps of the turn of a run, in groups, because an item fails after five attempts. A death may interrupt two of them: the one of
/// the dead owner, and one that finds the turn failed.
pub(crate) const TURN_STEPS: [[&str; 2]; 3] =
    [["accept:after", "model:after"], ["intent:after", "write:after"], ["outcome:after", "end:after"]];
/// Number of lines of a document with at least three windows.
const LINES: usize = 8_000;
const DOCUMENTS: usize = 6;

/// Stops all nodes, so that the first one that starts runs every job. The gateways accept requests meanwhile.
pub(crate) fn stop_nodes(test: &mut TestCluster) {
    test.cluster.nodes.iter_mut().for_each(|node| node.kill());
}

/// Makes the only running node die at each of these steps, one after another.
pub(crate) async fn die(test: &mut TestCluster, steps: &[&str]) {
    let missed = die_at_each(test.node(0), steps).await;
    assert!(missed.is_empty(), "the node did not reach {missed:?}");
}

/// Makes the only running node die at the steps of every job, and then starts all nodes.
pub(crate) async fn die_and_recover(test: &mut TestCluster) {
    die(test, &[FIRST_STEPS, LAST_STEPS].concat()).await;
    test.start_others(&[]).await;
}

/// Starts a batch. Returns its job.
pub(crate) async fn run_batch(client: &Client, document_ids: Vec<String>, prompt_revid: String) -> String {
    let request = v1::RunExtractionsRequest { document_ids, prompt_revid, ..Default::default() };
    let created = client.extractions.clone().run_extractions(request).await.expect("the batch is accepted");
    created.into_inner().job.expect("a job").job_id
}

/// Returns the jobs of a kind, as soon as they have ended.
async fn ended_jobs(test: &TestCluster, kind: &str) -> Vec<v1::Job> {
    let client = test.client(1).await;
    let listed = wait_for("the list of jobs", LIMIT, || async {
        let request = v1::ListJobsRequest { filter: format!("kind:{kind}"), ..Default::default() };
        client.jobs.clone().list_jobs(request).await.ok()
    })
    .await;
    let mut ended = Vec::new();
    for job in listed.into_inner().jobs {
        ended.push(test.ended_job(&job.job_id).await);
    }
    ended
}

/// Returns the documents of all extractions, in order.
pub(crate) async fn extracted(test: &TestCluster) -> Vec<String> {
    let request = v1::ListExtractionsRequest::default();
    let listed = test.client(1).await.extractions.list_extractions(request).await.expect("a list").into_inner();
    let mut documents: Vec<_> = listed.extractions.into_iter().map(|found| found.document_id).collect();
    documents.sort();
    documents
}

/// Asserts that each item of the jobs is done.
#[track_caller]
pub(crate) fn assert_done(jobs: &[v1::Job]) {
    let is_done = |job: &v1::Job| {
        let mut states = job.items.iter().map(v1::JobItem::state);
        job.state() == v1::JobState::Completed && states.all(|state| state == v1::JobItemState::Done)
    };
    assert!(!jobs.is_empty() && jobs.iter().all(is_done), "{jobs:?}");
}

#[test]
fn invariant_5_a_node_may_die_at_each_step_of_a_long_extraction() {
    on_cluster(SCRIPT, async |test| {
        let client = test.client(0).await;
        let document = client.upload("report.txt", report(LINES).as_bytes()).await;
        let prompt = test.prompt("total", Vec::new()).await.prompt_revid;
        stop_nodes(test);
        let job = run_batch(&client, vec![document.clone()], prompt).await;
        die(test, &[&FIRST_STEPS[..], &PROGRESS_STEPS].concat()).await;
        test.cluster.sim.open_gate("g").await;
        die(test, &LAST_STEPS).await;
        test.start_others(&[]).await;
        let ended = test.ended_job(&job).await;
        assert_eq!(ended.items[0].attempts, 5, "four attempts were interrupted: {ended:?}");
        assert_done(&[ended]);
        assert_eq!(extracted(test).await, [document]);
        let requests = test.cluster.sim.all_chat_requests().await;
        let calls = |part: &str| requests.iter().filter(|request| request.body.to_string().contains(part)).count();
        assert_eq!((calls("Part 1 of"), calls("Part 3 of")), (1, 1), "an answered window is not paid again");
        test.assert_clean().await;
    });
}

#[test]
fn invariant_3_a_node_may_die_at_each_step_of_a_run_by_a_tag() {
    on_cluster(SCRIPT, async |test| {
        let client = test.client(0).await;
        let tag = v1::Tag { name: "paid".to_owned(), ..Default::default() };
        let request = v1::CreateTagRequest { tag: Some(tag), ..Default::default() };
        let tag = client.tags.clone().create_tag(request).await.expect("the tag is created").into_inner();
        let tag_ids = vec![tag.tag.expect("a tag").tag_id];
        test.prompt("total", tag_ids.clone()).await;
        stop_nodes(test);
        let document = v1::Document { document_id: test.document.clone(), tag_ids, ..Default::default() };
        let request = v1::UpdateDocumentRequest { document: Some(document), ..Default::default() };
        client.documents.clone().update_document(request).await.expect("the document is tagged");
        die_and_recover(test).await;
        let jobs = ended_jobs(test, "extraction").await;
        assert_done(&jobs);
        assert_eq!(jobs.len(), 1, "{jobs:?}");
        assert_eq!(extracted(test).await, std::slice::from_ref(&test.document));
        test.assert_clean().await;
    });
}

#[test]
fn invariant_3_a_node_may_die_at_each_step_of_a_batch() {
    on_cluster(SCRIPT, async |test| {
        let client = test.client(0).await;
        let mut documents = Vec::new();
        for number in 0..DOCUMENTS {
            documents.push(client.upload(&format!("{number}.txt"), INVOICE.as_bytes()).await);
        }
        let prompt = test.prompt("total", Vec::new()).await.prompt_revid;
        stop_nodes(test);
        let job = run_batch(&client, documents.clone(), prompt).await;
        die_and_recover(test).await;
        let ended = test.ended_job(&job).await;
        assert_done(std::slice::from_ref(&ended));
        let results: BTreeSet<_> = ended.items.iter().map(|item| &item.result_json).collect();
        assert_eq!(results.len(), DOCUMENTS, "{ended:?}");
        documents.sort();
        assert_eq!(extracted(test).await, documents);
        test.assert_clean().await;
    });
}

/// Asserts that an agent made one proposal for each of these documents, and that nothing else is left of its attempts.
async fn assert_proposed(test: &TestCluster, documents: &[String]) {
    let client = test.client(1).await;
    let listed = client.proposals.clone().list_proposals(v1::ListProposalsRequest::default()).await;
    let proposals = listed.expect("a list").into_inner().proposals;
    assert!(proposals.iter().all(|found| found.state() == v1::ProposalState::Proposed), "{proposals:?}");
    let mut proposed: Vec<_> = proposals.into_iter().map(|found| found.document_id).collect();
    proposed.sort();
    let mut documents = documents.to_vec();
    documents.sort();
    assert_eq!(proposed, documents);
    let schemas = client.schemas.clone().list_schemas(v1::ListSchemasRequest::default()).await;
    let prompts = client.prompts.clone().list_prompts(v1::ListPromptsRequest::default()).await;
    let totals = (schemas.expect("a list").into_inner().total_size, prompts.expect("a list").into_inner().total_size);
    let count = i32::try_from(documents.len()).expect("a small number");
    assert_eq!(totals, (count, count), "nothing is left of an interrupted attempt");
    assert_eq!(extracted(test).await, documents);
}

#[test]
fn invariant_3_a_node_may_die_at_each_step_of_the_job_of_a_proposal() {
    on_cluster(SCRIPT, async |test| {
        let client = test.client(0).await;
        stop_nodes(test);
        let document = upload_with_auto_create(&client, "auto.txt").await;
        die_and_recover(test).await;
        assert_done(&ended_jobs(test, "auto_create").await);
        assert_proposed(test, &[document]).await;
        test.assert_clean().await;
    });
}

#[test]
fn invariant_3_a_node_may_die_at_each_step_of_the_run_of_a_proposal() {
    on_cluster(SCRIPT, async |test| {
        let client = test.client(0).await;
        let mut documents = Vec::new();
        for (number, steps) in TURN_STEPS.iter().enumerate() {
            stop_nodes(test);
            documents.push(upload_with_auto_create(&client, &format!("auto {number}.txt")).await);
            die(test, steps).await;
            test.start_others(&[]).await;
            assert_done(&ended_jobs(test, "auto_create").await);
        }
        assert_proposed(test, &documents).await;
        test.assert_clean().await;
    });
}

#[test]
fn a_node_may_die_at_each_step_of_a_webhook_delivery() {
    on_cluster(SCRIPT, async |test| {
        let (received, url) = receiver().await;
        let client = test.client(0).await;
        let endpoint = v1::WebhookEndpoint {
            url,
            event_types: vec!["extraction.completed".to_owned()],
            enabled: true,
            ..Default::default()
        };
        let request = v1::CreateWebhookEndpointRequest { webhook_endpoint: Some(endpoint), ..Default::default() };
        let mut endpoints = WebhookEndpointServiceClient::new(client.channel.clone());
        let created = endpoints.create_webhook_endpoint(request).await.expect("the endpoint is created").into_inner();
        let webhook_endpoint_id = created.webhook_endpoint.expect("an endpoint").webhook_endpoint_id;
        let prompt_revid = test.prompt("total", Vec::new()).await.prompt_revid;
        stop_nodes(test);
        // The gateway runs the prompt, and stores the event.
        let request =
            v1::RunExtractionRequest { document_id: test.document.clone(), prompt_revid, ..Default::default() };
        client.extractions.clone().run_extraction(request).await.expect("the document is extracted");
        die_and_recover(test).await;
        let delivery = wait_for("the end of the delivery", 3 * LIMIT, || async {
            let request = v1::ListWebhookDeliveriesRequest {
                webhook_endpoint_id: webhook_endpoint_id.clone(),
                ..Default::default()
            };
            let listed = endpoints.clone().list_webhook_deliveries(request).await.ok()?.into_inner();
            let [delivery] = &listed.webhook_deliveries[..] else { panic!("one delivery is expected: {listed:?}") };
            delivery.end_time.is_some().then(|| delivery.clone())
        })
        .await;
        assert_eq!(delivery.state(), v1::WebhookDeliveryState::Delivered, "{delivery:?}");
        assert_eq!(delivery.attempts, 3, "{delivery:?}");
        let id = |headers: &HeaderMap| headers["webhook-id"].to_str().expect("a text").to_owned();
        let requests = received.lock().expect("no holder panicked").clone();
        let ids: BTreeSet<_> = requests.iter().map(|(headers, _)| id(headers)).collect();
        assert_eq!(ids, BTreeSet::from([delivery.event_id.clone()]), "each attempt sends the same event");
        test.assert_clean().await;
    });
}
