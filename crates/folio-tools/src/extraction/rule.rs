//! Review rules: the values of an extraction that need no person. Pure, except for the read of the rule.
//!
//! A value is approved if it is `cited` or `located`, if the model's confidence in it is at least that of the rule, and if no
//! failed check names it. A check that is not evaluable although no value is missing, such as one of a text, counts as failed.

use std::collections::{BTreeMap, BTreeSet};

use folio_resources::{
    CHECKS_MAX, CheckOutcome, CheckResult, ExtractionReport, FieldDecision, REVIEWS_MAX, Review, ReviewRule, Schema,
    SchemaRevision,
};
use folio_storage::Stores;
use folio_types::{Error, OrgId, Result};
use serde_json::Value;

use super::check;
use super::review::required_leaves;

/// Validates a rule. `field`: its name in the request. `schema`: the JSON Schema of the data. None: the paths are not checked.
///
/// # Errors
/// `INVALID_FIELD` if the confidence is not from 0 to 1, if there are too many checks, or if a check is malformed or names a path
/// that the schema does not have.
pub fn check_rule(field: &str, rule: &ReviewRule, schema: Option<&Value>) -> Result<()> {
    if !(0.0..=1.0).contains(&rule.min_confidence) {
        return Err(Error::invalid_field(format!("{field}.min_confidence"), "must be from 0 to 1"));
    }
    if rule.checks.len() > CHECKS_MAX {
        return Err(Error::invalid_field(format!("{field}.checks"), format!("has more than {CHECKS_MAX} checks")));
    }
    for (index, text) in rule.checks.iter().enumerate() {
        let problem = check::parse(text).map_or_else(Some, |check| check.problem(schema?));
        if let Some(problem) = problem {
            return Err(Error::invalid_field(format!("{field}.checks[{index}]"), problem));
        }
    }
    Ok(())
}

/// Applies the review rule of a schema to the data of an extraction. Returns the report with the results of the checks, and the
/// approvals. None: the schema has no rule, or is deleted.
pub(super) async fn reviewed(
    stores: &Stores,
    org: &OrgId,
    schema: Option<&SchemaRevision>,
    data: &Value,
    report: ExtractionReport,
) -> Result<(ExtractionReport, Option<Review>)> {
    let Some(revision) = schema else { return Ok((report, None)) };
    let schema = stores.of::<Schema>().get(org, &revision.revid.of).await?;
    let rule = schema.and_then(|schema| schema.review_rule);
    let Some((rule, schema)) = rule.zip(revision.schema()) else { return Ok((report, None)) };
    let (checks, approvals) = apply_rule(&rule, schema, data, &report);
    Ok((ExtractionReport { checks, ..report }, Some(approvals)))
}

/// Returns the results of the checks for the data of an extraction, and the approvals.
fn apply_rule(
    rule: &ReviewRule,
    schema: &Value,
    data: &Value,
    report: &ExtractionReport,
) -> (Vec<CheckResult>, Review) {
    let (mut checks, mut contradicted) = (Vec::new(), BTreeSet::new());
    for text in &rule.checks {
        let outcome = match check::parse(text) {
            Ok(check) => {
                let outcome = check.evaluate(data);
                let is_failed = match &outcome {
                    CheckOutcome::Passed { .. } => false,
                    CheckOutcome::Failed { .. } => true,
                    CheckOutcome::NotEvaluable { .. } => check.has_values(data),
                };
                if is_failed {
                    contradicted.extend(check.fields(data));
                }
                outcome
            }
            Err(reason) => CheckOutcome::NotEvaluable { reason },
        };
        checks.push(CheckResult { check: text.clone(), outcome });
    }
    let confidences: BTreeMap<&str, f64> =
        report.confidences.iter().map(|found| (found.path.as_str(), found.confidence)).collect();
    let cited = report.citations.iter().map(|citation| &citation.path);
    let approved = cited.filter(|path| {
        let confidence = confidences.get(path.as_str()).copied().unwrap_or_default();
        confidence >= rule.min_confidence && !contradicted.contains(*path)
    });
    let review = Review {
        paths: approved.take(REVIEWS_MAX).cloned().collect(),
        decision: Some(FieldDecision::Approved),
        is_by_rule: true,
        data: None,
        required: required_leaves(Some(schema), data),
        withdrawn: Vec::new(),
    };
    (checks, review)
}

