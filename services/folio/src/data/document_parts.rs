//! `folio document parts` and `folio document split`.

use anyhow::{Result, ensure};
use folio_proto::v1;
use serde_json::{Value, json};

use super::ItemArguments;
use super::document::{all, row};
use super::output::View;
use crate::client::{Client, answer};
use crate::{documents, names};

const PART_COLUMNS: [&str; 6] = ["position", "document_id", "name", "state", "path", "refused"];
const PROPOSAL_COLUMNS: [&str; 4] = ["pages", "name", "label", "reasons"];
const COLUMNS: [&str; 4] = ["document_id", "name", "state", "create_time"];

#[derive(Debug, clap::Args)]
pub(crate) struct PartsArguments {
    /// Maximum number of parts.
    #[arg(long, value_name = "N", default_value_t = 500)]
    limit: usize,
    #[command(flatten)]
    pub(super) item: ItemArguments,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Split {
    /// A part: its pages, such as `1-3` or `4`, and optionally the name of its document; may be given several times.
    #[arg(long = "part", value_name = "PAGES[=NAME]", value_parser = part)]
    parts: Vec<v1::SplitPart>,
    /// Split the document as the server proposes. Without this flag and without parts, the proposal is printed.
    #[arg(long, conflicts_with = "parts")]
    accept: bool,
    /// The idempotency key: a repeated command with the same key creates no further documents [default: a new key].
    #[arg(long, value_name = "ID", default_value = "")]
    request_id: String,
    #[command(flatten)]
    pub(super) item: ItemArguments,
}

pub(super) async fn parts(client: &Client, arguments: &PartsArguments) -> Result<View> {
    let parent = documents::find(client, &arguments.item.item, names::choose).await?;
    let found = all(client, &format!("parent={}", parent.document_id), arguments.limit).await?;
    let mut rows: Vec<(u32, Value)> = found.iter().map(|document| (position(document), part_row(document))).collect();
    // A refusal without a position concerns the rest of the file, and is the last row.
    let refused = parent.refused_parts.iter();
    rows.extend(refused.map(|part| (part.position.checked_sub(1).map_or(u32::MAX, |at| at + 1), refused_row(part))));
    rows.sort_by_key(|(position, _)| *position);
    Ok(View::list(PART_COLUMNS, rows.into_iter().map(|(_, row)| row).collect()))
}

fn position(document: &v1::Document) -> u32 {
    document.part.as_ref().map(|part| part.position).unwrap_or_default()
}

fn part_row(document: &v1::Document) -> Value {
    let mut row = row(document);
    let part = document.part.clone().unwrap_or_default();
    let path = match part.first_page {
        0 => part.path,
        first => pages(first, part.last_page),
    };
    if let Value::Object(members) = &mut row {
        members.insert("position".to_owned(), json!(part.position));
        members.insert("path".to_owned(), json!(path));
        members.insert("refused".to_owned(), json!(""));
    }
    row
}

fn refused_row(part: &v1::RefusedPart) -> Value {
    json!({
        "position": part.position, "document_id": "", "name": "", "state": "", "path": part.path, "refused": part.reason,
    })
}

pub(super) async fn split(client: &Client, split: &Split) -> Result<View> {
    let document_id = documents::find(client, &split.item.item, names::choose_only).await?.document_id;
    let parts = match split.parts.is_empty() {
        false => split.parts.clone(),
        true => {
            let request = v1::ProposeSplitRequest { document_id: document_id.clone() };
            let proposed = answer(client.documents().propose_split(request)).await?.parts;
            if !split.accept {
                return Ok(View::list(PROPOSAL_COLUMNS, proposed.iter().map(proposal_row).collect()));
            }
            ensure!(proposed.len() > 1, "no split point was detected; state the parts with --part");
            proposed.into_iter().map(accepted).collect()
        }
    };
    let request = v1::SplitDocumentRequest { document_id, parts, request_id: split.request_id.clone() };
    let created = answer(client.documents().split_document(request)).await?.documents;
    Ok(View::list(COLUMNS, created.iter().map(row).collect()))
}

fn accepted(part: v1::ProposedPart) -> v1::SplitPart {
    v1::SplitPart { first_page: part.first_page, last_page: part.last_page, name: part.name }
}

fn proposal_row(part: &v1::ProposedPart) -> Value {
    let reason = |reason: v1::SplitReason| reason.as_str_name().trim_start_matches("SPLIT_REASON_").to_lowercase();
    let reasons: Vec<String> = part.reasons().map(reason).collect();
    json!({
        "pages": pages(part.first_page, part.last_page), "first_page": part.first_page, "last_page": part.last_page,
        "name": part.name, "label": part.label, "reasons": reasons,
    })
}

fn pages(first: u32, last: u32) -> String {
    if first == last { first.to_string() } else { format!("{first}-{last}") }
}

/// Parses `PAGES[=NAME]`.
fn part(text: &str) -> Result<v1::SplitPart, String> {
    let invalid = || format!("invalid part {text:?}: expected PAGES[=NAME] with pages such as 1-3 or 4");
    let (pages, name) = text.split_once('=').unwrap_or((text, ""));
    let (first, last) = pages.split_once('-').unwrap_or((pages, pages));
    let number = |text: &str| text.trim().parse::<u32>().map_err(|_| invalid());
    let (first_page, last_page) = (number(first)?, number(last)?);
    if first_page == 0 || last_page < first_page {
        return Err(invalid());
    }
    Ok(v1::SplitPart { first_page, last_page, name: name.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::super::output::Format;
    use super::*;

    #[test]
    fn a_part_has_pages_and_optionally_a_name() {
        let expected =
            |first_page, last_page, name: &str| v1::SplitPart { first_page, last_page, name: name.to_owned() };
        assert_eq!(part("1-3"), Ok(expected(1, 3, "")));
        assert_eq!(part("4=April = paid.pdf"), Ok(expected(4, 4, "April = paid.pdf")));
        for bad in ["", "0", "3-1", "a", "1-", "-2"] {
            assert!(part(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn parts_are_printed_with_their_pages_or_paths() {
        let range = v1::DocumentPart { position: 1, first_page: 2, last_page: 3, ..v1::DocumentPart::default() };
        let document = v1::Document { name: "a.pdf".to_owned(), part: Some(range), ..v1::Document::default() };
        let refused = v1::RefusedPart { position: 2, path: "in/b.exe".to_owned(), reason: "not accepted".to_owned() };
        let rows = vec![part_row(&document), refused_row(&refused)];
        assert_eq!((rows[0]["path"].as_str(), rows[1]["refused"].as_str()), (Some("2-3"), Some("not accepted")));
        let table = View::list(PART_COLUMNS, rows).render(Format::Table);
        assert!(table.contains("in/b.exe") && table.contains("a.pdf"), "{table}");
    }
}
