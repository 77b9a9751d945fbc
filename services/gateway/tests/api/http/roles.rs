//! Roles and scopes of every operation over gRPC-Web and Connect, and of every REST route.

use folio_gateway::{RestRoute, rest_routes};
use folio_operations::{Access, Declaration, operations};
use folio_types::access::Scope;
use folio_types::token::Token;
use folio_types::{Code, OrgId, Reason, Role, System};
use http::StatusCode;
use serde_json::{Value, json};

use super::{Face, Http, call_over, path};
use crate::harness::Server;

/// A kind of caller: its role, and whether its token is one of the platform's administrator.
type Kind = (Role, bool);

/// Returns the reason for which a call without content is denied to a caller. None: the call reached its operation.
async fn denial(http: &Http, face: Face, operation: &Declaration) -> Option<Reason> {
    let is_client_stream = operation.name == "UploadDocument";
    let request = if is_client_stream && face != Face::Connect { json!([{}]) } else { json!({}) };
    let error = call_over(face, http, operation, &request).await.err()?;
    matches!(error.code, Code::PermissionDenied | Code::Unauthenticated).then_some(error.reason)
}

/// Returns the reason for which a route is denied to a caller of an organization.
async fn route_denial(http: &Http, org: &OrgId, route: &RestRoute) -> Option<String> {
    // The organization of the caller is not deleted.
    let is_kept = route.operation.is_some_and(|operation| operation.name != "DeleteOrganization");
    let path =
        path(route, |name| if name == "organization_id" && is_kept { org.to_string() } else { "missing".to_owned() });
    let body = if route.method == http::Method::GET { Value::Null } else { json!({}) };
    let answer = http.json(route.method.clone(), &path, &body).await;
    let is_denied = [StatusCode::UNAUTHORIZED, StatusCode::FORBIDDEN].contains(&answer.status);
    is_denied.then(|| answer.json()["code"].as_str().unwrap_or_default().to_owned())
}

/// Returns true if an operation is denied to a caller. `is_account`: the caller presents a session.
fn lacks(operation: &Declaration, (role, platform): Kind, is_account: bool) -> bool {
    match operation.access {
        Access::Public => false,
        Access::Account => !is_account,
        Access::Organization | Access::Installation => role < operation.role || (operation.platform && !platform),
    }
}

fn served() -> impl Iterator<Item = RestRoute> {
    rest_routes().filter(|route| route.is_served)
}

#[tokio::test]
async fn every_face_and_every_route_needs_a_token_and_its_role() {
    let server = Server::start().await;
    let org = OrgId::generate(&System);
    server.organization(&org).await;
    let anonymous = Http::new(&server, &server.stranger(None));
    let foreign = format!("Bearer {}", Token::generate(&org, &System).reveal());
    let foreign = Http::new(&server, &server.stranger(Some(&foreign)));
    for operation in operations() {
        let expected = (operation.access != Access::Public).then_some(Reason::InvalidToken);
        for face in Face::ALL {
            for stranger in [&anonymous, &foreign] {
                let reason = denial(stranger, face, operation).await;
                assert_eq!(reason, expected, "{} over {face:?}", operation.name);
            }
        }
    }
    let needs_token = |operation: &Declaration| operation.access != Access::Public;
    for route in served().filter(|route| route.operation.is_some_and(needs_token)) {
        for stranger in [&anonymous, &foreign] {
            assert!(route_denial(stranger, &org, &route).await.is_some(), "{} {}", route.method, route.path);
        }
    }
    let kinds = [(Role::Viewer, false), (Role::Member, false), (Role::Admin, false), (Role::Admin, true)];
    for kind in kinds {
        let http = Http::new(&server, &server.restricted_user(&org, kind.0, &[], kind.1).await);
        for operation in operations() {
            let expected = lacks(operation, kind, false).then_some(Reason::RoleNotAllowed);
            for face in Face::ALL {
                assert_eq!(denial(&http, face, operation).await, expected, "{} over {face:?}", operation.name);
            }
        }
        // The path of a REST route selects the organization of a session.
        let session = server.signed_in(&org, kind.0, kind.1).await;
        let in_header = Http::new(&server, &session);
        let in_path = Http::new(&server, &session.in_organization(None));
        // A sign-out ends the session.
        for operation in operations().filter(|operation| operation.name != "SignOut") {
            let expected = lacks(operation, kind, true).then_some(Reason::RoleNotAllowed);
            let reason = denial(&in_header, Face::Connect, operation).await;
            assert_eq!(reason, expected, "{} with a session by {kind:?}", operation.name);
        }
        for route in served() {
            let Some(operation) = route.operation else { continue };
            for (http, is_account) in [(&http, false), (&in_path, true)] {
                // A session without an organization is refused as an invalid request.
                let names_organization = !is_account || route.path.contains("{organization_id}");
                let reaches_role = names_organization || operation.access != Access::Organization;
                let is_denied = reaches_role && lacks(operation, kind, is_account);
                let expected = is_denied.then(|| "ROLE_NOT_ALLOWED".to_owned());
                let denied = route_denial(http, &org, &route).await;
                assert_eq!(denied, expected, "{} {} by {kind:?}", route.method, route.path);
            }
        }
    }
    server.stop().await;
}

