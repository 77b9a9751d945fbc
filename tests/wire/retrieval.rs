//! Searches and answers of the command line, with the vectors, the order and the answers of llm-sim, and searches of two
//! organizations over each face.

use std::path::Path;

use folio_proto::v1;
use folio_proto::v1::organization_service_client::OrganizationServiceClient;
use folio_proto::v1::retrieval_service_client::RetrievalServiceClient;
use folio_testkit::wait_for;
use serde_json::{Value, json};

use crate::LIMIT;
use crate::client::Client;
use crate::command_line::{folio, text};
use crate::sandbox::{Sandbox, Setup};

/// The model answers each question with a citation, and with one that does not occur in the passage.
const SCRIPT: &str = r#"
rules:
  - answer:
      text: '{"answer": "Within 30 days [1], with a discount [1].", "citations": [{"passage": 1, "quote": "payable within 30 days"}, {"passage": 1, "quote": "a discount of 5 %"}]}'
"#;

async fn start() -> Sandbox {
    let sandbox = Setup::new(SCRIPT)
        .with("FOLIO_MODELS__PROVIDERS__SIM__MODELS__VECTORS__KIND", "embedding")
        .with("FOLIO_MODELS__PROVIDERS__SIM__MODELS__RATES__KIND", "rerank")
        .with("FOLIO_MODELS__DEFAULT_RERANK_MODEL", "rates")
        .start()
        .await;
    printed(&sandbox, &["login", &sandbox.url()], &format!("{}\n", sandbox.token()));
    sandbox
}

fn printed(sandbox: &Sandbox, arguments: &[&str], input: &str) -> String {
    let folder: &Path = sandbox.folder();
    let output = folio(folder, arguments, &[], input);
    assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
    text(&output.stdout)
}

fn json_of(sandbox: &Sandbox, arguments: &[&str]) -> Value {
    let out = printed(sandbox, &[arguments, &["--output", "json"]].concat(), "");
    serde_json::from_str(&out).unwrap_or_else(|error| panic!("{arguments:?}: {error}: {out}"))
}

#[tokio::test]
async fn documents_are_found_by_words_and_meaning_and_questions_are_answered() {
    let sandbox = start().await;
    let client = sandbox.client().await;
    let terms = client.upload("terms.txt", b"Invoices are payable within 30 days after their receipt.").await;
    client.upload("weather.txt", b"It rained all day at the coast.").await;
    let found = wait_for("the documents are indexed with vectors", LIMIT, || async {
        let found = json_of(&sandbox, &["search", "payable", "invoices"]);
        let ranks = found.as_array().unwrap().iter().filter(|passage| passage["dense"].is_object()).count();
        (ranks == 2).then_some(found)
    })
    .await;
    let first = &found[0];
    assert_eq!((&first["document_id"], &first["page"]), (&json!(terms), &json!(1)), "{found}");
    assert_eq!((&first["lexical"]["rank"], &first["dense"]["rank"]), (&json!(1), &json!(1)), "{found}");
    assert_eq!(first["highlights"].as_array().unwrap().len(), 2, "{found}");
    assert_eq!(found[1]["lexical"], Value::Null, "the other document has no word of the query");
    let table = printed(&sandbox, &["search", "payable invoices"], "");
    assert!(table.starts_with("DOCUMENT_NAME") && table.contains("terms.txt"), "{table}");

    let ranked = json_of(&sandbox, &["search", "payable invoices", "--rerank", "--limit", "1"]);
    assert!(ranked[0]["relevance"].is_number() && ranked.as_array().unwrap().len() == 1, "{ranked}");
    let of_weather = json_of(&sandbox, &["search", "payable invoices", "--document", "weather.txt"]);
    assert_eq!((of_weather.as_array().unwrap().len(), &of_weather[0]["document_name"]), (1, &json!("weather.txt")));
    assert_eq!(json_of(&sandbox, &["search", "payable", "--until", "2020-01-01T00:00:00Z"]), json!([]));
    let section = printed(&sandbox, &["document", "section", first["section_id"].as_str().unwrap()], "");
    assert!(section.contains("payable within 30 days"), "{section}");

    let question = ["search", "--answer", "When are invoices payable?"];
    let answer = json_of(&sandbox, &question);
    assert_eq!(
        (&answer["answer"], &answer["removed_citations"]),
        (&json!("Within 30 days [1], with a discount [1]."), &json!(1))
    );
    assert_eq!(answer["citations"].as_array().unwrap().len(), 1);
    assert_eq!(answer["citations"][0]["document_id"], json!(terms));
    let shown = printed(&sandbox, &question, "");
    assert!(shown.contains("[1] terms.txt, page 1: \"payable within 30 days\""), "{shown}");
}

