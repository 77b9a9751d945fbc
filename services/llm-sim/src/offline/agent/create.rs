//! The steps from a document to structured data: a schema and a prompt with the extraction in one response; call by call
//! after a failure; a schema alone after help and validation.

use serde_json::{Value, json};

use super::Context;
use crate::answer::{Answer, Call, Thinking};
use crate::offline::schema::{Proposal, propose};
use crate::offline::view;

/// Maximum attempts of a write.
const ATTEMPTS_MAX: usize = 2;
/// Maximum number of characters of the name of a document in another name.
const NAME_CHARS: usize = 60;

/// Requested results.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Goal {
    schema: bool,
    prompt: bool,
    extraction: bool,
}

impl Goal {
    /// Parses the user's message. None: it requests something else.
    pub(super) fn of(message: &str, context: &Context<'_>) -> Option<Self> {
        let message = message.to_lowercase();
        let has = |words: &[&str]| words.iter().any(|word| message.contains(word));
        let verbs = ["create", "make", "build", "set up", "propose", "generate", "design", "erstelle", "crée", "crea "];
        let is_creation = has(&verbs);
        let extraction = has(&["extract", "run the prompt", "run it", "extrahier", "extrai", "extrae"])
            && !message.trim_end().ends_with('?');
        let schema = is_creation && has(&["schema", "schéma"]);
        let prompt = is_creation && has(&["prompt"]);
        match (schema, prompt, extraction) {
            (false, false, false) => None,
            // An extraction needs a schema and a prompt.
            (false, false, true) => {
                let ready =
                    context.view.prompt_revid.is_some() && context.steps.last_success("create_prompt").is_none();
                Some(Self { schema: !ready, prompt: !ready, extraction: true })
            }
            (schema, prompt, extraction) => {
                Some(Self { schema: schema || (prompt && extraction), prompt: prompt || extraction, extraction })
            }
        }
    }
}

