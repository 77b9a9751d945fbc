//! Filters of both parts of a search.

use folio_index::{DocumentRule, Filter, IndexedDocument, Passage, PassageIndex, Search};
use folio_types::{OrgId, TagId, Timestamp};

use crate::sample::{document, id, org, passage, ready, search, upsert};
use crate::{Failure, Outcome, same};

fn tag(name: &str) -> TagId {
    TagId::derive(&["index conformance", name])
}

fn date(second: i64) -> Outcome<Timestamp> {
    Timestamp::from_second(second).map_err(|error| Failure(error.to_string()))
}

/// Checks that both parts find the passages of exactly these documents.
async fn matches(index: &dyn PassageIndex, org: &OrgId, filter: Filter, expected: &[&str]) -> Outcome {
    let mut expected: Vec<_> = expected.iter().map(|name| id(name)).collect();
    expected.sort();
    for search in [search("word", &[]), search("", &[1.0, 0.0]), search("word", &[1.0, 0.0])] {
        let search = Search { filter: filter.clone(), ..search };
        let answer = index.search(org, &search).await?;
        let mut found: Vec<_> = answer.hits.into_iter().map(|hit| hit.document).collect();
        found.sort();
        same(found, expected.clone(), &format!("{filter:?}"))?;
    }
    Ok(())
}

pub(crate) async fn suite(index: &dyn PassageIndex, nonce: &str) -> Outcome {
    let org = org(nonce, "filters");
    ready(index, &org).await?;
    let in_language =
        |language: Option<&str>| Passage { language: language.map(str::to_owned), ..passage(0, "word", &[1.0, 0.0]) };
    let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
    let documents = vec![
        IndexedDocument {
            tags: vec![tag("x"), tag("y")],
            metadata: [pair("customer", "ACME: 1"), pair("kind", "order")].into(),
            date: Some(date(1_000)?),
            ..document("a", 1, vec![in_language(Some("en"))])
        },
        IndexedDocument {
            tags: vec![tag("x")],
            metadata: [pair("customer", "acme: 1")].into(),
            date: Some(date(2_000)?),
            ..document("b", 1, vec![in_language(Some("de"))])
        },
        document("c", 1, vec![in_language(None)]),
    ];
    upsert(index, &org, documents).await?;
    let none = Filter::default;
    let languages =
        |codes: &[&str]| Filter { languages: codes.iter().map(|code| (*code).to_owned()).collect(), ..none() };
    matches(index, &org, none(), &["a", "b", "c"]).await?;
    matches(index, &org, Filter { documents: Some(vec![id("b"), id("c"), id("unknown")]), ..none() }, &["b", "c"])
        .await?;
    matches(index, &org, Filter { documents: Some(vec![]), ..none() }, &[]).await?;
    matches(index, &org, Filter { tags: vec![tag("x")], ..none() }, &["a", "b"]).await?;
    matches(index, &org, Filter { tags: vec![tag("x"), tag("y")], ..none() }, &["a"]).await?;
    matches(index, &org, Filter { tags: vec![tag("z")], ..none() }, &[]).await?;
    matches(index, &org, Filter { metadata: vec![pair("customer", "ACME: 1")], ..none() }, &["a"]).await?;
    matches(index, &org, Filter { metadata: vec![pair("customer", "ACME")], ..none() }, &[]).await?;
    let both = vec![pair("customer", "ACME: 1"), pair("kind", "order")];
    matches(index, &org, Filter { metadata: both, ..none() }, &["a"]).await?;
    matches(index, &org, Filter { from: Some(date(1_000)?), ..none() }, &["a", "b"]).await?;
    matches(index, &org, Filter { from: Some(date(1_001)?), ..none() }, &["b"]).await?;
    matches(index, &org, Filter { before: Some(date(2_000)?), ..none() }, &["a"]).await?;
    let between = Filter { from: Some(date(1_000)?), before: Some(date(1_000)?), ..none() };
    matches(index, &org, between, &[]).await?;
    matches(index, &org, languages(&["de", "fr"]), &["b"]).await?;
    matches(index, &org, languages(&["de", "en"]), &["a", "b"]).await?;
    let rule = |tags: &[&str], metadata: &[(&str, &str)]| DocumentRule {
        tags: tags.iter().map(|name| tag(name)).collect(),
        metadata: metadata.iter().map(|(key, value)| pair(key, value)).collect(),
    };
    let in_collections = |collections: &[DocumentRule]| Filter { collections: collections.to_vec(), ..none() };
    let (acme, with_y) = (rule(&[], &[("customer", "acme: 1")]), rule(&["x", "y"], &[]));
    matches(index, &org, in_collections(std::slice::from_ref(&acme)), &["b"]).await?;
    matches(index, &org, in_collections(&[acme.clone(), with_y.clone()]), &["a", "b"]).await?;
    matches(index, &org, in_collections(&[rule(&["x"], &[("kind", "order")])]), &["a"]).await?;
    matches(index, &org, in_collections(&[rule(&["z"], &[]), acme.clone()]), &["b"]).await?;
    matches(index, &org, in_collections(&[DocumentRule::default(), acme.clone()]), &["a", "b", "c"]).await?;
    matches(index, &org, Filter { languages: vec!["en".to_owned()], ..in_collections(&[acme, with_y]) }, &["a"])
        .await?;
    let all = Filter { tags: vec![tag("x")], from: Some(date(1_500)?), ..languages(&["de"]) };
    matches(index, &org, all, &["b"]).await
}
