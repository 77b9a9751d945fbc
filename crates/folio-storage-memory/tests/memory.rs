//! The conformance suites on the shared stores in memory.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use std::sync::Arc;

use folio_storage::SharedStores;
use folio_storage_conformance::faults::SharedFault;
use folio_types::System;

fn opened() -> SharedStores {
    folio_storage_memory::shared_stores(Arc::new(System), folio_storage_conformance::shared::options())
}

#[tokio::test]
async fn memory_passes_the_suites() {
    let stores = opened();
    for nonce in ["first", "second"] {
        folio_storage_conformance::shared::run_all(stores.clone(), nonce).await.unwrap();
    }
}

#[tokio::test]
async fn every_suite_catches_the_faults_of_its_trait() {
    let runs = SharedFault::ALL.iter().map(async |fault| {
        let stores = fault.decorate(&opened());
        let outcome = folio_storage_conformance::shared::run(fault.caught_by(), stores, "faulty").await;
        outcome.is_ok().then_some(fault)
    });
    let missed: Vec<_> = futures::future::join_all(runs).await.into_iter().flatten().collect();
    assert!(missed.is_empty(), "{missed:?}");
    for suite in folio_storage_conformance::shared::names() {
        assert!(SharedFault::ALL.iter().any(|fault| fault.caught_by() == suite), "no fault for {suite}");
    }
}
