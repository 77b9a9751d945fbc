//! Deterministic reranking: the relevance of a document is the cosine of its vector and that of the query, from -1 to 1.

use serde_json::{Value, json};

use crate::embeddings::embed;

/// Maximum documents of a request.
const DOCUMENTS_MAX: usize = 1_000;
const DIMENSIONS: usize = 1_024;

pub(crate) fn answer(body: &Value) -> Result<Value, String> {
    let model = body.get("model").and_then(Value::as_str).ok_or("model: must be a string")?;
    let query = body.get("query").and_then(Value::as_str).ok_or("query: must be a string")?;
    let documents = body.get("documents").and_then(Value::as_array).ok_or("documents: must be a list")?;
    if documents.is_empty() || documents.len() > DOCUMENTS_MAX {
        return Err(format!("documents: must be 1 to {DOCUMENTS_MAX} texts"));
    }
    let text = |document: &Value| document.as_str().or_else(|| document.get("text")?.as_str()).map(str::to_owned);
    let texts: Vec<String> =
        documents.iter().map(text).collect::<Option<_>>().ok_or("documents: must contain only strings")?;
    let top_n = match body.get("top_n") {
        None | Some(Value::Null) => texts.len(),
        Some(number) => {
            let number = number.as_u64().filter(|number| *number > 0).ok_or("top_n: must be at least 1")?;
            usize::try_from(number).unwrap_or(usize::MAX)
        }
    };
    let wanted = embed(query, DIMENSIONS);
    let relevance = |text: &String| -> f32 { embed(text, DIMENSIONS).iter().zip(&wanted).map(|(x, y)| x * y).sum() };
    let mut rated: Vec<(usize, f32)> = texts.iter().map(relevance).enumerate().collect();
    rated.sort_by(|(a, first), (b, second)| second.total_cmp(first).then(a.cmp(b)));
    let tokens: usize = texts.iter().map(|text| (query.len() + text.len()).div_ceil(4)).sum();
    let result = |(index, relevance): (usize, f32)| json!({"index": index, "relevance_score": relevance});
    let results: Vec<Value> = rated.into_iter().take(top_n).map(result).collect();
    Ok(json!({"model": model, "results": results, "usage": {"total_tokens": tokens}}))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_that_share_words_with_the_query_come_first() {
        let documents = json!(["Red foxes jump.", "The total amount due is 12 EUR.", {"text": "amount"}]);
        let answer = answer(&json!({"model": "r", "query": "total amount due", "documents": documents, "top_n": 2}));
        let results = answer.unwrap()["results"].as_array().unwrap().clone();
        assert_eq!(results.iter().map(|result| result["index"].as_u64().unwrap()).collect::<Vec<_>>(), [1, 2]);
        assert!(results[0]["relevance_score"].as_f64() > results[1]["relevance_score"].as_f64());
    }

    #[test]
    fn malformed_requests_are_refused() {
        for body in [
            json!({"query": "q", "documents": ["a"]}),
            json!({"model": "r", "documents": ["a"]}),
            json!({"model": "r", "query": "q", "documents": []}),
            json!({"model": "r", "query": "q", "documents": [1]}),
            json!({"model": "r", "query": "q", "documents": ["a"], "top_n": 0}),
        ] {
            assert!(answer(&body).is_err(), "{body}");
        }
    }
}
