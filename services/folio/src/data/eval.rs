//! `folio eval`: runs a prompt on the documents of verified extractions, and compares the results with these extractions.
//!
//! The server stores each run as an extraction. The command deletes this extraction after the comparison, so that at most
//! [`CONCURRENT_RUNS`] extractions remain if the command is stopped. The records of model calls and the audit log are kept.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, SystemTime};

use anyhow::{Result, ensure};
use folio_proto::v1;
use folio_resources::leaves;
use folio_tools::score::{Counts, Outcome, score};
use folio_types::counted;
use futures::StreamExt as _;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::output::{Format, View};
use super::{DataArguments, extraction, list_items, parsed, present, prompt};
use crate::client::{Client, answer};
use crate::names;
use crate::progress::Progress;
use crate::terminal::note;

/// Number of documents that are extracted at the same time.
const CONCURRENT_RUNS: usize = 4;
/// Maximum number of verified extractions of an evaluation.
const LIMIT_MAX: i64 = 1_000;
/// Maximum number of printed differences. All differences are counted.
const DIFFERENCES_MAX: usize = 50;
/// Maximum length of a printed value, in characters.
const VALUE_CHARS: usize = 80;
/// The operation under which the usage reports model calls of extractions.
const OPERATION: &str = "extraction";
/// Time by which the period of the usage starts before the command. It must exceed the difference between the clocks of the client
/// and the server.
const USAGE_BEFORE: Duration = Duration::from_secs(3_600);
/// Maximum time until the usage of the runs is recorded.
const USAGE_TIMEOUT: Duration = Duration::from_secs(10);
/// Interval between two reads of the usage.
const POLL: Duration = Duration::from_millis(200);

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The prompt, by id, revision or name. Without a revision, the newest revision is evaluated.
    prompt: String,
    /// Compare with extractions that users verified, by this prompt or another one with its schema. Required.
    #[arg(long)]
    verified: bool,
    /// Maximum number of verified extractions, the newest first: 1 to 1000.
    #[arg(long, value_name = "N", default_value = "20", value_parser = clap::value_parser!(u32).range(1..=LIMIT_MAX))]
    limit: u32,
    /// The model [default: the model of the prompt, otherwise of the organization].
    #[arg(long, default_value = "", hide_default_value = true)]
    model: String,
    #[command(flatten)]
    data: DataArguments,
}

pub(crate) async fn run(arguments: Arguments) -> Result<()> {
    let Arguments { prompt, verified, limit, model, data } = arguments;
    ensure!(
        verified,
        "pass --verified: the prompt is compared with verified extractions, and each run costs model calls"
    );
    let limit = usize::try_from(limit)?;
    data.run(async |client| Box::pin(evaluate(&client, &prompt, limit, &model)).await).await
}

async fn evaluate(client: &Client, what: &str, limit: usize, model: &str) -> Result<View> {
    let request = v1::GetPromptRevisionRequest { prompt_revid: prompt::id(client, what, names::choose).await? };
    let revision = present(answer(client.prompts().get_prompt_revision(request)).await?.prompt_revision)?;
    let truths = verified(client, &revision, limit).await?;
    ensure!(
        !truths.is_empty(),
        "no user verified an extraction with which the prompt {:?} can be compared: verify some with folio review",
        revision.name
    );
    let documents: BTreeSet<&str> = truths.iter().map(|truth| truth.document_id.as_str()).collect();
    let start = SystemTime::now() - USAGE_BEFORE;
    let before = usage(client, &documents, start).await;
    let (progress, revid) = (Progress::stderr(), &revision.prompt_revid);
    let runs = truths.iter().map(async |truth| (truth, measured(client, truth, revid, model, &progress).await));
    let runs: Vec<_> = futures::stream::iter(runs).buffered(CONCURRENT_RUNS).collect().await;
    let mut report = Report::new(revid);
    for (truth, found) in runs {
        report.add(truth, found.map_err(|error| format!("{error:#}")));
    }
    let cost = match before {
        Ok(before) => cost_since(client, &documents, start, before, report.model_calls).await,
        Err(error) => Err(error),
    };
    report.cost = cost.inspect_err(|error| note(&format!("the cost is unknown: {error:#}"))).ok();
    Ok(report.view())
}

