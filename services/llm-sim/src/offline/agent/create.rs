//! The way from a document to structured data: help, a schema that is validated first, a prompt, the extraction.

use serde_json::{Value, json};

use super::Desk;
use crate::answer::{Answer, Call, Thinking};
use crate::offline::schema::{Proposal, propose};
use crate::offline::view;

/// How often one write is tried before the model gives up.
const TRIES: usize = 2;

/// What the person wants to have at the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Wish {
    schema: bool,
    prompt: bool,
    extraction: bool,
}

impl Wish {
    /// Reads it from what the person said; none if they want something else.
    pub(super) fn of(said: &str, desk: &Desk<'_>) -> Option<Self> {
        let said = said.to_lowercase();
        let has = |words: &[&str]| words.iter().any(|word| said.contains(word));
        let making =
            ["create", "make", "build", "set up", "propose", "generate", "design", "erstelle", "crée", "crea "];
        let make = has(&making);
        let extraction = has(&["extract", "run the prompt", "run it", "extrahier", "extrai", "extrae"])
            && !said.trim_end().ends_with('?');
        let schema = make && has(&["schema", "schéma"]);
        let prompt = make && has(&["prompt"]);
        match (schema, prompt, extraction) {
            (false, false, false) => None,
            // To extract with nothing to extract by, both are needed.
            (false, false, true) => {
                let ready = desk.view.prompt_revid.is_some() && desk.steps.done("create_prompt").is_none();
                Some(Self { schema: !ready, prompt: !ready, extraction: true })
            }
            (schema, prompt, extraction) => {
                Some(Self { schema: schema || (prompt && extraction), prompt: prompt || extraction, extraction })
            }
        }
    }
}

