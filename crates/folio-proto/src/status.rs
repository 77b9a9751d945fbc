//! Conversion between errors and gRPC statuses. No other module converts them.
//!
//! A status carries `google.rpc.ErrorInfo` (domain `folio`, the reason, further facts as metadata), `BadRequest` for
//! the invalid fields, `ResourceInfo` for a missing resource, `RetryInfo` if the caller may retry, and
//! `QuotaFailure` if a limit is exceeded. An internal error is logged completely, and its status contains only an id.
//! All details are bounded, because a header transports them.

use std::collections::HashMap;
use std::time::Duration;

use folio_types::{Code, Error, FieldViolation, Reason};
use tonic::Status;
use tonic_types::{ErrorDetails, StatusExt as _};

/// The domain of every ErrorInfo.
pub const DOMAIN: &str = "folio";

const MESSAGE_CHARS: usize = 1_000;
/// Total size of the violations. The last one states how many are omitted.
const VIOLATIONS_BYTES: usize = 5 * 1024;
const VIOLATION_CHARS: usize = 160;
const DETAILS_MAX: usize = 16;

/// Returns the status of an error. An internal error is logged, and the status contains only the id of the log line.
pub fn from_error(error: Error) -> Status {
    let error =
        if is_internal(&error) { with_error_id(&error, uuid::Uuid::now_v7().simple().to_string()) } else { error };
    let mut details = ErrorDetails::new();
    let facts = error.details.iter().take(DETAILS_MAX);
    let facts: HashMap<_, _> = facts.map(|(name, value)| (name.clone(), truncate(value, VIOLATION_CHARS))).collect();
    details.set_error_info(error.reason.as_str(), DOMAIN, facts);
    let mut left = VIOLATIONS_BYTES;
    for (number, violation) in error.violations.iter().enumerate() {
        let field = truncate(&violation.field, VIOLATION_CHARS);
        let description = truncate(&violation.description, VIOLATION_CHARS);
        let Some(rest) = left.checked_sub(field.len() + description.len()) else {
            let omitted = error.violations.len() - number;
            details.add_bad_request_violation("", format!("{omitted} further violations are omitted"));
            break;
        };
        left = rest;
        details.add_bad_request_violation(field, description);
    }
    if let Some(after) = error.retry_after {
        details.set_retry_info(Some(after));
    }
    if let Some((kind, id)) = error.missing_resource() {
        details.set_resource_info(format!("folio.v1/{kind}"), truncate(id, VIOLATION_CHARS), "", "");
    }
    let message = truncate(&error.message, MESSAGE_CHARS);
    if error.code == Code::ResourceExhausted {
        details.add_quota_failure_violation(error.reason.as_str(), truncate(&message, VIOLATION_CHARS));
    }
    Status::with_error_details(grpc_code(error.code), message, details)
}

/// Records the status of a call in its span. An error that the caller caused does not mark the span as failed.
pub fn record(span: &tracing::Span, code: tonic::Code) {
    use tonic::Code as C;
    let name = name(code);
    span.record("rpc.response.status_code", name);
    if matches!(code, C::Unknown | C::DeadlineExceeded | C::Unimplemented | C::Internal | C::Unavailable | C::DataLoss)
    {
        folio_trace::record_error(span, name);
    }
}

/// Returns the name of a code in the gRPC protocol.
fn name(code: tonic::Code) -> &'static str {
    match code {
        tonic::Code::Ok => "OK",
        tonic::Code::Unknown => "UNKNOWN",
        tonic::Code::OutOfRange => "OUT_OF_RANGE",
        _ => name_of(folio_code(code)),
    }
}

/// Returns the error of a status. The details of a status of Folio are restored. Any other status only determines the
/// code and the message.
pub fn to_error(status: &Status) -> Error {
    let details = status.get_error_details();
    let code = folio_code(status.code());
    let info = details.error_info().filter(|info| info.domain == DOMAIN);
    let reason = info.and_then(|info| Reason::from_name(&info.reason)).unwrap_or_else(|| default_reason(code));
    let mut error = Error::new(code, reason, status.message());
    error.retry_after = details.retry_info().and_then(|info| info.retry_delay);
    if let Some(bad) = details.bad_request() {
        let violations = bad.field_violations.iter().cloned();
        let to_own = |tonic_types::FieldViolation { field, description, .. }| FieldViolation { field, description };
        error.violations = violations.map(to_own).collect();
    }
    if let Some(info) = info {
        error.details = info.metadata.clone().into_iter().collect();
    }
    error
}

