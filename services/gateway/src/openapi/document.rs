//! The OpenAPI document.

use folio_operations::{Access, Declaration, Effect, ORGANIZATION, operations};
use http::StatusCode;
use serde_json::{Map, Value, json};

use super::messages::Messages;
use crate::access::rpc_path;
use crate::descriptors;
use crate::json_member::set_member;
use crate::rest::{Document, Route, TABLE, path_parameter};

/// Statuses of errors of REST routes.
const REST_ERRORS: [u16; 14] = [400, 401, 402, 403, 404, 405, 409, 412, 413, 415, 422, 429, 500, 503];
/// Statuses of errors of Connect routes.
const CONNECT_ERRORS: [u16; 15] = [400, 401, 402, 403, 404, 405, 409, 413, 415, 429, 499, 500, 501, 503, 504];
/// Precedes the role in a description. The comments of RPCs of an organization state the role, too.
const ROLE: &str = "Role: ";

pub(super) fn document() -> Value {
    let (mut paths, mut schemas) = (Map::new(), Map::new());
    let mut messages = Messages::default();
    for operation in operations() {
        if let Some(item) = connect_item(operation, &mut messages) {
            paths.insert(rpc_path(operation), item);
        }
    }
    schemas.extend(messages.schemas);
    for route in &TABLE.routes {
        let mut document = Document::default();
        let Some(endpoint) = &route.endpoint else { continue };
        (endpoint.document)(&mut document);
        let item = rest_item(route, &mut document);
        schemas.extend(document.schemas);
        let path = paths.entry(route.path).or_insert_with(|| json!({}));
        if let Value::Object(path) = path {
            path.insert(route.method.as_str().to_ascii_lowercase(), item);
        }
    }
    schemas.insert("ConnectError".to_owned(), connect_error());
    schemas.insert("Failure".to_owned(), failure());
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Folio",
            "version": env!("CARGO_PKG_VERSION"),
            "license": { "name": "Apache-2.0", "identifier": "Apache-2.0" },
            "description": "Routes below /v0 are those of DocRouter's API. Routes below /folio.v1 are the RPCs of the \
                            gRPC API with JSON messages (the Connect protocol); server streams are server-sent events.",
        },
        "security": [{ "bearer": [] }, { "api_key": [] }],
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {
                "bearer": { "type": "http", "scheme": "bearer" },
                "api_key": { "type": "apiKey", "in": "header", "name": "X-Api-Key" },
            },
        },
    })
}

/// Returns the path item of an RPC. None: a client stream, which has no JSON form.
fn connect_item(operation: &Declaration, messages: &mut Messages) -> Option<Value> {
    let method = descriptors::method(operation).filter(|method| !method.is_client_streaming())?;
    let (input, output) = (messages.reference(&method.input()), messages.reference(&method.output()));
    let success = if method.is_server_streaming() {
        let description = "Server-sent events: each `data:` is a message; the event `end` or `error` is the last one.";
        // Version 3.1 of OpenAPI has no schema of an event.
        json!({ "description": description, "content": { "text/event-stream": {} } })
    } else {
        json!({ "description": "The response.", "content": { "application/json": { "schema": output } } })
    };
    let comment = messages.comment_of(&method);
    let requirements = if comment.contains(ROLE) { scope_of(operation) } else { requirements(operation) };
    let mut item = json!({
        "operationId": operation.name,
        "tags": [operation.service.name],
        "description": format!("{comment} {requirements}").trim(),
        "requestBody": { "required": true, "content": { "application/json": { "schema": input } } },
        "responses": responses(200, success, &CONNECT_ERRORS, "ConnectError"),
    });
    let header = |name: &str, description: &str| {
        let schema = json!({ "type": "string", "maxLength": 130 });
        json!({ "name": name, "in": "header", "required": false, "schema": schema, "description": description })
    };
    let mut parameters = Vec::new();
    if operation.effect == Effect::Change && operation.access != Access::Public {
        parameters.push(header("Idempotency-Key", "The `request_id` of the request."));
    }
    if matches!(operation.access, Access::Organization | Access::Installation) {
        let description = "The id of the organization in which a session or an account token acts.";
        parameters.push(header(ORGANIZATION, description));
    }
    set_member(&mut item, "parameters", parameters.into());
    if operation.access == Access::Public {
        set_member(&mut item, "security", json!([]));
    }
    Some(json!({ "post": item }))
}

