//! Searches of a set through a `folio serve`: the documents are uploaded as HTML, ingested, and found by `RetrievalService`.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use folio_proto::v1;
use folio_proto::v1::ingestion_service_client::IngestionServiceClient;
use folio_proto::v1::retrieval_service_client::RetrievalServiceClient;
use serde_json::json;

use super::SetDocument;
use super::embeddings::EmbeddingEndpoint;
use super::searches::{FoundPassage, LIMIT, Ranking, Rankings};
use crate::harness::client::Client;
use crate::harness::process::Process;

/// Timeout of one call of the API.
const CALL_TIMEOUT: Duration = Duration::from_secs(600);
/// Maximum time between the upload of the last document and its ingestion.
const INGESTION_TIMEOUT: Duration = Duration::from_secs(3_600);
/// Interval between two reads of a state.
const POLL: Duration = Duration::from_millis(100);
/// Levels of headings in HTML.
const LEVELS: usize = 6;

/// Settings of the server: more credit than an evaluation needs.
const SETTINGS: [(&str, &str); 2] =
    [("FOLIO_LOG__FILTER", "error"), ("FOLIO_CREDIT__MONTHLY_ALLOWANCE", "1000000000000")];

/// A server with the documents of a set. Dropping it kills the process.
pub struct Served {
    client: Client,
    /// Ids of the set by ids of the server.
    documents: BTreeMap<String, String>,
    passages: usize,
    _process: Process,
    _folder: tempfile::TempDir,
}

impl Served {
    /// Starts a server, uploads the documents, and waits until they are ingested with vectors.
    ///
    /// # Errors
    /// The server cannot be started, or a document is refused or not ingested.
    pub async fn prepare(documents: &[SetDocument], endpoint: &EmbeddingEndpoint) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let EmbeddingEndpoint { query_prefix, passage_prefix, .. } = endpoint;
        let model = json!({ "kind": "embedding", "query_prefix": query_prefix, "passage_prefix": passage_prefix });
        let models = json!({ endpoint.model.as_str(): model });
        let provider = json!({ "base_url": endpoint.base_url, "api_key_env": "OPENAI_API_KEY", "models": models });
        let settings = json!({ "models": { "providers": { "evaluated": provider } } });
        std::fs::write(folder.path().join("folio.toml"), toml::to_string(&settings)?)?;
        let variables = [SETTINGS.as_slice(), &[("OPENAI_API_KEY", endpoint.api_key.as_str())]].concat();
        let arguments = ["serve", "--listen", "127.0.0.1:0", "--data", "data"];
        let process = Process::try_start("folio", folder.path(), &arguments, &variables);
        let process = process.map_err(|errors| anyhow::anyhow!("folio serve ended at its start:\n{errors}"))?;
        let token = std::fs::read_to_string(folder.path().join("data/admin.token"))?;
        let client = Client::try_connect_with(&process.url(), Some(token.trim()), CALL_TIMEOUT).await?;
        let mut ids = BTreeMap::new();
        for (number, document) in documents.iter().enumerate() {
            let uploaded = client.try_upload(&format!("document-{number}.html"), html(document).as_bytes()).await?;
            ids.insert(uploaded.document_id, document.id.clone());
        }
        let end = Instant::now() + INGESTION_TIMEOUT;
        let mut passages = 0;
        for document_id in ids.keys() {
            passages += passages_of(&client, document_id, end).await?;
        }
        wait_for_index(&client, end).await?;
        Ok(Self { client, documents: ids, passages, _process: process, _folder: folder })
    }

    /// Returns the number of passages.
    pub fn passages(&self) -> usize {
        self.passages
    }

    /// Answers a question by one search. The lexical and the dense ranking are the ranks of its passages in both parts: a passage
    /// that the fusion ranks below the answer is missing.
    ///
    /// # Errors
    /// The search fails, or a part of it is not complete.
    pub async fn rank(&self, question: &str) -> Result<Rankings> {
        let request = v1::SearchRequest { query: question.to_owned(), limit: LIMIT, ..v1::SearchRequest::default() };
        let mut retrieval = RetrievalServiceClient::new(self.client.channel.clone());
        let begun = Instant::now();
        let response = retrieval.search(request).await?.into_inner();
        let took = begun.elapsed();
        let v1::SearchResponse { passages, dense, .. } = response;
        let gaps = dense.map(|part| part.gaps).unwrap_or_default();
        ensure!(gaps.is_empty(), "the dense part is not complete: {gaps:?}");
        Ok(Rankings {
            lexical: self.by_rank(&passages, |passage| passage.lexical.as_ref().map(|part| part.rank)),
            dense: self.by_rank(&passages, |passage| passage.dense.as_ref().map(|part| part.rank)),
            hybrid: Ranking { passages: passages.iter().map(|one| self.found(one)).collect(), took: Some(took) },
            embedding: None,
        })
    }

    /// Returns the passages by their rank in one part. A rank without a passage is a passage of no document.
    fn by_rank(&self, passages: &[v1::FoundPassage], rank: impl Fn(&v1::FoundPassage) -> Option<u32>) -> Ranking {
        let mut ranking: Vec<FoundPassage> = Vec::new();
        let mut ranked: Vec<(u32, &v1::FoundPassage)> =
            passages.iter().filter_map(|passage| Some((rank(passage)?, passage))).collect();
        ranked.sort_by_key(|(rank, _)| *rank);
        for (rank, passage) in ranked {
            let before = usize::try_from(rank).unwrap_or(usize::MAX).saturating_sub(1).min(LIMIT as usize);
            ranking.resize_with(ranking.len().max(before), FoundPassage::default);
            ranking.push(self.found(passage));
        }
        Ranking { passages: ranking, took: None }
    }

    fn found(&self, passage: &v1::FoundPassage) -> FoundPassage {
        let document = self.documents.get(&passage.document_id).cloned().unwrap_or_default();
        FoundPassage { document, text: passage.text.clone() }
    }
}

