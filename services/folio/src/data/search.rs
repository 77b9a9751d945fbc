//! `folio search`: passages of documents, and answers to questions from them.

use std::time::Duration;

use anyhow::Result;
use folio_proto::v1;
use folio_types::Timestamp;
use serde_json::{Value, json};

use super::document::entry;
use super::output::View;
use super::{DataArguments, collection, tag};
use crate::client::{Client, answer};
use crate::documents;
use crate::terminal::note;

/// Maximum length of a snippet, in characters: the width of a cell of a printed table.
const SNIPPET_CHARS: usize = 48;
/// Maximum number of characters of a snippet before the first word that matches.
const BEFORE_CHARS: usize = 12;

/// Maximum number of searches that only wait for a complete index, before the search of the command.
const INDEX_READS_MAX: u32 = 10;
/// Delay between two searches that wait for a complete index.
const INDEX_DELAY: Duration = Duration::from_millis(500);

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Words, or a question. No character is an operator.
    #[arg(required = true, value_name = "QUERY")]
    query: Vec<String>,
    /// Only passages of this document, by id or name; may be given several times.
    #[arg(long = "document", value_name = "DOCUMENT")]
    documents: Vec<String>,
    /// Only passages of documents with this tag, by id or name; may be given several times.
    #[arg(long = "tag", value_name = "TAG")]
    tags: Vec<String>,
    /// Only passages of documents with this value in their metadata; may be given several times.
    #[arg(long = "metadata", value_name = "KEY=VALUE", value_parser = entry)]
    metadata: Vec<(String, String)>,
    /// Only passages in this language, such as de; may be given several times.
    #[arg(long = "language", value_name = "CODE")]
    languages: Vec<String>,
    /// Only passages of documents in this collection, by id or name; may be given several times.
    #[arg(long = "collection", value_name = "COLLECTION")]
    collections: Vec<String>,
    /// Start of the period of the uploads, such as 2026-05-01 or 2026-05-01T09:30:00Z [default: the first upload].
    #[arg(long, value_name = "TIME", value_parser = crate::arguments::time)]
    from: Option<Timestamp>,
    /// End of the period of the uploads, exclusive [default: now].
    #[arg(long, value_name = "TIME", value_parser = crate::arguments::time)]
    until: Option<Timestamp>,
    /// Maximum number of passages [default: 10; with --answer the model reads 8].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    limit: Option<u32>,
    /// Order the passages by the rerank model of the organization.
    #[arg(long)]
    rerank: bool,
    /// Print an answer of a model with citations, instead of the passages.
    #[arg(long)]
    answer: bool,
    /// The model of the answer [default: that of the organization].
    #[arg(long, requires = "answer")]
    model: Option<String>,
    /// Maximum credits of the model calls of the answer.
    #[arg(long, value_name = "CREDITS", requires = "answer")]
    budget: Option<u64>,
    #[command(flatten)]
    data: DataArguments,
}

pub(crate) async fn run(arguments: Arguments) -> Result<()> {
    let data = &arguments.data;
    match arguments.answer {
        true => data.run(async |client| ask(&client, &arguments).await).await,
        false => data.run(async |client| search(&client, &arguments).await).await,
    }
}

impl Arguments {
    fn query(&self) -> String {
        self.query.join(" ")
    }

    /// Returns the filter with ids in place of names.
    async fn filter(&self, client: &Client) -> Result<v1::PassageFilter> {
        Ok(v1::PassageFilter {
            document_ids: documents::ids(client, &self.documents).await?,
            tag_ids: tag::ids(client, &self.tags).await?,
            metadata: self.metadata.iter().cloned().collect(),
            start_time: self.from.map(folio_proto::time::to_proto),
            end_time: self.until.map(folio_proto::time::to_proto),
            languages: self.languages.clone(),
            collection_ids: collection::ids(client, &self.collections).await?,
        })
    }
}

/// Waits for a complete index if this process itself has opened the stores. Does not wait for the index of a server.
async fn wait_for_index(client: &Client, arguments: &Arguments) -> Result<()> {
    if !arguments.data.is_in_process() {
        return Ok(());
    }
    for _ in 0..INDEX_READS_MAX {
        let request = v1::SearchRequest { query: arguments.query(), limit: 1, ..Default::default() };
        if !is_rebuilding(&answer(client.retrieval().search(request)).await?) {
            break;
        }
        tokio::time::sleep(INDEX_DELAY).await;
    }
    Ok(())
}

/// Returns true if the index of a search contains only a part of the documents, because it is being rebuilt.
fn is_rebuilding(found: &v1::SearchResponse) -> bool {
    let mut gaps = found.lexical.iter().chain(&found.dense).flat_map(|part| &part.gaps);
    gaps.any(|gap| gap.reason() == v1::SearchGapReason::IndexRebuilding)
}

