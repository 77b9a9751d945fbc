//! Facts about a prompt run apart from its data: the coverage of the document, and the evidence for single values.

use folio_types::{Coverage, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{CHECKS_MAX, CheckResult, EXAMPLES_MAX, UsedExample, WordBoxes};

/// Maximum number of conflicts of an extraction.
// proto: Extraction.conflicts "at most {}."
pub const CONFLICTS_MAX: usize = 100;
/// Maximum size of the value of a conflict as JSON, in bytes. Of a larger value, the start is stored as a text.
// proto: ExtractionConflict.value_json "more than {} KiB"
pub const CONFLICT_VALUE_BYTES: usize = 1_024;
/// Maximum number of original texts of an extraction.
// proto: Extraction.originals "at most {}."
pub const ORIGINALS_MAX: usize = 500;
/// Maximum length of an original text, in characters.
// proto: OriginalText.text "at most {} characters"
pub const ORIGINAL_CHARS: usize = 200;
/// Maximum length of a path in a report, in bytes. Facts about a value with a longer path are counted only.
// proto: ExtractionConflict.path "at most {} KiB"
// proto: OriginalText.path "at most {} KiB"
// proto: Citation.path "at most {} KiB"
// proto: FieldConfidence.path "at most {} KiB"
pub const REPORT_PATH_BYTES: usize = 1_024;

/// Maximum number of citations of an extraction.
// proto: Extraction.citations "at most {}."
pub const CITATIONS_MAX: usize = 500;
/// Maximum length of a quote, in characters.
// proto: Citation.quote "at most {} characters"
pub const QUOTE_CHARS: usize = 500;
/// Maximum length of the section of a citation, in characters. A longer heading is cut.
// proto: Citation.section "at most {} characters"
pub const SECTION_CHARS: usize = 200;
/// Maximum number of confidences of an extraction.
// proto: Extraction.confidences "at most {}."
pub const CONFIDENCES_MAX: usize = 500;

/// The evidence for a value that the text of the document contains. A value without a citation is inferred: the server did not
/// find the value in the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CitationKind {
    /// The server found the value in the text, and the model stated no valid quote for it.
    #[default]
    Located,
    /// The model quoted the value. The text contains the quote, and the quote contains the value.
    Cited,
}

impl CitationKind {
    pub fn name(self) -> &'static str {
        match self {
            Self::Located => "located",
            Self::Cited => "cited",
        }
    }

    fn is_located(&self) -> bool {
        *self == Self::Located
    }
}

/// The evidence for a value in the text of the document.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Citation {
    /// Path of the value in the original data, such as `items[0].price`.
    pub path: String,
    #[serde(default, skip_serializing_if = "CitationKind::is_located")]
    pub kind: CitationKind,
    /// The number of the page, from 1.
    pub page: u32,
    /// The words of the text that contain the value. For a cited value: the words of the text that the model quoted.
    pub quote: String,
    /// Position of the quote in the text of the page, in characters.
    pub start: u32,
    /// The last heading above the quote on its page; in a workbook, the name of the sheet. None: no heading is above the quote,
    /// or the format of the document does not mark headings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub section: Option<String>,
    /// The cell of the value in the notation of spreadsheets, such as `B7`. None: the page is no sheet of a workbook, or the
    /// position of its cells is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cell: Option<String>,
    /// Number of occurrences of the value in the document, at least 1.
    pub occurrences: u32,
    /// The boxes of the words that contain the value. Empty: the text has no boxes.
    #[serde(default, skip_serializing_if = "WordBoxes::is_empty")]
    pub boxes: WordBoxes,
}

/// The confidence of the model in a value. A confidence is not evidence for the value.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FieldConfidence {
    /// Path of the value in the original data, such as `items[0].price`.
    pub path: String,
    /// The confidence, from 0 to 1.
    pub confidence: f64,
}

/// A value of a part of the document that differs from the merged data.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Conflict {
    /// Path of the chosen value, such as `a.b`.
    pub path: String,
    pub value: Value,
    /// Page whose text contains the value. None: no page contains the value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub page: Option<u32>,
}

/// The text that the model returned for a normalized value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OriginalText {
    /// Path of the value in the original data, such as `items[0].price`.
    pub path: String,
    pub text: String,
}

/// Facts about a prompt run apart from its data.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct ExtractionReport {
    pub coverage: Coverage,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conflicts: Vec<Conflict>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub originals: Vec<OriginalText>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub citations: Vec<Citation>,
    /// The version of the text that the citations refer to ([`Document::text_generation`](crate::Document::text_generation)). None: an older version of Folio
    /// stored the extraction.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text_generation: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub confidences: Vec<FieldConfidence>,
    /// The results of the checks of the review rule, in its order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub checks: Vec<CheckResult>,
    /// The verified extractions that the model received as examples, the most similar first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub examples: Vec<UsedExample>,
}

