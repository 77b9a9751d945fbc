//! Ids in the path.

use std::str::FromStr;
use std::sync::Arc;

use axum::extract::FromRequestParts;
use folio_operations::PromptRef;
use folio_resources::{CollectionId, DictionaryEntryId, DictionaryQuestionId};
use folio_types::{
    DocumentId, Error, MessageImageId, OrgId, PromptId, PromptRevId, SchemaId, SchemaRevId, StackId, TagId, ThreadId,
    TokenId, TurnId, UserId,
};
use http::request::Parts;
use serde_json::json;

use crate::rest::endpoint::{Document, DocumentInput};
use crate::rest::failure::Failure;
use crate::rest::routes::Path;
use crate::services::Api;

/// A type of ids, with the name of its kind in errors.
pub(crate) trait PathId: FromStr<Err = Error> + Send {
    const KIND: &'static str;
}

macro_rules! path_ids {
    ($($name:ident: $kind:literal),+ $(,)?) => {
        $(impl PathId for $name {
            const KIND: &'static str = $kind;
        })+
    };
}
path_ids! {
    DocumentId: "document", MessageImageId: "message image", PromptId: "prompt", PromptRevId: "prompt", SchemaId: "schema", SchemaRevId: "schema",
    CollectionId: "collection", DictionaryEntryId: "dictionary_entry", DictionaryQuestionId: "dictionary_question", StackId: "stack", TagId: "tag", ThreadId: "thread", TokenId: "token", TurnId: "turn", UserId: "user", PromptRef: "prompt", OrgId: "organization",
}

/// The ids of the path after the organization: `Id<TagId>`, or `Id<(DocumentId, ThreadId)>`. A malformed id is answered like
/// the id of a missing resource.
pub(crate) struct Id<T>(pub(crate) T);

/// One id, or several ones.
pub(crate) trait PathIds: Sized + Send {
    fn parse(ids: &[String]) -> Result<Self, Error>;
}

fn parse<T: PathId>(text: &str) -> Result<T, Error> {
    text.parse().map_err(|_| Error::not_found(T::KIND, text.chars().take(80).collect::<String>()))
}

fn other_count() -> Error {
    Error::internal("the path of a route has another number of ids than its handler")
}

impl<T: PathId> PathIds for T {
    fn parse(ids: &[String]) -> Result<Self, Error> {
        let [id] = ids else { return Err(other_count()) };
        parse(id)
    }
}

impl<A: PathId, B: PathId> PathIds for (A, B) {
    fn parse(ids: &[String]) -> Result<Self, Error> {
        let [first, second] = ids else { return Err(other_count()) };
        Ok((parse(first)?, parse(second)?))
    }
}

impl<T: PathIds> FromRequestParts<Api> for Id<T> {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, _: &Api) -> Result<Self, Failure> {
        let ids = parts.extensions.get::<Path>().map(|path| Arc::clone(&path.ids)).unwrap_or_default();
        Ok(Self(T::parse(&ids)?))
    }
}

impl<T> DocumentInput for Id<T> {
    fn document(_: &mut Document) {
        // The parameters of the path follow from the path.
    }
}

/// Returns the description of a parameter of a path.
pub(crate) fn path_parameter(name: &str) -> serde_json::Value {
    json!({ "name": name, "in": "path", "required": true, "schema": { "type": "string" } })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_malformed_id_is_missing() {
        let tag = TagId::derive(&["a"]).to_string();
        assert_eq!(TagId::parse(std::slice::from_ref(&tag)).unwrap().to_string(), tag);
        for malformed in ["", "..", "%2e%2e", "tag_", "doc_0", "../etc", "tag_%00"] {
            let error = TagId::parse(&[malformed.to_owned()]).unwrap_err();
            assert_eq!(error.missing_resource(), Some(("tag", malformed)), "{malformed}");
        }
        let pair = [DocumentId::derive(&["a"]).to_string(), ThreadId::derive(&["b"]).to_string()];
        assert!(<(DocumentId, ThreadId)>::parse(&pair).is_ok());
    }
}
