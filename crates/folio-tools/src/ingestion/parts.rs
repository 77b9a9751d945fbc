//! The parts of a document that have summaries, with their texts and the stored summaries.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use folio_llm::{count_tokens, prefix_within_tokens};
use folio_resources::{Document, Outline, TextId};
use folio_storage::{StoredSummary, Stores, SummaryScope};
use folio_types::limits::TOOL_RESULT_BYTES;
use folio_types::{Error, Result, Timestamp};

use super::plan::{SummaryPlan, SummaryStep};
use crate::sections::{PagePart, SectionBounds, read_own_text, read_section};
use crate::tool::ToolResources;

/// Maximum length of a summary, in characters.
// proto: DocumentSummary.text "at most {} characters"
pub const SUMMARY_CHARS: usize = 1_000;
/// Maximum tokens of a text that has no summary, because the text is as short as a summary.
const SHORT_TOKENS: u64 = 80;
/// Bytes of a token in the bound on a text. Only a text of very long tokens is cut by its bytes.
const BYTES_PER_TOKEN: usize = 16;

/// The text of a part from which its summary is made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum PartText {
    /// The text is as short as a summary, and replaces it. One line. Empty: the part has no text.
    Short(String),
    Long {
        text: String,
        /// True if the end of the text is missing.
        is_cut: bool,
    },
}

/// A document with its sections, their order for summaries, and the summaries that are stored.
pub(super) struct Parts<'a> {
    resources: &'a ToolResources,
    pub(super) document: &'a Document,
    pub(super) text: TextId,
    /// The generation of the text.
    pub(super) generation: Timestamp,
    pub(super) outline: Arc<Outline>,
    pub(super) plan: SummaryPlan,
    /// The stored summaries of all generations of the text, by section. None: the summary of the document.
    stored: BTreeMap<Option<u32>, StoredSummary>,
}

/// The text of a part in the input of the part above.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Available {
    Summary(String),
    /// The text of the part, as in [`PartText::Short`].
    Short(String),
    /// The part needs a summary, and has none.
    Missing,
}

impl Available {
    /// None: the part needs a summary.
    fn text(&self) -> Option<&str> {
        match self {
            Self::Summary(text) | Self::Short(text) => Some(text),
            Self::Missing => None,
        }
    }
}

/// The texts of sections that have summaries, by their numbers.
pub(super) type ChildTexts = BTreeMap<u32, Available>;

impl<'a> Parts<'a> {
    /// Reads the sections and the summaries of a document.
    ///
    /// # Errors
    /// `NO_TEXT` if the document has no text.
    pub(super) async fn load(resources: &'a ToolResources, document: &'a Document) -> Result<Self> {
        let (text, outline) = resources.outlines.outline(&resources.stores, document).await?;
        let generation = document.text_generation;
        let generation = generation.ok_or_else(|| Error::internal("a text that is ready has no generation"))?;
        let stored = resources.stores.summaries().list(&document.org, &document.id).await?;
        let stored = stored.into_iter().map(|summary| (summary.section, summary)).collect();
        let plan = SummaryPlan::of(&outline);
        Ok(Self { resources, document, text, generation, outline, plan, stored })
    }

    /// Returns the stored summary of a part, of any generation of the text.
    pub(super) fn stored(&self, section: Option<u32>) -> Option<&StoredSummary> {
        self.stored.get(&section)
    }

    /// Returns the stored summary of a part of the current text.
    pub(super) fn current(&self, section: Option<u32>) -> Option<&StoredSummary> {
        self.stored(section).filter(|summary| summary.text_generation == self.generation)
    }

    /// Returns the name of a part in results: the id of the section, or that of the document.
    pub(super) fn id_of(&self, section: Option<u32>) -> String {
        section.map_or_else(|| self.document.id.to_string(), |number| self.text.section(number).to_string())
    }

    /// Returns the titles from the top of the document down to a section, in one line. Empty: the section has no title.
    pub(super) fn titles(&self, number: u32) -> String {
        let mut titles = Vec::new();
        let mut next = self.outline.section(number);
        while let Some(section) = next {
            if !section.title.is_empty() {
                titles.push(one_line(&section.title));
            }
            // A parent has a smaller number, so that the loop ends.
            next = section.parent.and_then(|parent| self.outline.section(parent));
        }
        titles.reverse();
        titles.join(" > ")
    }

    /// Returns the sections whose texts or summaries the summary of a part is made of.
    pub(super) fn sources(&self, step: &SummaryStep, known: &ChildTexts) -> Vec<u32> {
        let has_text = |child: &&u32| known.get(*child).and_then(Available::text).is_some_and(|text| !text.is_empty());
        let children = step.children.iter().filter(has_text).copied();
        step.section.into_iter().chain(children).collect()
    }