#[cfg(test)]
mod tests {
    use folio_resources::{Citation, CitationKind, FieldConfidence, WordBoxes};
    use serde_json::json;

    use super::*;

    fn schema() -> Value {
        let number = json!({"type": "number"});
        let item = json!({
            "type": "object",
            "properties": {"amount": number, "name": {"type": "string"}},
            "required": ["amount", "name"],
        });
        json!({
            "type": "object",
            "properties": {"total": number, "note": {"type": "string"}, "items": {"type": "array", "items": item}},
            "required": ["total", "items"],
        })
    }

    fn rule(min_confidence: f64, checks: &[&str]) -> ReviewRule {
        ReviewRule { min_confidence, checks: checks.iter().map(|check| (*check).to_owned()).collect() }
    }

    #[test]
    fn a_rule_is_validated_against_the_schema() {
        assert!(check_rule("rule", &rule(1.0, &["sum(items.amount) = total tolerance 0.01"]), Some(&schema())).is_ok());
        assert!(check_rule("rule", &rule(1.0, &["subtotal = total"]), None).is_ok(), "without a schema");
        let many = vec!["total = total"; CHECKS_MAX + 1];
        for (rule, field) in [
            (rule(-0.1, &[]), "rule.min_confidence"),
            (rule(1.1, &[]), "rule.min_confidence"),
            (rule(f64::NAN, &[]), "rule.min_confidence"),
            (rule(0.5, &many), "rule.checks"),
            (rule(0.5, &["total = total", "total ="]), "rule.checks[1]"),
            (rule(0.5, &["subtotal = total"]), "rule.checks[0]"),
        ] {
            assert_eq!(check_rule("rule", &rule, Some(&schema())).unwrap_err().violations[0].field, field, "{rule:?}");
        }
        assert!(check_rule("rule", &rule(0.5, &many[1..]), Some(&schema())).is_ok());
    }

    #[test]
    fn values_with_evidence_confidence_and_without_a_failed_check_are_approved() {
        let data = json!({"total": 5, "note": "n", "items": [{"amount": 2, "name": "a"}, {"amount": 3, "name": "b"}]});
        let citation = |path: &str, kind| Citation {
            path: path.to_owned(),
            kind,
            page: 1,
            quote: "x".to_owned(),
            start: 0,
            section: None,
            cell: None,
            occurrences: 1,
            boxes: WordBoxes::default(),
        };
        let located = ["items[0].amount", "items[0].name", "items[1].amount", "items[1].name"];
        let mut citations: Vec<Citation> = located.iter().map(|path| citation(path, CitationKind::Located)).collect();
        citations.push(citation("total", CitationKind::Cited));
        let confidence = |path: &str, confidence| FieldConfidence { path: path.to_owned(), confidence };
        let confidences = vec![
            confidence("total", 0.8),
            confidence("note", 1.0),
            confidence("items[0].name", 0.79),
            confidence("items[1].amount", 0.9),
        ];
        let report = ExtractionReport { citations, confidences, ..ExtractionReport::default() };
        let approved = |min_confidence, checks: &[&str]| {
            let (results, review) = apply_rule(&rule(min_confidence, checks), &schema(), &data, &report);
            assert_eq!(results.len(), checks.len());
            assert_eq!(review.required.len(), 5, "without the note, which is optional");
            assert!(review.is_by_rule && review.decision == Some(FieldDecision::Approved) && review.data.is_none());
            review.paths
        };
        assert_eq!(approved(0.8, &[]), ["items[1].amount", "total"]);
        assert_eq!(approved(0.8, &["sum(items.amount) = total"]), ["items[1].amount", "total"]);
        assert_eq!(approved(0.8, &["sum(items.amount) = total", "total = 6"]), ["items[1].amount"]);
        assert_eq!(approved(0.8, &["sum(items.amount) = 6"]), ["total"]);
        assert_eq!(
            approved(0.8, &["missing = total", "malformed"]).len(),
            2,
            "a check of a missing value prevents nothing"
        );
        assert_eq!(approved(0.8, &["note = total"]), ["items[1].amount"], "the note is a text");
        assert_eq!(approved(0.8, &["1 / (total - total) = 0"]), ["items[1].amount"], "a division by zero");
        assert_eq!(approved(0.0, &[]).len(), 5, "without a confidence, but not without evidence");
        assert_eq!(approved(1.0, &[]), Vec::<String>::new());
    }
}
