//! Errors of Folio. `folio-proto` maps them to gRPC.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::ids::Incarnation;

pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The kind of an error: the subset of gRPC's status codes that Folio uses, with their meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Code {
    /// The input is invalid, regardless of the state of the system.
    InvalidArgument,
    /// The resource does not exist or belongs to another organization; both errors are equal.
    NotFound,
    /// A resource with this name or id exists.
    AlreadyExists,
    /// The state of the system does not permit the operation. Repeating the operation unchanged does not help.
    FailedPrecondition,
    /// Another change was stored first. The caller reads again and retries.
    Aborted,
    /// A bound, a quota or a rate limit is exceeded.
    ResourceExhausted,
    /// The service is temporarily unavailable. The caller may retry.
    Unavailable,
    /// The operation exceeded its deadline.
    DeadlineExceeded,
    /// The caller is authenticated but lacks the permission.
    PermissionDenied,
    Unauthenticated,
    /// The caller cancelled the operation.
    Cancelled,
    /// This server does not offer the operation.
    Unimplemented,
    /// A stored value cannot be read.
    DataLoss,
    /// A fault of Folio. Clients only receive an error id.
    Internal,
}

named_enum! {
    /// Stable identifier of the cause, in upper snake case. Clients may depend on it; it is never renamed.
    pub enum Reason {
        /// A field of the request is missing, malformed or out of bounds.
        InvalidField = "INVALID_FIELD",
        /// An id is malformed.
        InvalidId = "INVALID_ID",
        /// A page token is malformed or belongs to another list.
        InvalidPageToken = "INVALID_PAGE_TOKEN",
        /// A path such as `a.b[0].c` is malformed or refers to a missing value.
        InvalidPath = "INVALID_PATH",
        /// A schema violates a rule; the message contains the position.
        InvalidSchema = "INVALID_SCHEMA",
        /// Data does not match its schema.
        SchemaMismatch = "SCHEMA_MISMATCH",
        TooLarge = "TOO_LARGE",
        UnsupportedType = "UNSUPPORTED_TYPE",
        /// The organization has no resource with this id.
        NotFound = "NOT_FOUND",
        /// Another resource has this name.
        NameTaken = "NAME_TAKEN",
        /// Another resource references this one; the message names the other resource.
        InUse = "IN_USE",
        /// The resource was changed since it was read.
        VersionConflict = "VERSION_CONFLICT",
        /// The request id was used for another request.
        RequestIdConflict = "REQUEST_ID_CONFLICT",
        /// The model is unknown or disabled.
        ModelNotAvailable = "MODEL_NOT_AVAILABLE",
        UnknownProfile = "UNKNOWN_PROFILE",
        /// The tool is unknown or not part of the profile.
        UnknownTool = "UNKNOWN_TOOL",
        /// The thread has a running turn.
        TurnBusy = "TURN_BUSY",
        /// The thread has a turn that is waiting for approval.
        TurnPending = "TURN_PENDING",
        /// The turn's approvals arrived after their deadline.
        TurnExpired = "TURN_EXPIRED",
        /// The turn has ended, and the request needs an active one.
        TurnEnded = "TURN_ENDED",
        TurnNotResumable = "TURN_NOT_RESUMABLE",
        /// The turn is not waiting for a decision.
        NotAwaitingApproval = "NOT_AWAITING_APPROVAL",
        /// A decision differs from the recorded one.
        DecisionConflict = "DECISION_CONFLICT",
        /// The digest of a decision differs from the call's digest.
        DigestMismatch = "DIGEST_MISMATCH",
        /// A decision refers to a call that is not in the waiting round.
        UnknownCall = "UNKNOWN_CALL",
        /// The thread reached its maximum size; fork it or start another thread.
        ThreadFull = "THREAD_FULL",
        /// The resource has its maximum number of revisions, and each of them is named by another object.
        LimitReached = "LIMIT_REACHED",
        /// The job is open, and the request needs one that has ended.
        JobOpen = "JOB_OPEN",
        /// The job has ended, and the request needs an open one.
        JobEnded = "JOB_ENDED",
        /// The job that drives the turn is paused. The turn continues once the job is resumed.
        JobPaused = "JOB_PAUSED",
        /// The job exceeded its limit of running time, of waiting for credit or limits, or of its age.
        JobExpired = "JOB_EXPIRED",
        /// The queue behind a running turn is full.
        QueueFull = "QUEUE_FULL",
        /// The node reached its maximum of conversations or calls.
        Overloaded = "OVERLOADED",
        /// The call exceeded the server's or the caller's deadline. Work that it started continues.
        DeadlineExceeded = "DEADLINE_EXCEEDED",
        /// The node is shutting down.
        Draining = "DRAINING",
        /// Another node owns the thread: `Error::owner` returns it.
        Moved = "MOVED",
        /// The request was already forwarded once.
        ForwardedTwice = "FORWARDED_TWICE",
        /// A process of the cluster cannot verify the principal in a call of another process: secrets or clocks differ,
        /// or the principal is forged.
        InvalidPrincipal = "INVALID_PRINCIPAL",
        ModelFailed = "MODEL_FAILED",
        ModelTimeout = "MODEL_TIMEOUT",
        /// The model endpoint refused the request.
        ModelRefused = "MODEL_REFUSED",
        /// The model endpoint limits its rate.
        ModelRateLimited = "MODEL_RATE_LIMITED",
        /// The request does not fit into the model's context, even after truncation.
        ContextTooSmall = "CONTEXT_TOO_SMALL",
        /// In several consecutive rounds of a turn, every call failed or repeated an earlier call.
        NoProgress = "NO_PROGRESS",
        /// The model's answer does not match the answer type of the profile, also after a correction, or the turn
        /// reached a limit before such an answer.
        AnswerMismatch = "ANSWER_MISMATCH",
        /// The answer of a node does not match its type, also after a correction. The detail `raw_text` contains its beginning.
        AnswerInvalid = "ANSWER_INVALID",
        /// The turn reached the running time that its profile permits.
        RunningTimeExceeded = "RUNNING_TIME_EXCEEDED",
        /// The rest of the credit budget of a turn or a job does not cover a model call.
        BudgetExhausted = "BUDGET_EXHAUSTED",
        /// The circuit breaker of the endpoint is open.
        ModelUnavailable = "MODEL_UNAVAILABLE",
        /// A webhook endpoint did not accept an event.
        WebhookFailed = "WEBHOOK_FAILED",
        /// An MCP server did not answer, or refused the request.
        McpServerFailed = "MCP_SERVER_FAILED",
        /// The node died, restarted, or is unreachable.
        NodeLost = "NODE_LOST",
        /// A secret cannot be encrypted or decrypted: the installation has no master key, or another one than at the
        /// encryption.
        SecretsUnavailable = "SECRETS_UNAVAILABLE",
        /// The organization's credit does not cover the call. The details contain its `balance` and the `need` of the
        /// call.
        CreditExhausted = "SPU_EXHAUSTED",
        /// A store was unreachable, exceeded its deadline, or executes too many other writes.
        StoreUnavailable = "STORE_UNAVAILABLE",
        /// This version cannot read a stored value.
        StoredFormat = "STORED_FORMAT",
        /// The token is missing, malformed, unknown, expired or revoked.
        InvalidToken = "INVALID_TOKEN",
        /// The e-mail address is unknown or the password is wrong; the error does not depend on the reason.
        SignInFailed = "SIGN_IN_FAILED",
        /// The installation has no users that sign in with a password.
        UsersDisabled = "USERS_DISABLED",
        /// The user is no member of the organization that the request selects, or the organization does not exist.
        NotAMember = "NOT_A_MEMBER",
        /// The signing keys of a JWT's issuer cannot be read.
        IssuerUnavailable = "ISSUER_UNAVAILABLE",
        /// The caller's role does not permit the operation.
        RoleNotAllowed = "ROLE_NOT_ALLOWED",
        /// The scopes of the token do not include the operation.
        ScopeNotAllowed = "SCOPE_NOT_ALLOWED",
        /// Too many requests with invalid tokens came from this address, or too many sign-ins to an account failed.
        TooManyAttempts = "TOO_MANY_ATTEMPTS",
        /// The organization has exhausted a quota.
        QuotaExceeded = "QUOTA_EXCEEDED",
        /// A rule of the organization's policy denies the call or requires another approver.
        PolicyDenied = "POLICY_DENIED",
        /// The document has no text (yet).
        NoText = "NO_TEXT",
        /// The document has no extraction (yet).
        NoExtraction = "NO_EXTRACTION",
        /// No agent works on the extraction, and the request needs a run in progress.
        ExtractionEnded = "EXTRACTION_ENDED",
        /// The state of the proposal does not permit the decision.
        ProposalDecided = "PROPOSAL_DECIDED",
        /// The question about a term was answered or dismissed before.
        QuestionDecided = "QUESTION_DECIDED",
        Internal = "INTERNAL",
    }
}