/// Returns, for each document, the newest extraction that a user verified. The extractions have the schema of the prompt, or the
/// prompt itself if it has no schema. At most `limit` verified extractions are read.
async fn verified(client: &Client, revision: &v1::PromptRevision, limit: usize) -> Result<Vec<v1::Extraction>> {
    let filter = match revision.schema_revid.split_once('.') {
        Some((schema, _)) => format!("schema:{schema} verified:true"),
        None => format!("prompt:{} verified:true", revision.prompt_id),
    };
    let listed = list_items! {
        limit, client.extractions().list_extractions(ListExtractionsRequest { filter: filter.clone() }) => extractions
    };
    Ok(newest_of_documents(listed.await?))
}

/// Returns, for each document, the first extraction that a user verified. Extractions that a review rule verified are omitted,
/// because the rule approves answers of a model.
fn newest_of_documents(listed: Vec<v1::Extraction>) -> Vec<v1::Extraction> {
    let mut documents = BTreeSet::new();
    let by_user = listed.into_iter().filter(|found| !found.verified_by.is_empty());
    by_user.filter(|found| documents.insert(found.document_id.clone())).collect()
}

/// Runs the prompt on the document of a verified extraction, and deletes the stored result.
async fn measured(
    client: &Client,
    truth: &v1::Extraction,
    prompt_revid: &str,
    model: &str,
    progress: &Progress,
) -> Result<v1::Extraction> {
    let (line, document_id) = (progress.line(&truth.document_id), truth.document_id.clone());
    let options = extraction::RunOptions { model: model.to_owned(), ..Default::default() };
    let found = extraction::run_prompt(client, document_id, prompt_revid.to_owned(), options, &line).await?;
    let extraction_id = found.extraction_id.clone();
    let request = v1::DeleteExtractionRequest { extraction_id, ..Default::default() };
    if let Err(error) = answer(client.extractions().delete_extraction(request)).await {
        line.note(&format!("the extraction {} is not deleted: {error:#}", found.extraction_id));
    }
    Ok(found)
}

/// The recorded model calls of extractions.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Cost {
    calls: u64,
    input_tokens: u64,
    output_tokens: u64,
    credits: u64,
    microdollars: u64,
}

impl Cost {
    fn of<'a>(rows: impl Iterator<Item = &'a v1::UsageRow>) -> Self {
        rows.fold(Self::default(), |sum, row| Self {
            calls: sum.calls.saturating_add(row.calls),
            input_tokens: sum.input_tokens.saturating_add(row.input_tokens),
            output_tokens: sum.output_tokens.saturating_add(row.output_tokens),
            credits: sum.credits.saturating_add(row.credits),
            microdollars: sum.microdollars.saturating_add(row.cost_microdollars),
        })
    }

    /// Returns the difference to `before`, an earlier cost of the same documents.
    fn since(self, before: Self) -> Self {
        Self {
            calls: self.calls.saturating_sub(before.calls),
            input_tokens: self.input_tokens.saturating_sub(before.input_tokens),
            output_tokens: self.output_tokens.saturating_sub(before.output_tokens),
            credits: self.credits.saturating_sub(before.credits),
            microdollars: self.microdollars.saturating_sub(before.microdollars),
        }
    }

    fn to_json(self) -> Value {
        json!({
            "model_calls": self.calls, "input_tokens": self.input_tokens, "output_tokens": self.output_tokens,
            "credits": self.credits, "cost_microdollars": self.microdollars,
        })
    }
}

/// Returns the cost of the extractions of these documents since a time, by any user.
async fn usage(client: &Client, documents: &BTreeSet<&str>, start: SystemTime) -> Result<Cost> {
    let group_by = vec![v1::UsageGroup::Operation.into(), v1::UsageGroup::Document.into()];
    let request = v1::GetUsageRequest { start_time: Some(start.into()), group_by, ..Default::default() };
    let rows = answer(client.usages().get_usage(request)).await?.rows;
    let is_of_runs = |row: &&v1::UsageRow| row.operation == OPERATION && documents.contains(row.document_id.as_str());
    Ok(Cost::of(rows.iter().filter(is_of_runs)))
}

