use folio_types::{OrgId, Timestamp, UserId};
use proptest::prelude::*;

use super::*;
use crate::DictionaryEntryId;

fn tokens(text: &str) -> Vec<String> {
    ambiguous_tokens(text, 100).into_iter().map(|token| token.token).collect()
}

#[test]
fn words_of_two_or_three_letters_in_upper_case_are_ambiguous() {
    for (text, expected) in [
        ("Sales in MY rose.", vec!["MY"]),
        ("The VAT of ÄÖ and ΑΒΓ.", vec!["VAT", "ÄÖ", "ΑΒΓ"]),
        ("A, I and ABCD are too short or too long.", vec![]),
        ("Vat, my and McD are not in upper case.", vec![]),
        ("MY2 and 3D and H2O contain digits.", vec![]),
        ("R&D: words of one letter.", vec![]),
        ("(MY) [SG], \"TH\"; PH/ID", vec!["MY", "SG", "TH", "PH", "ID"]),
        ("APAC-MY is a region.", vec!["MY"]),
        ("", vec![]),
        ("MY", vec!["MY"]),
        ("日本 は", vec![]),
    ] {
        assert_eq!(tokens(text), expected, "{text:?}");
    }
}

#[test]
fn a_token_that_the_text_expands_is_not_ambiguous() {
    for text in [
        "ABC (Alpha Beta Co) delivers.",
        "Alpha Beta Co (ABC) delivers.",
        "ABC delivers. Later: ABC (Alpha Beta Co).",
        "ABC\n(Alpha Beta Co)",
        "ABC (ALPHA BETA COMP) delivers.",
        "We sell in Malaysia (MY) only.",
        "MY (Malaysia)",
        "The Department of Trade ( DOT ) decides.",
        "Yesterday. Please note that Alpha Beta Co (ABC) left.",
        "Österreichischer Rundfunk (ÖR)",
    ] {
        assert_eq!(tokens(text), Vec::<String>::new(), "{text:?}");
    }
    for text in [
        "ABC (see page 2) delivers.",
        "ABC (Co Beta Alpha)",
        "ABC (ABC)",
        "ABC (ABCD) delivers.",
        "Alpha Beta Co. Then (ABC) delivers.",
        "alpha beta co (ABC)",
        "Alpha Beta Co (ABC and others)",
        "ABC (Alpha Beta Co",
        "Alpha Beta Co ABC)",
        "ABC, (Alpha Beta Co)",
    ] {
        assert_eq!(tokens(text), ["ABC"], "{text:?}");
    }
    let far = format!("ABC ({} Alpha Beta Co)", "x".repeat(200));
    assert_eq!(tokens(&far), ["ABC"], "the meaning is too far away");
}

#[test]
fn headings_and_identifiers_have_no_tokens() {
    for text in [
        "TERMS OF THE INVOICE FOR YOU\n",
        "INV-7 and ISO 9001, see ISO-9001 and PO_4711",
        "AB/2024/7",
        "v1.AB",
        "# PO:77",
    ] {
        let expected: &[&str] = if text.contains("ISO 9001") { &["ISO"] } else { &[] };
        assert_eq!(tokens(text), expected, "{text:?}");
    }
    assert_eq!(tokens("MY SG TH\n"), ["MY", "SG", "TH"], "a line of tokens is no heading");
    assert_eq!(tokens("INVOICE FOR YOU\nThe MY branch.\n"), ["MY"]);
}

#[test]
fn the_most_frequent_tokens_come_first_with_bounded_contexts() {
    let text = "SG first. MY one, MY two,\nMY three, MY four. TH last.";
    let found = ambiguous_tokens(text, 2);
    let counts: Vec<_> = found.iter().map(|token| (token.token.as_str(), token.count, token.contexts.len())).collect();
    assert_eq!(counts, [("MY", 4, CONTEXTS_MAX), ("SG", 1, 1)]);
    assert_eq!(found[1].contexts[0], "SG first. MY one, MY two, MY three, MY four. TH last.");
    let long = format!("{} MY {}", "ä ".repeat(100), "ö".repeat(100));
    let context = ambiguous_tokens(&long, 1).remove(0).contexts.remove(0);
    assert!(context.starts_with("…") && context.ends_with("ö…") && context.contains(" MY "), "{context}");
    assert!(context.chars().count() <= 2 * CONTEXT_CHARS + 4);
    assert!(ambiguous_tokens(text, 0).is_empty());
}

