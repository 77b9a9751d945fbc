//! The routes of stacks and of their tables.

use std::time::Duration;

use http::Method;
use serde_json::{Value, json};

use super::Http;
use crate::harness::{Client, Server};

const SOON: Duration = Duration::from_secs(20);

/// A stack of two documents with the columns `Vendor` and `Total`.
struct Table {
    http: Http,
    /// The route of the stack.
    stack: String,
    documents: [String; 2],
}

impl Table {
    async fn create(server: &Server, client: &Client) -> Self {
        let one = client.ready_document("a.txt", "Acme. Total 0.1").await.document_id;
        let other = client.ready_document("b.txt", "Acme. Total 0.2").await.document_id;
        let (http, stacks) = (Http::new(server, client), format!("/v0/orgs/{}/stacks", client.org));
        let fields = json!({ "name": "Bills", "document_ids": [one, other], "min_confidence": 0.8 });
        let created = http.json(Method::POST, &stacks, &fields).await;
        let body = created.json();
        assert_eq!((created.status.as_u16(), &body["document_count"]), (200, &json!(2)), "{body}");
        let stack = format!("{stacks}/{}", body["id"].as_str().unwrap());
        let columns = json!({ "columns": [
            { "name": "Vendor", "type": "text", "required": true },
            { "name": "Total", "type": "number", "unit": "EUR" },
        ] });
        let defined = http.json(Method::PUT, &format!("{stack}/columns"), &columns).await;
        assert_eq!(defined.json()["columns"][1]["unit"], "EUR", "{defined:?}");
        Self { http, stack, documents: [one, other] }
    }

    async fn set(&self, document: &str, column: &str, value: Value) -> Value {
        let cells = format!("{}/rows/{document}/cells", self.stack);
        self.http.json(Method::PUT, &cells, &json!({ "column": column, "value": value })).await.json()
    }

    async fn post(&self, action: &str, body: Value) -> Value {
        self.http.json(Method::POST, &format!("{}/{action}", self.stack), &body).await.json()
    }
}

#[tokio::test]
async fn a_stack_is_created_listed_changed_and_deleted() {
    let server = Server::start().await;
    let client = server.member().await;
    let Table { http, stack, documents } = Table::create(&server, &client).await;
    let (stacks, _) = stack.rsplit_once('/').unwrap();
    let taken = http.json(Method::POST, stacks, &json!({ "name": "BILLS" })).await;
    assert_eq!((taken.status.as_u16(), taken.json()["code"].clone()), (409, json!("NAME_TAKEN")));
    let both = json!({ "name": "x", "document_ids": documents, "metadata": { "year": "2026" } });
    assert_eq!(http.json(Method::POST, stacks, &both).await.status, 422);
    let unknown = json!({ "columns": [{ "name": "a", "type": "money" }] });
    assert_eq!(http.json(Method::PUT, &format!("{stack}/columns"), &unknown).await.status, 422);

    let found = http.get(&stack).await;
    let (body, etag) = (found.json(), found.header("etag").to_owned());
    assert_eq!((&body["min_confidence"], &body["auto_fill"]), (&json!(0.8), &json!(false)));
    let listed = http.get(&format!("{stacks}?name=bill")).await.json();
    assert_eq!((&listed["total_count"], &listed["stacks"][0]["id"]), (&json!(1), &body["id"]));

    let renamed = http.request(Method::PUT, &stack).header("if-match", &etag).json(&json!({ "name": "Invoices" }));
    let renamed = http.send(renamed).await.json();
    assert_eq!((&renamed["name"], &renamed["document_count"]), (&json!("Invoices"), &json!(2)), "keeps its documents");
    assert_eq!(renamed["min_confidence"], Value::Null, "an absent field is empty");
    let stale = http.request(Method::PUT, &stack).header("if-match", &etag).json(&json!({ "name": "Again" }));
    assert_eq!(http.send(stale).await.status, 412);

    let column = json!({ "name": "Gross", "type": "number", "description": "With tax." });
    let redefine = |column_name: &str| json!({ "column_name": column_name, "column": column });
    let redefined = http.json(Method::POST, &format!("{stack}/columns"), &redefine("total")).await.json();
    assert_eq!(redefined["columns"][1]["name"], "Gross", "{redefined}");
    assert_eq!(http.json(Method::POST, &format!("{stack}/columns"), &redefine("Total")).await.status, 404);
    let removal = json!({ "removed_document_ids": [documents[0]] });
    let changed = http.json(Method::POST, &format!("{stack}/documents"), &removal).await.json();
    assert_eq!(changed["document_count"], 1, "{changed}");
    assert_eq!(http.json(Method::POST, &format!("{stack}/documents"), &json!({})).await.status, 422);

    let deleted = http.json(Method::DELETE, &stack, &Value::Null).await;
    assert_eq!(deleted.json(), json!({ "message": "Stack deleted successfully" }));
    assert_eq!(http.get(&stack).await.status, 404);
    server.stop().await;
}

