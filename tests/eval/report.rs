//! The report of an evaluation: outcomes by field and by document, and totals. Pure.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::AddAssign;

use folio_tools::path::Path as FieldPath;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::score::{Counts, Outcome, score};
use super::truth::Truth;

/// Maximum length of a printed value, in characters.
const VALUE_CHARS: usize = 80;
/// The share of wrong values among the cited ones that a model must not reach.
const WRONG_AIM: &str = "1 %";

/// The result of one labelled field.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FieldResult {
    pub path: String,
    pub outcome: Outcome,
    pub expected: Value,
    /// Null: the answer does not contain the field.
    pub extracted: Value,
    /// None: no value was extracted, or a bare call extracted it.
    pub evidence: Option<EvidenceKind>,
}

/// The evidence for an extracted value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EvidenceKind {
    /// The model quoted the value, and its quote is valid.
    Cited,
    /// The text of the document contains the value.
    Located,
    /// The text does not contain the value.
    Inferred,
}

/// Numbers of extracted values by their evidence.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Evidence {
    pub cited: u32,
    pub located: u32,
    pub inferred: u32,
    /// Cited values that are wrong or invented.
    pub wrong_although_cited: u32,
    /// Located values that are wrong or invented.
    pub wrong_although_located: u32,
}

impl Evidence {
    fn add(&mut self, field: &FieldResult) {
        let is_wrong = u32::from(matches!(field.outcome, Outcome::Wrong | Outcome::Invented));
        match field.evidence {
            Some(EvidenceKind::Cited) => {
                self.cited += 1;
                self.wrong_although_cited += is_wrong;
            }
            Some(EvidenceKind::Located) => {
                self.located += 1;
                self.wrong_although_located += is_wrong;
            }
            Some(EvidenceKind::Inferred) => self.inferred += 1,
            None => {}
        }
    }

    /// Returns the cells of a table: the numbers, and the share of wrong values among the cited ones.
    fn cells(&self) -> [String; 6] {
        let Self { cited, located, inferred, wrong_although_cited, wrong_although_located } = *self;
        let share = percent((cited > 0).then(|| f64::from(wrong_although_cited) / f64::from(cited)));
        let [cited, located, inferred, wrong_although_cited, wrong_although_located] =
            [cited, located, inferred, wrong_although_cited, wrong_although_located].map(|number| number.to_string());
        [cited, located, inferred, wrong_although_cited, share, wrong_although_located]
    }
}

impl AddAssign for Evidence {
    fn add_assign(&mut self, other: Self) {
        self.cited += other.cited;
        self.located += other.located;
        self.inferred += other.inferred;
        self.wrong_although_cited += other.wrong_although_cited;
        self.wrong_although_located += other.wrong_although_located;
    }
}

/// The cost of one document.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cost {
    /// Parts of the text that were extracted separately.
    pub windows: u64,
    /// Verified extractions of other documents that the model read.
    pub examples: u64,
    pub model_calls: u64,
    pub input_tokens: u64,
    pub output_tokens: u64,
    /// Credits that Folio charged. 0 for a bare call.
    pub credits: u64,
}

impl Cost {
    /// Returns the difference to `before`, an earlier cost of the same document.
    #[must_use]
    pub(super) fn since(self, before: Self) -> Self {
        Self {
            windows: self.windows.saturating_sub(before.windows),
            examples: self.examples.saturating_sub(before.examples),
            model_calls: self.model_calls.saturating_sub(before.model_calls),
            input_tokens: self.input_tokens.saturating_sub(before.input_tokens),
            output_tokens: self.output_tokens.saturating_sub(before.output_tokens),
            credits: self.credits.saturating_sub(before.credits),
        }
    }
}

/// The data that were extracted from a document.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    pub data: Value,
    /// The evidence for the values that the text of the document contains, by their paths. None: a bare call.
    pub evidence: Option<BTreeMap<String, EvidenceKind>>,
    /// The parts of the document that were read, for people. None: no text is missing, or the call is a bare call.
    pub incomplete: Option<String>,
    pub cost: Cost,
}

/// The result of one document.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DocumentResult {
    pub document: String,
    /// Reason of a failed extraction, all of whose fields are missing. None: the extraction succeeded.
    pub error: Option<String>,
    /// States the parts of the document that were read, if text is missing.
    pub incomplete: Option<String>,
    pub cost: Cost,
    pub counts: Counts,
    pub evidence: Evidence,
    pub fields: Vec<FieldResult>,
}

/// The result of an evaluation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// `folio`, `examples` for extractions with examples, `agent` for extractions by the agent, `bare` for calls without Folio, or
    /// `answers` for files.
    pub mode: String,
    pub base_url: String,
    pub model: String,
    /// None: no value was extracted.
    pub precision: Option<f64>,
    /// None: the documents have no values.
    pub recall: Option<f64>,
    pub counts: Counts,
    pub evidence: Evidence,
    pub cost: Cost,
    pub documents: Vec<DocumentResult>,
    /// The result of the same documents without examples and without the agent. None: the evaluation has neither.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub baseline: Option<Box<Report>>,
}

