//! The program of the evaluation, which `cargo xtask eval` runs. It prints tables to stderr and one JSON object to
//! stdout.

use std::path::PathBuf;

use anyhow::Result;
use clap::{Parser, Subcommand};
use folio_tests::eval::comparison::Comparison;
use folio_tests::eval::documents::SETS_MAX;
use folio_tests::eval::report::Report;
use folio_tests::eval::retrieval::embeddings::EmbeddingEndpoint;
use folio_tests::eval::retrieval::{self, folder, generated};
use folio_tests::eval::{Endpoint, Plan, Selection, answers, run};
use llm_sim::LlmSim;

#[derive(Parser)]
#[command(
    name = "eval",
    about = "Extracts documents with known values and scores the results",
    args_conflicts_with_subcommands = true
)]
struct Arguments {
    #[command(subcommand)]
    other: Option<Other>,
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

#[derive(Subcommand)]
enum Other {
    /// Searches documents for the answers to questions by words, by meaning and by both, and scores the rankings.
    Retrieval(RetrievalArguments),
}

#[derive(clap::Args)]
struct RetrievalArguments {
    /// The set of generated documents and questions, 1 to 100.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=i64::from(generated::SETS_MAX)))]
    set: u32,
    /// Evaluate a public set instead: a folder with corpus.jsonl, queries.jsonl, and qrels.tsv or qrels/test.tsv.
    #[arg(long, conflicts_with = "set")]
    folder: Option<PathBuf>,
    /// The base URL of an OpenAI-compatible endpoint for embeddings, such as http://127.0.0.1:8001/v1 [default: vectors of hashed
    /// words, which have no meaning].
    #[arg(long, requires = "embedding_model", value_name = "URL")]
    embedding_base_url: Option<String>,
    /// The embedding model at the endpoint.
    #[arg(long, requires = "embedding_base_url", value_name = "NAME")]
    embedding_model: Option<String>,
    /// Text before each question, such as `query: ` [default: none].
    #[arg(long, requires = "embedding_model", value_name = "TEXT", default_value = "")]
    query_prefix: String,
    /// Text before each passage, such as `passage: ` [default: none].
    #[arg(long, requires = "embedding_model", value_name = "TEXT", default_value = "")]
    passage_prefix: String,
    /// Search the index without a server, each mode by itself, to measure the latency of each.
    #[arg(long)]
    index: bool,
    /// The name of the model for questions, if it differs from that for passages [default: the embedding model].
    #[arg(long, requires_all = ["embedding_model", "index"], value_name = "NAME")]
    query_model: Option<String>,
    /// The environment variable with the API key of the endpoint. An unset variable sends the key `none`.
    #[arg(long, value_name = "NAME", default_value = "OPENAI_API_KEY")]
    api_key_env: String,
}

/// Returns the API key in an environment variable, or `none`.
fn api_key(variable: &str) -> String {
    std::env::var(variable).ok().filter(|key| !key.is_empty()).unwrap_or_else(|| "none".to_owned())
}

/// Evaluates retrieval with the vectors of an endpoint, or with those of llm-sim.
async fn evaluate_retrieval(arguments: RetrievalArguments) -> Result<()> {
    let set = match &arguments.folder {
        Some(path) => folder::load(path)?,
        None => generated::set(arguments.set),
    };
    let (endpoint, sim) = match (arguments.embedding_base_url, arguments.embedding_model) {
        (Some(base_url), Some(model)) => {
            let query_model = arguments.query_model.unwrap_or_else(|| model.clone());
            let RetrievalArguments { query_prefix, passage_prefix, .. } = arguments;
            let api_key = api_key(&arguments.api_key_env);
            (EmbeddingEndpoint { base_url, model, query_model, passage_prefix, query_prefix, api_key }, None)
        }
        _ => {
            let sim = LlmSim::builder().record(0).start().await?;
            (EmbeddingEndpoint::of_sim(&sim), Some(sim))
        }
    };
    let report = retrieval::run(&set, &endpoint, !arguments.index).await?;
    drop(sim);
    eprintln!("{report}");
    println!("{}", serde_json::to_string(&report)?);
    Ok(())
}

#[tokio::main]
async fn main() -> Result<()> {
    let mut arguments = Arguments::parse();
    if let Some(Other::Retrieval(arguments)) = arguments.other.take() {
        return evaluate_retrieval(arguments).await;
    }
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
        (Some(base_url), Some(model)) => (Endpoint { base_url, model, api_key: api_key(&arguments.api_key_env) }, None),
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
