//! Typed ids: opaque to clients, safe in URLs, validated at every boundary.
//!
//! A plain id is a prefix and 128 bits in hexadecimal (`doc_0190…`). The id of a dependent starts with the id of its
//! parent, so that no index of the parents is needed: a revision is `<aggregate>.<version>`, a turn
//! `<thread>.<number>`, a call `<turn>.<round>.<index>`.

use std::fmt;
use std::str::FromStr;
use std::sync::{Arc, LazyLock};

use sha2::{Digest as _, Sha256};

use crate::environment::Environment;
use crate::error::{Error, Reason, Result};

const HEX_DIGITS: usize = 32;

/// Returns true if a text consists of this number of lowercase hexadecimal digits.
pub(crate) fn is_hex(text: &str, digits: usize) -> bool {
    text.len() == digits && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

fn malformed(kind: &'static str, text: &str) -> Error {
    let excerpt: String = text.chars().take(80).collect();
    let article = if kind.starts_with(['a', 'e', 'i', 'o']) { "an" } else { "a" };
    Error::invalid(Reason::InvalidId, format!("{excerpt:?} is not {article} {kind} id"))
}

/// Declares the type of a plain id: its name, its prefix, and the word for it in errors. A kind of resource whose id no
/// crate below `folio-resources` uses declares the type in its own file.
#[macro_export]
macro_rules! plain_id {
    ($(#[$doc:meta])* $name:ident, $prefix:literal, $kind:literal) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(std::sync::Arc<str>);

        impl $name {
            /// Prefix of every id of this kind, without the underscore.
            pub const PREFIX: &'static str = $prefix;

            /// Generates an id. Ids sort by creation time.
            pub fn generate(environment: &dyn $crate::Environment) -> Self {
                Self($crate::plain::generate($prefix, environment))
            }

            /// Derives an id from `parts` by SHA-256 over the length-prefixed parts. Equal parts give equal ids.
            pub fn derive(parts: &[&str]) -> Self {
                Self($crate::plain::derive($prefix, parts))
            }

            /// Returns the text that is stored and sent.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl std::str::FromStr for $name {
            type Err = $crate::Error;
            fn from_str(text: &str) -> $crate::Result<Self> {
                $crate::plain::parse($kind, $prefix, text).map(Self)
            }
        }

        $crate::text_form!($name);
    };
}

/// Implements `Display`, `Debug`, `Serialize` and `Deserialize` with the text of an id.
#[doc(hidden)]
#[macro_export]
macro_rules! text_form {
    (@serde $name:ident) => {
        $crate::text_form!(@read $name);
        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }
    };
    (@read $name:ident) => {
        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                std::fmt::Display::fmt(self, f)
            }
        }
        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
                $crate::plain::deserialize(deserializer)
            }
        }
    };
    ($name:ident) => {
        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(&self.0)
            }
        }
        $crate::text_form!(@read $name);
        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
                serializer.serialize_str(&self.0)
            }
        }
    };
}

/// The functions of [`plain_id`].
#[doc(hidden)]
pub mod plain {
    use std::fmt;
    use std::marker::PhantomData;
    use std::str::FromStr;
    use std::sync::Arc;

    use serde::Deserializer;
    use serde::de::{self, Visitor};
    use uuid::Uuid;

    use super::{Environment, Error, HEX_DIGITS, Result, is_hex, malformed};
    use crate::hash::uuid_of_parts;

    pub fn generate(prefix: &str, environment: &dyn Environment) -> Arc<str> {
        text(prefix, environment.uuid())
    }

    pub fn derive(prefix: &str, parts: &[&str]) -> Arc<str> {
        text(prefix, uuid_of_parts(std::iter::once(&prefix).chain(parts)))
    }

    pub fn parse(kind: &'static str, prefix: &str, text: &str) -> Result<Arc<str>> {
        let digits = text.strip_prefix(prefix).and_then(|rest| rest.strip_prefix('_'));
        let is_well_formed = digits.is_some_and(|digits| is_hex(digits, HEX_DIGITS));
        if is_well_formed { Ok(text.into()) } else { Err(malformed(kind, text)) }
    }

    fn text(prefix: &str, uuid: Uuid) -> Arc<str> {
        format!("{prefix}_{}", uuid.simple()).into()
    }

    /// Deserializes a text and parses it without a copy.
    pub fn deserialize<'de, T, D>(deserializer: D) -> std::result::Result<T, D::Error>
    where
        T: FromStr<Err = Error>,
        D: Deserializer<'de>,
    {
        deserializer.deserialize_str(ParsedText(PhantomData))
    }

    struct ParsedText<T>(PhantomData<T>);

