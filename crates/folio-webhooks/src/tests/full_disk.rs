//! Jobs that writes cause while the disk of the store has less free space than its reserve.

use super::*;

#[tokio::test]
async fn jobs_of_writes_that_a_full_disk_accepts_are_created_and_writes_that_start_new_work_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let test = Sandbox::open(folder.path(), &[]);
    test.create_endpoint("127.0.0.1:9".parse().unwrap()).await;
    test.create_document().await;
    let tagged = create_tagged_prompt(&test).await;
    let (ingested, documents) = (JobId::derive(&["ingested"]), [test.document.clone()]);
    test.stores.passages().set_last_ingestion(&test.org, &ingested, &documents).await.unwrap();
    let Sandbox { store, .. } = test;
    store.close().await;

    let full = StoreOptions { reserve_bytes: u64::MAX, ..StoreOptions::at(folder.path()) };
    let test = Sandbox::open_with(full, &[]);
    let (limits, counters) = (JobLimits::default(), Counters::default());
    let stores = with_events(test.stores.clone(), Arc::clone(&test.shared.jobs), limits, counters.clone());
    let jobs = async |queue| {
        let filter = JobFilter { queue, ..JobFilter::default() };
        test.stores.jobs.list(&test.org, &filter, &PageRequest::default()).await.unwrap().items.len()
    };

    let (key, at) = ("tags".parse().unwrap(), test.environment.now());
    let write = Write::by_platform(test.org.clone(), key, at, Expected::Version(1), tagged);
    let refused = stores.of::<Document>().decide(&test.document, write).await.unwrap_err();
    assert!(refused.reason == Reason::Overloaded && refused.is_retriable(), "{refused}");
    let stored = test.stores.of::<Document>().get(&test.org, &test.document).await.unwrap().unwrap();
    assert!(stored.tags.is_empty(), "the tag was stored without its run");
    assert_eq!(jobs(JobQueue::Work).await, 0);

    stores.texts.ingest(&test.org, test.document.as_str(), test.ready()).await.unwrap();
    assert_eq!(jobs(JobQueue::Deliveries).await, 1, "the event of a stored record");
    change::<Document>(&test, &stores, &test.document, Expected::Version(1), DocumentChange::Delete).await;
    assert_eq!(jobs(JobQueue::Ingestions).await, 1, "the job that removes the passages of a deleted document");
    assert_eq!((counters.refused_jobs(), counters.dropped()), (vec![], 0));
}