#[tokio::test]
async fn cells_are_edited_reviewed_added_up_and_exported() {
    let server = Server::start().await;
    let client = server.member().await;
    let table = Table::create(&server, &client).await;
    let [one, other] = &table.documents;
    let row = table.set(one, "vendor", json!("Acme")).await;
    assert_eq!((&row["cells"][0]["state"], &row["missing_columns"]), (&json!("edited"), &json!(["Total"])), "{row}");
    let refused = table.set(one, "Total", json!("much")).await;
    assert_eq!(refused["detail"][0]["loc"], json!(["body", "value"]), "{refused}");
    for (document, column, value) in
        [(one, "Total", json!(0.1)), (other, "Vendor", json!("Acme")), (other, "Total", json!(0.2))]
    {
        table.set(document, column, value).await;
    }
    let question = json!({ "aggregates": [{ "function": "sum", "column": "Total" }], "group_by": ["Vendor"] });
    let answer = table.post("ask", question).await;
    let value = json!({ "value": "0.3", "exact": true, "counted_rows": 2, "skipped_rows": 0, "unit": "EUR" });
    let group = json!({ "key": ["Acme"], "row_count": 2, "values": [value] });
    assert_eq!(answer, json!({ "groups": [group], "row_count": 2 }));
    let filtered = json!({ "aggregates": [{ "function": "count" }], "filter": { "Total": 0.2, "vendor": "Acme" } });
    let answer = table.post("ask", filtered).await;
    assert_eq!(
        (&answer["groups"][0]["values"][0]["value"], &answer["row_count"]),
        (&json!("1"), &json!(2)),
        "{answer}"
    );
    let conflicts = table.post("conflicts", json!({ "key_columns": ["Vendor"] })).await;
    assert_eq!((&conflicts["total_count"], &conflicts["conflicts"][0]["column"]), (&json!(1), &json!("Total")));

    let complete = table.post("fill", json!({})).await;
    assert_eq!(complete["code"], "NO_EXTRACTION", "{complete}");
    let review = format!("rows/{other}/review");
    let rejected = table.post(&review, json!({ "column_names": ["Total"], "decision": "reject" })).await;
    assert_eq!(rejected["cells"][1]["state"], "rejected", "{rejected}");
    let none_waits = table.post(&review, json!({ "decision": "approve" })).await;
    assert_eq!(none_waits["detail"][0]["type"], "value_error", "{none_waits}");

    let (http, stack) = (&table.http, &table.stack);
    let rows = http.get(&format!("{stack}/rows?limit=1")).await.json();
    assert_eq!((&rows["total_count"], &rows["rows"][0]["document_id"]), (&json!(2), &json!(other)));
    assert_eq!(http.get(&format!("{stack}/rows?waiting=true")).await.json()["rows"], json!([]));
    assert_eq!(http.get(&format!("{stack}/rows/{one}")).await.json()["document_name"], "a.txt");
    let exported = http.get(&format!("{stack}/export?format=csv")).await;
    let lines: Vec<&str> = exported.text.lines().collect();
    assert_eq!(lines.first().copied(), Some("document,document_id,Vendor,Total"), "{lines:?}");
    assert!(lines.contains(&format!("a.txt,{one},Acme,0.1").as_str()), "{lines:?}");
    assert!(lines.contains(&format!("b.txt,{other},Acme,").as_str()), "a rejected value is empty: {lines:?}");
    let exported = http.get(&format!("{stack}/export")).await;
    assert_eq!(exported.text.lines().count(), 2, "{exported:?}");
    server.stop().await;
}