#[tokio::test]
async fn a_session_acts_in_the_organizations_of_its_user_by_the_path() {
    let server = Server::start().await;
    let [own, second, foreign] = [(); 3].map(|()| OrgId::generate(&System));
    let user = server.account("ann", false).await;
    server.join(&user, &own, Role::Member).await;
    server.join(&user, &second, Role::Member).await;
    let tag = server.user(&second, Role::Member).await.tag("second").await;
    server.organization(&foreign).await;
    let session = server.session(&user, None).await;
    let http = Http::new(&server, &session);
    let names = async |http: &Http, org: &str| {
        let answer = http.get(&format!("/v0/orgs/{org}/tags")).await;
        let body = answer.json();
        (answer.status.as_u16(), if body["tags"].is_array() { body["tags"].clone() } else { body["detail"].clone() })
    };
    assert_eq!(names(&http, own.as_str()).await, (200, json!([])));
    let (status, tags) = names(&http, second.as_str()).await;
    assert_eq!((status, &tags[0]["id"]), (200, &json!(tag)));
    let refused = (403, json!("You are not a member of this organization"));
    for org in [foreign.as_str(), OrgId::generate(&System).as_str(), OrgId::platform().as_str(), "nonsense"] {
        assert_eq!(names(&http, org).await, refused, "{org}");
    }
    // The header may repeat the organization of the path, but not name another one.
    let with_header = Http::new(&server, &session.in_organization(Some(&own)));
    assert_eq!(names(&with_header, own.as_str()).await.0, 200);
    assert_eq!(names(&with_header, second.as_str()).await.0, 422);
    server.stop().await;
}

#[tokio::test]
async fn a_limited_token_uses_the_routes_of_its_scopes_and_no_others() {
    let server = Server::start().await;
    let org = OrgId::generate(&System);
    for scope in Scope::ALL.iter().copied() {
        let http = Http::new(&server, &server.restricted_user(&org, Role::Admin, &[scope], true).await);
        for route in served() {
            let Some(operation) = route.operation else { continue };
            let lacks = operation.scope().is_some_and(|needed| needed != scope);
            let denied = route_denial(&http, &org, &route).await;
            let expected = match operation.access {
                Access::Account => Some("ROLE_NOT_ALLOWED".to_owned()),
                _ => lacks.then(|| "SCOPE_NOT_ALLOWED".to_owned()),
            };
            assert_eq!(denied, expected, "{} {} with {scope:?}", route.method, route.path);
        }
        for operation in operations() {
            let lacks = operation.scope().is_some_and(|needed| needed != scope);
            let reason = denial(&http, Face::Connect, operation).await;
            assert_eq!(reason == Some(Reason::ScopeNotAllowed), lacks, "{} with {scope:?}", operation.name);
        }
    }
    server.stop().await;
}

#[tokio::test]
async fn the_token_is_a_bearer_token_or_an_api_key_of_the_organization_in_the_path() {
    let server = Server::start().await;
    let client = server.member().await;
    let other = server.member().await;
    let token = client.authorization().unwrap().trim_start_matches("Bearer ").to_owned();
    let anonymous = Http::new(&server, &server.stranger(None));
    let tags = format!("/v0/orgs/{}/tags", client.org);
    let with = async |headers: &[(&str, &str)], path: &str| {
        let request = anonymous.request(http::Method::GET, path);
        let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
        let answer = anonymous.send(request).await;
        (answer.status.as_u16(), answer.detail())
    };
    let key = [("x-api-key", token.as_str())];
    assert_eq!(with(&key, &tags).await.0, 200);
    let (bearer, bad) = (format!("bEaReR {token}"), "Bearer bad".to_owned());
    assert_eq!(with(&[("authorization", &bearer)], &tags).await.0, 200);
    assert_eq!(with(&[("authorization", "Basic eDp5"), key[0]], &tags).await.0, 200);
    let invalid = json!("Invalid authentication credentials: invalid token");
    assert_eq!(with(&[("authorization", &bad), key[0]], &tags).await, (401, invalid.clone()));
    let none = json!("No authentication credentials provided");
    assert_eq!(with(&[], &tags).await, (401, none));
    for organization in [other.org.to_string(), OrgId::generate(&System).to_string(), "nonsense".to_owned()] {
        let foreign = format!("/v0/orgs/{organization}/tags");
        assert_eq!(with(&key, &foreign).await, (401, invalid.clone()), "{organization}");
    }
    server.stop().await;
}
