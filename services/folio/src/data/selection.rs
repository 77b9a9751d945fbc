//! The selection of extractions of `folio extraction list` and `folio extraction export`.

use anyhow::Result;
use folio_proto::v1;
use folio_types::Timestamp;

use super::{list_items, prompt, schema, tag};
use crate::client::Client;
use crate::{documents, names};

/// The conditions of extractions, which all hold.
#[derive(Debug, clap::Args)]
pub(crate) struct Selection {
    /// The documents, by id or name [default: all].
    #[arg(value_name = "DOCUMENT")]
    documents: Vec<String>,
    /// Only extractions of this prompt or prompt revision, by id or name.
    #[arg(long, value_name = "PROMPT")]
    prompt: Option<String>,
    /// Only extractions with this schema or schema revision, by id or name.
    #[arg(long, value_name = "SCHEMA")]
    schema: Option<String>,
    /// Only extractions of documents with this tag, by id or name; may be given several times.
    #[arg(long = "tag", value_name = "TAG")]
    tags: Vec<String>,
    /// Only verified extractions.
    #[arg(long)]
    verified: bool,
    /// Start of the period of creation, such as 2026-05-01 or 2026-05-01T09:30:00Z [default: the first extraction].
    #[arg(long, value_name = "TIME", value_parser = crate::arguments::time)]
    from: Option<Timestamp>,
    /// End of the period of creation, exclusive [default: now].
    #[arg(long, value_name = "TIME", value_parser = crate::arguments::time)]
    until: Option<Timestamp>,
}

/// The conditions with ids in place of names.
pub(super) struct Conditions {
    /// Empty: all documents.
    pub(super) document_ids: Vec<String>,
    pub(super) filter: String,
    pub(super) start_time: Option<prost_types::Timestamp>,
    pub(super) end_time: Option<prost_types::Timestamp>,
}

impl Selection {
    /// The names of the arguments.
    pub(super) const CONDITIONS: [&str; 7] = ["documents", "prompt", "schema", "tags", "verified", "from", "until"];

    /// Finds the ids of the named resources.
    pub(super) async fn resolve(&self, client: &Client) -> Result<Conditions> {
        let document_ids = documents::ids(client, &self.documents).await?;
        let prompt = match &self.prompt {
            Some(prompt) => Some(prompt::id(client, prompt, names::choose).await?),
            None => None,
        };
        let schema = match &self.schema {
            Some(schema) => Some(schema::id(client, schema, names::choose).await?),
            None => None,
        };
        let tags = tag::ids(client, &self.tags).await?;
        Ok(Conditions {
            document_ids,
            filter: filter(prompt.as_deref(), schema.as_deref(), &tags, self.verified),
            start_time: self.from.map(folio_proto::time::to_proto),
            end_time: self.until.map(folio_proto::time::to_proto),
        })
    }
}

fn filter(prompt: Option<&str>, schema: Option<&str>, tags: &[String], is_verified: bool) -> String {
    let prompt = prompt.map(|id| format!("prompt:{id}"));
    let schema = schema.map(|id| format!("schema:{id}"));
    let tags = tags.iter().map(|id| format!("tag:{id}"));
    let verified = is_verified.then(|| "verified:true".to_owned());
    prompt.into_iter().chain(schema).chain(tags).chain(verified).collect::<Vec<_>>().join(" ")
}

/// Returns the selected extractions, newest first: at most `limit`, or of each document if the selection names documents.
pub(super) async fn extractions(client: &Client, selection: &Selection, limit: usize) -> Result<Vec<v1::Extraction>> {
    let Conditions { mut document_ids, filter, start_time, end_time } = selection.resolve(client).await?;
    if document_ids.is_empty() {
        // An empty id selects all documents.
        document_ids.push(String::new());
    }
    let mut found = Vec::new();
    for document_id in &document_ids {
        let listed = list_items! {
            limit, client.extractions().list_extractions(ListExtractionsRequest {
                document_id: document_id.clone(), filter: filter.clone(), start_time, end_time
            }) => extractions
        };
        found.extend(listed.await?);
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_condition_is_a_part_of_the_filter() {
        let tags = ["tag_1".to_owned(), "tag_2".to_owned()];
        let all = filter(Some("prm_1.2"), Some("sch_1"), &tags, true);
        assert_eq!(all, "prompt:prm_1.2 schema:sch_1 tag:tag_1 tag:tag_2 verified:true");
        assert_eq!(filter(None, Some("sch_1"), &[], false), "schema:sch_1");
        assert_eq!(filter(None, None, &[], false), "");
    }
}
