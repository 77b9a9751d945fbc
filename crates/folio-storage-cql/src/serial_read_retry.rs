//! The driver's retry policy for SERIAL reads.
//!
//! The default policy of the driver repeats no request with a serial consistency, because the request may be a
//! conditional write. This policy repeats a SERIAL read, because a read changes nothing and can fail briefly while
//! other processes write to its partition.

use scylla::errors::{DbError, RequestAttemptError};
use scylla::policies::retry::{RequestInfo, RetryDecision, RetryPolicy, RetrySession};

/// Maximum number of repetitions of one read. The time limit of the read may end them sooner.
const REPETITIONS: usize = 4;

#[derive(Debug)]
pub(crate) struct SerialReadRetryPolicy;

struct Repetitions {
    left: usize,
}

impl RetryPolicy for SerialReadRetryPolicy {
    fn new_session(&self) -> Box<dyn RetrySession> {
        Box::new(Repetitions { left: REPETITIONS })
    }
}

impl RetrySession for Repetitions {
    fn decide_should_retry(&mut self, request: RequestInfo<'_>) -> RetryDecision {
        self.decide(request.error)
    }

    fn reset(&mut self) {
        self.left = REPETITIONS;
    }
}

impl Repetitions {
    fn decide(&mut self, error: &RequestAttemptError) -> RetryDecision {
        if self.left == 0 {
            return RetryDecision::DontRetry;
        }
        self.left -= 1;
        match error {
            // Contention. Servers report a write time-out also for a SERIAL read.
            RequestAttemptError::DbError(DbError::WriteTimeout { .. } | DbError::ReadTimeout { .. }, _) => {
                RetryDecision::RetrySameTarget(None)
            }
            // This server cannot serve the read; another server may.
            RequestAttemptError::DbError(
                DbError::Unavailable { .. } | DbError::Overloaded | DbError::ServerError | DbError::IsBootstrapping,
                _,
            )
            | RequestAttemptError::BrokenConnectionError(_)
            | RequestAttemptError::UnableToAllocStreamId => RetryDecision::RetryNextTarget(None),
            _ => RetryDecision::DontRetry,
        }
    }
}

#[cfg(test)]
mod tests {
    use scylla::errors::WriteType;
    use scylla::statement::Consistency;

    use super::*;

    fn refused(error: DbError) -> RequestAttemptError {
        RequestAttemptError::DbError(error, String::new())
    }

    #[test]
    fn a_contended_read_is_repeated_a_few_times() {
        let contended = refused(DbError::WriteTimeout {
            consistency: Consistency::LocalSerial,
            received: 0,
            required: 2,
            write_type: WriteType::Cas,
        });
        let mut repetitions = Repetitions { left: REPETITIONS };
        for _ in 0..REPETITIONS {
            assert_eq!(repetitions.decide(&contended), RetryDecision::RetrySameTarget(None));
        }
        assert_eq!(repetitions.decide(&contended), RetryDecision::DontRetry);
    }

    #[test]
    fn a_read_moves_to_another_server_unless_the_statement_is_wrong() {
        let mut repetitions = Repetitions { left: REPETITIONS };
        assert_eq!(repetitions.decide(&refused(DbError::Overloaded)), RetryDecision::RetryNextTarget(None));
        assert_eq!(repetitions.decide(&refused(DbError::SyntaxError)), RetryDecision::DontRetry);
    }
}
