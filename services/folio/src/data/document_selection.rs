//! The selection of the documents of a job.

use anyhow::{Result, bail};
use folio_operations::filter::quote;

use super::tag;
use crate::client::Client;
use crate::{documents, names};

/// Documents by their ids and names, or by conditions, which all hold.
#[derive(Debug, clap::Args)]
pub(crate) struct DocumentSelection {
    /// The documents, by id or name [default: those that --tag, --name, --metadata or --all select].
    #[arg(value_name = "DOCUMENT", conflicts_with_all = ["tags", "name", "metadata", "all"])]
    documents: Vec<String>,
    /// Documents with this tag, by id or name; may be given several times.
    #[arg(long = "tag", value_name = "TAG")]
    tags: Vec<String>,
    /// Documents whose name contains this text.
    #[arg(long, value_name = "TEXT")]
    name: Option<String>,
    /// Documents whose entry KEY of the metadata contains this text; may be given several times.
    #[arg(long = "metadata", value_name = "KEY=TEXT", value_parser = super::document::entry)]
    metadata: Vec<(String, String)>,
    /// All documents.
    #[arg(long, conflicts_with_all = ["tags", "name", "metadata"])]
    all: bool,
}

/// The selected documents, as requests name them.
pub(super) struct SelectedDocuments {
    /// Empty: the filter selects the documents.
    pub(super) document_ids: Vec<String>,
    /// None: the ids select the documents.
    pub(super) document_filter: Option<String>,
}

impl DocumentSelection {
    /// Finds the ids of the named resources.
    pub(super) async fn resolve(&self, client: &Client) -> Result<SelectedDocuments> {
        let document_ids = documents::ids(client, &self.documents).await?;
        let document_filter = match document_ids.is_empty() {
            true => Some(self.filter(client).await?),
            false => None,
        };
        Ok(SelectedDocuments { document_ids, document_filter })
    }

    /// Returns the filter of the selected documents.
    async fn filter(&self, client: &Client) -> Result<String> {
        let tags = tag::ids(client, &self.tags).await?;
        let conditions = conditions(&tags, self.name.as_deref(), &self.metadata);
        if conditions.is_empty() && !self.all {
            bail!("no documents are selected: name them, or use --tag, --name, --metadata or --all");
        }
        Ok(conditions)
    }
}

fn conditions(tags: &[String], name: Option<&str>, metadata: &[(String, String)]) -> String {
    let tags = tags.iter().map(|tag| format!("tag:{tag}"));
    let metadata = metadata.iter().map(|(key, text)| format!("metadata.{key}:{}", quote(text)));
    tags.chain(name.map(names::filter)).chain(metadata).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_selection_is_a_filter_of_documents() {
        let metadata = [("year".to_owned(), r#"20"26"#.to_owned())];
        let found = conditions(&["tag_1".to_owned()], Some("in voice"), &metadata);
        assert_eq!(found, r#"tag:tag_1 name:"in voice" metadata.year:"20\"26""#);
        assert_eq!(conditions(&[], None, &[]), "");
    }
}