    impl<T: FromStr<Err = Error>> Visitor<'_> for ParsedText<T> {
        type Value = T;

        fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
            formatter.write_str("a string")
        }

        fn visit_str<E: de::Error>(self, text: &str) -> std::result::Result<T, E> {
            text.parse().map_err(E::custom)
        }
    }
}

plain_id!(
    /// An organization: the tenant, and the first part of every key.
    OrgId, "org", "organization"
);

impl OrgId {
    /// Returns the id of the pseudo organization that owns the resources of the platform: the organizations, and the
    /// model settings for all of them. No stored organization has it.
    pub fn platform() -> Self {
        static ID: LazyLock<OrgId> = LazyLock::new(|| OrgId::derive(&["platform"]));
        ID.clone()
    }

    /// Returns the id of the organization that the first start of an installation creates.
    pub fn first() -> Self {
        Self::derive(&["first organization"])
    }
}

plain_id!(
    /// A user of an organization.
    UserId, "usr", "user"
);

impl UserId {
    /// Returns the id of the pseudo user on whose behalf the platform itself writes. No member has it.
    pub fn platform() -> Self {
        static ID: LazyLock<UserId> = LazyLock::new(|| UserId::derive(&["platform"]));
        ID.clone()
    }
}

plain_id!(TokenId, "tok", "token");
plain_id!(DocumentId, "doc", "document");
plain_id!(
    /// The bytes of one upload.
    BlobId, "blb", "blob"
);

/// The key of a blob. Each upload of a document has its own blob, and the document names the blob with its bytes, so
/// that an upload neither overwrites nor removes the bytes of another.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BlobKey {
    pub org: OrgId,
    pub document: DocumentId,
    pub blob: BlobId,
}
plain_id!(ThreadId, "thr", "thread");
plain_id!(
    /// An image that a user has uploaded for messages.
    MessageImageId, "img", "message image"
);
plain_id!(
    /// A schema with all its revisions.
    SchemaId, "sch", "schema"
);
plain_id!(
    /// A prompt with all its revisions.
    PromptId, "prm", "prompt"
);

impl PromptId {
    /// The word that requests may send instead of the id of the built-in prompt.
    pub const BUILT_IN: &'static str = "default";

    /// Returns the id of the built-in prompt, which each organization has and no store contains.
    pub fn built_in() -> Self {
        static ID: LazyLock<PromptId> = LazyLock::new(|| PromptId::derive(&["built-in prompt"]));
        ID.clone()
    }
}

plain_id!(TagId, "tag", "tag");
plain_id!(ExtractionId, "ext", "extraction");
plain_id!(
    /// A table of values over several documents.
    StackId, "stk", "stack"
);
plain_id!(
    /// A run of the ingestion network on a document.
    IngestionId, "ing", "ingestion"
);
plain_id!(
    /// A proposal of an agent, which a user accepts or rejects.
    ProposalId, "ppl", "proposal"
);
plain_id!(
    /// An incarnation: one run of a node process.
    Incarnation, "inc", "incarnation"
);
plain_id!(
    /// A job: unattended work in the name of a principal.
    JobId, "job", "job"
);
plain_id!(
    /// A group of tasks, which a call of `run_tasks` starts.
    GroupId, "grp", "group"
);
plain_id!(GrantId, "grn", "grant");
plain_id!(
    /// A block of credit that a process acquired.
    BlockId, "blk", "block"
);

macro_rules! revision_id {
    ($(#[$doc:meta])* $name:ident, $of:ident, $kind:literal) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name {
            /// The schema or prompt.
            pub of: $of,
            /// Number of the revision, from 1, without gaps.
            pub version: u32,
        }

        impl $name {
            pub fn new(of: $of, version: u32) -> Self {
                Self { of, version }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}.{}", self.of, self.version)
            }
        }

        impl FromStr for $name {
            type Err = Error;
            fn from_str(text: &str) -> Result<Self> {
                let (of, version) = text.split_once('.').ok_or_else(|| malformed($kind, text))?;
                Ok(Self { of: of.parse()?, version: number($kind, text, version)? })
            }
        }

        text_form!(@serde $name);
    };
}

/// Parses a decimal number from 1 without leading zeros, so that every id has one spelling.
fn number(kind: &'static str, whole: &str, text: &str) -> Result<u32> {
    match text.parse::<u32>() {
        Ok(n) if n > 0 && n.to_string() == text => Ok(n),
        _ => Err(malformed(kind, whole)),
    }
}

revision_id!(
    /// A revision of a schema (`schema_revid`).
    SchemaRevId, SchemaId, "schema revision"
);
revision_id!(
    /// A revision of a prompt (`prompt_revid`).
    PromptRevId, PromptId, "prompt revision"
);