/// Names of the details with the kind and id of a missing resource.
const RESOURCE_KIND: &str = "resource_kind";
const RESOURCE_ID: &str = "resource_id";
/// Name of the detail with the owner of a thread.
const OWNER: &str = "owner";
/// Delay before a retry by a caller that does not follow the redirect.
const MOVED_RETRY: Duration = Duration::from_millis(500);

/// A problem with one field of a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FieldViolation {
    /// Path of the field in the request, as in the proto files.
    pub field: String,
    /// Description of the problem for a person.
    pub description: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Error {
    pub code: Code,
    pub reason: Reason,
    /// Message for a person. Contains neither secrets nor document text.
    pub message: String,
    /// Delay before a retry. None: unknown.
    pub retry_after: Option<Duration>,
    pub violations: Vec<FieldViolation>,
    /// Further facts for programs (metadata of `ErrorInfo`).
    pub details: BTreeMap<String, String>,
}

impl Error {
    pub fn new(code: Code, reason: Reason, message: impl Into<String>) -> Self {
        Self {
            code,
            reason,
            message: message.into(),
            retry_after: None,
            violations: Vec::new(),
            details: BTreeMap::new(),
        }
    }

    /// Creates an `INVALID_ARGUMENT` error.
    pub fn invalid(reason: Reason, message: impl Into<String>) -> Self {
        Self::new(Code::InvalidArgument, reason, message)
    }

