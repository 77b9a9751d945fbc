//! Extractions: the engine that runs a prompt over a document, shared by the tool and the service, and the tools.

mod edit;
mod engine;
mod fields;
mod message;
mod metered;
mod result;
mod run_tool;

use folio_types::journal::{WorkingChange, WorkingExtraction};
use folio_types::op::{OpResult, Target};
use serde_json::json;

pub use edit::edited;
pub use engine::{Extracted, Request, run};

use crate::arguments::{anything, object, optional, required, text};
use crate::tool::{Tool, ToolOutput};

/// The tools of this group.
pub(crate) fn tools() -> Vec<Tool> {
    vec![
        Tool::write(
            "run_extraction",
            "Runs a prompt over the conversation's document: a model reads the text, and its answer is held to the \
             prompt's schema and stored as the document's extraction. Gives the data.",
            object(vec![optional(
                "prompt_revid",
                text("The prompt revision, such as prm_….1. Left out: the prompt of the working state."),
            )]),
            run_tool::RunExtraction,
        )
        .calling_models(),
        Tool::read(
            "get_extraction_result",
            "Gives the extraction of the conversation's document: the working one, else the newest that is stored.",
            object(vec![optional("prompt_revid", text("Only an extraction by this prompt revision."))]),
            result::GetResult,
        ),
        Tool::write(
            "update_extraction_field",
            "Changes one value of the document's extraction. The result must still match the schema. Gives the data as \
             it is then.",
            object(vec![
                required("path", text("Where the value is, such as total, parties.0.name or items[0].amount.")),
                required(
                    "value",
                    anything("The new value, as JSON: a text, a number, true, null, a list or an object."),
                ),
            ]),
            fields::UpdateField,
        ),
    ]
}

/// What a write of this group gives: the model reads the data, and the working extraction follows.
fn output(target: &Target, result: OpResult) -> ToolOutput {
    match result {
        OpResult::Extraction { id, document, prompt, data } => {
            let content = json!({ "extraction_id": id, "document_id": document, "prompt_revid": prompt, "data": data });
            let change = WorkingChange {
                extraction: Some(WorkingExtraction { id, document, prompt, data }),
                ..Default::default()
            };
            ToolOutput { content, change }
        }
        OpResult::Deleted => ToolOutput::new(json!({ "deleted": target.to_string() })),
        other => ToolOutput::new(json!(other)),
    }
}
