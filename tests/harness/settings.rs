//! Settings for tests, with short timeouts.

const SETTINGS: &str = "
[log]
filter = \"info\"

[models]
default_model = \"scripted\"

[models.timeouts]
connect_seconds = 2
first_token_seconds = 20
between_tokens_seconds = 20
call_seconds = 40

[models.retries]
retries = 2
base_seconds = 0.02
max_retry_after_seconds = 2

[models.breaker]
failures = 0

[conversation]
sweep_interval_seconds = 0.2
";

/// The provider `sim` with four models: a model with thinking, a second chat model, a disabled model, and a model only for
/// prompts.
const MODELS: &str = "
[models.providers.sim]
base_url = \"BASE_URL\"
api_key = \"sim-key\"

[models.providers.sim.models.scripted]
context_tokens = 65536
thinking = true

[models.providers.sim.models.second]
upstream = \"second-upstream\"

[models.providers.sim.models.off]
enabled = false

[models.providers.sim.models.extractor]
chat = false
";

/// Returns a `folio.toml` for this model endpoint.
pub fn for_models_at(base_url: &str) -> String {
    format!("{SETTINGS}{}", MODELS.replace("BASE_URL", base_url))
}

/// Text of the document that most tests use.
pub const INVOICE: &str = "INVOICE\n\nInvoice Number: A-17\nInvoice Date: 2026-03-17\nTotal: 957.00 EUR\n";
