//! Real files through automatic creation, the extraction agent and a batch: PDFs of several layouts, with several pages, a rotated
//! page and columns; scans, which Tesseract reads; office documents, mail and HTML. The model plays a script. The server finds
//! the scripted values and quotes only in a text that it has read correctly.

use std::collections::BTreeMap;

use folio_proto::v1;
use folio_proto::v1::agent_event::Event;
use folio_proto::v1::job_service_client::JobServiceClient;
use folio_proto::v1::proposal_service_client::ProposalServiceClient;
use folio_testkit::office::{docx, ods, odt, pptx, xlsx};
use folio_testkit::pdf::{Font, Page, document, objects_to_file, stream};
use folio_testkit::{scan, wait_for};
use folio_tests::eval::documents;
use serde_json::{Value, json};

use crate::LIMIT;
use crate::client::Client;
use crate::sandbox::Sandbox;

/// A value as a file prints it.
#[derive(Debug, Clone)]
pub(crate) struct Printed {
    text: String,
    page: u32,
    /// Empty: the file is no workbook.
    cell: &'static str,
}

fn printed(text: &str, page: u32, cell: &'static str) -> Printed {
    Printed { text: text.to_owned(), page, cell }
}

/// A file with two of its values.
#[derive(Debug, Clone)]
pub(crate) struct Sample {
    pub(crate) name: String,
    pub(crate) bytes: Vec<u8>,
    /// A number that no other sample contains.
    number: Printed,
    pub(crate) total: f64,
    printed_total: Printed,
}

impl Sample {
    fn new(name: &str, bytes: Vec<u8>, number: Printed, total: f64, printed_total: Printed) -> Self {
        Self { name: name.to_owned(), bytes, number, total, printed_total }
    }

    fn data(&self) -> Value {
        json!({ "number": self.number.text, "total": self.total })
    }
}

/// Returns the schema of the values of a sample.
pub(crate) fn schema() -> Value {
    json!({
        "type": "object", "properties": { "number": { "type": "string" }, "total": { "type": "number" } },
        "required": ["number", "total"], "additionalProperties": false,
    })
}

/// Returns the English documents of the evaluation, one for each layout.
fn layouts() -> Vec<Sample> {
    let is_english = |name: &str| name.ends_with("-en.pdf");
    let generated = documents::all().into_iter().filter(|generated| is_english(&generated.truth.document));
    let sample = |generated: documents::Generated| {
        let (text, fields) = (generated.text(), &generated.truth.fields);
        let number = fields.iter().find(|(name, value)| name.ends_with("_number") && value.is_string());
        let number = number.and_then(|(_, value)| value.as_str()).expect("a number");
        let total = ["total", "total_amount_due", "amount_due"].into_iter().find_map(|name| fields.get(name)?.as_f64());
        let total = total.expect("a total");
        let is_total = |word: &&str| word.replace(['$', ','], "").parse::<f64>() == Ok(total);
        let total_text = text.split_whitespace().find(is_total).expect("the document prints the total");
        let bytes = documents::bytes(&generated.truth.document).unwrap().expect("a document");
        Sample::new(&generated.truth.document, bytes, printed(number, 1, ""), total, printed(total_text, 1, ""))
    };
    generated.map(sample).collect()
}

/// Returns a PDF whose page is rotated by 90 degrees.
fn rotated() -> Vec<u8> {
    let page = "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 600 800] /Rotate 90 /Contents 4 0 R \
                /Resources << /Font << /F1 5 0 R >> >> >>";
    objects_to_file(&[
        b"<< /Type /Catalog /Pages 2 0 R >>".to_vec(),
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>".to_vec(),
        page.as_bytes().to_vec(),
        stream("", b"BT /F1 20 Tf 60 700 Td (Invoice RO-4711) Tj 0 -30 Td (Total 957.25) Tj ET"),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>".to_vec(),
    ])
}

/// Returns a PDF with two columns of text, which the file contains column by column.
fn columns() -> Vec<u8> {
    let mut page = Page::new();
    for (x, lines) in [
        (72.0, ["Number CO-4712", "The goods of this", "order were sent on"]),
        (330.0, ["Total 345.60", "the day after the", "payment was made"]),
    ] {
        for (line, text) in lines.into_iter().enumerate() {
            page.text(x, 700.0 - 20.0 * line as f64, 12.0, Font::Regular, text);
        }
    }
    document(&[page])
}

