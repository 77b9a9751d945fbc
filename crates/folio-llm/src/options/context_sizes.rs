//! Context sizes of common models, in tokens. Data of the vendors' model pages and model cards, as of November 2025.
//!
//! A size is the one that a model has without extensions (such as `YaRN`) that its server must enable. A server may be
//! started with a smaller context: the settings, and the model list of the endpoint, take precedence.

use folio_types::models::{CONTEXT_TOKENS_DEFAULT, INPUT_TOKENS_DEFAULT, ModelKind, ModelOptions};

use super::check::{CONTEXT_TOKENS_MAX, CONTEXT_TOKENS_MIN, INPUT_TOKENS_MIN};
use super::{Options, known_input_tokens};

/// The start of a normalized model name, and the context size of the models whose name starts with it.
pub(super) struct Family {
    pub(super) prefix: &'static str,
    pub(super) tokens: u32,
}

pub(super) const fn family(prefix: &'static str, tokens: u32) -> Family {
    Family { prefix, tokens }
}

const FAMILIES: &[Family] = &[
    // https://platform.openai.com/docs/models
    family("gpt3.5-turbo", 16_385),
    family("gpt4", 8_192),
    family("gpt4-turbo", 128_000),
    family("gpt4.1", 1_047_576),
    family("gpt4o", 128_000),
    family("gpt5", 400_000),
    family("gpt-oss", 131_072),
    family("o1", 200_000),
    family("o3", 200_000),
    family("o4-mini", 200_000),
    // https://docs.anthropic.com/en/docs/about-claude/models
    family("claude", 200_000),
    family("claude-instant", 100_000),
    // https://ai.google.dev/gemini-api/docs/models, https://huggingface.co/google
    family("gemini1.5-flash", 1_048_576),
    family("gemini1.5-pro", 2_097_152),
    family("gemini2.0-flash", 1_048_576),
    family("gemini2.5", 1_048_576),
    family("gemma", 8_192),
    family("gemma2", 8_192),
    family("gemma3", 131_072),
    family("gemma3-1b", 32_768),
    family("gemma3-270m", 32_768),
    family("gemma3n", 32_768),
    // https://huggingface.co/meta-llama
    family("llama2", 4_096),
    family("llama3", 8_192),
    family("llama3.1", 131_072),
    family("llama3.2", 131_072),
    family("llama3.3", 131_072),
    family("llama4-maverick", 1_048_576),
    family("llama4-scout", 10_485_760),
    family("codellama", 16_384),
    // https://docs.mistral.ai/getting-started/models, https://huggingface.co/mistralai
    family("codestral", 32_768),
    family("ministral", 131_072),
    family("mistral", 32_768),
    family("mistral-large", 131_072),
    family("mistral-medium", 131_072),
    family("mistral-nemo", 131_072),
    family("mistral-small", 32_768),
    family("mistral-small3.1", 131_072),
    family("mistral-small3.2", 131_072),
    family("mixtral", 32_768),
    family("mixtral8x22b", 65_536),
    // https://huggingface.co/Qwen
    family("qwen2", 32_768),
    family("qwen2.5", 32_768),
    family("qwen3", 32_768),
    family("qwen3-coder", 262_144),
    family("qwq", 32_768),
    // https://api-docs.deepseek.com, https://huggingface.co/deepseek-ai
    family("deepseek-chat", 65_536),
    family("deepseek-reasoner", 65_536),
    family("deepseek-r1", 131_072),
    family("deepseek-v3", 131_072),
    // https://huggingface.co/microsoft
    family("phi3-medium4k", 4_096),
    family("phi3-medium128k", 131_072),
    family("phi3-mini4k", 4_096),
    family("phi3-mini128k", 131_072),
    family("phi3.5", 131_072),
    family("phi4", 16_384),
    family("phi4-mini", 131_072),
    // https://huggingface.co/ibm-granite
    family("granite3.0", 4_096),
    family("granite3.1", 131_072),
    family("granite3.2", 131_072),
    family("granite3.3", 131_072),
    // https://docs.cohere.com/docs/models
    family("command-a", 262_144),
    family("command-r", 131_072),
    // https://huggingface.co/HuggingFaceTB, https://huggingface.co/TinyLlama
    family("smollm2", 8_192),
    family("smollm3", 65_536),
    family("tinyllama", 2_048),
];

