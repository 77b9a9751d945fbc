//! Tests of embeddings and reranking: batches, metering, and the cache of vectors.

use std::sync::atomic::Ordering;

use folio_llm::{BATCH_TEXTS_MAX, ModelError, count_tokens};
use folio_resources::{Document, DocumentChange};
use folio_storage::VectorKey;
use folio_tools::retrieval::{Embedded, EmbeddingCall, EmbeddingPurpose, RerankCall, embed, rerank};
use folio_types::op::{Expected, Write};
use folio_types::{OrgId, Reason, Result};

use crate::fixture::{Fixture, usage};

fn call(test: &Fixture, key: &str, purpose: EmbeddingPurpose) -> EmbeddingCall {
    let principal = test.context.principal.clone();
    EmbeddingCall { org: principal.org, user: principal.user, key: key.to_owned(), model: None, purpose }
}

fn passages(test: &Fixture, key: &str) -> EmbeddingCall {
    call(test, key, EmbeddingPurpose::Passages(test.document()))
}

async fn embedded(test: &Fixture, call: &EmbeddingCall, texts: &[&str]) -> Result<Embedded> {
    let texts: Vec<String> = texts.iter().map(|text| (*text).to_owned()).collect();
    embed(&test.context.resources, call, &texts).await
}

fn firsts(embedded: &Embedded) -> Vec<f32> {
    embedded.vectors.iter().map(|vector| vector[0]).collect()
}

#[tokio::test]
async fn each_distinct_text_is_embedded_once_and_charged_as_an_embedding() {
    let test = Fixture::new().await;
    let first = embedded(&test, &passages(&test, "job.0"), &["a", "bb", "a"]).await.unwrap();
    assert_eq!((firsts(&first), first.model.as_str()), (vec![1.0, 2.0, 1.0], "vectors"));
    assert_eq!((first.usage.input_tokens, first.usage.model_calls, first.cut.len()), (20, 1, 0));
    assert_eq!(test.models.take_embedded().iter().map(Vec::len).collect::<Vec<_>>(), [2]);
    let records = usage(&test).await;
    let [record] = &records[..] else { panic!("one call: {records:?}") };
    assert_eq!((record.operation.as_str(), record.model.as_str(), record.completed), ("embedding", "vectors", true));
    assert_eq!((record.usage.input_tokens, record.document.clone()), (20, Some(test.document())));
    assert!(record.key.starts_with("job.0."), "{}", record.key);

    let query = call(&test, "query", EmbeddingPurpose::Query);
    let second = embedded(&test, &query, &["bb", "ccc"]).await.unwrap();
    assert_eq!((firsts(&second), second.usage.input_tokens), (vec![2.0, 3.0], 10));
    assert_eq!(second.space, first.space);
    assert_eq!(test.models.take_embedded(), [["ccc"]], "the other text is cached");
    let third = embedded(&test, &query, &["ccc"]).await.unwrap();
    assert!(third.usage.is_empty() && test.models.take_embedded().is_empty());
    assert_eq!(usage(&test).await.len(), 2);
}

#[tokio::test]
async fn texts_have_the_prefix_of_their_purpose_and_other_prefixes_use_no_cached_vectors() {
    let test = Fixture::new().await;
    let query = call(&test, "query", EmbeddingPurpose::Query);
    let before = embedded(&test, &passages(&test, "a"), &["one"]).await.unwrap();
    test.models.has_prefixes.store(true, Ordering::Relaxed);
    test.models.take_embedded();
    let after = embedded(&test, &passages(&test, "b"), &["one", &"many words ".repeat(100)]).await.unwrap();
    let sent = test.models.take_embedded().concat();
    assert!(
        sent.contains(&"passage: one".to_owned()) && sent.iter().all(|text| text.starts_with("passage: ")),
        "{sent:?}"
    );
    assert!(sent.iter().all(|text| count_tokens(text) <= 64) && after.cut == [1], "{sent:?}");
    assert_ne!(before.space, after.space);
    let found = embedded(&test, &query, &["one"]).await.unwrap();
    assert_eq!((found.space, test.models.take_embedded()), (after.space, vec![vec!["query: one".to_owned()]]));
    assert!(embedded(&test, &query, &["one"]).await.unwrap().usage.is_empty(), "the text with its prefix is cached");
}

