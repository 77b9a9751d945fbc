use folio_types::op::Expected;

use super::*;
use crate::golden::{assert_golden, at, document, org, user};

fn new(term: &str, provenance: Provenance) -> NewDictionaryEntry {
    NewDictionaryEntry {
        term: term.into(),
        expansion: "Malaysia".into(),
        disambiguation: Some("The country, in texts of sales.".into()),
        tags: vec!["APAC".into()],
        sources: vec![document().id],
        provenance,
    }
}

fn entry() -> DictionaryEntry {
    let id = DictionaryEntryId::derive(&["golden"]);
    let inferred = Provenance::Inferred { confidence: 0.75 };
    let entry = DictionaryEntry::created(&id, &write(DictionaryEntryChange::Delete), &new("MY", inferred));
    DictionaryEntry { version: 2, ..entry }
}

fn write(change: DictionaryEntryChange) -> Write<DictionaryEntryChange> {
    let by = user();
    Write { by, ..Write::by_platform(org(), "change".parse().unwrap(), at(), Expected::Absent, change) }
}

fn after(change: DictionaryEntryChange, before: &DictionaryEntry) -> Result<DictionaryEntry> {
    DictionaryEntry::apply(&before.id, &write(change), Some(before.clone())).map(|plan| plan.after.unwrap())
}

#[test]
fn the_stored_format_is_that_of_the_golden_file() {
    assert_golden("live", entry());
    let bare = NewDictionaryEntry {
        disambiguation: None,
        tags: Vec::new(),
        sources: Vec::new(),
        ..new("VAT", Provenance::Person)
    };
    let id = DictionaryEntryId::derive(&["golden bare"]);
    assert_golden("bare", DictionaryEntry::created(&id, &write(DictionaryEntryChange::Delete), &bare));
}

#[test]
fn spellings_of_a_term_have_one_key() {
    for (term, key) in [
        ("MY", "my"),
        ("ＭＹ", "my"),
        ("  Net \u{a0} Working\tCapital ", "net working capital"),
        ("ΣΟΦΟΣ", "σοφοσ"),
        ("σοφος", "σοφοσ"),
        ("Cafe\u{301}", "café"),
        ("ﬁx", "fix"),
        ("R&D", "r&d"),
        ("№ 5", "no 5"),
        ("İ", "i\u{307}"),
    ] {
        assert_eq!(term_key(term), key, "{term:?}");
        assert_eq!(term_key(key), key, "the key of a key is the key");
    }
    assert_ne!(term_key("Straße"), term_key("STRASSE"), "names have the same rule");
}

#[test]
fn the_content_is_bounded_and_errors_name_the_field() {
    let good = new("MY", Provenance::Person);
    assert_eq!(good.clone().checked("").unwrap(), good);
    let long = "ä".repeat(DISAMBIGUATION_CHARS + 1);
    let tags = |tags: Vec<String>| NewDictionaryEntry { tags, ..good.clone() };
    let many: Vec<String> = (0..=ENTRY_TAGS_MAX).map(|n| n.to_string()).collect();
    let sources: Vec<_> = (0..=ENTRY_SOURCES_MAX).map(|n| DocumentId::derive(&[&n.to_string()])).collect();
    for (bad, field) in [
        (NewDictionaryEntry { term: " MY".into(), ..good.clone() }, "term"),
        (NewDictionaryEntry { term: "x".repeat(TERM_CHARS + 1), ..good.clone() }, "term"),
        // Its key has 18 characters for each of these.
        (NewDictionaryEntry { term: "\u{fdfa}".repeat(10), ..good.clone() }, "term"),
        (NewDictionaryEntry { expansion: String::new(), ..good.clone() }, "expansion"),
        (NewDictionaryEntry { expansion: "a\nb".into(), ..good.clone() }, "expansion"),
        (NewDictionaryEntry { expansion: "x".repeat(EXPANSION_CHARS + 1), ..good.clone() }, "expansion"),
        (NewDictionaryEntry { disambiguation: Some(long), ..good.clone() }, "disambiguation"),
        (tags(vec!["a".into(), "b;c".into()]), "tags[1]"),
        (tags(vec![String::new()]), "tags[0]"),
        (tags(vec!["x".repeat(ENTRY_TAG_CHARS + 1)]), "tags[0]"),
        (tags(many), "tags"),
        (NewDictionaryEntry { sources, ..good.clone() }, "source_document_ids"),
    ] {
        let error = bad.checked("dictionary_entry.").unwrap_err();
        assert_eq!(error.violations[0].field, format!("dictionary_entry.{field}"));
    }
    let repeated = tags(vec!["APAC".into(), "Sales".into(), "apac".into()]).checked("").unwrap();
    assert_eq!(repeated.tags, ["APAC", "Sales"]);
    let blank = NewDictionaryEntry { disambiguation: Some(" \n".into()), ..good };
    assert_eq!(blank.checked("").unwrap().disambiguation, None);
}

#[test]
fn a_patch_has_the_bounds_of_an_entry() {
    let empty = DictionaryEntryPatch::default();
    assert_eq!(empty.clone().checked("").unwrap(), empty);
    for (bad, field) in [
        (DictionaryEntryPatch { term: Some(" ".into()), ..empty.clone() }, "term"),
        (DictionaryEntryPatch { expansion: Some(String::new()), ..empty.clone() }, "expansion"),
        (DictionaryEntryPatch { disambiguation: Some(Some("\0".into())), ..empty.clone() }, "disambiguation"),
        (DictionaryEntryPatch { tags: Some(vec![" a".into()]), ..empty }, "tags[0]"),
    ] {
        assert_eq!(bad.checked("").unwrap_err().violations[0].field, field);
    }
}

