//! Streams of the inbox and of documents.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use folio_gateway::Options;
use folio_proto::v1::*;
use folio_resources::{Kind, ListQuery};
use folio_storage::{ResourceExecutor, StoredResource, Stores};
use folio_storage_conformance::layer::{Layered, ResourceLayer};
use folio_testkit::wait_for;
use folio_types::access::Scope;
use folio_types::page::{Page, PageRequest};
use folio_types::{Code, OrgId, Reason, Role, System};
use serde_json::json;
use tonic::Streaming;

use crate::harness::{Answer, Client, Server, refused};

const SOON: Duration = Duration::from_secs(20);

async fn message<T>(stream: &mut Streaming<T>) -> T {
    tokio::time::timeout(SOON, stream.message()).await.expect("a message").unwrap().unwrap()
}

async fn watch_inbox(client: &Client) -> Streaming<WatchInboxResponse> {
    client.inbox().watch_inbox(WatchInboxRequest::default()).await.unwrap().into_inner()
}

/// Returns the next change of the items. Skips keep-alives.
async fn next_in_inbox(stream: &mut Streaming<WatchInboxResponse>) -> watch_inbox_response::Change {
    loop {
        match message(stream).await.change.unwrap() {
            watch_inbox_response::Change::CaughtUp(_) => {}
            change => return change,
        }
    }
}

/// Returns the id of the item that a stream reports as waiting.
async fn waiting(stream: &mut Streaming<WatchInboxResponse>) -> String {
    match next_in_inbox(stream).await {
        watch_inbox_response::Change::Item(item) => item.item_id,
        other => panic!("{other:?}"),
    }
}