/// Returns the context size of a model by its name at an endpoint, such as `Qwen/Qwen2.5-7B-Instruct`, `llama3.1:8b` or
/// `gpt-4o-2024-08-06`. None: the model is unknown.
pub fn known_context_tokens(name: &str) -> Option<u32> {
    size_of(name, FAMILIES)
}

/// Returns the size of the family with the longest prefix of a model name.
pub(super) fn size_of(name: &str, families: &[Family]) -> Option<u32> {
    let name = normalized(name);
    let matching =
        families.iter().filter(|family| name.strip_prefix(family.prefix).is_some_and(|rest| ends(family, rest)));
    matching.max_by_key(|family| family.prefix.len()).map(|family| family.tokens)
}

/// Sets the sizes of a model whose settings state no context size: the size that its endpoint stated, otherwise the
/// known size, otherwise the default. The answer of a chat model is then bounded to a half of the context. Returns false
/// if the size is unknown.
pub fn complete_sizes(name: &str, model: &mut ModelOptions, stated: Option<u32>) -> bool {
    if model.context_tokens != 0 {
        return true;
    }
    let upstream = model.upstream_of(name);
    if model.kind != ModelKind::Chat {
        let stated = stated.filter(|tokens| (INPUT_TOKENS_MIN..=CONTEXT_TOKENS_MAX).contains(tokens));
        let size = stated.or_else(|| known_input_tokens(upstream));
        model.context_tokens = size.unwrap_or(INPUT_TOKENS_DEFAULT);
        return size.is_some();
    }
    let size = stated.filter(|tokens| is_context_size(*tokens)).or_else(|| known_context_tokens(upstream));
    model.context_tokens = size.unwrap_or(CONTEXT_TOKENS_DEFAULT);
    model.max_output_tokens = model.max_output_tokens.min(model.context_tokens / 2);
    size.is_some()
}

impl Options {
    /// Returns provider and name of the enabled chat models whose size is neither set nor known, so that the default
    /// applies.
    pub fn models_of_unknown_size(&self) -> impl Iterator<Item = (&str, &str)> {
        let providers = self.providers.iter().filter(|(_, provider)| provider.enabled);
        let models = providers.flat_map(|(provider, options)| {
            options.models.iter().map(move |(name, model)| (provider.as_str(), name.as_str(), model))
        });
        models
            .filter(|(_, _, model)| model.enabled && model.kind == ModelKind::Chat)
            .filter(|(_, name, model)| !complete_sizes(name, &mut (*model).clone(), None))
            .map(|(provider, name, _)| (provider, name))
    }
}

pub(crate) fn is_context_size(tokens: u32) -> bool {
    (CONTEXT_TOKENS_MIN..=CONTEXT_TOKENS_MAX).contains(&tokens)
}

/// Returns true if a name ends after the prefix of a family, or continues with another word: `gpt4` is not the family
/// of `gpt4o`, and `llama3` is not that of `llama3.1`.
fn ends(family: &Family, rest: &str) -> bool {
    let Some(next) = rest.chars().next() else { return true };
    let is_number = family.prefix.ends_with(|c: char| c.is_ascii_digit());
    if is_number { next == '-' } else { !next.is_ascii_alphabetic() }
}