fn entry(term: &str, provenance: Provenance) -> DictionaryEntry {
    DictionaryEntry {
        id: DictionaryEntryId::derive(&[term]),
        org: OrgId::derive(&["a"]),
        term: term.to_owned(),
        key: term_key(term),
        expansion: "meaning".to_owned(),
        disambiguation: None,
        tags: Vec::new(),
        sources: Vec::new(),
        provenance,
        created_by: UserId::derive(&["a"]),
        created_at: Timestamp::UNIX_EPOCH,
        updated_at: Timestamp::UNIX_EPOCH,
        version: 1,
    }
}

fn relevant(terms: &[&str], text: &str) -> Vec<String> {
    let entries: Vec<_> = terms.iter().map(|term| entry(term, Provenance::Person)).collect();
    TermSearch::new(entries).unwrap().relevant(text, 10).into_iter().map(|entry| entry.term.clone()).collect()
}

#[test]
fn a_term_is_relevant_if_it_occurs_as_a_whole_word() {
    let nothing: [&str; 0] = [];
    for (term, text, is_relevant) in [
        ("MY", "Sales in MY rose.", true),
        ("MY", "MY", true),
        ("MY", "my invoice", false),
        ("MY", "ENEMY and MYTH", false),
        ("ＭＹ", "Sales in MY", true),
        ("MY", "Sales in ＭＹ", true),
        ("R&D", "the R&D budget", true),
        ("C++", "in C++ and", true),
        ("C++", "in C+++", true),
        ("Net Working  Capital", "net\nworking\u{a0}capital", true),
        ("Net Working Capital", "networking capital", false),
        ("Malaysia", "MALAYSIA", true),
        ("Malaysia", "Malaysian", false),
        ("Ｃafé", "CAFE\u{301}", true),
        ("MY", "", false),
        ("日本", "日本", true),
    ] {
        let expected = if is_relevant { &[term][..] } else { &nothing[..] };
        assert_eq!(relevant(&[term], text), expected, "{term:?} in {text:?}");
    }
    assert_eq!(relevant(&[], "MY"), nothing);
    // Terms that overlap are found each.
    let found = relevant(&["working capital", "net working capital", "net"], "Net working capital");
    assert_eq!(found, ["net", "net working capital", "working capital"]);
}

#[test]
fn frequent_and_confirmed_entries_come_first() {
    let inferred = Provenance::Inferred { confidence: 0.9 };
    let entries =
        [entry("aa", inferred), entry("bb", Provenance::Agent), entry("cc", Provenance::Person), entry("dd", inferred)];
    let search = TermSearch::new(entries.to_vec()).unwrap();
    let found = |max| {
        let found = search.relevant("aa bb cc dd dd", max);
        found.into_iter().map(|entry| entry.term.as_str()).collect::<Vec<_>>()
    };
    assert_eq!(found(10), ["dd", "cc", "bb", "aa"]);
    assert_eq!(found(2), ["dd", "cc"]);
    assert_eq!(found(0), [""; 0]);
}

#[test]
fn many_terms_in_a_long_text_are_found_in_a_short_time() {
    let entries: Vec<_> = (0..10_000).map(|n| entry(&format!("term {n}"), Provenance::Person)).collect();
    let text = "term 7 and term 9999, ABC (no meaning) ".repeat(10_000);
    let search = TermSearch::new(entries).unwrap();
    let found = search.relevant(&text, 3);
    assert_eq!(found.iter().map(|entry| entry.term.as_str()).collect::<Vec<_>>(), ["term 7", "term 9999"]);
    assert_eq!(ambiguous_tokens(&text, 3)[0].count, 10_000);
}

proptest! {
    #[test]
    fn any_text_has_bounded_tokens_and_entries(text in "\\PC{0,200}", term in "\\PC{1,6}") {
        for token in ambiguous_tokens(&text, 5) {
            prop_assert!(text.contains(&token.token) && token.count > 0);
            prop_assert!(!token.contexts.is_empty() && token.contexts.len() <= CONTEXTS_MAX);
        }
        let search = TermSearch::new(vec![entry(&term, Provenance::Person)]).unwrap();
        prop_assert!(search.relevant(&text, 1).len() <= 1);
        let around = format!("{text} {term} {text}");
        if !term_key(&term).is_empty() && term.trim() == term {
            prop_assert_eq!(search.relevant(&around, 1).len(), 1);
        }
    }
}
