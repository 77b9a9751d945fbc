//! `folio review`: shows the values of extractions one after another, each with its quote from the document, and records
//! the decisions of the user.

use std::collections::{HashMap, HashSet};
use std::io::IsTerminal as _;

use anstyle::Style;
use anyhow::Result;
use folio_proto::v1;
use folio_resources::leaves;
use folio_types::ExtractionId;
use serde_json::{Value, json};

use super::output::View;
use super::{DataArguments, collect, extraction, parsed, present};
use crate::client::{Client, answer};
use crate::input::{Entry, Input};
use crate::layout::Span;
use crate::terminal::{BAD, BOLD, DIM, GOOD, NOTE, Screen};

const PROMPT: &str = "review> ";
const VALUE: &str = "new value> ";
const HELP: &str = "[a]pprove  [e]dit  [r]eject  [s]kip  [A]pprove all  [n]ext extraction  [q]uit";
/// Maximum length of the line around a quote, in characters.
const LINE_CHARS: usize = 160;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The extractions, by id [default: those that are not verified, newest first].
    #[arg(value_name = "ID")]
    extractions: Vec<ExtractionId>,
    /// Maximum number of extractions.
    #[arg(long, value_name = "N", default_value = "100")]
    limit: usize,
    #[command(flatten)]
    data: DataArguments,
}

pub(crate) async fn run(arguments: Arguments) -> Result<()> {
    arguments.data.run(async |client| review(client, &arguments).await).await
}

async fn review(client: Client, arguments: &Arguments) -> Result<View> {
    let ids = match &arguments.extractions {
        ids if ids.is_empty() => unverified(&client, arguments.limit).await?,
        ids => ids.iter().map(ToString::to_string).collect(),
    };
    let is_terminal = std::io::stdin().is_terminal() && std::io::stderr().is_terminal();
    let input = if is_terminal { Input::terminal(())? } else { Input::piped(false)? };
    let mut session = Session { client, input, screen: Screen::stderr(), documents: HashMap::new() };
    let mut rows = Vec::new();
    for id in ids {
        let (extraction, continues) = session.extraction(id).await?;
        rows.push(summary(&extraction));
        if !continues {
            break;
        }
    }
    Ok(View::list(["extraction_id", "approved", "rejected", "undecided", "verified"], rows))
}

async fn unverified(client: &Client, limit: usize) -> Result<Vec<String>> {
    let found = collect(limit, async |page_size, page_token| {
        let (filter, include_data) = ("verified:false".to_owned(), Some(false));
        let request = v1::ListExtractionsRequest { filter, include_data, page_size, page_token, ..Default::default() };
        let page = answer(client.extractions().list_extractions(request)).await?;
        Ok((page.extractions, page.next_page_token))
    });
    Ok(found.await?.into_iter().map(|extraction| extraction.extraction_id).collect())
}

fn summary(extraction: &v1::Extraction) -> Value {
    let count = |decision| extraction.reviews.iter().filter(|review| review.decision() == decision).count();
    let (approved, rejected) = (count(v1::FieldDecision::Approved), count(v1::FieldDecision::Rejected));
    let data = extraction::data(extraction);
    let undecided = leaves(&data).len().saturating_sub(approved + rejected);
    json!({
        "extraction_id": extraction.extraction_id, "approved": approved, "rejected": rejected, "undecided": undecided,
        "verified": extraction.verified,
    })
}

/// A reply to the card of a value.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Reply {
    Approve,
    ApproveAll,
    /// None: the user is prompted for the value.
    Edit(Option<String>),
    Reject,
    Skip,
    Next,
    Quit,
    Unknown,
}

fn parse_reply(line: &str) -> Reply {
    let line = line.trim();
    let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
    match word {
        "a" | "approve" => Reply::Approve,
        "A" | "all" => Reply::ApproveAll,
        "e" | "edit" => Reply::Edit(Some(rest.trim().to_owned()).filter(|rest| !rest.is_empty())),
        "r" | "reject" => Reply::Reject,
        "s" | "skip" => Reply::Skip,
        "n" | "next" => Reply::Next,
        "q" | "quit" => Reply::Quit,
        _ => Reply::Unknown,
    }
}

/// Returns the JSON of an entered value: a text replaces a text as it is; otherwise the entry is JSON, or else a text.
fn entered(text: &str, current: &Value) -> Value {
    if current.is_string() { Value::from(text) } else { parsed(text) }
}

