//! Reranking of texts by their relevance to a query. A relevance belongs to one query, so it is not cached.

use std::sync::Arc;

use folio_llm::{
    ModelError, Progress, RERANK_DOCUMENTS_MAX, RankedDocument, RerankRequest, Reranking, count_tokens,
    prefix_within_tokens, rerank_tokens,
};
use folio_metering::MeteredCall;
use folio_types::message::Usage;
use folio_types::{Error, OrgId, Reason, Result, UserId};

use crate::extraction::{Answer, metered};
use crate::tool::ToolResources;

/// The operation of reranking in the usage of an organization.
pub const RERANK_OPERATION: &str = "rerank";
/// Maximum bytes of the query and the documents of a [`RerankCall`].
pub const RERANK_BYTES_MAX: usize = 1 << 20;

/// The origin of a request to rerank texts.
#[derive(Debug, Clone)]
pub struct RerankCall {
    pub org: OrgId,
    pub user: UserId,
    /// The key of the model call in the ledger. Unique for each attempt.
    pub key: String,
    /// None: the rerank model that the organization has chosen.
    pub model: Option<String>,
}

/// The most relevant of the requested texts.
#[derive(Debug, Clone, PartialEq)]
pub struct Reranked {
    /// The name of the model.
    pub model: String,
    /// Best first; each text at most once.
    pub results: Vec<RankedDocument>,
    /// The usage of the model call with the charged credits. Empty: there were no texts.
    pub usage: Usage,
}

impl Answer for Reranking {
    fn usage(&mut self) -> &mut Usage {
        &mut self.usage
    }
}

/// Makes one model call for reranking, as [`crate::extraction::complete_metered`] does.
pub async fn rerank_metered(
    resources: &ToolResources,
    call: MeteredCall,
    mut request: RerankRequest,
) -> Result<Result<Reranking, ModelError>> {
    request.call_id.clone_from(&call.key);
    let (models, progress) = (Arc::clone(&resources.models), request.progress.clone());
    metered(resources, call, progress, async move { models.rerank(request).await }).await
}

/// Returns the `top_n` most relevant documents. The query is cut to half of the tokens of an input of the model, and each
/// document to the rest.
///
/// # Errors
/// `MODEL_NOT_AVAILABLE` if the organization has no such rerank model; `INVALID_FIELD` for a query or documents beyond the
/// bounds; those of metering and of the model.
pub async fn rerank(
    resources: &ToolResources,
    call: RerankCall,
    query: &str,
    documents: &[String],
    top_n: usize,
) -> Result<Reranked> {
    check(query, documents)?;
    let catalogue = resources.models.catalogue(&call.org).await?;
    let model = catalogue.for_reranking(call.model.as_deref())?;
    if documents.is_empty() || top_n == 0 {
        return Ok(Reranked { model: model.name.clone(), results: Vec::new(), usage: Usage::default() });
    }
    let (query, documents) = fit(query, documents, model.options.context_tokens);
    let metered = MeteredCall {
        org: call.org.clone(),
        user: call.user,
        key: call.key,
        operation: RERANK_OPERATION,
        model: model.name.clone(),
        prices: model.prices(),
        document: None,
        input_tokens: rerank_tokens(query, &documents),
        max_output_tokens: 0,
    };
    let request = RerankRequest {
        call_id: String::new(),
        org: call.org,
        model: model.name.clone(),
        query: query.to_owned(),
        documents,
        top_n,
        progress: Progress::default(),
    };
    let Reranking { results, usage } = rerank_metered(resources, metered, request).await??;
    Ok(Reranked { model: model.name.clone(), results, usage })
}

fn check(query: &str, documents: &[String]) -> Result<()> {
    if query.trim().is_empty() {
        return Err(Error::invalid_field("query", "has no content"));
    }
    if documents.len() > RERANK_DOCUMENTS_MAX {
        return Err(Error::invalid_field("documents", format!("has more than {RERANK_DOCUMENTS_MAX} documents")));
    }
    let bytes = documents.iter().map(String::len).fold(query.len(), usize::saturating_add);
    if bytes > RERANK_BYTES_MAX {
        let problem = format!("has {bytes} bytes with the query; the maximum is {RERANK_BYTES_MAX}");
        return Err(Error::invalid_field("documents", problem).with_reason(Reason::TooLarge));
    }
    Ok(())
}

/// Returns the query and the documents within the tokens of an input.
fn fit<'a>(query: &'a str, documents: &[String], tokens: u32) -> (&'a str, Vec<String>) {
    let query = prefix_within_tokens(query, u64::from(tokens / 2));
    let rest = u64::from(tokens).saturating_sub(count_tokens(query));
    (query, documents.iter().map(|text| prefix_within_tokens(text, rest).to_owned()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_and_its_documents_are_bounded() {
        let field =
            |query: &str, documents: &[String]| check(query, documents).unwrap_err().violations[0].field.clone();
        assert!(check("a", &[]).is_ok() && check("a", &["".to_owned()]).is_ok());
        assert_eq!(field(" ", &[]), "query");
        assert_eq!(field("a", &vec![String::new(); RERANK_DOCUMENTS_MAX + 1]), "documents");
        assert_eq!(field("a", &["a".repeat(RERANK_BYTES_MAX)]), "documents");
    }

    #[test]
    fn a_query_with_each_document_is_within_the_input_of_the_model() {
        let long = "many words ".repeat(100);
        let (query, documents) = fit(&long, &[long.clone(), "short".to_owned()], 64);
        assert!(count_tokens(query) == 32 && long.starts_with(query), "{query:?}");
        assert_eq!((count_tokens(&documents[0]), documents[1].as_str()), (32, "short"));
        let (query, documents) = fit("short", std::slice::from_ref(&long), 64);
        assert_eq!((query, count_tokens(&documents[0])), ("short", 62));
    }
}
