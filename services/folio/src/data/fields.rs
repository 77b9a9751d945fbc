//! The values of an extraction, each with its citation and the decision about it.

use std::collections::HashMap;

use folio_proto::v1;
use folio_resources::leaves;
use serde_json::{Value, json};

use super::output::{Format, View};
use super::{extraction, parsed};
use crate::terminal::printable;

/// A value of the current data.
pub(super) struct Field<'a> {
    pub(super) path: String,
    pub(super) value: Value,
    /// None: the text of the document does not contain the value, or a user changed the value.
    pub(super) citation: Option<&'a v1::Citation>,
    /// True if no user changed the value.
    pub(super) is_original: bool,
    /// The confidence of the model. None: the model stated none, or a user changed the value.
    pub(super) confidence: Option<f64>,
    /// None: no decision was made.
    pub(super) decision: Option<v1::FieldDecision>,
}

impl Field<'_> {
    /// Returns the name of the kind of evidence. None: a user changed the value.
    pub(super) fn evidence(&self) -> Option<&'static str> {
        match self.citation {
            Some(citation) => Some(extraction::kind(citation.kind())),
            None => self.is_original.then_some("inferred"),
        }
    }
}

/// Returns the values of an extraction in the order of its data.
pub(super) fn fields(extraction: &v1::Extraction) -> Vec<Field<'_>> {
    let (data, original) = (extraction::data(extraction), parsed(&extraction.original_json));
    let original: HashMap<String, &Value> = leaves(&original).into_iter().collect();
    let citations: HashMap<&str, &v1::Citation> =
        extraction.citations.iter().map(|citation| (citation.path.as_str(), citation)).collect();
    let decisions: HashMap<&str, v1::FieldDecision> =
        extraction.reviews.iter().map(|review| (review.path.as_str(), review.decision())).collect();
    let confidences: HashMap<&str, f64> =
        extraction.confidences.iter().map(|found| (found.path.as_str(), found.confidence)).collect();
    let field = |(path, value): (String, &Value)| {
        let is_original = original.get(&path).is_some_and(|original| *original == value);
        let citation = citations.get(path.as_str()).filter(|_| is_original).copied();
        let decision = decisions.get(path.as_str()).copied();
        let confidence = confidences.get(path.as_str()).filter(|_| is_original).copied();
        Field { path, value: value.clone(), citation, is_original, confidence, decision }
    };
    leaves(&data).into_iter().map(field).collect()
}

/// Returns a line for each value: its path, the value, its evidence, and cells, confidences and decisions if there are any. A
/// line for each conflict and for each failed check follows.
pub(super) fn table(extraction: &v1::Extraction) -> String {
    let row = |field: &Field<'_>| {
        json!({
            "field": field.path, "value": field.value, "evidence": field.evidence(),
            "page": field.citation.map(|citation| citation.page), "cell": field.citation.and_then(extraction::cell),
            "quote": field.citation.map(|citation| citation.quote.as_str()),
            "confidence": field.confidence, "decision": field.decision.map(word),
        })
    };
    let fields = fields(extraction);
    let has_cell = |field: &Field<'_>| field.citation.is_some_and(|citation| !citation.cell.is_empty());
    let cell = fields.iter().any(has_cell).then_some("cell");
    let decision = fields.iter().any(|field| field.decision.is_some()).then_some("decision");
    let confidence = fields.iter().any(|field| field.confidence.is_some()).then_some("confidence");
    let columns = ["field", "value", "evidence", "page"].into_iter().chain(cell).chain(["quote"]);
    let columns = columns.chain(confidence).chain(decision);
    let notes = extraction::conflict_lines(extraction).chain(failed_checks(extraction));
    let notes: String = notes.map(|line| printable(&line) + "\n").collect();
    View::list(columns, fields.iter().map(row).collect()).render(Format::Table) + &notes
}

/// Returns a line for each check of the review rule that failed. The checks are of the original data.
pub(super) fn failed_checks(extraction: &v1::Extraction) -> impl Iterator<Item = String> {
    let failed = extraction.checks.iter().filter(|result| result.outcome() == v1::CheckOutcome::Failed);
    failed.map(|result| {
        let v1::CheckResult { check, left, right, .. } = result;
        let (left, right) = (left.unwrap_or_default(), right.unwrap_or_default());
        format!("failed check of the extracted values: {check} (left {left}, right {right})")
    })
}

