//! One small vocabulary of errors. It is mapped to gRPC once, in `folio-proto`.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::ids::Incarnation;

/// What a fallible operation of Folio gives.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The kind of an error: the part of gRPC's status codes that Folio uses, with their meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Code {
    /// The input is wrong, whatever the state of the system.
    InvalidArgument,
    /// Missing, or another organization's: the two look the same.
    NotFound,
    /// Something of that name or id is there already.
    AlreadyExists,
    /// The system is not in a state for this; repeating it unchanged does not help.
    FailedPrecondition,
    /// Lost against somebody else's change; read again and repeat.
    Aborted,
    /// Over a bound, a quota or a limit.
    ResourceExhausted,
    /// Not now; the same request may be sent again.
    Unavailable,
    /// Took longer than it may.
    DeadlineExceeded,
    /// The caller is known and may not do this.
    PermissionDenied,
    /// The caller is not known.
    Unauthenticated,
    /// The caller ended it.
    Cancelled,
    /// Not offered by this server.
    Unimplemented,
    /// A stored value cannot be read.
    DataLoss,
    /// A fault of Folio. The message that a client gets holds only an id.
    Internal,
}

macro_rules! reasons {
    ($($(#[$doc:meta])* $name:ident = $text:literal),+ $(,)?) => {
        /// Why, in one stable word (upper snake case). Clients may decide by it; it is never renamed.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        pub enum Reason {
            $($(#[$doc])* #[serde(rename = $text)] $name,)+
        }

        impl Reason {
            /// The word that clients see.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$name => $text,)+ }
            }

            /// All reasons, for documentation and tests.
            pub const ALL: &'static [Reason] = &[$(Self::$name,)+];
        }
    };
}

reasons! {
    /// A field of the request is missing, malformed or out of bounds.
    InvalidField = "INVALID_FIELD",
    /// An id is malformed.
    InvalidId = "INVALID_ID",
    /// A page token is malformed or belongs to another list.
    InvalidPageToken = "INVALID_PAGE_TOKEN",
    /// A path such as `a.b[0].c` is malformed or leads nowhere.
    InvalidPath = "INVALID_PATH",
    /// A schema breaks a rule; the message says where.
    InvalidSchema = "INVALID_SCHEMA",
    /// Data does not match its schema.
    SchemaMismatch = "SCHEMA_MISMATCH",
    /// Larger than a bound allows.
    TooLarge = "TOO_LARGE",
    /// The kind of file is not accepted.
    UnsupportedType = "UNSUPPORTED_TYPE",
    /// Nothing of that id in the organization.
    NotFound = "NOT_FOUND",
    /// The name is taken.
    NameTaken = "NAME_TAKEN",
    /// Something else uses it; the message says what.
    InUse = "IN_USE",
    /// It changed since it was read.
    VersionConflict = "VERSION_CONFLICT",
    /// The request id was used for another request.
    RequestIdConflict = "REQUEST_ID_CONFLICT",
    /// The model is not known, or disabled.
    ModelNotAvailable = "MODEL_NOT_AVAILABLE",
    /// The profile is not known.
    UnknownProfile = "UNKNOWN_PROFILE",
    /// The tool is not known or not of this profile.
    UnknownTool = "UNKNOWN_TOOL",
    /// The thread has a running turn.
    TurnBusy = "TURN_BUSY",
    /// The thread has a turn that waits for approval.
    TurnPending = "TURN_PENDING",
    /// The turn's approvals came too late.
    TurnExpired = "TURN_EXPIRED",
    /// The turn ended, and what is asked needs a live one.
    TurnEnded = "TURN_ENDED",
    /// The turn cannot be resumed.
    TurnNotResumable = "TURN_NOT_RESUMABLE",
    /// The turn does not wait for a decision.
    NotAwaitingApproval = "NOT_AWAITING_APPROVAL",
    /// A decision differs from the one that is recorded.
    DecisionConflict = "DECISION_CONFLICT",
    /// A decision carries a digest that is not the call's.
    DigestMismatch = "DIGEST_MISMATCH",
    /// A decision names no call of the waiting round.
    UnknownCall = "UNKNOWN_CALL",
    /// The thread has reached its bound; fork it or start another.
    ThreadFull = "THREAD_FULL",
    /// The queue behind a running turn is full.
    QueueFull = "QUEUE_FULL",
    /// The node has as many conversations or calls under way as it may.
    Overloaded = "OVERLOADED",
    /// Longer than the call may take, by the server's bound or the caller's own deadline. What it set off goes on.
    DeadlineExceeded = "DEADLINE_EXCEEDED",
    /// The node is shutting down.
    Draining = "DRAINING",
    /// The owner of the thread is another node: `Error::owner` names it.
    Moved = "MOVED",
    /// A request was forwarded by a node that it had been forwarded to.
    ForwardedTwice = "FORWARDED_TWICE",
    /// A process of the cluster does not believe another one who calls: secrets or clocks differ, or it was forged.
    InvalidPrincipal = "INVALID_PRINCIPAL",
    /// The model endpoint failed.
    ModelFailed = "MODEL_FAILED",
    /// The model endpoint did not answer in time.
    ModelTimeout = "MODEL_TIMEOUT",
    /// The model endpoint refused the request.
    ModelRefused = "MODEL_REFUSED",
    /// The model endpoint limits its rate.
    ModelRateLimited = "MODEL_RATE_LIMITED",
    /// The model's context does not hold what it would be sent, however much of it is cut.
    ContextTooSmall = "CONTEXT_TOO_SMALL",
    /// The circuit breaker of the endpoint is open.
    ModelUnavailable = "MODEL_UNAVAILABLE",
    /// The node died, restarted, or is not reached.
    NodeLost = "NODE_LOST",
    /// What is to be kept encrypted cannot be: this installation has no master key, or not the one that it was encrypted with.
    SecretsUnavailable = "SECRETS_UNAVAILABLE",
    /// The organization's credit does not cover the call; the details hold its `balance` and what the call may `need`.
    SpuExhausted = "SPU_EXHAUSTED",
    /// A store could not be reached or did not answer in time.
    StoreUnavailable = "STORE_UNAVAILABLE",
    /// A stored value cannot be read by this version.
    StoredFormat = "STORED_FORMAT",
    /// No token, or one that is malformed, unknown, expired or revoked.
    InvalidToken = "INVALID_TOKEN",
    /// The keys of the issuer of a JWT cannot be read.
    IssuerUnavailable = "ISSUER_UNAVAILABLE",
    /// The caller's role does not allow this.
    RoleNotAllowed = "ROLE_NOT_ALLOWED",
    /// The token is limited to other parts of the API.
    ScopeNotAllowed = "SCOPE_NOT_ALLOWED",
    /// Too many attempts with tokens that are not good came from this address.
    TooManyAttempts = "TOO_MANY_ATTEMPTS",
    /// The organization has as much of it as it may.
    QuotaExceeded = "QUOTA_EXCEEDED",
    /// A rule of the organization's policy says no, or asks somebody else.
    PolicyDenied = "POLICY_DENIED",
    /// The document has no text (yet).
    NoText = "NO_TEXT",
    /// There is no extraction (yet).
    NoExtraction = "NO_EXTRACTION",
    /// A fault of Folio.
    Internal = "INTERNAL",
}

/// The names of the details that hold kind and id of a missing resource.
const RESOURCE_KIND: &str = "resource_kind";
const RESOURCE_ID: &str = "resource_id";
/// The name of the detail that holds the owner of a thread.
const OWNER: &str = "owner";
/// When a caller that does not follow may ask again.
const MOVED_RETRY: Duration = Duration::from_millis(500);

/// What is wrong with one field of a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FieldViolation {
    /// The field's path in the request, as in the proto files.
    pub field: String,
    /// What is wrong, for a person.
    pub description: String,
}

/// An error of Folio.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Error {
    /// The kind.
    pub code: Code,
    /// Why, in one stable word.
    pub reason: Reason,
    /// For a person. Never a secret, never document text.
    pub message: String,
    /// When to try again, where that is known.
    pub retry_after: Option<Duration>,
    /// The fields at fault.
    pub violations: Vec<FieldViolation>,
    /// Further facts for a program (ErrorInfo's metadata).
    pub details: BTreeMap<String, String>,
}

