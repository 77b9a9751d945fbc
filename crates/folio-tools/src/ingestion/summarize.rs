//! Summaries without an agent: one model call for each part of a document, from the sections up to the document.
//!
//! | part | summary |
//! |---|---|
//! | the text is as short as a summary | none; the text replaces it |
//! | a summary of the same input, or of an agent for the same text, is stored | kept |
//! | a document with one section | that of the section |
//! | any other | a model call, whose key in the ledger consists of the attempt and the part |
//!
//! A summary is stored once its call has ended, so that a repeated attempt calls the model for the missing ones only. A part whose call
//! fails has no summary; the others continue. The text of a document affects its own summaries only.

use folio_llm::{MESSAGE_OVERHEAD_TOKENS, ModelInfo, ModelRequest, count_tokens};
use folio_metering::MeteredCall;
use folio_resources::{Document, TermSearch};
use folio_storage::StoredSummary;
use folio_types::message::Message;
use folio_types::{Digest, Error, Reason, Result, UserId};
use futures::{StreamExt as _, TryStreamExt as _};
use serde::Serialize;

use super::message::{Part, SYSTEM};
use super::parts::{Available, ChildTexts, PartText, Parts, SUMMARY_CHARS, one_line, store_summary};
use super::plan::SummaryStep;
use crate::extraction::complete_metered;
use crate::tool::ToolResources;

/// The operation of summaries in the usage of an organization.
pub const SUMMARY_OPERATION: &str = "summary";
/// Maximum tokens of an answer.
const ANSWER_TOKENS: u32 = 400;
/// Maximum tokens of the text of a call.
const TEXT_TOKENS: u64 = 8_000;
/// Minimum tokens of the text of a call, also for a model with a small context.
const TEXT_TOKENS_MIN: u64 = 500;
/// Maximum number of calls for a document at the same time.
const CALLS_AT_ONCE: usize = 4;
/// Maximum number of dictionary entries in a call.
const TERMS_MAX: usize = 10;

/// A run that summarizes a document.
#[derive(Debug, Clone)]
pub struct SummaryRun<'a> {
    /// Its organization pays.
    pub document: &'a Document,
    pub user: &'a UserId,
    /// First part of the keys of the model calls in the ledger. Unique for each attempt: (job, item, epoch, attempt).
    pub key: String,
    /// Name of the model. None: the default model of the organization.
    pub model: Option<&'a str>,
    /// The entries of the dictionary that the text of the document contains. A call receives those whose terms are in its text.
    pub dictionary: &'a TermSearch,
}

/// The result of a run: numbers of parts.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct SummaryReport {
    /// New summaries.
    pub written: usize,
    /// Summaries of earlier runs.
    pub kept: usize,
    /// Parts whose text replaces a summary.
    pub short: usize,
    /// Parts whose model call failed.
    pub failed: usize,
    /// Sections that are summarized with the section that contains them.
    pub omitted: usize,
    /// The reason for which no model was called. None: a model is available.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub skipped: Option<String>,
}

/// Summarizes the current text of a document.
///
/// # Errors
/// `NO_TEXT` if the document has no text. `VERSION_CONFLICT` if the text was extracted again meanwhile. The errors of the stores and of
/// metering, and of a model that is unavailable: the job of the run waits for them.
pub async fn summarize(resources: &ToolResources, run: &SummaryRun<'_>) -> Result<SummaryReport> {
    let parts = Parts::load(resources, run.document).await?;
    let omitted = parts.plan.omitted;
    let catalogue = resources.models.catalogue(&run.document.org).await?;
    let model = match catalogue.for_prompts(run.model) {
        Ok(model) => model,
        Err(error) => return Ok(SummaryReport { omitted, skipped: Some(error.message), ..SummaryReport::default() }),
    };
    let run_calls = Calls { resources, run, model, parts: &parts };
    let mut report = SummaryReport { omitted, ..SummaryReport::default() };
    let mut known = ChildTexts::new();
    let mut rest = parts.plan.steps.as_slice();
    while !rest.is_empty() {
        let is_ready = |step: &&SummaryStep| step.children.iter().all(|child| known.contains_key(child));
        // The first step is ready, because the steps of its children precede it.
        let ready = rest.iter().take_while(is_ready).count().max(1);
        let (now, later) = rest.split_at(ready.min(rest.len()));
        // Collected, because a stream of borrowed steps is not general enough for the bounds of a task.
        let calls: Vec<_> = now.iter().map(|step| run_calls.step(step, &known)).collect();
        let found: Vec<Summarized> = futures::stream::iter(calls).buffered(CALLS_AT_ONCE).try_collect().await?;
        for (step, part) in now.iter().zip(found) {
            let available = report.add(part);
            if let Some(number) = step.section {
                known.insert(number, available);
            }
        }
        rest = later;
    }
    resources.stores.summaries().remove_earlier(&run.document.org, &run.document.id, parts.generation).await?;
    Ok(report)
}

