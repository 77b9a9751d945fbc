//! The conformance suites on the CQL adapter.

use std::collections::BTreeSet;

use folio_resources::{Organization, OrganizationChange};
use folio_storage_conformance::faults::{Fault, decorate};
use folio_storage_cql::CqlStore;
use folio_types::OrgId;
use folio_types::op::{Expected, Write};

use crate::{nonce, open_shared_stores, options};

/// Runs a suite twice in one keyspace, so that no suite depends on an empty keyspace.
async fn check_suite(suite: &str) {
    let opened = open_shared_stores().await;
    for _ in 0..2 {
        folio_storage_conformance::run(suite, opened.stores.clone(), &nonce()).await.unwrap();
    }
}

macro_rules! suites {
    ($($test:ident: $suite:literal,)+) => {
        $(
            #[tokio::test]
            async fn $test() {
                check_suite($suite).await;
            }
        )+

        const SUITES: &[&str] = &[$($suite),+];
    };
}

suites! {
    access_passes_its_suite: "access",
    audit_passes_its_suite: "audit",
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

#[test]
fn every_suite_except_that_of_blobs_runs() {
    assert!(folio_storage_conformance::names().filter(|name| *name != "blobs").eq(SUITES.iter().copied()));
}

#[tokio::test]
async fn a_new_revision_beyond_the_maximum_removes_the_oldest_that_nothing_names() {
    let opened = open_shared_stores().await;
    folio_storage_conformance::bounded_revisions(opened.stores.clone(), &nonce()).await.unwrap();
}

#[tokio::test]
async fn random_operations_match_the_pure_rules_in_memory() {
    let (seed, opened) = (folio_testkit::seed(), open_shared_stores().await);
    folio_storage_conformance::random_operations(opened.stores.clone(), &nonce(), seed, 150).await.unwrap();
}

#[tokio::test]
async fn every_suite_catches_the_faults_of_its_trait() {
    let mut proved: BTreeSet<&str> = BTreeSet::new();
    let mut missed = Vec::new();
    // Uses a keyspace of its own, because the rows that a fault leaves must not disturb other tests.
    let (blobs, keyspace) = (open_shared_stores().await, CqlStore::open(options("folio_faults").await).await.unwrap());
    let stores = keyspace.stores(blobs.stores.blobs.clone());
    for fault in Fault::ALL.iter().copied() {
        for suite in fault.caught_by().iter().filter(|suite| **suite != "blobs") {
            match folio_storage_conformance::run(suite, decorate(&stores, fault), &nonce()).await {
                Err(_) => drop(proved.insert(suite.split('/').next().unwrap_or(suite))),
                Ok(()) => missed.push(format!("{suite} misses {}", fault.name())),
            }
        }
    }
    assert!(missed.is_empty(), "{missed:?}");
    let unproved: Vec<_> = SUITES.iter().filter(|name| !proved.contains(*name)).collect();
    assert!(unproved.is_empty(), "no fault for {unproved:?}");
}

#[tokio::test]
async fn content_of_a_deleted_document_is_erased_from_all_tables_after_a_day() {
    let opened = open_shared_stores().await;
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
async fn content_of_an_erased_organization_is_erased_from_all_tables() {
    let opened = open_shared_stores().await;
    let (stores, nonce) = (&opened.stores, nonce());
    let kept = folio_storage_conformance::fill(stores, &format!("{nonce} kept"), "hippopotamus").await.unwrap();
    let erased = folio_storage_conformance::fill(stores, &format!("{nonce} erased"), "rhinoceros").await.unwrap();
    let rows = async |word: &str| {
        let all = opened.cql.everything().await.unwrap();
        // Rows of requests expire separately, and other suites remove those of all organizations.
        let kept = all
            .into_iter()
            .filter(|row| row.contains(word) && !(row.starts_with("idempotency ") && word == kept.as_str()));
        kept.collect::<Vec<_>>()
    };
    let rows_of_other = rows(kept.as_str()).await;
    assert!(rows("rhinoceros").await.len() > 10 && rows_of_other.len() > 20);
    let (key, at) = (format!("delete-{erased}").parse().unwrap(), folio_types::Timestamp::now());
    let delete = Write::by_platform(OrgId::platform(), key, at, Expected::Version(1), OrganizationChange::Delete);
    stores.of::<Organization>().decide(&erased, delete).await.unwrap();
    stores.erasure.erase(&[erased.clone()].into()).await.unwrap();
    assert_eq!(rows("rhinoceros").await, Vec::<String>::new());
    // The remaining rows are the tombstone, the deletion index and the records of both writes.
    let (left, platform) = (rows(erased.as_str()).await, OrgId::platform());
    assert!(left.iter().all(|row| row.contains(platform.as_str())), "{left:?}");
    assert_eq!(rows(kept.as_str()).await, rows_of_other);
}
