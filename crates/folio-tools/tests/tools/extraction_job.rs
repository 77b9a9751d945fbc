//! Tests of the items of jobs that extract data.

use folio_history::job::ItemRun;
use folio_tools::extraction::{JobInput, run_job_item};
use folio_types::{JobId, PromptId, PromptRevId, Reason};
use serde_json::{Value, json};

use crate::fixture::{Fixture, usage};

fn attempt(item: u32, epoch: u64, attempt: u32) -> ItemRun {
    ItemRun { job: JobId::derive(&["j"]), item, epoch, attempt }
}

fn input(prompt: &str) -> Value {
    json!(JobInput { prompt: prompt.parse().unwrap(), model: None })
}

#[tokio::test]
async fn a_later_attempt_finds_the_extraction_of_an_earlier_one_without_a_model_call() {
    let mut test = Fixture::new().await;
    let (_, prompt) = test.invoice_prompt().await;
    let (resources, principal) = (test.context.resources.clone(), test.context.principal.clone());
    let document = test.document().to_string();
    let run = async |run: ItemRun| run_job_item(&resources, &principal, &run, &document, &input(&prompt)).await;
    test.models.answer(r#"{"total": 120.5}"#);
    let first = run(attempt(1, 1, 1)).await.unwrap();
    assert_eq!(run(attempt(1, 2, 2)).await.unwrap(), first);
    assert_eq!(test.models.requests().len(), 1);
    let id = first["extraction_id"].as_str().unwrap().parse().unwrap();
    assert_eq!(test.extraction(&id).await.original, json!({ "total": 120.5 }));
    let recorded = usage(&test).await;
    assert_eq!(recorded.len(), 1);
    assert!(recorded[0].key.starts_with(&attempt(1, 1, 1).ledger_key(1)), "{}", recorded[0].key);

    test.models.answer(r#"{"total": 7}"#);
    assert_ne!(run(attempt(2, 2, 1)).await.unwrap(), first, "another item has another effect");
}

#[tokio::test]
async fn an_item_with_another_input_does_not_return_the_recorded_extraction() {
    let mut test = Fixture::new().await;
    let (_, prompt) = test.invoice_prompt().await;
    let (resources, principal) = (test.context.resources.clone(), test.context.principal.clone());
    let document = test.document().to_string();
    test.models.answer(r#"{"total": 120.5}"#);
    run_job_item(&resources, &principal, &attempt(1, 1, 1), &document, &input(&prompt)).await.unwrap();
    let other = PromptRevId::new(PromptId::derive(&["other"]), 1).to_string();
    let refused = run_job_item(&resources, &principal, &attempt(1, 1, 2), &document, &input(&other)).await;
    assert_eq!(refused.unwrap_err().reason, Reason::RequestIdConflict);
    let missing = run_job_item(&resources, &principal, &attempt(2, 1, 1), &document, &input(&other)).await;
    assert_eq!(missing.unwrap_err().reason, Reason::NotFound);
}
