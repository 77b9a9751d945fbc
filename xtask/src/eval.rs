//! `cargo xtask eval`: extracts documents with known values, or searches for answers to questions, and scores the results.
//! `cargo xtask eval intents`: classifies labelled questions. `cargo xtask eval model`: runs the tests with the model of an endpoint.

use anyhow::Result;
use clap::Parser as _;

use crate::run::{cargo, finish};

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// `intents`, then `--base-url URL` and `--model NAME` [default: the offline rules], `--api-key-env NAME` and `--questions FILE`
    /// [default: samples/eval/intents.jsonl]: classifies labelled questions by the assistant, and prints a confusion matrix. Or arguments of
    /// the program that evaluates extractions: `--truth FOLDER` [default: samples/eval], `--set N`, `--filter TEXT`, `--base-url URL` and
    /// `--model NAME` [default: the offline rules], `--api-key-env NAME` [default: OPENAI_API_KEY], `--bare`, `--evidence`, `--examples N`, `--agent`,
    /// `--write-documents FOLDER`, `--answers FOLDER`. For searches: `retrieval`, then `--set N` or `--folder FOLDER`,
    /// `--embedding-base-url URL` and `--embedding-model NAME` [default: hashes of words], `--query-prefix TEXT`, `--passage-prefix TEXT`, `--index`.
    /// Or `model`, then `--base-url URL`, `--model NAME`, `--api-key-env NAME` and `--exact`: runs the tests that a model can pass, on real
    /// files, with the conversations of the assistant.
    /// Paths are relative to the root of the workspace.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<String>,
}

/// The endpoint of the tests with a model.
#[derive(clap::Parser)]
#[command(name = "cargo xtask eval model")]
struct ModelArguments {
    /// The base URL of an OpenAI-compatible endpoint, such as http://127.0.0.1:11434/v1.
    #[arg(long)]
    base_url: String,
    /// The model at the endpoint.
    #[arg(long)]
    model: String,
    /// The environment variable with the API key of the endpoint.
    #[arg(long, value_name = "NAME", default_value = "OPENAI_API_KEY")]
    api_key_env: String,
    /// Fail if an answer of the assistant has other values than its specification.
    #[arg(long)]
    exact: bool,
}

fn run_tests(arguments: &[String]) -> Result<()> {
    let name = "eval model".to_owned();
    let arguments = ModelArguments::parse_from(std::iter::once(&name).chain(arguments));
    let ModelArguments { base_url, model, api_key_env, exact } = arguments;
    let mut tests = cargo();
    tests.args(["test", "--package", "folio-tests", "--test", "wire", "model_endpoint", "--", "--nocapture"]);
    tests.env("FOLIO_TEST_MODEL_URL", base_url).env("FOLIO_TEST_MODEL", model);
    if let Some(key) = std::env::var_os(api_key_env) {
        tests.env("FOLIO_TEST_MODEL_KEY", key);
    }
    if exact {
        tests.env("FOLIO_TEST_MODEL_EXACT", "true");
    }
    finish(&mut tests)
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    if let Some((first, rest)) = arguments.arguments.split_first()
        && first == "model"
    {
        return run_tests(rest);
    }
    // The program starts `folio serve`.
    finish(cargo().args(["build", "--package", "folio", "--package", "folio-tests", "--bins"]))?;
    let (name, arguments) = match arguments.arguments.split_first() {
        Some((first, rest)) if first == "intents" => ("eval-intents", rest),
        _ => ("eval", arguments.arguments.as_slice()),
    };
    let program = ["run", "--quiet", "--package", "folio-tests", "--bin", name, "--"];
    finish(cargo().args(program).args(arguments))
}
