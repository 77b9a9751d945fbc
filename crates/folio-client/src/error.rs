//! Errors of calls, with the reasons of the server.

use std::fmt;
use std::time::Duration;

use folio_proto::status::{DOMAIN, to_error};
use folio_proto::v1;
use folio_types::{Code, FieldViolation, Reason};
use tonic::Status;
use tonic_types::StatusExt as _;

pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A failed call, or the failure that a message states. Programs decide by [`Error::code`] and [`Error::reason`], never by the
/// message.
#[derive(Debug, Clone)]
pub struct Error(Box<Content>);

#[derive(Debug, Clone)]
struct Content {
    error: folio_types::Error,
    /// Empty: no Folio server answered.
    reason: String,
    /// None: the error is that of a message.
    status: Option<Status>,
}

impl Error {
    pub(crate) fn new(code: Code, message: impl Into<String>) -> Self {
        let error = folio_types::Error::new(code, Reason::Internal, message);
        Self(Box::new(Content { error, reason: String::new(), status: None }))
    }

    /// Returns the error of a message, such as `Failed.error` of a turn or `Job.error`.
    pub fn of_message(error: v1::Error) -> Self {
        let reason = error.reason.clone();
        Self(Box::new(Content { error: error.into(), reason, status: None }))
    }

    pub fn code(&self) -> Code {
        self.0.error.code
    }

    /// Returns the cause. None: no Folio server answered, or the server is newer and has further reasons.
    pub fn reason(&self) -> Option<Reason> {
        Reason::from_name(&self.0.reason)
    }

    /// Returns the cause as the server sent it. Empty: no Folio server answered.
    pub fn reason_name(&self) -> &str {
        &self.0.reason
    }

    /// Returns the text for people.
    pub fn message(&self) -> &str {
        &self.0.error.message
    }

    /// Returns the time after which the same request may be repeated. None: unknown.
    pub fn retry_after(&self) -> Option<Duration> {
        self.0.error.retry_after
    }

    /// Returns the invalid fields of the request.
    pub fn violations(&self) -> &[FieldViolation] {
        &self.0.error.violations
    }

    /// Returns a further fact for programs.
    pub fn detail(&self, name: &str) -> Option<&str> {
        self.0.error.details.get(name).map(String::as_str)
    }

    /// Returns the status of the failed call. None: the error is that of a message.
    pub fn status(&self) -> Option<&Status> {
        self.0.status.as_ref()
    }

    /// Returns true if the connection broke or the stream reached a time limit of the server, so that the same request may succeed.
    pub fn is_interruption(&self) -> bool {
        match self.code() {
            Code::Unavailable | Code::DeadlineExceeded => true,
            // A status of the transport has no details.
            Code::Internal | Code::Cancelled => self.0.reason.is_empty(),
            _ => false,
        }
    }
}

impl From<Status> for Error {
    fn from(status: Status) -> Self {
        let details = status.get_error_details();
        let info = details.error_info().filter(|info| info.domain == DOMAIN);
        let reason = info.map(|info| info.reason.clone()).unwrap_or_default();
        Self(Box::new(Content { error: to_error(&status), reason, status: Some(status) }))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.reason_name() {
            "" => f.write_str(self.message()),
            reason => write!(f, "{} ({reason})", self.message()),
        }
    }
}

impl std::error::Error for Error {}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use folio_proto::status::from_error;

    use super::*;

    #[test]
    fn an_error_has_the_facts_of_its_status() {
        let refused = folio_types::Error::invalid(Reason::InvalidField, "tag.name is missing");
        let mut refused = refused.detail("limit", "5").retry_after(Duration::from_secs(2));
        refused.violations.push(FieldViolation { field: "tag.name".into(), description: "is missing".into() });
        let error = Error::from(from_error(refused.clone()));
        assert_eq!((error.code(), error.reason()), (Code::InvalidArgument, Some(Reason::InvalidField)));
        assert_eq!((error.message(), error.detail("limit")), ("tag.name is missing", Some("5")));
        assert_eq!((error.retry_after(), error.violations()), (refused.retry_after, refused.violations.as_slice()));
        assert_eq!(error.to_string(), "tag.name is missing (INVALID_FIELD)");
        assert!(!error.is_interruption() && error.status().is_some());
    }

    #[test]
    fn an_error_of_a_message_has_no_status() {
        let message = v1::Error { code: "UNAVAILABLE".into(), reason: "MODEL_TIMEOUT".into(), ..v1::Error::default() };
        let error = Error::of_message(message);
        assert_eq!((error.code(), error.reason()), (Code::Unavailable, Some(Reason::ModelTimeout)));
        assert!(error.status().is_none());
        let newer = v1::Error { code: "ABORTED".into(), reason: "NEW_REASON".into(), ..v1::Error::default() };
        let newer = Error::of_message(newer);
        assert_eq!((newer.reason(), newer.reason_name()), (None, "NEW_REASON"));
    }

    #[test]
    fn only_a_status_of_the_transport_or_of_a_time_limit_is_an_interruption() {
        let lifetime =
            folio_types::Error::new(Code::DeadlineExceeded, Reason::DeadlineExceeded, "the lifetime is over");
        let draining = folio_types::Error::unavailable(Reason::Draining, "the server is shutting down");
        for error in [lifetime, draining] {
            assert!(Error::from(from_error(error)).is_interruption());
        }
        for status in [Status::unavailable("refused"), Status::unknown("h2 protocol error"), Status::cancelled("reset")]
        {
            let error = Error::from(status);
            assert!(error.is_interruption() && error.reason_name().is_empty(), "{error:?}");
        }
        let fault = Error::from(from_error(folio_types::Error::internal("a fault of the server")));
        for error in [fault, Status::not_found("x").into(), Status::invalid_argument("x").into()] {
            assert!(!error.is_interruption(), "{error:?}");
        }
    }

    /// The other clients contain the reasons as texts, because the proto files do not declare them.
    #[test]
    fn the_other_clients_know_each_reason() {
        let clients = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../clients");
        let read = |file: &str| std::fs::read_to_string(clients.join(file)).unwrap();
        let quoted = |text: String| -> Vec<String> {
            let words = text.split('"').skip(1).step_by(2).map(str::to_owned);
            words.filter(|word| !word.is_empty() && word.chars().all(|c| c.is_ascii_uppercase() || c == '_')).collect()
        };
        let reasons: Vec<&str> = Reason::ALL.iter().map(|reason| reason.as_str()).collect();
        for file in ["python/src/folio/reasons.py", "typescript/src/reasons.ts"] {
            assert_eq!(quoted(read(file)), reasons, "{file} lists other reasons than folio-types");
        }
    }
}
