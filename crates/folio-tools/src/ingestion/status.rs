//! The tool `ingestion_status`.

use async_trait::async_trait;
use folio_resources::DictionaryEntry;
use folio_storage::ChunkSet;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::of_turn;
use super::parts::{Available, ChildTexts, Parts};
use crate::call::{ReadCall, read_tool};
use crate::dictionary;
use crate::rules::excerpt;
use crate::tool::{CallContext, Tool, ToolError};

/// Maximum number of parts without a summary that a result names.
const MISSING_MAX: usize = 40;
/// Maximum number of entries of the dictionary in a result.
const TERMS_MAX: usize = 20;

pub(super) fn tool() -> Tool {
    read_tool::<GetStatus>(
        "ingestion_status",
        "Returns the state of this run: what is known about its document, and what is done. Call it first, and again to find what is \
         missing. Result: document_id, document_name, media_type, pages, sections (their number), metadata (of the document), \
         terms (entries of the dictionary that the text uses, the most frequent first, at most 20: term, expansion, disambiguation, \
         provenance: person, agent or inferred), \
         summaries (stored, short (parts whose text is as short as a summary and that need none), missing (the first parts that need \
         one, in the order in which their summaries must be stored: section_id (absent: the document), scope (section, chapter or \
         document), title), more (number of further parts, only if there are more)), chunks (those that this run has generated: \
         chunks_id, chunks, tokens, window, overlap, context, indexed).",
        Vec::new(),
    )
}

#[derive(Deserialize)]
struct GetStatus {}

/// The parts of a document by the state of their summaries.
#[derive(Default)]
struct Summaries {
    stored: usize,
    short: usize,
    missing: Vec<Value>,
    more: usize,
}

impl Summaries {
    async fn of(parts: &Parts<'_>) -> Result<Self, ToolError> {
        let (mut found, mut known) = (Self::default(), ChildTexts::new());
        for step in &parts.plan.steps {
            let available = parts.available(step, &known).await?;
            match &available {
                Available::Summary(_) => found.stored += 1,
                Available::Short(_) => found.short += 1,
                Available::Missing if found.missing.len() >= MISSING_MAX => found.more += 1,
                Available::Missing => {
                    let mut part = json!({ "scope": step.scope.as_str() });
                    if let (Some(number), Some(members)) = (step.section, part.as_object_mut()) {
                        members.insert("section_id".to_owned(), parts.id_of(Some(number)).into());
                        members.insert("title".to_owned(), excerpt(&parts.titles(number)).into());
                    }
                    found.missing.push(part);
                }
            }
            if let Some(number) = step.section {
                known.insert(number, available);
            }
        }
        Ok(found)
    }

    fn shown(self) -> Value {
        let mut shown = json!({ "stored": self.stored, "short": self.short, "missing": self.missing });
        if let Some(members) = shown.as_object_mut().filter(|_| self.more > 0) {
            members.insert("more".to_owned(), self.more.into());
        }
        shown
    }
}

#[async_trait]
impl ReadCall for GetStatus {
    async fn run(self, context: &CallContext) -> Result<Value, ToolError> {
        let (run, document) = of_turn(context).await?;
        let stores = &context.resources.stores;
        let parts = Parts::load(&context.resources, &document).await?;
        let summaries = Summaries::of(&parts).await?;
        let sets = stores.chunk_sets().list(&document.org, &document.id).await?;
        let sets: Vec<Value> = sets.iter().filter(|set| set.run == run).map(shown).collect();
        let terms = dictionary::document_dictionary(stores, &document, TERMS_MAX).await?;
        let metadata = document.metadata.iter().map(|(key, value)| (key.clone(), Value::from(excerpt(value))));
        let metadata: Map<String, Value> = metadata.collect();
        Ok(json!({
            "document_id": document.id,
            "document_name": document.name,
            "media_type": document.media_type,
            "pages": document.pages,
            "sections": parts.outline.sections().len(),
            "metadata": metadata,
            "terms": terms.iter().map(term).collect::<Vec<_>>(),
            "summaries": summaries.shown(),
            "chunks": sets,
        }))
    }
}

fn term(entry: &DictionaryEntry) -> Value {
    let mut term = json!({
        "term": entry.term,
        "expansion": excerpt(&entry.expansion),
        "provenance": entry.provenance.name(),
    });
    if let (Some(disambiguation), Some(members)) = (&entry.disambiguation, term.as_object_mut()) {
        members.insert("disambiguation".to_owned(), excerpt(disambiguation).into());
    }
    term
}

fn shown(set: &ChunkSet) -> Value {
    json!({
        "chunks_id": set.id,
        "chunks": set.chunks,
        "tokens": set.tokens,
        "window": set.window,
        "overlap": set.overlap,
        "context": set.padding,
        "indexed": set.is_indexed,
    })
}
