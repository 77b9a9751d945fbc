//! Tests of extraction filters and estimates.

use folio_types::{PromptId, PromptRevId, SchemaId, SchemaRevId, TagId, limits};

use super::estimate::{PLANNED_MAX, extrapolate, sample};
use super::*;
use crate::document_selection::Selected;

#[test]
fn an_estimate_extrapolates_the_price_of_documents_spread_over_the_selection() {
    let selected = |count: u32| -> Vec<Selected> {
        (0..count).map(|pages| Selected { id: DocumentId::derive(&[&pages.to_string()]), pages }).collect()
    };
    let pages = |count| sample(&selected(count)).iter().map(|document| document.pages).collect::<Vec<_>>();
    assert_eq!((pages(0), pages(3)), (vec![], vec![0, 1, 2]));
    assert_eq!((pages(16).len(), pages(17)), (16, vec![0, 2, 4, 6, 8, 10, 12, 14, 16]));
    assert_eq!(pages(100_000).len(), PLANNED_MAX);
    assert_eq!((extrapolate(&[], 7), extrapolate(&[(0, 5)], 7)), (0, 0));
    assert_eq!((extrapolate(&[(1, 5), (2, 5)], 3), extrapolate(&[(3, 10)], 4)), (10, 14));
    assert_eq!(extrapolate(&[(1, u64::MAX)], u64::MAX), u64::MAX);
}

#[test]
fn an_extraction_filter_is_parsed_as_documented() {
    let (prompt, schema, tag) = (PromptId::derive(&["p"]), SchemaId::derive(&["s"]), TagId::derive(&["t"]));
    let text = format!("prompt:{prompt} AND schema={schema}.2 tag:{tag} tag:{tag} verified:true");
    let expected = ExtractionFilter {
        prompt: Some(prompt.clone()),
        schema_revision: Some(SchemaRevId::new(schema.clone(), 2)),
        document_tags: vec![tag.clone(), tag.clone()],
        verified: Some(true),
        ..ExtractionFilter::default()
    };
    assert_eq!(extraction_filter(&text).unwrap(), expected);
    let text = format!("prompt={prompt}.3 schema:{schema} verified=false");
    let expected = ExtractionFilter {
        prompt_revision: Some(PromptRevId::new(prompt, 3)),
        schema: Some(schema),
        verified: Some(false),
        ..ExtractionFilter::default()
    };
    assert_eq!(extraction_filter(&text).unwrap(), expected);
    assert_eq!(extraction_filter(" ").unwrap(), ExtractionFilter::default());
    for bad in ["name:a", "prompt:x", "schema:x", "tag:x", "verified:yes", "verified:true verified:false"] {
        assert_eq!(extraction_filter(bad).unwrap_err().violations[0].field, "filter", "{bad}");
    }
    let tags = format!("tag:{tag} ");
    assert!(extraction_filter(&tags.repeat(limits::TAGS_MAX)).is_ok());
    assert!(extraction_filter(&tags.repeat(limits::TAGS_MAX + 1)).is_err());
}
