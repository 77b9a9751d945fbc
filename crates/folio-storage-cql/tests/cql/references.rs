//! Concurrent references to one resource.

use std::time::{Duration, Instant};

use folio_resources::{Document, DocumentChange, DocumentPatch, NewDocument, Tag, TagChange};
use folio_types::op::{Expected, OpState, WriteOutcome};
use folio_types::{BlobId, DocumentId, Reason, Result, TagId};
use futures::StreamExt as _;

use crate::protocol::{TestStores, fixture};

/// Number of documents that get one tag.
const DOCUMENTS: usize = 64;

fn id(fixture: &TestStores, number: usize) -> DocumentId {
    DocumentId::derive(&[fixture.org.as_str(), &number.to_string()])
}

/// Creates documents and then sets their tags, `at_once` at a time; returns the duration of the second step.
async fn set_tags(fixture: &TestStores, numbers: std::ops::Range<usize>, tag: &TagId, at_once: usize) -> Duration {
    let documents = fixture.stores.of::<Document>();
    for number in numbers.clone() {
        let new =
            NewDocument::file(format!("{number}.txt"), "text/plain", b"x", BlobId::derive(&[&number.to_string()]));
        let write = fixture.write(&format!("create-{number}"), Expected::Absent, DocumentChange::Create(new));
        assert_done(documents.decide(&id(fixture, number), write).await);
    }
    let begun = Instant::now();
    let updates = numbers.map(|number| {
        let patch = DocumentPatch { tags: Some(vec![tag.clone()]), ..DocumentPatch::default() };
        let write = fixture.write(&format!("tag-{number}"), Expected::Version(1), DocumentChange::Update(patch));
        let (documents, id) = (&documents, id(fixture, number));
        async move { documents.decide(&id, write).await }
    });
    let updates: Vec<_> = updates.collect();
    futures::stream::iter(updates).buffer_unordered(at_once).for_each(async |outcome| assert_done(outcome)).await;
    begun.elapsed()
}

fn assert_done(outcome: Result<WriteOutcome>) {
    match outcome.unwrap() {
        WriteOutcome::Row(row) => assert!(matches!(row.state, OpState::Done(_)), "{row:?}"),
        WriteOutcome::VersionMismatch => panic!("version mismatch"),
    }
}

#[tokio::test]
async fn many_concurrent_references_to_one_tag_do_not_delay_each_other() {
    let fixture = fixture().await;
    fixture.create("used", "used").await.unwrap();
    let tag = fixture.id("used");
    let serial = set_tags(&fixture, 0..DOCUMENTS, &tag, 1).await;
    let concurrent = set_tags(&fixture, DOCUMENTS..2 * DOCUMENTS, &tag, DOCUMENTS).await;
    assert!(concurrent < serial, "{concurrent:?} with {DOCUMENTS} at once, {serial:?} one by one");

    let delete = async |name| {
        let write = fixture.write(name, Expected::Version(1), TagChange::Delete);
        fixture.stores.of::<Tag>().decide(&tag, write).await
    };
    let error = delete("early").await.unwrap_err();
    assert_eq!(error.reason, Reason::InUse);
    assert_eq!(error.details["count"], (2 * DOCUMENTS).to_string(), "{error:?}");

    let documents = fixture.stores.of::<Document>();
    let removed = (0..2 * DOCUMENTS).map(|number| {
        let patch = DocumentPatch { tags: Some(Vec::new()), ..DocumentPatch::default() };
        let write = fixture.write(&format!("clear-{number}"), Expected::Version(2), DocumentChange::Update(patch));
        let (documents, id) = (&documents, id(&fixture, number));
        async move { documents.decide(&id, write).await }
    });
    futures::future::join_all(removed).await.into_iter().for_each(assert_done);
    assert_done(delete("late").await);
}
