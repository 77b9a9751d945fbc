//! The tools `extract_fields`, `update_field` and `remove_field`.

use std::collections::BTreeMap;

use async_trait::async_trait;
use folio_resources::{AgentStep, Extraction};
use serde::Deserialize;
use serde_json::{Value, json};

use super::super::review::selected;
use super::fields::{Fields, PageQuote, check_names, confidence, confidences, quote, quotes};
use super::quote_check::{CheckedQuotes, check_quotes};
use super::{StepCall, document_of, shown, step_tool};
use crate::arguments::{anything, object_or_text, optional, required, text};
use crate::path::Path;
use crate::rules;
use crate::tool::{CallContext, Tool, ToolError};

const PATH: &str = "Path of the value, such as vendor.name or items[2].price.";

pub(super) fn extract_fields() -> Tool {
    step_tool::<ExtractFields>(
        "extract_fields",
        "Saves fields of the document. Objects are merged with the saved fields; every other value, also an array, is replaced. \
         Example: {\"fields\":{\"vendor\":{\"name\":\"Acme\"}},\"confidences\":{\"vendor\":{\"name\":0.9}},\"citations\":\
         {\"vendor\":{\"name\":{\"page\":1,\"quote\":\"Acme Ltd\"}}}}. Result: result.",
        vec![
            required("fields", object_or_text("Nested fields.")).or_json_string(),
            required(
                "confidences",
                object_or_text("Object of the same shape, with a number from 0.0 to 1.0 for each value."),
            )
            .or_json_string(),
            optional(
                "citations",
                object_or_text(
                    "Object of the same shape, with page and quote (3 to 500 characters, copied exactly). Values \
                                may be omitted.",
                ),
            )
            .or_json_string(),
        ],
    )
}

pub(super) fn update_field() -> Tool {
    step_tool::<UpdateField>(
        "update_field",
        "Sets one saved value, or adds a member to an object or an item to the end of an array. Result: result.",
        vec![
            required("path", text(PATH)),
            required("value", anything("New value, as JSON.")),
            required("confidence", anything("Your confidence, a number from 0.0 to 1.0.")),
            optional(
                "citation",
                json!({ "type": "object", "description": "page and quote of the value, as in extract_fields." }),
            )
            .or_json_string(),
        ],
    )
}

pub(super) fn remove_field() -> Tool {
    step_tool::<RemoveField>(
        "remove_field",
        "Removes one saved value. The later items of an array move up. Result: result.",
        vec![required("path", text(PATH))],
    )
}

#[derive(Deserialize)]
struct ExtractFields {
    fields: Value,
    confidences: Value,
    citations: Option<Value>,
}

#[async_trait]
impl StepCall for ExtractFields {
    async fn step(&self, context: &CallContext, extraction: &Extraction) -> Result<AgentStep, ToolError> {
        if self.fields.as_object().is_none_or(serde_json::Map::is_empty) {
            return Err(ToolError::invalid(&["fields must be an object with at least one field".to_owned()]));
        }
        check_names("fields", &self.fields).map_err(|problem| ToolError::invalid(&[problem]))?;
        let checked = (confidences(&self.fields, &self.confidences), quotes(&self.fields, self.citations.as_ref()));
        let (confidences, quotes) = match checked {
            (Ok(confidences), Ok(quotes)) => (confidences, quotes),
            (confidences, quotes) => {
                let problems = [confidences.err(), quotes.err()].into_iter().flatten().flatten();
                return Err(ToolError::invalid(&problems.collect::<Vec<_>>()));
            }
        };
        let mut fields = Fields::of(extraction);
        fields.merge(&self.fields);
        fields.add_confidences(confidences);
        written(context, extraction, fields, quotes).await
    }

    fn result(&self, _: &Value) -> String {
        format!("Saved {} fields to database", self.fields.as_object().map_or(0, serde_json::Map::len))
    }

    fn current_values<'v>(&self, data: &'v Value) -> Vec<(String, Option<&'v Value>)> {
        self.fields.as_object().into_iter().flatten().map(|(name, _)| (name.clone(), data.get(name))).collect()
    }
}

#[derive(Deserialize)]
struct UpdateField {
    path: String,
    #[serde(default)]
    value: Value,
    confidence: Value,
    citation: Option<Value>,
}

#[async_trait]
impl StepCall for UpdateField {
    async fn step(&self, context: &CallContext, extraction: &Extraction) -> Result<AgentStep, ToolError> {
        let path: Path = self.path.parse()?;
        check_names("value", &self.value).map_err(|problem| ToolError::invalid(&[problem]))?;
        let confidence = confidence(&self.confidence).map_err(|problem| ToolError::invalid(&[problem]))?;
        let stated = self.citation.as_ref().map(quote).transpose();
        let stated = stated.map_err(|problem| ToolError::invalid(&[format!("citation: {problem}")]))?;
        let mut fields = Fields::of(extraction);
        fields.update(&path, self.value.clone())?;
        // The evidence applies to each value in the new value.
        let paths = selected(&fields.data, &self.path)?;
        fields.add_confidences(paths.iter().map(|path| (path.clone(), confidence)));
        let quotes = stated.into_iter().flat_map(|stated| paths.iter().map(move |path| (path.clone(), stated.clone())));
        let quotes = quotes.collect();
        written(context, extraction, fields, quotes).await
    }

    fn result(&self, _: &Value) -> String {
        format!("Updated '{}' = {} (confidence: {})", self.path, shown(&self.value), self.confidence)
    }

    fn current_values<'v>(&self, data: &'v Value) -> Vec<(String, Option<&'v Value>)> {
        vec![value_at(&self.path, data)]
    }
}

#[derive(Deserialize)]
struct RemoveField {
    path: String,
}

#[async_trait]
impl StepCall for RemoveField {
    async fn step(&self, context: &CallContext, extraction: &Extraction) -> Result<AgentStep, ToolError> {
        let mut fields = Fields::of(extraction);
        fields.remove(&self.path.parse()?)?;
        written(context, extraction, fields, BTreeMap::new()).await
    }

    fn result(&self, _: &Value) -> String {
        format!("Removed field at '{}'", self.path)
    }

    fn current_values<'v>(&self, data: &'v Value) -> Vec<(String, Option<&'v Value>)> {
        vec![value_at(&self.path, data)]
    }
}

fn value_at<'v>(path: &str, data: &'v Value) -> (String, Option<&'v Value>) {
    let value = path.parse::<Path>().and_then(|path| path.get(data));
    (path.to_owned(), value.ok())
}

/// Returns the step that writes fields, after the check of the quotes of the call.
async fn written(
    context: &CallContext,
    extraction: &Extraction,
    mut fields: Fields,
    quotes: BTreeMap<String, PageQuote>,
) -> Result<AgentStep, ToolError> {
    rules::check_data("fields", &fields.data)?;
    let document = document_of(context, extraction).await?;
    let (stores, org) = (&context.resources.stores, &context.principal.org);
    let CheckedQuotes { citations, missing } = check_quotes(stores, org, &document, &fields.data, quotes).await?;
    if !missing.is_empty() {
        return Err(ToolError::invalid(&missing));
    }
    // Citations of an earlier text keep its version, so that readers check all of them again.
    let text_generation = match fields.has_citations() {
        true => extraction.report.text_generation,
        false => document.text_generation,
    };
    fields.add_citations(citations);
    Ok(AgentStep::Write(fields.into_data(text_generation)))
}
