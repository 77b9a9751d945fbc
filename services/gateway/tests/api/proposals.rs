//! Proposals: runs of the agent on uploaded documents, and the decisions about their results.

use std::time::Duration;

use folio_history::job::{AUTO_CREATE_KIND, AutoCreateInput, JobLimits, JobQueue, NewJob};
use folio_resources::{Document, TextState};
use folio_storage::{IngestUpdate, create_job};
use folio_testkit::wait_for;
use folio_types::access::Scope;
use folio_types::{DocumentId, Environment as _, JobId, Principal, Reason, Role, System, Timestamp};
use serde_json::{Value, json};

use crate::harness::{Answer, Client, Server, format};

const LIMIT: Duration = Duration::from_secs(30);

/// Creates the job that the write of a text creates, for the current text of a document. `budget`: the credit budget of the upload.
/// Returns the id of the job.
async fn start_run(server: &Server, client: &Client, document: &DocumentId, budget: Option<u64>) -> String {
    let found = server.stores.of::<Document>().get_with_text(&client.org, document).await.unwrap().unwrap();
    let at = found.1.unwrap().at;
    let new = NewJob {
        id: JobId::derive(&[document.as_str(), &at.to_string()]),
        principal: Principal::new(client.org.clone(), client.user.clone(), Role::Member),
        kind: AUTO_CREATE_KIND.to_owned(),
        input: json!(AutoCreateInput { at, run_budget: budget }),
        items: vec![document.to_string()],
        running_max: Duration::from_secs(600),
        at,
    };
    let stores = &server.stores;
    let job = create_job(&*stores.jobs, &stores.job_pages(), &JobLimits::default(), new).await.unwrap();
    server.node_parts.jobs.hints.push(JobQueue::Work, &client.org, &job.id).await;
    job.id.to_string()
}

/// Uploads a document and runs the agent on it. Returns the proposal.
async fn propose(server: &Server, client: &Client, name: &str) -> Value {
    propose_within(server, client, name, None).await
}

/// Like [`propose`], with the credit budget of the upload.
async fn propose_within(server: &Server, client: &Client, name: &str, budget: Option<u64>) -> Value {
    let document: DocumentId = client.ready_document(name, "Invoice\nTotal 12.50").await.document_id.parse().unwrap();
    start_run(server, client, &document, budget).await;
    proposal_of(client, &document).await
}

/// Waits for the proposal of a document.
async fn proposal_of(client: &Client, document: &DocumentId) -> Value {
    wait_for("the proposal", LIMIT, || async {
        let listed = client.call_ok("ListProposals", json!({ "filter": format!("document:{document}") })).await;
        listed["proposals"].as_array().and_then(|found| found.first().cloned())
    })
    .await
}

fn create_schema(name: &str) -> (&'static str, Value) {
    let response_format: Value = serde_json::from_str(&format("total")).unwrap();
    ("create_schema", json!({ "name": name, "response_format": response_format }))
}

/// The calls of a run that succeeds.
fn calls(name: &str) -> Answer {
    let prompt = json!({ "name": name, "content": "Read the total.", "schema_id": "$create_schema.schema_id" });
    let run = json!({ "prompt_revid": "$create_prompt.prompt_revid" });
    Answer::Calls(vec![create_schema(name), ("create_prompt", prompt), ("run_extraction", run)])
}

