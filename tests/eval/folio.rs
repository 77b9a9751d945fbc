//! A `folio serve` that extracts the documents of an evaluation.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use folio_proto::v1;
use folio_proto::v1::agent_event::Event;
use folio_proto::v1::job_service_client::JobServiceClient;
use folio_proto::v1::usage_service_client::UsageServiceClient;
use folio_tools::path::{Missing, Path};
use folio_types::Coverage;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::Endpoint;
use super::bare::response_format;
use super::report::{Answer, Cost, EvidenceKind};
use super::truth::Truth;
use crate::harness::client::Client;
use crate::harness::process::Process;

/// Timeout of one call of the API. A small model may need minutes for a document.
const CALL_TIMEOUT: Duration = Duration::from_secs(1_800);
/// Maximum time until the text of a document is read.
const TEXT_TIMEOUT: Duration = Duration::from_secs(600);
/// Maximum time until the cost of an extraction is recorded.
const USAGE_TIMEOUT: Duration = Duration::from_secs(60);
/// Interval between two reads.
const POLL: Duration = Duration::from_millis(50);

/// Content of the prompt of every document.
const PROMPT: &str = "Extract the fields of the schema. Write dates as YYYY-MM-DD, and amounts as numbers without \
                      thousands separators and currency. A value that the document does not contain is null.";

/// Settings of the server: patience for slow models, and more credit than an evaluation needs. Credit is not unlimited, because
/// unlimited calls are not charged. A reservation must last longer than a call.
const SETTINGS: [(&str, &str); 6] = [
    ("FOLIO_LOG__FILTER", "error"),
    ("FOLIO_CREDIT__MONTHLY_ALLOWANCE", "1000000000000"),
    ("FOLIO_CREDIT__RESERVATION_SECONDS", "1200"),
    ("FOLIO_MODELS__TIMEOUTS__FIRST_TOKEN_SECONDS", "600"),
    ("FOLIO_MODELS__TIMEOUTS__BETWEEN_TOKENS_SECONDS", "120"),
    ("FOLIO_MODELS__TIMEOUTS__CALL_SECONDS", "900"),
];

/// The server with a temporary folder. Dropping it kills the process.
pub(super) struct Folio {
    client: Client,
    /// Prompt revisions by schema.
    prompts: BTreeMap<String, String>,
    /// Recorded costs of earlier extractions by document.
    spent: BTreeMap<String, Cost>,
    _process: Process,
    _folder: tempfile::TempDir,
}

