//! What happens after a deletion.

use std::time::Duration;

use folio_documents::{Cleaner, CleanupOptions};
use folio_storage::{DocumentChange, NewThread};
use folio_testkit::wait_for;
use folio_types::op::{Expected, OpKey, Write};
use folio_types::{Digest, DocumentId, Environment as _, ThreadId, limits};

use crate::files::Bench;

async fn delete(bench: &Bench, id: &DocumentId) {
    let write = Write {
        org: bench.principal.org.clone(),
        op: OpKey::Request { user: bench.principal.user.clone(), request: "delete".parse().unwrap() },
        digest: Digest::of(b"delete"),
        by: bench.principal.user.clone(),
        at: bench.environment.now(),
        expected: Expected::Version(bench.document(id).await.version),
        change: DocumentChange::Delete,
    };
    bench.stores().documents.decide(id, write).await.unwrap();
}

async fn thread(bench: &Bench, documents: Vec<DocumentId>, ephemeral: bool) -> ThreadId {
    let id = ThreadId::generate(&*bench.environment);
    let at = bench.environment.now();
    let thread = NewThread {
        id: id.clone(),
        org: bench.principal.org.clone(),
        user: bench.principal.user.clone(),
        profile: "document".to_owned(),
        documents,
        title: String::new(),
        model: None,
        ephemeral,
        expires_at: ephemeral.then(|| at + limits::DAY),
        imported: Vec::new(),
        request: None,
        at,
    };
    bench.stores().threads.create(thread).await.unwrap();
    id
}

async fn is_there(bench: &Bench, thread: &ThreadId) -> bool {
    bench.stores().threads.header(&bench.principal.org, thread).await.unwrap().is_some()
}

#[tokio::test]
async fn bytes_go_at_once_and_threads_after_a_day() {
    let bench = Bench::new();
    let uploader = bench.uploader(None);
    let document = bench.upload(&uploader, "r1", "a.txt", b"text").await.unwrap().document.id;
    let kept = bench.upload(&uploader, "r2", "b.txt", b"text").await.unwrap().document.id;
    let about = thread(&bench, vec![document.clone()], false).await;
    let other = thread(&bench, vec![kept.clone()], false).await;
    let hidden = thread(&bench, Vec::new(), true).await;
    let options = CleanupOptions { interval_seconds: 3_600, ..CleanupOptions::default() };
    let (cleaner, handle) = Cleaner::start(bench.stores(), bench.environment.clone(), options);
    delete(&bench, &document).await;
    handle.sweep_soon();
    let gone = async || bench.bytes(&document).await.is_none().then_some(());
    wait_for("the bytes are gone", Duration::from_secs(10), gone).await;
    assert!(is_there(&bench, &about).await && is_there(&bench, &hidden).await);

    // An upload that was still under way puts its bytes there again: they go in the second round.
    let mut late = bench.stores().blobs.create(&bench.principal.org, &document).await.unwrap();
    late.write(bytes::Bytes::from_static(b"late")).await.unwrap();
    late.finish().await.unwrap();
    bench.environment.advance(limits::DAY + Duration::from_secs(1));
    handle.sweep_soon();
    wait_for("the bytes are gone for good", Duration::from_secs(10), gone).await;
    wait_for("the threads are gone", Duration::from_secs(10), || async {
        (!is_there(&bench, &about).await && !is_there(&bench, &hidden).await).then_some(())
    })
    .await;
    cleaner.stop().await;
    assert!(bench.stores().documents.deleted(10).await.unwrap().is_empty());
    assert!(is_there(&bench, &other).await);
    assert_eq!(bench.bytes(&kept).await.unwrap(), b"text");
}