#[tokio::test]
async fn invariant_6_cells_of_another_organization_are_like_missing_ones() {
    let server = Server::start().await;
    let (us, them) = (server.member().await, server.member().await);
    let theirs = Table::create(&server, &them).await;
    let [document, _] = &theirs.documents;
    theirs.set(document, "Vendor", json!("Secretive")).await;
    let own = Table::create(&server, &us).await;
    let (_, id) = theirs.stack.rsplit_once('/').unwrap();
    let (stack, row) = (format!("/v0/orgs/{}/stacks/{id}", us.org), format!("rows/{document}"));

    let mut answers = vec![own.http.get(&stack).await, own.http.get(&format!("{}/{row}", own.stack)).await];
    for path in ["rows", row.as_str(), "export?format=csv", "watch"] {
        answers.push(own.http.get(&format!("{stack}/{path}")).await);
    }
    for (method, path, body) in [
        (Method::PUT, format!("{row}/cells"), json!({ "column": "Vendor", "value": "Ours" })),
        (Method::POST, format!("{row}/review"), json!({ "column_names": ["Vendor"], "decision": "reject" })),
        (Method::POST, "ask".to_owned(), json!({ "aggregates": [{ "function": "count" }], "group_by": ["Vendor"] })),
        (Method::POST, "conflicts".to_owned(), json!({ "key_columns": ["Vendor"] })),
        (Method::POST, "fill".to_owned(), json!({})),
    ] {
        answers.push(own.http.json(method, &format!("{stack}/{path}"), &body).await);
    }
    let foreign_cell = json!({ "column": "Vendor", "value": "Ours" });
    answers.push(own.http.json(Method::PUT, &format!("{}/{row}/cells", own.stack), &foreign_cell).await);
    for answer in answers {
        assert_eq!(answer.status, 404, "{answer:?}");
        assert!(!answer.text.contains("Secretive"), "{answer:?}");
    }
    let kept = theirs.http.get(&format!("{}/{row}", theirs.stack)).await.json();
    assert_eq!((&kept["cells"][0]["value"], &kept["cells"][0]["state"]), (&json!("Secretive"), &json!("edited")));
    server.stop().await;
}

/// Reads frames of an event stream until one has this type, and returns it.
async fn next_frame(stream: &mut reqwest::Response, received: &mut String, kind: &str) -> Value {
    let read = async {
        loop {
            while let Some((block, rest)) = received.split_once("\n\n") {
                let frame = block.lines().find_map(|line| line.strip_prefix("data: ")).map(str::to_owned);
                *received = rest.to_owned();
                let frame: Value = frame.map_or(Value::Null, |frame| serde_json::from_str(&frame).unwrap());
                if frame["type"] == kind {
                    return frame;
                }
            }
            let chunk = stream.chunk().await.unwrap().expect("the stream continues");
            received.push_str(std::str::from_utf8(&chunk).unwrap());
        }
    };
    tokio::time::timeout(SOON, read).await.unwrap_or_else(|_| panic!("no frame {kind}"))
}

#[tokio::test]
async fn changes_of_a_table_are_server_sent_events() {
    let server = Server::start().await;
    let client = server.member().await;
    let table = Table::create(&server, &client).await;
    let watch = format!("{}/watch", table.stack);
    let mut stream = table.http.request(Method::GET, &watch).send().await.unwrap();
    assert_eq!(stream.headers()["content-type"], "text/event-stream; charset=utf-8");
    let mut received = String::new();
    let first = next_frame(&mut stream, &mut received, "stack").await;
    assert_eq!((&first["stack"]["name"], &first["stack"]["document_count"]), (&json!("Bills"), &json!(2)), "{first}");
    table.set(&table.documents[0], "Total", json!(0.1)).await;
    let changed = next_frame(&mut stream, &mut received, "row").await;
    let (row, document) = (&changed["row"], &table.documents[0]);
    assert_eq!((&row["document_id"], &row["cells"][0]["value"]), (&json!(document), &json!(0.1)), "{changed}");
    table.http.json(Method::PUT, &table.stack, &json!({ "name": "Invoices" })).await;
    let renamed = next_frame(&mut stream, &mut received, "stack").await;
    assert_eq!(renamed["stack"]["name"], "Invoices", "{renamed}");
    drop(stream);
    server.stop().await;
}
