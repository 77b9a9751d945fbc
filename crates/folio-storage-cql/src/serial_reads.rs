//! How the driver repeats a SERIAL read.
//!
//! The driver's own policy repeats no request of a serial consistency: to it each may be a write with a condition. A read
//! changes nothing, and fails for a moment where others are at work on its partition, so it is sent again.

use scylla::errors::{DbError, RequestAttemptError};
use scylla::policies::retry::{RequestInfo, RetryDecision, RetryPolicy, RetrySession};

/// How often one read is repeated; its time-out ends it sooner.
const REPETITIONS: usize = 4;

/// The policy.
#[derive(Debug)]
pub(crate) struct SerialReads;

struct Repetitions {
    left: usize,
}

impl RetryPolicy for SerialReads {
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
            // Others were quicker: of a read, too, a server says that a write with a condition took too long.
            RequestAttemptError::DbError(DbError::WriteTimeout { .. } | DbError::ReadTimeout { .. }, _) => {
                RetryDecision::RetrySameTarget(None)
            }
            // This server cannot; another one may.
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
    fn a_read_that_met_writes_is_sent_again_a_few_times() {
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
    fn another_server_is_asked_where_one_cannot_and_none_where_the_statement_is_wrong() {
        let mut repetitions = Repetitions { left: REPETITIONS };
        assert_eq!(repetitions.decide(&refused(DbError::Overloaded)), RetryDecision::RetryNextTarget(None));
        assert_eq!(repetitions.decide(&refused(DbError::SyntaxError)), RetryDecision::DontRetry);
    }
}