/// The next step towards the wish.
pub(super) fn next(desk: &Desk<'_>, wish: &Wish) -> Answer {
    if desk.text.trim().is_empty() {
        return without_text(desk);
    }
    if wish.schema && desk.reading.fields.is_empty() && desk.reading.tables.is_empty() {
        return Answer::text(format!(
            "I find no labelled value and no table in {}, so there is nothing that a schema could be made of, and I created \
             none. I am Folio's offline model: fixed rules, no LLM. A model that reads prose may do better: set \
             OPENAI_API_KEY.",
            desk.document_name()
        ));
    }
    let proposal = propose(&desk.reading, desk.view.file_name.as_deref(), &desk.text);
    let steps = [
        wish.schema.then_some(schema as fn(&Desk<'_>, &Proposal) -> Option<Answer>),
        wish.prompt.then_some(prompt),
        wish.extraction.then_some(extraction),
    ];
    let open = steps.into_iter().flatten().find_map(|step| step(desk, &proposal));
    open.unwrap_or_else(|| Answer::text(summary(desk, wish, &proposal)))
}

fn without_text(desk: &Desk<'_>) -> Answer {
    if desk.offers("get_ocr_text") && desk.steps.last("get_ocr_text").is_none() && desk.view.document.is_some() {
        return Answer::calls("Let me look whether the text is there.", vec![Call::new("get_ocr_text", json!({}))]);
    }
    Answer::text("The document has no text that I can read, so there is nothing to make a schema of.")
}

/// What is left to do for the schema.
fn schema(desk: &Desk<'_>, proposal: &Proposal) -> Option<Answer> {
    if desk.steps.done("create_schema").or_else(|| desk.steps.done("update_schema")).is_some() {
        return None;
    }
    if let Some(help) = help(desk, proposal) {
        return Some(help);
    }
    match desk.steps.last("validate_schema") {
        None if desk.offers("validate_schema") => {
            let call = Call::new("validate_schema", json!({"schema": proposal.format}));
            return Some(Answer::calls("I check the schema before I create it.", vec![call]));
        }
        Some(checked) if checked.result.get("valid") != Some(&Value::Bool(true)) => {
            return Some(Answer::text(format!("The schema that my rules made is not accepted: {}", checked.told())));
        }
        _ => {}
    }
    if !desk.offers("create_schema") {
        return Some(Answer::text("I may not create schemas here."));
    }
    match desk.steps.failed("create_schema") {
        None => {
            let arguments = json!({"name": proposal.kind, "response_format": proposal.format});
            let text = format!("I create the schema \"{}\".", proposal.kind);
            Some(Answer::calls(text, vec![Call::new("create_schema", arguments)]))
        }
        Some(failed) => Some(another_schema(desk, proposal, &failed.told())),
    }
}

/// Creating failed: a schema of that name is updated if there is one, else another name is tried once.
fn another_schema(desk: &Desk<'_>, proposal: &Proposal, told: &str) -> Answer {
    if desk.steps.failed("update_schema").is_some() || desk.steps.count("create_schema") >= TRIES {
        return Answer::text(format!("The schema could not be created: {told}"));
    }
    let named = |schema: &&Value| {
        let name = schema.get("name").and_then(Value::as_str);
        name.is_some_and(|name| name.eq_ignore_ascii_case(&proposal.kind))
    };
    let taken = told.contains("NAME_TAKEN") || told.to_lowercase().contains("name");
    match desk.steps.last("list_schemas") {
        None if taken && desk.offers("list_schemas") => {
            let call = Call::new("list_schemas", json!({"name_search": proposal.kind}));
            Answer::calls("The name is taken; I look which schema has it.", vec![call])
        }
        Some(listed) if taken && desk.offers("update_schema") => {
            let schemas = listed.result.get("schemas").and_then(Value::as_array);
            let found =
                schemas.and_then(|schemas| schemas.iter().find(named)).and_then(|schema| schema.get("schema_id"));
            match found {
                Some(id) => {
                    let arguments = json!({"schema_id": id, "response_format": proposal.format});
                    Answer::calls("I make a new version of it.", vec![Call::new("update_schema", arguments)])
                }
                None => renamed(proposal),
            }
        }
        _ => renamed(proposal),
    }
}

fn renamed(proposal: &Proposal) -> Answer {
    let arguments = json!({"name": format!("{} (offline)", proposal.kind), "response_format": proposal.format});
    Answer::calls("I try another name.", vec![Call::new("create_schema", arguments)])
}

/// Help comes before anything is created, once.
fn help(desk: &Desk<'_>, proposal: &Proposal) -> Option<Answer> {
    let missing = |tool: &&str| desk.offers(tool) && desk.steps.last(tool).is_none();
    let calls: Vec<Call> = ["help_schemas", "help_prompts"]
        .iter()
        .filter(|tool| missing(tool))
        .map(|tool| Call::new(*tool, json!({})))
        .collect();
    if calls.is_empty() {
        return None;
    }
    let (fields, tables) = (desk.reading.fields.len(), desk.reading.tables.len());
    let thought = format!(
        "It looks like: {}. Labelled values: {fields}. Tables: {tables}. First the help, then the schema.",
        proposal.kind
    );
    let mut answer = Answer::calls("I read up on schemas and prompts first.", calls);
    answer.thinking = vec![Thinking { text: thought, ..Thinking::default() }];
    Some(answer)
}

/// What is left to do for the prompt.
fn prompt(desk: &Desk<'_>, proposal: &Proposal) -> Option<Answer> {
    if desk.steps.done("create_prompt").is_some() {
        return None;
    }
    if !desk.offers("create_prompt") {
        return Some(Answer::text("I may not create prompts here."));
    }
    let made = desk.steps.done("create_schema").or_else(|| desk.steps.done("update_schema"));
    let name = format!("{} extraction", proposal.kind);
    let name = match desk.steps.failed("create_prompt") {
        Some(failed) if desk.steps.count("create_prompt") >= TRIES => {
            return Some(Answer::text(format!("The prompt could not be created: {}", failed.told())));
        }
        Some(_) => format!("{name} (offline)"),
        None => name,
    };
    let mut arguments = json!({"name": name, "content": proposal.prompt});
    let id = made.and_then(|step| {
        step.get("schema_id").or_else(|| step.get("schema_revid")?.rsplit_once('.').map(|(id, _)| id))
    });
    if let (Value::Object(fields), Some(id)) = (&mut arguments, id) {
        fields.insert("schema_id".to_owned(), id.into());
    }
    Some(Answer::calls(format!("I create the prompt \"{name}\"."), vec![Call::new("create_prompt", arguments)]))
}

/// What is left to do for the extraction.
fn extraction(desk: &Desk<'_>, _: &Proposal) -> Option<Answer> {
    if desk.steps.done("run_extraction").is_some() {
        return None;
    }
    if !desk.offers("run_extraction") {
        return Some(Answer::text("I may not run extractions here."));
    }
    if let Some(failed) = desk.steps.failed("run_extraction").filter(|_| desk.steps.count("run_extraction") >= TRIES) {
        return Some(Answer::text(format!("The extraction failed: {}", failed.told())));
    }
    let made = desk.steps.done("create_prompt").and_then(|step| step.get("prompt_revid"));
    let arguments = match made.or(desk.view.prompt_revid.as_deref()) {
        Some(revid) => json!({"prompt_revid": revid}),
        None => json!({}),
    };
    Some(Answer::calls("I run the extraction.", vec![Call::new("run_extraction", arguments)]))
}

/// What was done, and what came out.
fn summary(desk: &Desk<'_>, wish: &Wish, proposal: &Proposal) -> String {
    let mut lines = Vec::new();
    if wish.schema {
        lines.push(format!(
            "Schema \"{}\" and its fields come from the labels in {}.",
            proposal.kind,
            desk.document_name()
        ));
    }
    if wish.prompt {
        lines.push("The prompt is linked to it and serves for documents like this.".to_owned());
    }
    if let Some(step) = desk.steps.done("run_extraction").filter(|_| wish.extraction) {
        let inner =
            ["extraction", "data", "result"].iter().find_map(|name| step.result.get(name).filter(|v| v.is_object()));
        let data = desk.view.extraction.as_ref().or(inner).unwrap_or(&step.result);
        lines.push(format!("Extracted from {}:", desk.document_name()));
        lines.extend(view::listed(data));
    }
    lines.push(
        "(I am Folio's offline model: fixed rules that read labelled values, no LLM. Please check the values.)"
            .to_owned(),
    );
    lines.join("\n")
}