async fn search(client: &Client, arguments: &Arguments) -> Result<View> {
    wait_for_index(client, arguments).await?;
    let request = v1::SearchRequest {
        query: arguments.query(),
        passage_filter: Some(arguments.filter(client).await?),
        limit: arguments.limit.unwrap_or_default(),
        rerank: arguments.rerank,
    };
    let found = answer(client.retrieval().search(request)).await?;
    note_gaps([("words", found.lexical.as_ref()), ("meaning", found.dense.as_ref()), ("order", found.rerank.as_ref())]);
    let rows = found.passages.iter().map(row).collect();
    Ok(View::list(["document_name", "page", "section", "snippet"], rows).empty("no passage matches the query"))
}

async fn ask(client: &Client, arguments: &Arguments) -> Result<View> {
    wait_for_index(client, arguments).await?;
    let request = v1::AskRequest {
        question: arguments.query(),
        passage_filter: Some(arguments.filter(client).await?),
        passages: arguments.limit.unwrap_or_default(),
        rerank: arguments.rerank,
        model: arguments.model.clone().unwrap_or_default(),
        credit_budget: arguments.budget,
        request_id: String::new(),
    };
    let found = answer(client.retrieval().ask(request)).await?;
    note_gaps([("words", found.lexical.as_ref()), ("meaning", found.dense.as_ref()), ("order", found.rerank.as_ref())]);
    Ok(answered(&found))
}

/// Prints the reasons for which parts of a search were not used, or did not consider all passages.
fn note_gaps(parts: [(&str, Option<&v1::SearchPart>); 3]) {
    for (name, part) in parts {
        for gap in part.into_iter().flat_map(|part| &part.gaps) {
            note(&format!("{name}: {}", gap.description));
        }
    }
}

fn row(passage: &v1::FoundPassage) -> Value {
    let rank = |rank: Option<&v1::PassageRank>| rank.map(|rank| json!({ "rank": rank.rank, "score": rank.score }));
    let highlight = |word: &v1::PassageHighlight| json!({ "start": word.start, "end": word.end, "area": word.area.as_ref().map(area) });
    let pair = |pair: &v1::PassageMetadata| json!({ "key": pair.key, "value": pair.value });
    json!({
        "document_id": passage.document_id,
        "document_name": passage.document_name,
        "number": passage.number,
        "section_id": passage.section_id,
        "section": passage.section_titles.join(" > "),
        "page": passage.page,
        "language": passage.language,
        "score": passage.score,
        "lexical": rank(passage.lexical.as_ref()),
        "dense": rank(passage.dense.as_ref()),
        "relevance": passage.relevance,
        "highlights": passage.highlights.iter().map(highlight).collect::<Vec<_>>(),
        "areas": passage.areas.iter().map(area).collect::<Vec<_>>(),
        "metadata_pairs": passage.metadata_pairs.iter().map(pair).collect::<Vec<_>>(),
        "snippet": snippet(passage),
        "text": passage.text,
    })
}

/// Returns a rectangle as JSON, with coordinates as fractions of the width and height of its page.
fn area(area: &v1::PassageArea) -> Value {
    let v1::BoundingBox { left, top, right, bottom } = area.bounding_box.unwrap_or_default();
    json!({ "page": area.page, "left": left, "top": top, "right": right, "bottom": bottom })
}

/// Returns the part of a passage around its first word that matches, as one line. It begins with a whole word if the text has blanks.
fn snippet(passage: &v1::FoundPassage) -> String {
    let start = passage.highlights.first().map_or(0, |word| usize::try_from(word.start).unwrap_or_default());
    let at = passage.text.char_indices().nth(start).map_or(passage.text.len(), |(at, _)| at);
    let (before, after) = passage.text.split_at(at);
    let after = one_line(after);
    let blank = if before.ends_with(char::is_whitespace) { " " } else { "" };
    let before = format!("{}{blank}", one_line(before));
    // The cell may be wider than the text after the match.
    let chars = SNIPPET_CHARS.saturating_sub(after.chars().count() + 1).max(BEFORE_CHARS);
    let before = match before.chars().count().checked_sub(chars) {
        None | Some(0) => before.trim_start().to_owned(),
        Some(cut) => {
            let tail: String = before.chars().skip(cut).collect();
            format!("…{}", tail.split_once(' ').map_or(tail.as_str(), |(_, words)| words))
        }
    };
    let snippet = format!("{before}{after}");
    match snippet.chars().count() > SNIPPET_CHARS {
        true => snippet.chars().take(SNIPPET_CHARS - 1).chain(['…']).collect(),
        false => snippet,
    }
}

/// Returns the words of a text with single blanks between them, without the bars between the cells of a table.
fn one_line(text: &str) -> String {
    text.split_whitespace().filter(|word| *word != "|").collect::<Vec<_>>().join(" ")
}

