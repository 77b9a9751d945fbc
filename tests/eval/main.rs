//! The program of the evaluation, which `cargo xtask eval` runs. It prints tables to stderr and one JSON object to
//! stdout.

use std::path::PathBuf;

use anyhow::Result;
use clap::Parser;
use folio_tests::eval::comparison::Comparison;
use folio_tests::eval::documents::SETS_MAX;
use folio_tests::eval::report::Report;
use folio_tests::eval::{Endpoint, Plan, Selection, answers, run};

#[derive(Parser)]
#[command(name = "eval", about = "Extracts documents with known values and scores the results")]
struct Arguments {
    /// The folder with the truth files; samples/eval/README.md specifies their format.
    #[arg(long, default_value = "samples/eval")]
    truth: PathBuf,
    /// Evaluate a set of generated documents instead: the layouts of samples/eval with other contents, 1 to 100. Set 1 is that
    /// of samples/eval.
    #[arg(long, value_name = "N", conflicts_with = "truth", value_parser = clap::value_parser!(u32).range(1..=i64::from(SETS_MAX)))]
    set: Option<u32>,
    /// Evaluate only documents whose name contains this text.
    #[arg(long, default_value = "")]
    filter: String,
    /// The base URL of an OpenAI-compatible endpoint, such as http://127.0.0.1:11434/v1 [default: the offline rules].
    #[arg(long, requires = "model")]
    base_url: Option<String>,
    /// The model at the endpoint.
    #[arg(long, requires = "base_url")]
    model: Option<String>,
    /// The environment variable with the API key of the endpoint. An unset variable sends the key `none`.
    #[arg(long, value_name = "NAME", default_value = "OPENAI_API_KEY")]
    api_key_env: String,
    /// Make one bare model call per document, with the text and the schema, for comparison.
    #[arg(long)]
    bare: bool,
    /// Request a quote and a confidence for each value from the model.
    #[arg(long, conflicts_with = "bare")]
    evidence: bool,
    /// Extract each document twice: without examples, and with up to N extractions of other documents that have the expected
    /// values, 1 to 8 [default: none].
    #[arg(long, value_name = "N", conflicts_with = "bare", value_parser = clap::value_parser!(u32).range(1..=8))]
    examples: Option<u32>,
    /// Extract each document twice: by one model call, and by the extraction agent. A last table compares both.
    #[arg(long, conflicts_with_all = ["bare", "examples"])]
    agent: bool,
    /// Write the documents to this folder and extract nothing, so that another program can extract them.
    #[arg(long, value_name = "FOLDER", conflicts_with_all = ["base_url", "bare", "evidence", "examples", "agent"])]
    write_documents: Option<PathBuf>,
    /// Score data that another program extracted: for the document NAME, the file NAME.json of this folder.
    #[arg(
        long,
        value_name = "FOLDER",
        conflicts_with_all = ["base_url", "bare", "evidence", "examples", "agent", "write_documents"]
    )]
    answers: Option<PathBuf>,
}

#[tokio::main]
async fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let Arguments { truth, set, filter, .. } = &arguments;
    let selection = Selection { truth: truth.clone(), set: *set, filter: filter.clone() };
    if let Some(folder) = &arguments.write_documents {
        return answers::write_documents(&selection, folder);
    }
    let report = match &arguments.answers {
        Some(folder) => answers::score(&selection, folder)?,
        None => extracted(selection, arguments).await?,
    };
    if let Some(baseline) = &report.baseline {
        eprintln!("{baseline}");
    }
    eprintln!("{report}");
    if let Some(comparison) = Comparison::of(&report) {
        eprintln!("{comparison}");
    }
    println!("{}", serde_json::to_string(&report)?);
    Ok(())
}

/// Extracts the documents with the model of an endpoint, or with the offline rules.
async fn extracted(selection: Selection, arguments: Arguments) -> Result<Report> {
    let (endpoint, offline) = match (arguments.base_url, arguments.model) {
        (Some(base_url), Some(model)) => {
            let key = std::env::var(&arguments.api_key_env).ok().filter(|key| !key.is_empty());
            (Endpoint { base_url, model, api_key: key.unwrap_or_else(|| "none".to_owned()) }, None)
        }
        _ => {
            let (endpoint, sim) = Endpoint::offline().await?;
            (endpoint, Some(sim))
        }
    };
    let plan = Plan {
        selection,
        is_bare: arguments.bare,
        has_evidence: arguments.evidence,
        examples: arguments.examples.unwrap_or_default(),
        is_by_agent: arguments.agent,
        endpoint,
    };
    let report = run(&plan).await?;
    drop(offline);
    Ok(report)
}
