//! Invariant 6 over every face: a resource of another organization is answered exactly like a missing one.

use folio_gateway::rest_routes;
use folio_types::{OrgId, Role, System};
use http::Method;
use serde_json::{Value, json};

use super::{Answer, Http, path};
use crate::harness::{Client, Server};
use crate::samples::{Ids, missing};

/// Returns the resources of an organization that REST routes name.
async fn resources(client: &Client) -> Ids {
    let schema = client.schema("invoice", "total").await;
    let prompt = client.prompt("invoice", &schema).await;
    Ids::from([
        ("document", client.ready_document("same.txt", "Total 12.50").await.document_id),
        ("tag", client.tag("same").await),
        ("prompt", prompt.split('.').next().unwrap().to_owned()),
        ("schema", schema),
    ])
}

/// Returns the kind of the resource that a parameter of a path names.
fn kind_of(parameter: &str) -> &str {
    parameter.trim_end_matches("_id").trim_end_matches("_revid")
}

/// Returns the id in a path: of a revision if the parameter names one.
fn id_of(parameter: &str, ids: &Ids, of_missing: &Ids) -> String {
    let id = ids.get(kind_of(parameter)).unwrap_or_else(|| &of_missing[kind_of(parameter)]);
    if parameter.ends_with("_revid") { format!("{id}.1") } else { id.clone() }
}

#[tokio::test]
async fn invariant_6_every_route_answers_a_foreign_resource_like_a_missing_one() {
    let server = Server::start().await;
    let us = server.user(&OrgId::generate(&System), Role::Admin).await;
    let them = server.user(&OrgId::generate(&System), Role::Admin).await;
    let (own, foreign, missing) = (resources(&us).await, resources(&them).await, missing());
    let http = Http::new(&server, &us);
    let mut checked = Vec::new();
    for route in rest_routes().filter(|route| route.is_served) {
        let send = async |ids: &Ids| -> Answer {
            let path = path(&route, |name| match name {
                "organization_id" => us.org.to_string(),
                name => id_of(name, ids, &missing),
            });
            // The members of all routes: each one ignores those of the others.
            let body = json!({ "name": "other", "document_name": "other", "updated_llm_result": {} });
            let body = if route.method == Method::GET { Value::Null } else { body };
            let path = format!("{path}?prompt_revid={}.1", ids.get("prompt").unwrap_or(&missing["prompt"]));
            http.json(route.method.clone(), &path, &body).await
        };
        if route.path.matches('{').count() < 2 {
            continue;
        }
        let (of_theirs, of_missing) = (send(&foreign).await, send(&missing).await);
        let name = format!("{} {}", route.method, route.path);
        assert_eq!(of_theirs.status, of_missing.status, "{name}");
        assert_eq!(of_theirs.text, of_missing.text, "{name}");
        assert!(of_theirs.status.is_client_error(), "{name}: {of_theirs:?}");
        checked.push(name);
    }
    assert!(checked.iter().any(|name| name.ends_with("/tags/{tag_id}")), "{checked:?}");
    let (ours, theirs) = (us.call_ok("ListTags", json!({})).await, them.call_ok("ListTags", json!({})).await);
    assert_eq!(ours["tags"][0]["tag_id"], own["tag"].as_str());
    assert_eq!(theirs["tags"][0]["tag_id"], foreign["tag"].as_str());
    server.stop().await;
}
