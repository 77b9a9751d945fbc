//! The choice of a model endpoint on this machine, if neither the settings nor the environment name an endpoint.

use std::io::{BufRead as _, IsTerminal as _, Read as _, Write as _};
use std::sync::Arc;

use anyhow::Result;
use folio_llm::{CONTEXT_VARIABLE, DetectedEndpoint, LOCAL_ENDPOINTS, Options, detect_local};
use folio_types::System;

use crate::server::models;
use crate::terminal::printable;

/// Maximum length of an answer, in bytes.
const ANSWER_BYTES: u64 = 1_024;
/// Maximum number of models of an endpoint that are printed.
const MODELS_SHOWN: usize = 20;

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct LocalChoice {
    pub(crate) endpoint: DetectedEndpoint,
    pub(crate) model: String,
}

/// Searches for endpoints and prints them to stderr. Returns the endpoint that lists the named model (the flag, or the
/// default model of the settings). Without a name, asks on a terminal. None: the settings or the environment name an
/// endpoint, the search is disabled, or no endpoint was chosen.
pub(crate) async fn choose(settings: &Options, flag: Option<&str>) -> Result<Option<LocalChoice>> {
    let model = flag.unwrap_or(&settings.default_model);
    if !settings.local.detect || !models::needs_endpoint(settings) || model == models::OFFLINE_MODEL {
        return Ok(None);
    }
    let found = detect_local(&LOCAL_ENDPOINTS, Arc::new(System)).await;
    for line in report(&found) {
        print(&format!("{line}\n"));
    }
    if !model.is_empty() {
        return Ok(named(&found, model));
    }
    let Some(proposal) = proposal(&found) else { return Ok(None) };
    if !std::io::stdin().is_terminal() || !std::io::stderr().is_terminal() {
        print(&format!("To use it, pass --model {}. The offline model is used.\n", proposal.model));
        return Ok(None);
    }
    print(&format!("Use {} for documents and chats? [y]es, [n]o, or the name of another model: ", proposal.model));
    let answer = tokio::task::spawn_blocking(read_answer).await??;
    let chosen = chosen(&answer, &found, proposal);
    if chosen.is_none() {
        print("No local model is used. To use one, pass --model NAME; --no-detect disables the search.\n");
    }
    Ok(chosen)
}

/// Reads one line of standard input. The end of the input is an empty answer.
fn read_answer() -> std::io::Result<String> {
    let mut answer = String::new();
    std::io::stdin().lock().take(ANSWER_BYTES).read_line(&mut answer)?;
    Ok(answer)
}

/// Writes to stderr, which may be closed.
fn print(text: &str) {
    let mut err = std::io::stderr();
    let _ = err.write_all(printable(text).as_bytes()).and_then(|()| err.flush());
}

/// Returns one line for each endpoint: product, address, models.
fn report(found: &[DetectedEndpoint]) -> Vec<String> {
    let line = |endpoint: &DetectedEndpoint| {
        let models: Vec<&str> = endpoint.chat_models().take(MODELS_SHOWN).collect();
        let more = if endpoint.chat_models().count() > MODELS_SHOWN { ", …" } else { "" };
        let models = if models.is_empty() { "none".to_owned() } else { models.join(", ") };
        let context = endpoint.context_tokens.map(context).unwrap_or_default();
        format!("found {} at {}; models: {models}{more}{context}", endpoint.product, endpoint.base_url)
    };
    found.iter().map(line).collect()
}

/// Returns the last part of the line about an endpoint: the context size of models for which the list of the endpoint states no
/// size.
fn context(tokens: u32) -> String {
    format!("; context: {tokens} tokens (for more, set {CONTEXT_VARIABLE} for its server and for folio)")
}

/// Returns the first model of the first endpoint that has one.
fn proposal(found: &[DetectedEndpoint]) -> Option<LocalChoice> {
    let choice = |endpoint: &DetectedEndpoint| {
        let model = endpoint.chat_models().next()?.to_owned();
        Some(LocalChoice { endpoint: endpoint.clone(), model })
    };
    found.iter().find_map(choice)
}