/// Returns PDFs with a text layer.
fn pdfs() -> Vec<Sample> {
    let pages = [
        Page::of_lines(&["Framework contract", "Contract MP-4710"]),
        Page::of_lines(&["General terms", "Deliveries are free of charge."]),
        Page::of_lines(&["Summary", "Total amount 1250.75 EUR"]),
    ];
    vec![
        Sample::new("contract.pdf", document(&pages), printed("MP-4710", 1, ""), 1250.75, printed("1250.75", 3, "")),
        Sample::new("rotated.pdf", rotated(), printed("RO-4711", 1, ""), 957.25, printed("957.25", 1, "")),
        Sample::new("columns.pdf", columns(), printed("CO-4712", 1, ""), 345.6, printed("345.60", 1, "")),
    ]
}

/// Returns files without a text layer.
fn scans() -> Vec<Sample> {
    let page = |number: &str, total: &str| {
        document(&[Page::of_lines(&[&format!("Delivery note {number}"), &format!("Total amount {total}")])])
    };
    let image = |pdf: &[u8], format| scan::render(pdf, Some(format)).expect("pdftoppm renders a page");
    let sample = |name: &str, bytes, number, total: &str| {
        Sample::new(name, bytes, printed(number, 1, ""), total.parse().unwrap(), printed(total, 1, ""))
    };
    vec![
        sample("scan.png", image(&page("472001", "312.50"), "png"), "472001", "312.50"),
        sample("scan.tiff", image(&page("472002", "418.25"), "tiff"), "472002", "418.25"),
        sample("scan.pdf", scan::pdf_of_jpeg(&image(&page("472003", "529.75"), "jpeg"), 1), "472003", "529.75"),
    ]
}

fn office_files() -> Vec<Sample> {
    let workbook = xlsx(&[
        ("Cover", &[("A1", "inlineStr", "Order XL-4731")]),
        (
            "Costs",
            &[
                ("B3", "inlineStr", "Position"),
                ("C3", "inlineStr", "Net | EUR"),
                ("B4", "inlineStr", "Paper"),
                ("C4", "n", "120.5"),
                ("B5", "inlineStr", "Total"),
                ("C5", "n", "623.75"),
            ],
        ),
    ]);
    let accounts = ods("Accounts", (2, 1), &[&["Order", "OS-4732"], &["Total", "745.5"]]);
    let mail = "From: a@example.org\r\nTo: b@example.org\r\nSubject: Order EM-4735\r\n\
                Date: Mon, 02 Nov 2026 10:00:00 +0100\r\n\r\nThe total is 217.90 EUR.\r\n";
    let html = "<!doctype html><html><body><h1>Receipt</h1><p>Number HT-4736</p><p>Total 188.40</p></body></html>";
    let of_one_page = |name: &str, bytes, number: &str, total: f64, total_text: &str| {
        Sample::new(name, bytes, printed(number, 1, ""), total, printed(total_text, 1, ""))
    };
    vec![
        of_one_page("order.docx", docx(&["Invoice DX-4730"], ["Total", "812.40"]), "DX-4730", 812.4, "812.40"),
        Sample::new("order.xlsx", workbook, printed("XL-4731", 1, "A1"), 623.75, printed("623.75", 2, "C5")),
        Sample::new("order.ods", accounts, printed("OS-4732", 1, "C3"), 745.5, printed("745.5", 1, "C4")),
        Sample::new(
            "offer.pptx",
            pptx(&["Offer PP-4733", "Total 534.25"]),
            printed("PP-4733", 1, ""),
            534.25,
            printed("534.25", 2, ""),
        ),
        of_one_page("order.odt", odt("Order OD-4734 with a total of 498.60 EUR"), "OD-4734", 498.6, "498.60"),
        of_one_page("order.eml", mail.as_bytes().to_vec(), "EM-4735", 217.9, "217.90"),
        of_one_page("receipt.html", html.as_bytes().to_vec(), "HT-4736", 188.4, "188.40"),
    ]
}

/// Returns a sample of each kind of file.
pub(crate) fn samples() -> Vec<Sample> {
    [layouts(), pdfs(), scans(), office_files()].concat()
}

