//! Answers to questions about labelled values, and the answer to unknown requests.

use folio_types::notation::currency;

use super::Context;
use crate::answer::Answer;
use crate::offline::reading::{canonical, tokens};
use crate::offline::view;

const LISTED_MAX: usize = 40;

const ABOUT: &str = "I am Folio's offline model: fixed rules, no LLM. I can create a schema and a prompt for this document and extract \
                     (\"create a schema and a prompt for documents like this and extract\"), answer questions about labelled values \
                     (\"what is the total?\"), change a value (\"set the total to 1,250\"), and list schemas, prompts, tags and \
                     documents. For anything else connect a model: set OPENAI_API_KEY.";

/// Answers with values of the extraction and the document.
pub(super) fn answer(context: &Context<'_>, message: &str) -> Answer {
    if let Some(failed) = context.steps.newest().filter(|step| step.is_error()) {
        return Answer::text(format!("`{}` did not work: {}", failed.tool, failed.result_text()));
    }
    let is_requested = requested(message);
    let mut lines: Vec<String> = Vec::new();
    for (name, value) in context.view.extraction.iter().filter_map(|data| data.as_object()).flatten() {
        if is_requested(name) && !value.is_null() {
            lines.push(format!("{name} is {} (in the extraction).", value.to_string().trim_matches('"')));
        }
    }
    for field in context.reading.fields.iter().filter(|field| is_requested(&field.label)) {
        lines.push(format!("{}: {} (as printed in {}).", field.label, field.value, context.document_name()));
    }
    if !lines.is_empty() {
        return Answer::text(lines.join("\n"));
    }
    let overview = ["summar", "what is this", "what does", "overview", "fields", "values", "about this", "describe"];
    if overview.iter().any(|word| message.to_lowercase().contains(word)) && !context.text.trim().is_empty() {
        return Answer::text(overview_of(context));
    }
    match context.request.images() {
        [] => Answer::text(ABOUT),
        images => Answer::text(format!(
            "Your message has {} images with the digests {}. I am an offline model of fixed rules and cannot see what they show.",
            images.len(),
            images.iter().map(|digest| digest.chars().take(8).collect::<String>()).collect::<Vec<_>>().join(", ")
        )),
    }
}

/// Returns a test of labels: true if the message contains the words of a label, or a name with the same meaning.
pub(super) fn requested(message: &str) -> impl Fn(&str) -> bool + use<> {
    let words = tokens(message);
    let names: Vec<&'static str> = words.iter().filter_map(|word| canonical(word)).collect();
    move |label| names_label(&words, label) || canonical(label).is_some_and(|name| names.contains(&name))
}

/// Returns true if the words contain every word of a label, except the currency of its value ("Total EUR").
fn names_label(words: &[String], label: &str) -> bool {
    let mut label = tokens(label);
    label.retain(|word| currency(&word.to_uppercase()).is_none());
    !label.is_empty() && label.iter().all(|word| words.contains(word))
}

/// Lists the values of the document.
fn overview_of(context: &Context<'_>) -> String {
    let mut lines = vec![format!("By my rules (I am an offline model, no LLM) {} says:", context.document_name())];
    let fields = context.reading.fields.iter().take(LISTED_MAX);
    lines.extend(fields.map(|field| format!("- {}: {}", field.label, field.value)));
    let tables = context.reading.tables.iter();
    lines.extend(tables.map(|table| format!("- a table of {} rows: {}", table.rows.len(), table.columns.join(", "))));
    if let Some(data) = &context.view.extraction {
        lines.push("The extraction:".to_owned());
        lines.extend(view::format_leaves(data));
    }
    if lines.len() == 1 {
        lines.push("- nothing that has a label".to_owned());
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_is_named_without_its_currency() {
        assert!(names_label(&tokens("what is the total?"), "Total EUR"));
        assert!(!names_label(&tokens("what is the due date?"), "Total EUR"));
        assert!(!names_label(&tokens("what is it?"), "EUR"));
    }
}
