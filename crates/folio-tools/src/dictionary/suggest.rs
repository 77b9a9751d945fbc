//! The tool `dictionary_suggest`.

use async_trait::async_trait;
use folio_resources::{AmbiguousToken, Document};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{abbreviations, entries, unexplained};
use crate::arguments::{optional, text};
use crate::call::{ReadCall, read_tool};
use crate::subject::find_by_argument;
use crate::tool::{CallContext, Tool, ToolError};

/// Maximum number of entries of `tokens`, and of `known`, in a result.
const TOKENS_MAX: usize = 30;

pub(super) fn tool() -> Tool {
    read_tool::<Suggest>(
        "dictionary_suggest",
        "Returns the abbreviations of a text that the text does not explain and the dictionary of the organization does not \
         contain: words of 2 or 3 letters in upper case, the most frequent first. Call it to find terms that need an entry. \
         Result: tokens (token, count, contexts), known (those that the dictionary contains), \
         more (number of further tokens, only if not all are returned), truncated (true if the end of a long document was not \
         read).",
        vec![
            optional("text", text("Text to search. Default: the text of the document.")).or_blank(),
            optional("document_id", text("Document, if text is omitted. Default: the conversation's document."))
                .or_empty(),
        ],
    )
}

#[derive(Deserialize)]
struct Suggest {
    text: Option<String>,
    document_id: Option<String>,
}

#[async_trait]
impl ReadCall for Suggest {
    async fn run(self, context: &CallContext) -> Result<Value, ToolError> {
        let (tokens, is_truncated) = match self.text {
            Some(_) if self.document_id.is_some() => {
                return Err(ToolError::ForModel(
                    "text and document_id exclude each other: pass one of them.".to_owned(),
                ));
            }
            Some(text) => (unexplained(text).await?, false),
            None => {
                let document: Document = find_by_argument(context, self.document_id.as_deref()).await?;
                abbreviations(context, &document).await?
            }
        };
        let found = entries(context, tokens.iter().map(|token| token.token.as_str())).await?;
        let mut known = Vec::new();
        let mut unknown = Vec::new();
        for (token, entry) in tokens.into_iter().zip(found) {
            match entry {
                Some(_) => known.push(token.token),
                None => unknown.push(token),
            }
        }
        let more = unknown.len().saturating_sub(TOKENS_MAX);
        known.truncate(TOKENS_MAX);
        let tokens: Vec<Value> = unknown.into_iter().take(TOKENS_MAX).map(shown).collect();
        let mut result = json!({ "tokens": tokens, "known": known });
        if let Some(members) = result.as_object_mut() {
            if more > 0 {
                members.insert("more".to_owned(), more.into());
            }
            if is_truncated {
                members.insert("truncated".to_owned(), true.into());
            }
        }
        Ok(result)
    }
}

fn shown(token: AmbiguousToken) -> Value {
    let AmbiguousToken { token, count, contexts } = token;
    json!({ "token": token, "count": count, "contexts": contexts })
}
