//! Isolation of the passages of organizations.

use super::*;

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
