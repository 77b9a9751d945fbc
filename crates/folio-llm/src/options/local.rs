//! The provider table of an endpoint on this machine.

use super::{EmbeddingOptions, ModelOptions, Options, ProviderOptions, complete_sizes};
use crate::client::DetectedEndpoint;

folio_types::settings! {
    /// The search for endpoints on this machine, if there is neither a provider nor `OPENAI_API_KEY`.
    pub struct LocalOptions {
        /// Permits the search at the usual ports of 127.0.0.1.
        pub detect: bool = true,
    }
}

impl DetectedEndpoint {
    /// Returns the names of the models that are not embedding models.
    pub fn chat_models(&self) -> impl Iterator<Item = &str> {
        self.models.iter().map(|model| model.name.as_str()).filter(|name| !is_embedding_model(name))
    }
}

impl Options {
    /// Creates one provider, named after the product, with the listed models and the default model `model`. Without
    /// prices; organizations cannot use the provider with their own keys.
    pub fn local(endpoint: &DetectedEndpoint, model: &str) -> Self {
        let mut provider = ProviderOptions {
            base_url: endpoint.base_url.clone(),
            own_keys: Some(false),
            ..ProviderOptions::default()
        };
        for listed in &endpoint.models {
            if is_embedding_model(&listed.name) {
                provider.embedding_models.insert(listed.name.clone(), EmbeddingOptions::default());
                continue;
            }
            let mut options = ModelOptions::default();
            let stated = listed.context_tokens.or(endpoint.context_tokens);
            if stated.is_some() {
                complete_sizes(&listed.name, &mut options, stated);
            }
            provider.models.insert(listed.name.clone(), options);
        }
        let name = endpoint.product.to_lowercase().replace(' ', "-");
        Self { default_model: model.to_owned(), providers: [(name, provider)].into(), ..Self::default() }
    }
}

/// Returns true for the usual names of embedding models, such as `nomic-embed-text`.
fn is_embedding_model(name: &str) -> bool {
    name.to_ascii_lowercase().contains("embed")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::ListedModel;

    #[test]
    fn the_table_of_a_local_endpoint_has_its_models_and_their_sizes() {
        let listed = |name: &str, context_tokens| ListedModel { name: name.to_owned(), context_tokens };
        let models = vec![
            listed("fast", None),
            listed("llama3.1:8b", None),
            listed("nomic-embed-text", None),
            listed("tiny", Some(2_000)),
        ];
        let base_url = "http://127.0.0.1:1234/v1".to_owned();
        let endpoint = DetectedEndpoint { product: "LM Studio", base_url, models, context_tokens: None };
        assert_eq!(endpoint.chat_models().collect::<Vec<_>>(), ["fast", "llama3.1:8b", "tiny"]);
        let options = Options::local(&endpoint, "tiny");
        let unknown: Vec<_> = options.models_of_unknown_size().collect();
        assert_eq!(unknown, [("lm-studio", "fast")]);
        let options = options.resolve(|_| None).unwrap();
        let provider = &options.providers["lm-studio"];
        let sizes = provider.models.values().map(|model| (model.context_tokens, model.max_output_tokens));
        assert_eq!(sizes.collect::<Vec<_>>(), [(32_768, 4_096), (131_072, 4_096), (2_000, 1_000)]);
        assert!(provider.embedding_models.contains_key("nomic-embed-text") && !provider.takes_own_keys());
        assert_eq!(options.default_model, "tiny");
        let ollama = DetectedEndpoint { product: "Ollama", context_tokens: Some(4_096), ..endpoint };
        let options = Options::local(&ollama, "tiny");
        assert_eq!(options.models_of_unknown_size().count(), 0);
        let sizes = options.providers["ollama"].models.values().map(|model| model.context_tokens);
        assert_eq!(sizes.collect::<Vec<_>>(), [4_096, 4_096, 2_000], "the size of a model's family does not apply");
    }
}