/// Returns a view of the answer: as text, it has a line for each citation.
fn answered(found: &v1::AskResponse) -> View {
    let citation = |citation: &v1::AnswerCitation| {
        json!({
            "number": citation.number,
            "document_id": citation.document_id,
            "document_name": citation.document_name,
            "section_id": citation.section_id,
            "section": citation.section_titles.join(" > "),
            "page": citation.page,
            "quote": citation.quote,
            "areas": citation.areas.iter().map(area).collect::<Vec<_>>(),
        })
    };
    let lines = found.citations.iter().map(|citation| {
        let v1::AnswerCitation { number, document_name, page, quote, .. } = citation;
        format!("[{number}] {document_name}, page {page}: {quote:?}\n")
    });
    let text = match found.answer.as_str() {
        "" => "The documents contain no answer.\n".to_owned(),
        answer => format!("{answer}\n\n{}", lines.collect::<String>()),
    };
    let row = json!({
        "answer": found.answer,
        "citations": found.citations.iter().map(citation).collect::<Vec<_>>(),
        "removed_citations": found.removed_citations,
        "passages": found.passages,
        "model": found.model,
        "credits": found.usage.as_ref().map(|usage| usage.credits),
    });
    View::one(row).text(text)
}

#[cfg(test)]
mod tests {
    use super::super::output::Format;
    use super::*;

    fn passage(text: &str, highlight: Option<u32>) -> v1::FoundPassage {
        let word = |start| v1::PassageHighlight { start, end: start + 4, area: None };
        v1::FoundPassage {
            document_name: "a.pdf".to_owned(),
            page: 2,
            section_titles: vec!["Terms".to_owned(), "Payment".to_owned()],
            text: text.to_owned(),
            highlights: highlight.map(word).into_iter().collect(),
            ..v1::FoundPassage::default()
        }
    }

    #[test]
    fn a_snippet_contains_the_first_match() {
        let long = format!("{} HERE\n{}", "a".repeat(100), "b".repeat(100));
        let found = snippet(&passage(&long, Some(101)));
        assert!(found.contains("HERE b") && found.chars().count() == SNIPPET_CHARS, "{found}");
        assert!(snippet(&passage(&long, Some(204))).ends_with('b'));
        assert_eq!(snippet(&passage("a\nb", Some(2))), "a b");
        assert_eq!(snippet(&passage("世".repeat(80).as_str(), Some(60))), format!("…{}", "世".repeat(47)));
    }

    #[test]
    fn a_snippet_begins_with_a_whole_word_and_has_no_empty_cells() {
        let table =
            " |  | Total: | 957.00\nPayment Terms: | 30 days net |  | \nIBAN: | DE89 3704 0044 0532 0130 00 |  | ";
        let start = u32::try_from(table.find("Terms").unwrap()).unwrap();
        assert_eq!(snippet(&passage(table, Some(start))), "…Payment Terms: 30 days net IBAN: DE89 3704 004…");
        assert_eq!(snippet(&passage(table, None)), "Total: 957.00 Payment Terms: 30 days net IBAN: …");
    }

    #[test]
    fn an_index_that_is_rebuilt_is_found_in_either_part() {
        let gap = |reason: v1::SearchGapReason| v1::SearchGap { reason: reason.into(), ..Default::default() };
        let part = |reason| v1::SearchPart { gaps: vec![gap(reason)], ..Default::default() };
        let rebuilt = part(v1::SearchGapReason::IndexRebuilding);
        assert!(is_rebuilding(&v1::SearchResponse { dense: Some(rebuilt.clone()), ..Default::default() }));
        assert!(is_rebuilding(&v1::SearchResponse { lexical: Some(rebuilt), ..Default::default() }));
        let missing = part(v1::SearchGapReason::IndexMissing);
        assert!(!is_rebuilding(&v1::SearchResponse { lexical: Some(missing), ..Default::default() }));
    }

    #[test]
    fn a_passage_is_a_row_of_a_table() {
        let pair = |value: &str| v1::PassageMetadata { key: "image_id".to_owned(), value: value.to_owned() };
        let area =
            v1::PassageArea { page: 2, bounding_box: Some(v1::BoundingBox { right: 0.5, ..Default::default() }) };
        let found = v1::FoundPassage {
            areas: vec![area],
            metadata_pairs: vec![pair("one"), pair("two")],
            ..passage("Payable within 30 days.", Some(0))
        };
        let rows = vec![row(&found)];
        assert_eq!((&rows[0]["areas"][0]["page"], &rows[0]["areas"][0]["right"]), (&json!(2), &json!(0.5)));
        assert_eq!(rows[0]["metadata_pairs"][1], json!({ "key": "image_id", "value": "two" }));
        let table = View::list(["document_name", "page", "section", "snippet"], rows).render(Format::Table);
        assert!(table.contains("a.pdf") && table.contains("Terms > Payment"), "{table}");
        assert!(table.contains("Payable within 30 days."), "{table}");
    }

    #[test]
    fn an_answer_is_a_text_with_its_citations() {
        let citation = v1::AnswerCitation {
            number: 1,
            document_name: "a.pdf".to_owned(),
            page: 2,
            quote: "within 30 days".to_owned(),
            ..v1::AnswerCitation::default()
        };
        let found = v1::AskResponse {
            answer: "After 30 days [1].".to_owned(),
            citations: vec![citation],
            ..v1::AskResponse::default()
        };
        let text = answered(&found).render(Format::Table);
        assert_eq!(text, "After 30 days [1].\n\n[1] a.pdf, page 2: \"within 30 days\"\n");
        let none = answered(&v1::AskResponse::default()).render(Format::Table);
        assert_eq!(none, "The documents contain no answer.\n");
    }
}