fn rest_item(route: &Route, document: &mut Document) -> Value {
    let names = route.path.split('/').filter_map(|segment| segment.strip_prefix('{')?.strip_suffix('}'));
    let mut parameters: Vec<Value> = names.map(path_parameter).collect();
    parameters.append(&mut document.parameters);
    let resource = route.path.trim_start_matches("/v0/").trim_start_matches("orgs/{organization_id}/");
    let resource = resource.trim_start_matches("account/").split('/').next().unwrap_or_default();
    let status = document.response_status;
    let mut item = json!({
        "operationId": operation_id(route),
        "tags": [resource],
        "description": route.operation.map(requirements).unwrap_or_default(),
        "parameters": parameters,
        "responses": responses(status, document.response.take(), &REST_ERRORS, "Failure"),
    });
    if let Some(body) = document.request_body.take() {
        set_member(&mut item, "requestBody", body);
    }
    if route.operation.is_none_or(|operation| operation.access == Access::Public) {
        set_member(&mut item, "security", json!([]));
    }
    item
}

/// Returns a unique name of a route: `put_orgs_organization_id_tags_tag_id`.
fn operation_id(route: &Route) -> String {
    let path = route.path.trim_start_matches("/v0/").replace(['{', '}'], "").replace(['/', '-', '.'], "_");
    format!("{}_{path}", route.method.as_str().to_ascii_lowercase())
}

fn requirements(operation: &Declaration) -> String {
    let role = match operation.access {
        Access::Public => "none",
        Access::Account => "a user with a session or an account token",
        Access::Organization | Access::Installation if operation.platform => "platform administrator",
        Access::Organization | Access::Installation => operation.role.as_str(),
    };
    format!("Operation: {}. {ROLE}{role}. {}", operation.name, scope_of(operation)).trim_end().to_owned()
}

fn scope_of(operation: &Declaration) -> String {
    operation.scope().map(|scope| format!("Scope: {}.", scope.as_str())).unwrap_or_default()
}

fn responses(status: u16, success: Value, errors: &[u16], schema: &str) -> Value {
    let mut responses = Map::from_iter([(status.to_string(), success)]);
    for status in errors {
        let title = StatusCode::from_u16(*status).ok().and_then(|status| status.canonical_reason()).unwrap_or("Error");
        let content = json!({ "application/json": { "schema": { "$ref": format!("#/components/schemas/{schema}") } } });
        responses.insert(status.to_string(), json!({ "description": title, "content": content }));
    }
    Value::Object(responses)
}

/// The schema of [`crate::rest::Failure`].
fn failure() -> Value {
    let item = json!({
        "type": "object",
        "properties": {
            "type": { "type": "string" },
            "loc": { "type": "array", "items": { "type": ["string", "integer"] } },
            "msg": { "type": "string" },
        },
        "required": ["type", "loc", "msg"],
    });
    json!({
        "type": "object",
        "description": "An error of a route below /v0.",
        "properties": {
            "detail": { "anyOf": [{ "type": "string" }, { "type": "array", "items": item }] },
            "code": { "type": "string", "description": "The stable reason." },
            "retry_after_seconds": { "type": "integer", "minimum": 1 },
        },
        "required": ["detail"],
    })
}

