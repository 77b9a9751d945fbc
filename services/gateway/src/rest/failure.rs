//! Errors of REST routes: `{"detail": …}`, which the clients of DocRouter read.

use std::time::Duration;

use axum::response::{IntoResponse, Response};
use folio_resources::KINDS;
use folio_types::{Code, Error, FieldViolation, Reason, Role};
use http::StatusCode;
use http::header::{CONTENT_TYPE, RETRY_AFTER};
use serde_json::{Map, Value, json};

use crate::faces::{Refused, whole_seconds};
use crate::http_status::{http_status, public};

/// An error response.
#[derive(Debug)]
pub(crate) struct Failure {
    status: StatusCode,
    /// A text, or the list of the invalid fields (status 422).
    detail: Value,
    /// The error of the operation. None: the request did not reach one.
    error: Option<Box<Error>>,
}

/// The part of a request that presents its token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Presented {
    Absent,
    InHeader,
    /// A header, with a token that has expired.
    Expired,
    InQuery,
}

/// An invalid value of a request.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct InvalidValue {
    /// The kind of the problem, such as `missing` or `int_parsing`.
    pub(crate) kind: &'static str,
    /// `body` or `query`, then names of members and indexes.
    pub(crate) location: Vec<Value>,
    pub(crate) message: String,
}

impl Failure {
    pub(crate) fn new(status: StatusCode, detail: impl Into<String>) -> Self {
        Self { status, detail: Value::String(detail.into()), error: None }
    }

    pub(crate) fn bad_request(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, detail)
    }

    pub(crate) fn not_found(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, detail)
    }

    pub(crate) fn no_such_route() -> Self {
        Self::not_found("Not Found")
    }

    pub(crate) fn method_not_allowed() -> Self {
        Self::new(StatusCode::METHOD_NOT_ALLOWED, "Method Not Allowed")
    }

    /// Returns the error of an invalid request. The values are not repeated, because they may be secret.
    pub(crate) fn unprocessable(invalid: &[InvalidValue]) -> Self {
        let item = |InvalidValue { kind, location, message }: &InvalidValue| json!({ "type": kind, "loc": location, "msg": message });
        let detail = invalid.iter().map(item).collect();
        Self { status: StatusCode::UNPROCESSABLE_ENTITY, detail, error: None }
    }

    /// Returns the error of a call that the layers refused.
    pub(crate) fn refused(error: Error, credential: Presented) -> Self {
        match credential {
            Presented::Absent if error.reason == Reason::InvalidToken => {
                Self::new(StatusCode::UNAUTHORIZED, "No authentication credentials provided")
            }
            Presented::Expired => {
                Self::from(error).when(Reason::InvalidToken, StatusCode::UNAUTHORIZED, "API token expired")
            }
            Presented::InQuery => {
                Self::from(error).when(Reason::InvalidToken, StatusCode::UNAUTHORIZED, "Invalid token")
            }
            Presented::Absent | Presented::InHeader => error.into(),
        }
    }

    /// Returns the text for people. Of invalid fields: the first problem.
    pub(crate) fn message(&self) -> &str {
        let first = || self.detail.get(0).and_then(|invalid| invalid.get("msg")).and_then(Value::as_str);
        self.detail.as_str().or_else(first).unwrap_or_default()
    }

    /// Returns the kind of the missing resource, such as `tag`.
    pub(crate) fn missing_kind(&self) -> Option<&str> {
        self.error.as_ref()?.missing_resource().map(|(kind, _)| kind)
    }

    pub(crate) fn is_not_found(&self) -> bool {
        self.status == StatusCode::NOT_FOUND
    }

    /// Returns a detail of the error of the operation.
    pub(crate) fn error_detail(&self, name: &str) -> Option<&str> {
        self.error.as_ref().and_then(|error| error.details.get(name)).map(String::as_str)
    }

    /// Renames a field in the list of invalid fields to the member of the body that contains it.
    pub(crate) fn rename(mut self, field: &str, member: &str) -> Self {
        for item in self.detail.as_array_mut().into_iter().flatten() {
            if let Some(name) = item.pointer_mut("/loc/1")
                && name.as_str() == Some(field)
            {
                *name = json!(member);
            }
        }
        self
    }

    /// Replaces status and text if the error of the operation has this reason.
    pub(crate) fn when(self, reason: Reason, status: StatusCode, detail: impl Into<String>) -> Self {
        if self.reason() == Some(reason) { Self { error: self.error, ..Self::new(status, detail) } } else { self }
    }

    /// Replaces status and text if the error is one of a model, and not of credit, quotas or the choice of the model.
    pub(crate) fn when_model_failed(self, what: &str) -> Self {
        match self.reason() {
            Some(
                Reason::ModelFailed
                | Reason::ModelTimeout
                | Reason::ModelRefused
                | Reason::ModelUnavailable
                | Reason::SchemaMismatch,
            ) => {
                let detail = format!("{what}: {}", self.message());
                Self { error: self.error, ..Self::new(StatusCode::INTERNAL_SERVER_ERROR, detail) }
            }
            _ => self,
        }
    }

    pub(crate) fn reason(&self) -> Option<Reason> {
        self.error.as_ref().map(|error| error.reason)
    }

    fn retry_after(&self) -> Option<Duration> {
        self.error.as_ref().and_then(|error| error.retry_after)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let status = http_status(&error);
        let error = public(error);
        let is_validation = error.code == Code::InvalidArgument && error.reason != Reason::TooLarge;
        let failure = if is_validation && !error.violations.is_empty() {
            Self::unprocessable(&error.violations.iter().map(invalid_value).collect::<Vec<_>>())
        } else {
            Self::new(status, text(&error))
        };
        Self { error: Some(Box::new(error)), ..failure }
    }
}

