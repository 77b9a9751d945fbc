//! The suites on the CQL adapter.

use std::collections::BTreeSet;

use folio_resources::{Organization, OrganizationChange};
use folio_storage_conformance::faults::{Fault, decorate};
use folio_storage_cql::CqlStore;
use folio_types::OrgId;
use folio_types::op::{Expected, Write};

use crate::{nonce, opened, options};

/// Twice in one keyspace, so that no suite depends on an empty one.
async fn passes(suite: &str) {
    let opened = opened().await;
    for _ in 0..2 {
        folio_storage_conformance::run(suite, opened.stores.clone(), &nonce()).await.unwrap();
    }
}

macro_rules! suites {
    ($($test:ident: $suite:literal,)+) => {
        $(
            #[tokio::test]
            async fn $test() {
                passes($suite).await;
            }
        )+

        const SUITES: &[&str] = &[$($suite),+];
    };
}

suites! {
    access_holds_what_its_suite_says: "access",
    audit_holds_what_its_suite_says: "audit",
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

/// Blobs are kept elsewhere.
#[test]
fn no_suite_but_that_of_blobs_is_left_out() {
    assert!(folio_storage_conformance::names().filter(|name| *name != "blobs").eq(SUITES.iter().copied()));
}

#[tokio::test]
async fn random_operations_do_as_a_simple_model_foretells() {
    let (seed, opened) = (folio_testkit::seed(), opened().await);
    folio_storage_conformance::random_operations(opened.stores.clone(), &nonce(), seed, 150).await.unwrap();
}

#[tokio::test]
async fn every_suite_catches_the_faults_of_its_trait() {
    let mut proved: BTreeSet<&str> = BTreeSet::new();
    let mut missed = Vec::new();
    // In a keyspace of its own: the rows that a fault leaves must not disturb other tests.
    let (blobs, keyspace) = (opened().await, CqlStore::open(options("folio_faulty").await).await.unwrap());
    let stores = keyspace.stores(blobs.stores.blobs.clone());
    for fault in Fault::ALL.iter().copied() {
        for suite in fault.caught_by().iter().filter(|suite| **suite != "blobs") {
            match folio_storage_conformance::run(suite, decorate(&stores, fault), &nonce()).await {
                Err(_) => drop(proved.insert(suite)),
                Ok(()) => missed.push(format!("{suite} misses {}", fault.name())),
            }
        }
    }
    assert!(missed.is_empty(), "{missed:?}");
    let unproved: Vec<_> = SUITES.iter().filter(|name| !proved.contains(*name)).collect();
    assert!(unproved.is_empty(), "no fault for {unproved:?}");
}

#[tokio::test]
async fn no_word_of_a_deleted_document_is_left_in_any_table_a_day_later() {
    let opened = opened().await;
    let filled = folio_storage_conformance::fill_document(&opened.stores, &nonce(), "platypus").await.unwrap();
    let rows = async || {
        let all = opened.cql.everything().await.unwrap();
        all.into_iter().filter(|row| row.contains("platypus")).collect::<Vec<_>>()
    };
    assert!(rows().await.len() > 10);
    filled.delete().await.unwrap();
    assert_eq!(rows().await, Vec::<String>::new());
}

#[tokio::test]
async fn no_word_of_an_erased_organization_is_left_in_any_table() {
    let opened = opened().await;
    let (stores, nonce) = (&opened.stores, nonce());
    let kept = folio_storage_conformance::fill(stores, &format!("{nonce} kept"), "hippopotamus").await.unwrap();
    let gone = folio_storage_conformance::fill(stores, &format!("{nonce} gone"), "rhinoceros").await.unwrap();
    let rows = async |word: &str| {
        let all = opened.cql.everything().await.unwrap();
        // Rows of requests go by their own time, of all organizations, and other suites let them.
        let kept =
            all.into_iter().filter(|row| row.contains(word) && !(row.starts_with("asked ") && word == kept.as_str()));
        kept.collect::<Vec<_>>()
    };
    let theirs = rows(kept.as_str()).await;
    assert!(rows("rhinoceros").await.len() > 10 && theirs.len() > 20);
    let (key, at) = (format!("delete-{gone}").parse().unwrap(), folio_types::Timestamp::now());
    let delete = Write::by_platform(OrgId::platform(), key, at, Expected::Version(1), OrganizationChange::Delete);
    stores.of::<Organization>().decide(&gone, delete).await.unwrap();
    stores.erasure.erase(&[gone.clone()].into()).await.unwrap();
    assert_eq!(rows("rhinoceros").await, Vec::<String>::new());
    // The tombstone, the deletion index and the records of both writes.
    let (left, platform) = (rows(gone.as_str()).await, OrgId::platform());
    assert!(left.iter().all(|row| row.contains(platform.as_str())), "{left:?}");
    assert_eq!(rows(kept.as_str()).await, theirs);
}
