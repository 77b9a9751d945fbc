//! References to revisions of schemas and prompts.

use std::fmt;
use std::str::FromStr;

use folio_types::{Error, PromptId, PromptRevId, SchemaId, SchemaRevId};
use serde::{Serialize, Serializer};

/// A revision: either the revision with an id, or the newest revision of a resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RevisionRef<I, R> {
    /// The newest revision of the resource with this id.
    Newest(I),
    Revision(R),
}

pub type SchemaRef = RevisionRef<SchemaId, SchemaRevId>;
pub type PromptRef = RevisionRef<PromptId, PromptRevId>;

impl<I: FromStr<Err = Error>, R: FromStr<Err = Error>> FromStr for RevisionRef<I, R> {
    type Err = Error;

    /// The id of a revision contains a period; the id of a resource contains none.
    fn from_str(text: &str) -> Result<Self, Error> {
        if text.contains('.') { text.parse().map(Self::Revision) } else { text.parse().map(Self::Newest) }
    }
}

impl<I: fmt::Display, R: fmt::Display> fmt::Display for RevisionRef<I, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Newest(id) => id.fmt(f),
            Self::Revision(revid) => revid.fmt(f),
        }
    }
}

impl<I: fmt::Display, R: fmt::Display> Serialize for RevisionRef<I, R> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}
