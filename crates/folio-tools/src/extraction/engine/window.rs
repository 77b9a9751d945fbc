//! The windows of a run: their texts, questions and recorded answers.

use std::ops::ControlFlow;

use folio_resources::SchemaRevision;
use folio_storage::value::PageText;
use folio_types::message::Usage;
use folio_types::notation::Style;
use folio_types::{Error, Result};

use super::super::evidence::pages_of;
use super::super::examples::{self, Example};
use super::super::merge::WindowAnswer;
use super::super::message::{self, Position};
use super::super::window_record::WindowRecord;
use super::super::windows::{Plan, Window};
use super::answer::{Answer, Question};
use super::{Run, RunError};
use crate::document_text;
use crate::tool::ToolResources;

impl Run<'_> {
    /// Returns the answer for a window: the recorded one of an earlier attempt of this run, else that of the model.
    pub(super) async fn window(&self, plan: &Plan, number: usize, usage: &mut Usage) -> Result<WindowAnswer, RunError> {
        let windows = plan.windows.len();
        let window = number.checked_sub(1).and_then(|index| plan.windows.get(index)).cloned().unwrap_or_default();
        let pages = self.pages(&window).await?;
        let position = window.pages().filter(|_| windows > 1).map(|(first_page, last_page)| Position {
            window: number,
            windows,
            first_page,
            last_page,
        });
        let question = self.question(self.examples_for(plan), position, number, &pages);
        let (stores, principal) = (&self.resources.stores, &self.request.principal);
        let record = match self.request.run.as_deref().filter(|_| windows > 1) {
            Some(run) => {
                let input = format!("{}\n{}", self.prompt.revid, question.text);
                Some(WindowRecord::new(principal, run, &self.model.name, number, &input)?)
            }
            None => None,
        };
        if let Some(record) = &record
            && let Some(answer) = record.read(stores, principal).await?
        {
            return Ok(answer);
        }
        let Answer { data, originals, evidence, model_calls } = self.answer(question, usage).await?;
        let mut answer = WindowAnswer { data, originals, evidence, model_calls, ..WindowAnswer::default() };
        if windows > 1 {
            answer = with_pages(answer, pages, plan.structured_page).await?;
        }
        if let Some(record) = record {
            record.write(stores, principal, &answer, self.resources.environment.now()).await;
        }
        Ok(answer)
    }

    /// Reads the text of a window by page.
    async fn pages(&self, window: &Window) -> Result<Vec<(u32, String)>> {
        let Some((first, last)) = window.pages() else { return Ok(Vec::new()) };
        let mut pages = Vec::with_capacity(window.parts.len());
        let add = |page: PageText| {
            let part = window.parts.iter().find(|part| part.page == page.number);
            let text = part.and_then(|part| page.text.get(part.range.clone()));
            pages.extend(text.map(|text| (page.number, text.to_owned())));
            ControlFlow::Continue(())
        };
        let (stores, org) = (&self.resources.stores, &self.request.principal.org);
        document_text::for_each_page(stores, org, &self.document.id, (first, last - first + 1), add).await?;
        if pages.len() == window.parts.len() {
            return Ok(pages);
        }
        let message = "the text of the document changed during the extraction; repeat the extraction";
        Err(Error::version_conflict(message))
    }

    /// Selects examples for a document with one window: the whole answer of an example does not suit a part of a document.
    pub(super) async fn select_examples(&self, plan: &Plan) -> Result<Vec<Example>> {
        let Some(schema) = self.schema.as_ref().filter(|_| plan.windows.len() == 1) else { return Ok(Vec::new()) };
        let ToolResources { stores, extraction, .. } = self.resources;
        examples::select(stores, &self.request.principal.org, &self.document, schema, extraction).await
    }

    /// Returns the examples that the model reads: as many as its context and the maximum price permit.
    pub(super) fn examples_for(&self, plan: &Plan) -> &[Example] {
        let [window] = plan.windows.as_slice() else { return &[] };
        let budget = self.budget();
        examples::fitting(&self.examples, |tokens| {
            let tokens = window.tokens.saturating_add(tokens);
            tokens <= budget.text && self.max_price(&budget, tokens) <= self.resources.extraction.credits_max
        })
    }

    /// Returns the user message for the text of a window.
    fn question(
        &self,
        examples: &[Example],
        position: Option<Position>,
        window: usize,
        pages: &[(u32, String)],
    ) -> Question {
        let mut document = String::new();
        for (number, page) in pages {
            document_text::add_page(&mut document, (self.document.pages > 1).then_some(*number), page);
        }
        let instructions = message::with_examples(&self.prompt.content, examples);
        let question = message::user(&instructions, &self.document.name, position, &document);
        // If the endpoint does not support a response format, the prompt contains the schema.
        let schema = self.schema.as_ref().filter(|_| !self.model.options.json_schema).and_then(SchemaRevision::schema);
        let schema = schema.map(|schema| self.extended_schema().unwrap_or_else(|| schema.clone()));
        let text = schema.map_or(question.clone(), |schema| message::with_schema(&question, &schema));
        Question { text, style: Style::of(&document), window }
    }
}

/// Adds the pages whose text contains the values, and the values of the structured invoice. Runs on a blocking thread,
/// because a window may be long.
async fn with_pages(
    answer: WindowAnswer,
    pages: Vec<(u32, String)>,
    structured_page: Option<u32>,
) -> Result<WindowAnswer> {
    let find = move || {
        let found = pages_of(&answer.data, &pages);
        let invoice: Vec<_> = pages.into_iter().filter(|(number, _)| Some(*number) == structured_page).collect();
        let structured = pages_of(&answer.data, &invoice).into_keys().collect();
        WindowAnswer { pages: found, structured, ..answer }
    };
    let found = tokio::task::spawn_blocking(find).await;
    found.map_err(|error| Error::internal(format!("the search for extracted values failed: {error}")))
}
