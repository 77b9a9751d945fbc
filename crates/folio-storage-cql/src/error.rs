//! Translation of the driver's errors.

use folio_breaker::Outcome;
use folio_types::{Error, Reason};
use scylla::errors::{DbError, ExecutionError, RequestAttemptError, WriteType};

/// Returns the error for an unreachable store or a time-out, after which the outcome of a write is unknown.
pub(crate) fn unavailable(what: &str, error: &dyn std::fmt::Display) -> Error {
    tracing::warn!(%error, operation = what, "a request to the CQL store failed");
    Error::unavailable(Reason::StoreUnavailable, "the store is unreachable or timed out")
}

pub(crate) fn failed(error: &ExecutionError) -> Error {
    if is_invalid_statement(error) {
        tracing::error!(%error, "a CQL statement is invalid");
        return Error::internal(format!("a CQL statement was refused: {error}"));
    }
    unavailable("statement", error)
}

/// Logs the cause, which the returned error omits.
pub(crate) fn unreadable(error: &dyn std::fmt::Display) -> Error {
    tracing::error!(%error, "a row has a shape that this build cannot read");
    Error::stored_format("a row has a shape that this build cannot read")
}

/// Returns whether the statement itself is invalid. The server wrote nothing then.
fn is_invalid_statement(error: &ExecutionError) -> bool {
    match error {
        ExecutionError::BadQuery(_) => true,
        ExecutionError::LastAttemptError(RequestAttemptError::SerializationError(_)) => true,
        ExecutionError::LastAttemptError(RequestAttemptError::DbError(error, _)) => {
            matches!(error, DbError::SyntaxError | DbError::Invalid | DbError::Unauthorized | DbError::ConfigError)
        }
        _ => false,
    }
}

pub(crate) fn health(error: &ExecutionError) -> Outcome {
    match error {
        error if is_invalid_statement(error) => Outcome::Success,
        // Contention on one partition does not indicate an unhealthy server.
        ExecutionError::LastAttemptError(RequestAttemptError::DbError(
            DbError::WriteTimeout { write_type: WriteType::Cas, .. },
            _,
        )) => Outcome::Abandoned,
        _ => Outcome::Failure,
    }
}