impl DocumentResult {
    /// Scores the answer for a document. The error is the reason of a failed extraction.
    pub fn new(truth: &Truth, answer: Result<Answer, String>) -> Self {
        let failed = || Answer { data: Value::Null, evidence: None, incomplete: None, cost: Cost::default() };
        let (Answer { data, evidence, incomplete, cost }, error) = match answer {
            Ok(answer) => (answer, None),
            Err(error) => (failed(), Some(error)),
        };
        let parsed = |(path, kind): (&String, &EvidenceKind)| Some((path.parse::<FieldPath>().ok()?, *kind));
        let found: Option<Vec<(FieldPath, EvidenceKind)>> =
            evidence.map(|evidence| evidence.iter().filter_map(parsed).collect());
        let field = |(path, expected): (&String, &Value)| {
            let parsed = path.parse::<FieldPath>().ok();
            let extracted = parsed.as_ref().and_then(|path| path.get(&data).ok());
            FieldResult {
                path: path.clone(),
                outcome: score(expected, extracted),
                expected: expected.clone(),
                extracted: extracted.cloned().unwrap_or_default(),
                evidence: found.as_ref().zip(extracted.filter(|value| is_scalar(value))).map(|(found, value)| {
                    // The notations of two paths of a value may differ.
                    let is_value = |path: &FieldPath| path.get(&data).is_ok_and(|found| std::ptr::eq(found, value));
                    found.iter().find(|(path, _)| is_value(path)).map_or(EvidenceKind::Inferred, |(_, kind)| *kind)
                }),
            }
        };
        let fields: Vec<FieldResult> = truth.fields.iter().map(field).collect();
        let (mut counts, mut evidence) = (Counts::default(), Evidence::default());
        for field in &fields {
            counts.add(field.outcome);
            evidence.add(field);
        }
        Self { document: truth.document.clone(), error, incomplete, cost, counts, evidence, fields }
    }
}

impl Report {
    pub fn new(mode: &str, base_url: &str, model: &str, documents: Vec<DocumentResult>) -> Self {
        let (mut counts, mut evidence, mut cost) = (Counts::default(), Evidence::default(), Cost::default());
        for document in &documents {
            counts += document.counts;
            evidence += document.evidence;
            cost.windows += document.cost.windows;
            cost.examples += document.cost.examples;
            cost.model_calls += document.cost.model_calls;
            cost.input_tokens += document.cost.input_tokens;
            cost.output_tokens += document.cost.output_tokens;
            cost.credits += document.cost.credits;
        }
        Self {
            mode: mode.to_owned(),
            base_url: base_url.to_owned(),
            model: model.to_owned(),
            precision: counts.precision(),
            recall: counts.recall(),
            counts,
            evidence,
            cost,
            documents,
            baseline: None,
        }
    }

    /// Returns the counts and the evidence of each field over all documents.
    fn by_field(&self) -> BTreeMap<&str, (Counts, Evidence)> {
        let mut fields: BTreeMap<&str, (Counts, Evidence)> = BTreeMap::new();
        for field in self.documents.iter().flat_map(|document| &document.fields) {
            let (counts, evidence) = fields.entry(&field.path).or_default();
            counts.add(field.outcome);
            evidence.add(field);
        }
        fields
    }
}

impl fmt::Display for Report {
    /// Formats the tables of documents and fields, the values that are not right, and the totals.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let heading =
            ["exact", "normalized", "wrong", "missing", "invented"].map(|name| format!("{name:>11}")).concat();
        let costs = ["windows", "examples", "calls", "tokens in", "tokens out", "credits"]
            .map(|name| format!("{name:>11}"))
            .concat();
        writeln!(f, "{:<32}{heading}{costs}", "document")?;
        for document in &self.documents {
            writeln!(f, "{:<32}{}{}", document.document, row(&document.counts), cost_row(&document.cost))?;
            if let Some(error) = &document.error {
                writeln!(f, "    failed: {error}")?;
            }
            if let Some(incomplete) = &document.incomplete {
                writeln!(f, "    text is missing: {incomplete}")?;
            }
            for field in document.fields.iter().filter(|field| is_shown(field.outcome)) {
                let (expected, extracted) = (cut(&field.expected), cut(&field.extracted));
                writeln!(f, "    {} {}: expected {expected}, extracted {extracted}", field.outcome.name(), field.path)?;
            }
        }
        let evidence_heading = ["cited", "located", "inferred", "wrong+cited", "share", "wrong+loc."];
        let evidence_heading = evidence_heading.map(|name| format!("{name:>12}")).concat();
        writeln!(f, "\n{:<32}{heading}{evidence_heading}", "field")?;
        for (path, (counts, evidence)) in self.by_field() {
            let cells = evidence.cells().map(|cell| format!("{cell:>12}")).concat();
            writeln!(f, "{path:<32}{}{cells}", row(&counts))?;
        }
        writeln!(f, "\n{:<32}{}{}", "total", row(&self.counts), cost_row(&self.cost))?;
        writeln!(
            f,
            "{} of {} values right, precision {}, recall {} ({}, {} at {})",
            self.counts.right(),
            self.counts.labelled(),
            percent(self.precision),
            percent(self.recall),
            self.mode,
            self.model,
            self.base_url,
        )?;
        let Evidence { cited, located, inferred, .. } = self.evidence;
        if cited + located + inferred == 0 {
            return Ok(());
        }
        let [.., wrong_although_cited, share, wrong_although_located] = self.evidence.cells();
        writeln!(
            f,
            "{} extracted values: {cited} cited ({wrong_although_cited} of them wrong, {share}; aim: less than {WRONG_AIM}), \
             {located} located ({wrong_although_located} of them wrong), {inferred} inferred",
            cited + located + inferred
        )
    }
}

