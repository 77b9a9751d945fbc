//! Invariant 6 over every face: a resource of another organization is answered exactly like a missing one.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use folio_gateway::{RestRoute, rest_routes};
use folio_types::token::Token;
use folio_types::{OrgId, Role, System};
use http::Method;
use serde_json::{Value, json};

use super::{Answer, Http, PNG, path};
use crate::harness::{Client, Server, format, record};
use crate::samples::{Ids, missing};
use crate::tenants::create_question;

/// An organization with an admin that signs in, and with one resource of each kind that REST routes name.
struct Tenant {
    /// The admin, in the organization.
    admin: Client,
    ids: Ids,
}

impl Tenant {
    async fn new(server: &Server) -> Self {
        let org = OrgId::generate(&System);
        let admin = server.signed_in(&org, Role::Admin, false).await;
        let schema = admin.schema("invoice", "total").await;
        let prompt = admin.prompt("invoice", &schema).await;
        let document = admin.ready_document("same.txt", "Total 12.50").await.document_id;
        let threads = format!("/v0/orgs/{org}/documents/{document}/chat/threads");
        let http = Http::new(server, &admin);
        let thread = http.json(Method::POST, &threads, &json!({})).await.json()["thread_id"].clone();
        server.model.answer("Hello.");
        let hello = json!({ "text": "Hello" });
        let messages = format!("/v0/orgs/{org}/threads/{}/messages", thread.as_str().unwrap());
        assert_eq!(http.json(Method::POST, &messages, &hello).await.status, 200);
        let token = Token::generate(&org, &System);
        server.store_token(&token, record(&token, &admin.user, Role::Admin)).await;
        let request = json!({ "token": { "name": "same", "role": "ROLE_ADMIN" } });
        let account_token = admin.call_ok("CreateAccountToken", request).await["token"]["token_id"].clone();
        let entry = json!({ "dictionary_entry": { "term": "same", "expansion": "the same" } });
        let entry = admin.call_ok("CreateDictionaryEntry", entry).await;
        let entry = entry["dictionary_entry"]["dictionary_entry_id"].clone();
        let question = create_question(server, &org, &document).await;
        let collection = json!({ "collection": { "name": "same", "metadata": { "year": "2026" } } });
        let collection = admin.call_ok("CreateCollection", collection).await["collection"]["collection_id"].clone();
        let stack = json!({ "stack": { "name": "same", "document_ids": [document] } });
        let stack = admin.call_ok("CreateStack", stack).await["stack"]["stack_id"].clone();
        let image = admin.call_ok("UploadImage", json!({ "data": PNG })).await["image"]["image_id"].clone();
        let text = |value: Value| value.as_str().unwrap().to_owned();
        let ids = Ids::from([
            ("organization", org.to_string()),
            ("user", admin.user.to_string()),
            ("document", document),
            ("tag", admin.tag("same").await),
            ("dictionary_entry", text(entry)),
            ("dictionary_question", question),
            ("collection", text(collection)),
            ("stack", text(stack)),
            ("prompt", prompt.split('.').next().unwrap().to_owned()),
            ("schema", schema),
            ("turn", format!("{}.1", thread.as_str().unwrap())),
            ("thread", text(thread)),
            ("image", text(image)),
            ("token", token.id().to_string()),
            ("account_token", text(account_token)),
        ]);
        Self { admin, ids }
    }

    /// Returns everything of the organization that requests could change.
    async fn contents(&self) -> Vec<Value> {
        let mut found = Vec::new();
        for operation in [
            "GetOrganization",
            "ListMembers",
            "ListDocuments",
            "ListTags",
            "ListDictionaryEntries",
            "ListDictionaryQuestions",
            "ListMissingLinks",
            "ListCollections",
            "ListStacks",
            "ListSchemas",
            "ListPrompts",
            "ListThreads",
            "ListTokens",
            "ListAccountTokens",
        ] {
            found.push(self.admin.call_ok(operation, json!({})).await);
        }
        found
    }
}