/// A turn: its thread and its number in the thread. Numbers increase and are never reused.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TurnId {
    pub thread: ThreadId,
    /// Number of the turn in its thread, from 1.
    pub number: u32,
}

impl TurnId {
    pub fn new(thread: ThreadId, number: u32) -> Self {
        Self { thread, number }
    }
}

impl fmt::Display for TurnId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.thread, self.number)
    }
}

impl FromStr for TurnId {
    type Err = Error;
    fn from_str(text: &str) -> Result<Self> {
        let (thread, turn) = text.split_once('.').ok_or_else(|| malformed("turn", text))?;
        Ok(Self { thread: thread.parse()?, number: number("turn", text, turn)? })
    }
}

text_form!(@serde TurnId);

/// A tool call: its turn, the round that requested it, and its index in the round. Folio assigns it; the provider's
/// call id is only an attribute.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CallId {
    pub turn: TurnId,
    /// Round of the turn, from 1.
    pub round: u32,
    /// Index in the round, from 1.
    pub index: u32,
}

impl CallId {
    pub fn new(turn: TurnId, round: u32, index: u32) -> Self {
        Self { turn, round, index }
    }
}

impl fmt::Display for CallId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.turn, self.round, self.index)
    }
}

impl FromStr for CallId {
    type Err = Error;
    fn from_str(text: &str) -> Result<Self> {
        let mut parts = text.splitn(4, '.');
        let mut next = || parts.next().ok_or_else(|| malformed("call", text));
        let thread = next()?.parse()?;
        let turn = number("call", text, next()?)?;
        let round = number("call", text, next()?)?;
        let index = number("call", text, next()?)?;
        Ok(Self { turn: TurnId::new(thread, turn), round, index })
    }
}

text_form!(@serde CallId);

// proto: docs/api.md "1 to {} visible ASCII characters"
const REQUEST_ID_CHARS: usize = 128;

/// A client's id for one request, which makes repetitions idempotent: visible ASCII characters.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RequestId(Arc<str>);

impl RequestId {
    /// Generates an id for a request without one. The request cannot be repeated.
    pub fn generate(environment: &dyn Environment) -> Self {
        Self(format!("folio-{}", environment.uuid().simple()).into())
    }

    /// Returns the id as the client sent it.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for RequestId {
    type Err = Error;
    fn from_str(text: &str) -> Result<Self> {
        if (1..=REQUEST_ID_CHARS).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_graphic()) {
            Ok(Self(text.into()))
        } else {
            let message = format!("invalid request_id: expected 1 to {REQUEST_ID_CHARS} visible ASCII characters");
            Err(Error::invalid(Reason::InvalidId, message))
        }
    }
}

text_form!(RequestId);

/// A SHA-256 digest as 64 hexadecimal digits.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Digest(Arc<str>);

impl Digest {
    pub fn of(bytes: &[u8]) -> Self {
        let digit = |half: u8| char::from_digit(u32::from(half), 16).unwrap_or('0');
        let digits = |byte: u8| [digit(byte >> 4), digit(byte & 0xf)];
        Self(Sha256::digest(bytes).into_iter().flat_map(digits).collect::<String>().into())
    }

    /// Returns the digest of a JSON value: of its compact text with the members of every object sorted by name. The
    /// digest does not depend on the order of members.
    pub fn of_json(value: &serde_json::Value) -> Self {
        let mut text = Vec::new();
        canonical(value, &mut text);
        Self::of(&text)
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

fn canonical(value: &serde_json::Value, out: &mut Vec<u8>) {
    use serde_json::Value;
    // Texts and scalars can always be written to memory.
    match value {
        Value::Object(members) => {
            let mut sorted: Vec<_> = members.iter().collect();
            sorted.sort_by_key(|(name, _)| name.as_str());
            out.push(b'{');
            for (at, (name, member)) in sorted.into_iter().enumerate() {
                if at > 0 {
                    out.push(b',');
                }
                let _ = serde_json::to_writer(&mut *out, name);
                out.push(b':');
                canonical(member, out);
            }
            out.push(b'}');
        }
        Value::Array(items) => {
            out.push(b'[');
            for (at, item) in items.iter().enumerate() {
                if at > 0 {
                    out.push(b',');
                }
                canonical(item, out);
            }
            out.push(b']');
        }
        scalar => {
            let _ = serde_json::to_writer(out, scalar);
        }
    }
}

impl FromStr for Digest {
    type Err = Error;
    fn from_str(text: &str) -> Result<Self> {
        if is_hex(text, 64) { Ok(Self(text.into())) } else { Err(malformed("digest", text)) }
    }
}

text_form!(Digest);

#[cfg(test)]
mod tests;
