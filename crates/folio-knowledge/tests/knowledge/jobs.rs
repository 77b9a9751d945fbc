//! Jobs that ingest documents and compute vectors, and changes of a document during its ingestion.

use super::*;

#[tokio::test]
async fn a_job_ingests_documents_builds_the_missing_index_and_states_the_result_of_each() {
    let test = Sandbox::new().await;
    let [ready, empty] = [test.create("ready.md", TEXT).await, test.create("empty.md", TEXT).await];
    let (state, at) = (TextState::NoText("blank".to_owned()), test.environment.now() + Duration::from_secs(1));
    let update = IngestUpdate { state, pages: Vec::new(), lacks_program: false, at };
    test.stores().texts.ingest(&test.org, empty.as_str(), update).await.unwrap();
    assert_eq!(test.state_of(&ready).await, IngestionState::None);
    let jobs = test.start_jobs().await;
    let ended = test.run_job(&[&ready, &empty]).await;
    assert_eq!(ended.state, JobState::Completed);
    assert_eq!(test.state_of(&ready).await, IngestionState::Indexed);
    assert_eq!(test.state_of(&empty).await, IngestionState::Skipped("the document has no text: blank".to_owned()));
    wait_for("the index", Duration::from_secs(20), || async { (test.found("pump").await.len() == 1).then_some(()) })
        .await;
    jobs.stop().await;
}

#[tokio::test]
async fn a_sweep_computes_vectors_of_the_chosen_model_by_a_job() {
    let test = Sandbox::new().await;
    test.models.choose(&["first"]);
    let documents = [test.create("one.md", TEXT).await, test.create("two.md", "# Fans\n\nThe fan turns.").await];
    for document in &documents {
        test.ingested(document).await;
    }
    assert_eq!(test.models.take(), 3);
    test.models.choose(&["second", "first"]);
    let jobs = test.start_jobs().await;
    let interval = Duration::from_millis(50);
    let maintenance = Maintenance::start(test.knowledge.clone(), interval, Arc::new(|_: &OrgId| true));
    wait_for("searches with the chosen model", Duration::from_secs(20), || async {
        let serving = test.knowledge.serving_space(&test.org).await.unwrap();
        serving.filter(|serving| serving.model == "second")
    })
    .await;
    maintenance.stop(Duration::from_secs(5)).await;
    jobs.stop().await;
    assert_eq!(test.models.take(), 3, "each passage is embedded once with the chosen model");
    for document in &documents {
        let head = test.head(document).await.unwrap();
        assert_eq!(head.space.as_deref(), Some("own/second/0"));
        let listed = test.knowledge.index.documents(&test.org, None, 10).await.unwrap();
        let indexed = listed.iter().find(|listed| listed.document == *document).unwrap();
        assert_eq!(indexed.generation, head.generation, "the index has the generation with both vectors");
    }
}

#[tokio::test]
async fn a_document_that_is_changed_during_its_ingestion_is_ingested_again() {
    let test = Sandbox::new().await;
    test.models.choose(&["first"]);
    let document = test.create("pumps.md", TEXT).await;
    let (stores, org, id, at) = (test.stores().clone(), test.org.clone(), document.clone(), test.environment.now());
    test.models.run_during(async move {
        let metadata = BTreeMap::from([("kind".to_owned(), "report".to_owned())]);
        let change = DocumentChange::Update(DocumentPatch { metadata: Some(metadata), ..DocumentPatch::default() });
        let write = Write::by_platform(org, "during".parse().unwrap(), at, Expected::Version(1), change);
        stores.of::<Document>().decide(&id, write).await.unwrap();
    });
    let error = test.ingest(&document).await.unwrap_err();
    assert!(error.reason == Reason::VersionConflict && error.is_retriable(), "{error}");
    let head = test.ingested(&document).await;
    let passages = test.knowledge.passages().read(&test.org, &document, head.generation, &[0]).await.unwrap();
    assert!(passages[0].metadata_pairs.contains(&("kind".to_owned(), "report".to_owned())));
}

