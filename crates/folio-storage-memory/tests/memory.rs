//! The conformance suites on the shared stores in memory.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use std::sync::Arc;

use folio_types::System;

#[tokio::test]
async fn memory_holds_what_the_suites_say() {
    let stores = folio_storage_memory::shared_stores(Arc::new(System), folio_storage_conformance::shared::options());
    for nonce in ["first", "second"] {
        folio_storage_conformance::shared::run_all(stores.clone(), nonce).await.unwrap();
    }
}