    /// Creates an `INVALID_ARGUMENT` error about one field.
    pub fn invalid_field(field: impl Into<String>, description: impl Into<String>) -> Self {
        let (field, description) = (field.into(), description.into());
        let mut error = Self::invalid(Reason::InvalidField, format!("{field}: {description}"));
        error.violations.push(FieldViolation { field, description });
        error
    }

    /// Replaces the reason.
    #[must_use]
    pub fn with_reason(mut self, reason: Reason) -> Self {
        self.reason = reason;
        self
    }

    /// Creates the error for a request id that another request has used.
    pub fn request_id_conflict() -> Self {
        let message = "the request_id was used for another request; a request id identifies one request only";
        Self::new(Code::AlreadyExists, Reason::RequestIdConflict, message)
    }

    /// Creates the error for a missing resource, or for a resource of another organization. `kind` is the lowercase
    /// name of the resource's kind.
    pub fn not_found(kind: &str, id: impl fmt::Display) -> Self {
        Self::new(Code::NotFound, Reason::NotFound, format!("{kind} {id} not found"))
            .detail(RESOURCE_KIND, kind)
            .detail(RESOURCE_ID, id)
    }

    /// Returns kind and id of the missing resource of [`Error::not_found`].
    pub fn missing_resource(&self) -> Option<(&str, &str)> {
        Some((self.details.get(RESOURCE_KIND)?, self.details.get(RESOURCE_ID)?))
    }

    /// Creates a `FAILED_PRECONDITION` error.
    pub fn precondition(reason: Reason, message: impl Into<String>) -> Self {
        Self::new(Code::FailedPrecondition, reason, message)
    }

    pub fn unavailable(reason: Reason, message: impl Into<String>) -> Self {
        Self::new(Code::Unavailable, reason, message)
    }

    /// Creates the `ABORTED` error for a request that a concurrent change has prevented.
    pub fn version_conflict(message: impl Into<String>) -> Self {
        Self::new(Code::Aborted, Reason::VersionConflict, message)
    }

    /// Creates the `ABORTED` error for a write that a store did not execute because other writes of the same rows are in progress. Its
    /// reason is that of a store that does not answer, so that a caller that waits for the store waits for both.
    pub fn contended(message: impl Into<String>) -> Self {
        Self::new(Code::Aborted, Reason::StoreUnavailable, message)
    }

    /// Returns true for an error of [`Error::contended`]: the store works.
    pub fn is_contended(&self) -> bool {
        self.code == Code::Aborted && self.reason == Reason::StoreUnavailable
    }

    /// Creates the `DATA_LOSS` error for a stored value that this build cannot read. The log contains `message`; clients do not
    /// receive it.
    pub fn stored_format(message: impl Into<String>) -> Self {
        Self::new(Code::DataLoss, Reason::StoredFormat, message)
    }

    /// Creates a `RESOURCE_EXHAUSTED` error.
    pub fn exhausted(reason: Reason, message: impl Into<String>) -> Self {
        Self::new(Code::ResourceExhausted, reason, message)
    }

    /// Creates the error that redirects the caller to the owner of a thread. The request had no effect.
    pub fn moved(owner: &Incarnation) -> Self {
        Self::unavailable(Reason::Moved, "the thread is owned by another node")
            .retry_after(MOVED_RETRY)
            .detail(OWNER, owner)
    }

    /// Returns the owner in an error of [`Error::moved`]. None: any other error.
    pub fn owner(&self) -> Option<Incarnation> {
        let owner = self.details.get(OWNER).filter(|_| self.reason == Reason::Moved)?;
        owner.parse().ok()
    }

