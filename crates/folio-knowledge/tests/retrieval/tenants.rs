//! Tests of invariant 6: no search path reaches a passage of another organization.

use folio_index::{IndexedDocument, Passage, PassageIndex as _};
use folio_knowledge::{Question, ask};
use folio_tools::retrieval::{PassageFilter, PassageQuery};
use folio_types::TagId;

use crate::fixture::{Fixture, texts};

const SECRET: &str = "the supplier is payable at once";

#[tokio::test]
async fn invariant_6_no_search_path_finds_passages_of_another_organization() {
    let test = Fixture::new().await;
    let (ours, stranger) = (test.principal.org.clone(), test.stranger().await);
    let document = test.add(&ours, "same.pdf", &[SECRET]).await;
    for org in [&ours, &stranger.org] {
        test.serve_vectors(org).await;
    }
    let filters = [
        PassageFilter::default(),
        PassageFilter { document_ids: vec![document.clone()], ..PassageFilter::default() },
        PassageFilter { tag_ids: vec![TagId::derive(&["tag"])], ..PassageFilter::default() },
        PassageFilter { metadata: [("customer".to_owned(), "Acme".to_owned())].into(), ..PassageFilter::default() },
        PassageFilter { languages: vec!["en".to_owned()], ..PassageFilter::default() },
    ];
    // Words, meaning, and both, with and without reranking.
    for text in ["supplier", "remittance", SECRET, "*"] {
        for filter in &filters {
            for is_reranked in [false, true] {
                let query = PassageQuery { filter: filter.clone(), is_reranked, ..PassageQuery::new(text) };
                let found = test.search_as(&stranger, &query).await.unwrap();
                assert!(found.passages.is_empty() && found.stale_passages == 0, "{query:?}: {found:?}");
            }
        }
    }
    assert_eq!(texts(&test.search(&PassageQuery::new("supplier")).await), [SECRET]);
}

#[tokio::test]
async fn invariant_6_no_answer_is_from_passages_of_another_organization() {
    let test = Fixture::new().await;
    let (ours, stranger) = (test.principal.org.clone(), test.stranger().await);
    let document = test.add(&ours, "same.pdf", &[SECRET]).await;
    let filter = PassageFilter { document_ids: vec![document], ..PassageFilter::default() };
    for filter in [PassageFilter::default(), filter] {
        let question = Question {
            text: "Which supplier is payable?".to_owned(),
            filter,
            passages: 8,
            is_reranked: true,
            model: None,
            credit_budget: None,
        };
        let answer = ask(&test.retriever, &test.resources, &stranger, question).await.unwrap();
        assert_eq!((answer.text.as_str(), answer.passages, answer.model), ("", 0, None));
    }
    assert!(test.models.requests().is_empty(), "no model received a passage");
}

#[tokio::test]
async fn invariant_6_an_index_with_a_foreign_hit_leaks_no_text() {
    let test = Fixture::new().await;
    let (ours, stranger) = (test.principal.org.clone(), test.stranger().await);
    let document = test.add(&ours, "same.pdf", &[SECRET]).await;
    // A defect of an index: it contains a document of another organization.
    let indexed = IndexedDocument {
        document,
        generation: 1,
        tags: Vec::new(),
        metadata: std::collections::BTreeMap::new(),
        date: None,
        passages: vec![Passage { text: SECRET.to_owned(), ..Passage::default() }],
    };
    test.index.upsert(&stranger.org, vec![indexed]).await.unwrap();
    let found = test.search_as(&stranger, &PassageQuery::new("supplier")).await.unwrap();
    assert!(found.passages.is_empty() && found.stale_passages == 1, "{found:?}");
}
