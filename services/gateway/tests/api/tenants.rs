//! Invariant 6: a resource of another organization is answered exactly like a missing one, by every operation.

use std::time::Duration;

use folio_gateway::Options;
use folio_operations::{Access, Declaration, Effect, operations};
use folio_proto::v1::*;
use folio_resources::{
    DictionaryQuestion, DictionaryQuestionChange, NewProposal, NewQuestion, ProposalOutcome, ProposedResources,
};
use folio_testkit::wait_for;
use folio_types::op::{Expected, Write};
use folio_types::{Code, Environment as _, Error, OrgId, ProposalId, Reason, Role, System};
use serde_json::{Value, json};

use crate::calls::{call, filter_fields, id_fields, operation};
use crate::harness::{Answer, Client, Server};
use crate::http::{Face, Http, call_over};
use crate::samples::{Ids, creations, missing, samples};

const LIMIT: Duration = Duration::from_secs(30);

/// Returns a text with each of these ids replaced by the same word.
fn hide(ids: &Ids, text: &str) -> String {
    ids.values().fold(text.to_owned(), |text, id| text.replace(id, "ID"))
}

/// Creates the resources of an organization. The names are the same in both organizations.
async fn create_resources(server: &Server, client: &Client, organization: &str) -> Ids {
    let mut ids = Ids::from([("organization", client.org.to_string())]);
    let user = server.account("same", false).await;
    server.join(&user, &client.org, Role::Viewer).await;
    ids.insert("user", user.id.to_string());
    ids.insert("document", client.ready_document("same.txt", "Total 12.50").await.document_id);
    // The extraction, and the item of the job.
    (0..2).for_each(|_| server.model.answer(r#"{"total": 12.5}"#));
    for (name, kind, creation) in creations() {
        let response = call(client, operation(name), &creation.request(organization, &ids)).await.unwrap();
        assert!(!response.to_string().contains("SECRET"), "{name} returns a secret: {response}");
        ids.insert(kind, response.pointer(&creation.id).unwrap().as_str().unwrap().to_owned());
    }
    // The job calls the model and changes until it ends.
    wait_for("the job ends", LIMIT, || async {
        let found = client.call_ok("GetJob", json!({"job_id": ids["job"]})).await;
        found.pointer("/job/end_time").is_some().then_some(())
    })
    .await;
    // A review and a turn wait in the inbox.
    client.call_ok("RequestReview", json!({"extraction_id": ids["extraction"], "requested": true})).await;
    server.model.next(Answer::Calls(vec![("create_tag", json!({ "name": "written" }))]));
    let chat = ChatRequest { text: "write".into(), document_ids: vec![ids["document"].clone()], ..Default::default() };
    let mut events = client.conversations().chat(chat).await.unwrap().into_inner();
    let mut turn = String::new();
    while let Some(ChatResponse { event: Some(event) }) = events.message().await.unwrap() {
        turn = event.turn_id;
    }
    ids.insert("thread", turn.strip_suffix(".1").unwrap().to_owned());
    ids.insert("proposal", create_proposal(server, client, &ids).await);
    ids.insert("dictionary_question", create_question(server, &client.org, &ids["document"]).await);
    ids
}

/// Stores an open question about a term in a document, and returns its id.
pub(crate) async fn create_question(server: &Server, org: &OrgId, document: &str) -> String {
    let new = NewQuestion {
        document: document.parse().unwrap(),
        term: "MY".to_owned(),
        occurrences: 1,
        contexts: vec!["Sales in MY rose.".to_owned()],
        guess: None,
    };
    let (id, key) = (DictionaryQuestion::id_of(org, &new.document, &new.term), "question".parse().unwrap());
    let create = DictionaryQuestionChange::Create(Box::new(new));
    let write = Write::by_platform(org.clone(), key, System.now(), Expected::Absent, create);
    server.stores.of::<DictionaryQuestion>().decide(&id, write).await.unwrap();
    id.to_string()
}

/// Stores an open proposal of the organization's schema, prompt and extraction, and returns its id.
async fn create_proposal(server: &Server, client: &Client, ids: &Ids) -> String {
    let resources = ProposedResources {
        schema: Some(format!("{}.1", ids["schema"]).parse().unwrap()),
        is_schema_reused: true,
        prompt: format!("{}.1", ids["prompt"]).parse().unwrap(),
        extraction: ids["extraction"].parse().unwrap(),
        document_type: None,
        similar: None,
    };
    let outcome = ProposalOutcome::Proposed(resources);
    let new = NewProposal { document: ids["document"].parse().unwrap(), outcome, thread: None };
    let (id, key) = (ProposalId::derive(&[client.org.as_str()]), "proposal".parse().unwrap());
    let create = folio_resources::ProposalChange::Create(Box::new(new));
    let write = Write::by_platform(client.org.clone(), key, System.now(), Expected::Absent, create);
    server.stores.of::<folio_resources::Proposal>().decide(&id, write).await.unwrap();
    id.to_string()
}

/// Waits until the inbox of an organization contains its own review, approval, proposal and question, and nothing else.
async fn check_inbox(client: &Client, own: &Ids) {
    let turn = format!("{}.1", own["thread"]);
    let expected = [own["extraction"].clone(), turn, own["proposal"].clone(), own["dictionary_question"].clone()];
    wait_for("the items of the inbox", LIMIT, || async {
        let listed = client.call_ok("ListInboxItems", json!({})).await;
        let items = listed["items"].as_array().into_iter().flatten();
        items.map(|item| item["item_id"].as_str().unwrap()).eq(&expected).then_some(())
    })
    .await;
}

/// Operations that name a provider or a model: a missing one is a failed precondition or an invalid field.
const NAMED_MODELS: &[&str] =
    &["TestProvider", "SetModelDefaults", "DiscoverModels", "DeleteProvider", "CreateCompletion", "StreamCompletion"];

#[tokio::test]
async fn invariant_6_every_operation_answers_a_foreign_resource_like_a_missing_one() {
    check_tenants(Server::start().await).await;
}

#[tokio::test]
async fn invariant_6_every_operation_on_cql_answers_a_foreign_resource_like_a_missing_one() {
    let servers = tokio::task::spawn_blocking(folio_test_servers::cql).await.unwrap().unwrap();
    let contact_points = servers.split(',').map(str::to_owned).collect();
    let keyspace = "folio_tenants".to_owned();
    let options = folio_storage_cql::Options {
        keyspace,
        replication_factor: 1,
        ..folio_storage_cql::Options::at(contact_points)
    };
    let cql = folio_storage_cql::CqlStore::open(options).await.unwrap();
    let options = Options { failed_attempts_per_minute: 10_000, ..Options::default() };
    check_tenants(Server::on(options, |stores| cql.stores(stores.blobs)).await).await;
}

/// Id fields of requests that no sample needs to name a foreign resource in: the operation, the beginning of the path,
/// and the reason.
const WITHOUT_SAMPLE: &[(&str, &str, &str)] = &[
    ("CreateOrganization", "organization.organization_id", "ignored"),
    ("UpdateOrganization", "organization.organization_id", "ignored: the caller's organization is updated"),
    ("CreateAccountToken", "token.user_id", "ignored: the token is of the caller"),
    ("AddMember", "member.user_id", "any user may become a member; the user's other organizations are not affected"),
    ("SetPolicy", "policy.rules.user_ids", "any user: a rule applies to the callers of its own organization"),
    ("TestPolicy", "policy.rules.user_ids", "as SetPolicy"),
    ("CreateMcpServer", "mcp_server.oauth.client_id", "names a client of another system"),
    ("UpdateMcpServer", "mcp_server.oauth.client_id", "as CreateMcpServer"),
    ("UpdateStack", "remove_document_ids", "a document that the stack does not name is ignored"),
    ("Chat", "history.", "texts for the model, which name no stored resource"),
    ("Chat", "mentions.", "a missing resource is reported to the model: see `check_mentions`"),
];

/// Returns the values at a path of a request, with those of each element of an array.
fn values<'a>(request: &'a Value, path: &[&str]) -> Vec<&'a Value> {
    match (request, path) {
        (Value::Array(elements), _) => elements.iter().flat_map(|element| values(element, path)).collect(),
        (Value::Object(fields), [name, rest @ ..]) => {
            fields.get(*name).map_or_else(Vec::new, |value| values(value, rest))
        }
        (_, []) => vec![request],
        _ => Vec::new(),
    }
}

