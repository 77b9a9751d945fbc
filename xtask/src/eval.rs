//! `cargo xtask eval`: extracts documents with known values, or searches for answers to questions, and scores the results.
//! `cargo xtask eval intents`: classifies labelled questions.

use anyhow::Result;

use crate::run::{cargo, finish};

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// `intents`, then `--base-url URL`, `--model NAME`, `--api-key-env NAME` and `--questions FILE` [default:
    /// samples/eval/intents.jsonl]: classifies labelled questions by the assistant, and prints a confusion matrix. Or arguments of
    /// the program that evaluates extractions: `--truth FOLDER` [default: samples/eval], `--set N`, `--filter TEXT`, `--base-url URL` and
    /// `--model NAME` [default: the offline rules], `--api-key-env NAME` [default: OPENAI_API_KEY], `--bare`, `--evidence`, `--examples N`, `--agent`,
    /// `--write-documents FOLDER`, `--answers FOLDER`. For searches: `retrieval`, then `--set N` or `--folder FOLDER`,
    /// `--embedding-base-url URL` and `--embedding-model NAME` [default: hashes of words], `--query-prefix TEXT`, `--passage-prefix TEXT`, `--index`.
    /// Paths are relative to the root of the workspace.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<String>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    // The program starts `folio serve`.
    finish(cargo().args(["build", "--package", "folio", "--package", "folio-tests", "--bins"]))?;
    let (name, arguments) = match arguments.arguments.split_first() {
        Some((first, rest)) if first == "intents" => ("eval-intents", rest),
        _ => ("eval", arguments.arguments.as_slice()),
    };
    let program = ["run", "--quiet", "--package", "folio-tests", "--bin", name, "--"];
    finish(cargo().args(program).args(arguments))
}
