//! The answer of an endpoint, from bytes to a [`ModelReply`](crate::ModelReply): pure, fed with byte slices, so that it
//! can be fuzzed.
//!
//! ```text
//!   bytes ─▶ EventSplitter ─▶ data of one event ─▶ Chunk ─▶ Assembler ─▶ ModelEvents, and the reply at the end
//! ```
//!
//! What comes in is hostile: every buffer is bounded, and whatever makes no sense is a [`StreamError`], never a panic and
//! never a short answer.

mod assembler;
mod chunk;
mod events;
mod thinking;
mod usage;

pub use assembler::{Assembler, CALLS_MAX};
pub use events::{EVENT_BYTES_MAX, EventSplitter};

use crate::model::ModelError;

/// What is wrong with an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StreamError {
    /// It makes no sense.
    Malformed(String),
    /// It ended before its finish reason.
    Cut,
    /// The endpoint reports an error inside of the answer.
    Reported {
        /// An HTTP status, if it gave one.
        status: Option<u16>,
        /// What it said, bounded.
        message: String,
    },
    /// It is larger than a bound allows.
    TooLarge(&'static str),
}

impl StreamError {
    fn malformed(what: impl Into<String>) -> Self {
        Self::Malformed(what.into())
    }
}

impl From<StreamError> for ModelError {
    fn from(error: StreamError) -> Self {
        match error {
            StreamError::Malformed(what) => Self::Failed(format!("its answer makes no sense: {what}")),
            StreamError::Cut => Self::Failed("its answer ended without a finish reason".to_owned()),
            StreamError::Reported { status: Some(429), .. } => Self::RateLimited { retry_after: None },
            StreamError::Reported { status: Some(status @ 400..=499), message } => Self::Refused { status, message },
            StreamError::Reported { message, .. } => Self::Failed(message),
            StreamError::TooLarge(what) => Self::TooLarge(what),
        }
    }
}

/// Splitter and assembler together: the bytes of a stream in, its events out.
#[derive(Debug, Default)]
pub struct StreamParser {
    splitter: EventSplitter,
    assembler: Assembler,
}

impl StreamParser {
    /// Takes the next bytes. After an error nothing more is to be fed.
    ///
    /// # Errors
    /// What is wrong with them.
    pub fn feed(&mut self, bytes: &[u8]) -> Result<(), StreamError> {
        let Self { splitter, assembler } = self;
        splitter.feed(bytes, |data| assembler.event(data))
    }

    /// The stream ended: takes what was left without its line end.
    ///
    /// # Errors
    /// [`StreamError::Cut`] where no finish reason came.
    pub fn end(&mut self) -> Result<(), StreamError> {
        let Self { splitter, assembler } = self;
        // Half an event at the end is a cut, whatever its JSON parser thinks of it.
        let rest = splitter.end(|data| assembler.event(data));
        match rest {
            Err(StreamError::Malformed(_)) if !assembler.is_finished() => Err(StreamError::Cut),
            Err(error @ (StreamError::Reported { .. } | StreamError::TooLarge(_))) => Err(error),
            _ if !assembler.is_finished() => Err(StreamError::Cut),
            _ => Ok(()),
        }
    }

    /// What was assembled so far.
    pub fn assembler(&mut self) -> &mut Assembler {
        &mut self.assembler
    }
}

#[cfg(test)]
mod fuzz;
#[cfg(test)]
mod tests;