/// The result of a step.
enum Summarized {
    Written(String),
    Kept(String),
    Short(String),
    Failed,
}

impl SummaryReport {
    /// Returns a sentence about the parts that have no summary for lack of a model, or because their model call failed. None: there
    /// are none.
    pub fn omission(&self) -> Option<String> {
        match (&self.skipped, self.failed) {
            (Some(reason), _) => Some(format!("no part was summarized: {reason}")),
            (None, 0) => None,
            (None, failed) => Some(format!("parts without a summary, because their model call failed: {failed}")),
        }
    }

    /// Counts a part, and returns its text.
    fn add(&mut self, part: Summarized) -> Available {
        let (count, available) = match part {
            Summarized::Written(text) => (&mut self.written, Available::Summary(text)),
            Summarized::Kept(text) => (&mut self.kept, Available::Summary(text)),
            Summarized::Short(text) => (&mut self.short, Available::Short(text)),
            Summarized::Failed => (&mut self.failed, Available::Missing),
        };
        *count = count.saturating_add(1);
        available
    }
}

/// The calls of a run.
struct Calls<'a> {
    resources: &'a ToolResources,
    run: &'a SummaryRun<'a>,
    model: &'a ModelInfo,
    parts: &'a Parts<'a>,
}

impl Calls<'_> {
    async fn step(&self, step: &SummaryStep, known: &ChildTexts) -> Result<Summarized> {
        let (text, is_cut) = match self.parts.text_of(step, known, self.text_tokens()).await? {
            PartText::Short(text) => return Ok(Summarized::Short(text)),
            PartText::Long { text, is_cut } => (text, is_cut),
        };
        let sources = self.parts.sources(step, known);
        let copied = match (step.section, self.parts.outline.sections().len()) {
            // The document and its only section are the same text.
            (None, 1) => match known.values().next() {
                Some(Available::Summary(text)) => Some(text.clone()),
                _ => return Ok(Summarized::Failed),
            },
            _ => None,
        };
        let message = match &copied {
            Some(text) => text.clone(),
            None => self.message(step, &text, is_cut),
        };
        let input = Digest::of(format!("{SYSTEM}\n{message}").as_bytes());
        if let Some(kept) = self.kept(step, &sources, &input).await? {
            return Ok(Summarized::Kept(kept));
        }
        let made = match copied {
            Some(text) => Some(text),
            None => {
                // Without space each attempt would pay the model.
                self.resources.stores.rows.check_space().await?;
                self.call(step, message).await?
            }
        };
        let Some(text) = made else { return Ok(Summarized::Failed) };
        let summary = StoredSummary {
            section: step.section,
            scope: step.scope,
            text: text.clone(),
            sources,
            text_generation: self.parts.generation,
            input: Some(input),
            model: self.model.name.clone(),
            created_at: self.resources.environment.now(),
        };
        store_summary(&self.resources.stores, self.run.document, &summary).await?;
        Ok(Summarized::Written(text))
    }

    /// Returns the stored summary of a part if it was made of the same input, or by an agent of the same text. A summary of an earlier
    /// generation of the text becomes one of the current generation.
    async fn kept(&self, step: &SummaryStep, sources: &[u32], input: &Digest) -> Result<Option<String>> {
        let generation = self.parts.generation;
        let Some(stored) = self.parts.stored(step.section) else { return Ok(None) };
        let is_current = stored.text_generation == generation;
        let is_same = stored.input.as_ref().map_or(is_current, |stored| stored == input);
        if !is_same {
            return Ok(None);
        }
        if !is_current {
            let moved = StoredSummary { text_generation: generation, sources: sources.to_vec(), ..stored.clone() };
            store_summary(&self.resources.stores, self.run.document, &moved).await?;
        }
        Ok(Some(stored.text.clone()))
    }

    fn message(&self, step: &SummaryStep, text: &str, is_cut: bool) -> String {
        let entries = self.run.dictionary.relevant(text, TERMS_MAX);
        let terms: Vec<(String, String)> =
            entries.into_iter().map(|entry| (entry.term.clone(), entry.expansion.clone())).collect();
        let titles = step.section.map(|number| self.parts.titles(number)).unwrap_or_default();
        let document = &self.run.document.name;
        Part { document, scope: step.scope, titles: &titles, terms: &terms, text, is_cut }.user()
    }

    /// Returns the tokens of the text of a call, so that the prompt and the answer fit into the context of the model.
    fn text_tokens(&self) -> u64 {
        let context = u64::from(self.model.options.context_tokens);
        let used = count_tokens(SYSTEM).saturating_add(u64::from(ANSWER_TOKENS)).saturating_add(TEXT_TOKENS_MIN);
        context.saturating_sub(used).clamp(TEXT_TOKENS_MIN, TEXT_TOKENS)
    }

    /// Makes the model call of a part. None: the model failed or answered with nothing.
    async fn call(&self, step: &SummaryStep, message: String) -> Result<Option<String>> {
        let SummaryRun { document, user, key, .. } = self.run;
        let part = step.section.map_or_else(|| "document".to_owned(), |number| format!("s{number}"));
        let output = ANSWER_TOKENS.min(self.model.options.max_output_tokens);
        let (input, overhead) =
            (count_tokens(SYSTEM).saturating_add(count_tokens(&message)), 2 * MESSAGE_OVERHEAD_TOKENS);
        let call = MeteredCall {
            org: document.org.clone(),
            user: (*user).clone(),
            key: format!("{key}.{part}"),
            operation: SUMMARY_OPERATION,
            model: self.model.name.clone(),
            prices: self.model.prices(),
            document: Some(document.id.clone()),
            input_tokens: input.saturating_add(overhead),
            max_output_tokens: output.into(),
        };
        let messages = vec![Message::user(message)];
        let request = ModelRequest {
            system: SYSTEM.to_owned(),
            max_output_tokens: Some(output),
            ..ModelRequest::new(document.org.clone(), self.model.name.clone(), messages)
        };
        match complete_metered(self.resources, call, request).await? {
            Ok(reply) => Ok(cleaned(&reply.text)),
            Err(error) => match Error::from(error) {
                error if is_of_part(&error) => {
                    tracing::debug!(document = %document.id, part, %error, "a part of a document has no summary");
                    Ok(None)
                }
                error => Err(error),
            },
        }
    }
}

