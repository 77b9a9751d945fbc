//! Parser from the bytes of an answer to a [`ModelReply`](crate::ModelReply). Pure and fed with byte slices, so that it
//! can be fuzzed.
//!
//! ```text
//!   bytes ─▶ EventSplitter ─▶ data of one event ─▶ Chunk ─▶ Assembler ─▶ ModelEvents, and the reply at the end
//! ```
//!
//! The input is hostile: every buffer is bounded, and malformed input yields a [`StreamError`], never a panic or a
//! truncated answer.

mod assembler;
mod chunk;
mod events;
mod thinking;
mod usage;

pub use assembler::{Assembler, CALLS_MAX};
pub use events::{EVENT_BYTES_MAX, EventSplitter};

use crate::model::ModelError;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StreamError {
    Malformed(String),
    /// The answer ended before its finish reason.
    Incomplete,
    /// The answer contains an error that the endpoint reports.
    Reported {
        /// HTTP status, if the report contains one.
        status: Option<u16>,
        /// Message of the report, bounded.
        message: String,
    },
    TooLarge(&'static str),
}

impl StreamError {
    fn malformed(problem: impl Into<String>) -> Self {
        Self::Malformed(problem.into())
    }
}

impl From<StreamError> for ModelError {
    fn from(error: StreamError) -> Self {
        match error {
            StreamError::Malformed(problem) => Self::Failed(format!("malformed answer: {problem}")),
            StreamError::Incomplete => Self::Failed("the answer ended without a finish reason".to_owned()),
            StreamError::Reported { status: Some(429), .. } => Self::RateLimited { retry_after: None },
            StreamError::Reported { status: Some(status @ 400..=499), message } => Self::Refused { status, message },
            StreamError::Reported { message, .. } => Self::Failed(message),
            StreamError::TooLarge(part) => Self::TooLarge(part),
        }
    }
}

/// Splitter and assembler: consumes the bytes of a stream and produces its events.
#[derive(Debug, Default)]
pub struct StreamParser {
    splitter: EventSplitter,
    assembler: Assembler,
}

impl StreamParser {
    /// Parses the next bytes. Must not be called after an error.
    pub fn feed(&mut self, bytes: &[u8]) -> Result<(), StreamError> {
        let Self { splitter, assembler } = self;
        splitter.feed(bytes, |data| assembler.event(data))
    }

    /// Ends the stream. Parses a last line without line end. Fails with [`StreamError::Incomplete`] if there was no finish
    /// reason.
    pub fn end(&mut self) -> Result<(), StreamError> {
        let Self { splitter, assembler } = self;
        // A partial event at the end means that the answer is incomplete, regardless of the JSON error.
        let rest = splitter.end(|data| assembler.event(data));
        match rest {
            Err(StreamError::Malformed(_)) if !assembler.is_finished() => Err(StreamError::Incomplete),
            Err(error @ (StreamError::Reported { .. } | StreamError::TooLarge(_))) => Err(error),
            _ if !assembler.is_finished() => Err(StreamError::Incomplete),
            _ => Ok(()),
        }
    }

    pub fn assembler(&mut self) -> &mut Assembler {
        &mut self.assembler
    }
}

#[cfg(test)]
mod fuzz;
#[cfg(test)]
mod tests;
