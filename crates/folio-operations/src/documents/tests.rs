//! Tests of document filters.

use super::*;

#[test]
fn a_document_filter_is_parsed_as_documented() {
    let tag = TagId::derive(&["t"]);
    let filter = document_filter(&format!("name:\"inv oice\" AND tag:{tag} metadata.year:2024")).unwrap();
    assert_eq!(filter.name_search.as_deref(), Some("inv oice"));
    assert_eq!(filter.all_tags, [tag]);
    assert_eq!(filter.metadata, BTreeMap::from([("year".to_owned(), "2024".to_owned())]));
    let parent = DocumentId::derive(&["p"]);
    assert_eq!(document_filter(&format!("parent={parent}")).unwrap().parent, Some(parent));
    let exact = document_filter(r#"name="A b" metadata.k="" metadata.k:x metadata.year=2024"#).unwrap();
    assert_eq!((exact.name.as_deref(), exact.name_search), (Some("A b"), None));
    let equals = [("k", ""), ("year", "2024")].map(|(key, value)| (key.to_owned(), value.to_owned()));
    assert_eq!((exact.metadata_equals, exact.metadata["k"].as_str()), (equals.into(), "x"));
    let bad = "color:red; name:a name:b; tag:nonsense; metadata.:x; metadata.k:a metadata.k:b; name:\"\"; \
               name=a name=b; metadata.k=a metadata.k=b; parent=x; state=READY; state=ready state=failed";
    for bad in bad.split("; ") {
        assert!(document_conditions(bad).is_err(), "{bad}");
    }
}

#[test]
fn a_state_selects_documents_of_a_list_only() {
    for state in STATES {
        let (filter, found) = document_conditions(&format!("state={state} name:a")).unwrap();
        assert_eq!((filter.name_search.as_deref(), found), (Some("a"), Some(state)));
        assert_eq!(document_filter(&format!("state={state}")).unwrap_err().violations[0].field, "filter");
    }
}