#[tokio::test]
async fn a_document_that_is_deleted_during_its_ingestion_leaves_nothing() {
    let test = Sandbox::new().await;
    test.models.choose(&["first"]);
    rebuild(&test.knowledge, &test.org).await.unwrap();
    let document = test.create("pumps.md", TEXT).await;
    let (stores, org, id, at) = (test.stores().clone(), test.org.clone(), document.clone(), test.environment.now());
    test.models.run_during(async move {
        let (key, expected) = ("during".parse().unwrap(), Expected::Version(1));
        let write = Write::by_platform(org.clone(), key, at, expected, DocumentChange::Delete);
        stores.of::<Document>().decide(&id, write).await.unwrap();
        stores.passages().remove(&org, &id).await.unwrap();
    });
    assert!(matches!(test.ingest(&document).await.unwrap(), Ingested::Skipped(_)));
    assert_eq!(test.head(&document).await, None);
    assert_eq!(test.generations(&document).await, 0);
    assert!(test.knowledge.index.documents(&test.org, None, 10).await.unwrap().is_empty());
}

#[tokio::test]
async fn new_vectors_of_an_earlier_text_do_not_replace_a_later_text() {
    let test = Sandbox::new().await;
    test.models.choose(&["first"]);
    let document = test.create("pumps.md", TEXT).await;
    test.ingested(&document).await;
    test.models.choose(&["second", "first"]);
    let (knowledge, environment) = (test.knowledge.clone(), test.environment.clone());
    let (org, id) = (test.org.clone(), document.clone());
    test.models.run_during(async move {
        store_text(&knowledge.stores, &environment, (&org, &id), "# Fans\n\nThe fan turns.").await;
        ingest_now(&knowledge, &environment, (&org, &id)).await.unwrap();
        environment.advance(Duration::from_secs(1));
    });
    let jobs = test.start_jobs().await;
    let interval = Duration::from_millis(50);
    let maintenance = Maintenance::start(test.knowledge.clone(), interval, Arc::new(|_: &OrgId| true));
    wait_for("searches with the chosen model", Duration::from_secs(20), || async {
        let serving = test.knowledge.serving_space(&test.org).await.unwrap();
        serving.filter(|serving| serving.model == "second")
    })
    .await;
    maintenance.stop(Duration::from_secs(5)).await;
    jobs.stop().await;
    let found = test.stores().of::<Document>().get(&test.org, &document).await.unwrap().unwrap();
    let head = test.head(&document).await.unwrap();
    assert_eq!(Some(head.text_generation), found.text_generation);
    assert_eq!(test.found("fan").await, [(document, head.generation)]);
    assert!(test.found("valve").await.is_empty());
}

#[tokio::test]
async fn a_document_that_a_model_refuses_does_not_keep_others_from_its_vectors() {
    let test = Sandbox::new().await;
    test.models.choose(&["first"]);
    // Two documents of one item of the job.
    let mut buckets: BTreeMap<String, Vec<(DocumentId, String)>> = BTreeMap::new();
    let mut names = (0..).map(|number| format!("{number}.md"));
    let mut pair = loop {
        let name = names.next().unwrap();
        let id = DocumentId::derive(&[&name]);
        let bucket = Digest::of(id.as_str().as_bytes()).as_str()[..2].to_owned();
        let documents = buckets.entry(bucket).or_default();
        documents.push((id, name));
        if documents.len() == 2 {
            break std::mem::take(documents);
        }
    };
    pair.sort();
    for ((_, name), text) in pair.iter().zip([TEXT, "# Fans\n\nThe fan turns."]) {
        let document = test.create(name, text).await;
        test.ingested(&document).await;
    }
    test.models.choose(&["second", "first"]);
    *test.models.refused.lock().unwrap() = Some("pump");
    let jobs = test.start_jobs().await;
    let interval = Duration::from_millis(50);
    let maintenance = Maintenance::start(test.knowledge.clone(), interval, Arc::new(|_: &OrgId| true));
    let [(refused, _), (other, _)] = &pair[..] else { panic!("{pair:?}") };
    wait_for("vectors of the other document", Duration::from_secs(20), || async {
        test.head(other).await.filter(|head| head.space.as_deref() == Some("own/second/0"))
    })
    .await;
    maintenance.stop(Duration::from_secs(5)).await;
    jobs.stop().await;
    assert_eq!(test.head(refused).await.unwrap().space.as_deref(), Some("own/first/0"));
    assert_eq!(test.knowledge.serving_space(&test.org).await.unwrap().unwrap().model, "first");
}