    /// Returns the text of a part: the beginning of its own text, then the texts of its children in `known`, together about `tokens`
    /// tokens. The text is cut if a child has neither a summary nor a short text.
    pub(super) async fn text_of(&self, step: &SummaryStep, known: &ChildTexts, tokens: u64) -> Result<PartText> {
        let (mut text, mut is_cut) = match step.section {
            Some(number) => self.own_text(step, number, tokens).await?,
            None => (String::new(), false),
        };
        let mut is_own = true;
        for child in &step.children {
            let available = known.get(child).unwrap_or(&Available::Missing);
            is_own &= matches!(available, Available::Short(_));
            match available.text() {
                // The child has no text.
                Some("") => {}
                Some(summary) => {
                    if !text.is_empty() {
                        text.push_str("\n\n");
                    }
                    let titles = self.titles(*child);
                    let line_end = if titles.is_empty() { "" } else { "\n" };
                    text.push_str(&format!("{titles}{line_end}{summary}"));
                }
                None => is_cut = true,
            }
        }
        if is_own && !is_cut && count_tokens(&text) <= SHORT_TOKENS {
            return Ok(PartText::Short(one_line(&text)));
        }
        let kept = prefix_within_tokens(&text, tokens).len();
        is_cut |= kept < text.len();
        text.truncate(kept);
        Ok(PartText::Long { text, is_cut })
    }

    /// Returns the text of a section, without the sections that have summaries of their own, and true if it is cut.
    async fn own_text(&self, step: &SummaryStep, number: u32, tokens: u64) -> Result<(String, bool)> {
        let ToolResources { stores, outlines, .. } = self.resources;
        let id = self.text.section(number);
        let tokens = tokens.max(SHORT_TOKENS);
        let bytes = usize::try_from(tokens).unwrap_or(usize::MAX).saturating_mul(BYTES_PER_TOKEN);
        let bounds = SectionBounds { tokens, bytes: bytes.min(8 * TOOL_RESULT_BYTES) };
        let read = match step.scope {
            SummaryScope::Chapter => read_own_text(stores, outlines, self.document, &id, bounds).await?,
            SummaryScope::Section | SummaryScope::Document => {
                read_section(stores, outlines, self.document, &id, bounds).await?
            }
        };
        let pages: Vec<&str> = read.pages.iter().map(|PagePart { text, .. }| text.as_str()).collect();
        Ok((pages.join("\n"), read.rest.is_some()))
    }

    /// Returns the texts of the parts below a step, from the stored summaries and from short texts. The second value are the parts
    /// that need a summary first, in their order.
    pub(super) async fn below(&self, step: &SummaryStep) -> Result<(ChildTexts, Vec<u32>)> {
        let mut wanted: BTreeSet<u32> = step.children.iter().copied().collect();
        // The steps of children precede their parents, so that the parents are read first in reverse.
        for part in self.plan.steps.iter().rev() {
            if part.section.is_some_and(|number| wanted.contains(&number)) {
                wanted.extend(&part.children);
            }
        }
        let (mut known, mut missing) = (ChildTexts::new(), Vec::new());
        for part in &self.plan.steps {
            let Some(number) = part.section.filter(|number| wanted.contains(number)) else { continue };
            let available = self.available(part, &known).await?;
            if available == Available::Missing {
                missing.push(number);
            }
            known.insert(number, available);
        }
        Ok((known, missing))
    }

    /// Returns the stored summary of a part, else its short text.
    pub(super) async fn available(&self, step: &SummaryStep, known: &ChildTexts) -> Result<Available> {
        if let Some(summary) = self.current(step.section) {
            return Ok(Available::Summary(summary.text.clone()));
        }
        match self.text_of(step, known, SHORT_TOKENS).await? {
            PartText::Short(text) => Ok(Available::Short(text)),
            PartText::Long { .. } => Ok(Available::Missing),
        }
    }
}

/// Returns a text in one line, without control characters.
pub(super) fn one_line(text: &str) -> String {
    let blanks: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    blanks.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Stores a summary, unless its document was deleted.
pub(super) async fn store_summary(stores: &Stores, document: &Document, summary: &StoredSummary) -> Result<()> {
    let (summaries, org, id) = (stores.summaries(), &document.org, &document.id);
    summaries.put(org, id, summary).await?;
    // The clean-up of a deletion may have been earlier than the write.
    match stores.of::<Document>().get(org, id).await? {
        Some(_) => Ok(()),
        None => summaries.remove_document(org, id).await,
    }
}

/// The summaries of a document, for the context of its chunks.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DocumentSummaries {
    /// None: the document has no summary of its current text.
    pub document: Option<String>,
    /// By the number of the section. A section without a summary has that of the section that contains it.
    pub sections: BTreeMap<u32, String>,
}

/// Returns the stored summaries of the current text of a document.
///
/// # Errors
/// `NO_TEXT` if the document has no text.
pub async fn document_summaries(resources: &ToolResources, document: &Document) -> Result<DocumentSummaries> {
    let parts = Parts::load(resources, document).await?;
    let text_of = |section| parts.current(section).map(|summary| summary.text.clone());
    let mut sections: BTreeMap<u32, String> = BTreeMap::new();
    for section in parts.outline.sections() {
        let inherited = || section.parent.and_then(|parent| sections.get(&parent)).cloned();
        if let Some(text) = text_of(Some(section.number)).or_else(inherited) {
            sections.insert(section.number, text);
        }
    }
    Ok(DocumentSummaries { document: text_of(None), sections })
}
