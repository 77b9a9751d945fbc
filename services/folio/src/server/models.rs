//! The choice of the model endpoint: the table of the settings, otherwise `OPENAI_API_KEY`, otherwise the built-in
//! offline model.

use anyhow::{Context as _, Result};
use folio_llm::Options;
use folio_types::Secret;
use llm_sim::LlmSim;

/// Name of the offline model in lists and records.
const OFFLINE_MODEL: &str = "offline-rules";
/// Name of the offline model's provider.
const OFFLINE_PROVIDER: &str = "folio";

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
    Offline,
}

/// Chooses the table. `model` is the flag, which overrides the default model of the settings.
pub(crate) async fn choose(settings: &Options, model: Option<&str>) -> Result<Endpoint> {
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
    if model.is_some_and(|model| model != OFFLINE_MODEL) {
        anyhow::bail!(
            "a default model (--model, models.default_model) requires OPENAI_API_KEY or a provider in the settings: \
             the offline model has no other name than {OFFLINE_MODEL}"
        );
    }
    let sim =
        LlmSim::builder().offline_model().record(0).start().await.context("the offline model cannot be started")?;
    let mut table = Options::openai(Secret::default(), Some(&sim.url()), Some(OFFLINE_MODEL));
    table.providers = table.providers.into_values().map(|provider| (OFFLINE_PROVIDER.to_owned(), provider)).collect();
    Ok(Endpoint { options: with_defaults(options, table), source: Source::Offline, offline: Some(sim) })
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
