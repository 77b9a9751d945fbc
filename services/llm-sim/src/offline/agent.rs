//! Answers of the offline model in a chat: the steps from a document to structured data, and questions about labels.

use serde_json::{Value, json};

use super::reading::{self, Reading, words};
use super::schema::{Proposal, propose};
use super::view::{self, View};
use crate::answer::{Answer, Call, Thinking};
use crate::request::{ChatRequest, Role};

const ABOUT: &str = "I am Folio's offline model: fixed rules, no LLM. I can create a schema and a prompt for this document and extract \
                     (\"create a schema and a prompt for documents like this and extract\"), and answer questions about labelled \
                     values (\"what is the total?\"). For anything else connect a model: set OPENAI_API_KEY.";
const CHECK: &str =
    "(I am Folio's offline model: fixed rules that read labelled values, no LLM. Please check the values.)";

/// Input of a decision: the request, the parsed system message, the read document, the previous calls.
struct Context<'a> {
    request: &'a ChatRequest,
    view: View,
    reading: Reading,
    /// Tools called since the last user message with their results (text if a result is not JSON), oldest first.
    steps: Vec<(&'a str, Value)>,
}

/// Returns the next step.
pub(super) fn answer(request: &ChatRequest) -> Answer {
    let since = request.messages.iter().rposition(|message| message.role == Role::User).unwrap_or(0);
    let results = request.results().into_iter().filter(|result| result.index > since);
    let parse = |text: &str| serde_json::from_str(text).unwrap_or_else(|_| text.into());
    let steps = results.map(|result| (result.tool, parse(result.content))).collect();
    let view = View::of(&request.system());
    let text = view.text.clone().unwrap_or_default();
    let context = Context { request, reading: reading::read(&text), view, steps };
    if let Some((tool, _)) = context.steps.iter().find(|(_, result)| is_rejection(result)) {
        return Answer::text(format!(
            "You rejected `{tool}`, so I stopped there and changed nothing by it. Tell me what you want instead; I am an offline \
             model of fixed rules, so I cannot work out another way by myself."
        ));
    }
    let said = request.user().to_lowercase();
    let has = |names: &[&str]| names.iter().any(|name| said.contains(name));
    let make = has(&["create", "make", "build", "propose", "generate"]);
    let extract = has(&["extract"]) && !said.trim_end().ends_with('?');
    let define = make && has(&["schema", "prompt"]);
    if define || extract {
        return context.create(define || context.view.prompt_revid.is_none(), extract, &text);
    }
    context.question(&said)
}

/// Returns true if the user rejected the call. Only a result that starts with the phrase counts, because a document may
/// contain it.
fn is_rejection(result: &Value) -> bool {
    let said = result.as_str().or_else(|| result.get("error")?.as_str());
    said.is_some_and(|said| said.starts_with("User rejected this action"))
}

/// Returns the error of a result. None: the call succeeded.
fn error(result: &Value) -> Option<String> {
    let error = if result.is_string() { result } else { result.get("error")? };
    let text = error.get("message").unwrap_or(error);
    Some(text.as_str().map_or_else(|| text.to_string(), str::to_owned).chars().take(400).collect())
}