/// Returns the error of a request that tonic could not decode: not protobuf, not UTF-8, or too large. Such a status has
/// no details and is a fault of the caller.
pub fn of_transport(status: &Status) -> Error {
    if !status.details().is_empty() {
        return to_error(status);
    }
    let message = truncate(status.message(), VIOLATION_CHARS);
    match status.code() {
        tonic::Code::Internal | tonic::Code::Unknown | tonic::Code::InvalidArgument => {
            Error::invalid(Reason::InvalidField, format!("the request cannot be read: {message}"))
        }
        tonic::Code::OutOfRange | tonic::Code::ResourceExhausted => {
            Error::invalid(Reason::TooLarge, format!("a message is too large: {message}"))
        }
        _ => to_error(status),
    }
}

/// Returns an error for use in a response or an event. An internal error is logged and replaced by the id of its log
/// line.
pub(crate) fn without_internals(error: &Error) -> Error {
    if is_internal(error) && !error.details.contains_key("error_id") {
        let id: String = folio_types::Digest::of(error.message.as_bytes()).as_str().chars().take(16).collect();
        return with_error_id(error, id);
    }
    error.clone()
}

fn is_internal(error: &Error) -> bool {
    matches!(error.code, Code::Internal | Code::DataLoss)
}

fn with_error_id(error: &Error, id: String) -> Error {
    tracing::error!(error_id = %id, code = ?error.code, reason = error.reason.as_str(), message = %error.message,
        details = ?error.details, "internal error; the client receives error_id only");
    Error::new(error.code, error.reason, format!("internal error {id}")).detail("error_id", id)
}

fn truncate(text: &str, chars: usize) -> String {
    match text.char_indices().nth(chars) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}

fn grpc_code(code: Code) -> tonic::Code {
    CODES.iter().find(|(own, ..)| *own == code).map_or(tonic::Code::Internal, |(_, grpc, ..)| *grpc)
}

fn folio_code(code: tonic::Code) -> Code {
    match code {
        tonic::Code::OutOfRange => Code::InvalidArgument,
        _ => CODES.iter().find(|(_, grpc, ..)| *grpc == code).map_or(Code::Internal, |(own, ..)| *own),
    }
}

/// Returns the name of a code in `folio.v1.Error` and in the gRPC protocol.
pub(crate) fn name_of(code: Code) -> &'static str {
    CODES.iter().find(|(own, ..)| *own == code).map_or("INTERNAL", |(_, _, name, _)| name)
}

pub(crate) fn code_of(name: &str) -> Option<Code> {
    CODES.iter().find(|(_, _, own, _)| *own == name).map(|(code, ..)| *code)
}

/// Returns the reason of a status without details.
fn default_reason(code: Code) -> Reason {
    CODES.iter().find(|(own, ..)| *own == code).map_or(Reason::Internal, |(.., reason)| *reason)
}

/// Each code with its gRPC code, its name, and the reason of a status without details.
const CODES: [(Code, tonic::Code, &str, Reason); 14] = [
    (Code::InvalidArgument, tonic::Code::InvalidArgument, "INVALID_ARGUMENT", Reason::InvalidField),
    (Code::NotFound, tonic::Code::NotFound, "NOT_FOUND", Reason::NotFound),
    (Code::AlreadyExists, tonic::Code::AlreadyExists, "ALREADY_EXISTS", Reason::NameTaken),
    (Code::FailedPrecondition, tonic::Code::FailedPrecondition, "FAILED_PRECONDITION", Reason::InUse),
    (Code::Aborted, tonic::Code::Aborted, "ABORTED", Reason::VersionConflict),
    (Code::ResourceExhausted, tonic::Code::ResourceExhausted, "RESOURCE_EXHAUSTED", Reason::Overloaded),
    (Code::Unavailable, tonic::Code::Unavailable, "UNAVAILABLE", Reason::Overloaded),
    (Code::DeadlineExceeded, tonic::Code::DeadlineExceeded, "DEADLINE_EXCEEDED", Reason::Overloaded),
    (Code::PermissionDenied, tonic::Code::PermissionDenied, "PERMISSION_DENIED", Reason::RoleNotAllowed),
    (Code::Unauthenticated, tonic::Code::Unauthenticated, "UNAUTHENTICATED", Reason::InvalidToken),
    (Code::Cancelled, tonic::Code::Cancelled, "CANCELLED", Reason::Internal),
    (Code::Unimplemented, tonic::Code::Unimplemented, "UNIMPLEMENTED", Reason::Internal),
    (Code::DataLoss, tonic::Code::DataLoss, "DATA_LOSS", Reason::StoredFormat),
    (Code::Internal, tonic::Code::Internal, "INTERNAL", Reason::Internal),
];

