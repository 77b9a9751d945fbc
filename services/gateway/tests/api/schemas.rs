//! SchemaService.

use folio_proto::v1;
use folio_types::{Code, Reason};

use crate::harness::{Server, format, refused};

fn loose() -> String {
    r#"{"type":"json_schema","json_schema":{"name":"loose","schema":{"type":"object","properties":{"b":{"type":"string"},"a":{"type":"integer","maximum":9007199254740993}}}}}"#.into()
}

#[tokio::test]
async fn a_schema_has_versions_and_a_name_of_its_own() {
    let server = Server::start().await;
    let client = server.member().await;
    let first = client.schema("Invoice", "total").await;
    assert_eq!(first.revision, 1);
    let second = client.schema("INVOICE", "sum").await;
    assert_eq!(second.schema_id, first.schema_id, "a same-name create makes the next version");
    assert_eq!(second.revision, 2);

    let unchanged = v1::UpdateSchemaRequest {
        schema: Some(v1::Schema {
            schema_id: first.schema_id.clone(),
            response_format_json: format("sum"),
            ..Default::default()
        }),
        ..Default::default()
    };
    let answer = client.schemas().update_schema(unchanged).await.unwrap().into_inner();
    assert!(!answer.revised);
    assert_eq!(answer.schema.unwrap().revision, 2);

    let renamed = v1::UpdateSchemaRequest {
        schema: Some(v1::Schema { schema_id: first.schema_id.clone(), name: "Bill".into(), ..Default::default() }),
        ..Default::default()
    };
    let answer = client.schemas().update_schema(renamed).await.unwrap().into_inner();
    assert!(!answer.revised, "a new name alone renames without a revision");
    assert_eq!(answer.schema.unwrap().name, "Bill");

    let old = v1::GetSchemaRevisionRequest { schema_revid: format!("{}.1", first.schema_id) };
    let old = client.schemas().get_schema_revision(old).await.unwrap().into_inner().schema_revision.unwrap();
    assert_eq!((old.revision, old.name.as_str()), (1, "Bill"));
    assert!(old.response_format_json.contains("total"));
    let newest = v1::GetSchemaRevisionRequest { schema_revid: first.schema_id.clone() };
    let newest = client.schemas().get_schema_revision(newest).await.unwrap().into_inner().schema_revision.unwrap();
    assert_eq!(newest.revision, 2);

    let versions = v1::ListSchemaRevisionsRequest { schema_id: first.schema_id.clone(), ..Default::default() };
    let versions = client.schemas().list_schema_revisions(versions).await.unwrap().into_inner();
    let numbers: Vec<u32> = versions.schema_revisions.iter().map(|revision| revision.revision).collect();
    assert_eq!((numbers, versions.total_size), (vec![2, 1], 2));
    server.stop().await;
}

#[tokio::test]
async fn a_repeated_create_is_executed_once_even_if_its_name_is_now_taken() {
    let server = Server::start().await;
    let client = server.member().await;
    let create = v1::CreateSchemaRequest {
        schema: Some(v1::Schema {
            name: "Invoice".into(),
            response_format_json: format("total"),
            ..Default::default()
        }),
        request_id: "once".into(),
        ..Default::default()
    };
    let first = client.schemas().create_schema(create.clone()).await.unwrap().into_inner().schema.unwrap();
    let rename = v1::UpdateSchemaRequest {
        schema: Some(v1::Schema { schema_id: first.schema_id.clone(), name: "Bill".into(), ..Default::default() }),
        ..Default::default()
    };
    client.schemas().update_schema(rename).await.unwrap();
    let second = client.schema("Invoice", "sum").await;
    assert_ne!(second.schema_id, first.schema_id);
    let again = client.schemas().create_schema(create.clone()).await.unwrap().into_inner().schema.unwrap();
    assert_eq!(again.schema_id, first.schema_id, "the schema that the request made");
    let found = v1::GetSchemaRevisionRequest { schema_revid: second.schema_id.clone() };
    let found = client.schemas().get_schema_revision(found).await.unwrap().into_inner().schema_revision.unwrap();
    assert_eq!(found.revision, 1, "the other schema got no version");
    let other = v1::CreateSchemaRequest {
        schema: Some(v1::Schema { name: "Invoice".into(), response_format_json: format("net"), ..Default::default() }),
        ..create
    };
    assert_eq!(refused(client.schemas().create_schema(other).await, "other").reason, Reason::RequestIdConflict);
    server.stop().await;
}

#[tokio::test]
async fn strict_rules_hold_unless_the_request_allows_others() {
    let server = Server::start().await;
    let client = server.member().await;
    let strict = v1::CreateSchemaRequest {
        schema: Some(v1::Schema { name: "loose".into(), response_format_json: loose(), ..Default::default() }),
        ..Default::default()
    };
    let error = refused(client.schemas().create_schema(strict.clone()).await, "loose");
    assert_eq!((error.code, error.reason), (Code::InvalidArgument, Reason::InvalidSchema));
    assert!(
        error.violations.iter().all(|violation| violation.field.starts_with("schema.response_format_json#")),
        "{error:?}"
    );

    let check = |allow_non_strict| v1::ValidateSchemaRequest { response_format_json: loose(), allow_non_strict };
    let answer = client.schemas().validate_schema(check(false)).await.unwrap().into_inner();
    assert!(!answer.valid && !answer.violations.is_empty());
    assert!(client.schemas().validate_schema(check(true)).await.unwrap().into_inner().valid);

    let allowed = v1::CreateSchemaRequest { allow_non_strict: true, ..strict };
    let schema = client.schemas().create_schema(allowed).await.unwrap().into_inner().schema.unwrap();
    let latest = schema;
    assert!(!latest.strict);
    assert!(latest.response_format_json.contains("9007199254740993"), "{}", latest.response_format_json);
    let (b, a) = (latest.response_format_json.find("\"b\""), latest.response_format_json.find("\"a\""));
    assert!(b < a, "the order of properties is kept: {}", latest.response_format_json);
    server.stop().await;
}

#[tokio::test]
async fn data_is_validated_against_a_revision() {
    let server = Server::start().await;
    let client = server.member().await;
    let schema = client.schema("Invoice", "total").await;
    let check = |data: &str| v1::ValidateDataRequest { schema_revid: schema.schema_id.clone(), data_json: data.into() };
    assert!(client.schemas().validate_data(check(r#"{"total": 3}"#)).await.unwrap().into_inner().valid);
    let answer = client.schemas().validate_data(check(r#"{"total": "three"}"#)).await.unwrap().into_inner();
    assert!(!answer.valid);
    assert!(answer.violations[0].path.contains("total"), "{:?}", answer.violations);
    server.stop().await;
}

#[tokio::test]
async fn a_schema_that_a_prompt_uses_is_not_deleted() {
    let server = Server::start().await;
    let client = server.member().await;
    let schema = client.schema("Invoice", "total").await;
    let prompt = client.prompt("Read it", &schema.schema_id).await;
    let delete = v1::DeleteSchemaRequest { schema_id: schema.schema_id.clone(), ..Default::default() };
    let error = refused(client.schemas().delete_schema(delete.clone()).await, "in use");
    assert_eq!(error.reason, Reason::InUse);
    assert!(error.message.contains("Read it"), "{error}");
    let delete_prompt = v1::DeletePromptRequest { prompt_id: prompt.prompt_id, ..Default::default() };
    client.prompts().delete_prompt(delete_prompt).await.unwrap();
    client.schemas().delete_schema(delete).await.unwrap();
    server.stop().await;
}
