//! Changes and deletions of a document during its ingestion or removal.

use super::*;

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
async fn a_removal_that_meets_the_ingestion_of_a_new_text_is_repeated() {
    let test = Sandbox::new().await;
    let document = test.create("pumps.md", TEXT).await;
    test.ingested(&document).await;
    test.environment.advance(Duration::from_secs(1));
    let (state, at) = (TextState::NoText("blank".to_owned()), test.environment.now());
    let update = IngestUpdate { state, pages: Vec::new(), lacks_program: false, at };
    test.stores().texts.ingest(&test.org, document.as_str(), update).await.unwrap();
    let (knowledge, environment) = (test.knowledge.clone(), test.environment.clone());
    let (org, id) = (test.org.clone(), document.clone());
    let step: BoxFuture<'static, ()> = Box::pin(async move {
        store_text(&knowledge.stores, &environment, (&org, &id), "# Fans\n\nThe fan turns.").await;
        ingest_now(&knowledge, &environment, (&org, &id)).await.unwrap();
    });
    let scripted = test.with_script(Scripted { during_removal: Mutex::new(Some(step)), ..Scripted::default() });
    let error = ingest_now(&scripted, &test.environment, (&test.org, &document)).await.unwrap_err();
    assert!(error.reason == Reason::VersionConflict && error.is_retriable(), "{error}");
    ingest_now(&scripted, &test.environment, (&test.org, &document)).await.unwrap();
    assert_eq!(test.found("fan").await.len(), 1);
}