/// Returns the valid samples of an operation twice: with the resources of two organizations.
fn sample_pairs(operation: &Declaration) -> Vec<(Value, Value)> {
    let named = |word: &str| missing().into_keys().map(|kind| (kind, format!("{word}-{kind}"))).collect::<Ids>();
    let (one, other) = (named("one"), named("other"));
    let of_other = samples(operation.name, &one, &other).valid;
    samples(operation.name, &one, &one).valid.into_iter().zip(of_other).collect()
}

/// Every field of a request that names a resource must contain a foreign one in at least one sample.
#[test]
fn the_samples_name_a_foreign_resource_in_every_id_field() {
    let (mut checked, mut unnamed) = (Vec::new(), Vec::new());
    for operation in operations() {
        let pairs = sample_pairs(operation);
        for field in id_fields(operation) {
            let is_excluded =
                |(name, prefix, _): &&(&str, &str, &str)| *name == operation.name && field.starts_with(prefix);
            if WITHOUT_SAMPLE.iter().any(|excluded| is_excluded(&excluded)) {
                continue;
            }
            let path: Vec<&str> = field.split('.').collect();
            let is_named = pairs.iter().any(|(one, other)| values(one, &path) != values(other, &path));
            if is_named { &mut checked } else { &mut unnamed }.push(format!("{} {field}", operation.name));
        }
    }
    assert!(unnamed.is_empty(), "add samples in which these fields name a foreign resource: {unnamed:?}");
    for nested in ["UpdateTag tag.tag_id", "UpdatePrompt prompt.tag_ids", "Approve decisions.call_id"] {
        assert!(checked.iter().any(|field| field == nested), "{nested} is not among {checked:?}");
    }
}