fn percent(share: Option<f64>) -> String {
    share.map_or("none".to_owned(), |share| format!("{:.1} %", share * 100.0))
}

/// Returns true for the outcomes that the table of documents lists with their values.
fn is_shown(outcome: Outcome) -> bool {
    !matches!(outcome, Outcome::Exact | Outcome::Absent)
}

fn is_scalar(value: &Value) -> bool {
    matches!(value, Value::Number(_)) || value.as_str().is_some_and(|text| !text.trim().is_empty())
}

fn row(counts: &Counts) -> String {
    let counts = [counts.exact, counts.normalized, counts.wrong, counts.missing, counts.invented];
    counts.map(|count| format!("{count:>11}")).concat()
}

fn cost_row(cost: &Cost) -> String {
    let costs = [cost.windows, cost.examples, cost.model_calls, cost.input_tokens, cost.output_tokens, cost.credits];
    costs.map(|cost| format!("{cost:>11}")).concat()
}

fn cut(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(VALUE_CHARS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn truth(document: &str) -> Truth {
        let truth = json!({
            "document": document, "schema": {},
            "fields": {"total": 957.0, "items.0.name": "Tea", "iban": null, "date": "2026-03-17"},
        });
        serde_json::from_value(truth).unwrap()
    }

    fn report() -> Report {
        let cost = Cost { windows: 1, examples: 1, model_calls: 2, input_tokens: 300, output_tokens: 40, credits: 5 };
        let data = json!({"total": 957, "items": [{"name": "Coffee"}], "iban": "DE89", "date": "17.03.2026"});
        let evidence =
            [("total", EvidenceKind::Cited), ("items[0].name", EvidenceKind::Cited), ("iban", EvidenceKind::Located)];
        let evidence = evidence.map(|(path, kind)| (path.to_owned(), kind)).into();
        let documents = vec![
            DocumentResult::new(
                &truth("a.pdf"),
                Ok(Answer { data, evidence: Some(evidence), incomplete: Some("1 of 2 pages".to_owned()), cost }),
            ),
            DocumentResult::new(&truth("b.pdf"), Err("no text".to_owned())),
        ];
        Report::new("folio", "http://127.0.0.1/v1", "small", documents)
    }

    #[test]
    fn fields_are_scored_by_their_paths_and_a_failed_document_has_only_missing_values() {
        let report = report();
        let first: Vec<_> = report.documents[0].fields.iter().map(|f| (f.path.as_str(), f.outcome)).collect();
        let expected = [
            ("date", Outcome::Normalized),
            ("iban", Outcome::Invented),
            ("items.0.name", Outcome::Wrong),
            ("total", Outcome::Exact),
        ];
        assert_eq!(first, expected);
        assert_eq!(report.documents[1].counts, Counts { missing: 3, absent: 1, ..Counts::default() });
        assert_eq!((report.counts.right(), report.counts.labelled()), (2, 6));
        assert_eq!((report.precision, report.recall), (Some(0.5), Some(2.0 / 6.0)));
        assert_eq!(report.cost, report.documents[0].cost);
        let (counts, evidence) = report.by_field()["total"];
        assert_eq!(counts, Counts { exact: 1, missing: 1, ..Counts::default() });
        assert_eq!(evidence, Evidence { cited: 1, ..Evidence::default() });
        let (located, wrong_although_located, inferred) = (1, 1, 1);
        let expected = Evidence { cited: 2, wrong_although_cited: 1, located, wrong_although_located, inferred };
        assert_eq!(report.evidence, expected);
    }

    #[test]
    fn the_report_is_a_table_and_json() {
        let report = report();
        let table = report.to_string();
        for part in [
            "failed: no text",
            "text is missing: 1 of 2 pages",
            "wrong items.0.name: expected \"Tea\", extracted \"Coffee\"",
            "2 of 6 values right, precision 50.0 %, recall 33.3 % (folio, small at http://127.0.0.1/v1)",
            "4 extracted values: 2 cited (1 of them wrong, 50.0 %; aim: less than 1 %), 1 located (1 of them wrong), 1 inferred",
        ] {
            assert!(table.contains(part), "{part}: {table}");
        }
        let parsed: Report = serde_json::from_str(&serde_json::to_string(&report).unwrap()).unwrap();
        assert_eq!(parsed, report);
    }

    #[test]
    fn long_values_are_cut_in_the_table() {
        let long = cut(&json!("ä".repeat(200)));
        assert_eq!((long.chars().count(), long.ends_with('…')), (VALUE_CHARS + 1, true));
    }
}
