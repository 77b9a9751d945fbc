//! `folio review`: shows the values of extractions one after another, each with its quote from the document, and records
//! the decisions of the user; or requests the review of extractions by other users.

use std::collections::{HashMap, HashSet};
use std::io::IsTerminal as _;

use anstyle::Style;
use anyhow::Result;
use folio_proto::v1;
use folio_types::ExtractionId;
use serde_json::{Value, json};

use super::fields::{self, Field, fields};
use super::output::View;
use super::{DataArguments, extraction, list_items, parsed, present};
use crate::client::{Client, answer};
use crate::input::{Entry, Input};
use crate::layout::Span;
use crate::terminal::{BAD, BOLD, DIM, GOOD, NOTE, Screen};

const PROMPT: &str = "review> ";
const VALUE: &str = "new value> ";
const HELP: &str = "[a]pprove  [e]dit  [r]eject  [s]kip  [A]pprove all  [R]ejected again  [n]ext extraction  [q]uit";
/// The help at the end of an extraction with rejected values.
const HELP_AT_END: &str = "[R]ejected again  [n]ext extraction  [q]uit";
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
    /// Also show the values that have a decision, so that they can be corrected.
    #[arg(long)]
    all: bool,
    /// Request the review of the extractions, instead of reviewing them: `folio inbox` lists them until they are verified.
    #[arg(long, requires = "extractions", conflicts_with_all = ["limit", "all"])]
    request: bool,
    /// Withdraw the request for a review of the extractions. An extraction with decisions continues to wait.
    #[arg(long, requires = "extractions", conflicts_with_all = ["request", "limit", "all"])]
    withdraw: bool,
    #[command(flatten)]
    data: DataArguments,
}

pub(crate) async fn run(arguments: Arguments) -> Result<()> {
    let work = async |client: Client| match (arguments.request, arguments.withdraw) {
        (false, false) => review(client, &arguments).await,
        (requested, _) => request(&client, &arguments.extractions, requested).await,
    };
    arguments.data.run(work).await
}

/// Requests a review of extractions, or withdraws the requests. Stops at the first extraction that is refused.
async fn request(client: &Client, extractions: &[ExtractionId], requested: bool) -> Result<View> {
    let mut rows = Vec::with_capacity(extractions.len());
    for id in extractions {
        let request = v1::RequestReviewRequest { extraction_id: id.to_string(), requested, ..Default::default() };
        let extraction = present(answer(client.extractions().request_review(request)).await?.extraction)?;
        rows.push(json!({
            "extraction_id": extraction.extraction_id, "review_requested_by": extraction.review_requested_by,
            "verified": extraction.verified,
        }));
    }
    Ok(View::list(["extraction_id", "review_requested_by", "verified"], rows))
}

async fn review(client: Client, arguments: &Arguments) -> Result<View> {
    let ids = match &arguments.extractions {
        ids if ids.is_empty() => unverified(&client, arguments.limit).await?,
        ids => ids.iter().map(ToString::to_string).collect(),
    };
    let is_terminal = std::io::stdin().is_terminal() && std::io::stderr().is_terminal();
    let input = if is_terminal { Input::terminal(())? } else { Input::piped(false)? };
    let shown = if arguments.all { Selected::All } else { Selected::Undecided };
    let mut session = Session { client, input, screen: Screen::stderr(), selected: shown, documents: HashMap::new() };
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
    let found = list_items! {
        limit, client.extractions().list_extractions(ListExtractionsRequest {
            filter: "verified:false".to_owned(), include_data: Some(false)
        }) => extractions
    };
    Ok(found.await?.into_iter().map(|extraction| extraction.extraction_id).collect())
}

fn summary(extraction: &v1::Extraction) -> Value {
    let count = |decision| extraction.reviews.iter().filter(|review| review.decision() == decision).count();
    let (approved, rejected) = (count(v1::FieldDecision::Approved), count(v1::FieldDecision::Rejected));
    let undecided = fields(extraction).len().saturating_sub(approved + rejected);
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
    /// Shows the rejected values again.
    Rejected,
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
        "R" | "rejected" => Reply::Rejected,
        "n" | "next" => Reply::Next,
        "q" | "quit" => Reply::Quit,
        _ => Reply::Unknown,
    }
}

/// Returns the JSON of an entered value: a text replaces a text as it is; otherwise the entry is JSON, or else a text.
fn entered(text: &str, current: &Value) -> Value {
    if current.is_string() { Value::from(text) } else { parsed(text) }
}

/// The values of an extraction that are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Selected {
    Undecided,
    UndecidedAndRejected,
    All,
}

impl Selected {
    fn contains(self, decision: Option<v1::FieldDecision>) -> bool {
        match (self, decision) {
            (Self::All, _) | (_, None) => true,
            (Self::UndecidedAndRejected, Some(decision)) => decision == v1::FieldDecision::Rejected,
            (Self::Undecided, Some(_)) => false,
        }
    }
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
    /// The values that are shown first.
    selected: Selected,
    documents: HashMap<String, Document>,
}