/// Runs a prompt on a document; returns the id of the extraction.
async fn extract(server: &Server, client: &Client, document: &str, prompt: &str) -> String {
    server.model.answer(r#"{"total": 12.5}"#);
    let made = client.call_ok("RunExtraction", json!({"document_id": document, "prompt_revid": prompt})).await;
    made["extraction"]["extraction_id"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn watchers_of_the_inbox_see_approvals_and_reviews_and_share_the_polls() {
    use watch_inbox_response::Change;
    let server = Server::start().await;
    let (member, stranger) = (server.member().await, server.member().await);
    let prompt = member.prompt("Total", &member.schema("Invoice", "total").await).await;
    let document = member.ready_document("a.txt", "Total 12.50").await.document_id;
    let extraction = extract(&server, &member, &document, &prompt).await;
    let (mut one, mut other) = (watch_inbox(&member).await, watch_inbox(&member).await);
    let mut foreign = watch_inbox(&stranger).await;
    for stream in [&mut one, &mut other, &mut foreign] {
        assert_eq!(message(stream).await.change, Some(Change::CaughtUp(CaughtUp {})));
    }
    let (before, since) = (server.index_reads.count(), std::time::Instant::now());
    member.call_ok("RequestReview", json!({"extraction_id": extraction, "requested": true})).await;
    for stream in [&mut one, &mut other] {
        assert_eq!(waiting(stream).await, extraction);
    }
    server.model.next(Answer::Calls(vec![("create_tag", json!({"name": "own"}))]));
    let events = member.stream("Chat", json!({"text": "do it", "document_ids": [document]})).await;
    let turn = events.last().unwrap()["event"]["awaiting_approval"]["turn_id"].as_str().unwrap().to_owned();
    for stream in [&mut one, &mut other] {
        let Change::Item(item) = next_in_inbox(stream).await else { panic!("no item") };
        assert_eq!((&item.item_id, item.kind()), (&turn, InboxItemKind::Approval));
        assert!(item.expire_time.is_some(), "{item:?}");
    }
    // Two organizations are watched: each has one query per second.
    let polled = async || (server.index_reads.count() >= before + 6).then_some(());
    wait_for("six queries", SOON, polled).await;
    let (queries, seconds) = (server.index_reads.count() - before, since.elapsed().as_secs());
    assert!(queries <= 2 * seconds + 4, "{queries} queries in {seconds} s");

    server.model.answer("Done.");
    member.call_ok("Approve", json!({"turn_id": turn, "round": 1, "undecided": "UNDECIDED_REJECT"})).await;
    for stream in [&mut one, &mut other] {
        assert_eq!(next_in_inbox(stream).await, Change::RemovedItemId(turn.clone()));
    }
    let approve = json!({"extraction_id": extraction, "decision": "FIELD_DECISION_APPROVED"});
    member.call_ok("ReviewExtractionField", approve).await;
    for stream in [&mut one, &mut other] {
        assert_eq!(next_in_inbox(stream).await, Change::RemovedItemId(extraction.clone()));
    }
    let silence = tokio::time::timeout(Duration::from_millis(50), next_in_inbox(&mut foreign)).await;
    assert!(silence.is_err(), "invariant 6: {silence:?}");
    server.stop().await;
    let error = refused(foreign.message().await, "a stream of a gateway that drains");
    assert_eq!((error.code, error.reason), (Code::Unavailable, Reason::Draining));
}

async fn watch_document(client: &Client, id: &str) -> Streaming<WatchDocumentResponse> {
    let request = WatchDocumentRequest { document_id: id.to_owned() };
    client.documents().watch_document(request).await.unwrap().into_inner()
}

async fn next_of_document(stream: &mut Streaming<WatchDocumentResponse>) -> watch_document_response::Change {
    message(stream).await.change.unwrap()
}

/// Reads a stream until it reports an extraction.
async fn next_extraction(stream: &mut Streaming<WatchDocumentResponse>) -> Extraction {
    loop {
        match next_of_document(stream).await {
            watch_document_response::Change::Extraction(extraction) => return extraction,
            watch_document_response::Change::CaughtUp(_) => {}
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn a_stream_of_a_document_reports_its_text_its_extractions_and_their_reviews_until_it_is_deleted() {
    use watch_document_response::Change;
    let server = Server::start().await;
    let member = server.member().await;
    let colleague = server.user(&member.org, Role::Member).await;
    let prompt = member.prompt("Total", &member.schema("Invoice", "total").await).await;
    let document = member.upload("a.txt", "Total 12.50", "").await.unwrap().document_id;
    let mut stream = watch_document(&member, &document).await;
    let generation = loop {
        match next_of_document(&mut stream).await {
            Change::Document(status) if status.document.as_ref().unwrap().state() == DocumentState::Ready => {
                break status.text_generation;
            }
            Change::Document(status) => assert_eq!(status.text_generation, "", "{status:?}"),
            Change::CaughtUp(_) => {}
            other => panic!("{other:?}"),
        }
    };
    assert_ne!(generation, "");

    let extraction = extract(&server, &colleague, &document, &prompt).await;
    let found = next_extraction(&mut stream).await;
    assert_eq!((&found.extraction_id, found.reviews.len(), found.verified), (&extraction, 0, false));
    let approve = json!({"extraction_id": extraction, "path": "total", "decision": "FIELD_DECISION_APPROVED"});
    colleague.call_ok("ReviewExtractionField", approve).await;
    let found = next_extraction(&mut stream).await;
    assert_eq!((found.reviews[0].decision(), found.verified), (FieldDecision::Approved, true));

    // A new stream starts with the present state.
    let mut later = watch_document(&colleague, &document).await;
    let Change::Document(status) = next_of_document(&mut later).await else { panic!("no document") };
    assert_eq!(status.text_generation, generation);
    assert_eq!(status.document.unwrap().text_generation, generation, "one identity of a text");
    assert_eq!(next_extraction(&mut later).await, found);
    assert_eq!(next_of_document(&mut later).await, Change::CaughtUp(CaughtUp {}));
    let limited = server.restricted_user(&member.org, Role::Viewer, &[Scope::Documents], false).await;
    let mut limited = watch_document(&limited, &document).await;
    assert!(matches!(next_of_document(&mut limited).await, Change::Document(_)));
    assert_eq!(next_of_document(&mut limited).await, Change::CaughtUp(CaughtUp {}), "no extractions without the scope");

    member.call_ok("DeleteExtraction", json!({ "extraction_id": extraction })).await;
    loop {
        match next_of_document(&mut later).await {
            Change::RemovedExtractionId(id) => break assert_eq!(id, extraction),
            Change::CaughtUp(_) => {}
            other => panic!("{other:?}"),
        }
    }
    member.call_ok("ReadDocumentAgain", json!({ "document_id": document })).await;
    loop {
        match next_of_document(&mut later).await {
            Change::Document(status) if !["", generation.as_str()].contains(&status.text_generation.as_str()) => break,
            Change::Document(_) | Change::CaughtUp(_) => {}
            other => panic!("{other:?}"),
        }
    }
    member.call_ok("DeleteDocument", json!({ "document_id": document })).await;
    let refusal = loop {
        match tokio::time::timeout(SOON, later.message()).await.expect("the end of the stream") {
            Ok(message) => assert!(message.is_some(), "the stream ended without an error"),
            Err(status) => break folio_proto::status::to_error(&status),
        }
    };
    assert_eq!(refusal.code, Code::NotFound);
    server.stop().await;
}

#[tokio::test]
async fn invariant_6_a_document_of_another_organization_is_not_streamed() {
    let server = Server::start().await;
    let member = server.member().await;
    let document = member.ready_document("a.txt", "text").await.document_id;
    let stranger = server.user(&OrgId::generate(&System), Role::Admin).await;
    let request = WatchDocumentRequest { document_id: document };
    let error = refused(stranger.documents().watch_document(request).await, "a foreign document");
    assert_eq!(error.code, Code::NotFound);
    server.stop().await;
}

/// Counts the records of extractions that are read from the store, and the polls.
#[derive(Default)]
struct ExtractionReads {
    records: AtomicU64,
    polls: AtomicU64,
}

impl ExtractionReads {
    fn count(&self, kind: &Kind, records: usize) {
        if kind == Kind::get::<folio_resources::Extraction>() {
            self.records.fetch_add(records as u64, Ordering::SeqCst);
        }
    }
}

#[async_trait]
impl ResourceLayer for ExtractionReads {
    async fn get(
        &self,
        below: &dyn ResourceExecutor,
        org: &OrgId,
        kind: &'static Kind,
        ids: &[String],
    ) -> folio_types::Result<Vec<Option<StoredResource>>> {
        self.count(kind, ids.len());
        below.get(org, kind, ids).await
    }

    async fn list(
        &self,
        below: &dyn ResourceExecutor,
        org: &OrgId,
        query: ListQuery,
        page: &PageRequest,
    ) -> folio_types::Result<Page<StoredResource>> {
        let (kind, found) = (query.kind, below.list(org, query, page).await?);
        self.count(kind, found.items.len());
        Ok(found)
    }

    async fn list_versions(
        &self,
        below: &dyn ResourceExecutor,
        org: &OrgId,
        query: ListQuery,
        page: &PageRequest,
    ) -> folio_types::Result<Page<(String, u64)>> {
        self.polls.fetch_add(1, Ordering::SeqCst);
        below.list_versions(org, query, page).await
    }
}

#[tokio::test]
async fn a_poll_without_a_change_reads_no_extraction_and_a_change_of_one_reads_only_this_one() {
    use watch_document_response::Change;
    let reads = Arc::new(ExtractionReads::default());
    let layer = |stores: Stores| Stores { resources: Layered::over(Arc::clone(&reads), &stores.resources), ..stores };
    let options = Options { failed_attempts_per_minute: 10_000, ..Options::default() };
    let server = Server::on(options, layer).await;
    let member = server.member().await;
    let prompt = member.prompt("Total", &member.schema("Invoice", "total").await).await;
    let document = member.ready_document("a.txt", "Total 12.50").await.document_id;
    let (one, two) =
        (extract(&server, &member, &document, &prompt).await, extract(&server, &member, &document, &prompt).await);
    let request = async |id: &str, requested: bool| {
        member.call_ok("RequestReview", json!({"extraction_id": id, "requested": requested})).await;
    };
    request(&one, true).await;
    request(&two, true).await;
    let (mut stream, mut inbox) = (watch_document(&member, &document).await, watch_inbox(&member).await);
    let mut pending = [waiting(&mut inbox).await, waiting(&mut inbox).await];
    let mut expected = [one.clone(), two];
    pending.sort();
    expected.sort();
    assert_eq!(pending, expected);
    while next_of_document(&mut stream).await != Change::CaughtUp(CaughtUp {}) {}

    let polled = async || {
        let polls = reads.polls.load(Ordering::SeqCst);
        let next = async || (reads.polls.load(Ordering::SeqCst) >= polls + 6).then_some(());
        wait_for("six polls", SOON, next).await;
        reads.records.load(Ordering::SeqCst)
    };
    let before = reads.records.load(Ordering::SeqCst);
    assert_eq!(polled().await, before, "polls without a change");
    request(&one, false).await;
    assert_eq!(next_extraction(&mut stream).await.extraction_id, one);
    let removed = next_in_inbox(&mut inbox).await;
    assert_eq!(removed, watch_inbox_response::Change::RemovedItemId(one));
    let after = polled().await;
    assert_eq!(polled().await, after, "polls after a change");
    server.stop().await;
}

/// Measures how many polls run at a time. Each poll takes a part of the interval of polls.
#[derive(Default)]
struct ConcurrentPolls {
    active: AtomicU64,
    largest: AtomicU64,
    polls: AtomicU64,
}

#[async_trait]
impl ResourceLayer for ConcurrentPolls {
    async fn list_versions(
        &self,
        below: &dyn ResourceExecutor,
        org: &OrgId,
        query: ListQuery,
        page: &PageRequest,
    ) -> folio_types::Result<Page<(String, u64)>> {
        self.largest.fetch_max(self.active.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        // The store is slow.
        tokio::time::sleep(Duration::from_millis(300)).await;
        let found = below.list_versions(org, query, page).await;
        self.active.fetch_sub(1, Ordering::SeqCst);
        self.polls.fetch_add(1, Ordering::SeqCst);
        found
    }
}

#[tokio::test]
async fn invariant_10_an_organization_polls_for_two_of_its_documents_at_a_time() {
    let measured = Arc::new(ConcurrentPolls::default());
    let layer =
        |stores: Stores| Stores { resources: Layered::over(Arc::clone(&measured), &stores.resources), ..stores };
    let options = Options { failed_attempts_per_minute: 10_000, ..Options::default() };
    let server = Server::on(options, layer).await;
    let member = server.member().await;
    let mut streams = Vec::new();
    for number in 0..10 {
        let document = member.ready_document(&format!("{number}.txt"), "Total 12.50").await.document_id;
        streams.push(watch_document(&member, &document).await);
    }
    let polled = async || (measured.polls.load(Ordering::SeqCst) >= 30).then_some(());
    wait_for("thirty polls", SOON, polled).await;
    assert_eq!(measured.largest.load(Ordering::SeqCst), 2);
    drop(streams);
    server.stop().await;
}