/// Returns the cost since `before`. Waits until at least `calls` model calls are recorded, at most [`USAGE_TIMEOUT`].
async fn cost_since(
    client: &Client,
    documents: &BTreeSet<&str>,
    start: SystemTime,
    before: Cost,
    calls: u64,
) -> Result<Cost> {
    let end = Instant::now() + USAGE_TIMEOUT;
    loop {
        let cost = usage(client, documents, start).await?.since(before);
        if cost.calls >= calls || Instant::now() > end {
            return Ok(cost);
        }
        tokio::time::sleep(POLL).await;
    }
}

/// A value of the verified data or of the extracted data.
#[derive(Debug, Clone, PartialEq)]
struct ComparedValue {
    path: String,
    outcome: Outcome,
    /// Null: the verified data have no value.
    expected: Value,
    /// Null: nothing was extracted.
    extracted: Value,
}

/// Compares the values of the verified and of the extracted data with equal paths. Items of arrays are compared by their positions.
fn compare(truth: &Value, extracted: &Value) -> Vec<ComparedValue> {
    let truth: BTreeMap<String, &Value> = leaves(truth).into_iter().collect();
    let extracted: BTreeMap<String, &Value> = leaves(extracted).into_iter().collect();
    let paths: BTreeSet<&String> = truth.keys().chain(extracted.keys()).collect();
    let compared = paths.into_iter().map(|path| {
        let expected = truth.get(path).copied().cloned().unwrap_or_default();
        let found = extracted.get(path).copied();
        let outcome = score(&expected, found);
        ComparedValue { path: path.clone(), outcome, expected, extracted: found.cloned().unwrap_or_default() }
    });
    compared.collect()
}

/// Returns the field of a path: the path without the positions of items, such as `items[].price`.
fn field_of(path: &str) -> String {
    let (mut field, mut letters, mut is_quoted) = (String::new(), path.chars(), false);
    while let Some(letter) = letters.next() {
        field.push(letter);
        match letter {
            '"' => is_quoted = !is_quoted,
            '\\' if is_quoted => field.extend(letters.next()),
            '[' if !is_quoted => {
                letters = letters.as_str().trim_start_matches(|letter: char| letter.is_ascii_digit()).chars();
            }
            _ => {}
        }
    }
    field
}

/// The result of an evaluation.
struct Report {
    prompt_revid: String,
    /// The models of the runs.
    models: BTreeSet<String>,
    /// Number of compared documents.
    documents: usize,
    failures: Vec<Value>,
    fields: BTreeMap<String, Counts>,
    total: Counts,
    /// The first differences.
    differences: Vec<Value>,
    /// Number of model calls of the stored extractions.
    model_calls: u64,
    /// None: unknown.
    cost: Option<Cost>,
}

impl Report {
    fn new(prompt_revid: &str) -> Self {
        Self {
            prompt_revid: prompt_revid.to_owned(),
            models: BTreeSet::new(),
            documents: 0,
            failures: Vec::new(),
            fields: BTreeMap::new(),
            total: Counts::default(),
            differences: Vec::new(),
            model_calls: 0,
            cost: None,
        }
    }

    /// Adds the run on the document of a verified extraction. The error of `run` is the reason of a failed run, which counts for
    /// no field.
    fn add(&mut self, truth: &v1::Extraction, run: Result<v1::Extraction, String>) {
        let document_id = &truth.document_id;
        let found = match run {
            Ok(found) => found,
            Err(error) => return self.failures.push(json!({ "document_id": document_id, "error": error })),
        };
        self.documents += 1;
        self.model_calls += found.coverage.as_ref().map_or(0, |coverage| u64::from(coverage.model_calls));
        self.models.insert(found.model.clone());
        for value in compare(&extraction::data(truth), &parsed(&found.original_json)) {
            self.fields.entry(field_of(&value.path)).or_default().add(value.outcome);
            self.total.add(value.outcome);
            let is_right = matches!(value.outcome, Outcome::Exact | Outcome::Normalized | Outcome::Absent);
            if !is_right && self.differences.len() < DIFFERENCES_MAX {
                self.differences.push(json!({
                    "document_id": document_id, "path": value.path, "outcome": value.outcome.name(),
                    "expected": value.expected, "extracted": value.extracted,
                }));
            }
        }
    }