/// Returns well-formed ids of missing resources.
fn missing_ids() -> Ids {
    let mut ids = missing();
    ids.insert("account_token", ids["token"].clone());
    ids.insert("turn", format!("{}.1", ids["thread"]));
    ids
}

/// Returns the kind of the resource that a parameter of a path names.
fn kind_of<'a>(route: &RestRoute, parameter: &'a str) -> &'a str {
    match parameter.trim_end_matches("_id").trim_end_matches("_revid").trim_end_matches("_name") {
        "token" if route.path.starts_with("/v0/account/") => "account_token",
        kind => kind,
    }
}

/// Returns the parameters in the path of a route.
fn parameters(route: &RestRoute) -> impl Iterator<Item = &'static str> {
    route.path.split('/').filter_map(|segment| segment.strip_prefix('{')?.strip_suffix('}'))
}

/// Returns the path of a route that names these resources: revisions where a parameter names one, as the last parameter of a
/// read does for schemas and prompts.
fn path_of(route: &RestRoute, ids: &Ids) -> String {
    let is_read = route.method == Method::GET;
    path(route, |parameter| {
        let is_last = route.path.ends_with(&format!("{{{parameter}}}"));
        let is_revised = ["schema_id", "prompt_id"].contains(&parameter);
        let is_revision = parameter.ends_with("_revid") || (is_read && is_last && is_revised);
        let kind = kind_of(route, parameter);
        let id = ids.get(kind).unwrap_or_else(|| panic!("add a resource of {parameter}"));
        if is_revision { format!("{id}.1") } else { id.clone() }
    })
}

/// Returns the text of a response without the ids.
fn hide(answer: &Answer, ids: &Ids) -> String {
    ids.values().fold(answer.text.clone(), |text, id| text.replace(id.as_str(), "ID"))
}

/// The members of the bodies of all routes. Each route ignores those of the others.
fn body(route: &RestRoute, number: usize) -> Value {
    if route.method == Method::GET {
        return Value::Null;
    }
    let name = format!("other {number}");
    json!({
        "name": name, "document_name": name, "updated_llm_result": {}, "content": "Read.", "lifetime": 1, "data": {},
        "messages": [{ "role": "user", "content": "hello" }], "turn_id": "unknown", "approvals": [], "text": "hello",
        "term": name, "expansion": "a meaning", "query": "total", "columns": [{ "name": name, "type": "text" }],
        "column": "Total", "value": 1, "decision": "approve", "key_columns": ["Total"],
        "aggregates": [{ "function": "count" }],
        "response_format": serde_json::from_str::<Value>(&format("total")).unwrap(),
    })
}

/// The body of a request that names resources by these ids.
type Body<'a> = Box<dyn Fn(&Ids) -> Value + 'a>;

/// Requests of one caller, each with foreign ids and then with missing ones.
struct Prober<'a> {
    http: &'a Http,
    foreign: &'a Ids,
    missing: &'a Ids,
    /// Number of the requests, for names that are used once.
    requests: usize,
}

impl Prober<'_> {
    /// Sends a request with each kind of ids. The answers must not differ, and not show anything foreign. Returns the status of
    /// both.
    async fn probe(
        &mut self,
        what: &str,
        request: impl Fn(&Ids, usize) -> (Method, String, Value),
    ) -> http::StatusCode {
        let mut answers = Vec::new();
        for ids in [self.foreign, self.missing] {
            self.requests += 1;
            let (method, path, body) = request(ids, self.requests);
            answers.push(self.http.json(method, &path, &body).await);
        }
        let [of_theirs, of_missing] = answers.as_slice() else { panic!("two answers are expected") };
        assert_eq!(of_theirs.status, of_missing.status, "{what}: {of_theirs:?} {of_missing:?}");
        if of_theirs.status.is_client_error() {
            assert_eq!(hide(of_theirs, self.foreign), hide(of_missing, self.missing), "{what}");
        } else {
            assert!(of_theirs.status.is_success(), "{what}: {of_theirs:?}");
            let shown = self.foreign.values().find(|id| of_theirs.text.contains(id.as_str()));
            assert_eq!(shown, None, "{what}: {of_theirs:?}");
        }
        of_theirs.status
    }
}

