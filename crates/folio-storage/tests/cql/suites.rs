//! The suites on the CQL adapter.

use folio_storage::conformance;

use crate::{nonce, opened};

/// Twice in one keyspace, so that no suite depends on an empty one.
async fn passes(suite: &str) {
    let opened = opened().await;
    for _ in 0..2 {
        conformance::run(suite, opened.stores.clone(), &nonce()).await.unwrap();
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
    documents_hold_what_their_suite_says: "documents",
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
    assert!(conformance::names().filter(|name| *name != "blobs").eq(SUITES.iter().copied()));
}

#[tokio::test]
async fn random_operations_do_as_a_simple_model_foretells() {
    let (seed, opened) = (folio_testkit::seed(), opened().await);
    conformance::random_operations(opened.stores.clone(), &nonce(), seed, 150).await.unwrap();
}