impl Error {
    /// An error of a code and reason.
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

    /// Wrong input.
    pub fn invalid(reason: Reason, message: impl Into<String>) -> Self {
        Self::new(Code::InvalidArgument, reason, message)
    }

    /// Wrong input in one field.
    pub fn invalid_field(field: impl Into<String>, description: impl Into<String>) -> Self {
        let (field, description) = (field.into(), description.into());
        let mut error = Self::invalid(Reason::InvalidField, format!("{field}: {description}"));
        error.violations.push(FieldViolation { field, description });
        error
    }

    /// The same error with another reason than the general one.
    #[must_use]
    pub fn because(mut self, reason: Reason) -> Self {
        self.reason = reason;
        self
    }

    /// The error of a missing resource, which one of another organization equals. `kind` is the word for its kind.
    pub fn not_found(kind: &str, id: impl fmt::Display) -> Self {
        Self::new(Code::NotFound, Reason::NotFound, format!("{kind} {id} not found"))
            .detail(RESOURCE_KIND, kind)
            .detail(RESOURCE_ID, id)
    }

    /// Kind and id of the missing resource of [`Error::not_found`].
    pub fn missing_resource(&self) -> Option<(&str, &str)> {
        Some((self.details.get(RESOURCE_KIND)?, self.details.get(RESOURCE_ID)?))
    }