/// Returns the text of an error. Clients match some of the texts.
fn text(error: &Error) -> String {
    match error.reason {
        Reason::InvalidToken => return "Invalid authentication credentials: invalid token".to_owned(),
        Reason::NotAMember => return "You are not a member of this organization".to_owned(),
        Reason::RoleNotAllowed => match error.details.get("role").map(String::as_str) {
            Some("platform") => return "Admin access required".to_owned(),
            Some(role) if role == Role::Admin.as_str() => {
                return "You are not an admin of this organization".to_owned();
            }
            _ => {}
        },
        Reason::NotFound => {
            if let Some((kind, _)) = error.missing_resource() {
                // A client names a revision like its resource.
                return format!("{} not found", capitalized(kind.trim_end_matches(" revision")));
            }
        }
        Reason::AnswerInvalid => {
            if let Some(raw) = error.details.get("raw_text") {
                return format!("{}. The model wrote: {raw}", capitalized(&error.message));
            }
        }
        Reason::CreditExhausted => {
            if let (Some(need), Some(balance)) = (error.details.get("need"), error.details.get("balance")) {
                return format!("Insufficient SPU credits: Required: {need}, Available: {balance}");
            }
        }
        _ => {}
    }
    capitalized(&error.message)
}

fn capitalized(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().map(|first| first.to_uppercase().collect::<String>()).unwrap_or_default();
    first + letters.as_str()
}

/// Returns the violation of a field of an operation. Operations name the resource first (`tag.name`); the body of a REST
/// route is the resource itself. Fields with JSON as text (`data_json`) contain the value in REST, and a pointer into the value
/// follows them (`data_json#/total`).
fn invalid_value(violation: &FieldViolation) -> InvalidValue {
    if let Some(parameter) = violation.field.strip_prefix("grid.") {
        let names = parameter.split(['.', '[', ']']).filter(|name| !name.is_empty()).map(segment);
        let location = std::iter::once(json!("query")).chain(names).collect();
        let message = format!("Value error, {}", violation.description);
        return InvalidValue { kind: "value_error", location, message };
    }
    let is_resource = |name: &str| KINDS.iter().any(|kind| kind.name == name);
    let field = match violation.field.split_once('.') {
        Some((first, rest)) if is_resource(first) || first == "parameters" => rest,
        _ => &violation.field,
    };
    let names = field.split(['.', '[', ']', '#', '/']).filter(|name| !name.is_empty());
    let names = names.map(|name| name.strip_suffix("_json").unwrap_or(name));
    let location = std::iter::once(json!("body")).chain(names.map(segment)).collect();
    let message = format!("Value error, {}", violation.description);
    InvalidValue { kind: "value_error", location, message }
}