/// Returns the rules for a sample: the answer to a prompt, a run of the agent, and a run of automatic creation.
fn rules(sample: &Sample) -> [Value; 3] {
    let Sample { number, printed_total: total, .. } = sample;
    let quote = |value: &Printed| json!({ "page": value.page, "quote": value.text });
    let file = json!({ "contains": Value::from(sample.name.as_str()).to_string() });
    let call = |name: &str, arguments: Value| json!({ "name": name, "arguments": arguments });
    let fields = json!({
        "fields": sample.data(), "confidences": { "number": 0.75, "total": 0.5 },
        "citations": { "number": quote(number), "total": quote(total) },
    });
    let format =
        json!({ "type": "json_schema", "json_schema": { "name": "order", "strict": true, "schema": schema() } });
    let title = format!("Order {}", number.text);
    let prompt = json!({ "name": title, "content": "Read both.", "schema_id": "$create_schema.schema_id" });
    [
        json!({
            "when": { "response_format": true, "user": { "contains": [number.text, total.text] } },
            "answer": { "text": sample.data().to_string() },
        }),
        json!({
            "when": { "system": file, "user": { "contains": "Extract the data" } },
            "rounds": [
                { "calls": [call("get_document_text", json!({}))] },
                { "calls": [
                    call("identify_document", json!({ "document_type": "Order", "confidence": 0.9 })),
                    call("extract_fields", fields),
                ] },
                { "calls": [call("complete_extraction", json!({}))] },
                { "text": "I saved the number and the total." },
            ],
        }),
        json!({
            "when": { "system": file, "user": { "contains": "Analyze this document" } },
            "rounds": [
                { "calls": [
                    call("create_schema", json!({ "name": title, "response_format": format })),
                    call("create_prompt", prompt),
                    call("run_extraction", json!({ "prompt_revid": "$create_prompt.prompt_revid" })),
                ] },
                { "text": "An order." },
            ],
        }),
    ]
}

/// Checks the data of an extraction, and that each value is cited on its page, and in a workbook in its cell.
fn check(sample: &Sample, extraction: &v1::Extraction, kind: v1::CitationKind) {
    let name = &sample.name;
    let data: Value = serde_json::from_str(&extraction.original_json).unwrap();
    assert_eq!(data, sample.data(), "{name}");
    for (path, value) in [("number", &sample.number), ("total", &sample.printed_total)] {
        let citation = extraction.citations.iter().find(|citation| citation.path == path);
        let citation = citation.unwrap_or_else(|| panic!("{name}: {path} is not in the text: {extraction:?}"));
        assert_eq!((citation.page, citation.cell.as_str()), (value.page, value.cell), "{name}: {citation:?}");
        assert!(citation.quote.contains(&value.text), "{name}: {citation:?}");
        assert_eq!(citation.kind(), kind, "{name}: {citation:?}");
    }
}

pub(crate) async fn extraction(client: &Client, extraction_id: &str) -> v1::Extraction {
    let request = v1::GetExtractionRequest { extraction_id: extraction_id.to_owned() };
    client.extractions.clone().get_extraction(request).await.unwrap().into_inner().extraction.expect("an extraction")
}

/// Uploads a sample with automatic creation. Returns the id of the document.
pub(crate) async fn upload(client: &Client, sample: &Sample) -> String {
    let description =
        v1::DocumentDescription { name: sample.name.clone(), auto_create: Some(true), ..Default::default() };
    let document = client.try_upload_as(description, &sample.bytes).await.expect("the upload is accepted");
    client.wait_for_text(&document.document_id).await;
    document.document_id
}

/// Waits for the proposal for a document.
pub(crate) async fn proposal(client: &Client, document: &str, limit: std::time::Duration) -> v1::Proposal {
    let proposals = ProposalServiceClient::new(client.channel.clone());
    wait_for("the proposal", limit, || async {
        let request = v1::ListProposalsRequest { filter: format!("document:{document}"), ..Default::default() };
        proposals.clone().list_proposals(request).await.unwrap().into_inner().proposals.pop()
    })
    .await
}

