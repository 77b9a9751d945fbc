//! Parsing of the usage that an endpoint reports.

use folio_types::message::Usage;
use serde_json::Value;

/// Maximum plausible token count. A larger number is an error of the endpoint.
const TOKENS_MAX: u64 = 1_000_000_000;

/// Returns the usage of a call. None if the report is implausible; the caller then counts the tokens.
pub(crate) fn parse(usage: &Value) -> Option<Usage> {
    let number = |path: &str| usage.pointer(path).and_then(Value::as_u64).filter(|tokens| *tokens <= TOKENS_MAX);
    let input_tokens = number("/prompt_tokens")?;
    let output_tokens = number("/completion_tokens")?;
    // The first name is OpenAI's, the second DeepSeek's.
    let cached = number("/prompt_tokens_details/cached_tokens").or_else(|| number("/prompt_cache_hit_tokens"));
    Some(Usage {
        input_tokens,
        cached_input_tokens: cached.unwrap_or(0).min(input_tokens),
        output_tokens,
        reported: true,
        model_calls: 1,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn usage_is_parsed_with_cached_tokens() {
        let usage = parse(&json!({
            "prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120,
            "prompt_tokens_details": {"cached_tokens": 64}
        }));
        let expected =
            Usage { input_tokens: 100, cached_input_tokens: 64, output_tokens: 20, reported: true, model_calls: 1 };
        assert_eq!(usage, Some(expected));
        let other = parse(&json!({"prompt_tokens": 9, "completion_tokens": 2, "prompt_tokens_details": null}));
        assert_eq!(other.map(|usage| usage.cached_input_tokens), Some(0));
        let more = parse(&json!({"prompt_tokens": 9, "completion_tokens": 2, "prompt_cache_hit_tokens": 50}));
        assert_eq!(more.map(|usage| usage.cached_input_tokens), Some(9), "never more than the prompt");
    }

    #[test]
    fn implausible_usage_is_ignored() {
        for bad in [
            json!(null),
            json!([]),
            json!({"prompt_tokens": 1}),
            json!({"prompt_tokens": -1, "completion_tokens": 1}),
            json!({"prompt_tokens": 1.5, "completion_tokens": 1}),
            json!({"prompt_tokens": u64::MAX, "completion_tokens": 1}),
        ] {
            assert_eq!(parse(&bad), None, "{bad}");
        }
    }
}
