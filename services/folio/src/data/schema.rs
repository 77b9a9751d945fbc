//! `folio schema`.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use folio_proto::v1;
use folio_types::{SchemaId, SchemaRevId, limits};
use serde_json::{Value, json};

use super::output::View;
use super::{
    DataArguments, ItemArguments, ListArguments, deleted, list_items, parsed, pending_review, present, read_text, time,
    update_mask, with_review,
};
use crate::client::{Client, answer};
use crate::documents;
use crate::names::{self, Choice, chosen};

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// List schemas with their newest revisions, newest first.
    List(ListArguments),
    /// Print a schema with its review rule: by the id or the name of a schema, with its newest revision, or by the id of a revision.
    Show(ItemArguments),
    /// Create a schema, or a revision of the schema with this name.
    Create(Create),
    /// Set or remove the review rule of a schema, which approves values of new extractions without a person.
    Rule(Rule),
    /// Delete a schema that no prompt refers to, with all its revisions.
    #[command(visible_alias = "delete")]
    Rm(ItemArguments),
}

#[derive(Debug, clap::Args)]
pub(crate) struct Create {
    /// The name.
    name: String,
    /// The file with the JSON Schema or the response format; - for standard input.
    file: PathBuf,
    /// Accept a schema that violates the strict rules.
    #[arg(long)]
    allow_non_strict: bool,
    #[command(flatten)]
    data: DataArguments,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Rule {
    /// The id or the name.
    #[arg(value_name = "ID or NAME")]
    item: String,
    /// Minimum confidence of the model in an approved value, 0 to 1.
    #[arg(long, value_name = "NUMBER", required_unless_present = "remove")]
    min_confidence: Option<f64>,
    /// An equation over the values, such as "sum(items.amount) = subtotal". If it does not hold, none of its values is
    /// approved. May be given several times.
    #[arg(long = "check", value_name = "EQUATION")]
    checks: Vec<String>,
    /// Remove the rule.
    #[arg(long, conflicts_with_all = ["min_confidence", "checks"])]
    remove: bool,
    #[command(flatten)]
    data: DataArguments,
}

pub(crate) async fn run(command: Command) -> Result<()> {
    match command {
        Command::List(list) => list.data.run(async |client| schemas(&client, &list).await).await,
        Command::Show(show) => show.data.run(async |client| revision(&client, &show.item).await).await,
        Command::Create(create) => {
            // An invalid file is refused before the command connects to a server.
            let text = read_text(&create.file, limits::SCHEMA_BYTES)?;
            let format = response_format(&create.name, &text, !create.allow_non_strict)?;
            create.data.run(async |client| make(&client, &create, format).await).await
        }
        Command::Rule(rule) => rule.data.run(async |client| set_rule(&client, &rule).await).await,
        Command::Rm(rm) => rm.data.run(async |client| remove(&client, &rm.item).await).await,
    }
}

async fn remove(client: &Client, what: &str) -> Result<View> {
    let schema_id = id(client, what, names::choose_only).await?;
    let request = v1::DeleteSchemaRequest { schema_id: schema_id.clone(), ..Default::default() };
    answer(client.schemas().delete_schema(request)).await?;
    Ok(deleted(&schema_id))
}

async fn schemas(client: &Client, list: &ListArguments) -> Result<View> {
    let found = list_items! {
        list.limit, client.schemas().list_schemas(ListSchemasRequest { filter: list.filter() }) => schemas
    };
    let rows: Vec<Value> = found.await?.iter().map(row).collect();
    Ok(View::list(with_review(&["schema_id", "name", "revision", "strict", "revision_create_time"], &rows), rows))
}

async fn revision(client: &Client, what: &str) -> Result<View> {
    let revision = get_revision(client, id(client, what, names::choose).await?).await?;
    let schema = schema_of(client, &revision.schema_id).await?;
    Ok(View::one(json!({
        "schema_revid": revision.schema_revid, "schema_id": revision.schema_id, "name": revision.name,
        "revision": revision.revision, "strict": revision.strict, "created_by": revision.created_by,
        "create_time": time(revision.create_time.as_ref()), "review_rule": rule_of(&schema),
        "response_format": parsed(&revision.response_format_json),
    })))
}

async fn set_rule(client: &Client, rule: &Rule) -> Result<View> {
    let revision = get_revision(client, id(client, &rule.item, names::choose).await?).await?;
    let review_rule =
        rule.min_confidence.map(|min_confidence| v1::ReviewRule { min_confidence, checks: rule.checks.clone() });
    let schema = v1::Schema { schema_id: revision.schema_id, review_rule, ..v1::Schema::default() };
    let request = v1::UpdateSchemaRequest {
        schema: Some(schema),
        update_mask: update_mask(&["review_rule"]),
        ..Default::default()
    };
    Ok(View::one(row(&present(answer(client.schemas().update_schema(request)).await?.schema)?)))
}

/// Returns a schema with its review rule, which revisions do not contain.
async fn schema_of(client: &Client, schema_id: &str) -> Result<v1::Schema> {
    let filter = names::filter(&get_revision(client, schema_id.to_owned()).await?.name);
    let mut page_token = String::new();
    loop {
        let request = v1::ListSchemasRequest {
            page_size: names::CANDIDATES,
            page_token,
            filter: filter.clone(),
            ..Default::default()
        };
        let page = answer(client.schemas().list_schemas(request)).await?;
        if let Some(schema) = page.schemas.into_iter().find(|schema| schema.schema_id == schema_id) {
            return Ok(schema);
        }
        ensure!(!page.next_page_token.is_empty(), "the schema was changed meanwhile; repeat the command");
        page_token = page.next_page_token;
    }
}

fn rule_of(schema: &v1::Schema) -> Value {
    let rule = schema.review_rule.as_ref();
    rule.map_or(Value::Null, |rule| json!({ "min_confidence": rule.min_confidence, "checks": rule.checks }))
}

async fn make(client: &Client, create: &Create, format: String) -> Result<View> {
    Ok(View::one(row(&create_schema(client, create.name.clone(), format, create.allow_non_strict).await?)))
}

async fn create_schema(client: &Client, name: String, format: String, allow_non_strict: bool) -> Result<v1::Schema> {
    let schema = v1::Schema { name, response_format_json: format, ..v1::Schema::default() };
    let request = v1::CreateSchemaRequest { schema: Some(schema), allow_non_strict, ..Default::default() };
    present(answer(client.schemas().create_schema(request)).await?.schema)
}

/// Returns a revision of a schema. `what`: the id of a revision; or the id or the name of a schema, for its newest revision; or a
/// file. The content of a file becomes a revision of the schema with the name of the file, unless the newest revision already
/// has this content.
pub(super) async fn revision_of(client: &Client, what: &str) -> Result<v1::SchemaRevision> {
    let path = Path::new(what);
    let schema_revid = if path.is_file() {
        let name = documents::name_of(Path::new(path.file_stem().unwrap_or_default()));
        let format = response_format(&name, &read_text(path, limits::SCHEMA_BYTES)?, true)?;
        create_schema(client, name, format, true).await?.schema_revid
    } else {
        id(client, what, names::choose_without_file).await?
    };
    get_revision(client, schema_revid).await
}

/// Returns a revision. The id of a schema selects its newest revision.
pub(super) async fn get_revision(client: &Client, schema_revid: String) -> Result<v1::SchemaRevision> {
    let request = v1::GetSchemaRevisionRequest { schema_revid };
    present(answer(client.schemas().get_schema_revision(request)).await?.schema_revision)
}

/// Returns the id of a schema or of a revision. `what`: the id itself, or the name of a schema.
pub(super) async fn id(client: &Client, what: &str, choose: Choice<v1::Schema>) -> Result<String> {
    if what.parse::<SchemaId>().is_ok() || what.parse::<SchemaRevId>().is_ok() {
        return Ok(what.to_owned());
    }
    let chosen = chosen!("schema", what, choose, client.schemas().list_schemas(ListSchemasRequest) => schemas);
    Ok(chosen?.schema_id)
}

fn row(schema: &v1::Schema) -> Value {
    json!({
        "schema_id": schema.schema_id, "name": schema.name, "schema_revid": schema.schema_revid,
        "revision": schema.revision, "strict": schema.strict, "revision_created_by": schema.revision_created_by,
        "revision_create_time": time(schema.revision_create_time.as_ref()), "etag": schema.etag,
        "review": pending_review(&schema.pending_proposal_id),
        "review_rule": rule_of(schema), "response_format": parsed(&schema.response_format_json),
    })
}

/// Returns the response format in a file. If the file contains a JSON Schema: a response format with this schema.
fn response_format(name: &str, text: &str, strict: bool) -> Result<String> {
    let value: Value = serde_json::from_str(text).context("the schema is not JSON")?;
    if value.get("json_schema").is_some() {
        return Ok(text.to_owned());
    }
    let letters = name.chars().map(|letter| if letter.is_ascii_alphanumeric() { letter } else { '_' });
    let name: String = letters.take(FORMAT_NAME_CHARS).collect();
    Ok(json!({ "type": "json_schema", "json_schema": { "name": name, "schema": value, "strict": strict } }).to_string())
}

/// Maximum length of the name in a response format, in characters.
const FORMAT_NAME_CHARS: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_json_schema_becomes_a_response_format_and_a_response_format_remains() {
        let schema = r#"{"type": "object", "properties": {"total": {"type": "number"}}}"#;
        let format = response_format("My invoice (€)", schema, true).unwrap();
        let format: Value = serde_json::from_str(&format).unwrap();
        assert_eq!(format["type"], "json_schema");
        assert_eq!(format["json_schema"]["name"], "My_invoice____");
        assert_eq!(format["json_schema"]["strict"], true);
        assert_eq!(format["json_schema"]["schema"]["properties"]["total"]["type"], "number");
        let whole = r#"{"type":"json_schema","json_schema":{"name":"a","schema":{},"strict":false}}"#;
        assert_eq!(response_format("b", whole, true).unwrap(), whole);
        assert!(response_format("b", "{", true).unwrap_err().to_string().contains("not JSON"));
        let long = response_format(&"x".repeat(200), "{}", false).unwrap();
        assert!(long.contains(&format!("\"{}\"", "x".repeat(64))), "{long}");
    }
}
