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

/// Twice on one store, so that no suite depends on an empty one.
async fn passes(suite: &str) {
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
                passes($suite).await;
            }
        )+

        #[test]
        fn no_suite_is_left_out() {
            assert!(folio_storage_conformance::names().eq([$($suite),+]));
        }
    };
}

suites! {
    access_holds_what_its_suite_says: "access",
    audit_holds_what_its_suite_says: "audit",
    blobs_hold_what_their_suite_says: "blobs",
    invariant_5_credit_holds_what_its_suite_says: "credit",
    documents_hold_what_their_suite_says: "documents",
    erasure_holds_what_its_suite_says: "erasure",
    extractions_hold_what_their_suite_says: "extractions",
    health_holds_what_its_suite_says: "health",
    open_turns_hold_what_their_suite_says: "open_turns",
    invariant_3_ops_hold_what_their_suite_says: "ops",
    prompts_hold_what_their_suite_says: "prompts",
    schemas_hold_what_their_suite_says: "schemas",
    tags_hold_what_their_suite_says: "tags",
    invariant_1_threads_hold_what_their_suite_says: "threads",
    usage_holds_what_its_suite_says: "usage",
}

#[tokio::test]
async fn every_suite_catches_the_faults_of_its_trait() {
    let mut proved: BTreeSet<&str> = BTreeSet::new();
    let mut missed = Vec::new();
    for fault in Fault::ALL.iter().copied() {
        for suite in fault.caught_by() {
            let (_folder, store) = opened().await;
            match folio_storage_conformance::run(suite, decorate(&store.stores(), fault), "faulty").await {
                Err(_) => drop(proved.insert(suite)),
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
async fn random_operations_do_as_a_simple_model_foretells() {
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
async fn random_operations_show_faults() {
    use Fault::{ExpectedIgnored, FenceOff, NameNotUnique, OpRowMissing, ReferenceIgnored};
    for fault in [OpRowMissing, ExpectedIgnored, NameNotUnique, ReferenceIgnored, FenceOff] {
        let (_folder, store) = opened().await;
        let stores = decorate(&store.stores(), fault);
        let outcome = folio_storage_conformance::random_operations(stores, "faulty", 7, 2_000).await;
        assert!(outcome.is_err(), "{} was not seen", fault.name());
        store.close().await;
    }
}

#[tokio::test]
async fn no_word_of_a_deleted_document_is_left_a_day_later() {
    let (folder, store) = opened().await;
    let filled = folio_storage_conformance::fill_document(&store.stores(), "gone", "platypus").await.unwrap();
    let with = || store.everything().unwrap().into_iter().filter(|row| row.contains("platypus")).collect::<Vec<_>>();
    assert!(with().len() > 10, "{:?}", with());
    filled.delete().await.unwrap();
    assert_eq!(with(), Vec::<String>::new());
    let bytes = std::fs::read_dir(folder.path().join("blobs").join(filled.org().as_str()));
    assert_eq!(bytes.map_or(0, Iterator::count), 0, "its bytes are there");
    store.close().await;
}

#[tokio::test]
async fn no_word_of_an_erased_organization_is_left_anywhere() {
    let (folder, store) = opened().await;
    let stores = store.stores();
    let kept = folio_storage_conformance::fill(&stores, "kept", "hippopotamus").await.unwrap();
    let before = store.everything().unwrap();
    let gone = folio_storage_conformance::fill(&stores, "gone", "rhinoceros").await.unwrap();
    let with =
        |word: &str| store.everything().unwrap().into_iter().filter(|row| row.contains(word)).collect::<Vec<_>>();
    assert!(with("rhinoceros").len() > 10, "{:?}", with("rhinoceros"));
    let (key, at) = (format!("delete-{gone}").parse().unwrap(), folio_types::Timestamp::now());
    let delete = Write::by_platform(OrgId::platform(), key, at, Expected::Version(1), OrganizationChange::Delete);
    stores.of::<Organization>().decide(&gone, delete).await.unwrap();
    stores.erasure.erase(&[gone.clone()].into()).await.unwrap();
    stores.blobs.delete_all(&gone).await.unwrap();
    assert_eq!(with("rhinoceros"), Vec::<String>::new());
    // The tombstone, the deletion index and the records of both writes.
    let (left, platform) = (with(gone.as_str()), OrgId::platform());
    assert!(left.iter().all(|row| row.contains(platform.as_str())), "{left:?}");
    let others = store.everything().unwrap().into_iter().filter(|row| !row.contains(gone.as_str()));
    assert_eq!(others.collect::<Vec<_>>(), before, "{kept}");
    let bytes = std::fs::read_dir(folder.path().join("blobs")).unwrap();
    let names: Vec<_> = bytes.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    assert!(names.contains(&kept.to_string()) && !names.contains(&gone.to_string()), "{names:?}");
    store.close().await;
}
