//! What is the same of every aggregate, so that one piece of code can change any of them.

use std::fmt::Display;
use std::str::FromStr;

use async_trait::async_trait;
use folio_types::document::Document;
use folio_types::extraction::Extraction;
use folio_types::op::{Decided, Target, Write};
use folio_types::prompt::Prompt;
use folio_types::schema::Schema;
use folio_types::tag::Tag;
use folio_types::{DocumentId, Error, ExtractionId, OrgId, PromptId, Result, SchemaId, TagId};

use super::{DocumentChange, ExtractionChange, PromptChange, SchemaChange, Stores, TagChange};

/// A kind of thing that deciding writes change, each under its own id.
#[async_trait]
pub trait Aggregate: Sized + Send + Sync + 'static {
    /// Its ids.
    type Id: Clone + Display + FromStr<Err = Error> + Send + Sync + 'static;
    /// What deciding writes do to it.
    type Change: Clone + Send + Sync + 'static;
    /// The change that leaves its tombstone.
    const DELETE: Self::Change;

    /// The id that follows from `parts`.
    fn derive(parts: &[&str]) -> Self::Id;

    /// The target of writes to the one of this id.
    fn target(id: &Self::Id) -> Target;

    /// The id in a target; none where it is of another kind.
    fn id_in(target: &Target) -> Option<&Self::Id>;

    /// Its id.
    fn id(&self) -> &Self::Id;

    /// Its version: what a write expects.
    fn version(&self) -> u64;

    /// The live one of this id, or none.
    async fn find(stores: &Stores, org: &OrgId, id: &Self::Id) -> Result<Option<Self>>;

    /// The deciding write. Errors: those of its store's `decide`.
    async fn decide(stores: &Stores, id: &Self::Id, write: Write<Self::Change>) -> Result<Decided>;
}

/// An aggregate whose name is one of its kind in the organization, without regard to case.
#[async_trait]
pub trait Named: Aggregate {
    /// The live one of this name, or none.
    async fn by_name(stores: &Stores, org: &OrgId, name: &str) -> Result<Option<Self>>;
}

macro_rules! aggregate {
    ($kind:ident, $id:ident, $change:ident, $store:ident) => {
        #[async_trait]
        impl Aggregate for $kind {
            type Id = $id;
            type Change = $change;
            const DELETE: $change = $change::Delete;

            fn derive(parts: &[&str]) -> $id {
                $id::derive(parts)
            }

            fn target(id: &$id) -> Target {
                Target::$kind(id.clone())
            }

            fn id_in(target: &Target) -> Option<&$id> {
                if let Target::$kind(id) = target { Some(id) } else { None }
            }

            fn id(&self) -> &$id {
                &self.id
            }

            fn version(&self) -> u64 {
                self.version
            }

            async fn find(stores: &Stores, org: &OrgId, id: &$id) -> Result<Option<Self>> {
                stores.$store.get(org, id).await
            }

            async fn decide(stores: &Stores, id: &$id, write: Write<$change>) -> Result<Decided> {
                stores.$store.decide(id, write).await
            }
        }
    };
}

macro_rules! named {
    ($kind:ident, $store:ident) => {
        #[async_trait]
        impl Named for $kind {
            async fn by_name(stores: &Stores, org: &OrgId, name: &str) -> Result<Option<Self>> {
                stores.$store.by_name(org, name).await
            }
        }
    };
}

aggregate!(Document, DocumentId, DocumentChange, documents);
aggregate!(Schema, SchemaId, SchemaChange, schemas);
aggregate!(Prompt, PromptId, PromptChange, prompts);
aggregate!(Tag, TagId, TagChange, tags);
aggregate!(Extraction, ExtractionId, ExtractionChange, extractions);

named!(Schema, schemas);
named!(Prompt, prompts);
named!(Tag, tags);