/// Every condition of a filter on an id must name a foreign resource in at least one sample. The answers of the server
/// state the fields of each filter, and which of them require an id.
#[tokio::test]
async fn the_samples_name_a_foreign_resource_in_every_id_filter() {
    let server = Server::start().await;
    let client = server.user(&OrgId::generate(&System), Role::Admin).await;
    let own = create_resources(&server, &client, "ours").await;
    let mut checked = Vec::new();
    // The account of a user has no filter on an id.
    let is_of_organization = |operation: &&Declaration| operation.access != Access::Account && !operation.platform;
    for operation in operations().filter(is_of_organization) {
        for filter in filter_fields(operation) {
            checked.extend(check_filter(&client, operation, &filter, &own).await);
        }
    }
    for known in [
        "ListDocuments filter tag",
        "ListPrompts filter any_tag",
        "ListAuditEntries filter user",
        "ListThreads filter document",
        "RunExtractions document_filter tag",
        "StartIngestion document_filter parent",
        "GetExtractionEstimate document_filter parent",
    ] {
        assert!(checked.iter().any(|field| field == known), "{known} is not among {checked:?}");
    }
    server.stop().await;
}

/// Checks the samples of one filter of an operation. Returns its conditions on ids: the operation, the field, the condition.
async fn check_filter(client: &Client, operation: &Declaration, filter: &str, own: &Ids) -> Vec<String> {
    let mut checked = Vec::new();
    let valid = samples(operation.name, own, own).valid;
    // Another selection of the same request may exclude the filter.
    let sample = valid.iter().find(|request| !request[filter].is_null()).or(valid.first()).unwrap();
    let refusal = async |conditions: &str| {
        let mut request = sample.clone();
        request[filter] = conditions.into();
        call(client, operation, &request).await.err()
    };
    let unknown = refusal("no_such_field:x").await.unwrap();
    assert_eq!(unknown.violations[0].field, filter, "{}: {unknown:?}", operation.name);
    let Some((_, known)) = unknown.message.split_once("expected ") else { return checked };
    for field in known.split([' ', ',']).filter(|word| !word.is_empty()) {
        let is_id = |error: Error| error.reason == Reason::InvalidId;
        // The value matches no document, so that the request starts no job.
        if !refusal(&format!("{field}:no-such-value")).await.is_some_and(is_id) {
            continue;
        }
        let has_condition = |request: &Value| {
            let conditions = request[filter].as_str().unwrap_or_default();
            conditions
                .split(' ')
                .any(|condition| condition.strip_prefix(field).is_some_and(|rest| rest.starts_with([':', '='])))
        };
        let is_named = sample_pairs(operation).iter().any(|(one, other)| has_condition(one) && one != other);
        assert!(is_named, "add a sample of {} whose {filter} names a foreign {field}", operation.name);
        checked.push(format!("{} {filter} {field}", operation.name));
    }
    checked
}

/// Checks that the model receives the same text about mentions of foreign and of missing resources.
async fn check_mentions(server: &Server, client: &Client, own: &Ids, foreign: &Ids) {
    let missing = missing();
    let mut received = Vec::new();
    for ids in [foreign, &missing] {
        server.model.answer("These resources do not exist.");
        let targets = [
            mention::Target::SchemaRevid(format!("{}.1", ids["schema"])),
            mention::Target::PromptRevid(format!("{}.1", ids["prompt"])),
            mention::Target::TagId(ids["tag"].clone()),
        ];
        let chat = ChatRequest {
            text: "what are these?".into(),
            document_ids: vec![own["document"].clone()],
            mentions: targets.map(|target| Mention { target: Some(target) }).into(),
            ..Default::default()
        };
        let mut events = client.conversations().chat(chat).await.unwrap().into_inner();
        while events.message().await.unwrap().is_some() {}
        let system = server.model.last_system_message();
        assert!(ids.iter().any(|(kind, id)| *kind == "tag" && system.contains(id)), "{system}");
        received.push(hide(ids, &system));
    }
    assert_eq!(received[0], received[1]);
}

