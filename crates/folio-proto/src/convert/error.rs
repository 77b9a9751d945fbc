//! Conversions of errors in responses and events.

use folio_types::{Code, Error, FieldViolation, Reason};

use crate::{status, v1};

impl From<&Error> for v1::Error {
    /// Replaces an internal error by an error id, as in a status.
    fn from(error: &Error) -> Self {
        let error = status::without_internals(error);
        Self {
            code: status::name_of(error.code).to_owned(),
            reason: error.reason.as_str().to_owned(),
            message: error.message,
            retry_after: error.retry_after.and_then(|after| after.try_into().ok()),
            violations: error.violations.into_iter().map(Into::into).collect(),
            details: error.details.into_iter().collect(),
        }
    }
}

impl From<v1::Error> for Error {
    /// Replaces a code or reason that this version does not define by the internal one.
    fn from(error: v1::Error) -> Self {
        Self {
            code: status::code_of(&error.code).unwrap_or(Code::Internal),
            reason: Reason::from_name(&error.reason).unwrap_or(Reason::Internal),
            message: error.message,
            retry_after: error.retry_after.and_then(|after| after.try_into().ok()),
            violations: error.violations.into_iter().map(Into::into).collect(),
            details: error.details.into_iter().collect(),
        }
    }
}

same_fields!(FieldViolation = v1::FieldViolation { field, description });
