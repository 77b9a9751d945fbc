//! A node dies at each step that interrupts a job: an item is postponed, the job waits, is handed over, or fails without its next page.

use std::time::Duration;

use folio_history::job::{EXTRACTION_KIND, ExtractionInput, JobHeader, JobLimits, JobState, NewJob};
use folio_proto::v1;
use folio_resources::Document;
use folio_storage::create_job;
use folio_testkit::wait_for;
use folio_tests::harness::LIMIT;
use folio_types::limits::JOB_PAGE_ITEMS;
use folio_types::{DocumentId, Environment as _, JobId, Principal, Reason, Role, System};
use serde_json::json;

use crate::job_steps::{assert_done, die, extracted, run_batch, stop_nodes};
use crate::test_cluster::{TestCluster, on_cluster};

/// The model has no capacity for one document, and the calls for others wait until a gate is opened.
const SCRIPT: &str = r#"
rules:
  - when: {user: {contains: limited report}}
    fault: {status: {code: 429}}
    answer: {text: '{"total": 957}'}
  - when: {user: {contains: first report}}
    fault: {hold: {gate: first}}
    answer: {text: '{"total": 957}'}
  - when: {user: {contains: second report}}
    fault: {hold: {gate: second}}
    answer: {text: '{"total": 957}'}
"#;
const ANSWERS: &str = r#"
rules:
  - answer: {text: '{"total": 957}'}
"#;

#[test]
fn invariant_3_a_node_may_die_while_it_postpones_an_item_and_while_the_job_begins_to_wait() {
    on_cluster(SCRIPT, async |test| {
        let client = test.client(0).await;
        let mut documents = Vec::new();
        for name in ["first", "limited"] {
            documents.push(client.upload(&format!("{name}.txt"), format!("The {name} report.").as_bytes()).await);
        }
        let prompt = test.prompt("total", Vec::new()).await.prompt_revid;
        stop_nodes(test);
        let job = run_batch(&client, documents.clone(), prompt).await;
        die(test, &["postpone:before", "postpone:after"]).await;
        test.cluster.sim.open_gate("first").await;
        die(test, &["wait:before", "wait:after"]).await;
        let request = v1::GetJobRequest { job_id: job.clone() };
        let waiting =
            client.jobs.clone().get_job(request).await.expect("the job exists").into_inner().job.expect("a job");
        assert_eq!((waiting.state(), waiting.done_items), (v1::JobState::Waiting, 1), "{waiting:?}");
        test.cluster.sim.set_script(ANSWERS).await;
        let request = v1::ResumeJobRequest { job_id: job.clone(), ..Default::default() };
        client.jobs.clone().resume_job(request).await.expect("the job waits");
        test.start_others(&[]).await;
        assert_done(&[test.ended_job(&job).await]);
        documents.sort();
        assert_eq!(extracted(test).await, documents);
        test.assert_clean().await;
    });
}

#[test]
fn invariant_3_a_node_may_die_while_it_hands_a_job_over() {
    on_cluster(SCRIPT, async |test| {
        let client = test.client(0).await;
        let prompt = test.prompt("total", Vec::new()).await.prompt_revid;
        let mut documents = Vec::new();
        for name in ["first", "second"] {
            documents.push(client.upload(&format!("{name}.txt"), format!("The {name} report.").as_bytes()).await);
        }
        let steps = [("release:before", "first"), ("release:after", "second")];
        for ((step, gate), document) in steps.into_iter().zip(&documents) {
            stop_nodes(test);
            let job = run_batch(&client, vec![document.clone()], prompt.clone()).await;
            test.node(0).start(&[("FOLIO_FAILPOINT", step)]).await;
            test.cluster.sim.wait_for_waiting_request().await;
            let process = test.node(0).take().expect("the node runs");
            assert!(!process.stop().await, "the node did not die at {step}");
            test.cluster.sim.open_gate(gate).await;
            test.start_others(&[]).await;
            assert_done(&[test.ended_job(&job).await]);
        }
        documents.sort();
        assert_eq!(extracted(test).await, documents);
        test.assert_clean().await;
    });
}

#[test]
fn a_node_may_die_while_a_job_continues_with_its_next_page() {
    on_cluster(ANSWERS, async |test| {
        let prompt = test.prompt("total", Vec::new()).await.prompt_revid;
        stop_nodes(test);
        let job = create_with_two_pages(test, &prompt).await;
        die(test, &["advance:before", "advance:after"]).await;
        test.start_others(&[]).await;
        let ended = ended_header(test, &job).await;
        let progress = ended.progress();
        let expected = (&JobState::Completed, 0, JOB_PAGE_ITEMS + 1);
        assert_eq!((&ended.state, progress.done, progress.failed), expected, "each item has ended once");
        test.assert_clean().await;
    });
}

#[test]
fn a_node_may_die_while_it_fails_a_job_without_its_next_page() {
    on_cluster(ANSWERS, async |test| {
        let prompt = test.prompt("total", Vec::new()).await.prompt_revid;
        stop_nodes(test);
        let job = create_with_two_pages(test, &prompt).await;
        let org = test.cluster.tenants[0].org.clone();
        test.stores().job_pages().remove(&org, &job).await.expect("the pages are removed");
        die(test, &["fail:before", "fail:after"]).await;
        test.start_others(&[]).await;
        let ended = ended_header(test, &job).await;
        assert!(
            matches!(&ended.state, JobState::Failed(error) if error.reason == Reason::Internal),
            "{:?}",
            ended.state
        );
        let progress = ended.progress();
        assert_eq!((progress.done, progress.failed), (0, JOB_PAGE_ITEMS), "the ended items are kept");
        test.assert_clean().await;
    });
}

/// Returns the header of a job as soon as the job has ended. The pages of the job may be lost.
async fn ended_header(test: &TestCluster, job: &JobId) -> JobHeader {
    let org = &test.cluster.tenants[0].org;
    wait_for("the end of the job", 3 * LIMIT, || async {
        let header = test.stores().jobs.header(org, job).await.expect("the store answers");
        header.filter(JobHeader::is_ended)
    })
    .await
}

/// Creates a job whose first page has the maximum number of items and whose second page has one. The documents do not exist, so
/// that each item fails without a model call.
async fn create_with_two_pages(test: &TestCluster, prompt_revid: &str) -> JobId {
    let (stores, org) = (test.stores(), &test.cluster.tenants[0].org);
    let document: DocumentId = test.document.parse().expect("an id");
    let document = stores.of::<Document>().get(org, &document).await.expect("the store answers").expect("a document");
    let missing = |number: usize| DocumentId::derive(&[org.as_str(), "missing", &number.to_string()]).to_string();
    let new = NewJob {
        id: JobId::derive(&[org.as_str(), "two pages"]),
        principal: Principal::new(org.clone(), document.created_by, Role::Member),
        kind: EXTRACTION_KIND.to_owned(),
        input: json!(ExtractionInput::new(prompt_revid.parse().expect("a revision"))),
        items: (0..=JOB_PAGE_ITEMS).map(missing).collect(),
        running_max: Duration::from_secs(600),
        at: System.now(),
    };
    let created = create_job(&*stores.jobs, &stores.job_pages(), &JobLimits::default(), new).await;
    created.expect("the job is created").id
}