/// Scripts a run that succeeds.
fn script(server: &Server, name: &str) {
    server.model.next(calls(name));
    server.model.answer(r#"{"total": 12.5}"#);
    server.model.answer("An invoice with its total.");
}

/// Returns the number of items that a list has.
async fn total(client: &Client, list: &str, request: Value) -> i64 {
    client.call_ok(list, request).await["total_size"].as_i64().unwrap_or_default()
}

/// Returns the numbers of schemas, prompts and extractions.
async fn counts(client: &Client) -> [i64; 3] {
    let lists = ["ListSchemas", "ListPrompts", "ListExtractions"];
    futures::future::join_all(lists.map(|list| total(client, list, json!({})))).await.try_into().unwrap()
}

#[tokio::test]
async fn a_proposal_is_accepted_with_a_tag_for_later_documents() {
    let server = Server::start().await;
    let client = server.member().await;
    script(&server, "Invoice");
    let proposal = propose(&server, &client, "a.txt").await;
    assert_eq!(
        (&proposal["state"], &proposal["document_type"]),
        (&json!("PROPOSAL_STATE_PROPOSED"), &json!("Invoice"))
    );
    let extraction = json!({ "extraction_id": proposal["extraction_id"] });
    let extraction = client.call_ok("GetExtraction", extraction).await["extraction"].clone();
    assert_eq!(extraction["prompt_revid"], proposal["prompt_revid"]);
    assert_eq!(extraction["schema_revid"], proposal["schema_revid"]);
    assert_eq!(total(&client, "ListThreads", json!({})).await, 0, "the thread of the run is hidden");
    let log = client.call_ok("GetThread", json!({ "thread_id": proposal["thread_id"] })).await;
    assert!(log["messages"].to_string().contains("Analyze this document."), "{log}");

    let marks = async || {
        let schemas = client.call_ok("ListSchemas", json!({})).await["schemas"][0]["pending_proposal_id"].clone();
        let prompts = client.call_ok("ListPrompts", json!({})).await["prompts"][0]["pending_proposal_id"].clone();
        [schemas, prompts]
    };
    assert_eq!(marks().await, [proposal["proposal_id"].clone(), proposal["proposal_id"].clone()]);
    let inbox = async || client.call_ok("ListInboxItems", json!({ "filter": "kind:proposal" })).await["items"].clone();
    assert_eq!(inbox().await[0]["item_id"], proposal["proposal_id"]);

    // Another document has the tag already.
    let (tag, tagged) = (client.tag("invoice").await, client.ready_document("b.txt", "Total 20").await.document_id);
    client.call_ok("UpdateDocument", json!({ "document": { "document_id": tagged, "tag_ids": [tag] } })).await;
    let calls = server.model.calls();
    let accept = json!({ "proposal_id": proposal["proposal_id"], "tag_name": "Invoice", "request_id": "a" });
    let accepted = client.call_ok("AcceptProposal", accept.clone()).await;
    assert_eq!(accepted["proposal"]["state"], "PROPOSAL_STATE_ACCEPTED");
    assert_eq!(accepted["tag_id"], json!(tag), "names of tags are unique without regard to case");
    let plan = &accepted["tag_run_plan"];
    assert_eq!((&plan["document_ids"], &plan["job"]), (&json!([tagged]), &Value::Null), "{plan}");
    assert_eq!(server.model.calls(), calls, "no job runs the prompt, because the organization permits none");
    assert_eq!(client.call_ok("AcceptProposal", accept).await, accepted, "a repeated request");
    assert_eq!(marks().await, [Value::Null, Value::Null], "an accepted prompt is ordinary");
    assert_eq!(inbox().await, Value::Null, "nothing waits");
    let prompt = client.call_ok("GetPromptRevision", json!({ "prompt_revid": prompt_of(&proposal) })).await;
    assert_eq!(prompt["prompt_revision"]["tag_ids"], json!([accepted["tag_id"]]));
    let decided = client.refusal("RejectProposal", json!({ "proposal_id": proposal["proposal_id"] })).await;
    assert_eq!(decided.reason, Reason::ProposalDecided);
    assert_eq!(total(&client, "ListProposals", json!({ "filter": "state:proposed" })).await, 0);
    server.stop().await;
}

/// Returns the id of the prompt of a proposal.
fn prompt_of(proposal: &Value) -> String {
    proposal["prompt_revid"].as_str().unwrap().split_once('.').unwrap().0.to_owned()
}

#[tokio::test]
async fn each_new_thread_about_the_document_starts_from_its_open_or_accepted_proposal() {
    let server = Server::start().await;
    let client = server.member().await;
    let admin = server.user(&client.org, Role::Admin).await;
    admin.call_ok("UpdateOrganization", json!({ "organization": { "auto_create": true } })).await;
    script(&server, "Invoice");
    let proposal = propose(&server, &client, "a.txt").await;
    let id = json!({ "proposal_id": proposal["proposal_id"], "request_id": "refine" });
    let refined = client.call_ok("RefineProposal", id.clone()).await["thread"].clone();
    assert_eq!(client.call_ok("RefineProposal", id).await["thread"], refined, "a repeated request");
    assert_eq!(refined["profile"], "document");
    let create = json!({ "document_ids": [proposal["document_id"]] });
    client.call_ok("AcceptProposal", json!({ "proposal_id": proposal["proposal_id"] })).await;
    let created = client.call_ok("CreateThread", create.clone()).await["thread"].clone();
    for thread in [refined, created] {
        let working = &thread["working_state"];
        assert_eq!(working["prompt_revid"], proposal["prompt_revid"], "{thread}");
        assert_eq!(working["schema_revid"], proposal["schema_revid"], "{thread}");
        assert!(working.to_string().contains(proposal["extraction_id"].as_str().unwrap()), "{thread}");
    }
    server.stop().await;
}

#[tokio::test]
async fn a_similar_document_gets_the_accepted_prompt_proposed() {
    let server = Server::start().await;
    let client = server.member().await;
    script(&server, "Invoice");
    let accepted = propose(&server, &client, "a.txt").await;
    client.call_ok("AcceptProposal", json!({ "proposal_id": accepted["proposal_id"] })).await;
    let calls = server.model.calls();
    server.model.answer(r#"{"total": 20}"#);
    let similar = propose(&server, &client, "b.txt").await;
    assert_eq!(server.model.calls(), calls + 1, "only the extraction calls the model");
    assert_eq!(similar["state"], "PROPOSAL_STATE_PROPOSED");
    assert_eq!(similar["similar_proposal_id"], accepted["proposal_id"]);
    assert_eq!(prompt_of(&similar), prompt_of(&accepted));
    assert!(similar["similarity"].as_f64().unwrap() >= similar["similarity_threshold"].as_f64().unwrap());
    assert_eq!(counts(&client).await, [1, 1, 2]);
    let prompts = client.call_ok("ListPrompts", json!({})).await;
    assert_eq!(prompts["prompts"][0]["pending_proposal_id"], Value::Null, "the prompt was accepted before");
    client.call_ok("RejectProposal", json!({ "proposal_id": similar["proposal_id"] })).await;
    assert_eq!(counts(&client).await, [1, 1, 1], "the accepted prompt is kept");
    // The records follow the settlements, which the jobs do not wait for.
    let records = wait_for("the records of all model calls", LIMIT, || async {
        let records = server.stores.usage.list(&client.org, Timestamp::UNIX_EPOCH, 100).await.unwrap();
        (records.len() == server.model.calls()).then_some(records)
    })
    .await;
    let operations: Vec<_> = records.iter().map(|record| record.operation.as_str()).collect();
    assert_eq!(operations, ["auto_create"; 4], "those of the turn, of its tool, and of the run without an agent");
    server.stop().await;
}

#[tokio::test]
async fn a_run_makes_no_model_call_that_may_exceed_the_credit_budget_of_its_upload() {
    let server = Server::start().await;
    let client = server.member().await;
    server.model.next(calls("Invoice"));
    let failed = propose_within(&server, &client, "a.txt", Some(1)).await;
    assert_eq!(failed["state"], "PROPOSAL_STATE_FAILED", "{failed}");
    assert!(failed["reason"].as_str().unwrap().contains("credit budget of 1"), "{failed}");
    assert_eq!((server.model.calls(), counts(&client).await), (1, [0, 0, 0]));

    script(&server, "Invoice");
    let accepted = propose_within(&server, &client, "b.txt", Some(10)).await;
    client.call_ok("AcceptProposal", json!({ "proposal_id": accepted["proposal_id"] })).await;
    let calls = server.model.calls();
    // The answer contradicts the schema, and the budget covers no correction.
    server.model.answer(r#"{"total": []}"#);
    let similar = propose_within(&server, &client, "c.txt", Some(1)).await;
    assert_eq!(similar["state"], "PROPOSAL_STATE_FAILED", "{similar}");
    assert!(similar["reason"].as_str().unwrap().contains("credit budget of 1"), "{similar}");
    assert_eq!(server.model.calls(), calls + 1);
    server.stop().await;
}

#[tokio::test]
async fn a_rejected_proposal_leaves_nothing_that_is_unused() {
    let server = Server::start().await;
    let client = server.member().await;
    script(&server, "Invoice");
    let proposal = propose(&server, &client, "a.txt").await;
    let id = json!({ "proposal_id": proposal["proposal_id"] });
    let rejected = client.call_ok("RejectProposal", id.clone()).await;
    assert_eq!(rejected["proposal"]["state"], "PROPOSAL_STATE_REJECTED");
    assert_eq!(counts(&client).await, [0, 0, 0]);
    assert_eq!(client.refusal("AcceptProposal", id.clone()).await.reason, Reason::ProposalDecided);
    assert_eq!(client.refusal("RefineProposal", id).await.reason, Reason::ProposalDecided);

    // Another extraction uses the prompt and the schema of the second proposal.
    script(&server, "Receipt");
    let proposal = propose(&server, &client, "b.txt").await;
    let other = client.ready_document("c.txt", "Total 20").await.document_id;
    server.model.answer(r#"{"total": 20}"#);
    let run = json!({ "document_id": other, "prompt_revid": proposal["prompt_revid"] });
    client.call_ok("RunExtraction", run).await;
    client.call_ok("RejectProposal", json!({ "proposal_id": proposal["proposal_id"] })).await;
    assert_eq!(counts(&client).await, [1, 1, 1]);
    server.stop().await;
}

#[tokio::test]
async fn a_run_without_an_extraction_fails_and_leaves_nothing() {
    let server = Server::start().await;
    let client = server.member().await;
    server.model.next(Answer::Calls(vec![create_schema("Invoice")]));
    server.model.answer("I cannot continue.");
    let proposal = propose(&server, &client, "a.txt").await;
    assert_eq!(proposal["state"], "PROPOSAL_STATE_FAILED");
    assert!(!proposal["reason"].as_str().unwrap().is_empty(), "{proposal}");
    assert_eq!(counts(&client).await, [0, 0, 0]);
    server.stop().await;
}

#[tokio::test]
async fn a_document_without_text_is_skipped() {
    let server = Server::start().await;
    let client = server.member().await;
    let document: DocumentId = client.ready_document("a.txt", "Total 1").await.document_id.parse().unwrap();
    let state = TextState::NoText("the pages are empty".to_owned());
    let update = IngestUpdate { state, pages: Vec::new(), lacks_program: false, at: System.now() };
    server.stores.texts.ingest(&client.org, document.as_str(), update).await.unwrap();
    start_run(&server, &client, &document, None).await;
    let proposal = proposal_of(&client, &document).await;
    assert_eq!(proposal["state"], "PROPOSAL_STATE_SKIPPED");
    assert_eq!(proposal["reason"], "the pages are empty");
    assert_eq!(server.model.calls(), 0);
    server.stop().await;
}

#[tokio::test]
async fn a_run_on_an_earlier_text_leaves_nothing() {
    let server = Server::start().await;
    let client = server.member().await;
    server.model.next(Answer::Calls(vec![create_schema("Invoice")]));
    let document: DocumentId = client.ready_document("a.txt", "Total 12.50").await.document_id.parse().unwrap();
    start_run(&server, &client, &document, None).await;
    // No further answer is scripted, so the second model call fails, and the next attempt finds another text.
    wait_for("the failed model call", LIMIT, || async { (server.model.calls() >= 2).then_some(()) }).await;
    assert_eq!(counts(&client).await, [1, 0, 0]);
    let state = TextState::NoText("the pages are empty".to_owned());
    let update = IngestUpdate { state, pages: Vec::new(), lacks_program: false, at: System.now() };
    server.stores.texts.ingest(&client.org, document.as_str(), update).await.unwrap();
    assert_eq!(proposal_of(&client, &document).await["state"], "PROPOSAL_STATE_SKIPPED");
    wait_for("nothing is left", LIMIT, || async { (counts(&client).await == [0, 0, 0]).then_some(()) }).await;
    assert_eq!(total(&client, "ListProposals", json!({})).await, 1);
    server.stop().await;
}

#[tokio::test]
async fn invariant_3_a_run_whose_turn_failed_continues_and_makes_one_proposal() {
    let server = Server::start().await;
    let client = server.member().await;
    server.model.next(Answer::Calls(vec![create_schema("Invoice")]));
    let document: DocumentId = client.ready_document("a.txt", "Total 12.50").await.document_id.parse().unwrap();
    let job = start_run(&server, &client, &document, None).await;
    // No further answer is scripted, so the second model call fails.
    wait_for("the failed model call", LIMIT, || async { (server.model.calls() >= 2).then_some(()) }).await;
    let schemas = client.call_ok("ListSchemas", json!({})).await;
    let prompt = json!({ "name": "Invoice", "content": "Read.", "schema_id": schemas["schemas"][0]["schema_id"] });
    let run = json!({ "prompt_revid": "$create_prompt.prompt_revid" });
    server.model.next(Answer::Calls(vec![("create_prompt", prompt), ("run_extraction", run)]));
    server.model.answer(r#"{"total": 12.5}"#);
    server.model.answer("Done.");
    let proposal = proposal_of(&client, &document).await;
    assert_eq!(proposal["state"], "PROPOSAL_STATE_PROPOSED", "{proposal}");
    wait_for("the job ends", LIMIT, || async {
        let found = client.call_ok("GetJob", json!({ "job_id": job })).await;
        (found["job"]["state"] == "JOB_STATE_COMPLETED").then_some(())
    })
    .await;
    assert_eq!(counts(&client).await, [1, 1, 1]);
    assert_eq!(total(&client, "ListProposals", json!({})).await, 1);
    server.stop().await;
}

#[tokio::test]
async fn an_upload_with_a_restricted_token_requests_a_proposal_only_with_its_scopes() {
    let server = Server::start().await;
    let org = server.member().await.org;
    let documents_only = server.restricted_user(&org, Role::Member, &[Scope::Documents], false).await;
    let description = json!({ "name": "a.txt", "auto_create": true });
    let upload = json!([{ "description": description }, { "chunk": "VG90YWw=" }]);
    assert_eq!(documents_only.refusal("UploadDocument", upload.clone()).await.reason, Reason::ScopeNotAllowed);
    let member = server.user(&org, Role::Member).await;
    assert_eq!(member.call_ok("UploadDocument", upload).await["document"]["auto_create"], true);
    server.stop().await;
}
