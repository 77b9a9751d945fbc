//! `folio dictionary review`, `questions`, `answer`, `dismiss` and `seed`.

use std::collections::BTreeMap;

use anyhow::Result;
use folio_proto::v1;
use folio_resources::{DictionaryQuestionId, term_key};
use folio_types::counted;
use serde_json::{Value, json};

use super::job::word;
use super::output::View;
use super::{DataArguments, ItemArguments, list_items, present, time};
use crate::client::{Client, answer};
use crate::documents;
use crate::terminal::note;

#[derive(Debug, clap::Args)]
pub(crate) struct Review {
    /// Call no model: unknown terms only become questions.
    #[arg(long)]
    without_model: bool,
    #[command(flatten)]
    item: ItemArguments,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Questions {
    /// Only questions in this state.
    #[arg(long, value_enum, default_value = "open")]
    state: State,
    /// Only questions of this document, by id or name.
    #[arg(long, value_name = "DOCUMENT")]
    document: Option<String>,
    /// Maximum number of questions.
    #[arg(long, value_name = "N", default_value = "1000")]
    limit: usize,
    #[command(flatten)]
    data: DataArguments,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum State {
    Open,
    Answered,
    Dismissed,
    All,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Answer {
    /// The id of the question.
    #[arg(value_name = "ID")]
    question: DictionaryQuestionId,
    /// The meaning, such as the words of an abbreviation.
    expansion: String,
    /// A text that distinguishes the meaning from others of the term.
    #[arg(long, value_name = "TEXT", default_value = "")]
    disambiguation: String,
    /// A tag such as a region; may be given several times [default: unchanged].
    #[arg(long = "tag", value_name = "TAG")]
    tags: Vec<String>,
    #[command(flatten)]
    data: DataArguments,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Dismiss {
    /// The id of the question.
    #[arg(value_name = "ID")]
    question: DictionaryQuestionId,
    #[command(flatten)]
    data: DataArguments,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Seed {
    /// Create the proposed entries. Without this flag they are only printed.
    #[arg(long)]
    yes: bool,
    /// Only meanings that at least this number of documents state.
    #[arg(long, value_name = "N", default_value = "1")]
    min_documents: usize,
    /// Maximum number of entries.
    #[arg(long, value_name = "N", default_value = "100")]
    limit: usize,
    #[command(flatten)]
    data: DataArguments,
}

impl Review {
    pub(super) async fn run(&self) -> Result<()> {
        self.item.data.run(async |client| review(&client, self).await).await
    }
}

impl Questions {
    pub(super) async fn run(&self) -> Result<()> {
        self.data.run(async |client| questions(&client, self).await).await
    }
}

impl Answer {
    pub(super) async fn run(&self) -> Result<()> {
        self.data.run(async |client| answer_one(&client, self).await).await
    }
}

impl Dismiss {
    pub(super) async fn run(&self) -> Result<()> {
        self.data.run(async |client| dismiss(&client, self.question.to_string()).await).await
    }
}

impl Seed {
    pub(super) async fn run(&self) -> Result<()> {
        self.data.run(async |client| seed(&client, self).await).await
    }
}

async fn review(client: &Client, review: &Review) -> Result<View> {
    let document_id = documents::id(client, &review.item.item).await?;
    let without_model = review.without_model;
    let request = v1::ReviewDocumentTermsRequest { document_id, without_model, ..Default::default() };
    let found = answer(client.dictionary().review_document_terms(request)).await?;
    Ok(View::one(json!({
        "known": found.known, "unconfirmed": found.unconfirmed, "inferred": found.inferred, "unknown": found.unknown,
        "questions": found.questions, "too_many_questions": found.too_many_questions,
        "not_inferred_reason": found.not_inferred_reason, "truncated": found.truncated,
    })))
}

async fn questions(client: &Client, questions: &Questions) -> Result<View> {
    let document = match &questions.document {
        Some(document) => Some(documents::id(client, document).await?),
        None => None,
    };
    let state = match questions.state {
        State::Open => Some("state:open".to_owned()),
        State::Answered => Some("state:answered".to_owned()),
        State::Dismissed => Some("state:dismissed".to_owned()),
        State::All => None,
    };
    let conditions: Vec<String> = state.into_iter().chain(document.map(|id| format!("document:{id}"))).collect();
    let filter = conditions.join(" ");
    let found = list_items! {
        questions.limit, client.dictionary().list_dictionary_questions(ListDictionaryQuestionsRequest {
            filter: filter.clone()
        }) => dictionary_questions
    };
    let columns = ["dictionary_question_id", "term", "guess", "confidence", "occurrences", "contexts"];
    Ok(View::list(columns, found.await?.iter().map(row).collect()))
}

async fn answer_one(client: &Client, given: &Answer) -> Result<View> {
    let request = v1::AnswerDictionaryQuestionRequest {
        dictionary_question_id: given.question.to_string(),
        expansion: given.expansion.clone(),
        disambiguation: given.disambiguation.clone(),
        tags: given.tags.clone(),
        ..Default::default()
    };
    let answered = answer(client.dictionary().answer_dictionary_question(request)).await?;
    Ok(View::one(super::dictionary::row(&present(answered.dictionary_entry)?)))
}

async fn dismiss(client: &Client, dictionary_question_id: String) -> Result<View> {
    let request = v1::DismissDictionaryQuestionRequest { dictionary_question_id, ..Default::default() };
    let dismissed = answer(client.dictionary().dismiss_dictionary_question(request)).await?;
    Ok(View::one(row(&present(dismissed.dictionary_question)?)))
}

/// Prints the entries that the texts of all documents propose. With `--yes` they are created, with the provenance of an agent.
async fn seed(client: &Client, seed: &Seed) -> Result<View> {
    let (mut found, mut page_token, mut read) = (Proposals::default(), String::new(), 0_u64);
    loop {
        let request = v1::ProposeDictionaryEntriesRequest { page_size: 0, page_token };
        let page = answer(client.dictionary().propose_dictionary_entries(request)).await?;
        read += u64::from(page.document_count);
        page.proposals.into_iter().for_each(|proposal| found.add(proposal));
        page_token = page.next_page_token;
        if page_token.is_empty() {
            break;
        }
    }
    note(&format!("read {}", counted(read, "document")));
    let mut rows = Vec::new();
    for proposal in found.ranked(seed.min_documents).into_iter().take(seed.limit) {
        let result = if seed.yes { create(client, &proposal).await? } else { "proposed" };
        rows.push(json!({
            "term": proposal.term, "expansion": proposal.expansion, "documents": proposal.document_ids.len(),
            "count": proposal.count, "document_ids": proposal.document_ids, "result": result,
        }));
    }
    if !seed.yes && !rows.is_empty() {
        note("nothing was written: pass --yes to create the entries");
    }
    Ok(View::list(["term", "expansion", "documents", "count", "result"], rows))
}

/// Creates an entry. Returns the result for people.
async fn create(client: &Client, proposal: &v1::ProposedDictionaryEntry) -> Result<&'static str> {
    let entry = v1::DictionaryEntry {
        term: proposal.term.clone(),
        expansion: proposal.expansion.clone(),
        source_document_ids: proposal.document_ids.clone(),
        provenance: v1::DictionaryProvenance::Agent.into(),
        ..v1::DictionaryEntry::default()
    };
    let request = v1::CreateDictionaryEntryRequest { dictionary_entry: Some(entry), ..Default::default() };
    match client.dictionary().create_dictionary_entry(request).await {
        Ok(_) => Ok("created"),
        // An earlier row has another meaning of the term, or another request created the entry.
        Err(status) if status.code() == tonic::Code::AlreadyExists => Ok("has an entry"),
        Err(status) => Err(crate::client::explain(&status)),
    }
}

/// Proposals of several pages by the key of their term and the folded meaning.
#[derive(Default)]
struct Proposals(BTreeMap<(String, String), v1::ProposedDictionaryEntry>);

impl Proposals {
    /// Adds a proposal. The documents of pages are different, so that the sources are at most those of one entry.
    fn add(&mut self, proposal: v1::ProposedDictionaryEntry) {
        let key = (term_key(&proposal.term), term_key(&proposal.expansion));
        match self.0.get_mut(&key) {
            Some(found) => {
                found.count = found.count.saturating_add(proposal.count);
                let free = folio_resources::ENTRY_SOURCES_MAX.saturating_sub(found.document_ids.len());
                found.document_ids.extend(proposal.document_ids.into_iter().take(free));
            }
            None => {
                self.0.insert(key, proposal);
            }
        }
    }

    /// Returns the proposals of at least some documents, those of most documents first.
    fn ranked(self, min_documents: usize) -> Vec<v1::ProposedDictionaryEntry> {
        let enough = |proposal: &v1::ProposedDictionaryEntry| proposal.document_ids.len() >= min_documents;
        let mut ranked: Vec<_> = self.0.into_values().filter(enough).collect();
        // The order of equal proposals is that of their terms.
        ranked.sort_by_key(|proposal| std::cmp::Reverse((proposal.document_ids.len(), proposal.count)));
        ranked
    }
}

fn row(question: &v1::DictionaryQuestion) -> Value {
    json!({
        "dictionary_question_id": question.dictionary_question_id, "term": question.term, "guess": question.guess,
        "confidence": question.confidence, "occurrences": question.occurrences, "contexts": question.contexts,
        "document_id": question.document_id,
        "state": word(question.state().as_str_name(), "DICTIONARY_QUESTION_STATE_"),
        "decided_by": question.decided_by, "decide_time": time(question.decide_time.as_ref()),
        "created_by": question.created_by, "create_time": time(question.create_time.as_ref()), "etag": question.etag,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proposals_of_several_pages_are_joined_and_those_of_most_documents_are_first() {
        let proposal = |term: &str, expansion: &str, documents: &[&str], count| v1::ProposedDictionaryEntry {
            term: term.to_owned(),
            expansion: expansion.to_owned(),
            document_ids: documents.iter().map(|id| (*id).to_owned()).collect(),
            count,
        };
        let mut found = Proposals::default();
        for proposal in [
            proposal("SG", "Singapore", &["a"], 9),
            proposal("MY", "Malaysia", &["a"], 1),
            proposal("MY", "malaysia", &["b", "c"], 1),
        ] {
            found.add(proposal);
        }
        let shown = |ranked: Vec<v1::ProposedDictionaryEntry>| -> Vec<(String, usize, u64)> {
            ranked.into_iter().map(|found| (found.expansion, found.document_ids.len(), found.count)).collect()
        };
        let all = shown(Proposals(found.0.clone()).ranked(1));
        assert_eq!(all, [("Malaysia".to_owned(), 3, 2), ("Singapore".to_owned(), 1, 9)]);
        assert_eq!(shown(found.ranked(2)).len(), 1);
    }
}