/// Returns a name in lowercase, without folders and the vendor in front of it, with `-` between words, and without a
/// separator between a word and its number: `meta-llama/Llama-3.1-8B` and `llama3.1:8b` are both `llama3.1-8b`.
pub(super) fn normalized(name: &str) -> String {
    let name = name.rsplit(['/', '\\']).next().unwrap_or_default().to_ascii_lowercase();
    let name = name.strip_prefix("meta-").unwrap_or(&name);
    let mut normalized = String::with_capacity(name.len());
    let mut chars = name.chars().map(|c| if matches!(c, '_' | ':' | '@' | ' ') { '-' } else { c }).peekable();
    while let Some(c) = chars.next() {
        let follows_word = normalized.ends_with(|last: char| last.is_ascii_alphabetic());
        let precedes_number = chars.peek().is_some_and(char::is_ascii_digit);
        if c != '-' || !follows_word || !precedes_number {
            normalized.push(c);
        }
    }
    normalized
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_all_forms_have_the_size_of_their_family() {
        for (name, tokens) in [
            ("gpt-4o-2024-08-06", 128_000),
            ("gpt-4.1-mini", 1_047_576),
            ("gpt-4-0613", 8_192),
            ("gpt-4-turbo-2024-04-09", 128_000),
            ("gpt-5-mini-2025-08-07", 400_000),
            ("openai/gpt-oss-20b", 131_072),
            ("o3-mini", 200_000),
            ("claude-3-5-sonnet-20241022", 200_000),
            ("anthropic/claude-sonnet-4", 200_000),
            ("models/gemini-2.5-flash", 1_048_576),
            ("gemma3:1b", 32_768),
            ("google/gemma-3-12b-it", 131_072),
            ("llama3.1:8b", 131_072),
            ("meta-llama/Meta-Llama-3.1-8B-Instruct", 131_072),
            ("meta-llama/Llama-3.3-70B-Instruct", 131_072),
            ("llama3", 8_192),
            ("llama3:latest", 8_192),
            ("mistral:7b", 32_768),
            ("mistral-nemo", 131_072),
            ("mixtral:8x22b", 65_536),
            ("qwen2.5-coder:1.5b", 32_768),
            ("/models/Qwen2.5-Coder-1.5B-Instruct-Q4_K_M.gguf", 32_768),
            ("Qwen/Qwen3-Coder-30B-A3B-Instruct", 262_144),
            ("deepseek-r1:8b", 131_072),
            ("Phi-3-mini-4k-instruct", 4_096),
            ("phi4-mini", 131_072),
            ("tinyllama", 2_048),
        ] {
            assert_eq!(known_context_tokens(name), Some(tokens), "{name}");
        }
        for unknown in ["", "-", "fast", "gpt-4x", "gpt-9", "llama3.9:8b", "llamas", "claudette", "vendor/", "Ünknown"]
        {
            assert_eq!(known_context_tokens(unknown), None, "{unknown}");
        }
    }

    #[test]
    fn the_table_is_normalized_and_within_the_bounds() {
        for family in FAMILIES {
            assert_eq!(normalized(family.prefix), family.prefix);
            assert!(is_context_size(family.tokens), "{}", family.prefix);
            let occurrences = FAMILIES.iter().filter(|other| other.prefix == family.prefix).count();
            assert_eq!(occurrences, 1, "{}", family.prefix);
        }
    }

    #[test]
    fn settings_precede_the_endpoint_the_table_and_the_default() {
        let complete = |upstream: &str, set: u32, stated: Option<u32>| {
            let mut model = ModelOptions { upstream: upstream.into(), context_tokens: set, ..ModelOptions::default() };
            let is_known = complete_sizes("fast", &mut model, stated);
            (is_known, model.context_tokens, model.max_output_tokens)
        };
        assert_eq!(complete("gpt-4o", 9_000, Some(7_000)), (true, 9_000, 4_096));
        assert_eq!(complete("gpt-4o", 0, Some(7_000)), (true, 7_000, 3_500));
        assert_eq!(complete("gpt-4o", 0, Some(7)), (true, 128_000, 4_096), "an implausible size");
        assert_eq!(complete("gpt-4o", 0, None), (true, 128_000, 4_096));
        assert_eq!(complete("", 0, None), (false, CONTEXT_TOKENS_DEFAULT, 4_096));
    }
}
