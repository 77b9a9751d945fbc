//! Sweeps of an index and the rebuild of a lost one.

use super::*;

#[tokio::test]
async fn a_sweep_adds_what_an_index_lacks_and_removes_what_it_must_not_contain() {
    let test = Sandbox::new().await;
    let [lost, orphan] = [test.create("lost.md", TEXT).await, test.create("orphan.md", TEXT).await];
    let deleted = test.create("deleted.md", TEXT).await;
    for document in [&lost, &orphan, &deleted] {
        test.ingested(document).await;
    }
    assert_eq!(test.state().await, IndexState::Ready);
    let index = &test.knowledge.index;
    index.delete_documents(&test.org, std::slice::from_ref(&lost)).await.unwrap();
    test.knowledge.passages().remove(&test.org, &orphan).await.unwrap();
    // A process stored passages of a deleted document and died.
    test.change::<Document>(&test.org, &deleted, Expected::Version(1), DocumentChange::Delete).await;
    index.delete_documents(&test.org, std::slice::from_ref(&deleted)).await.unwrap();
    let other = OrgId::derive(&["deleted"]);
    index.begin_rebuild(&other).await.unwrap();
    index.finish_rebuild(&other).await.unwrap();
    let maintenance = Maintenance::start(test.knowledge.clone(), Duration::from_millis(50), Arc::new(|_: &OrgId| true));
    wait_for("the sweep", Duration::from_secs(20), || async {
        let listed = index.documents(&test.org, None, 10).await.unwrap();
        let documents: Vec<_> = listed.into_iter().map(|listed| listed.document).collect();
        let organizations = index.organizations().await.unwrap();
        let is_removed = test.head(&deleted).await.is_none();
        (documents == [lost.clone()] && organizations == [test.org.clone()] && is_removed).then_some(())
    })
    .await;
    maintenance.stop(Duration::from_secs(5)).await;
    assert_eq!(test.found("pump").await.len(), 1);
}

#[tokio::test]
async fn an_index_that_moves_to_this_process_is_compared_at_once() {
    let test = Sandbox::new().await;
    let document = test.create("pumps.md", TEXT).await;
    test.ingested(&document).await;
    test.knowledge.index.delete_documents(&test.org, &[document]).await.unwrap();
    // False during the first sweep, for the organization of the index and that of the stores.
    let calls = AtomicUsize::new(0);
    let is_responsible = Arc::new(move |_: &OrgId| calls.fetch_add(1, Ordering::Relaxed) > 1);
    let maintenance = Maintenance::start(test.knowledge.clone(), Duration::from_secs(3_600), is_responsible);
    let found = || async {
        maintenance.changed().notify_one();
        test.found("pump").await.pop()
    };
    wait_for("the comparison", Duration::from_secs(20), found).await;
    maintenance.stop(Duration::from_secs(5)).await;
}

#[tokio::test]
async fn a_lost_index_is_rebuilt_from_the_stores() {
    let test = Sandbox::new().await;
    let document = test.create("pumps.md", TEXT).await;
    test.ingested(&document).await;
    test.knowledge.index.delete_organization(&test.org).await.unwrap();
    assert_eq!((test.state().await, test.found("pump").await), (IndexState::Missing, Vec::new()));
    // No node of this test runs the job of the first ingestion.
    let jobs = || async {
        let filter = JobFilter { queue: JobQueue::Ingestions, ..JobFilter::default() };
        let listed = test.stores().jobs.list(&test.org, &filter, &PageRequest::default()).await.unwrap();
        assert!(listed.items.iter().all(|job| job.kind == "index_rebuild"), "{:?}", listed.items);
        listed.items
    };
    let cancel = || async {
        for open in jobs().await.into_iter().filter(|job| !job.is_ended()) {
            let cancelled = open.after(JobCommand::Cancel, test.environment.now()).unwrap().unwrap();
            let write = JobWrite { batch: test.environment.random(), before: open, after: cancelled, outcome: None };
            assert!(matches!(test.stores().jobs.write(write).await.unwrap(), JobWritten::Done(_)));
        }
        test.environment.advance(Duration::from_secs(60));
    };
    test.environment.advance(Duration::from_secs(60));
    test.ingest(&document).await.unwrap();
    assert_eq!(jobs().await.len(), 1, "the open job serves each request");
    cancel().await;
    for _ in 0..2 {
        test.ingest(&document).await.unwrap();
        assert_eq!(jobs().await.len(), 2, "another job, because the first one has ended");
    }
    cancel().await;
    let interval = Duration::from_millis(50);
    let maintenance = Maintenance::start(test.knowledge.clone(), interval, Arc::new(|_: &OrgId| true));
    wait_for("the job of a sweep", Duration::from_secs(20), || async { (jobs().await.len() == 3).then_some(()) }).await;
    maintenance.stop(Duration::from_secs(5)).await;
    let head = test.head(&document).await.unwrap();
    assert_eq!(rebuild(&test.knowledge, &test.org).await.unwrap(), 1);
    assert_eq!(rebuild(&test.knowledge, &test.org).await.unwrap(), 0, "the index is ready");
    assert_eq!(test.found("pump").await, [(document, head.generation)]);
}
