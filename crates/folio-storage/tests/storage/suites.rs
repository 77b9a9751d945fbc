//! The suites on the embedded adapter, and a planted fault for each to catch.

use folio_storage::conformance;
use folio_storage::embedded::{Bug, EmbeddedStore, Options};

async fn opened(bug: Option<Bug>) -> (tempfile::TempDir, EmbeddedStore) {
    let folder = tempfile::tempdir().unwrap();
    let options = Options { planted_bug: bug, ..Options::at(folder.path()) };
    let store = EmbeddedStore::open(options).unwrap();
    (folder, store)
}

/// All suites run on one store, twice, so that none depends on an empty one.
#[tokio::test]
async fn the_embedded_store_passes_every_suite() {
    let (_folder, store) = opened(None).await;
    for nonce in ["first", "second"] {
        for name in conformance::names() {
            conformance::run(name, store.stores(), nonce).await.unwrap();
        }
    }
    store.close().await;
}

/// The suites that must catch a bug; none: other tests show it.
fn caught_by(bug: Bug) -> &'static [&'static str] {
    match bug {
        Bug::FirstOrganizationOverwritten => &["access"],
        Bug::BlobVisibleBeforeFinish => &["blobs"],
        Bug::DeletedTextStays | Bug::IngestIgnoresDeletion => &["documents"],
        Bug::ExtractionOfDeletedDocument => &["extractions"],
        Bug::OpenTurnRemovesAllEpochs => &["open_turns"],
        Bug::CloseOverwrites | Bug::OpRowMissing | Bug::OpRowNoCondition => &["ops"],
        Bug::ExpectedIgnored => &["ops", "tags", "schemas", "prompts", "documents", "extractions"],
        Bug::ReferenceUnchecked => &["prompts", "documents"],
        Bug::ReferenceIgnored => &["tags", "schemas", "prompts"],
        Bug::OldRevisionForgotten => &["schemas", "prompts"],
        Bug::NameNotUnique | Bug::NameCaseMatters => &["tags", "schemas", "prompts"],
        Bug::TombstoneVersionReset => &["tags", "schemas", "prompts", "documents", "extractions"],
        Bug::PageTokenUnchecked => &["tags", "schemas", "prompts", "documents", "threads"],
        Bug::FenceOff | Bug::RequestRowOverwritten | Bug::BatchRowMissing => &["threads"],
        Bug::UsageTwice => &["usage"],
        Bug::FailedTransactionKept => &["prompts"],
        Bug::AcknowledgedBeforeCommit | Bug::TornTransaction | Bug::CommitFails => &[],
    }
}

#[tokio::test]
async fn every_suite_catches_the_bugs_planted_for_its_trait() {
    let mut proved = std::collections::BTreeSet::new();
    let mut missed = Vec::new();
    for bug in Bug::ALL.iter().copied() {
        for suite in caught_by(bug) {
            let (_folder, store) = opened(Some(bug)).await;
            match conformance::run(suite, store.stores(), "planted").await {
                Err(_) => drop(proved.insert(*suite)),
                Ok(()) => missed.push(format!("{suite} misses {}", bug.name())),
            }
            store.close().await;
        }
    }
    assert!(missed.is_empty(), "{missed:?}");
    let unproved: Vec<_> = conformance::names().filter(|name| !proved.contains(name)).collect();
    assert!(unproved.is_empty(), "no bug is planted for {unproved:?}");
}

#[tokio::test]
async fn random_operations_do_as_a_simple_model_foretells() {
    let seed = folio_testkit::seed();
    let (_folder, store) = opened(None).await;
    for round in 0..3_u64 {
        let nonce = round.to_string();
        conformance::random_operations(store.stores(), &nonce, seed.wrapping_add(round), 800).await.unwrap();
    }
    store.close().await;
}

#[tokio::test]
async fn random_operations_show_planted_bugs() {
    for bug in [Bug::OpRowMissing, Bug::ExpectedIgnored, Bug::NameNotUnique, Bug::ReferenceIgnored, Bug::FenceOff] {
        let (_folder, store) = opened(Some(bug)).await;
        let outcome = conformance::random_operations(store.stores(), "planted", 7, 2_000).await;
        assert!(outcome.is_err(), "{} was not seen", bug.name());
        store.close().await;
    }
}