    fn view(&self) -> View {
        let view = View::one(json!({
            "prompt_revid": self.prompt_revid, "models": self.models, "documents": self.documents,
            "failures": self.failures, "fields": self.rows(), "total": row("total", &self.total),
            "differences": self.differences, "cost": self.cost.map(Cost::to_json),
        }));
        let view = view.text(self.text());
        match self.failures.len() {
            0 => view,
            failed => view.failing(format!("{failed} of {} documents were not extracted", failed + self.documents)),
        }
    }

    fn rows(&self) -> Vec<Value> {
        self.fields.iter().map(|(field, counts)| row(field, counts)).collect()
    }

    fn text(&self) -> String {
        let columns = ["field", "right", "wrong", "missing", "invented", "precision", "recall"];
        let rows = self.rows().into_iter().chain([row("(all)", &self.total)]).collect();
        let models = match self.models.is_empty() {
            true => String::new(),
            false => format!(" with {}", self.models.iter().map(String::as_str).collect::<Vec<_>>().join(", ")),
        };
        let documents = counted(self.documents as u64, "document");
        let mut text = format!("{}{models}: {documents}\n\n", self.prompt_revid);
        text += &View::list(columns, rows).render(Format::Table);
        if !self.differences.is_empty() {
            text += "\n";
        }
        let member = |value: &Value, name: &str| value.get(name).map(cut).unwrap_or_default();
        for difference in &self.differences {
            let [document, path, outcome] = ["document_id", "path", "outcome"]
                .map(|name| difference.get(name).and_then(Value::as_str).unwrap_or_default());
            let (expected, extracted) = (member(difference, "expected"), member(difference, "extracted"));
            text += &format!("{document} {path} {outcome}: expected {expected}, extracted {extracted}\n");
        }
        for failure in &self.failures {
            let [document, error] =
                ["document_id", "error"].map(|name| failure.get(name).and_then(Value::as_str).unwrap_or_default());
            text += &format!("{document} failed: {error}\n");
        }
        let cost = self.cost.map_or("unknown".to_owned(), |cost| {
            let Cost { calls, input_tokens, output_tokens, credits, .. } = cost;
            let (calls, credits) = (counted(calls, "model call"), counted(credits, "credit"));
            format!("{calls}, {input_tokens} tokens in, {output_tokens} out, {credits}")
        });
        text + &format!("\ncost: {cost}\n")
    }
}

fn row(field: &str, counts: &Counts) -> Value {
    json!({
        "field": field, "right": counts.right(), "wrong": counts.wrong, "missing": counts.missing,
        "invented": counts.invented, "precision": counts.precision().map(rounded), "recall": counts.recall().map(rounded),
    })
}

/// Rounds a share to three decimals.
fn rounded(share: f64) -> f64 {
    (share * 1_000.0).round() / 1_000.0
}

