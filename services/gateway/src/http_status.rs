//! Maps errors to HTTP statuses, for every face except gRPC.

use folio_proto::status;
use folio_types::{Code, Error, Reason};
use http::StatusCode;

/// The status of a call whose caller has disconnected. No standard defines it; proxies use it in their logs.
const CLIENT_CLOSED_REQUEST: u16 = 499;

pub(crate) fn http_status(error: &Error) -> StatusCode {
    match error.reason {
        Reason::CreditExhausted => return StatusCode::PAYMENT_REQUIRED,
        Reason::ModelNotAvailable => return StatusCode::BAD_REQUEST,
        Reason::PolicyDenied => return StatusCode::FORBIDDEN,
        Reason::TooLarge => return StatusCode::PAYLOAD_TOO_LARGE,
        _ => {}
    }
    match error.code {
        Code::InvalidArgument | Code::FailedPrecondition => StatusCode::BAD_REQUEST,
        Code::NotFound => StatusCode::NOT_FOUND,
        Code::AlreadyExists | Code::Aborted => StatusCode::CONFLICT,
        Code::ResourceExhausted => StatusCode::TOO_MANY_REQUESTS,
        Code::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
        Code::DeadlineExceeded => StatusCode::GATEWAY_TIMEOUT,
        Code::PermissionDenied => StatusCode::FORBIDDEN,
        Code::Unauthenticated => StatusCode::UNAUTHORIZED,
        Code::Cancelled => StatusCode::from_u16(CLIENT_CLOSED_REQUEST).unwrap_or(StatusCode::BAD_REQUEST),
        Code::Unimplemented => StatusCode::NOT_IMPLEMENTED,
        Code::DataLoss | Code::Internal => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

/// Returns the gRPC code that the span of a call records for an HTTP status.
pub(crate) fn grpc_code(status: StatusCode) -> tonic::Code {
    match status.as_u16() {
        100..=399 => tonic::Code::Ok,
        401 => tonic::Code::Unauthenticated,
        402 | 429 => tonic::Code::ResourceExhausted,
        403 => tonic::Code::PermissionDenied,
        404 => tonic::Code::NotFound,
        409 | 412 => tonic::Code::Aborted,
        CLIENT_CLOSED_REQUEST => tonic::Code::Cancelled,
        501 => tonic::Code::Unimplemented,
        503 => tonic::Code::Unavailable,
        504 => tonic::Code::DeadlineExceeded,
        500.. => tonic::Code::Internal,
        _ => tonic::Code::InvalidArgument,
    }
}

/// Returns the error as clients receive it: an internal error is logged and replaced by the id of its log line.
pub(crate) fn public(error: Error) -> Error {
    status::to_error(&status::from_error(error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reasons_that_http_clients_distinguish_have_their_own_status() {
        for (code, reason, expected) in [
            (Code::ResourceExhausted, Reason::CreditExhausted, 402),
            (Code::ResourceExhausted, Reason::QuotaExceeded, 429),
            (Code::PermissionDenied, Reason::PolicyDenied, 403),
            (Code::FailedPrecondition, Reason::PolicyDenied, 403),
            (Code::FailedPrecondition, Reason::ModelNotAvailable, 400),
            (Code::InvalidArgument, Reason::TooLarge, 413),
            (Code::InvalidArgument, Reason::InvalidField, 400),
            (Code::Aborted, Reason::VersionConflict, 409),
            (Code::Unimplemented, Reason::Internal, 501),
            (Code::Cancelled, Reason::Internal, 499),
        ] {
            assert_eq!(http_status(&Error::new(code, reason, "")).as_u16(), expected, "{code:?} {reason:?}");
        }
    }

    #[test]
    fn the_code_of_a_status_is_that_of_its_errors() {
        for code in [
            Code::NotFound,
            Code::Aborted,
            Code::ResourceExhausted,
            Code::Unavailable,
            Code::DeadlineExceeded,
            Code::PermissionDenied,
            Code::Unauthenticated,
            Code::Cancelled,
            Code::Unimplemented,
            Code::Internal,
        ] {
            let error = Error::new(code, Reason::Internal, "");
            assert_eq!(grpc_code(http_status(&error)), status::from_error(error).code(), "{code:?}");
        }
        assert_eq!(grpc_code(StatusCode::OK), tonic::Code::Ok);
        assert_eq!(grpc_code(StatusCode::UNPROCESSABLE_ENTITY), tonic::Code::InvalidArgument);
    }

    #[test]
    fn an_internal_message_is_replaced() {
        let error = public(Error::internal("password=hunter2"));
        assert!(error.message.starts_with("internal error ") && !format!("{error:?}").contains("hunter2"), "{error:?}");
    }
}
