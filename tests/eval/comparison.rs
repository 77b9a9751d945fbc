//! The totals of two ways to extract the same documents, in columns. Pure.

use std::fmt;

use super::report::Report;

/// Compares a report with its baseline.
#[derive(Debug)]
pub struct Comparison<'a> {
    baseline: &'a Report,
    other: &'a Report,
}

impl<'a> Comparison<'a> {
    /// None: the report has no baseline.
    pub fn of(report: &'a Report) -> Option<Self> {
        Some(Self { baseline: report.baseline.as_deref()?, other: report })
    }
}

/// A line of the table: its name, and its cell for a report.
type Line = (&'static str, fn(&Report) -> String);

const LINES: [Line; 9] = [
    ("values right", |report| format!("{} of {}", report.counts.right(), report.counts.labelled())),
    ("values wrong or invented", |report| (report.counts.wrong + report.counts.invented).to_string()),
    ("cited", |report| report.evidence.cited.to_string()),
    ("wrong although cited", |report| report.evidence.wrong_although_cited.to_string()),
    ("located", |report| report.evidence.located.to_string()),
    ("model calls", |report| report.cost.model_calls.to_string()),
    ("tokens in", |report| report.cost.input_tokens.to_string()),
    ("tokens out", |report| report.cost.output_tokens.to_string()),
    ("credits", |report| report.cost.credits.to_string()),
];

impl fmt::Display for Comparison<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:<32}{:>16}{:>16}", "total", self.baseline.mode, self.other.mode)?;
        for (name, cell) in LINES {
            writeln!(f, "{name:<32}{:>16}{:>16}", cell(self.baseline), cell(self.other))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::report::{Answer, Cost, DocumentResult, EvidenceKind};
    use super::super::truth::Truth;
    use super::*;

    /// Returns the report of one document, two of whose fields are labelled.
    fn report(mode: &str, number: &str, cost: Cost) -> Report {
        let truth = json!({"document": "a.pdf", "schema": {}, "fields": {"number": "A-17", "total": 957.0}});
        let truth: Truth = serde_json::from_value(truth).unwrap();
        let evidence = [("number", EvidenceKind::Cited), ("total", EvidenceKind::Cited)];
        let evidence = evidence.map(|(path, kind)| (path.to_owned(), kind)).into();
        let data = json!({"number": number, "total": 957});
        let answer = Answer { data, evidence: Some(evidence), incomplete: None, cost };
        Report::new(mode, "http://127.0.0.1/v1", "small", vec![DocumentResult::new(&truth, Ok(answer))])
    }

    #[test]
    fn both_ways_are_compared_in_columns() {
        let cost = |model_calls, input_tokens, credits| Cost {
            windows: 1,
            model_calls,
            input_tokens,
            output_tokens: 40,
            credits,
            ..Cost::default()
        };
        let folio = report("folio", "A-18", cost(1, 300, 5));
        assert!(Comparison::of(&folio).is_none());
        let agent = Report { baseline: Some(Box::new(folio)), ..report("agent", "A-17", cost(4, 2_500, 31)) };
        let table = Comparison::of(&agent).unwrap().to_string();
        let lines: Vec<Vec<&str>> = table
            .lines()
            .map(|line| line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect())
            .collect();
        for line in [
            ["total", "folio", "agent"],
            ["values right", "1 of 2", "2 of 2"],
            ["values wrong or invented", "1", "0"],
            ["cited", "2", "2"],
            ["wrong although cited", "1", "0"],
            ["model calls", "1", "4"],
            ["tokens in", "300", "2500"],
            ["tokens out", "40", "40"],
            ["credits", "5", "31"],
        ] {
            assert!(lines.contains(&line.to_vec()), "{line:?}: {table}");
        }
    }
}
