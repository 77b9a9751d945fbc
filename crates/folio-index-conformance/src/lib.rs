//! Conformance suite of [`PassageIndex`]. Every adapter runs it.
//!
//! The suite uses the port only, and works in organizations that are derived from a `nonce`. It can therefore run on an
//! index that contains other data. It returns the first violation.

mod concurrency;
mod filters;
mod lifecycle;
mod ranking;
mod sample;
mod tenants;

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use folio_index::PassageIndex;
use folio_types::Result;

/// A violation that the suite found.
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
        Self(format!("an operation failed: {error}"))
    }
}

type Outcome<T = ()> = std::result::Result<T, Failure>;

/// Opens the index under test. Each call returns an adapter over the same data, as after a restart. The suite drops the
/// earlier one before.
#[async_trait]
pub trait Fixture: Send + Sync {
    async fn open(&self) -> Result<Arc<dyn PassageIndex>>;
}

fn check(is_met: bool, what: impl fmt::Display) -> Outcome {
    if is_met { Ok(()) } else { Err(Failure(what.to_string())) }
}

fn same<T: PartialEq + fmt::Debug>(found: T, expected: T, what: &str) -> Outcome {
    check(found == expected, format_args!("{what}: {found:?}, expected {expected:?}"))
}

/// Runs the suite. Equal values of `nonce` use the same organizations.
///
/// # Errors
/// The first violation.
pub async fn suite(fixture: &dyn Fixture, nonce: &str) -> Outcome {
    lifecycle::suite(fixture, nonce).await?;
    let index = fixture.open().await?;
    tenants::suite(&*index, nonce).await?;
    ranking::suite(&*index, nonce).await?;
    filters::suite(&*index, nonce).await?;
    concurrency::suite(index, nonce).await
}
