//! The baseline: one model call with the text of a document and the schema, without Folio.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use reqwest::StatusCode;
use serde_json::{Value, json};

use super::Endpoint;
use super::report::{Answer, Cost};

/// Timeout of one call.
const TIMEOUT: Duration = Duration::from_secs(900);
/// Maximum size of a response, in bytes.
const RESPONSE_BYTES: usize = 4 << 20;
/// Name of the schema in the response format.
const SCHEMA_NAME: &str = "document";

const INSTRUCTIONS: &str = "Extract the fields of the schema from the document. A value that the document does not \
                            contain is null. Answer with one JSON object.";

/// Returns the response format with this schema.
pub fn response_format(schema: &Value) -> Value {
    json!({"type": "json_schema", "json_schema": {"name": SCHEMA_NAME, "schema": schema, "strict": true}})
}

/// Calls the model once. An endpoint that refuses the temperature 0 is called without a temperature.
///
/// # Errors
/// The endpoint is unreachable, refuses the call, or answers without a JSON object.
pub async fn extract(endpoint: &Endpoint, text: &str, schema: &Value) -> Result<Answer> {
    let client = reqwest::Client::builder().timeout(TIMEOUT).build()?;
    let mut body = json!({
        "model": endpoint.model,
        "messages": [
            {"role": "system", "content": INSTRUCTIONS},
            {"role": "user", "content": format!("<document>\n{text}\n</document>")},
        ],
        "response_format": response_format(schema),
        "temperature": 0,
    });
    let (mut status, mut response) = post(&client, endpoint, &body).await?;
    if status == StatusCode::BAD_REQUEST && String::from_utf8_lossy(&response).contains("temperature") {
        body.as_object_mut().context("the body is an object")?.remove("temperature");
        (status, response) = post(&client, endpoint, &body).await?;
    }
    ensure!(status.is_success(), "the endpoint answered {status}: {}", String::from_utf8_lossy(&response));
    parse(&response)
}

async fn post(client: &reqwest::Client, endpoint: &Endpoint, body: &Value) -> Result<(StatusCode, Vec<u8>)> {
    let url = format!("{}/chat/completions", endpoint.base_url.trim_end_matches('/'));
    let mut response = client.post(url).bearer_auth(&endpoint.api_key).json(body).send().await?;
    let mut bytes = Vec::new();
    while let Some(chunk) = response.chunk().await? {
        ensure!(bytes.len() + chunk.len() <= RESPONSE_BYTES, "the response has more than {RESPONSE_BYTES} bytes");
        bytes.extend_from_slice(&chunk);
    }
    Ok((response.status(), bytes))
}

/// Parses a response. Text around the JSON object, such as a code fence, is ignored.
fn parse(response: &[u8]) -> Result<Answer> {
    let response: Value = serde_json::from_slice(response).context("the response is not JSON")?;
    let content = response.pointer("/choices/0/message/content").and_then(Value::as_str);
    let content = content.context("the response has no content")?;
    let object = content.find('{').zip(content.rfind('}')).and_then(|(start, end)| content.get(start..=end));
    let data: serde_json::Result<Value> = serde_json::from_str(object.context("the answer has no JSON object")?);
    let tokens = |name: &str| response.pointer(&format!("/usage/{name}")).and_then(Value::as_u64).unwrap_or(0);
    let cost = Cost {
        windows: 1,
        examples: 0,
        model_calls: 1,
        input_tokens: tokens("prompt_tokens"),
        output_tokens: tokens("completion_tokens"),
        credits: 0,
    };
    Ok(Answer { data: data.context("the answer is malformed JSON")?, evidence: None, incomplete: None, cost })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn response(content: &Value) -> Vec<u8> {
        let usage = json!({"prompt_tokens": 12, "completion_tokens": 3});
        json!({"choices": [{"message": {"content": content}}], "usage": usage}).to_string().into_bytes()
    }

    #[test]
    fn the_json_object_of_an_answer_is_parsed() {
        for content in ["{\"total\": 1}", "```json\n{\"total\": 1}\n```", "Here it is: {\"total\": 1}."] {
            let answer = parse(&response(&json!(content))).unwrap();
            assert_eq!(answer.data, json!({"total": 1}), "{content}");
            assert_eq!((answer.cost.input_tokens, answer.cost.output_tokens, answer.cost.windows), (12, 3, 1));
        }
    }

    #[test]
    fn the_problem_of_an_unusable_answer_is_reported() {
        for (content, problem) in [
            (json!("none"), "no JSON object"),
            (json!("} {"), "no JSON object"),
            (json!("{\"total\": }"), "malformed"),
            (json!(null), "no content"),
        ] {
            let error = format!("{:#}", parse(&response(&content)).unwrap_err());
            assert!(error.contains(problem), "{content}: {error}");
        }
        assert!(parse(b"busy").unwrap_err().to_string().contains("not JSON"));
    }
}
