//! The choice of the model endpoint: the table of the settings, otherwise `OPENAI_API_KEY`, otherwise an endpoint on this
//! machine that the user chose, otherwise the built-in offline model.

use anyhow::{Context as _, Result};
use folio_llm::Options;
use folio_types::Secret;
use folio_types::models::{CONTEXT_TOKENS_DEFAULT, ModelKind, ModelOptions};
use llm_sim::LlmSim;

use crate::local_endpoint::LocalChoice;

/// Name of the offline model in lists and records.
pub(crate) const OFFLINE_MODEL: &str = "offline-rules";
/// The embedding model of the offline endpoint: texts with common words and letters are similar.
const OFFLINE_EMBEDDING_MODEL: &str = "offline-embedding";
const OFFLINE_EMBEDDING_DIMENSIONS: u32 = 256;
/// Name of the offline model's provider.
const OFFLINE_PROVIDER: &str = "folio";
/// Maximum number of models of unknown context size that the start of a server lists.
const UNKNOWN_SIZES_SHOWN: usize = 10;

/// A provider table, and the offline model if the table refers to it.
pub(crate) struct Endpoint {
    pub(crate) options: Options,
    pub(crate) source: Source,
    /// The offline model. Dropping it stops the model.
    pub(crate) offline: Option<LlmSim>,
}