impl Session {
    /// Reviews an extraction. Returns it, and false if the user quits.
    async fn extraction(&mut self, extraction_id: String) -> Result<(v1::Extraction, bool)> {
        let request = v1::GetExtractionRequest { extraction_id };
        let mut extraction = present(answer(self.client.extractions().get_extraction(request)).await?.extraction)?;
        // A value is shown once, unless rejected values are requested again.
        let (mut selected, mut seen) = (self.selected, HashSet::new());
        let name = self.document(&extraction.document_id).await?.name.clone();
        self.screen.line(BOLD, &format!("{name}  {}", extraction.extraction_id));
        for conflict in extraction::conflict_lines(&extraction) {
            self.screen.line(NOTE, &conflict);
        }
        for failed in fields::failed_checks(&extraction) {
            self.screen.line(BAD, &failed);
        }
        loop {
            let fields = fields(&extraction);
            let left: Vec<&Field<'_>> = fields
                .iter()
                .filter(|field| selected.contains(field.decision) && !seen.contains(&field.path))
                .collect();
            let reply = match left.first() {
                Some(field) => {
                    self.card(&extraction.document_id, field, left.len()).await?;
                    self.reply().await
                }
                None => {
                    let rejected = fields.iter().filter(|field| field.decision == Some(v1::FieldDecision::Rejected));
                    let rejected = rejected.count();
                    self.end(&extraction, rejected);
                    if rejected == 0 { Reply::Next } else { self.reply().await }
                }
            };
            let (path, decision, value) = match (reply, left.first()) {
                (Reply::Approve, Some(field)) => (field.path.clone(), v1::FieldDecision::Approved, None),
                (Reply::ApproveAll, Some(_)) => (String::new(), v1::FieldDecision::Approved, None),
                (Reply::Reject, Some(field)) => (field.path.clone(), v1::FieldDecision::Rejected, None),
                (Reply::Edit(text), Some(field)) => {
                    let text = match text {
                        Some(text) => text,
                        None => match self.input.line(VALUE).await {
                            Entry::Line(line) => line.trim().to_owned(),
                            Entry::Interrupted => continue,
                            Entry::End => return Ok((extraction, false)),
                        },
                    };
                    (field.path.clone(), v1::FieldDecision::Approved, Some(entered(&text, &field.value)))
                }
                (Reply::Skip, Some(field)) => {
                    seen.insert(field.path.clone());
                    continue;
                }
                (Reply::Rejected, _) => {
                    let is_rejected = |field: &&Field<'_>| field.decision == Some(v1::FieldDecision::Rejected);
                    for field in fields.iter().filter(is_rejected) {
                        seen.remove(&field.path);
                    }
                    if selected == Selected::Undecided {
                        selected = Selected::UndecidedAndRejected;
                    }
                    continue;
                }
                (Reply::Next, _) => return Ok((extraction, true)),
                (Reply::Quit, _) => return Ok((extraction, false)),
                (Reply::Unknown, Some(_)) => {
                    self.screen.line(DIM, HELP);
                    continue;
                }
                (_, None) => {
                    self.screen.line(DIM, HELP_AT_END);
                    continue;
                }
            };
            let is_all = path.is_empty() && value.is_none();
            let decided: Vec<String> = match is_all {
                true => fields.iter().map(|field| field.path.clone()).collect(),
                false => vec![path.clone()],
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
                Ok(reviewed) => {
                    extraction = present(reviewed.extraction)?;
                    seen.extend(decided);
                }
                Err(error) => {
                    self.screen.line(BAD, &format!("{error:#}"));
                    let request = v1::GetExtractionRequest { extraction_id: extraction.extraction_id.clone() };
                    extraction = present(answer(self.client.extractions().get_extraction(request)).await?.extraction)?;
                }
            }
        }
    }

    async fn reply(&mut self) -> Reply {
        match self.input.line(PROMPT).await {
            Entry::Line(line) => parse_reply(&line),
            Entry::Interrupted | Entry::End => Reply::Quit,
        }
    }

    /// Shows the state of an extraction after its last value.
    fn end(&mut self, extraction: &v1::Extraction, rejected: usize) {
        let (style, state) = if extraction.verified { (GOOD, "verified") } else { (NOTE, "not verified") };
        self.screen.line(style, &format!("{state}: no value is left to decide"));
        if rejected > 0 {
            self.screen.line(DIM, &format!("{rejected} rejected: {HELP_AT_END}"));
        }
    }

    /// Shows a value with its quote and the line around it.
    async fn card(&mut self, document_id: &str, field: &Field<'_>, left: usize) -> Result<()> {
        let path = if field.path.is_empty() { "(the data)" } else { &field.path };
        let name = Span::new(BOLD, format!("{path}  "));
        let decision = field.decision.map(|decision| format!("{}, ", fields::word(decision))).unwrap_or_default();
        let left = Span::new(DIM, format!("  ({decision}{left} left)"));
        self.screen.spans(&[name, Span::new(Style::new(), shown(&field.value)), left]);
        let evidence = field.evidence();
        let confidence = field.confidence.map(|share| format!(", confidence {share:.2}")).unwrap_or_default();
        let Some(citation) = field.citation else {
            let evidence = evidence.map(|evidence| format!("{evidence}: ")).unwrap_or_default();
            self.screen.line(DIM, &format!("  {evidence}not found in the text of the document{confidence}"));
            return Ok(());
        };
        let text = self.page(document_id, citation.page).await?;
        let (before, after) = around(&text, citation.start as usize, citation.quote.chars().count());
        let evidence = evidence.map(|evidence| format!("{evidence} on ")).unwrap_or_default();
        let location = Span::new(DIM, format!("  {evidence}{}{confidence}: {before}", extraction::location(citation)));
        self.screen.spans(&[location, Span::new(NOTE, citation.quote.clone()), Span::new(DIM, after)]);
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
    fn values_with_a_decision_are_shown_on_request() {
        use v1::FieldDecision::{Approved, Rejected};
        for (selected, shown) in [
            (Selected::Undecided, [true, false, false]),
            (Selected::UndecidedAndRejected, [true, true, false]),
            (Selected::All, [true, true, true]),
        ] {
            let decisions = [None, Some(Rejected), Some(Approved)];
            assert_eq!(decisions.map(|decision| selected.contains(decision)), shown, "{selected:?}");
        }
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
            ("R", Reply::Rejected),
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
