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
        credits: 0,
    })
}

/// Returns the number of prompt tokens that an endpoint reports, including tokens from its cache, which some endpoints do not
/// count as prompt tokens. None: the endpoint reports no number.
pub(crate) fn read_tokens(usage: &Value) -> Option<u64> {
    let number = |path: &str| usage.pointer(path).and_then(Value::as_u64);
    let cached = [
        "/prompt_tokens_details/cached_tokens",
        "/prompt_cache_hit_tokens",
        "/cache_read_input_tokens",
        "/cache_creation_input_tokens",
    ];
    let cached = cached.into_iter().filter_map(number);
    number("/prompt_tokens").map(|tokens| cached.fold(tokens, u64::saturating_add))
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
        let expected = Usage {
            input_tokens: 100,
            cached_input_tokens: 64,
            output_tokens: 20,
            reported: true,
            model_calls: 1,
            credits: 0,
        };
        assert_eq!(usage, Some(expected));
        let other = parse(&json!({"prompt_tokens": 9, "completion_tokens": 2, "prompt_tokens_details": null}));
        assert_eq!(other.map(|usage| usage.cached_input_tokens), Some(0));
        let more = parse(&json!({"prompt_tokens": 9, "completion_tokens": 2, "prompt_cache_hit_tokens": 50}));
        assert_eq!(more.map(|usage| usage.cached_input_tokens), Some(9), "never more than the prompt");
    }

    #[test]
    fn tokens_of_the_cache_are_tokens_that_the_endpoint_read() {
        for (usage, read) in [
            (json!({"prompt_tokens": 9}), Some(9)),
            (json!({"prompt_tokens": 9, "prompt_tokens_details": {"cached_tokens": 5_000}}), Some(5_009)),
            (json!({"prompt_tokens": 9, "prompt_cache_hit_tokens": 50}), Some(59)),
            (json!({"prompt_tokens": 9, "cache_read_input_tokens": 70, "cache_creation_input_tokens": 1}), Some(80)),
            (json!({"completion_tokens": 9}), None),
            (json!(null), None),
        ] {
            assert_eq!(read_tokens(&usage), read, "{usage}");
        }
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
