//! The tool `dictionary_upsert`. It never changes a meaning that a person entered or confirmed, whatever the text of a document
//! requests. The tool sets the provenance and the source document, not the model.

use async_trait::async_trait;
use folio_resources::{
    DISAMBIGUATION_CHARS, DictionaryEntry, DictionaryEntryChange, Document, ENTRY_TAG_CHARS, ENTRY_TAGS_MAX,
    EXPANSION_CHARS, NewDictionaryEntry, Provenance, TERM_CHARS, term_key,
};
use folio_types::DocumentId;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{WRITE_TOOL, run_bounds};
use crate::arguments::{self, list_of_text, optional, required, text};
use crate::call::{WriteCall, write_tool};
use crate::subject::{self, ToolResource as _};
use crate::tool::{CallContext, Plan, Tool, ToolError};

pub(super) fn tool() -> Tool {
    let confidence = "Your confidence from 0 to 1, if you inferred the meaning. Omit it if the document or the user states the meaning.";
    let tags = format!(
        "Short labels such as a region or a business unit, at most {ENTRY_TAG_CHARS} characters each. Added to those of the \
         entry. Default: none."
    );
    write_tool::<Upsert>(
        WRITE_TOOL,
        "Creates the entry of a term in the dictionary of the organization, or replaces the meaning of its entry. Call \
         dictionary_lookup first. Fails if a person entered or confirmed the meaning of the term. The document becomes a source \
         of the entry. Result: dictionary_entry_id, name (the term).",
        vec![
            required("term", text(&format!("Term as it is written in texts, 1 to {TERM_CHARS} characters."))),
            required(
                "expansion",
                text(&format!("Meaning, such as the words of an abbreviation, 1 to {EXPANSION_CHARS} characters.")),
            ),
            optional(
                "disambiguation",
                text(&format!(
                    "Text that distinguishes the meaning from others, at most {DISAMBIGUATION_CHARS} characters. Default: that of \
                     the entry."
                )),
            )
            .or_blank(),
            optional("tags", list_of_text(&tags, ENTRY_TAGS_MAX)).or_empty(),
            optional(
                "confidence",
                json!({ "type": "number", "minimum": 0, "maximum": 1, "description": confidence }),
            ),
            optional("document_id", text("Document that contains the term. Default: the conversation's document.")).or_empty(),
        ],
    )
}

#[derive(Deserialize)]
struct Arguments {
    term: String,
    expansion: String,
    disambiguation: Option<String>,
    #[serde(default)]
    tags: Vec<String>,
    confidence: Option<f64>,
    document_id: Option<String>,
}

struct Upsert {
    new: NewDictionaryEntry,
    /// None: the conversation's document, if it has one.
    document: Option<DocumentId>,
}

impl Upsert {
    fn source(&self, context: &CallContext) -> Option<DocumentId> {
        self.document.as_ref().or(context.documents.first()).cloned()
    }
}

#[async_trait]
impl WriteCall for Upsert {
    type Target = DictionaryEntry;

    fn parse(arguments: &Value) -> Result<Self, ToolError> {
        let Arguments { term, expansion, disambiguation, tags, confidence, document_id } = arguments::parse(arguments)?;
        let document = document_id.map(|text| arguments::id("document_id", &text, Document::HINT)).transpose()?;
        let provenance = confidence.map_or(Provenance::Agent, |confidence| Provenance::Inferred { confidence });
        let new = NewDictionaryEntry { term, expansion, disambiguation, tags, sources: Vec::new(), provenance };
        Ok(Self { new: new.checked("")?, document })
    }

    async fn plan(&self, context: &CallContext) -> Result<Plan, ToolError> {
        let document = match self.source(context) {
            Some(document) => Some(subject::find::<Document>(context, &document).await?),
            None => None,
        };
        let entries = context.store::<DictionaryEntry>();
        let existing = entries.by_name(&context.principal.org, &term_key(&self.new.term)).await?;
        run_bounds::check(context, &self.new, document.as_ref(), existing.as_ref()).await?;
        match existing {
            Some(existing) if !existing.is_learnable() => Err(existing.confirmed_error().into()),
            Some(existing) => Ok(subject::plan_update(&existing)),
            None => Ok(subject::plan_new::<DictionaryEntry>(context)),
        }
    }

    async fn change(self, context: &CallContext, _: &Plan) -> Result<DictionaryEntryChange, ToolError> {
        let sources = self.source(context).into_iter().collect();
        Ok(DictionaryEntryChange::Learn(Box::new(NewDictionaryEntry { sources, ..self.new })))
    }
}
