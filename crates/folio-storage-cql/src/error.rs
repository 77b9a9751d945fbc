//! Translation of the driver's errors.

use folio_breaker::Outcome;
use folio_types::{Code, Error, Reason};
use scylla::errors::{DbError, ExecutionError, RequestAttemptError, WriteType};

/// Returns the error for an unreachable store or a time-out: the outcome of a write is unknown.
pub(crate) fn unavailable(what: &str, error: &dyn std::fmt::Display) -> Error {
    tracing::warn!(%error, what, "a request to the CQL store failed");
    Error::unavailable(Reason::StoreUnavailable, "the store is unreachable or timed out")
}

/// Returns the error of a read or of a repeatable write.
pub(crate) fn failed(error: &ExecutionError) -> Error {
    if is_ours(error) {
        tracing::error!(%error, "a CQL statement is invalid");
        return Error::internal(format!("a CQL statement was refused: {error}"));
    }
    unavailable("statement", error)
}

/// Returns the error for a row that this build cannot read; logs the cause.
pub(crate) fn unreadable(error: &dyn std::fmt::Display) -> Error {
    tracing::error!(%error, "a row has a shape that this build cannot read");
    Error::new(Code::DataLoss, Reason::StoredFormat, "a row has a shape that this build cannot read")
}

/// Returns whether the statement itself is wrong, so that nothing was written.
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

/// Returns the health of the servers after an error.
pub(crate) fn health(error: &ExecutionError) -> Outcome {
    match error {
        error if is_ours(error) => Outcome::Success,
        // Contention on one partition is no sign of an unhealthy server.
        ExecutionError::LastAttemptError(RequestAttemptError::DbError(
            DbError::WriteTimeout { write_type: WriteType::Cas, .. },
            _,
        )) => Outcome::Abandoned,
        _ => Outcome::Failure,
    }
}
