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

impl<I: FromStr<Err = Error>, R: FromStr<Err = Error>> RevisionRef<I, R> {
    /// The id of a revision contains a period; the id of a resource contains none.
    fn parse(text: &str) -> Result<Self, Error> {
        if text.contains('.') { text.parse().map(Self::Revision) } else { text.parse().map(Self::Newest) }
    }
}

impl FromStr for SchemaRef {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        Self::parse(text)
    }
}

impl FromStr for PromptRef {
    type Err = Error;

    /// [`PromptId::BUILT_IN`] means the built-in prompt.
    fn from_str(text: &str) -> Result<Self, Error> {
        if text == PromptId::BUILT_IN { Ok(Self::Newest(PromptId::built_in())) } else { Self::parse(text) }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_built_in_prompt_is_referenced_by_a_word() {
        assert_eq!("default".parse(), Ok(PromptRef::Newest(PromptId::built_in())));
        let revid = PromptRevId::new(PromptId::built_in(), 1);
        assert_eq!(revid.to_string().parse(), Ok(PromptRef::Revision(revid)));
        for bad in ["Default", "default.1", ""] {
            assert!(bad.parse::<PromptRef>().is_err(), "{bad}");
        }
        assert!("default".parse::<SchemaRef>().is_err());
    }
}