impl ExtractionReport {
    /// Stores the numbers of all conflicts and original texts in the coverage, and truncates all lists of the report to their
    /// bounds.
    #[must_use]
    pub fn bounded(self) -> Self {
        let Self { coverage, conflicts, originals, citations, text_generation, confidences, checks, examples } = self;
        let count = |length: usize| u32::try_from(length).unwrap_or(u32::MAX);
        let coverage = Coverage { conflicts: count(conflicts.len()), originals: count(originals.len()), ..coverage };
        let has_short_path = |path: &str| path.len() <= REPORT_PATH_BYTES;
        let conflicts = conflicts.into_iter().filter(|conflict| has_short_path(&conflict.path)).take(CONFLICTS_MAX);
        let originals = originals.into_iter().filter(|original| has_short_path(&original.path)).take(ORIGINALS_MAX);
        let citations = citations.into_iter().filter(|citation| has_short_path(&citation.path)).take(CITATIONS_MAX);
        let confidences = confidences.into_iter().filter(|one| has_short_path(&one.path)).take(CONFIDENCES_MAX);
        Self {
            coverage,
            citations: citations.collect(),
            text_generation,
            confidences: confidences.collect(),
            checks: checks.into_iter().take(CHECKS_MAX).collect(),
            examples: examples.into_iter().take(EXAMPLES_MAX).collect(),
            conflicts: conflicts
                .map(|conflict| Conflict { value: bounded(conflict.value, CONFLICT_VALUE_BYTES), ..conflict })
                .collect(),
            originals: originals
                .map(|original| OriginalText { text: original.text.chars().take(ORIGINAL_CHARS).collect(), ..original })
                .collect(),
        }
    }

    /// Returns true for the report of an extraction that no prompt run produced.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Returns the report without values of the document.
    #[must_use]
    pub fn without_values(self) -> Self {
        Self { coverage: self.coverage, ..Self::default() }
    }
}

/// Returns the value, or the start of its JSON as a text if that has more than `max` bytes.
pub(crate) fn bounded(value: Value, max: usize) -> Value {
    let mut text = value.to_string();
    if text.len() <= max {
        return value;
    }
    text.truncate(text.floor_char_boundary(max));
    Value::from(format!("{text}…"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_report_is_bounded_and_counts_everything() {
        let conflict = |path: &str, value| Conflict { path: path.into(), value, page: None };
        let original = |path: &str, text: &str| OriginalText { path: path.into(), text: text.into() };
        let long = "p".repeat(REPORT_PATH_BYTES + 1);
        let mut conflicts = vec![conflict(&long, json!(1)), conflict("a", json!("ä".repeat(1_000)))];
        conflicts.extend((0..CONFLICTS_MAX).map(|_| conflict("b", json!(1))));
        let mut originals = vec![original(&long, "x"), original("a", &"ü".repeat(ORIGINAL_CHARS + 1))];
        originals.extend((0..ORIGINALS_MAX).map(|_| original("b", "x")));
        let citation = |path: &str| Citation {
            path: path.into(),
            kind: CitationKind::Located,
            page: 1,
            quote: "x".into(),
            start: 0,
            section: None,
            cell: None,
            occurrences: 1,
            boxes: WordBoxes::default(),
        };
        let citations = [long.as_str()].into_iter().chain(["a"; CITATIONS_MAX + 1]).map(citation).collect();
        let confidence = |path: &str| FieldConfidence { path: path.into(), confidence: 0.5 };
        let confidences = [long.as_str()].into_iter().chain(["a"; CONFIDENCES_MAX + 1]).map(confidence).collect();
        let report = ExtractionReport { conflicts, originals, citations, confidences, ..Default::default() }.bounded();
        assert_eq!((report.confidences.len(), report.confidences[0].path.as_str()), (CONFIDENCES_MAX, "a"));
        assert_eq!((report.citations.len(), report.citations[0].path.as_str()), (CITATIONS_MAX, "a"));
        assert_eq!((report.coverage.conflicts, report.coverage.originals), (102, 502));
        assert_eq!((report.conflicts.len(), report.originals.len()), (CONFLICTS_MAX, ORIGINALS_MAX));
        let value = report.conflicts[0].value.as_str().unwrap();
        assert!(value.ends_with('…') && (1_000..=CONFLICT_VALUE_BYTES + 3).contains(&value.len()), "{}", value.len());
        assert_eq!(report.originals[0].text.chars().count(), ORIGINAL_CHARS);
    }
}
