//! Evaluation of extraction on documents with known values: `cargo xtask eval`. [`retrieval`] evaluates searches.
//!
//! [`truth`] reads the expected values, [`documents`] generates the project's own documents, a `folio serve` or a bare
//! model call extracts the values, or [`answers`] reads those of another program, [`score`] compares them, and [`report`] sums
//! them up. [`intents`] classifies labelled questions by the assistant.

pub mod answers;
pub mod bare;
pub mod comparison;
mod content;
pub mod documents;
mod folio;
pub mod intents;
mod layouts;
pub mod report;
pub mod retrieval;
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

/// The documents of an evaluation.
#[derive(Debug, Clone)]
pub struct Selection {
    /// Folder of the truth files and their documents.
    pub truth: PathBuf,
    /// Number of a set of generated documents, which replaces the folder. None: the folder.
    pub set: Option<u32>,
    /// Only documents whose name contains this text are evaluated.
    pub filter: String,
}

impl Selection {
    /// Returns the expected values of the documents.
    ///
    /// # Errors
    /// The truth files are unusable, or no document matches the filter.
    fn truths(&self) -> Result<Vec<Truth>> {
        let mut truths = match self.set {
            Some(set) => documents::set(set).into_iter().map(|document| document.truth).collect(),
            None => truth::load(&self.truth)?,
        };
        truths.retain(|truth| truth.document.contains(&self.filter));
        let (folder, filter) = (self.truth.display(), &self.filter);
        ensure!(!truths.is_empty(), "no document in {folder} contains {filter:?} in its name");
        Ok(truths)
    }
}

/// The parameters of an evaluation.
#[derive(Debug, Clone)]
pub struct Plan {
    pub selection: Selection,
    /// True for one bare model call per document instead of an extraction by Folio.
    pub is_bare: bool,
    /// True if extractions request quotes and confidences from the model.
    pub has_evidence: bool,
    /// Maximum number of examples of an extraction: extractions of other documents with the expected values. 0: none.
    pub examples: u32,
    /// True if the agent extracts each document, too.
    pub is_by_agent: bool,
    pub endpoint: Endpoint,
}

/// A document of the server with its first extraction.
struct Extracted {
    document: String,
    /// Id of the extraction. Empty: a bare call.
    extraction: String,
    answer: Answer,
}

/// Evaluates the documents one after another. A failed extraction is part of the report. With examples, the evaluation first
/// extracts all documents without examples, and corrects and verifies the extractions. Then it extracts each document again, with
/// examples. With the agent, it extracts each document again by the agent.
///
/// # Errors
/// The truth files are unusable, no document matches the filter, or the server cannot be started.
pub async fn run(plan: &Plan) -> Result<Report> {
    let truths = plan.selection.truths()?;
    let mut folio = Folio::start(&plan.endpoint, plan.has_evidence, plan.examples).await?;
    let mut first: Vec<Result<Extracted, String>> = Vec::new();
    for truth in &truths {
        first.push(extract(plan, truth, &mut folio).await.map_err(|error| format!("{error:#}")));
    }
    let result = |(truth, first): (&Truth, &Result<Extracted, String>)| {
        let answer = first.as_ref().map(|extracted| extracted.answer.clone());
        DocumentResult::new(truth, answer.map_err(Clone::clone))
    };
    let report = |mode: &str, documents: Vec<DocumentResult>| {
        Report::new(mode, &plan.endpoint.base_url, &plan.endpoint.model, documents)
    };
    let mode = if plan.is_bare { "bare" } else { "folio" };
    let baseline = report(mode, truths.iter().zip(&first).map(result).collect());
    let mode = match (plan.examples, plan.is_by_agent) {
        (0, false) => return Ok(baseline),
        (_, true) => "agent",
        (_, false) => "examples",
    };
    for (truth, extracted) in truths.iter().zip(&first).filter(|_| !plan.is_by_agent) {
        if let Ok(Extracted { extraction, answer, .. }) = extracted {
            folio.verify(extraction, answer, truth).await?;
        }
    }
    let mut documents = Vec::new();
    for (truth, extracted) in truths.iter().zip(&first) {
        let answer = match extracted {
            Ok(extracted) => {
                let again = match plan.is_by_agent {
                    true => folio.extract_by_agent(&extracted.document, &truth.schema).await,
                    false => folio.extract(&extracted.document, &truth.schema).await.map(|(_, answer)| answer),
                };
                again.map_err(|error| format!("{error:#}"))
            }
            Err(error) => Err(error.clone()),
        };
        documents.push(DocumentResult::new(truth, answer));
    }
    Ok(Report { baseline: Some(Box::new(baseline)), ..report(mode, documents) })
}

/// Uploads a document and extracts its values. A bare call receives the text that Folio read.
async fn extract(plan: &Plan, truth: &Truth, folio: &mut Folio) -> Result<Extracted> {
    let bytes = bytes_of(&plan.selection.truth, truth)?;
    let document = folio.upload(&truth.document, &bytes).await?;
    let (extraction, answer) = if plan.is_bare {
        let answer = bare::extract(&plan.endpoint, &folio.text(&document).await?, &truth.schema).await?;
        (String::new(), answer)
    } else {
        folio.extract(&document, &truth.schema).await?
    };
    Ok(Extracted { document, extraction, answer })
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
