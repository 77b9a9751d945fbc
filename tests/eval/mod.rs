//! Evaluation of extraction on documents with known values: `cargo xtask eval`.
//!
//! [`truth`] reads the expected values, [`documents`] generates the project's own documents, a `folio serve` or a bare
//! model call extracts the values, [`score`] compares them, and [`report`] sums them up.

pub mod bare;
mod content;
pub mod documents;
mod folio;
mod layouts;
pub mod report;
pub mod truth;
mod words;

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail, ensure};
use llm_sim::LlmSim;
use llm_sim::offline::MODEL;

use folio::Folio;
use report::{Answer, DocumentResult, Report};
use truth::Truth;

pub use folio_tools::score;

/// A model at an OpenAI-compatible endpoint.
#[derive(Debug, Clone)]
pub struct Endpoint {
    /// URL below which `chat/completions` is.
    pub base_url: String,
    pub model: String,
    /// API key, not empty. An endpoint without keys ignores it.
    pub api_key: String,
}

impl Endpoint {
    /// Starts the offline rules as an endpoint. Dropping the second value stops them.
    pub async fn offline() -> Result<(Self, LlmSim)> {
        let sim = LlmSim::builder().offline_model().record(0).start().await?;
        Ok((Self { base_url: sim.url(), model: MODEL.to_owned(), api_key: "none".to_owned() }, sim))
    }
}

/// The parameters of an evaluation.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Folder of the truth files and their documents.
    pub truth: PathBuf,
    /// Only documents whose name contains this text are evaluated.
    pub filter: String,
    /// True for one bare model call per document instead of an extraction by Folio.
    pub is_bare: bool,
    /// True if extractions request quotes and confidences from the model.
    pub has_evidence: bool,
    pub endpoint: Endpoint,
}

/// Evaluates the documents one after another. A failed extraction is part of the report.
///
/// # Errors
/// The truth files are unusable, no document matches the filter, or the server cannot be started.
pub async fn run(plan: &Plan) -> Result<Report> {
    let mut truths = truth::load(&plan.truth)?;
    truths.retain(|truth| truth.document.contains(&plan.filter));
    ensure!(!truths.is_empty(), "no document in {} contains {:?} in its name", plan.truth.display(), plan.filter);
    let mut folio = Folio::start(&plan.endpoint, plan.has_evidence).await?;
    let mut documents = Vec::new();
    for truth in &truths {
        let answer = extract(plan, truth, &mut folio).await.map_err(|error| format!("{error:#}"));
        documents.push(DocumentResult::new(truth, answer));
    }
    let mode = if plan.is_bare { "bare" } else { "folio" };
    Ok(Report::new(mode, &plan.endpoint.base_url, &plan.endpoint.model, documents))
}

/// Uploads a document and extracts its values. A bare call receives the text that Folio read.
async fn extract(plan: &Plan, truth: &Truth, folio: &mut Folio) -> Result<Answer> {
    let bytes = bytes_of(&plan.truth, truth)?;
    let id = folio.upload(&truth.document, &bytes).await?;
    if plan.is_bare {
        return bare::extract(&plan.endpoint, &folio.text(&id).await?, &truth.schema).await;
    }
    folio.extract(&id, &truth.schema).await
}

fn bytes_of(folder: &Path, truth: &Truth) -> Result<Vec<u8>> {
    if truth.generated {
        let Some(bytes) = documents::bytes(&truth.document)? else {
            bail!("the project generates no document {:?}: remove `generated` from its truth file", truth.document);
        };
        return Ok(bytes);
    }
    let path = folder.join(&truth.document);
    std::fs::read(&path).with_context(|| format!("{} cannot be read", path.display()))
}