/// Waits until the index contains all documents. The index of a new organization is missing until its first ingestion has ended,
/// and is then built.
async fn wait_for_index(client: &Client, end: Instant) -> Result<()> {
    let mut retrieval = RetrievalServiceClient::new(client.channel.clone());
    let request = v1::SearchRequest { query: "a".to_owned(), limit: 1, ..v1::SearchRequest::default() };
    loop {
        let dense = retrieval.search(request.clone()).await?.into_inner().dense.unwrap_or_default();
        let is_incomplete =
            |reason| matches!(reason, v1::SearchGapReason::IndexMissing | v1::SearchGapReason::IndexRebuilding);
        if !dense.gaps.iter().any(|gap| is_incomplete(gap.reason())) {
            return Ok(());
        }
        ensure!(Instant::now() < end, "the index was not complete within {INGESTION_TIMEOUT:?}");
        // The server does not announce the end of a rebuild.
        tokio::time::sleep(POLL).await;
    }
}

/// Waits until a document is ingested. Returns its number of passages.
async fn passages_of(client: &Client, document_id: &str, end: Instant) -> Result<usize> {
    let mut ingestions = IngestionServiceClient::new(client.channel.clone());
    loop {
        let request = v1::GetIngestionRequest { document_id: document_id.to_owned() };
        let ingestion = ingestions.get_ingestion(request).await?.into_inner().ingestion;
        let ingestion = ingestion.context("the response has no ingestion")?;
        match ingestion.state() {
            v1::IngestionState::Indexed => {
                let passages = ingestion.passages.unwrap_or_default();
                let has_vectors = passages.count == 0 || !passages.vector_space.is_empty();
                ensure!(has_vectors, "the passages of {document_id} have no vectors");
                return Ok(usize::try_from(passages.count)?);
            }
            v1::IngestionState::Skipped => return Ok(0),
            v1::IngestionState::Failed => {
                bail!("{document_id} was not ingested: {}", ingestion.error.unwrap_or_default().message)
            }
            _ if Instant::now() > end => bail!("{document_id} was not ingested within {INGESTION_TIMEOUT:?}"),
            // The server does not announce the end of an ingestion.
            _ => tokio::time::sleep(POLL).await,
        }
    }
}

/// Returns a document as HTML, with a heading for each title that the section before does not have.
fn html(document: &SetDocument) -> String {
    let mut text = "<!DOCTYPE html><html><head><meta charset=\"utf-8\"></head><body>\n".to_owned();
    let mut before: &[String] = &[];
    for section in &document.sections {
        let common = before.iter().zip(&section.titles).take_while(|(left, right)| left == right).count();
        // A section always has a heading of its own.
        let first = common.min(section.titles.len().saturating_sub(1));
        for (level, title) in section.titles.iter().enumerate().skip(first) {
            let level = (level + 1).min(LEVELS);
            let _ = writeln!(text, "<h{level}>{}</h{level}>", escaped(title));
        }
        for paragraph in &section.paragraphs {
            let _ = writeln!(text, "<p>{}</p>", escaped(paragraph));
        }
        before = &section.titles;
    }
    text + "</body></html>\n"
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::super::SetSection;
    use super::*;

    #[test]
    fn sections_are_headings_with_escaped_texts() {
        let section = |titles: &[&str], text: &str| SetSection {
            titles: titles.iter().map(|title| (*title).to_owned()).collect(),
            paragraphs: vec![text.to_owned()],
        };
        let sections = vec![
            section(&["A"], "one"),
            section(&["A", "B"], "<b> & two"),
            section(&["A", "C"], "three"),
            section(&["A"], "four"),
        ];
        let text = html(&SetDocument { id: "d".to_owned(), language: None, sections });
        let body: Vec<&str> = text.lines().skip(1).collect();
        let expected = [
            "<h1>A</h1>",
            "<p>one</p>",
            "<h2>B</h2>",
            "<p>&lt;b&gt; &amp; two</p>",
            "<h2>C</h2>",
            "<p>three</p>",
            "<h1>A</h1>",
            "<p>four</p>",
            "</body></html>",
        ];
        assert_eq!(body, expected);
    }
}
