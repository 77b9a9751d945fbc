//! Errors inside the embedded index: damage, which a rebuild repairs, and faults of the system.

use std::io;

use folio_types::{Error, Reason};
use tantivy::TantivyError;
use tantivy::directory::error::{OpenDirectoryError, OpenReadError};

use crate::answer::IndexState;

/// A failed step.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The index cannot be used in this state.
    State(IndexState),
    /// An error of the caller, or a fault of the system.
    Error(Error),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Error(error)
    }
}

fn is_damage(error: &io::Error) -> bool {
    use io::ErrorKind::{InvalidData, InvalidInput, NotFound, UnexpectedEof};
    matches!(error.kind(), InvalidData | InvalidInput | NotFound | UnexpectedEof)
}

fn of_system(error: impl std::fmt::Display) -> Failure {
    tracing::error!(%error, "the index of passages cannot be read or written");
    Failure::Error(Error::unavailable(Reason::StoreUnavailable, "the index of passages cannot be read or written"))
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        if is_damage(&error) { Self::State(IndexState::Torn) } else { of_system(error) }
    }
}

impl From<TantivyError> for Failure {
    fn from(error: TantivyError) -> Self {
        match &error {
            TantivyError::IncompatibleIndex(_) | TantivyError::OpenReadError(OpenReadError::IncompatibleIndex(_)) => {
                Self::State(IndexState::OtherVersion)
            }
            TantivyError::DataCorruption(_)
            | TantivyError::DeserializeError(_)
            | TantivyError::SchemaError(_)
            | TantivyError::FieldNotFound(_)
            | TantivyError::OpenReadError(OpenReadError::FileDoesNotExist(_))
            | TantivyError::OpenDirectoryError(OpenDirectoryError::DoesNotExist(_)) => Self::State(IndexState::Torn),
            TantivyError::IoError(io) | TantivyError::OpenReadError(OpenReadError::IoError { io_error: io, .. })
                if is_damage(io) =>
            {
                Self::State(IndexState::Torn)
            }
            _ => of_system(error),
        }
    }
}
