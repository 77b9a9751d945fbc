//! Tests of searches.

use std::sync::atomic::Ordering;

use folio_index::PassageIndex as _;
use folio_resources::DocumentPatch;
use folio_tools::retrieval::{PassageFilter, PassageQuery, SearchGap};

use crate::fixture::{Fixture, texts};

const LINES: [&str; 3] = ["Invoices are payable in 30 days", "The weather was rainy", "Contact the supplier by mail"];

#[tokio::test]
async fn a_search_without_an_embedding_model_is_lexical_and_says_so() {
    let test = Fixture::new().await;
    let org = test.principal.org.clone();
    let document = test.add(&org, "terms.pdf", &LINES).await;
    test.models.has_no_embedding_model.store(true, Ordering::Relaxed);
    let found = test.search(&PassageQuery::new("payable invoice")).await;
    assert_eq!(texts(&found), [LINES[0]]);
    let passage = &found.passages[0];
    assert_eq!((&passage.document, passage.document_name.as_str(), passage.number), (&document, "terms.pdf", 0));
    assert_eq!((passage.page, passage.section_titles.as_slice()), (1, ["Terms".to_owned()].as_slice()));
    assert_eq!((passage.lexical.unwrap().rank, passage.dense, passage.relevance), (1, None, None));
    // "Invoices" is another form of the word.
    let highlights: Vec<_> = passage.highlights.iter().map(|word| (word.start, word.end)).collect();
    assert_eq!(highlights, [(0, 8), (13, 20)]);
    let area = passage.highlights[1].area.unwrap();
    assert!(area.page == 1 && (area.top - 0.02).abs() < 1e-3 && (area.bottom - 0.03).abs() < 1e-3, "{area:?}");
    assert!((passage.areas[0].bottom - 0.06).abs() < 1e-3, "the six words of the passage: {:?}", passage.areas);
    assert!(found.lexical.is_used && found.lexical.gaps.is_empty());
    assert_eq!((found.dense.is_used, found.dense.gaps.as_slice()), (false, [SearchGap::NoEmbeddingModel].as_slice()));
    assert!(found.rerank.is_none() && found.usage.is_empty() && found.stale_passages == 0);
    assert!(test.operations(&org).await.is_empty());

    test.models.has_no_embedding_model.store(false, Ordering::Relaxed);
    let found = test.search(&PassageQuery::new("payable")).await;
    assert_eq!(found.dense.gaps, [SearchGap::NotEmbedded], "no model is called before passages have vectors");
    assert!(test.operations(&org).await.is_empty());
}

#[tokio::test]
async fn a_hybrid_search_finds_passages_by_their_meaning_and_is_metered_once() {
    let test = Fixture::new().await;
    let org = test.principal.org.clone();
    test.add(&org, "terms.pdf", &LINES).await;
    test.serve_vectors(&org).await;
    let query = PassageQuery { limit: 1, ..PassageQuery::new("remittance") };
    let found = test.search(&query).await;
    assert_eq!(texts(&found), [LINES[0]], "no word of the query is in the passage");
    assert_eq!((found.passages[0].lexical, found.passages[0].dense.unwrap().rank), (None, 1));
    assert!(found.passages[0].highlights.is_empty() && !found.passages[0].areas.is_empty());
    assert!(found.dense.is_used && found.dense.gaps.is_empty(), "{:?}", found.dense);
    assert_eq!(found.usage.model_calls, 1);
    assert!(test.search(&query).await.usage.is_empty(), "the vector of the query is cached");
    assert_eq!(test.operations(&org).await, ["embedding"]);
}

#[tokio::test]
async fn a_failed_embedding_leaves_a_lexical_search() {
    let test = Fixture::new().await;
    let org = test.principal.org.clone();
    test.add(&org, "terms.pdf", &LINES).await;
    test.serve_vectors(&org).await;
    test.models.fails_embeddings.store(true, Ordering::Relaxed);
    let found = test.search(&PassageQuery::new("supplier")).await;
    assert_eq!(texts(&found), [LINES[2]]);
    let [SearchGap::EmbeddingFailed(problem)] = &found.dense.gaps[..] else { panic!("{:?}", found.dense) };
    assert!(problem.contains("down"), "{problem}");
    assert!(!found.dense.is_used && found.lexical.is_used);
}

#[tokio::test]
async fn passages_are_reranked_on_request() {
    let test = Fixture::new().await;
    let org = test.principal.org.clone();
    let lines = ["supplier", "the supplier of the goods", "a supplier here"];
    test.add(&org, "a.pdf", &lines).await;
    let query = PassageQuery { is_reranked: true, limit: 2, ..PassageQuery::new("supplier") };
    let found = test.search(&query).await;
    assert_eq!(texts(&found), [lines[1], lines[2]]);
    assert_eq!((found.passages[0].score, found.passages[0].relevance), (25.0, Some(25.0)));
    assert!(found.rerank.unwrap().is_used);
    assert_eq!(test.operations(&org).await, ["rerank"]);

    test.models.fails_reranking.store(true, Ordering::Relaxed);
    let found = test.search(&query).await;
    let part = found.rerank.clone().unwrap();
    assert!(!part.is_used && matches!(&part.gaps[..], [SearchGap::RerankFailed(_)]), "{part:?}");
    assert_eq!((found.passages.len(), found.passages[0].relevance), (2, None));
    test.models.has_no_rerank_model.store(true, Ordering::Relaxed);
    let found = test.search(&query).await;
    assert_eq!(found.rerank.unwrap().gaps, [SearchGap::NoRerankModel]);
}