#[tokio::test]
async fn invariant_6_every_route_answers_a_foreign_resource_like_a_missing_one() {
    let server = Server::start().await;
    let (us, them) = (Tenant::new(&server).await, Tenant::new(&server).await);
    let missing = missing_ids();
    let before = them.contents().await;
    let token = server.user(&us.admin.org, Role::Admin).await;
    let mut requests = 0;
    // A path selects the organization of a session.
    for caller in [us.admin.in_organization(None), token] {
        let http = Http::new(&server, &caller);
        let mut prober = Prober { http: &http, foreign: &them.ids, missing: &missing, requests };
        for route in rest_routes().filter(|route| route.is_served) {
            let name = format!("{} {}", route.method, route.path);
            // Each parameter by itself, also the organization: lists and creations in it are refused.
            for parameter in parameters(&route) {
                let kind = kind_of(&route, parameter);
                let status = prober
                    .probe(&format!("{name} with {parameter}"), |ids, number| {
                        let mut own = us.ids.clone();
                        own.insert("provider", missing["provider"].clone());
                        own.insert(known(&missing, kind), ids.get(kind).unwrap_or(&missing[kind]).clone());
                        let query = format!("?prompt_revid={}.1", own["prompt"]);
                        (route.method.clone(), path_of(&route, &own) + &query, body(&route, number))
                    })
                    .await;
                assert!(status.is_client_error(), "{name} with {parameter}: {status}");
            }
            // The results of a document name their prompt in the query.
            if route.path.contains("/llm/") && parameters(&route).any(|parameter| parameter == "document_id") {
                prober
                    .probe(&format!("{name}?prompt_revid"), |ids, number| {
                        let path = format!("{}?prompt_revid={}.1", path_of(&route, &us.ids), ids["prompt"]);
                        (route.method.clone(), path, body(&route, number))
                    })
                    .await;
            }
            // Routes without a resource in the path name one in the query, or select an organization by it.
            if parameters(&route).all(|parameter| parameter == "organization_id") {
                for (parameter, kind) in [
                    ("organization_id", "organization"),
                    ("user_id", "user"),
                    ("document_id", "document"),
                    ("tag_ids", "tag"),
                    ("prompt_revid", "prompt"),
                ] {
                    prober
                        .probe(&format!("{name}?{parameter}"), |ids, number| {
                            let path = format!("{}?{parameter}={}", path_of(&route, &us.ids), ids[kind]);
                            (route.method.clone(), path, body(&route, number))
                        })
                        .await;
                }
            }
        }
        requests = prober.requests;
    }
    assert_eq!(them.contents().await, before, "a request changed another organization");
    server.stop().await;
}

/// Returns the key of a kind.
fn known(ids: &Ids, kind: &str) -> &'static str {
    ids.keys().copied().find(|key| *key == kind).unwrap_or_else(|| panic!("{kind} is unknown"))
}

#[tokio::test]
async fn invariant_6_every_route_refuses_another_organization_in_its_header() {
    let server = Server::start().await;
    let (us, them) = (Tenant::new(&server).await, Tenant::new(&server).await);
    let (before, foreign, absent) = (them.contents().await, them.admin.org.clone(), OrgId::generate(&System));
    let selecting = |org| Http::new(&server, &us.admin.in_organization(Some(org)));
    let (in_foreign, in_absent) = (selecting(&foreign), selecting(&absent));
    for (number, route) in rest_routes().filter(|route| route.is_served).enumerate() {
        let mut ids = us.ids.clone();
        // Nothing of the own organization is deleted.
        ids.extend(missing_ids().into_iter().filter(|(kind, _)| *kind != "organization"));
        let path = path_of(&route, &ids);
        let send = async |http: &Http, number| http.json(route.method.clone(), &path, &body(&route, number)).await;
        let (of_theirs, of_missing) = (send(&in_foreign, 2 * number).await, send(&in_absent, 2 * number + 1).await);
        let name = format!("{} {}", route.method, route.path);
        assert_eq!(of_theirs.status, of_missing.status, "{name}: {of_theirs:?} {of_missing:?}");
        assert!(!them.ids.values().any(|id| of_theirs.text.contains(id.as_str())), "{name}: {of_theirs:?}");
        // Routes of the account itself ignore the header, and those below an organization refuse a different one.
        if route.path.starts_with("/v0/orgs/") {
            assert!(of_theirs.status.is_client_error(), "{name}: {of_theirs:?}");
        }
    }
    assert_eq!(them.contents().await, before, "a request changed another organization");
    server.stop().await;
}

