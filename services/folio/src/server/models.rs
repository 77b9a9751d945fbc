//! Which model endpoint the process talks to: the settings' table, else that of `OPENAI_API_KEY`, else the built-in
//! offline model.

use anyhow::{Context as _, Result};
use folio_llm::{Options, Secret};
use llm_sim::LlmSim;

/// The name of the offline model in lists and records.
const OFFLINE_MODEL: &str = "offline-rules";

/// A provider table, and the offline model where that is what it points to.
pub(crate) struct Endpoint {
    /// The table.
    pub(crate) options: Options,
    /// The offline model, as long as it is to run.
    pub(crate) offline: Option<LlmSim>,
}

/// Chooses. `model` is the model of `OPENAI_API_KEY`'s endpoint.
pub(crate) async fn choose(settings: &Options, model: Option<&str>) -> Result<Endpoint> {
    if !settings.providers.is_empty() {
        let mut options = settings.clone();
        if let Some(model) = model {
            options.default_model = model.to_owned();
        }
        return Ok(Endpoint { options, offline: None });
    }
    if let Some(options) = from_environment(settings, model) {
        return Ok(Endpoint { options, offline: None });
    }
    if model.is_some() {
        anyhow::bail!(
            "--model needs OPENAI_API_KEY or a provider in the settings: the offline model has no other name"
        );
    }
    let sim =
        LlmSim::builder().offline_model().record(0).start().await.context("the offline model cannot be started")?;
    let table = Options::openai(Secret::default(), Some(&sim.url()), Some(OFFLINE_MODEL));
    Ok(Endpoint { options: with_bounds(table, settings), offline: Some(sim) })
}

fn from_environment(settings: &Options, model: Option<&str>) -> Option<Options> {
    let variable = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
    let key = Secret::new(&variable("OPENAI_API_KEY")?);
    let table = Options::openai(key, variable("OPENAI_BASE_URL").as_deref(), model);
    Some(with_bounds(table, settings))
}

/// The table with the time-outs, retries and breaker of the settings.
fn with_bounds(table: Options, settings: &Options) -> Options {
    Options {
        default_model: table.default_model,
        default_embedding_model: table.default_embedding_model,
        providers: table.providers,
        ..settings.clone()
    }
}
