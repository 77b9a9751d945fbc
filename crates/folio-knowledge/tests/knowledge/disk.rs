//! An index without disk space for all passages.

use super::*;

#[tokio::test]
async fn a_document_without_disk_space_in_the_index_is_stored_and_the_index_is_incomplete() {
    let mut test = Sandbox::new().await;
    let folder = tempfile::tempdir().unwrap();
    // An organization has half of the space, and its index counts twice: 64 KiB.
    let bounds = EmbeddedOptions { disk_bytes: 4 * 64 * 1024, ..EmbeddedOptions::default() };
    test.knowledge.index = Arc::new(EmbeddedIndex::open(folder.path().to_owned(), bounds).unwrap());
    let small = test.create("small.md", TEXT).await;
    let head = test.ingested(&small).await;
    assert_eq!(test.knowledge.index.state(&test.org).await.unwrap(), IndexState::Ready);
    let large = test.create("large.md", &"The engine starts.\n\n".repeat(4_500)).await;
    assert!(matches!(test.ingest(&large).await.unwrap(), Ingested::Live(_)));
    assert_eq!(test.state_of(&large).await, IngestionState::Indexed);
    assert_eq!(test.knowledge.index.state(&test.org).await.unwrap(), IndexState::Rebuilding);
    let refused = rebuild(&test.knowledge, &test.org).await.unwrap_err();
    assert_eq!(refused.reason, Reason::QuotaExceeded);
    assert_eq!(test.found("pump").await, [(small, head.generation)], "the index is not emptied");
}