#[tokio::test]
async fn stale_hits_are_left_out() {
    let test = Fixture::new().await;
    let org = test.principal.org.clone();
    let kept = test.add(&org, "kept.pdf", &["the supplier is known"]).await;
    let deleted = test.add(&org, "deleted.pdf", &["the supplier is deleted"]).await;
    let replaced = test.add(&org, "replaced.pdf", &["the supplier is replaced"]).await;
    let reread = test.add(&org, "reread.pdf", &["the supplier is read again"]).await;
    let removed = test.add(&org, "removed.pdf", &["the supplier is removed"]).await;
    test.delete(&org, &deleted).await;
    test.publish(&org, &replaced, 2, &["another text"]).await;
    test.read_text(&org, &reread, &["a new text"]).await;
    test.resources.stores.passages().remove(&org, &removed).await.unwrap();
    let found = test.search(&PassageQuery::new("supplier")).await;
    assert_eq!(found.passages.iter().map(|passage| &passage.document).collect::<Vec<_>>(), [&kept]);
    assert_eq!(found.stale_passages, 4);

    // The index receives the current generations.
    test.index(&org, &replaced, 2, &["the supplier is replaced"]).await;
    let found = test.search(&PassageQuery::new("supplier")).await;
    assert_eq!(texts(&found).len(), 2);
    assert!(texts(&found).contains(&"another text"), "the text is that of the stores: {:?}", texts(&found));
}

#[tokio::test]
async fn stale_hits_are_replaced_by_a_second_search() {
    let test = Fixture::new().await;
    let org = test.principal.org.clone();
    // The stale passages rank first, because they are shorter.
    for number in 0..12 {
        let stale = test.add(&org, &format!("stale {number}"), &["supplier"]).await;
        test.delete(&org, &stale).await;
    }
    for number in 0..5 {
        test.add(&org, &format!("live {number}"), &["the supplier of many goods and of services"]).await;
    }
    let found = test.search(&PassageQuery { limit: 5, ..PassageQuery::new("supplier") }).await;
    assert_eq!((found.passages.len(), found.stale_passages), (5, 12));
    let ranks: Vec<u32> = found.passages.iter().map(|passage| passage.lexical.unwrap().rank).collect();
    assert!(ranks.is_sorted() && ranks[0] > 12, "{ranks:?}");
}

#[tokio::test]
async fn filters_apply_to_the_current_documents() {
    let test = Fixture::new().await;
    let org = test.principal.org.clone();
    let (one, two) =
        (test.add(&org, "one.pdf", &["supplier one"]).await, test.add(&org, "two.pdf", &["supplier two"]).await);
    let query = |filter| PassageQuery { filter, ..PassageQuery::new("supplier") };
    let of_two = PassageFilter { document_ids: vec![two.clone()], ..PassageFilter::default() };
    assert_eq!(texts(&test.search(&query(of_two)).await), ["supplier two"]);
    let of_acme =
        || PassageFilter { metadata: [("customer".to_owned(), "Acme".to_owned())].into(), ..PassageFilter::default() };
    assert_eq!(test.search(&query(of_acme())).await.passages.len(), 2);
    // The index contains the metadata of the ingestion until the document is indexed again.
    let metadata = Some([("customer".to_owned(), "Other".to_owned())].into());
    test.patch(&org, &one, DocumentPatch { metadata, ..DocumentPatch::default() }).await;
    let found = test.search(&query(of_acme())).await;
    assert_eq!((texts(&found), found.stale_passages), (vec!["supplier two"], 1));
    let in_german = PassageFilter { languages: vec!["de".to_owned()], ..PassageFilter::default() };
    assert!(test.search(&query(in_german)).await.passages.is_empty());
}

#[tokio::test]
async fn an_index_that_is_rebuilt_is_named() {
    let test = Fixture::new().await;
    let org = test.principal.org.clone();
    test.add(&org, "terms.pdf", &LINES).await;
    test.index.begin_rebuild(&org, 2).await.unwrap();
    let found = test.search(&PassageQuery::new("supplier")).await;
    assert!(found.passages.is_empty());
    assert!(found.lexical.gaps.contains(&SearchGap::IndexRebuilding), "{:?}", found.lexical);
    test.index.delete_organization(&org).await.unwrap();
    let found = test.search(&PassageQuery::new("supplier")).await;
    assert!(found.lexical.gaps.contains(&SearchGap::IndexMissing), "{:?}", found.lexical);
}

#[tokio::test]
async fn hostile_queries_have_no_effect() {
    let test = Fixture::new().await;
    let org = test.principal.org.clone();
    test.add(&org, "terms.pdf", &LINES).await;
    for query in ["\"", "supplier\" OR text:*", "[* TO *]", "~^:{}()\\", "*", "$(rm -rf /)", "' OR 1=1 --"] {
        let found = test.search(&PassageQuery::new(query)).await;
        assert!(found.passages.len() <= LINES.len(), "{query}");
    }
    let found = test.search(&PassageQuery::new("*?\"~^()")).await;
    assert!(found.passages.is_empty() && found.lexical.gaps.contains(&SearchGap::NoWords), "{:?}", found.lexical);
    let refused = test.search_as(&test.principal, &PassageQuery::new(" ")).await.unwrap_err();
    assert_eq!(refused.violations[0].field, "query");
}
