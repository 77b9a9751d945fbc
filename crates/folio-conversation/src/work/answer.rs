//! Validation of an answer that must be JSON.

use folio_llm::schema::{describe, validate_data};
use folio_tools::extraction::unfenced;
use folio_types::{json, limits};
use serde_json::Value;

/// Returns the JSON of an answer without a code fence, or why the answer does not match the schema, for the model.
pub(super) async fn checked(schema: &Value, answer: &str) -> Result<String, String> {
    let text = unfenced(answer);
    let (bytes, max) = (text.len(), limits::JSON_ANSWER_BYTES);
    if bytes > max {
        return Err(format!("#: the answer has {bytes} bytes; the maximum is {max}"));
    }
    let value = json::read(text).map_err(|error| format!("#: {error}"))?;
    match validate_data(schema, &value).await {
        Ok(violations) if violations.is_empty() => Ok(text.to_owned()),
        Ok(violations) | Err(violations) => Err(describe(&violations)),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[tokio::test]
    async fn an_answer_is_json_that_matches_the_schema() {
        let schema = json!({"type": "object", "properties": {"total": {"type": "number"}}, "required": ["total"]});
        let valid = |text: &str| Ok(text.to_owned());
        assert_eq!(checked(&schema, r#"{"total": 12.5}"#).await, valid(r#"{"total": 12.5}"#));
        assert_eq!(checked(&schema, "```json\n{\"total\": 1}\n```").await, valid(r#"{"total": 1}"#));
        let long = format!(r#"{{"total": 1, "note": "{}"}}"#, "x".repeat(limits::JSON_ANSWER_BYTES));
        for (answer, problem) in [
            ("No total was found.", "invalid JSON"),
            ("", "invalid JSON"),
            (r#"{"total": "12.5"}"#, "#/total"),
            ("{}", "total"),
            (r#"{"total": 1e400}"#, "represented exactly"),
            (long.as_str(), "the maximum is"),
        ] {
            let refused = checked(&schema, answer).await.unwrap_err();
            assert!(refused.contains(problem) && !refused.contains("12.5\""), "{answer}: {refused}");
        }
    }
}
