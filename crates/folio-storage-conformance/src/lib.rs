//! Conformance suites: one for each storage trait. Every adapter runs all of them.
//!
//! A suite uses the traits only, and works in an organization that is derived from a `nonce`. It can therefore run on a
//! store that contains other data, and repeatedly with another `nonce`. It returns the first violation. [`faults`]
//! proves that the suites find violations.

mod access;
mod audit;
mod blobs;
mod content_sizes;
mod context;
mod crash;
mod credit;
mod deleted_document;
mod deletions;
mod erasure;
mod extraction_lists;
pub mod faults;
mod health;
mod jobs;
pub mod layer;
mod memory;
mod open_turns;
mod ops;
mod paging;
mod passages;
mod random;
mod resources;
mod revisions;
mod sample;
mod scenario;
pub mod shared;
mod texts;
mod threads;
mod threads_append;
mod usage;

use std::fmt;

use futures::future::BoxFuture;

pub use crash::{crash_points_passed, with_crash_points};
pub use deleted_document::{FilledDocument, fill_document};
pub use erasure::fill;
pub use random::random_operations;
pub use revisions::bounded_revisions;
pub use scenario::{STEPS, step};

use self::context::Context;
use folio_storage::Stores;

/// A violation that a suite found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure(pub String);

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Failure {}

impl From<folio_types::Error> for Failure {
    fn from(error: folio_types::Error) -> Self {
        Self(format!("unexpected error: {error}"))
    }
}

/// The result of a suite.
pub type Outcome = Result<(), Failure>;

type Suite = fn(Context) -> BoxFuture<'static, Outcome>;

/// The suites by the name of their trait.
const SUITES: &[(&str, Suite)] = &[
    ("access", |context| Box::pin(async move { access::suite(&context).await })),
    ("audit", |context| Box::pin(async move { audit::suite(&context).await })),
    ("blobs", |context| Box::pin(async move { blobs::suite(&context).await })),
    ("credit", |context| Box::pin(async move { credit::suite(&context).await })),
    ("erasure", |context| Box::pin(async move { erasure::suite(&context).await })),
    ("health", |context| Box::pin(async move { health::suite(&context).await })),
    ("jobs", |context| Box::pin(async move { jobs::suite(&context).await })),
    ("open_turns", |context| Box::pin(async move { open_turns::suite(&context).await })),
    ("ops", |context| Box::pin(async move { ops::suite(&context.since(ops::SECONDS)).await })),
    ("resources", |context| Box::pin(async move { resources::suite(&context).await })),
    ("texts", |context| Box::pin(async move { texts::suite(&context).await })),
    ("threads", |context| Box::pin(async move { threads::suite(&context).await })),
    ("usage", |context| Box::pin(async move { usage::suite(&context).await })),
];

/// Returns the names of the suites, one for each trait.
pub fn names() -> impl Iterator<Item = &'static str> {
    SUITES.iter().map(|(name, _)| *name)
}

/// Runs the suite of one trait. `resources/KIND` runs the suite of resources for one kind.
pub async fn run(name: &str, stores: Stores, nonce: &str) -> Outcome {
    let (of_trait, _) = name.split_once('/').unwrap_or((name, ""));
    let (_, suite) =
        SUITES.iter().find(|(suite, _)| *suite == of_trait).ok_or_else(|| Failure(format!("no suite {name:?}")))?;
    suite(Context::new(stores, name, nonce)).await.map_err(|Failure(what)| Failure(format!("{name}: {what}")))
}

/// Fails the suite unless the condition is true.
macro_rules! check {
    ($condition:expr, $($what:tt)+) => {
        if !$condition {
            return Err($crate::Failure(format!($($what)+)));
        }
    };
}

/// Fails the suite unless both values are equal.
macro_rules! same {
    ($one:expr, $other:expr, $($what:tt)+) => {{
        let (one, other) = (&$one, &$other);
        if one != other {
            let what = format!($($what)+);
            return Err($crate::Failure(format!("{what}: {one:?} differs from {other:?}")));
        }
    }};
}

/// Fails the suite unless the result is an error with this reason.
macro_rules! refused {
    ($result:expr, $reason:ident, $($what:tt)+) => {{
        let result = $result;
        match &result {
            Err(error) if error.reason == folio_types::Reason::$reason => {}
            other => {
                let what = format!($($what)+);
                return Err($crate::Failure(format!("{what}: not refused with the expected reason: {other:?}")));
            }
        }
    }};
}

pub(crate) use {check, refused, same};
