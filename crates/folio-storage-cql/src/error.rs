//! What the driver's errors mean.

use folio_breaker::Outcome;
use folio_types::{Code, Error, Reason};
use scylla::errors::{DbError, ExecutionError, RequestAttemptError, WriteType};

/// The store cannot be reached, or did not answer in time: of a write, its outcome is unknown.
pub(crate) fn unavailable(what: &str, error: &dyn std::fmt::Display) -> Error {
    tracing::warn!(%error, what, "the CQL store did not serve a request");
    Error::unavailable(Reason::StoreUnavailable, "the store could not be reached or did not answer in time")
}

/// An error of a read, or of a write that may be repeated.
pub(crate) fn failed(error: &ExecutionError) -> Error {
    if is_ours(error) {
        tracing::error!(%error, "a CQL statement is wrong");
        return Error::internal(format!("a CQL statement was refused: {error}"));
    }
    unavailable("statement", error)
}

/// What was stored does not have the shape that this build reads.
pub(crate) fn unreadable(error: &dyn std::fmt::Display) -> Error {
    tracing::error!(%error, "a row has another shape than this build reads");
    Error::new(Code::DataLoss, Reason::StoredFormat, "a row has another shape than this build reads")
}

/// Whether the statement is to blame, and nothing was written for sure.
fn is_ours(error: &ExecutionError) -> bool {
    match error {
        ExecutionError::BadQuery(_) => true,
        ExecutionError::LastAttemptError(RequestAttemptError::SerializationError(_)) => true,
        ExecutionError::LastAttemptError(RequestAttemptError::DbError(error, _)) => {
            matches!(error, DbError::SyntaxError | DbError::Invalid | DbError::Unauthorized | DbError::ConfigError)
        }
        _ => false,
    }
}

/// What an error says of the servers.
pub(crate) fn says(error: &ExecutionError) -> Outcome {
    match error {
        error if is_ours(error) => Outcome::Success,
        // Many wanted the same partition: that says nothing of the others.
        ExecutionError::LastAttemptError(RequestAttemptError::DbError(
            DbError::WriteTimeout { write_type: WriteType::Cas, .. },
            _,
        )) => Outcome::Abandoned,
        _ => Outcome::Failure,
    }
}