impl Endpoint {
    pub(crate) fn describe(&self) -> String {
        let urls: Vec<&str> = self.options.providers.values().map(|provider| provider.base_url.as_str()).collect();
        let default = match self.options.default_model.as_str() {
            "" => String::new(),
            model => format!(", default model {model}"),
        };
        match self.source {
            Source::Settings => format!("model endpoints: {} (from the settings){default}", urls.join(", ")),
            Source::Environment => format!("model endpoint: {} (from OPENAI_API_KEY){default}", urls.join(", ")),
            Source::Local(product) => {
                format!("model endpoint: {} ({product} on this machine){default}", urls.join(", "))
            }
            Source::Offline => {
                "no OPENAI_API_KEY and no provider in the settings: the built-in offline model answers. It \
                 reads labelled values by rules and is no LLM."
                    .to_owned()
            }
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Source {
    /// `[models.providers]`.
    Settings,
    /// The variables `OPENAI_API_KEY` and `OPENAI_BASE_URL`.
    Environment,
    /// An endpoint on this machine, with the product that usually has its port.
    Local(&'static str),
    Offline,
}

/// Returns true if neither the settings nor the environment name an endpoint.
pub(crate) fn needs_endpoint(settings: &Options) -> bool {
    settings.providers.is_empty() && from_environment(None).is_none()
}

/// Chooses the table. `model` is the flag, which overrides the default model of the settings. `local` is used only if
/// neither the settings nor the environment name an endpoint.
pub(crate) async fn choose(settings: &Options, model: Option<&str>, local: Option<LocalChoice>) -> Result<Endpoint> {
    let mut options = settings.clone();
    if let Some(model) = model {
        options.default_model = model.to_owned();
    }
    if !options.providers.is_empty() {
        return Ok(Endpoint { options, source: Source::Settings, offline: None });
    }
    let model = Some(options.default_model.as_str()).filter(|name| !name.is_empty());
    if let Some(table) = from_environment(model) {
        return Ok(Endpoint { options: with_defaults(options, table), source: Source::Environment, offline: None });
    }
    if let Some(local) = local {
        return Ok(of_local(options, &local));
    }
    if model.is_some_and(|model| model != OFFLINE_MODEL) {
        anyhow::bail!(
            "a default model (--model, models.default_model) requires OPENAI_API_KEY, a provider in the settings, or an \
             endpoint on this machine that lists the model: the offline model has no other name than {OFFLINE_MODEL}"
        );
    }
    let sim =
        LlmSim::builder().offline_model().record(0).start().await.context("the offline model cannot be started")?;
    let mut table = Options::openai(Secret::default(), Some(&sim.url()), Some(OFFLINE_MODEL));
    table.providers = table.providers.into_values().map(|provider| (OFFLINE_PROVIDER.to_owned(), provider)).collect();
    for provider in table.providers.values_mut() {
        provider.models.insert(OFFLINE_EMBEDDING_MODEL.to_owned(), offline_embedding_model());
        provider.models.values_mut().for_each(|model| model.context_tokens = CONTEXT_TOKENS_DEFAULT);
    }
    Ok(Endpoint { options: with_defaults(options, table), source: Source::Offline, offline: Some(sim) })
}

fn offline_embedding_model() -> ModelOptions {
    let dimensions = OFFLINE_EMBEDDING_DIMENSIONS;
    ModelOptions { kind: ModelKind::Embedding, dimensions, ..ModelOptions::default() }
}

pub(crate) fn of_local(settings: Options, LocalChoice { endpoint, model }: &LocalChoice) -> Endpoint {
    let options = with_defaults(settings, Options::local(endpoint, model));
    Endpoint { options, source: Source::Local(endpoint.product), offline: None }
}

fn from_environment(model: Option<&str>) -> Option<Options> {
    let variable = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
    let key = Secret::new(&variable("OPENAI_API_KEY")?);
    Some(Options::openai(key, variable("OPENAI_BASE_URL").as_deref(), model))
}

/// Returns the settings with the providers of `table`, and with its default models unless the settings name some.
fn with_defaults(settings: Options, table: Options) -> Options {
    let or = |set: String, default: String| if set.is_empty() { default } else { set };
    Options {
        default_model: or(settings.default_model, table.default_model),
        default_embedding_model: or(settings.default_embedding_model, table.default_embedding_model),
        providers: table.providers,
        ..settings
    }
}

/// Logs the models whose context size is neither set, nor stated by their endpoint, nor known to Folio. Returns a line for each
/// of the first [`UNKNOWN_SIZES_SHOWN`] models, and one line with the number of the other models.
pub(crate) fn report_unknown_sizes(options: &Options) -> Vec<String> {
    let mut lines = Vec::new();
    let mut others = 0_u32;
    for (provider, model) in options.models_of_unknown_size() {
        tracing::warn!(
            provider,
            model,
            context_tokens = CONTEXT_TOKENS_DEFAULT,
            "the context size of the model is unknown, so the default is used; set context_tokens of the model"
        );
        if lines.len() < UNKNOWN_SIZES_SHOWN {
            lines.push(format!(
                "model {model}: its context size is unknown, {CONTEXT_TOKENS_DEFAULT} tokens are assumed (setting \
                 models.providers.{provider}.models.{model}.context_tokens)"
            ));
        } else {
            others += 1;
        }
    }
    lines.extend((others > 0).then(|| format!("{others} more models have an unknown context size")));
    lines
}

#[cfg(test)]
mod tests {
    use folio_llm::{ModelOptions, ProviderOptions};

    use super::*;

    #[test]
    fn models_of_unknown_size_are_stated_with_their_settings() {
        let unknown: Vec<String> = (0..UNKNOWN_SIZES_SHOWN + 2).map(|number| format!("m{number:02}")).collect();
        let mut provider = ProviderOptions::default();
        for name in unknown.iter().map(String::as_str).chain(["llama3.1:8b"]) {
            provider.models.insert(name.to_owned(), ModelOptions::default());
        }
        let sized = ModelOptions { context_tokens: 9_000, ..ModelOptions::default() };
        provider.models.insert("sized".to_owned(), sized);
        let options = Options { providers: [("own".to_owned(), provider)].into(), ..Options::default() };
        let lines = report_unknown_sizes(&options);
        assert_eq!(lines.len(), UNKNOWN_SIZES_SHOWN + 1, "{lines:?}");
        let first = format!(
            "model m00: its context size is unknown, {CONTEXT_TOKENS_DEFAULT} tokens are assumed (setting \
             models.providers.own.models.m00.context_tokens)"
        );
        assert_eq!(lines[0], first);
        assert_eq!(lines[UNKNOWN_SIZES_SHOWN], "2 more models have an unknown context size");
    }
}
