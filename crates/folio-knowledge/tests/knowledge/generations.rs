//! Generations of passages that replace former or interrupted ones, and the removal of passages.

use super::*;

#[tokio::test]
async fn passages_of_a_deleted_document_and_of_one_without_text_are_removed() {
    let test = Sandbox::new().await;
    let [deleted, empty] = [test.create("deleted.md", TEXT).await, test.create("empty.md", TEXT).await];
    for document in [&deleted, &empty] {
        test.ingested(document).await;
    }
    test.change::<Document>(&test.org, &deleted, Expected::Version(1), DocumentChange::Delete).await;
    let (state, at) = (TextState::NoText("blank".to_owned()), test.environment.now() + Duration::from_secs(1));
    let update = IngestUpdate { state, pages: Vec::new(), lacks_program: false, at };
    test.stores().texts.ingest(&test.org, empty.as_str(), update).await.unwrap();
    for document in [&deleted, &empty] {
        assert!(matches!(test.ingest(document).await.unwrap(), Ingested::Skipped(_)));
        assert_eq!(test.head(document).await, None);
    }
    let links = test.stores().links();
    assert!(links.keys(&test.org, &deleted).await.unwrap().is_empty(), "links cannot find a deleted document");
    let keys = links.keys(&test.org, &empty).await.unwrap();
    assert!(keys.contains(&LinkKey::Name("empty.md".to_owned())), "links find a document without text: {keys:?}");
    assert!(test.found("pump").await.is_empty());
    assert!(test.knowledge.index.documents(&test.org, None, 10).await.unwrap().is_empty());
    remove_document(&test.knowledge, &test.org, &deleted).await.unwrap();
}

#[tokio::test]
async fn a_generation_replaces_an_interrupted_one_of_a_node_whose_clock_was_ahead() {
    let test = Sandbox::new().await;
    let document = test.create("pumps.md", TEXT).await;
    let interrupted = u64::MAX / 2;
    test.interrupt(&document, interrupted).await;
    let head = test.ingested(&document).await;
    assert!(head.generation > interrupted, "{}", head.generation);
    assert_eq!(test.generations(&document).await, 1, "the interrupted generation was removed");
}

#[tokio::test]
async fn a_repeated_attempt_removes_the_generation_before_the_live_one() {
    let test = Sandbox::new().await;
    test.models.choose(&["first"]);
    let document = test.create("pumps.md", TEXT).await;
    let head = test.ingested(&document).await;
    // A process made a generation live, and died before it removed the former one.
    test.interrupt(&document, head.generation - 1).await;
    let bucket = test.knowledge.passages().buckets(&test.org).await.unwrap()[0];
    let new = NewJob {
        id: JobId::derive(&["reembedding"]),
        principal: Principal::new(test.org.clone(), UserId::derive(&["u"]), Role::Admin),
        kind: "reembedding".to_owned(),
        input: json!({}),
        items: vec![format!("{bucket:02x}")],
        running_max: Duration::from_secs(3_600),
        at: test.environment.now(),
    };
    let (job, _) = new.with_pages().unwrap();
    let run = |attempt| ItemTask {
        principal: job.principal.clone(),
        run: ItemRun { job: job.id.clone(), item: 1, epoch: 1, attempt },
        job: job.clone(),
        steps: tokio::sync::watch::channel(None).0,
        record: tokio::sync::watch::channel(None).0,
    };
    for (attempt, generations) in [(1, 2), (2, 1)] {
        Reembeddings(test.knowledge.clone()).run_item(run(attempt)).await.unwrap();
        assert_eq!(test.generations(&document).await, generations, "after attempt {attempt}");
    }
}

#[tokio::test]
async fn an_unreadable_generation_delays_no_comparison_and_stays_in_the_index() {
    let test = Sandbox::new().await;
    let [damaged, lost] = [test.create("damaged.md", TEXT).await, test.create("lost.md", TEXT).await];
    for document in [&damaged, &lost] {
        test.ingested(document).await;
    }
    let (org, rows, index) = (&test.org, &test.stores().rows, &test.knowledge.index);
    for bucket in test.knowledge.passages().buckets(org).await.unwrap() {
        let group = format!("{}/{bucket:02x}", <PassageHead as folio_storage::value::Stored>::KIND);
        let keys = [damaged.to_string()];
        if rows.get(org, &group, &keys).await.unwrap()[0].is_some() {
            rows.put(org, &group, &keys[0], b"damaged".to_vec()).await.unwrap();
        }
    }
    index.delete_documents(org, std::slice::from_ref(&lost)).await.unwrap();
    let maintenance = Maintenance::start(test.knowledge.clone(), Duration::from_millis(50), Arc::new(|_: &OrgId| true));
    wait_for("the comparison", SOON, || async {
        (index.documents(org, None, 10).await.unwrap().len() == 2).then_some(())
    })
    .await;
    maintenance.stop(Duration::from_secs(5)).await;
    assert_eq!(test.found("pump").await.len(), 2);
    assert_eq!(test.stores().unreadable.count(), 2, "in the list of its bucket, and by its document");
}
