//! Single operations: change a value, the document or tags, and list resources.

use folio_types::notation::Style;
use serde_json::{Value, json};

use super::Context;
use crate::answer::{Answer, Call};
use crate::offline::fill::similarity;

/// Returns the next step. None: the message requests something else.
pub(super) fn next(context: &Context<'_>, message: &str) -> Option<Answer> {
    let lower = message.to_lowercase();
    if let Some(wanted) = change(message) {
        return Some(update(context, &wanted));
    }
    if let Some(answer) = listing(context, &lower) {
        return Some(answer);
    }
    let (tool, arguments) = if lower.contains("delete") && lower.contains("document") {
        ("delete_document", json!({}))
    } else if let Some(name) = name_after(message, "tag", &["create a tag", "create tag", "new tag", "make a tag"]) {
        ("create_tag", json!({"name": name}))
    } else if let Some(name) =
        name_after(message, "to", &["rename the document", "rename this document", "rename document"])
    {
        ("update_document", json!({"document_name": name}))
    } else {
        return None;
    };
    Some(once(context, tool, arguments))
}

/// Calls a tool once and reports its result.
fn once(context: &Context<'_>, tool: &str, arguments: Value) -> Answer {
    match context.steps.last(tool) {
        None if context.offers(tool) => Answer::calls("", vec![Call::new(tool, arguments)]),
        None => Answer::text(format!("I may not use `{tool}` here.")),
        Some(step) if step.is_error() => Answer::text(format!("`{tool}` did not work: {}", step.result_text())),
        Some(_) => Answer::text("Done."),
    }
}

/// Returns the name after one of these phrases and `word`, without quotes.
fn name_after(message: &str, word: &str, beginnings: &[&str]) -> Option<String> {
    let lower = message.to_lowercase();
    let at = beginnings.iter().find_map(|beginning| lower.find(beginning))?;
    let found = lower.get(at..)?.find(&format!("{word} "))? + at + word.len();
    let rest = message.get(found..)?.trim();
    let rest = ["called ", "named "].iter().find_map(|word| rest.strip_prefix(word)).unwrap_or(rest);
    let name = rest.trim_matches(|c: char| c.is_whitespace() || matches!(c, '"' | '\'' | '.' | '“' | '”' | '!'));
    (!name.is_empty()).then(|| name.to_owned())
}

fn listing(context: &Context<'_>, lower: &str) -> Option<Answer> {
    let is_list_request =
        ["list", "show", "which", "what"].iter().any(|word| lower.split_whitespace().next() == Some(word));
    let (tool, kind) = [
        ("list_schemas", "schemas"),
        ("list_prompts", "prompts"),
        ("list_tags", "tags"),
        ("list_documents", "documents"),
        ("list_llm_models", "models"),
    ]
    .into_iter()
    .find(|(tool, kind)| is_list_request && lower.contains(kind) && context.offers(tool))?;
    let Some(step) = context.steps.last(tool) else {
        return Some(Answer::calls("", vec![Call::new(tool, json!({}))]));
    };
    if step.is_error() {
        return Some(Answer::text(format!("`{tool}` did not work: {}", step.result_text())));
    }
    let items = step.result.get(kind).and_then(Value::as_array).cloned().unwrap_or_default();
    let name = |item: &Value| {
        ["name", "document_name", "model"].iter().find_map(|field| item.get(field)?.as_str()).map(str::to_owned)
    };
    let names: Vec<String> =
        items.iter().filter_map(|item| name(item).or_else(|| item.as_str().map(str::to_owned))).collect();
    Some(Answer::text(if names.is_empty() {
        format!("There are no {kind}.")
    } else {
        format!("There are {} {kind}: {}.", names.len(), names.join(", "))
    }))
}

struct Change {
    target: String,
    value: String,
}

/// Parses "set the total to 1,250".
fn change(message: &str) -> Option<Change> {
    let lower = message.to_lowercase();
    let polite = lower.trim_start().strip_prefix("please ").unwrap_or(lower.trim_start());
    let verb = polite.split_whitespace().next()?;
    if !["set", "change", "update", "correct", "fix", "replace", "make"].contains(&verb) || lower.len() != message.len()
    {
        return None;
    }
    let start = lower.find(verb)? + verb.len();
    let rest = message.get(start..)?;
    let (target, value) = [" to ", " = ", " with ", " as "].iter().find_map(|word| rest.rsplit_once(word))?;
    let words = target
        .split_whitespace()
        .filter(|word| !matches!(word.to_lowercase().as_str(), "the" | "field" | "value" | "of"));
    let target = words.collect::<Vec<_>>().join(" ");
    let value = value.trim().trim_end_matches(['.', '!']).trim_matches(['"', '\'', '“', '”']).to_owned();
    (!target.is_empty() && !value.is_empty()).then_some(Change { target, value })
}

/// Changes a value of the working extraction.
fn update(context: &Context<'_>, wanted: &Change) -> Answer {
    if let Some(step) = context.steps.last("update_extraction_field") {
        return Answer::text(match step.is_error() {
            true => format!("The value could not be changed: {}", step.result_text()),
            false => {
                let text = |name: &str| step.arguments.get(name).map_or(String::new(), Value::to_string);
                format!("Done: {} is now {}.", text("path").trim_matches('"'), text("value"))
            }
        });
    }
    let Some(extraction) = &context.view.extraction else {
        return Answer::text(
            "There is no extraction to change yet. Ask me to create a schema and a prompt and to extract.",
        );
    };
    if !context.offers("update_extraction_field") {
        return Answer::text("I may not change extractions here.");
    }
    let mut leaves = Vec::new();
    collect(extraction, &mut Vec::new(), &mut leaves);
    let is_target = |path: &[String]| path.join(".").eq_ignore_ascii_case(&wanted.target);
    let scored = leaves.iter().rev().map(|(path, value)| {
        let score = if is_target(path) { 200 } else { similarity(path, "", &wanted.target) };
        (score, path, *value)
    });
    match scored.max_by_key(|(score, ..)| *score).filter(|(score, ..)| *score >= 50) {
        Some((_, path, old)) => {
            // The user's message may be English, such as "1,250", regardless of the document's language.
            let style = context.reading.style;
            let style = Style { comma_decimal: style.comma_decimal && !wanted.value.contains(','), ..style };
            let number = style.number(&wanted.value).filter(|_| !old.is_string());
            let value = number.unwrap_or_else(|| wanted.value.clone().into());
            let arguments = json!({"path": path.join("."), "value": value});
            Answer::calls("", vec![Call::new("update_extraction_field", arguments)])
        }
        None => {
            let paths: Vec<String> = leaves.iter().map(|(path, _)| path.join(".")).take(30).collect();
            Answer::text(format!("I find no field like \"{}\". There are: {}.", wanted.target, paths.join(", ")))
        }
    }
}

/// Collects the leaves of a value with their paths.
fn collect<'v>(value: &'v Value, path: &mut Vec<String>, leaves: &mut Vec<(Vec<String>, &'v Value)>) {
    let mut inner = |name: String, value: &'v Value| {
        path.push(name);
        collect(value, path, leaves);
        path.pop();
    };
    match value {
        Value::Object(fields) => fields.iter().for_each(|(name, value)| inner(name.clone(), value)),
        Value::Array(items) => items.iter().enumerate().for_each(|(index, value)| inner(index.to_string(), value)),
        leaf => leaves.push((path.clone(), leaf)),
    }
}