#[tokio::test]
async fn invariant_6_a_body_cannot_name_a_foreign_resource() {
    let server = Server::start().await;
    let (us, them) = (Tenant::new(&server).await, Tenant::new(&server).await);
    let (missing, before) = (missing_ids(), them.contents().await);
    let http = Http::new(&server, &us.admin);
    let mut prober = Prober { http: &http, foreign: &them.ids, missing: &missing, requests: 0 };
    let (document, prompt) = (&us.ids["document"], &us.ids["prompt"]);
    let [one, chat, edited] =
        [format!("documents/{document}"), format!("documents/{document}/chat"), format!("prompts/{prompt}")];
    let of_prompt = |member: &str, value: Value| json!({ "name": "invoice", "content": "Read.", member: value });
    let say =
        |member: &str, value: Value| json!({ "messages": [{ "role": "user", "content": "hello" }], member: value });
    let selected = |filter: String| json!({ "document_filter": filter });
    let file = |ids: &Ids| json!({ "name": "a.txt", "content": STANDARD.encode("text"), "tag_ids": [ids["tag"]] });
    let requests: [(Method, &str, Body<'_>); 12] = [
        (Method::POST, "documents", Box::new(|ids: &Ids| json!({ "documents": [file(ids)] }))),
        (Method::PUT, one.as_str(), Box::new(|ids: &Ids| json!({ "tag_ids": [ids["tag"]] }))),
        (Method::POST, "ingestions", Box::new(|ids: &Ids| selected(format!("tag:{}", ids["tag"])))),
        (Method::POST, "ingestions", Box::new(|ids: &Ids| selected(format!("parent={}", ids["document"])))),
        (Method::POST, "prompts", Box::new(|ids: &Ids| of_prompt("schema_id", json!(ids["schema"])))),
        (Method::POST, "prompts", Box::new(|ids: &Ids| of_prompt("tag_ids", json!([ids["tag"]])))),
        (Method::PUT, edited.as_str(), Box::new(|ids: &Ids| of_prompt("schema_id", json!(ids["schema"])))),
        (Method::PUT, edited.as_str(), Box::new(|ids: &Ids| of_prompt("tag_ids", json!([ids["tag"]])))),
        (Method::POST, chat.as_str(), Box::new(|ids: &Ids| say("thread_id", json!(ids["thread"])))),
        (Method::POST, chat.as_str(), Box::new(|ids: &Ids| say("image_ids", json!([ids["image"]])))),
        (
            Method::POST,
            chat.as_str(),
            Box::new(|ids: &Ids| say("mentions", json!([{ "type": "tag", "id": ids["tag"] }]))),
        ),
        (
            Method::POST,
            chat.as_str(),
            Box::new(|ids: &Ids| say("mentions", json!([{ "type": "schema", "id": format!("{}.1", ids["schema"]) }]))),
        ),
    ];
    for (method, rest, body) in &requests {
        let path = format!("/v0/orgs/{}/{rest}", us.admin.org);
        let what = format!("{method} {rest} {}", body(&them.ids));
        let status = prober.probe(&what, |ids, _| (method.clone(), path.clone(), body(ids))).await;
        assert!(status.is_client_error(), "{what}: {status}");
    }
    assert_eq!(them.contents().await, before, "a request changed another organization");
    server.stop().await;
}
