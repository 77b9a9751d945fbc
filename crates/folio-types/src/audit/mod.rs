//! The audit log of an organization: who let which call run, by which rule, what came of it, and what administrators changed.
//!
//! Entries are only ever added. One stands at its time and key, which both follow from what it records, so that whoever writes it
//! again writes the same one. No entry holds text of a document, or a secret: see [`Redacted`].

mod redact;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Reason, Result};
use crate::ids::{CallId, UserId};
use crate::op::Target;

pub use redact::{REDACTED_BYTES, Redacted};

/// Bytes of an entry's key.
pub const KEY_BYTES: usize = 512;
/// Characters of what an entry says by name (a tool, a rule, an outcome).
pub const WORD_CHARS: usize = 200;

/// One entry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditEntry {
    /// What it is recorded under: a call or a request, and the kind. With the time it tells entries apart.
    pub key: String,
    /// When it happened.
    pub at: Timestamp,
    /// What happened.
    pub kind: AuditKind,
    /// Who did it; of what a call did: for whom. None: the server itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<UserId>,
    /// The tool of a call, or the operation of an administrator (`TokenService.CreateToken`).
    pub subject: String,
    /// The call; none: it is about none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<CallId>,
    /// With which arguments; of an edited call: the edited ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arguments: Option<Redacted>,
    /// By what a call waited, ran or was denied.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ground: Option<Ground>,
    /// What was changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<AuditTarget>,
    /// How it came out: the status of a call, the reason of an error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<String>,
}

/// What an entry records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AuditKind {
    /// Somebody let a call run as it is.
    CallApproved,
    /// Somebody let a call run with other arguments.
    CallEdited,
    /// Somebody did not let a call run.
    CallRejected,
    /// A call that writes ran without a decision on it.
    CallAllowed,
    /// A rule of the policy did not let a call run.
    CallDenied,
    /// What came of a call that was let run.
    CallEffect,
    /// An administrator asked for a change. Where nothing follows, nobody knows whether it was made, or a part of it.
    ChangeAsked,
    /// The change was made.
    ChangeMade,
    /// The change was refused, or failed before anything was changed.
    ChangeFailed,
}

impl AuditKind {
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::CallApproved,
        Self::CallEdited,
        Self::CallRejected,
        Self::CallAllowed,
        Self::CallDenied,
        Self::CallEffect,
        Self::ChangeAsked,
        Self::ChangeMade,
        Self::ChangeFailed,
    ];

    /// Its name: in keys, filters and exports.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::CallApproved => "call_approved",
            Self::CallEdited => "call_edited",
            Self::CallRejected => "call_rejected",
            Self::CallAllowed => "call_allowed",
            Self::CallDenied => "call_denied",
            Self::CallEffect => "call_effect",
            Self::ChangeAsked => "change_asked",
            Self::ChangeMade => "change_made",
            Self::ChangeFailed => "change_failed",
        }
    }
}

/// By what a call waited, ran or was denied.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ground {
    /// The rule of the organization's policy that has this name.
    Rule(String),
    /// No rule fits, and the turn lets every call run (`auto_approve`).
    AutoApprove,
    /// No rule fits, and the turn lets this tool run (`auto_approved_tools`).
    AutoApprovedTool,
    /// No rule fits: calls that write wait.
    WritesWait,
}

/// What was changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditTarget {
    /// What it is, in one word: `schema`, `token`, `member`.
    pub kind: String,
    /// Its id.
    pub id: String,
}

impl AuditTarget {
    /// The one of this kind and id.
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
    /// An entry that says no more than this.
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
        }
    }

    /// Where it stands.
    pub fn place(&self) -> AuditPlace {
        AuditPlace { micros: self.at.as_microsecond(), key: self.key.clone() }
    }

    /// Its id: it sorts as the log does.
    pub fn id(&self) -> String {
        self.place().to_string()
    }
}

/// A word or name as an entry holds it: bounded.
pub fn word(text: &str) -> String {
    text.chars().take(WORD_CHARS).collect()
}

/// Where an entry stands in its log: by time, then by key.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct AuditPlace {
    /// Microseconds since the epoch.
    pub micros: i64,
    /// The entry's key; empty: before all of that moment.
    pub key: String,
}

impl AuditPlace {
    /// Before every entry of a moment.
    pub fn before(at: Timestamp) -> Self {
        Self { micros: at.as_microsecond(), key: String::new() }
    }
}

impl std::fmt::Display for AuditPlace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:016x}.{}", self.micros.cast_unsigned() ^ (1 << 63), self.key)
    }
}

impl std::str::FromStr for AuditPlace {
    type Err = Error;
    fn from_str(text: &str) -> Result<Self> {
        let malformed = || Error::invalid(Reason::InvalidId, "malformed place in the audit log");
        let (micros, key) = text.split_once('.').ok_or_else(malformed)?;
        let micros = u64::from_str_radix(micros, 16).map_err(|_| malformed())? ^ (1 << 63);
        Ok(Self { micros: micros.cast_signed(), key: key.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_sort_as_their_entries_do_and_lead_back_to_their_place() {
        let place = |micros, key: &str| AuditPlace { micros, key: key.to_owned() };
        let mut places = [place(-7, "b"), place(0, ""), place(0, "a.1"), place(3, "a"), place(i64::MAX, "z")];
        places.sort();
        let ids: Vec<String> = places.iter().map(ToString::to_string).collect();
        assert!(ids.is_sorted(), "{ids:?}");
        for (place, id) in places.iter().zip(&ids) {
            assert_eq!(&id.parse::<AuditPlace>().unwrap(), place);
        }
        assert!("x".parse::<AuditPlace>().is_err() && "zz.a".parse::<AuditPlace>().is_err());
    }

    #[test]
    fn a_kind_is_named_as_it_is_stored() {
        for kind in AuditKind::ALL {
            assert_eq!(serde_json::to_value(kind).unwrap(), kind.as_str());
        }
    }
}
