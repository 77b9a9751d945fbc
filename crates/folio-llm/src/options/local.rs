//! The provider table of an endpoint on this machine.

use super::{ModelKind, ModelOptions, Options, ProviderOptions, complete_sizes, known_input_tokens};
use crate::client::DetectedEndpoint;

folio_types::settings! {
    /// The search for endpoints on this machine, if there is neither a provider nor `OPENAI_API_KEY`.
    pub struct LocalOptions {
        /// Permits the search at the usual ports of 127.0.0.1.
        pub detect: bool = true,
    }
}

impl DetectedEndpoint {
    /// Returns the names of the chat models.
    pub fn chat_models(&self) -> impl Iterator<Item = &str> {
        self.models.iter().map(|model| model.name.as_str()).filter(|name| kind_of(name) == ModelKind::Chat)
    }
}

impl Options {
    /// Creates one provider, named after the product, with the listed models and the default model `model`. The models have no
    /// prices, and organizations cannot use the provider with their own keys.
    pub fn local(endpoint: &DetectedEndpoint, model: &str) -> Self {
        let mut provider = ProviderOptions {
            base_url: endpoint.base_url.clone(),
            own_keys: Some(false),
            ..ProviderOptions::default()
        };
        for listed in &endpoint.models {
            let mut options = ModelOptions { kind: kind_of(&listed.name), ..ModelOptions::default() };
            // The context that an endpoint states for all models is that of chat models.
            let context = endpoint.context_tokens.filter(|_| options.kind == ModelKind::Chat);
            let stated = listed.context_tokens.or(context);
            if stated.is_some() {
                complete_sizes(&listed.name, &mut options, stated);
            }
            provider.models.insert(listed.name.clone(), options);
        }
        let name = endpoint.product.to_lowercase().replace(' ', "-");
        Self { default_model: model.to_owned(), providers: [(name, provider)].into(), ..Self::default() }
    }
}

/// Returns the kind of a model by the usual names, such as `nomic-embed-text` and `bge-reranker-v2-m3`.
fn kind_of(name: &str) -> ModelKind {
    let name = name.to_ascii_lowercase();
    if name.contains("rerank") {
        ModelKind::Rerank
    } else if name.contains("embed") || known_input_tokens(&name).is_some() {
        ModelKind::Embedding
    } else {
        ModelKind::Chat
    }
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
            listed("bge-reranker-base", None),
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
        let (fast, llama, tiny) = ((32_768, 4_096), (131_072, 4_096), (2_000, 1_000));
        assert_eq!(sizes.collect::<Vec<_>>(), [(512, 4_096), fast, llama, (2_048, 4_096), tiny]);
        let kind = |name: &str| provider.models[name].kind;
        assert_eq!([kind("nomic-embed-text"), kind("bge-reranker-base")], [ModelKind::Embedding, ModelKind::Rerank]);
        assert!(!provider.takes_own_keys());
        assert_eq!(options.default_model, "tiny");
        let ollama = DetectedEndpoint { product: "Ollama", context_tokens: Some(4_096), ..endpoint };
        let options = Options::local(&ollama, "tiny");
        assert_eq!(options.models_of_unknown_size().count(), 0);
        let sizes = options.providers["ollama"].models.values().map(|model| model.context_tokens);
        assert_eq!(
            sizes.collect::<Vec<_>>(),
            [0, 4_096, 4_096, 0, 2_000],
            "the size of a model's family does not apply"
        );
    }
}