#[test]
fn only_an_inferred_meaning_has_a_confidence() {
    let parse = |name, confidence| Provenance::parse("provenance", name, confidence);
    for provenance in [Provenance::Person, Provenance::Agent, Provenance::Inferred { confidence: 1.0 }] {
        assert_eq!(parse(provenance.name(), provenance.confidence()).unwrap(), provenance);
    }
    for (name, confidence) in [
        ("person", Some(0.5)),
        ("agent", Some(0.0)),
        ("inferred", None),
        ("inferred", Some(1.1)),
        ("inferred", Some(-0.1)),
        ("inferred", Some(f64::NAN)),
        ("Person", None),
        ("", None),
    ] {
        assert_eq!(parse(name, confidence).unwrap_err().violations[0].field, "provenance", "{name} {confidence:?}");
    }
}

#[test]
fn a_patch_of_the_meaning_confirms_the_entry_unless_it_states_a_provenance() {
    let update = |patch| after(DictionaryEntryChange::Update(Box::new(patch)), &entry()).unwrap();
    let empty = DictionaryEntryPatch::default();
    assert_eq!(update(empty.clone()), entry(), "a change without effect");
    let expansion = Some("Malaysia, a country".to_owned());
    let confirmed = update(DictionaryEntryPatch { expansion: expansion.clone(), ..empty.clone() });
    assert_eq!((confirmed.provenance, confirmed.version), (Provenance::Person, 3));
    let removed = update(DictionaryEntryPatch { disambiguation: Some(None), ..empty.clone() });
    assert_eq!((removed.provenance, removed.disambiguation), (Provenance::Person, None));
    let stated = update(DictionaryEntryPatch { expansion, provenance: Some(Provenance::Agent), ..empty.clone() });
    assert_eq!(stated.provenance, Provenance::Agent);
    let tagged = update(DictionaryEntryPatch { tags: Some(Vec::new()), ..empty.clone() });
    assert_eq!((tagged.provenance, tagged.tags.len()), (entry().provenance, 0));
    let renamed = update(DictionaryEntryPatch { term: Some("M.Y.".into()), ..empty });
    assert_eq!((renamed.key.as_str(), renamed.unique_name()), ("m.y.", Some("m.y.")));
}

#[test]
fn an_agent_replaces_no_meaning_of_a_person_and_loses_no_sources() {
    let learn =
        |new: NewDictionaryEntry, before: &DictionaryEntry| after(DictionaryEntryChange::Learn(Box::new(new)), before);
    let other = DocumentId::derive(&["other"]);
    let new = NewDictionaryEntry {
        expansion: "Model Year".into(),
        disambiguation: None,
        tags: vec!["apac".into(), "Cars".into()],
        sources: vec![document().id, other.clone()],
        ..new("my", Provenance::Agent)
    };
    let learned = learn(new.clone(), &entry()).unwrap();
    assert_eq!((learned.term.as_str(), learned.expansion.as_str()), ("MY", "Model Year"));
    assert_eq!((learned.provenance, learned.disambiguation), (Provenance::Agent, entry().disambiguation));
    assert_eq!((learned.tags, learned.sources), (vec!["APAC".into(), "Cars".into()], vec![document().id, other]));
    let confirmed = DictionaryEntry { provenance: Provenance::Person, ..entry() };
    let refused = learn(new.clone(), &confirmed).unwrap_err();
    assert!(refused.message.contains("Malaysia") && refused.message.contains("person"), "{refused}");
    let many = (0..30).map(|n| DocumentId::derive(&[&n.to_string()])).collect();
    let full = learn(NewDictionaryEntry { sources: many, ..new }, &entry()).unwrap();
    assert_eq!((full.sources.len(), &full.sources[0]), (ENTRY_SOURCES_MAX, &document().id));
}

#[test]
fn filters_find_an_entry_in_any_spelling() {
    let filter = |filter: DictionaryEntryFilter| entry().list_row().matches(&DictionaryEntry::conditions(&filter));
    let all = DictionaryEntryFilter::default();
    assert!(filter(all.clone()));
    let text = |text: &str| Some(text.to_owned());
    for (found, conditions) in [
        (true, DictionaryEntryFilter { term_search: text("ｍ"), ..all.clone() }),
        (false, DictionaryEntryFilter { term_search: text("x"), ..all.clone() }),
        (true, DictionaryEntryFilter { term: text(" my "), ..all.clone() }),
        (false, DictionaryEntryFilter { term: text("m"), ..all.clone() }),
        (true, DictionaryEntryFilter { all_tags: vec!["apac".into()], ..all.clone() }),
        (false, DictionaryEntryFilter { all_tags: vec!["apac".into(), "sales".into()], ..all.clone() }),
        (true, DictionaryEntryFilter { provenance: text("inferred"), ..all.clone() }),
        (false, DictionaryEntryFilter { provenance: text("person"), ..all }),
    ] {
        assert_eq!(filter(conditions.clone()), found, "{conditions:?}");
    }
}