/// Retry delay of errors that report a temporarily exceeded bound.
pub const RETRY_SOON: Duration = Duration::from_millis(500);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_and_reason_survives_the_conversion() {
        for (code, _, name, _) in CODES {
            assert_eq!((code_of(name), name_of(code)), (Some(code), name));
            if matches!(code, Code::Internal | Code::DataLoss) {
                continue;
            }
            for reason in Reason::ALL {
                let mut error = Error::new(code, *reason, "what happened").detail("turn", "t").retry_after(RETRY_SOON);
                error.violations.push(FieldViolation { field: "a.b".into(), description: "is missing".into() });
                assert_eq!(to_error(&from_error(error.clone())), error);
            }
        }
    }

    #[test]
    fn the_owner_of_a_moved_thread_survives_the_conversion() {
        let owner = folio_types::Incarnation::derive(&["another node"]);
        let back = to_error(&from_error(Error::moved(&owner)));
        assert_eq!((back.code, back.reason, back.owner()), (Code::Unavailable, Reason::Moved, Some(owner)));
        assert!(back.is_retriable());
        let malformed = Error::unavailable(Reason::Moved, "").detail("owner", "malformed");
        assert_eq!(to_error(&from_error(malformed)).owner(), None);
        assert_eq!(Error::unavailable(Reason::Draining, "").detail("owner", "x").owner(), None);
    }

    #[test]
    fn an_internal_error_is_replaced_by_its_id() {
        let status = from_error(Error::internal("password=hunter2").detail("path", "/secret"));
        assert_eq!(status.code(), tonic::Code::Internal);
        assert!(status.message().starts_with("internal error "), "{}", status.message());
        let details = status.get_error_details();
        assert_eq!(details.error_info().unwrap().metadata.keys().collect::<Vec<_>>(), ["error_id"]);
        assert!(!format!("{status:?}").contains("hunter2"));
        assert!(!without_internals(&Error::internal("hunter2")).message.contains("hunter2"));
    }

    #[test]
    fn an_exceeded_bound_is_a_quota_failure() {
        let status = from_error(Error::exhausted(Reason::Overloaded, "too many").retry_after(RETRY_SOON));
        let details = status.get_error_details();
        assert_eq!(details.quota_failure().unwrap().violations.len(), 1);
        assert_eq!(details.retry_info().unwrap().retry_delay, Some(RETRY_SOON));
    }

    #[test]
    fn a_missing_resource_is_named_by_kind_and_id() {
        let status = from_error(Error::not_found("tag", "tag_1"));
        let details = status.get_error_details();
        let resource = details.resource_info().unwrap();
        assert_eq!((resource.resource_type.as_str(), resource.resource_name.as_str()), ("folio.v1/tag", "tag_1"));
        assert!(from_error(Error::internal("x")).get_error_details().resource_info().is_none());
    }

    #[test]
    fn details_stay_small_enough_for_a_header() {
        let mut error = Error::invalid(Reason::InvalidSchema, "ä".repeat(100_000));
        for _ in 0..1_000 {
            error.violations.push(FieldViolation { field: "f".repeat(10_000), description: "d".repeat(10_000) });
        }
        assert!(from_error(error).details().len() < 16 * 1024);
    }

    #[test]
    fn violations_are_returned_as_far_as_they_fit_and_the_others_are_counted() {
        let violation = |number: usize| FieldViolation {
            field: format!("fields[{number}].name"),
            description: "is missing".into(),
        };
        let mut error = Error::invalid(Reason::InvalidSchema, "the schema is invalid");
        error.violations = (0..60).map(violation).collect();
        assert_eq!(to_error(&from_error(error.clone())).violations, error.violations);
        error.violations = (0..1_000).map(violation).collect();
        let returned = to_error(&from_error(error)).violations;
        let (last, fitting) = returned.split_last().unwrap();
        assert!(fitting.len() > 100);
        assert_eq!(last.description, format!("{} further violations are omitted", 1_000 - fitting.len()));
    }

    #[test]
    fn a_foreign_status_is_converted_by_its_code() {
        let error = to_error(&Status::unavailable("connection refused"));
        assert_eq!((error.code, error.reason), (Code::Unavailable, Reason::Overloaded));
    }
}