/// The agent searches the documents of its organization. Each question is answered with a citation.
const TWO_ORGANIZATIONS: &str = r#"
rules:
  - when: {user: {contains: find}}
    rounds:
      - calls: [{name: retrieve_documents, arguments: {query: payable invoices}}]
      - text: "{{last.retrieve_documents.passages.0.document_id}}"
  - answer:
      text: '{"answer": "Within 30 days [1].", "citations": [{"passage": 1, "quote": "payable within 30 days"}]}'
"#;
const QUERY: &str = "payable invoices";

/// An organization with one document, whose text is that of the document of the other organization.
struct Organization {
    id: String,
    token: String,
    document: String,
}

impl Organization {
    async fn new(sandbox: &Sandbox, id: String, token: String) -> Self {
        let client = Client::connect(&sandbox.url(), Some(&token)).await;
        let document = client.upload("terms.txt", b"Invoices are payable within 30 days after their receipt.").await;
        Self { id, token, document }
    }

    async fn post(&self, sandbox: &Sandbox, path: &str, body: &Value) -> Value {
        let request = reqwest::Client::new().post(format!("{}{path}", sandbox.url())).bearer_auth(&self.token);
        request.json(body).send().await.expect("the server answers").json().await.expect("the answer is JSON")
    }

    async fn search_over_rest(&self, sandbox: &Sandbox) -> Vec<String> {
        let path = format!("/v0/orgs/{}/retrieval/search", self.id);
        ids(&self.post(sandbox, &path, &json!({ "query": QUERY })).await["passages"])
    }

    /// Returns the documents that each face finds.
    async fn found(&self, sandbox: &Sandbox) -> Vec<(&'static str, Vec<String>)> {
        let client = Client::connect(&sandbox.url(), Some(&self.token)).await;
        let mut retrieval = RetrievalServiceClient::new(client.channel.clone());
        let search = v1::SearchRequest { query: QUERY.to_owned(), ..Default::default() };
        let searched = retrieval.search(search).await.expect("the search is answered").into_inner();
        let ask = v1::AskRequest { question: "When are invoices payable?".to_owned(), ..Default::default() };
        let answered = retrieval.ask(ask).await.expect("the question is answered").into_inner();
        let arguments = json!({ "name": "search", "arguments": { "query": QUERY } });
        let call = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": arguments });
        let over_mcp = self.post(sandbox, "/mcp", &call).await;
        let chat = v1::ChatRequest {
            profile: "coordinator".to_owned(),
            document_ids: vec![self.document.clone()],
            text: "find the terms".to_owned(),
            ..Default::default()
        };
        let completed = client.send(chat).await.expect("the chat is accepted").completed().await;
        let url = sandbox.url();
        let environment = [("FOLIO_SERVER", url.as_str()), ("FOLIO_TOKEN", self.token.as_str())];
        let printed = folio(sandbox.folder(), &["search", QUERY, "--output", "json"], &environment, "");
        let printed = serde_json::from_slice(&printed.stdout).unwrap_or_else(|_| panic!("{}", text(&printed.stderr)));
        vec![
            ("gRPC", searched.passages.into_iter().map(|passage| passage.document_id).collect()),
            ("an answer", answered.citations.into_iter().map(|citation| citation.document_id).collect()),
            ("REST", self.search_over_rest(sandbox).await),
            ("MCP", ids(&over_mcp["result"]["structuredContent"]["passages"])),
            ("an agent", vec![completed.text]),
            ("the command line", ids(&printed)),
        ]
    }
}

