//! The conformance suites on the embedded adapter, and the faults that each suite must catch.

use std::collections::BTreeSet;

use folio_resources::{Organization, OrganizationChange};
use folio_storage_conformance::faults::{Fault, decorate};
use folio_storage_embedded::{EmbeddedStore, Options};
use folio_types::OrgId;
use folio_types::op::{Expected, Write};

async fn opened() -> (tempfile::TempDir, EmbeddedStore) {
    let folder = tempfile::tempdir().unwrap();
    let store = EmbeddedStore::open(Options::at(folder.path())).unwrap();
    (folder, store)
}

/// Runs a suite twice on one store, so that no suite depends on an empty store.
async fn check_suite(suite: &str) {
    let (_folder, store) = opened().await;
    for nonce in ["first", "second"] {
        folio_storage_conformance::run(suite, store.stores(), nonce).await.unwrap();
    }
    store.close().await;
}

macro_rules! suites {
    ($($test:ident: $suite:literal,)+) => {
        $(
            #[tokio::test]
            async fn $test() {
                check_suite($suite).await;
            }
        )+

        #[test]
        fn every_suite_runs() {
            assert!(folio_storage_conformance::names().eq([$($suite),+]));
        }
    };
}

suites! {
    access_passes_its_suite: "access",
    audit_passes_its_suite: "audit",
    blobs_pass_their_suite: "blobs",
    invariant_5_credit_passes_its_suite: "credit",
    erasure_passes_its_suite: "erasure",
    health_passes_its_suite: "health",
    invariant_1_jobs_pass_their_suite: "jobs",
    open_turns_pass_their_suite: "open_turns",
    invariant_3_ops_pass_their_suite: "ops",
    resources_of_all_kinds_pass_their_suite: "resources",
    summaries_pass_their_suite: "summaries",
    texts_pass_their_suite: "texts",
    invariant_1_threads_pass_their_suite: "threads",
    usage_passes_its_suite: "usage",
}

#[tokio::test]
async fn every_suite_catches_the_faults_of_its_trait() {
    let mut proved: BTreeSet<&str> = BTreeSet::new();
    let mut missed = Vec::new();
    for fault in Fault::ALL.iter().copied() {
        for suite in fault.caught_by() {
            let (_folder, store) = opened().await;
            match folio_storage_conformance::run(suite, decorate(&store.stores(), fault), "faulty").await {
                Err(_) => drop(proved.insert(suite.split('/').next().unwrap_or(suite))),
                Ok(()) => missed.push(format!("{suite} misses {}", fault.name())),
            }
            store.close().await;
        }
    }
    assert!(missed.is_empty(), "{missed:?}");
    let unproved: Vec<_> = folio_storage_conformance::names().filter(|name| !proved.contains(name)).collect();
    assert!(unproved.is_empty(), "no fault for {unproved:?}");
}

#[tokio::test]
async fn a_new_revision_beyond_the_maximum_removes_the_oldest_that_nothing_names() {
    let (_folder, store) = opened().await;
    folio_storage_conformance::bounded_revisions(store.stores(), "").await.unwrap();
    store.close().await;
}

#[tokio::test]
async fn random_operations_match_the_pure_rules_in_memory() {
    let seed = folio_testkit::seed();
    let (_folder, store) = opened().await;
    for round in 0..3_u64 {
        let nonce = round.to_string();
        folio_storage_conformance::random_operations(store.stores(), &nonce, seed.wrapping_add(round), 800)
            .await
            .unwrap();
    }
    store.close().await;
}

#[tokio::test]
async fn random_operations_detect_faults() {
    use Fault::{ExpectedIgnored, FenceOff, NameNotUnique, OpRowMissing, ReferenceIgnored};
    for fault in [OpRowMissing, ExpectedIgnored, NameNotUnique, ReferenceIgnored, FenceOff] {
        let (_folder, store) = opened().await;
        let stores = decorate(&store.stores(), fault);
        let outcome = folio_storage_conformance::random_operations(stores, "faulty", 7, 2_000).await;
        assert!(outcome.is_err(), "{} was not detected", fault.name());
        store.close().await;
    }
}

#[tokio::test]
async fn content_of_a_deleted_document_is_erased_after_a_day() {
    let (folder, store) = opened().await;
    let filled = folio_storage_conformance::fill_document(&store.stores(), "erased", "platypus").await.unwrap();
    let rows_containing =
        || store.everything().unwrap().into_iter().filter(|row| row.contains("platypus")).collect::<Vec<_>>();
    assert!(rows_containing().len() > 10, "{:?}", rows_containing());
    filled.delete().await.unwrap();
    assert_eq!(rows_containing(), Vec::<String>::new());
    let bytes = std::fs::read_dir(folder.path().join("blobs").join(filled.org().as_str()));
    assert_eq!(bytes.map_or(0, Iterator::count), 0, "its bytes are stored");
    store.close().await;
}

#[tokio::test]
async fn content_of_an_erased_organization_is_erased_everywhere() {
    let (folder, store) = opened().await;
    let stores = store.stores();
    let kept = folio_storage_conformance::fill(&stores, "kept", "hippopotamus").await.unwrap();
    let before = store.everything().unwrap();
    let erased = folio_storage_conformance::fill(&stores, "erased", "rhinoceros").await.unwrap();
    let rows_containing =
        |word: &str| store.everything().unwrap().into_iter().filter(|row| row.contains(word)).collect::<Vec<_>>();
    assert!(rows_containing("rhinoceros").len() > 10, "{:?}", rows_containing("rhinoceros"));
    let (key, at) = (format!("delete-{erased}").parse().unwrap(), folio_types::Timestamp::now());
    let delete = Write::by_platform(OrgId::platform(), key, at, Expected::Version(1), OrganizationChange::Delete);
    stores.of::<Organization>().decide(&erased, delete).await.unwrap();
    stores.erasure.erase(&[erased.clone()].into()).await.unwrap();
    stores.blobs.delete_all(&erased).await.unwrap();
    assert_eq!(rows_containing("rhinoceros"), Vec::<String>::new());
    // The remaining rows are the tombstone, the deletion index and the records of both writes.
    let (left, platform) = (rows_containing(erased.as_str()), OrgId::platform());
    assert!(left.iter().all(|row| row.contains(platform.as_str())), "{left:?}");
    let others = store.everything().unwrap().into_iter().filter(|row| !row.contains(erased.as_str()));
    assert_eq!(others.collect::<Vec<_>>(), before, "{kept}");
    let bytes = std::fs::read_dir(folder.path().join("blobs")).unwrap();
    let names: Vec<_> = bytes.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    assert!(names.contains(&kept.to_string()) && !names.contains(&erased.to_string()), "{names:?}");
    store.close().await;
}