#[tokio::test]
async fn invariant_6_no_organization_reads_cached_vectors_of_another() {
    let test = Fixture::new().await;
    embedded(&test, &passages(&test, "a"), &["secret"]).await.unwrap();
    let other = EmbeddingCall { org: OrgId::derive(&["other"]), ..call(&test, "b", EmbeddingPurpose::Query) };
    embedded(&test, &other, &["secret"]).await.unwrap();
    assert_eq!(test.models.take_embedded(), [["secret"], ["secret"]]);
}

#[tokio::test]
async fn a_failed_batch_does_not_lose_the_vectors_of_the_others() {
    let test = Fixture::new().await;
    let texts: Vec<String> = (0..=BATCH_TEXTS_MAX).map(|n| format!("text {n}")).collect();
    let attempt = async |key: &str| embed(&test.context.resources, &passages(&test, key), &texts).await;
    test.models.fail_embeddings([None, Some(ModelError::Failed("down".to_owned()))]);
    assert_eq!(attempt("attempt.1").await.unwrap_err().reason, Reason::ModelFailed);
    assert_eq!(test.models.take_embedded().iter().map(Vec::len).collect::<Vec<_>>(), [BATCH_TEXTS_MAX, 1]);
    assert_eq!(attempt("attempt.2").await.unwrap().vectors.len(), texts.len());
    assert_eq!(test.models.take_embedded().iter().map(Vec::len).collect::<Vec<_>>(), [1]);
    let completed: Vec<bool> = usage(&test).await.iter().map(|record| record.completed).collect();
    assert_eq!(completed.iter().filter(|completed| **completed).count(), 2, "{completed:?}");
    assert_eq!(completed.len(), 3, "the failed call was sent, so that it is charged");
}

#[tokio::test]
async fn without_free_space_no_call_is_made_for_passages_and_searches_continue() {
    let mut test = Fixture::new().await;
    test.fill_disk();
    let refused = embedded(&test, &passages(&test, "a"), &["a"]).await.unwrap_err();
    assert!(refused.reason == Reason::Overloaded && refused.is_retriable(), "{refused}");
    assert!(test.models.take_embedded().is_empty() && usage(&test).await.is_empty());
    let query = call(&test, "query", EmbeddingPurpose::Query);
    assert_eq!(firsts(&embedded(&test, &query, &["bb"]).await.unwrap()), [2.0]);
    assert_eq!(test.models.take_embedded(), [["bb"]]);
}

#[tokio::test]
async fn a_call_that_the_credit_does_not_cover_is_not_made() {
    let test = Fixture::new().await;
    test.models.unaffordable_models.lock().unwrap().extend(["vectors", "rates"]);
    let refused = embedded(&test, &passages(&test, "a"), &["a"]).await.unwrap_err();
    assert_eq!(refused.reason, Reason::CreditExhausted);
    let refused = rerank(&test.context.resources, rerank_call(&test), "q", &["a".to_owned()], 1).await.unwrap_err();
    assert_eq!(refused.reason, Reason::CreditExhausted);
    assert!(test.models.take_embedded().is_empty() && usage(&test).await.is_empty());
}

#[tokio::test]
async fn cached_vectors_of_another_length_are_replaced() {
    let test = Fixture::new().await;
    embedded(&test, &passages(&test, "a"), &["one", "two"]).await.unwrap();
    test.models.more_dimensions.store(1, Ordering::Relaxed);
    test.models.take_embedded();
    let found = embedded(&test, &passages(&test, "b"), &["one", "two", "three"]).await.unwrap();
    assert!(found.vectors.iter().all(|vector| vector.len() == 3), "{found:?}");
    assert_eq!(test.models.take_embedded().iter().map(Vec::len).collect::<Vec<_>>(), [1, 2]);
    embedded(&test, &passages(&test, "c"), &["one", "two", "three"]).await.unwrap();
    assert!(test.models.take_embedded().is_empty());
}

