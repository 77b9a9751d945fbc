//! Malformed requests: each is answered with an error that names the problem, and none with an internal error.

use folio_operations::{Effect, operations};
use folio_proto::{status, v1};
use folio_types::{Code, OrgId, Reason, Role, System};
use serde_json::{Value, json};

use crate::calls::{call, has_fields, operation, send};
use crate::harness::{Client, Server, refused};
use crate::samples::{missing, samples};

#[tokio::test]
async fn bytes_that_are_not_a_message_are_refused_as_invalid_argument() {
    let server = Server::start().await;
    let client = server.signed_in(&OrgId::generate(&System), Role::Admin, true).await;
    let no_utf8: &[u8] = b"\x0a\x02\xff\xfe";
    let cut: &[u8] = b"\x0a\x7f\x01";
    let garbage: &[u8] = b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff";
    // 200 nested groups that are opened and never closed: deeper than the decoder permits.
    let deep = [0x0b_u8; 200];
    for operation in operations() {
        let name = operation.name;
        // A message without fields skips a text.
        for bytes in [no_utf8, cut, garbage, &deep].into_iter().skip(usize::from(!has_fields(operation))) {
            let error = refused(send(&client, operation, vec![bytes.to_vec()]).await, name);
            assert_eq!(error.code, Code::InvalidArgument, "{name} {bytes:?}: {error}");
            assert_eq!(error.reason, Reason::InvalidField, "{name} {bytes:?}: {error}");
        }
        // A message with an image may be larger than others.
        let mib = if name == "UploadImage" { 12 } else { 5 };
        let huge = refused(send(&client, operation, vec![vec![0; mib * 1024 * 1024]]).await, name);
        assert_eq!((huge.code, huge.reason), (Code::InvalidArgument, Reason::TooLarge), "{name}");
    }
    server.stop().await;
}

/// Checks that a request is refused with `INVALID_ARGUMENT` and names the field, unless that is empty.
async fn assert_refused(client: &Client, name: &str, request: &Value, reason: Reason, field: &str) {
    let error = call(client, operation(name), request).await.unwrap_err();
    let text: String = request.to_string().chars().take(200).collect();
    assert_eq!((error.code, error.reason), (Code::InvalidArgument, reason), "{name} {text}: {error}");
    let named = error.violations.iter().any(|violation| violation.field.starts_with(field));
    assert!(named, "{name} {text}: {field} is not in {:?}", error.violations);
}

#[tokio::test]
async fn malformed_requests_are_refused_by_their_field() {
    let server = Server::start().await;
    let client = server.signed_in(&OrgId::generate(&System), Role::Admin, true).await;
    let ids = missing();
    for operation in operations() {
        let malformed = samples(operation.name, &ids, &ids).malformed;
        assert_eq!(!malformed.is_empty(), has_fields(operation), "{} has no malformed request", operation.name);
        for (reason, field, request) in malformed {
            assert_refused(&client, operation.name, &request, reason, &field).await;
        }
    }
    server.stop().await;
}

/// Collects the JSON pointers to the fields of a request that set the name of a resource.
fn names(request: &Value, pointer: &str, found: &mut Vec<String>) {
    let Value::Object(fields) = request else { return };
    for (field, value) in fields {
        let pointer = format!("{pointer}/{field}");
        if matches!(field.as_str(), "name" | "title" | "admin_name") && value.is_string() {
            found.push(pointer);
        } else {
            names(value, &pointer, found);
        }
    }
}

#[tokio::test]
async fn every_change_that_sets_a_name_refuses_surrounding_whitespace() {
    let server = Server::start().await;
    let client = server.signed_in(&OrgId::generate(&System), Role::Admin, true).await;
    let ids = missing();
    // Operations whose field `name` refers to an existing resource.
    let refers =
        |name: &str| matches!(name, "DeleteOrganization" | "DeleteProvider" | "DiscoverModels" | "TestProvider");
    let mut named = Vec::new();
    for operation in operations().filter(|operation| operation.effect == Effect::Change && !refers(operation.name)) {
        for request in samples(operation.name, &ids, &ids).valid {
            let mut pointers = Vec::new();
            names(&request, "", &mut pointers);
            for pointer in pointers {
                for name in [" a", "a ", " ", "\u{a0}a"] {
                    let mut request = request.clone();
                    *request.pointer_mut(&pointer).unwrap() = name.into();
                    let field = pointer[1..].replace('/', ".");
                    assert_refused(&client, operation.name, &request, Reason::InvalidField, &field).await;
                }
                named.push(operation.name);
            }
        }
    }
    for name in ["CreateTag", "UpdatePrompt", "RenameThread", "AddMember"] {
        assert!(named.contains(&name), "{name} was not tested");
    }
    for key in [" a", "a ", " ", "\u{a0}a"] {
        let description = json!([{"description": {"name": "a", "metadata": {key: ""}}}]);
        assert_refused(&client, "UploadDocument", &description, Reason::InvalidField, "description.metadata").await;
        let update = json!({"document": {"document_id": ids["document"], "metadata": {key: ""}}});
        assert_refused(&client, "UpdateDocument", &update, Reason::InvalidField, "document.metadata").await;
    }
    server.stop().await;
}

#[tokio::test]
async fn an_error_names_its_field_in_the_status() {
    let server = Server::start().await;
    let client = server.member().await;
    let answer = client.tags().get_tag(v1::GetTagRequest { tag_id: "x".into() }).await;
    let details = tonic_types::StatusExt::get_error_details(&answer.unwrap_err());
    let info = details.error_info().unwrap();
    assert_eq!((info.domain.as_str(), info.reason.as_str()), (status::DOMAIN, "INVALID_ID"));
    assert_eq!(details.bad_request().unwrap().field_violations[0].field, "tag_id");
    server.stop().await;
}