/// Returns the documents of passages.
fn ids(passages: &Value) -> Vec<String> {
    let id = |passage: &Value| passage["document_id"].as_str().unwrap_or_default().to_owned();
    passages.as_array().into_iter().flatten().map(id).collect()
}

#[tokio::test]
async fn invariant_6_each_face_finds_the_documents_of_its_own_organization_only() {
    let sandbox = Sandbox::start(TWO_ORGANIZATIONS).await;
    let admin = sandbox.client().await;
    let mut organizations = OrganizationServiceClient::new(admin.channel.clone());
    let listed = organizations.list_organizations(v1::ListOrganizationsRequest::default()).await.unwrap().into_inner();
    let create = v1::CreateOrganizationRequest {
        organization: Some(v1::Organization { name: "Other".to_owned(), ..Default::default() }),
        admin_name: "admin".to_owned(),
        request_id: "other".to_owned(),
        ..Default::default()
    };
    let created = organizations.create_organization(create).await.unwrap().into_inner();
    let id = created.organization.unwrap().organization_id;
    let first = Organization::new(&sandbox, listed.organizations[0].organization_id.clone(), sandbox.token()).await;
    let second = Organization::new(&sandbox, id, created.admin_token).await;
    for organization in [&first, &second] {
        wait_for("the document is indexed", LIMIT, || async {
            (!organization.search_over_rest(&sandbox).await.is_empty()).then_some(())
        })
        .await;
    }
    for organization in [&first, &second] {
        for (face, found) in organization.found(&sandbox).await {
            assert_eq!(found, std::slice::from_ref(&organization.document), "{face} of {}", organization.id);
        }
    }
    let bodies: Vec<String> =
        sandbox.sim.chat_requests().await.iter().map(|request| request.body.to_string()).collect();
    let names_both = |body: &&String| body.contains(&first.document) && body.contains(&second.document);
    assert_eq!(bodies.iter().find(names_both), None, "no model receives documents of both");
}

#[tokio::test]
async fn a_collection_restricts_a_search_to_the_documents_of_its_rule() {
    let sandbox = start().await;
    let client = sandbox.client().await;
    let terms = client.upload("terms.txt", b"Invoices are payable within 30 days after their receipt.").await;
    client.upload("other.txt", b"Rents are payable in advance.").await;
    printed(&sandbox, &["tag", "create", "contracts"], "");
    printed(&sandbox, &["document", "tag", "terms.txt", "--add", "contracts"], "");
    let made = json_of(&sandbox, &["collection", "create", "Terms", "--tag", "contracts"]);
    assert_eq!(json_of(&sandbox, &["collection", "show", "terms"]), made);
    let members = json_of(&sandbox, &["collection", "documents", "terms"]);
    assert_eq!((members.as_array().unwrap().len(), &members[0]["document_id"]), (1, &json!(terms)), "{members}");
    let found = wait_for("the tag of the document is indexed", LIMIT, || async {
        let found = json_of(&sandbox, &["search", "payable", "--collection", "terms"]);
        (found != json!([])).then_some(found)
    })
    .await;
    assert_eq!((found.as_array().unwrap().len(), &found[0]["document_id"]), (1, &json!(terms)), "{found}");

    let changed = json_of(&sandbox, &["collection", "update", "Terms", "--no-tags", "--metadata", "year=2026"]);
    assert_eq!((&changed["collection_id"], &changed["tag_ids"]), (&made["collection_id"], &json!([])), "{changed}");
    assert_eq!(changed["metadata"], json!({"year": "2026"}));
    assert_eq!(json_of(&sandbox, &["search", "payable", "--collection", "Terms"]), json!([]));
    printed(&sandbox, &["collection", "rm", "Terms"], "");
    assert_eq!(json_of(&sandbox, &["collection", "list"]), json!([]));
}
