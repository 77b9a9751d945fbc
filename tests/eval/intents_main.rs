//! The program of `cargo xtask eval intents`. It prints a confusion matrix to stderr and one JSON object to stdout.

use std::path::PathBuf;

use anyhow::Result;
use clap::Parser;
use folio_tests::eval::Endpoint;
use folio_tests::eval::intents::{load, run};

#[derive(Parser)]
#[command(
    name = "eval-intents",
    about = "Classifies labelled questions by the assistant and prints a confusion matrix"
)]
struct Arguments {
    /// The labelled questions: one JSON object with the members `question` and `intent` in each line.
    #[arg(long, default_value = "samples/eval/intents.jsonl")]
    questions: PathBuf,
    /// The base URL of an OpenAI-compatible endpoint, such as http://127.0.0.1:11434/v1 [default: the offline rules].
    #[arg(long, requires = "model")]
    base_url: Option<String>,
    /// The model at the endpoint.
    #[arg(long, requires = "base_url")]
    model: Option<String>,
    /// The environment variable with the API key of the endpoint. An unset variable sends the key `none`.
    #[arg(long, value_name = "NAME", default_value = "OPENAI_API_KEY")]
    api_key_env: String,
}

#[tokio::main]
async fn main() -> Result<()> {
    let Arguments { questions, base_url, model, api_key_env } = Arguments::parse();
    let api_key = std::env::var(&api_key_env).ok().filter(|key| !key.is_empty()).unwrap_or_else(|| "none".to_owned());
    let (endpoint, offline) = match (base_url, model) {
        (Some(base_url), Some(model)) => (Endpoint { base_url, model, api_key }, None),
        _ => {
            let (endpoint, sim) = Endpoint::offline().await?;
            (endpoint, Some(sim))
        }
    };
    let matrix = run(&endpoint, &load(&questions)?).await?;
    drop(offline);
    eprintln!("{matrix}");
    println!("{}", serde_json::to_string(&matrix)?);
    Ok(())
}