/// Creates a prompt with the schema of the samples. Returns its revision.
pub(crate) async fn create_prompt(client: &Client) -> String {
    let format =
        json!({ "type": "json_schema", "json_schema": { "name": "values", "strict": true, "schema": schema() } });
    let new =
        v1::Schema { name: "Values".to_owned(), response_format_json: format.to_string(), ..v1::Schema::default() };
    let request = v1::CreateSchemaRequest { schema: Some(new), ..Default::default() };
    let created = client.schemas.clone().create_schema(request).await.unwrap().into_inner().schema.expect("a schema");
    let new = v1::Prompt {
        name: "Values".to_owned(),
        content: "Read the number of the document and the total amount.".to_owned(),
        schema_revid: created.schema_revid,
        ..v1::Prompt::default()
    };
    let request = v1::CreatePromptRequest { prompt: Some(new), ..Default::default() };
    client.prompts.clone().create_prompt(request).await.unwrap().into_inner().prompt.expect("a prompt").prompt_revid
}

/// Runs the agent on a document. Returns the last event.
pub(crate) async fn run_agent(client: &Client, document_id: &str, prompt_revid: &str) -> v1::AgentComplete {
    let request = v1::StartExtractionRequest {
        document_id: document_id.to_owned(),
        prompt_revid: prompt_revid.to_owned(),
        ..Default::default()
    };
    let mut events = client.extractions.clone().start_extraction(request).await.unwrap().into_inner();
    let mut last = None;
    while let Some(response) = events.message().await.unwrap() {
        last = response.event.and_then(|event| event.event);
    }
    let Some(Event::Complete(complete)) = last else { panic!("{last:?}") };
    complete
}

/// Runs a prompt on documents in a batch, and waits for its end. Returns the items by their documents.
pub(crate) async fn run_batch(
    client: &Client,
    document_ids: Vec<String>,
    prompt_revid: &str,
) -> BTreeMap<String, v1::JobItem> {
    let request =
        v1::RunExtractionsRequest { document_ids, prompt_revid: prompt_revid.to_owned(), ..Default::default() };
    let job = client.extractions.clone().run_extractions(request).await.unwrap().into_inner().job.expect("a job");
    let mut jobs = JobServiceClient::new(client.channel.clone());
    let mut states = jobs.watch_job(v1::WatchJobRequest { job_id: job.job_id }).await.unwrap().into_inner();
    let mut last = v1::Job::default();
    while let Some(state) = states.message().await.unwrap() {
        last = state.job.expect("a job");
    }
    assert!(last.end_time.is_some(), "{last:?}");
    last.items.into_iter().map(|item| (item.subject.clone(), item)).collect()
}

#[tokio::test]
async fn real_files_pass_automatic_creation_the_agent_and_a_batch_with_their_evidence() {
    let samples = samples();
    let rules: Vec<Value> = samples.iter().flat_map(rules).collect();
    let sandbox = Sandbox::start(json!({ "rules": rules }).to_string()).await;
    let client = sandbox.client().await;
    let mut uploaded = Vec::new();
    for sample in &samples {
        uploaded.push((sample, upload(&client, sample).await));
    }
    for (sample, document) in &uploaded {
        let proposal = proposal(&client, document, 3 * LIMIT).await;
        assert_eq!(proposal.state(), v1::ProposalState::Proposed, "{}: {}", sample.name, proposal.reason);
        check(sample, &extraction(&client, &proposal.extraction_id).await, v1::CitationKind::Located);
    }
    let prompt = create_prompt(&client).await;
    for (sample, document) in &uploaded {
        let complete = run_agent(&client, document, &prompt).await;
        let extraction = complete.extraction.expect("an extraction");
        assert_eq!(extraction.state(), v1::ExtractionState::Completed, "{}: {}", sample.name, extraction.failure);
        check(sample, &extraction, v1::CitationKind::Cited);
        assert_eq!(complete.usage.expect("a usage").model_calls, 4, "{}", sample.name);
    }
    let documents = uploaded.iter().map(|(_, document)| document.clone()).collect();
    let items = run_batch(&client, documents, &prompt).await;
    for (sample, document) in &uploaded {
        let item = &items[document];
        assert_eq!(item.state(), v1::JobItemState::Done, "{}: {item:?}", sample.name);
        let result: Value = serde_json::from_str(&item.result_json).unwrap();
        let id = result["extraction_id"].as_str().expect("an extraction");
        check(sample, &extraction(&client, id).await, v1::CitationKind::Located);
    }
}