/// Returns a value as JSON, cut to [`VALUE_CHARS`] characters.
fn cut(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(VALUE_CHARS) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stored(document: &str, data: &Value, verified_by: &str) -> v1::Extraction {
        v1::Extraction {
            extraction_id: format!("ext_{document}"),
            document_id: document.to_owned(),
            model: "small".to_owned(),
            original_json: data.to_string(),
            verified: true,
            verified_by: verified_by.to_owned(),
            coverage: Some(v1::ExtractionCoverage { model_calls: 2, ..Default::default() }),
            ..v1::Extraction::default()
        }
    }

    #[test]
    fn the_newest_extraction_of_a_document_that_a_user_verified_counts() {
        let data = json!({});
        let listed = vec![stored("a", &data, ""), stored("a", &json!({"n": 1}), "usr_1"), stored("a", &data, "usr_1")];
        let found = newest_of_documents(listed);
        assert_eq!(found, [stored("a", &json!({"n": 1}), "usr_1")]);
    }

    #[test]
    fn each_value_of_both_data_is_compared() {
        let truth = json!({"total": 957.0, "date": "2026-03-17", "iban": null, "items": [{"price": 1}, {"price": 2}]});
        let extracted = json!({
            "total": "957,00", "date": null, "iban": "DE1", "items": [{"price": 1}, {"price": 3}, {"price": 4}]
        });
        let found: Vec<_> =
            compare(&truth, &extracted).into_iter().map(|value| (value.path, value.outcome.name())).collect();
        let expected = [
            ("date", "missing"),
            ("iban", "invented"),
            ("items[0].price", "exact"),
            ("items[1].price", "wrong"),
            ("items[2].price", "invented"),
            ("total", "normalized"),
        ];
        assert_eq!(found, expected.map(|(path, outcome)| (path.to_owned(), outcome)));
        assert!(compare(&json!({"a": []}), &json!({"a": null})).iter().all(|value| value.outcome == Outcome::Absent));
    }

    #[test]
    fn a_field_has_no_positions() {
        for (path, field) in [
            ("a", "a"),
            ("items[12].price", "items[].price"),
            ("a[0][1]", "a[][]"),
            ("", ""),
            (r#"a[1]."b\"[2]"[3]"#, r#"a[]."b\"[2]"[]"#),
        ] {
            assert_eq!(field_of(path), field);
        }
    }

    #[test]
    fn a_report_counts_fields_and_states_differences_failures_and_cost() {
        let mut report = Report::new("prm_1.2");
        let none = report.view().render(Format::Table);
        assert!(none.starts_with("prm_1.2: 0 documents\n"), "{none}");
        let truth = json!({"total": 957, "date": "2026-03-17"});
        report.add(&stored("doc_1", &truth, "usr_1"), Ok(stored("doc_1", &truth, "")));
        let extracted = json!({"total": 95, "date": null});
        report.add(&stored("doc_2", &truth, "usr_1"), Ok(stored("doc_2", &extracted, "")));
        report.add(&stored("doc_3", &truth, "usr_1"), Err("no credit".to_owned()));
        report.cost = Some(Cost { calls: 4, input_tokens: 300, output_tokens: 20, credits: 5, microdollars: 7 });
        assert_eq!(report.model_calls, 4);
        let view = report.view();
        assert_eq!(view.failure.as_deref(), Some("1 of 3 documents were not extracted"));
        let table = view.render(Format::Table);
        for line in [
            "prm_1.2 with small: 2 documents",
            "doc_2 total wrong: expected 957, extracted 95",
            "doc_3 failed: no credit",
            "cost: 4 model calls, 300 tokens in, 20 out, 5 credits",
        ] {
            assert!(table.lines().any(|found| found == line), "{line}: {table}");
        }
        let json: Value = serde_json::from_str(&view.render(Format::Json)).unwrap();
        let date = json!({
            "field": "date", "right": 1, "wrong": 0, "missing": 1, "invented": 0, "precision": 1.0, "recall": 0.5
        });
        assert_eq!((&json["fields"][0], &json["documents"]), (&date, &json!(2)));
        assert_eq!(json["total"]["precision"], json!(0.667));
        assert_eq!((&json["cost"]["model_calls"], &json["failures"][0]["document_id"]), (&json!(4), &json!("doc_3")));
    }

    #[test]
    fn the_cost_is_the_difference_of_two_readings() {
        let row = |calls| v1::UsageRow { calls, credits: 2 * calls, ..Default::default() };
        let (before, after) = ([row(1)], [row(3), row(2)]);
        let cost = Cost::of(after.iter()).since(Cost::of(before.iter()));
        assert_eq!((cost.calls, cost.credits), (4, 8));
    }
}