impl Folio {
    /// Starts the server. `has_evidence`: extractions request quotes and confidences from the model. `examples`: maximum number
    /// of verified extractions that the model receives.
    pub(super) async fn start(endpoint: &Endpoint, has_evidence: bool, examples: u32) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        if has_evidence {
            let models = json!({ endpoint.model.as_str(): { "evidence": true } });
            let provider = json!({ "base_url": endpoint.base_url, "api_key_env": "OPENAI_API_KEY", "models": models });
            let settings = json!({ "models": { "providers": { "evaluated": provider } } });
            std::fs::write(folder.path().join("folio.toml"), toml::to_string(&settings)?)?;
        }
        let mut variables: Vec<(&str, &str)> = SETTINGS.to_vec();
        variables.push(("OPENAI_BASE_URL", endpoint.base_url.as_str()));
        variables.push(("OPENAI_API_KEY", endpoint.api_key.as_str()));
        let examples = examples.to_string();
        variables.push(("FOLIO_EXTRACTION__EXAMPLES", examples.as_str()));
        let arguments = ["serve", "--listen", "127.0.0.1:0", "--data", "data", "--model", endpoint.model.as_str()];
        let process = Process::try_start("folio", folder.path(), &arguments, &variables);
        let process = process.map_err(|errors| anyhow::anyhow!("folio serve ended at its start:\n{errors}"))?;
        let token = std::fs::read_to_string(folder.path().join("data/admin.token"))?;
        let client = Client::try_connect_with(&process.url(), Some(token.trim()), CALL_TIMEOUT).await?;
        Ok(Self { client, prompts: BTreeMap::new(), spent: BTreeMap::new(), _process: process, _folder: folder })
    }

    /// Returns the client of the administrator.
    pub(super) fn client(&self) -> &Client {
        &self.client
    }

    /// Uploads a file and waits until its text is read. Returns its id.
    pub(super) async fn upload(&self, name: &str, bytes: &[u8]) -> Result<String> {
        let id = self.client.try_upload(name, bytes).await?.document_id;
        let end = Instant::now() + TEXT_TIMEOUT;
        loop {
            let request = v1::GetDocumentRequest { document_id: id.clone() };
            let response = self.client.documents.clone().get_document(request).await?.into_inner();
            let document = response.document.context("the response has no document")?;
            match document.state() {
                v1::DocumentState::Ready => return Ok(id),
                v1::DocumentState::NoText | v1::DocumentState::Failed => bail!("no text: {}", document.state_reason),
                _ if Instant::now() > end => bail!("the text was not read within {TEXT_TIMEOUT:?}"),
                // The server does not announce the end of the reading.
                _ => tokio::time::sleep(POLL).await,
            }
        }
    }

    /// Returns the text of a document.
    pub(super) async fn text(&self, document: &str) -> Result<String> {
        let (mut pages, mut from_page) = (Vec::new(), 1);
        while from_page > 0 {
            let request = v1::GetDocumentTextRequest { document_id: document.to_owned(), from_page, page_count: 0 };
            let response = self.client.documents.clone().get_document_text(request).await?.into_inner();
            pages.extend(response.pages.into_iter().map(|page| page.text));
            from_page = response.next_page;
        }
        Ok(pages.join("\n\n"))
    }

    /// Extracts the fields of a schema from a document by `RunExtraction`. Returns the id of the extraction and its data.
    pub(super) async fn extract(&mut self, document: &str, schema: &Value) -> Result<(String, Answer)> {
        let prompt_revid = self.prompt(schema).await?;
        let request = v1::RunExtractionRequest {
            document_id: document.to_owned(),
            prompt_revid,
            ..v1::RunExtractionRequest::default()
        };
        let response = self.client.extractions.clone().run_extraction(request).await?.into_inner();
        let extraction = match response.job {
            Some(job) => self.extraction_of(job.job_id).await?,
            None => response.extraction.context("the response has no extraction")?,
        };
        let calls = extraction.coverage.as_ref().map_or(1, |coverage| coverage.model_calls);
        let cost = self.cost(document, calls.into()).await?;
        Ok((extraction.extraction_id.clone(), answer(&extraction, cost)?))
    }

    /// Extracts the fields of a schema from a document by the extraction agent.
    pub(super) async fn extract_by_agent(&mut self, document: &str, schema: &Value) -> Result<Answer> {
        let request = v1::StartExtractionRequest {
            document_id: document.to_owned(),
            prompt_revid: self.prompt(schema).await?,
            ..v1::StartExtractionRequest::default()
        };
        let mut events = self.client.extractions.clone().start_extraction(request).await?.into_inner();
        let mut result = None;
        while let Some(response) = events.message().await? {
            if let Some(Event::Complete(complete)) = response.event.and_then(|event| event.event) {
                result = Some(complete);
            }
        }
        let v1::AgentComplete { extraction, usage, .. } = result.context("the run of the agent has no result")?;
        let extraction = extraction.context("the response has no extraction")?;
        let is_completed = extraction.state() == v1::ExtractionState::Completed;
        ensure!(is_completed, "the agent did not complete the extraction: {}", extraction.failure);
        let cost = self.cost(document, u64::from(usage.unwrap_or_default().model_calls)).await?;
        answer(&extraction, cost)
    }

    /// Sets the labelled values of an extraction to the expected values, and verifies the extraction. Values without a label, and
    /// items that the extraction lacks, are unchanged.
    pub(super) async fn verify(&self, extraction_id: &str, answer: &Answer, truth: &Truth) -> Result<()> {
        let mut data = answer.data.clone();
        for (path, expected) in &truth.fields {
            if let Ok(path) = path.parse::<Path>() {
                path.set(&mut data, expected.clone(), Missing::Add).ok();
            }
        }
        let mut extractions = self.client.extractions.clone();
        let request = v1::ReplaceExtractionRequest {
            extraction_id: extraction_id.to_owned(),
            data_json: data.to_string(),
            ..v1::ReplaceExtractionRequest::default()
        };
        extractions.replace_extraction(request).await?;
        let extraction_id = extraction_id.to_owned();
        let request = v1::VerifyExtractionRequest { extraction_id, verified: true, ..Default::default() };
        extractions.verify_extraction(request).await?;
        Ok(())
    }

    /// Waits for the job of a long document, and returns its extraction.
    async fn extraction_of(&self, job_id: String) -> Result<v1::Extraction> {
        let mut jobs = JobServiceClient::new(self.client.channel.clone());
        let mut states = jobs.watch_job(v1::WatchJobRequest { job_id }).await?.into_inner();
        let mut item = v1::JobItem::default();
        while let Some(state) = states.message().await? {
            item = state.job.and_then(|job| job.items.into_iter().next()).unwrap_or_default();
        }
        if let Some(error) = item.error {
            bail!("the job of the document failed: {}", error.message);
        }
        let result: Value = serde_json::from_str(&item.result_json).context("the job of the document has no result")?;
        let extraction_id = result["extraction_id"].as_str().unwrap_or_default().to_owned();
        let request = v1::GetExtractionRequest { extraction_id };
        let found = self.client.extractions.clone().get_extraction(request).await?.into_inner();
        found.extraction.context("the response has no extraction")
    }

    /// Returns the prompt revision for a schema, which the first call creates.
    async fn prompt(&mut self, schema: &Value) -> Result<String> {
        let key = schema.to_string();
        if let Some(prompt) = self.prompts.get(&key) {
            return Ok(prompt.clone());
        }
        let name = format!("evaluation {}", self.prompts.len() + 1);
        let new = v1::Schema {
            name: name.clone(),
            response_format_json: response_format(schema).to_string(),
            ..v1::Schema::default()
        };
        let request = v1::CreateSchemaRequest { schema: Some(new), allow_non_strict: true, request_id: String::new() };
        let created = self.client.schemas.clone().create_schema(request).await?.into_inner().schema;
        let schema_revid = created.context("the response has no schema")?.schema_revid;
        let new = v1::Prompt { name, content: PROMPT.to_owned(), schema_revid, ..v1::Prompt::default() };
        let request = v1::CreatePromptRequest { prompt: Some(new), request_id: String::new() };
        let created = self.client.prompts.clone().create_prompt(request).await?.into_inner().prompt;
        let revid = created.context("the response has no prompt")?.prompt_revid;
        self.prompts.insert(key, revid.clone());
        Ok(revid)
    }

    /// Waits until the last `calls` model calls for a document are recorded, and returns their cost. The numbers of windows and
    /// examples are 0.
    async fn cost(&mut self, document: &str, calls: u64) -> Result<Cost> {
        let spent = self.spent.get(document).copied().unwrap_or_default();
        let mut usages = UsageServiceClient::new(self.client.channel.clone());
        let end = Instant::now() + USAGE_TIMEOUT;
        loop {
            let group_by = vec![v1::UsageGroup::Document.into()];
            let request = v1::GetUsageRequest { group_by, ..v1::GetUsageRequest::default() };
            let rows = usages.get_usage(request).await?.into_inner().rows;
            let expected = spent.model_calls + calls.max(1);
            let is_new = |row: &v1::UsageRow| row.document_id == document && row.calls >= expected;
            if let Some(row) = rows.into_iter().find(is_new) {
                let total = Cost {
                    model_calls: row.calls,
                    input_tokens: row.input_tokens,
                    output_tokens: row.output_tokens,
                    credits: row.credits,
                    ..Cost::default()
                };
                self.spent.insert(document.to_owned(), total);
                return Ok(total.since(spent));
            }
            if Instant::now() > end {
                bail!("the usage was not recorded within {USAGE_TIMEOUT:?}");
            }
            // The server does not announce the record.
            tokio::time::sleep(POLL).await;
        }
    }
}

/// Returns the data and the evidence of an extraction. `cost`: without the numbers of windows and examples.
fn answer(extraction: &v1::Extraction, cost: Cost) -> Result<Answer> {
    let coverage = extraction.coverage.clone().context("the extraction has no coverage")?;
    let coverage = Coverage::from(coverage);
    let kind = |citation: &v1::Citation| match citation.kind() {
        v1::CitationKind::Cited => EvidenceKind::Cited,
        v1::CitationKind::Located | v1::CitationKind::Unspecified => EvidenceKind::Located,
    };
    let evidence = extraction.citations.iter().map(|citation| (citation.path.clone(), kind(citation))).collect();
    let (windows, examples) = (coverage.windows.into(), u64::try_from(extraction.examples.len())?);
    Ok(Answer {
        data: serde_json::from_str(&extraction.original_json)?,
        evidence: Some(evidence),
        incomplete: (!coverage.is_complete()).then(|| coverage.to_string()),
        cost: Cost { windows, examples, ..cost },
    })
}
