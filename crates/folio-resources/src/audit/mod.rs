//! The audit log of an organization: decisions on tool calls with the rule that applied, effects of calls, and changes
//! by administrators.
//!
//! The log is append-only. The time and key of an entry are derived from the recorded event, so writing an entry is
//! idempotent. Entries contain neither document text nor secrets: see [`RedactedArguments`].

mod redact;

use folio_types::Timestamp;
use serde::{Deserialize, Serialize};

use folio_types::op::Target;
use folio_types::{CallId, Error, Reason, Result, UserId, named_enum};

pub use redact::{REDACTED_BYTES, RedactedArguments};

/// Maximum length of an entry's key, in bytes.
pub const KEY_BYTES: usize = 512;
/// Maximum length of a name in an entry (a tool, a rule, an outcome), in characters.
pub const WORD_CHARS: usize = 200;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditEntry {
    /// Key derived from the call or request and the kind. Unique together with the time.
    pub key: String,
    /// Time of the event.
    pub at: Timestamp,
    pub kind: AuditKind,
    /// User who caused the event. For the effect of a call: the user for whom the call ran. None: the server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<UserId>,
    /// Tool of the call, or operation of the administrator (`TokenService.CreateToken`).
    pub subject: String,
    /// None: the event is not about a call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<CallId>,
    /// Arguments of the call or operation. For an edited call: the edited arguments.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arguments: Option<RedactedArguments>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ground: Option<Ground>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<AuditTarget>,
    /// Outcome: the status of a call, or the reason of an error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<String>,
    /// User that created the token of a decision for `user`. None: as for [`Principal`](folio_types::Principal).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token_creator: Option<UserId>,
}

named_enum! {
    pub enum AuditKind {
        /// A user approved a call.
        CallApproved = "call_approved",
        /// A user approved a call with changed arguments.
        CallEdited = "call_edited",
        /// A user rejected a call.
        CallRejected = "call_rejected",
        /// A call that writes ran without an approval.
        CallAllowed = "call_allowed",
        /// A rule of the policy denied a call.
        CallDenied = "call_denied",
        /// A call ended, with its outcome.
        CallEffect = "call_effect",
        /// An administrator requested a change. Without a following entry, it is unknown whether the change was made
        /// completely, partly or not at all.
        ChangeRequested = "change_requested",
        /// The change was made.
        ChangeApplied = "change_applied",
        /// The change was refused, or failed before anything was written.
        ChangeFailed = "change_failed",
    }
}

/// Reason why a call waited, ran or was denied.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ground {
    /// The rule of the organization's policy with this name.
    Rule(String),
    /// No rule matches, and the turn runs every call without approval (`auto_approve`).
    AutoApprove,
    /// No rule matches, and the turn runs this tool without approval (`auto_approved_tools`).
    AutoApprovedTool,
    /// No rule matches: calls that write wait for approval.
    WritesWait,
    /// No rule matches, and the profile runs this tool without approval.
    Profile,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditTarget {
    /// Kind in one word: `schema`, `token`, `member`.
    pub kind: String,
    pub id: String,
}

impl AuditTarget {
    pub fn new(kind: &str, id: impl ToString) -> Self {
        Self { kind: kind.to_owned(), id: id.to_string() }
    }
}

impl From<&Target> for AuditTarget {
    fn from(target: &Target) -> Self {
        Self::new(target.kind(), target)
    }
}

impl AuditEntry {
    /// Creates an entry without optional fields.
    pub fn new(key: &str, kind: AuditKind, at: Timestamp, user: Option<UserId>, subject: &str) -> Self {
        Self {
            key: format!("{key}:{}", kind.as_str()),
            at,
            kind,
            user,
            subject: word(subject),
            call: None,
            arguments: None,
            ground: None,
            target: None,
            outcome: None,
            token_creator: None,
        }
    }

    pub fn position(&self) -> AuditPosition {
        AuditPosition { micros: self.at.as_microsecond(), key: self.key.clone() }
    }

    /// Returns the id. The order of ids is the order of the log.
    pub fn id(&self) -> String {
        self.position().to_string()
    }
}

/// Cuts a name to [`WORD_CHARS`].
pub fn word(text: &str) -> String {
    text.chars().take(WORD_CHARS).collect()
}

/// Position of an entry in the log, ordered by time, then by key.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct AuditPosition {
    /// Microseconds since the Unix epoch.
    pub micros: i64,
    /// Key of the entry. Empty: before all entries of this time.
    pub key: String,
}

impl AuditPosition {
    /// Returns the position before every entry of this time.
    pub fn before(at: Timestamp) -> Self {
        Self { micros: at.as_microsecond(), key: String::new() }
    }
}

impl std::fmt::Display for AuditPosition {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:016x}.{}", self.micros.cast_unsigned() ^ (1 << 63), self.key)
    }
}

impl std::str::FromStr for AuditPosition {
    type Err = Error;
    fn from_str(text: &str) -> Result<Self> {
        let malformed = || Error::invalid(Reason::InvalidId, "malformed position in the audit log");
        let (micros, key) = text.split_once('.').ok_or_else(malformed)?;
        let micros = u64::from_str_radix(micros, 16).map_err(|_| malformed())? ^ (1 << 63);
        Ok(Self { micros: micros.cast_signed(), key: key.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_sort_as_their_entries_do_and_parse_to_their_position() {
        let position = |micros, key: &str| AuditPosition { micros, key: key.to_owned() };
        let mut positions =
            [position(-7, "b"), position(0, ""), position(0, "a.1"), position(3, "a"), position(i64::MAX, "z")];
        positions.sort();
        let ids: Vec<String> = positions.iter().map(ToString::to_string).collect();
        assert!(ids.is_sorted(), "{ids:?}");
        for (position, id) in positions.iter().zip(&ids) {
            assert_eq!(&id.parse::<AuditPosition>().unwrap(), position);
        }
        assert!("x".parse::<AuditPosition>().is_err() && "zz.a".parse::<AuditPosition>().is_err());
    }

    #[test]
    fn a_kind_is_named_as_it_is_stored() {
        for &kind in AuditKind::ALL {
            assert_eq!(serde_json::to_value(kind).unwrap(), kind.as_str());
        }
    }

    #[test]
    fn an_entry_has_a_bounded_subject_and_the_id_of_its_position() {
        let at = Timestamp::constant(1_790_000_000, 0);
        let entry = AuditEntry::new("request", AuditKind::CallDenied, at, None, &"ä".repeat(WORD_CHARS + 1));
        assert_eq!(entry.subject, "ä".repeat(WORD_CHARS));
        let position = AuditPosition { micros: at.as_microsecond(), key: "request:call_denied".into() };
        assert_eq!((entry.id(), entry.position()), (position.to_string(), position));
    }
}