pub(super) fn next(context: &Context<'_>, goal: &Goal) -> Answer {
    if context.text.trim().is_empty() {
        return without_text(context);
    }
    if goal.schema && context.reading.fields.is_empty() && context.reading.tables.is_empty() {
        return Answer::text(format!(
            "I find no labelled value and no table in {}, so there is nothing that a schema could be made of, and I created \
             none. I am Folio's offline model: fixed rules, no LLM. A model that reads prose may do better: set \
             OPENAI_API_KEY.",
            context.document_name()
        ));
    }
    let proposal = propose(&context.reading, context.view.file_name.as_deref(), &context.text);
    if let Some(answer) = all_at_once(context, goal, &proposal) {
        return answer;
    }
    let steps = [
        goal.schema.then_some(schema as fn(&Context<'_>, &Proposal) -> Option<Answer>),
        goal.prompt.then_some(prompt),
        goal.extraction.then_some(extraction),
    ];
    let open = steps.into_iter().flatten().find_map(|step| step(context, &proposal));
    open.unwrap_or_else(|| Answer::text(summary(context, goal, &proposal)))
}

/// Creates the schema and the prompt, and runs the extraction if it is requested, in one response. Each call refers to the
/// result of the call before it. None: a call was made before, or a tool is not offered.
fn all_at_once(context: &Context<'_>, goal: &Goal, proposal: &Proposal) -> Option<Answer> {
    let prompt = prompt_name(proposal);
    let mut calls = vec![
        Call::new("create_schema", json!({"name": proposal.kind, "response_format": proposal.format})),
        Call::new(
            "create_prompt",
            json!({"name": prompt, "content": proposal.prompt, "schema_id": "$create_schema.schema_id"}),
        ),
    ];
    let mut text = format!("I create the schema \"{}\" and the prompt \"{prompt}\".", proposal.kind);
    if goal.extraction {
        calls.push(Call::new("run_extraction", json!({"prompt_revid": "$create_prompt.prompt_revid"})));
        text.push_str(" Then I run the extraction.");
    }
    let is_new = |call: &Call| context.offers(&call.name) && context.steps.last(&call.name).is_none();
    if !goal.schema || !goal.prompt || context.steps.last("update_schema").is_some() || !calls.iter().all(is_new) {
        return None;
    }
    let mut answer = Answer::calls(text, calls);
    answer.thinking = thinking(context, proposal, "Each call uses the id that the call before it returns.");
    Some(answer)
}

fn thinking(context: &Context<'_>, proposal: &Proposal, plan: &str) -> Vec<Thinking> {
    let (fields, tables) = (context.reading.fields.len(), context.reading.tables.len());
    let text = format!("It looks like: {}. Labelled values: {fields}. Tables: {tables}. {plan}", proposal.kind);
    vec![Thinking { text, ..Thinking::default() }]
}

fn prompt_name(proposal: &Proposal) -> String {
    format!("{} extraction", proposal.kind)
}

fn without_text(context: &Context<'_>) -> Answer {
    if context.offers("get_ocr_text") && context.steps.last("get_ocr_text").is_none() && context.view.document.is_some()
    {
        return Answer::calls("Let me look whether the text is there.", vec![Call::new("get_ocr_text", json!({}))]);
    }
    Answer::text("The document has no text that I can read, so there is nothing to make a schema of.")
}

/// Returns the next step for the schema. None: it exists.
fn schema(context: &Context<'_>, proposal: &Proposal) -> Option<Answer> {
    if context.steps.last_success("create_schema").or_else(|| context.steps.last_success("update_schema")).is_some() {
        return None;
    }
    let is_first = context.steps.last("create_schema").is_none();
    if let Some(help) = help(context, proposal).filter(|_| is_first) {
        return Some(help);
    }
    match context.steps.last("validate_schema") {
        None if is_first && context.offers("validate_schema") => {
            let call = Call::new("validate_schema", json!({"response_format": proposal.format}));
            return Some(Answer::calls("I check the schema before I create it.", vec![call]));
        }
        Some(checked) if checked.result.get("valid") != Some(&Value::Bool(true)) => {
            return Some(Answer::text(format!(
                "The schema that my rules made is not accepted: {}",
                checked.result_text()
            )));
        }
        _ => {}
    }
    if !context.offers("create_schema") {
        return Some(Answer::text("I may not create schemas here."));
    }
    match context.steps.last_failure("create_schema") {
        None => {
            let arguments = json!({"name": proposal.kind, "response_format": proposal.format});
            let text = format!("I create the schema \"{}\".", proposal.kind);
            Some(Answer::calls(text, vec![Call::new("create_schema", arguments)]))
        }
        Some(failed) => Some(another_schema(context, proposal, &failed.result_text())),
    }
}

/// Handles a failed creation: updates the schema that has the name, otherwise, or if the update fails, tries another name once.
fn another_schema(context: &Context<'_>, proposal: &Proposal, reason: &str) -> Answer {
    if context.steps.count("create_schema") >= ATTEMPTS_MAX {
        return Answer::text(format!("The schema could not be created: {reason}"));
    }
    if context.steps.last_failure("update_schema").is_some() {
        return renamed(context, proposal);
    }
    let has_name = |schema: &&Value| {
        let name = schema.get("name").and_then(Value::as_str);
        name.is_some_and(|name| name.eq_ignore_ascii_case(&proposal.kind))
    };
    let is_name_taken = reason.contains("NAME_TAKEN") || reason.to_lowercase().contains("name");
    match context.steps.last("list_schemas") {
        None if is_name_taken && context.offers("list_schemas") => {
            let call = Call::new("list_schemas", json!({"name_search": proposal.kind}));
            Answer::calls("The name is taken; I look which schema has it.", vec![call])
        }
        Some(listed) if is_name_taken && context.offers("update_schema") => {
            let schemas = listed.result.get("schemas").and_then(Value::as_array);
            let found =
                schemas.and_then(|schemas| schemas.iter().find(has_name)).and_then(|schema| schema.get("schema_id"));
            match found {
                Some(id) => {
                    let arguments = json!({"schema_id": id, "response_format": proposal.format});
                    Answer::calls("I make a new version of it.", vec![Call::new("update_schema", arguments)])
                }
                None => renamed(context, proposal),
            }
        }
        _ => renamed(context, proposal),
    }
}

fn renamed(context: &Context<'_>, proposal: &Proposal) -> Answer {
    let arguments = json!({"name": another_name(context, &proposal.kind), "response_format": proposal.format});
    Answer::calls("I try another name.", vec![Call::new("create_schema", arguments)])
}

/// Returns a name that contains the name of the document, because other documents of the same kind use the first name.
fn another_name(context: &Context<'_>, name: &str) -> String {
    let document: String = context.document_name().chars().take(NAME_CHARS).collect();
    format!("{name} ({document})")
}

/// Calls the help tools once, before the first creation.
fn help(context: &Context<'_>, proposal: &Proposal) -> Option<Answer> {
    let is_needed = |tool: &&str| context.offers(tool) && context.steps.last(tool).is_none();
    let calls: Vec<Call> = ["help_schemas", "help_prompts"]
        .iter()
        .filter(|tool| is_needed(tool))
        .map(|tool| Call::new(*tool, json!({})))
        .collect();
    if calls.is_empty() {
        return None;
    }
    let mut answer = Answer::calls("I read up on schemas and prompts first.", calls);
    answer.thinking = thinking(context, proposal, "First the help, then the schema.");
    Some(answer)
}

/// Returns the next step for the prompt. None: it exists.
fn prompt(context: &Context<'_>, proposal: &Proposal) -> Option<Answer> {
    if context.steps.last_success("create_prompt").is_some() {
        return None;
    }
    if !context.offers("create_prompt") {
        return Some(Answer::text("I may not create prompts here."));
    }
    let created = context.steps.last_success("create_schema").or_else(|| context.steps.last_success("update_schema"));
    let name = prompt_name(proposal);
    let name = match context.steps.last_failure("create_prompt") {
        Some(failed) if context.steps.count("create_prompt") >= ATTEMPTS_MAX => {
            return Some(Answer::text(format!("The prompt could not be created: {}", failed.result_text())));
        }
        Some(_) => another_name(context, &name),
        None => name,
    };
    let mut arguments = json!({"name": name, "content": proposal.prompt});
    let id = created.and_then(|step| {
        step.get("schema_id").or_else(|| step.get("schema_revid")?.rsplit_once('.').map(|(id, _)| id))
    });
    if let (Value::Object(fields), Some(id)) = (&mut arguments, id) {
        fields.insert("schema_id".to_owned(), id.into());
    }
    Some(Answer::calls(format!("I create the prompt \"{name}\"."), vec![Call::new("create_prompt", arguments)]))
}

/// Returns the next step for the extraction. None: it is done.
fn extraction(context: &Context<'_>, _: &Proposal) -> Option<Answer> {
    if context.steps.last_success("run_extraction").is_some() {
        return None;
    }
    if !context.offers("run_extraction") {
        return Some(Answer::text("I may not run extractions here."));
    }
    if let Some(failed) =
        context.steps.last_failure("run_extraction").filter(|_| context.steps.count("run_extraction") >= ATTEMPTS_MAX)
    {
        return Some(Answer::text(format!("The extraction failed: {}", failed.result_text())));
    }
    let created = context.steps.last_success("create_prompt").and_then(|step| step.get("prompt_revid"));
    let arguments = match created.or(context.view.prompt_revid.as_deref()) {
        Some(revid) => json!({"prompt_revid": revid}),
        None => json!({}),
    };
    Some(Answer::calls("I run the extraction.", vec![Call::new("run_extraction", arguments)]))
}

/// Summarizes the created resources and the extraction.
fn summary(context: &Context<'_>, goal: &Goal, proposal: &Proposal) -> String {
    let mut lines = Vec::new();
    if goal.schema {
        lines.push(format!(
            "Schema \"{}\" and its fields come from the labels in {}.",
            proposal.kind,
            context.document_name()
        ));
    }
    if goal.prompt {
        lines.push("The prompt is linked to it and serves for documents like this.".to_owned());
    }
    if let Some(step) = context.steps.last_success("run_extraction").filter(|_| goal.extraction) {
        let inner =
            ["extraction", "data", "result"].iter().find_map(|name| step.result.get(name).filter(|v| v.is_object()));
        let data = context.view.extraction.as_ref().or(inner).unwrap_or(&step.result);
        let document = context.document_name();
        match step.get("job_id") {
            Some(job) => lines.push(format!("The extraction of {document} runs in the background as job {job}.")),
            None => {
                lines.push(format!("Extracted from {document}:"));
                lines.extend(view::format_leaves(data));
            }
        }
    }
    lines.push(
        "(I am Folio's offline model: fixed rules that read labelled values, no LLM. Please check the values.)"
            .to_owned(),
    );
    lines.join("\n")
}