#[tokio::test]
async fn cached_vectors_are_removed_with_their_document() {
    let test = Fixture::new().await;
    let (resources, document) = (&test.context.resources, test.document());
    let other = test.add_document("other.txt", &["x"], &[]).await;
    embedded(&test, &passages(&test, "a"), &["one"]).await.unwrap();
    embedded(&test, &call(&test, "b", EmbeddingPurpose::Passages(other)), &["two"]).await.unwrap();
    let (org, at) = (test.context.principal.org.clone(), resources.environment.now());
    let documents = resources.stores.of::<Document>();
    let version = documents.get(&org, &document).await.unwrap().unwrap().version;
    let expected = Expected::Version(version);
    let delete = Write::by_platform(org.clone(), "delete".parse().unwrap(), at, expected, DocumentChange::Delete);
    documents.decide(&document, delete).await.unwrap();
    resources.stores.vector_cache().remove_document(&org, &document).await.unwrap();
    test.models.take_embedded();
    let query = call(&test, "c", EmbeddingPurpose::Query);
    embedded(&test, &query, &["one", "two"]).await.unwrap();
    assert_eq!(test.models.take_embedded(), [["one"]]);
    // A job that writes after the deletion leaves nothing.
    embedded(&test, &passages(&test, "d"), &["late"]).await.unwrap();
    embedded(&test, &query, &["late"]).await.unwrap();
    assert_eq!(test.models.take_embedded(), [["late"], ["late"]]);
}

#[tokio::test]
async fn a_vector_is_removed_although_a_clean_up_has_removed_the_list_of_its_slots() {
    let test = Fixture::new().await;
    let (stores, org, document) = (&test.context.resources.stores, &test.context.principal.org, test.document());
    let (cache, key) = (stores.vector_cache(), VectorKey::new("space", "late"));
    let written = [(key.clone(), vec![1.0])];
    cache.put(org, Some(&document), &written).await.unwrap();
    stores.rows.remove_group(org, &format!("cached_vector_slot/{document}")).await.unwrap();
    cache.remove_document(org, &document).await.unwrap();
    assert_eq!(cache.get(org, std::slice::from_ref(&key)).await.unwrap().len(), 1, "the clean-up does not find it");
    cache.remove_written(org, &document, &written).await.unwrap();
    assert!(cache.get(org, &[key]).await.unwrap().is_empty());
}

#[tokio::test]
async fn a_long_text_is_cut_to_the_input_of_the_model() {
    let test = Fixture::new().await;
    let long = "many words ".repeat(100);
    let found = embedded(&test, &passages(&test, "a"), &["short", &long]).await.unwrap();
    assert_eq!(found.cut, [1]);
    let sent = test.models.take_embedded();
    assert!(sent[0].iter().all(|text| text.len() < 300 && (text == "short" || long.starts_with(text))), "{sent:?}");
    let unknown = EmbeddingCall { model: Some("base".to_owned()), ..passages(&test, "b") };
    assert_eq!(embedded(&test, &unknown, &["a"]).await.unwrap_err().reason, Reason::ModelNotAvailable);
    assert_eq!(embedded(&test, &passages(&test, "c"), &[" "]).await.unwrap_err().violations[0].field, "texts[0]");
}

fn rerank_call(test: &Fixture) -> RerankCall {
    let principal = test.context.principal.clone();
    RerankCall { org: principal.org, user: principal.user, key: "search".to_owned(), model: None }
}

#[tokio::test]
async fn texts_are_reranked_and_charged_as_such() {
    let test = Fixture::new().await;
    let documents = ["three".to_owned(), "x".to_owned(), "two".to_owned()];
    let found = rerank(&test.context.resources, rerank_call(&test), "q", &documents, 2).await.unwrap();
    assert_eq!(found.results.iter().map(|result| result.index).collect::<Vec<_>>(), [1, 2]);
    assert_eq!((found.model.as_str(), found.usage.input_tokens), ("rates", 7));
    let records = usage(&test).await;
    let [record] = &records[..] else { panic!("one call: {records:?}") };
    assert_eq!((record.operation.as_str(), record.key.as_str()), ("rerank", "search"));
    let nothing = rerank(&test.context.resources, rerank_call(&test), "q", &[], 2).await.unwrap();
    assert!(nothing.results.is_empty() && nothing.usage.is_empty() && usage(&test).await.len() == 1);
    let refused = rerank(&test.context.resources, rerank_call(&test), " ", &documents, 2).await.unwrap_err();
    assert_eq!(refused.violations[0].field, "query");
}