impl Context<'_> {
    /// Returns the next call for a schema and a prompt (if `define`) and an extraction (if `extract`), or the summary.
    fn create(&self, define: bool, extract: bool, text: &str) -> Answer {
        if text.trim().is_empty() {
            return Answer::text("The document has no text that I can read, so there is nothing to make a schema of.");
        }
        if define && self.reading.fields.is_empty() && self.reading.tables.is_empty() {
            return Answer::text(format!(
                "I find no labelled value and no table in {}, so there is nothing that a schema could be made of, and I created \
                 none. I am Folio's offline model: fixed rules, no LLM. A model that reads prose may do better: set \
                 OPENAI_API_KEY.",
                self.document_name()
            ));
        }
        let proposal = propose(&self.reading, text);
        let defined = if define { self.define(&proposal) } else { None };
        let extracted = || if extract { self.extraction() } else { None };
        defined.or_else(extracted).unwrap_or_else(|| Answer::text(self.summary(define, extract, &proposal)))
    }

    /// Returns the next call for a schema and a prompt. None: both exist.
    fn define(&self, proposal: &Proposal) -> Option<Answer> {
        let Proposal { kind, format, prompt } = proposal;
        if self.result("help_schemas").is_none() && self.request.offers("help_schemas") {
            let calls = ["help_schemas", "help_prompts"].map(|tool| Call::new(tool, json!({})));
            let mut answer = Answer::calls("I read up on schemas and prompts first.", calls.to_vec());
            let (fields, tables) = (self.reading.fields.len(), self.reading.tables.len());
            let text = format!(
                "It looks like: {kind}. Labelled values: {fields}. Tables: {tables}. First the help, then the schema."
            );
            answer.thinking = vec![Thinking { text, ..Thinking::default() }];
            return Some(answer);
        }
        let check =
            || self.call("validate_schema", "I check the schema before I create it.", json!({"schema": format}));
        let invalid = || {
            let checked = self.result("validate_schema").filter(|checked| checked["valid"] != true)?;
            Some(Answer::text(format!("The schema that my rules made is not accepted: {checked}")))
        };
        let schema = || self.named("create_schema", "schema", kind, json!({"response_format": format}));
        let schema_id = self.result("create_schema").map(|created| created["schema_id"].clone());
        let arguments = json!({"content": prompt, "schema_id": schema_id});
        let prompt = || self.named("create_prompt", "prompt", &format!("{kind} extraction"), arguments);
        check().or_else(invalid).or_else(schema).or_else(prompt)
    }

    fn extraction(&self) -> Option<Answer> {
        let created = self.result("create_prompt").and_then(|created| created["prompt_revid"].as_str());
        let arguments = match created.or(self.view.prompt_revid.as_deref()) {
            Some(revid) => json!({"prompt_revid": revid}),
            None => json!({}),
        };
        self.call("run_extraction", "I run the extraction.", arguments)
    }

    /// Returns the call that creates a resource, under another name after a failure. None: it was created.
    fn named(&self, tool: &str, what: &str, name: &str, mut arguments: Value) -> Option<Answer> {
        let tries = self.steps.iter().filter(|(called, _)| *called == tool).count();
        let has_failed = tries == 1 && self.result(tool).and_then(error).is_some();
        let name = if has_failed { format!("{name} (offline)") } else { name.to_owned() };
        if let Some(arguments) = arguments.as_object_mut() {
            arguments.insert("name".to_owned(), name.as_str().into());
        }
        let text = format!("I create the {what} \"{name}\".");
        if has_failed {
            return Some(Answer::calls(text, vec![Call::new(tool, arguments)]));
        }
        self.call(tool, &text, arguments)
    }

    /// Returns the call of a tool, or the explanation of its failure. None: the tool was called and succeeded.
    fn call(&self, tool: &str, text: &str, arguments: Value) -> Option<Answer> {
        match self.result(tool) {
            None if self.request.offers(tool) => Some(Answer::calls(text, vec![Call::new(tool, arguments)])),
            None => Some(Answer::text(format!("I may not use `{tool}` here."))),
            Some(result) => error(result).map(|error| Answer::text(format!("`{tool}` did not work: {error}"))),
        }
    }

    /// Returns the last result of a tool.
    fn result(&self, tool: &str) -> Option<&Value> {
        self.steps.iter().rev().find(|(called, _)| *called == tool).map(|(_, result)| result)
    }

    /// Returns a noun phrase for the document.
    fn document_name(&self) -> String {
        self.view.file_name.clone().unwrap_or_else(|| "the document".to_owned())
    }

    /// Summarizes the created resources and the extraction.
    fn summary(&self, define: bool, extract: bool, proposal: &Proposal) -> String {
        let (mut lines, document) = (Vec::new(), self.document_name());
        if define {
            lines.push(format!("Schema \"{}\" and its fields come from the labels in {document}.", proposal.kind));
            lines.push("The prompt is linked to it and serves for documents like this.".to_owned());
        }
        if let Some(result) = self.result("run_extraction").filter(|_| extract) {
            let data = self.view.extraction.as_ref().or_else(|| result.get("data")).unwrap_or(result);
            lines.push(format!("Extracted from {document}:"));
            lines.extend(view::listed(data));
        }
        lines.push(CHECK.to_owned());
        lines.join("\n")
    }

    /// Answers a question by the values whose labels it contains.
    fn question(&self, said: &str) -> Answer {
        let said = words(said);
        let is_asked = |label: &str| words(label).iter().all(|word| said.contains(word));
        let asked = self.reading.fields.iter().filter(|(label, _)| is_asked(label));
        let document = self.document_name();
        let lines: Vec<String> =
            asked.map(|(label, value)| format!("{label}: {value} (as printed in {document}).")).collect();
        Answer::text(if lines.is_empty() { ABOUT.to_owned() } else { lines.join("\n") })
    }
}