/// Returns a segment of a path: an index as a number, a name as a text.
pub(crate) fn segment(name: &str) -> Value {
    name.parse::<u64>().map_or_else(|_| json!(name), |index| json!(index))
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let (reason, retry_after) = (self.reason(), self.retry_after());
        let mut body = Map::from_iter([("detail".to_owned(), self.detail)]);
        if let Some(reason) = reason {
            body.insert("code".to_owned(), json!(reason.as_str()));
        }
        if let Some(wait) = retry_after {
            body.insert("retry_after_seconds".to_owned(), json!(whole_seconds(wait)));
        }
        let body = Value::Object(body).to_string();
        let mut response = (self.status, [(CONTENT_TYPE, "application/json")], body).into_response();
        if let Some(wait) = retry_after {
            response.headers_mut().insert(RETRY_AFTER, whole_seconds(wait).into());
        }
        if let Some(reason) = reason {
            response.extensions_mut().insert(Refused(reason));
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use folio_types::token::Token;

    use super::*;
    use crate::authenticator::not_a_member;

    fn failure(error: Error) -> (u16, Value) {
        let failure = Failure::from(error);
        (failure.status.as_u16(), failure.detail)
    }

    #[test]
    fn the_texts_that_clients_match_are_those_of_docrouter() {
        let denied = |role: &str| {
            Error::new(Code::PermissionDenied, Reason::RoleNotAllowed, "needs a role").detail("role", role)
        };
        for (error, status, text) in [
            (Error::not_found("tag", "tag_1"), 404, "Tag not found"),
            (Error::not_found("document", "doc_1"), 404, "Document not found"),
            (Token::refused(), 401, "Invalid authentication credentials: invalid token"),
            (not_a_member(), 403, "You are not a member of this organization"),
            (denied("admin"), 403, "You are not an admin of this organization"),
            (denied("platform"), 403, "Admin access required"),
            (denied("member"), 403, "Needs a role"),
            (Error::exhausted(Reason::CreditExhausted, "no credit"), 402, "No credit"),
            (
                Error::exhausted(Reason::CreditExhausted, "no credit").detail("need", 3).detail("balance", 1),
                402,
                "Insufficient SPU credits: Required: 3, Available: 1",
            ),
            (Error::not_found("prompt revision", "prm_1.2"), 404, "Prompt not found"),
        ] {
            assert_eq!(failure(error), (status, json!(text)));
        }
        let refused = |credential| Failure::refused(Token::refused(), credential).detail;
        assert_eq!(refused(Presented::Absent), "No authentication credentials provided");
        assert_eq!(refused(Presented::InHeader), "Invalid authentication credentials: invalid token");
        assert_eq!(refused(Presented::Expired), "API token expired");
        assert_eq!(refused(Presented::InQuery), "Invalid token");
    }

    #[test]
    fn an_invalid_field_is_named_by_its_path_in_the_body() {
        let (status, detail) = failure(Error::invalid_field("tag.name", "is missing"));
        assert_eq!(status, 422);
        let expected = json!([{"type": "value_error", "loc": ["body", "name"], "msg": "Value error, is missing"}]);
        assert_eq!(detail, expected);
        let (_, detail) = failure(Error::invalid_field("tag_ids[2]", "is not a tag id"));
        assert_eq!(detail[0]["loc"], json!(["body", "tag_ids", 2]));
        let (_, detail) = failure(Error::invalid_field("schema.response_format_json#/json_schema/name", "is missing"));
        assert_eq!(detail[0]["loc"], json!(["body", "response_format", "json_schema", "name"]));
        let large = Error::invalid_field("content", "is too large").with_reason(Reason::TooLarge);
        assert_eq!(failure(large).0, 413);
    }

    #[test]
    fn the_failure_of_a_model_has_the_text_of_its_route() {
        let failure = |reason| {
            let failure =
                Failure::from(Error::unavailable(reason, "no answer")).when_model_failed("Error processing document");
            (failure.status.as_u16(), failure.message().to_owned())
        };
        assert_eq!(failure(Reason::ModelFailed), (500, "Error processing document: No answer".to_owned()));
        assert_eq!(failure(Reason::StoreUnavailable), (503, "No answer".to_owned()));
    }

    #[test]
    fn a_part_of_a_grid_is_a_query_parameter() {
        let (_, detail) = failure(Error::invalid_field("grid.filters[1].values", "must be a date"));
        assert_eq!(detail[0]["loc"], json!(["query", "filters", 1, "values"]));
    }

    #[test]
    fn a_renamed_field_is_a_member_of_the_body() {
        for (field, expected) in [
            ("data_json", json!(["body", "new"])),
            ("data_json#/a/0", json!(["body", "new", "a", 0])),
            ("path", json!(["body", "path"])),
        ] {
            let failure = Failure::from(Error::invalid_field(field, "is wrong")).rename("data", "new");
            assert_eq!(failure.detail[0]["loc"], expected, "{field}");
        }
        assert_eq!(Failure::bad_request("text").rename("data", "new").detail, "text");
    }

    #[test]
    fn an_internal_error_shows_only_its_id() {
        let (status, detail) = failure(Error::internal("password=hunter2"));
        assert_eq!(status, 500);
        assert!(detail.as_str().unwrap().starts_with("Internal error "), "{detail}");
    }

    #[test]
    fn the_delay_before_a_retry_is_a_header_and_a_member() {
        let error = Error::exhausted(Reason::QuotaExceeded, "too many").retry_after(Duration::from_millis(1_500));
        let response = Failure::from(error).into_response();
        assert_eq!(response.status(), StatusCode::TOO_MANY_REQUESTS);
        assert_eq!(response.headers()[RETRY_AFTER], "2");
    }
}