async fn check_tenants(server: Server) {
    let (us, them) = (OrgId::generate(&System), OrgId::generate(&System));
    // Both callers are admins, each in its own organization only.
    let (us, them) = (server.user(&us, Role::Admin).await, server.user(&them, Role::Admin).await);
    let foreign = create_resources(&server, &them, "theirs").await;
    let own = create_resources(&server, &us, "ours").await;
    check_mentions(&server, &us, &own, &foreign).await;
    check_inbox(&us, &own).await;
    check_inbox(&them, &foreign).await;
    let (missing, http) = (missing(), Http::new(&server, &us));
    let before = resources(&them, &foreign).await;
    let model_calls = server.model.calls();
    // A sign-in belongs to no tenant.
    let mut operations: Vec<_> = operations().filter(|operation| operation.access != Access::Public).collect();
    // The audit log is read first: later it contains the foreign ids that the caller sent itself.
    operations.sort_by_key(|operation| operation.service.name != "AuditService");
    for operation in operations {
        let name = operation.name;
        let pairs = samples(name, &own, &foreign).valid.into_iter().zip(samples(name, &own, &missing).valid);
        for (of_theirs, of_missing) in pairs {
            let names_nothing = of_theirs == of_missing;
            let response = call(&us, operation, &of_theirs).await;
            let is_refused = response.is_err();
            if let Err(error) = &response {
                // A job requires a document that matches its filter.
                let is_without_match = || error.violations.iter().any(|found| found.field == "document_filter");
                let expected = match error.code {
                    Code::PermissionDenied => operation.platform || operation.access == Access::Account,
                    Code::NotFound => !names_nothing,
                    Code::InvalidArgument if is_without_match() => !names_nothing,
                    Code::FailedPrecondition | Code::InvalidArgument => NAMED_MODELS.contains(&name),
                    _ => false,
                };
                assert!(expected, "{name}: {error:?}");
            }
            let response = to_text(response);
            if names_nothing {
                let leaked = foreign.values().find(|id| response.contains(*id));
                assert_eq!(leaked, None, "{name}: {response}");
            } else {
                let of_missing = to_text(call(&us, operation, &of_missing).await);
                assert_eq!(hide(&foreign, &response), hide(&missing, &of_missing), "{name}");
            }
            // Connect has no client streams.
            let faces = Face::ALL.into_iter().filter(|face| *face != Face::Connect || !of_theirs.is_array());
            for face in faces.filter(|_| is_refused) {
                let same = to_text(call_over(face, &http, operation, &of_theirs).await);
                assert_eq!(same, response, "{name} over {face:?}");
            }
        }
    }
    assert_eq!(server.model.calls(), model_calls, "no model is called for another organization");
    assert_eq!(resources(&them, &foreign).await, before, "their resources are as they were");
    check_inbox(&them, &foreign).await;
    let rejected = ApproveRequest {
        turn_id: format!("{}.1", foreign["thread"]),
        round: 1,
        undecided: Undecided::Reject.into(),
        ..Default::default()
    };
    server.model.answer("Made.");
    let answer = them.conversations().approve(rejected).await.unwrap().into_inner();
    assert!(matches!(answer.outcome, Some(approve_response::Outcome::Completed(_))), "their turn waits: {answer:?}");
    server.stop().await;
}

/// Returns a response as text: the JSON, or the error with its details. The usage of a search is left out, because the vector of
/// a repeated query is cached.
fn to_text(response: Result<Value, Error>) -> String {
    let text = |mut response: Value| {
        if let Some(members) = response.as_object_mut() {
            members.remove("usage");
        }
        response.to_string()
    };
    response.map_or_else(|error| format!("{error:?}"), text)
}

/// Returns the responses of all operations that read an organization's own resources. Checks that none contains a
/// secret.
async fn resources(client: &Client, own: &Ids) -> Vec<(&'static str, String)> {
    let changes_by_itself = |operation: &Declaration| {
        // A document is found once its ingestion has ended.
        matches!(
            operation.service.name,
            "UsageService" | "AuditService" | "ConversationService" | "InboxService" | "RetrievalService"
        ) || operation.name == "ListTokens"
    };
    let mut found = Vec::new();
    for operation in operations().filter(|operation| operation.effect == Effect::Read && !changes_by_itself(operation))
    {
        for request in samples(operation.name, own, own).valid {
            let response = to_text(call(client, operation, &request).await);
            assert!(!response.contains("SECRET"), "{} returns a secret: {response}", operation.name);
            // The stack has no columns, and thus no rows.
            let is_of_columns = matches!(operation.name, "GetStackRow" | "GetStackConflicts");
            let is_found = is_of_columns || !response.contains("NotFound");
            assert!(operation.platform || is_found, "{}: {response}", operation.name);
            found.push((operation.name, response));
        }
    }
    found
}