/// Returns true if a model call failed because of its part. A call for another part may succeed.
fn is_of_part(error: &Error) -> bool {
    matches!(error.reason, Reason::ModelFailed | Reason::ModelRefused | Reason::ModelTimeout)
}

/// Returns the summary in an answer: one line of at most [`SUMMARY_CHARS`] characters. None: the answer has no content.
fn cleaned(answer: &str) -> Option<String> {
    let line = one_line(answer);
    let end = line.char_indices().nth(SUMMARY_CHARS).map_or(line.len(), |(at, _)| at);
    let text = line.get(..end).unwrap_or_default().trim_end();
    (!text.is_empty()).then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn an_answer_becomes_one_bounded_line() {
        assert_eq!(cleaned(" A\tsummary\nin\u{7} lines. "), Some("A summary in lines.".to_owned()));
        assert_eq!(cleaned(" \n"), None);
        let long = cleaned(&"ä ".repeat(SUMMARY_CHARS)).unwrap();
        assert!(long.chars().count() <= SUMMARY_CHARS && long.ends_with('ä'), "{}", long.len());
    }

    #[test]
    fn a_failure_of_a_part_does_not_end_the_run_and_others_make_the_job_wait() {
        for (reason, is_of_one) in [
            (Reason::ModelFailed, true),
            (Reason::ModelRefused, true),
            (Reason::ModelTimeout, true),
            (Reason::ModelUnavailable, false),
            (Reason::CreditExhausted, false),
            (Reason::StoreUnavailable, false),
        ] {
            assert_eq!(is_of_part(&Error::unavailable(reason, "")), is_of_one, "{reason:?}");
        }
    }

    #[test]
    fn each_part_is_counted_once() {
        let mut report = SummaryReport::default();
        let text = |text: &str| text.to_owned();
        assert_eq!(report.add(Summarized::Written(text("a"))), Available::Summary(text("a")));
        assert_eq!(report.add(Summarized::Kept(text("b"))), Available::Summary(text("b")));
        assert_eq!(report.add(Summarized::Short(text("c"))), Available::Short(text("c")));
        assert_eq!(report.add(Summarized::Failed), Available::Missing);
        let expected = SummaryReport { written: 1, kept: 1, short: 1, failed: 1, ..SummaryReport::default() };
        assert_eq!(report, expected);
        let shown: BTreeMap<String, u64> = serde_json::from_value(serde_json::json!(report)).unwrap();
        assert_eq!(shown.len(), 5);
    }
}