/// Returns the first endpoint that lists the model.
fn named(found: &[DetectedEndpoint], model: &str) -> Option<LocalChoice> {
    let endpoint = found.iter().find(|endpoint| endpoint.chat_models().any(|listed| listed == model))?;
    Some(LocalChoice { endpoint: endpoint.clone(), model: model.to_owned() })
}

/// Returns the choice of an answer: yes, or the name of a model. None: any other answer.
fn chosen(answer: &str, found: &[DetectedEndpoint], proposal: LocalChoice) -> Option<LocalChoice> {
    match answer.trim() {
        "y" | "Y" | "yes" => Some(proposal),
        name => named(found, name),
    }
}

#[cfg(test)]
mod tests {
    use folio_llm::{ListedModel, LocalEndpoint};
    use llm_sim::LlmSim;

    use super::*;

    fn endpoint(product: &'static str, models: &[&str]) -> DetectedEndpoint {
        let listed = |name: &&str| ListedModel { name: (*name).to_owned(), context_tokens: None };
        let base_url = format!("http://127.0.0.1/{product}");
        DetectedEndpoint { product, base_url, models: models.iter().map(listed).collect(), context_tokens: None }
    }

    fn found() -> Vec<DetectedEndpoint> {
        vec![
            endpoint("Ollama", &[]),
            endpoint("LM Studio", &["nomic-embed-text"]),
            endpoint("llama.cpp", &["large", "small"]),
            endpoint("vLLM", &["other", "small"]),
        ]
    }

    #[test]
    fn an_endpoint_is_used_after_a_yes_or_the_name_of_its_model() {
        let found = found();
        let proposal = proposal(&found).unwrap();
        assert_eq!((proposal.endpoint.product, proposal.model.as_str()), ("llama.cpp", "large"));
        for (answer, expected) in [
            ("y\n", Some(("llama.cpp", "large"))),
            ("yes", Some(("llama.cpp", "large"))),
            ("small\r\n", Some(("llama.cpp", "small"))),
            ("other\n", Some(("vLLM", "other"))),
            ("n\n", None),
            ("", None),
            ("\n", None),
            ("nomic-embed-text\n", None),
            ("unknown\n", None),
        ] {
            let chosen = chosen(answer, &found, proposal.clone());
            let chosen = chosen.as_ref().map(|choice| (choice.endpoint.product, choice.model.as_str()));
            assert_eq!(chosen, expected, "{answer:?}");
        }
        assert_eq!(super::proposal(&found[..2]), None);
    }

    #[test]
    fn each_endpoint_is_reported_with_product_address_and_models() {
        let many: Vec<String> = (0..=MODELS_SHOWN).map(|n| format!("m{n}")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        let lines = report(&[endpoint("Ollama", &[]), endpoint("vLLM", &["a", "b"]), endpoint("many", &many)]);
        assert_eq!(lines[0], "found Ollama at http://127.0.0.1/Ollama; models: none");
        assert_eq!(lines[1], "found vLLM at http://127.0.0.1/vLLM; models: a, b");
        assert!(lines[2].ends_with("m19, …"), "{}", lines[2]);
        let ollama = DetectedEndpoint { context_tokens: Some(4_096), ..endpoint("Ollama", &["a"]) };
        let line = report(&[ollama]).remove(0);
        assert!(line.contains("; models: a; context: 4096 tokens (for more, set OLLAMA_CONTEXT_LENGTH "), "{line}");
    }

    #[tokio::test]
    async fn a_detected_endpoint_becomes_the_provider_of_its_model() {
        let sim = LlmSim::builder().context_tokens(9_000).start().await.unwrap();
        let ports = [LocalEndpoint { product: "vLLM", port: sim.address().port(), context_tokens: None }];
        let found = detect_local(&ports, Arc::new(System)).await;
        let endpoint = models::of_local(Options::default(), &named(&found, "scripted").unwrap());
        assert!(endpoint.describe().contains("vLLM on this machine"), "{}", endpoint.describe());
        let provider = &endpoint.options.providers["vllm"];
        assert_eq!(
            (provider.base_url.as_str(), endpoint.options.default_model.as_str()),
            (sim.url().as_str(), "scripted")
        );
        assert_eq!(provider.models["scripted"].context_tokens, 9_000);
    }
}
