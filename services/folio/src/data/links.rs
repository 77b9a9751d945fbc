//! `folio links`.

use anyhow::Result;
use folio_proto::v1;
use serde_json::{Value, json};

use super::job::word;
use super::output::View;
use super::{DataArguments, ItemArguments, list_items, time};
use crate::client::{Client, answer};
use crate::documents;

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// List the targets of a document with the documents that they refer to.
    Show(Show),
    /// List the links of other documents to a document.
    To(To),
    /// List the targets that documents refer to and that do not exist, the oldest reference first.
    Missing(Missing),
    /// Read the links of a document again, and resolve them.
    Resolve(ItemArguments),
}

#[derive(Debug, clap::Args)]
pub(crate) struct Show {
    /// Only targets with this status.
    #[arg(long, value_enum)]
    status: Option<Status>,
    /// Maximum number of targets.
    #[arg(long, value_name = "N", default_value = "1000")]
    limit: usize,
    #[command(flatten)]
    item: ItemArguments,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Status {
    /// One document was found.
    Matched,
    /// Several documents were found.
    Ambiguous,
    /// No document was found.
    Missing,
}

#[derive(Debug, clap::Args)]
pub(crate) struct To {
    /// Maximum number of links.
    #[arg(long, value_name = "N", default_value = "1000")]
    limit: usize,
    #[command(flatten)]
    item: ItemArguments,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Missing {
    /// Maximum number of targets.
    #[arg(long, value_name = "N", default_value = "1000")]
    limit: usize,
    #[command(flatten)]
    data: DataArguments,
}

pub(crate) async fn run(command: Command) -> Result<()> {
    match command {
        Command::Show(show) => show.item.data.run(async |client| of_document(&client, &show).await).await,
        Command::To(to) => to.item.data.run(async |client| to_document(&client, &to).await).await,
        Command::Missing(missing) => {
            missing.data.run(async |client| missing_targets(&client, missing.limit).await).await
        }
        Command::Resolve(item) => item.data.run(async |client| resolve(&client, &item.item).await).await,
    }
}

async fn of_document(client: &Client, show: &Show) -> Result<View> {
    let document_id = documents::id(client, &show.item.item).await?;
    let filter = match show.status {
        None => "",
        Some(Status::Matched) => "status:matched",
        Some(Status::Ambiguous) => "status:ambiguous",
        Some(Status::Missing) => "status:missing",
    };
    let found = list_items! {
        show.limit, client.links().list_document_links(ListDocumentLinksRequest {
            document_id: document_id.clone(), filter: filter.to_owned()
        }) => links
    };
    let columns = ["page", "target", "status", "documents", "action"];
    Ok(View::list(columns, found.await?.iter().map(link_row).collect()).empty("the document has no links"))
}

async fn to_document(client: &Client, to: &To) -> Result<View> {
    let document_id = documents::id(client, &to.item.item).await?;
    let found = list_items! {
        to.limit, client.links().list_linking_documents(ListLinkingDocumentsRequest {
            document_id: document_id.clone()
        }) => links
    };
    let row = |link: &v1::IncomingLink| {
        let document = link.document.clone().unwrap_or_default();
        json!({
            "document_id": document.document_id, "document_name": document.document_name, "target": link.target,
            "create_time": time(link.create_time.as_ref()),
        })
    };
    let columns = ["document_name", "document_id", "target", "create_time"];
    Ok(View::list(columns, found.await?.iter().map(row).collect()).empty("no document refers to this one"))
}

async fn missing_targets(client: &Client, limit: usize) -> Result<View> {
    let found = list_items!(limit, client.links().list_missing_links(ListMissingLinksRequest {}) => links);
    let columns = ["target", "documents", "document_id", "create_time"];
    Ok(View::list(columns, found.await?.iter().map(missing_row).collect()).empty("no target is missing"))
}

async fn resolve(client: &Client, what: &str) -> Result<View> {
    let document_id = documents::id(client, what).await?;
    let request = v1::ResolveDocumentLinksRequest { document_id, ..Default::default() };
    let v1::ResolveDocumentLinksResponse { matched, ambiguous, missing, truncated } =
        answer(client.links().resolve_document_links(request)).await?;
    Ok(View::one(json!({ "matched": matched, "ambiguous": ambiguous, "missing": missing, "truncated": truncated })))
}

/// Returns a missing target with the number of documents that refer to it, and the first of them.
fn missing_row(link: &v1::MissingLink) -> Value {
    let more = if link.has_more_documents { "+" } else { "" };
    json!({
        "target": link.target, "documents": format!("{}{more}", link.document_ids.len()),
        "document_id": link.document_ids.first(), "document_ids": link.document_ids,
        "has_more_documents": link.has_more_documents, "create_time": time(link.create_time.as_ref()),
    })
}

fn link_row(link: &v1::ResolvedLink) -> Value {
    let names: Vec<&str> = link.documents.iter().map(|document| document.document_name.as_str()).collect();
    let ids: Vec<&str> = link.documents.iter().map(|document| document.document_id.as_str()).collect();
    json!({
        "page": link.page, "anchor_text": link.anchor_text, "target": link.target,
        "status": word(link.status().as_str_name(), "LINK_STATUS_"),
        "matched_by": word(link.matched_by().as_str_name(), "LINK_PROPERTY_"),
        "documents": names, "document_ids": ids, "action": word(link.action().as_str_name(), "LINK_ACTION_"),
        "create_time": time(link.create_time.as_ref()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_target_states_how_many_documents_refer_to_it() {
        let document_ids = vec!["doc_1".to_owned(), "doc_2".to_owned()];
        let mut link = v1::MissingLink { target: "annex.pdf".to_owned(), document_ids, ..Default::default() };
        assert_eq!(missing_row(&link)["documents"], "2");
        link.has_more_documents = true;
        let row = missing_row(&link);
        assert_eq!((&row["documents"], &row["document_id"]), (&json!("2+"), &json!("doc_1")));
        assert_eq!(row["document_ids"], json!(["doc_1", "doc_2"]));
    }

    #[test]
    fn a_row_names_the_status_the_documents_and_the_action() {
        let document = v1::LinkedDocument { document_id: "doc_1".to_owned(), document_name: "Annex.pdf".to_owned() };
        let link = v1::ResolvedLink {
            target: "annex.pdf".to_owned(),
            status: v1::LinkStatus::Matched.into(),
            matched_by: v1::LinkProperty::Name.into(),
            documents: vec![document],
            action: v1::LinkAction::Left.into(),
            ..Default::default()
        };
        let row = link_row(&link);
        assert_eq!(
            (&row["status"], &row["matched_by"], &row["action"]),
            (&json!("matched"), &json!("name"), &json!("left"))
        );
        assert_eq!((&row["documents"], &row["document_ids"]), (&json!(["Annex.pdf"]), &json!(["doc_1"])));
    }
}