    /// Creates an `INTERNAL` error. The log contains `message`; clients do not receive it.
    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(Code::Internal, Reason::Internal, message)
    }

    #[must_use]
    pub fn retry_after(mut self, after: Duration) -> Self {
        self.retry_after = Some(after);
        self
    }

    /// Adds a machine-readable detail.
    #[must_use]
    pub fn detail(mut self, name: &str, value: impl fmt::Display) -> Self {
        self.details.insert(name.to_owned(), value.to_string());
        self
    }

    /// Returns the text for logs: the message of an internal error, otherwise only the reason, because the message may
    /// quote a provider that repeats a prompt.
    pub fn logged(&self) -> &str {
        match self.code {
            Code::Internal | Code::DataLoss => &self.message,
            _ => self.reason.as_str(),
        }
    }

    /// Returns true if the same request may succeed when it is repeated.
    pub fn is_retriable(&self) -> bool {
        matches!(self.code, Code::Unavailable | Code::Aborted | Code::DeadlineExceeded)
            || (self.code == Code::ResourceExhausted && self.retry_after.is_some())
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.message, self.reason.as_str())
    }
}

impl std::error::Error for Error {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_constructor_sets_code_reason_and_message() {
        let reason = Reason::TooLarge;
        for (error, code) in [
            (Error::invalid(reason, "text"), Code::InvalidArgument),
            (Error::precondition(reason, "text"), Code::FailedPrecondition),
            (Error::unavailable(reason, "text"), Code::Unavailable),
            (Error::exhausted(reason, "text"), Code::ResourceExhausted),
            (Error::internal("text").with_reason(reason), Code::Internal),
        ] {
            assert_eq!(error, Error::new(code, reason, "text"));
            assert_eq!(error.to_string(), "text (TOO_LARGE)");
        }
        assert_eq!(Error::internal("text").reason, Reason::Internal);
        let conflict = Error::request_id_conflict();
        assert_eq!((conflict.code, conflict.reason), (Code::AlreadyExists, Reason::RequestIdConflict));
        assert_eq!(Error::version_conflict("text"), Error::new(Code::Aborted, Reason::VersionConflict, "text"));
        let contended = Error::contended("text");
        assert_eq!(contended, Error::new(Code::Aborted, Reason::StoreUnavailable, "text"));
        assert!(contended.is_contended() && !Error::version_conflict("text").is_contended());
        assert!(!Error::unavailable(Reason::StoreUnavailable, "text").is_contended());
        assert_eq!(Error::stored_format("text"), Error::new(Code::DataLoss, Reason::StoredFormat, "text"));
        let field = Error::invalid_field("name", "is too long");
        assert_eq!((field.reason, field.message.as_str()), (Reason::InvalidField, "name: is too long"));
        let violation = FieldViolation { field: "name".to_owned(), description: "is too long".to_owned() };
        assert_eq!(field.violations, [violation]);
    }

    #[test]
    fn an_error_names_the_missing_resource_or_the_owner() {
        let missing = Error::not_found("tag", "tag_1");
        assert_eq!((missing.code, missing.reason), (Code::NotFound, Reason::NotFound));
        assert_eq!((missing.missing_resource(), missing.owner()), (Some(("tag", "tag_1")), None));
        let owner = Incarnation::derive(&["a"]);
        let moved = Error::moved(&owner);
        assert_eq!((moved.code, moved.retry_after), (Code::Unavailable, Some(MOVED_RETRY)));
        assert_eq!((moved.owner(), moved.missing_resource()), (Some(owner), None));
        assert_eq!(moved.with_reason(Reason::NodeLost).owner(), None, "another error with an owner");
    }

    #[test]
    fn the_code_decides_about_retries_and_logs() {
        let error = |code| Error::new(code, Reason::Overloaded, "text");
        for code in [Code::Unavailable, Code::Aborted, Code::DeadlineExceeded] {
            assert!(error(code).is_retriable(), "{code:?}");
        }
        for code in [Code::ResourceExhausted, Code::Internal, Code::NotFound] {
            assert!(!error(code).is_retriable(), "{code:?}");
        }
        let after = Duration::from_secs(1);
        assert!(error(Code::ResourceExhausted).retry_after(after).is_retriable());
        assert!(!error(Code::Internal).retry_after(after).is_retriable());
        assert_eq!(error(Code::Internal).retry_after(after).retry_after, Some(after));
        for (code, logged) in [(Code::Internal, "text"), (Code::DataLoss, "text"), (Code::Aborted, "OVERLOADED")] {
            assert_eq!(error(code).logged(), logged, "{code:?}");
        }
    }
}