    /// The system is not in a state for this.
    pub fn precondition(reason: Reason, message: impl Into<String>) -> Self {
        Self::new(Code::FailedPrecondition, reason, message)
    }

    /// Not now.
    pub fn unavailable(reason: Reason, message: impl Into<String>) -> Self {
        Self::new(Code::Unavailable, reason, message)
    }

    /// Over a bound.
    pub fn exhausted(reason: Reason, message: impl Into<String>) -> Self {
        Self::new(Code::ResourceExhausted, reason, message)
    }

    /// The owner of a thread is another node, which is asked instead. Nothing was done.
    pub fn moved(owner: &Incarnation) -> Self {
        Self::unavailable(Reason::Moved, "the thread is owned by another node")
            .retry_after(MOVED_RETRY)
            .detail(OWNER, owner)
    }

    /// The owner that an error of [`Error::moved`] names.
    pub fn owner(&self) -> Option<Incarnation> {
        let owner = self.details.get(OWNER).filter(|_| self.reason == Reason::Moved)?;
        owner.parse().ok()
    }

    /// A fault of Folio; `message` goes to the log, never to a client.
    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(Code::Internal, Reason::Internal, message)
    }

    /// The same error with a hint when to try again.
    #[must_use]
    pub fn retry_after(mut self, after: Duration) -> Self {
        self.retry_after = Some(after);
        self
    }

    /// The same error with a further fact for a program.
    #[must_use]
    pub fn detail(mut self, name: &str, value: impl fmt::Display) -> Self {
        self.details.insert(name.to_owned(), value.to_string());
        self
    }

    /// What a log may be told where the message is not Folio's own: a provider's may repeat a prompt. Of a fault of Folio its
    /// message, of all else the reason alone.
    pub fn logged(&self) -> &str {
        match self.code {
            Code::Internal | Code::DataLoss => &self.message,
            _ => self.reason.as_str(),
        }
    }

    /// Whether the same request may succeed when it is sent again unchanged.
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
