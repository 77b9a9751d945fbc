//! The provider table from `OPENAI_API_KEY`, `OPENAI_BASE_URL` and `--model`.

use folio_types::Secret;

use super::{ModelKind, ModelOptions, Options, OutputLimitField, ProviderOptions, known_context_tokens};

pub const OPENAI_BASE_URL: &str = "https://api.openai.com/v1";
const DEFAULT_MODEL: &str = "gpt-4.1-mini";
const EMBEDDING_MODEL: &str = "text-embedding-3-small";
/// Price of [`EMBEDDING_MODEL`], in micro-dollars per million tokens.
const EMBEDDING_PRICE: u64 = 20_000;
/// Length of the vectors of [`EMBEDDING_MODEL`].
const EMBEDDING_DIMENSIONS: u32 = 1_536;

/// Known models (list prices of mid 2025): name, maximum output tokens, and prices of input, cached input and output in
/// micro-dollars per million tokens. The settings in `folio.toml` have precedence.
const OPENAI_MODELS: &[(&str, u32, [u64; 3])] = &[
    ("gpt-4.1", 32_768, [2_000_000, 500_000, 8_000_000]),
    ("gpt-4.1-mini", 32_768, [400_000, 100_000, 1_600_000]),
    ("gpt-4.1-nano", 32_768, [100_000, 25_000, 400_000]),
    ("gpt-4o", 16_384, [2_500_000, 1_250_000, 10_000_000]),
    ("gpt-4o-mini", 16_384, [150_000, 75_000, 600_000]),
    ("gpt-5", 128_000, [1_250_000, 125_000, 10_000_000]),
    ("gpt-5-mini", 128_000, [250_000, 25_000, 2_000_000]),
];

impl Options {
    /// Creates the provider `openai` with this key and the default model `model`. Without a base URL, the provider is
    /// OpenAI's endpoint with its known models. The models of another endpoint are unknown: the only model is then the
    /// default model, a chat model without a stated size and prices, and organizations cannot use the provider with
    /// their own keys. Without a model, the default model is `gpt-4.1-mini`.
    pub fn openai(api_key: Secret, base_url: Option<&str>, model: Option<&str>) -> Self {
        let base_url = base_url.map(str::trim).filter(|url| !url.is_empty()).unwrap_or(OPENAI_BASE_URL);
        let model = model.map(str::trim).filter(|name| !name.is_empty()).unwrap_or(DEFAULT_MODEL);
        let is_openai = base_url.trim_end_matches('/') == OPENAI_BASE_URL;
        let mut provider = ProviderOptions {
            base_url: base_url.to_owned(),
            api_key,
            own_keys: (!is_openai).then_some(false),
            output_limit_field: if is_openai {
                OutputLimitField::MaxCompletionTokens
            } else {
                OutputLimitField::MaxTokens
            },
            ..ProviderOptions::default()
        };
        if is_openai {
            provider.models = OPENAI_MODELS.iter().map(|known| (known.0.to_owned(), known_model(known))).collect();
            provider.models.insert(EMBEDDING_MODEL.to_owned(), embedding_model());
        }
        provider.models.entry(model.to_owned()).or_default();
        Self { default_model: model.to_owned(), providers: [("openai".to_owned(), provider)].into(), ..Self::default() }
    }
}

fn known_model(known: &(&str, u32, [u64; 3])) -> ModelOptions {
    let &(name, max_output_tokens, [input, cached, output]) = known;
    ModelOptions {
        context_tokens: known_context_tokens(name).unwrap_or_default(),
        max_output_tokens,
        input_price: Some(input),
        cached_input_price: Some(cached),
        output_price: Some(output),
        ..ModelOptions::default()
    }
}

fn embedding_model() -> ModelOptions {
    ModelOptions {
        kind: ModelKind::Embedding,
        dimensions: EMBEDDING_DIMENSIONS,
        input_price: Some(EMBEDDING_PRICE),
        ..ModelOptions::default()
    }
}
