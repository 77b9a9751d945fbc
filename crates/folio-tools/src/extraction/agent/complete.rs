//! The tool `complete_extraction`.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use async_trait::async_trait;
use folio_resources::{AgentStep, CitationKind, Extraction, ExtractionReport};
use folio_storage::value::TextGap;
use folio_types::Coverage;
use serde::Deserialize;
use serde_json::Value;

use super::super::citation::{Cited, cite_new};
use super::super::edit::schema_of;
use super::super::rule::reviewed;
use super::fields::Fields;
use super::{StepCall, document_of, step_tool};
use crate::document_text::for_each_page;
use crate::rules;
use crate::tool::{CallContext, Tool, ToolError};
use folio_llm::schema::describe;

pub(super) fn tool() -> Tool {
    step_tool::<CompleteExtraction>(
        "complete_extraction",
        "Marks the extraction as complete. The saved fields must match the schema, if there is one. Call it last. Result: result.",
        Vec::new(),
    )
}

#[derive(Deserialize)]
struct CompleteExtraction {}

#[async_trait]
impl StepCall for CompleteExtraction {
    async fn step(&self, context: &CallContext, extraction: &Extraction) -> Result<AgentStep, ToolError> {
        let data = extraction.current();
        if count(data) == 0 {
            return Err(ToolError::ForModel("Cannot complete: no fields extracted".to_owned()));
        }
        let (stores, org) = (&context.resources.stores, &context.principal.org);
        let schema = schema_of(stores, extraction).await?;
        if let Some(schema) = &schema {
            let violations = rules::violations_of("schema", schema, data).await?;
            if !violations.is_empty() {
                let text = format!("Cannot complete: the fields do not match the schema:\n{}", describe(&violations));
                return Err(ToolError::ForModel(text));
            }
        }
        let document = document_of(context, extraction).await?;
        let stored = Fields::of(extraction).into_data(document.text_generation);
        let cited = stored.citations.into_iter().filter(|citation| citation.kind == CitationKind::Cited);
        let quotes: BTreeMap<String, String> = cited.map(|citation| (citation.path, citation.quote)).collect();
        let found = cite_new(stores, org, &document, data, &quotes).await?;
        let Cited { mut citations, located, cited, inferred, .. } = found;
        // Citations are about the original data, and a review rule approves no value of a person.
        let unchanged = extraction.unchanged_paths();
        citations.retain(|citation| unchanged.contains(&citation.path));
        let mut coverage = Coverage { pages: document.pages, located, cited, inferred, ..Coverage::default() };
        for_each_page(stores, org, &document.id, (1, document.pages), |page| {
            if let Some(gap) = page.gap {
                coverage.add_incomplete(page.number, gap == TextGap::Missing);
            }
            ControlFlow::Continue(())
        })
        .await?;
        // An agent reads the pages that it needs, so no page with a text counts as unread.
        coverage.pages_read = coverage.pages.saturating_sub(coverage.pages_missing);
        let report = ExtractionReport {
            coverage,
            citations,
            confidences: stored.confidences,
            text_generation: document.text_generation,
            ..ExtractionReport::default()
        };
        let (report, approvals) = reviewed(stores, org, schema.as_ref(), data, report.bounded()).await?;
        Ok(AgentStep::Complete { report: Box::new(report), approvals })
    }

    fn result(&self, data: &Value) -> String {
        format!("Extraction complete. {} fields saved.", count(data))
    }
}

/// Returns the number of top-level fields.
fn count(data: &Value) -> usize {
    data.as_object().map_or(0, serde_json::Map::len)
}