/// The schema of an error of the Connect protocol.
fn connect_error() -> Value {
    let detail = json!({
        "type": "object",
        "properties": { "type": { "type": "string" }, "value": { "type": "string" }, "debug": {} },
        "required": ["type", "value"],
    });
    json!({
        "type": "object",
        "description": "An error of a route below /folio.v1.",
        "properties": {
            "code": { "type": "string" },
            "message": { "type": "string" },
            "details": { "type": "array", "items": detail },
        },
        "required": ["code"],
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn references(value: &Value, found: &mut BTreeSet<String>) {
        match value {
            Value::Object(members) => {
                if let Some(Value::String(reference)) = members.get("$ref") {
                    found.insert(reference.clone());
                }
                members.values().for_each(|member| references(member, found));
            }
            Value::Array(items) => items.iter().for_each(|item| references(item, found)),
            _ => {}
        }
    }

    #[test]
    fn a_description_states_the_role_of_an_rpc_once() {
        let document = document();
        let paths = document["paths"].as_object().unwrap();
        for (path, item) in paths.iter().filter(|(path, _)| path.starts_with("/folio.v1")) {
            let description = item["post"]["description"].as_str().unwrap();
            assert_eq!(description.matches(ROLE).count(), 1, "{path}: {description}");
        }
    }

    #[test]
    fn every_reference_refers_to_a_schema() {
        let document = document();
        let mut found = BTreeSet::new();
        references(&document, &mut found);
        assert!(found.len() > 100, "{}", found.len());
        for reference in found {
            let pointer = reference.strip_prefix('#').unwrap();
            assert!(document.pointer(pointer).is_some_and(Value::is_object), "{reference}");
        }
    }

    #[test]
    fn every_operation_and_every_served_route_is_described() {
        let document = document();
        let mut ids = BTreeSet::new();
        for operation in operations() {
            let Some(method) = descriptors::method(operation) else { panic!("{}", operation.name) };
            let item = &document["paths"][rpc_path(operation)]["post"];
            assert_eq!(item.is_null(), method.is_client_streaming(), "{}", operation.name);
            if !item.is_null() {
                assert!(ids.insert(item["operationId"].to_string()), "{}", item["operationId"]);
                let is_public = item["security"] == json!([]);
                assert_eq!(is_public, operation.access == Access::Public, "{}", operation.name);
                let has_organization =
                    item["parameters"].as_array().unwrap().iter().any(|parameter| parameter["name"] == ORGANIZATION);
                let is_of_user = matches!(operation.access, Access::Public | Access::Account);
                assert_eq!(has_organization, !is_of_user, "{}", operation.name);
            }
        }
        for route in TABLE.routes.iter().filter(|route| route.endpoint.is_some()) {
            let item = &document["paths"][route.path][route.method.as_str().to_ascii_lowercase()];
            assert!(ids.insert(item["operationId"].to_string()), "{}", item["operationId"]);
            assert!(!item["responses"].as_object().unwrap().contains_key("0"), "{} has no response", route.path);
        }
    }

    #[test]
    fn the_types_of_a_handler_describe_its_route() {
        let document = document();
        let create = &document["paths"]["/v0/orgs/{organization_id}/tags"]["post"];
        let body = &create["requestBody"]["content"]["application/json"]["schema"]["$ref"];
        assert_eq!(body, "#/components/schemas/TagFields");
        let response = &create["responses"]["200"]["content"]["application/json"]["schema"]["$ref"];
        assert_eq!(response, "#/components/schemas/TagBody");
        let list = &document["paths"]["/v0/orgs/{organization_id}/tags"]["get"]["parameters"];
        let parameter = |name: &str| {
            let found = list.as_array().unwrap().iter().find(|parameter| parameter["name"] == name);
            found.unwrap_or_else(|| panic!("{name} is not in {list}"))
        };
        assert_eq!(parameter("organization_id")["in"], "path");
        let limit = parameter("limit");
        assert_eq!((&limit["in"], &limit["required"]), (&json!("query"), &json!(false)));
        assert_eq!(limit["schema"]["maximum"], 100);
        assert_eq!(parameter("Idempotency-Key")["in"], "header");
    }
}