/// A document of the session.
#[derive(Default)]
struct Document {
    name: String,
    /// The texts of the pages that were read.
    pages: HashMap<u32, String>,
}

struct Session {
    client: Client,
    input: Input,
    screen: Screen,
    documents: HashMap<String, Document>,
}

impl Session {
    /// Reviews an extraction. Returns it, and false if the user quits.
    async fn extraction(&mut self, extraction_id: String) -> Result<(v1::Extraction, bool)> {
        let request = v1::GetExtractionRequest { extraction_id };
        let mut extraction = present(answer(self.client.extractions().get_extraction(request)).await?.extraction)?;
        let mut skipped = HashSet::new();
        let name = self.document(&extraction.document_id).await?.name.clone();
        self.screen.line(BOLD, &format!("{name}  {}", extraction.extraction_id));
        loop {
            let data = extraction::data(&extraction);
            let decided: HashSet<&str> = extraction.reviews.iter().map(|review| review.path.as_str()).collect();
            let left: Vec<(String, &Value)> = leaves(&data)
                .into_iter()
                .filter(|(path, _)| !decided.contains(path.as_str()) && !skipped.contains(path))
                .collect();
            let Some((path, value)) = left.first() else {
                let (style, state) = if extraction.verified { (GOOD, "verified") } else { (NOTE, "not verified") };
                self.screen.line(style, &format!("{state}: no value is left to decide"));
                return Ok((extraction, true));
            };
            self.card(&extraction, path, value, left.len()).await?;
            let reply = match self.input.line(PROMPT).await {
                Entry::Line(line) => parse_reply(&line),
                Entry::Interrupted | Entry::End => Reply::Quit,
            };
            let (path, decision, value) = match reply {
                Reply::Approve => (path.clone(), v1::FieldDecision::Approved, None),
                Reply::ApproveAll => (String::new(), v1::FieldDecision::Approved, None),
                Reply::Reject => (path.clone(), v1::FieldDecision::Rejected, None),
                Reply::Edit(text) => {
                    let text = match text {
                        Some(text) => text,
                        None => match self.input.line(VALUE).await {
                            Entry::Line(line) => line.trim().to_owned(),
                            Entry::Interrupted => continue,
                            Entry::End => return Ok((extraction, false)),
                        },
                    };
                    (path.clone(), v1::FieldDecision::Approved, Some(entered(&text, value)))
                }
                Reply::Skip => {
                    skipped.insert(path.clone());
                    continue;
                }
                Reply::Next => return Ok((extraction, true)),
                Reply::Quit => return Ok((extraction, false)),
                Reply::Unknown => {
                    self.screen.line(DIM, HELP);
                    continue;
                }
            };
            let request = v1::ReviewExtractionFieldRequest {
                extraction_id: extraction.extraction_id.clone(),
                path,
                decision: decision.into(),
                value_json: value.map(|value| value.to_string()),
                etag: extraction.etag.clone(),
                ..Default::default()
            };
            match answer(self.client.extractions().review_extraction_field(request)).await {
                Ok(reviewed) => extraction = present(reviewed.extraction)?,
                Err(error) => {
                    self.screen.line(BAD, &format!("{error:#}"));
                    let request = v1::GetExtractionRequest { extraction_id: extraction.extraction_id.clone() };
                    extraction = present(answer(self.client.extractions().get_extraction(request)).await?.extraction)?;
                }
            }
        }
    }

    /// Shows a value with its quote and the line around it.
    async fn card(&mut self, extraction: &v1::Extraction, path: &str, value: &Value, left: usize) -> Result<()> {
        let field = if path.is_empty() { "(the data)" } else { path };
        let name = Span::new(BOLD, format!("{field}  "));
        self.screen.spans(&[name, Span::new(Style::new(), shown(value)), Span::new(DIM, format!("  ({left} left)"))]);
        let original = parsed(&extraction.original_json);
        let is_original = leaves(&original).iter().any(|(found, original)| found == path && *original == value);
        let citation = extraction.citations.iter().find(|citation| is_original && citation.path == path);
        let confidence = extraction::confidence_of(extraction, path).filter(|_| is_original);
        let confidence = confidence.map(|share| format!(", confidence {share:.2}")).unwrap_or_default();
        let Some(citation) = citation else {
            let kind = if is_original { "inferred: " } else { "" };
            self.screen.line(DIM, &format!("  {kind}not found in the text of the document{confidence}"));
            return Ok(());
        };
        let text = self.page(&extraction.document_id, citation.page).await?;
        let (before, after) = around(&text, citation.start as usize, citation.quote.chars().count());
        let kind = extraction::kind(citation.kind());
        let page = Span::new(DIM, format!("  {kind} on page {}{confidence}: {before}", citation.page));
        self.screen.spans(&[page, Span::new(NOTE, citation.quote.clone()), Span::new(DIM, after)]);
        Ok(())
    }

