//! Indexes of several organizations.

use super::*;

#[tokio::test]
async fn an_index_that_cannot_be_removed_does_not_keep_those_of_other_deleted_organizations() {
    let test = Sandbox::new().await;
    let mut deleted = ["a", "b", "c"].map(|name| OrgId::derive(&[name]));
    deleted.sort();
    for org in &deleted {
        test.knowledge.index.begin_rebuild(org).await.unwrap();
    }
    let [first, others @ ..] = &deleted;
    let knowledge = test.with_script(Scripted { undeletable: Some(first.clone()), ..Scripted::default() });
    let maintenance = Maintenance::start(knowledge, Duration::from_millis(50), Arc::new(|_: &OrgId| true));
    wait_for("the removals", Duration::from_secs(20), || async {
        let indexed = test.knowledge.index.organizations().await.unwrap();
        (!others.iter().any(|org| indexed.contains(org))).then_some(())
    })
    .await;
    maintenance.stop(Duration::from_secs(5)).await;
    assert!(test.knowledge.index.organizations().await.unwrap().contains(first));
}

#[tokio::test]
async fn invariant_6_no_organization_finds_passages_of_another() {
    let test = Sandbox::new().await;
    let document = test.create("pumps.md", TEXT).await;
    test.ingested(&document).await;
    let other = OrgId::derive(&["other"]);
    let search = Search { text: "pump".to_owned(), vector: None, filter: Filter::default(), limit: 10 };
    assert!(test.knowledge.index.search(&other, &search).await.unwrap().hits.is_empty());
    assert_eq!(test.knowledge.passages().head(&other, &document).await.unwrap(), None);
    let request = IngestRequest {
        org: other.clone(),
        user: UserId::platform(),
        document: document.clone(),
        key: "other".to_owned(),
        context: Context::default(),
    };
    assert!(matches!(ingest(&test.knowledge, request).await.unwrap(), Ingested::Skipped(_)));
    assert!(test.head(&document).await.is_some(), "another organization removes nothing");
}