/// Returns a decision as a word.
pub(super) fn word(decision: v1::FieldDecision) -> String {
    decision.as_str_name().trim_start_matches("FIELD_DECISION_").to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn extraction() -> v1::Extraction {
        let citation = |path: &str, page, quote: &str| v1::Citation {
            path: path.to_owned(),
            page,
            quote: quote.to_owned(),
            kind: if page == 1 { v1::CitationKind::Cited } else { v1::CitationKind::Located }.into(),
            ..v1::Citation::default()
        };
        v1::Extraction {
            original_json: r#"{"number":"A-17","items":[{"price":12.5}],"paid":false}"#.to_owned(),
            citations: vec![citation("number", 1, "A-17,"), citation("items[0].price", 2, "12,50\u{1b}")],
            ..v1::Extraction::default()
        }
    }

    #[test]
    fn a_line_has_the_place_of_its_value() {
        let expected = "FIELD           VALUE  EVIDENCE  PAGE  QUOTE\n\
                        number          A-17   cited     1     A-17,\n\
                        items[0].price  12.5   located   2     12,50\u{fffd}\n\
                        paid            false  inferred\n";
        assert_eq!(table(&extraction()), expected);
    }

    #[test]
    fn a_value_of_a_workbook_has_its_cell() {
        let mut extraction = extraction();
        (extraction.citations[0].section, extraction.citations[0].cell) = ("Invoices".to_owned(), "B7".to_owned());
        let expected = "FIELD           VALUE  EVIDENCE  PAGE  CELL         QUOTE\n\
                        number          A-17   cited     1     Invoices!B7  A-17,\n\
                        items[0].price  12.5   located   2                  12,50\u{fffd}\n\
                        paid            false  inferred\n";
        assert_eq!(table(&extraction), expected);
    }

    #[test]
    fn a_changed_value_has_no_place_and_a_decision_is_shown() {
        let review = |path: &str, decision: v1::FieldDecision| v1::FieldReview {
            path: path.to_owned(),
            decision: decision.into(),
            ..v1::FieldReview::default()
        };
        let confidence = |path: &str, confidence| v1::FieldConfidence { path: path.to_owned(), confidence };
        let edited = v1::Extraction {
            edited_json: Some(r#"{"number":"A-18","items":[{"price":12.5}]}"#.to_owned()),
            confidences: vec![confidence("number", 0.9), confidence("items[0].price", 0.75)],
            reviews: vec![
                review("number", v1::FieldDecision::Approved),
                review("items[0].price", v1::FieldDecision::Rejected),
            ],
            ..extraction()
        };
        let expected = "FIELD           VALUE  EVIDENCE  PAGE  QUOTE   CONFIDENCE  DECISION\n\
                        number          A-18                                       approved\n\
                        items[0].price  12.5   located   2     12,50\u{fffd}  0.75        rejected\n";
        assert_eq!(table(&edited), expected);
        let fields = fields(&edited);
        assert_eq!((fields.len(), fields[0].citation), (2, None));
    }

    #[test]
    fn each_conflict_has_a_line_below_the_values() {
        let conflict = |path: &str, value_json: &str, page| v1::ExtractionConflict {
            path: path.to_owned(),
            value_json: value_json.to_owned(),
            page,
        };
        let conflicts = vec![conflict("number", "\"A-71\u{1b}\"", 12), conflict("items[0].price", "13", 0)];
        let shown = table(&v1::Extraction { conflicts, ..extraction() });
        let expected = "another value of number: \"A-71\u{fffd}\" (page 12)\nanother value of items[0].price: 13\n";
        assert_eq!(shown, table(&extraction()) + expected);
    }

    #[test]
    fn only_failed_checks_have_a_line_below_the_values() {
        let result = |check: &str, outcome: v1::CheckOutcome| v1::CheckResult {
            check: check.to_owned(),
            outcome: outcome.into(),
            left: Some(7.9),
            right: Some(5.0),
            ..v1::CheckResult::default()
        };
        let checks = vec![
            result("a = b", v1::CheckOutcome::Passed),
            result("total\u{1b} = 5", v1::CheckOutcome::Failed),
            result("c = d", v1::CheckOutcome::NotEvaluable),
        ];
        let shown = table(&v1::Extraction { checks, ..extraction() });
        let expected = "failed check of the extracted values: total\u{fffd} = 5 (left 7.9, right 5)\n";
        assert_eq!(shown, table(&extraction()) + expected);
    }
}