    async fn document(&mut self, id: &str) -> Result<&mut Document> {
        if !self.documents.contains_key(id) {
            let request = v1::GetDocumentRequest { document_id: id.to_owned() };
            let found = present(answer(self.client.documents().get_document(request)).await?.document)?;
            self.documents.insert(id.to_owned(), Document { name: found.name, ..Document::default() });
        }
        Ok(self.documents.entry(id.to_owned()).or_default())
    }

    /// Returns the text of a page.
    async fn page(&mut self, document_id: &str, number: u32) -> Result<String> {
        if let Some(text) = self.document(document_id).await?.pages.get(&number) {
            return Ok(text.clone());
        }
        let request =
            v1::GetDocumentTextRequest { document_id: document_id.to_owned(), from_page: number, page_count: 1 };
        let part = answer(self.client.documents().get_document_text(request)).await?;
        let text = part.pages.into_iter().next().map(|page| page.text).unwrap_or_default();
        self.document(document_id).await?.pages.insert(number, text.clone());
        Ok(text)
    }
}

/// Returns a value in one line.
fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => "(no value)".to_owned(),
        other => other.to_string(),
    }
}

/// Returns the parts of the line before and after a quote. `start` and `length` are in characters.
fn around(text: &str, start: usize, length: usize) -> (String, String) {
    let before: Vec<char> = text.chars().take(start).collect();
    let line_start = before.iter().rposition(|c| *c == '\n').map_or(0, |at| at + 1);
    let before = before.get(line_start..).unwrap_or_default();
    let surplus = before.len().saturating_sub(LINE_CHARS / 2);
    let before = before.iter().skip(surplus).collect();
    let after = text.chars().skip(start + length).take_while(|c| *c != '\n').take(LINE_CHARS / 2).collect();
    (before, after)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_around_a_quote_is_bounded() {
        let text = "Rechnung\nSumme: 957,00 € inkl. USt\nDanke";
        assert_eq!(around(text, 16, 6), ("Summe: ".to_owned(), " € inkl. USt".to_owned()));
        assert_eq!(around(text, 0, 8), (String::new(), String::new()));
        let long = "ä".repeat(1_000);
        let (before, after) = around(&long, 500, 10);
        assert_eq!((before.chars().count(), after.chars().count()), (LINE_CHARS / 2, LINE_CHARS / 2));
        assert_eq!(around("a", 5, 5), ("a".to_owned(), String::new()));
    }

    #[test]
    fn a_reply_is_a_letter_or_a_word() {
        for (line, reply) in [
            ("a", Reply::Approve),
            (" approve ", Reply::Approve),
            ("A", Reply::ApproveAll),
            ("e", Reply::Edit(None)),
            ("e 12.5", Reply::Edit(Some("12.5".to_owned()))),
            ("edit  ACME GmbH", Reply::Edit(Some("ACME GmbH".to_owned()))),
            ("r", Reply::Reject),
            ("s", Reply::Skip),
            ("n", Reply::Next),
            ("q", Reply::Quit),
            ("", Reply::Unknown),
            ("yes", Reply::Unknown),
        ] {
            assert_eq!(parse_reply(line), reply, "{line:?}");
        }
    }

    #[test]
    fn an_entered_text_replaces_a_text_and_json_everything_else() {
        assert_eq!(entered("12", &json!("a")), json!("12"));
        assert_eq!(entered("12", &json!(3)), json!(12));
        assert_eq!(entered("2026-01-02", &Value::Null), json!("2026-01-02"));
        assert_eq!(
            (shown(&json!("a")), shown(&Value::Null), shown(&json!(1.5))),
            ("a".into(), "(no value)".into(), "1.5".into())
        );
    }
}
