use proptest::prelude::*;

use super::*;
use crate::golden::document;

fn keys(target: &str) -> Vec<String> {
    target_keys(target).iter().map(ToString::to_string).collect()
}

#[test]
fn the_keys_of_a_target_follow_from_its_form() {
    let id = document().id;
    for (target, expected) in [
        (id.to_string(), vec![format!("id:{id}")]),
        (format!("https://folio.example/documents/{id}"), vec![format!("id:{id}")]),
        ("https://Example.com:443/a/".to_owned(), vec!["url:example.com/a".to_owned()]),
        ("http://www.example.com/a#part".to_owned(), vec!["url:example.com/a".to_owned()]),
        ("https://example.com:8443/?q=1".to_owned(), vec!["url:example.com:8443?q=1".to_owned()]),
        (
            "https://example.com/My%20Report_2.PDF".to_owned(),
            vec!["url:example.com/My Report_2.PDF".to_owned(), "name:my report 2.pdf".to_owned()],
        ),
        ("../docs/Annex_B.docx#page=2".to_owned(), vec!["name:annex b.docx".to_owned()]),
        ("C:\\files\\Annex B.docx".to_owned(), vec!["name:annex b.docx".to_owned()]),
        ("file:///home/ann/annex%20b.docx".to_owned(), vec!["name:annex b.docx".to_owned()]),
        (" Safety  Manual ".to_owned(), vec!["title:safety manual".to_owned()]),
        ("Terms: delivery".to_owned(), vec!["title:terms: delivery".to_owned()]),
        ("Ｒｅｐｏｒｔ.pdf".to_owned(), vec!["name:report.pdf".to_owned()]),
    ] {
        assert_eq!(keys(&target), expected, "{target}");
    }
    let long = format!("https://example.com/{}", "a".repeat(LINK_TARGET_BYTES));
    for target in [
        "",
        "  ",
        "#part",
        "mailto:a@example.com",
        "javascript:alert(1)",
        "tel:+1",
        "ftp://example.com/a.pdf",
        "--",
        &long,
    ] {
        assert_eq!(keys(target), Vec::<String>::new(), "{target}");
    }
}

#[test]
fn the_text_of_a_link_finds_a_document_whose_url_is_unknown() {
    let found = link_keys("https://files.example/7f3", "Annual Report.pdf");
    assert_eq!(
        found.iter().map(ToString::to_string).collect::<Vec<_>>(),
        ["url:files.example/7f3", "name:annual report.pdf"]
    );
    assert_eq!(link_keys("https://files.example/7f3", "here").len(), 1);
    assert!(link_keys("mailto:a@example.com", "report.pdf").is_empty());
    assert_eq!(link_keys("report.pdf", "report.pdf").len(), 1);
}

#[test]
fn a_document_is_found_by_its_id_its_name_and_its_urls() {
    let mut found = document();
    found.name = "Annual_Report 2026.pdf".to_owned();
    found.metadata = [
        ("url", "https://www.example.com/reports/2026/"),
        ("origin", "no url"),
        ("customer", "https://customer.example"),
    ]
    .map(|(key, value)| (key.to_owned(), value.to_owned()))
    .into();
    let keys = document_keys(&found);
    for target in [
        found.id.as_str(),
        "annual report 2026.PDF",
        "Annual Report 2026",
        "http://example.com/reports/2026",
        "https://other.example/x/Annual%20Report%202026.pdf",
    ] {
        assert!(target_keys(target).iter().any(|key| keys.contains(key)), "{target}");
    }
    for target in ["https://customer.example", "Annual Report 2026.docx", "Annual Report", "no url"] {
        assert!(!target_keys(target).iter().any(|key| keys.contains(key)), "{target}");
    }
    found.name = "Terms".to_owned();
    assert!(document_keys(&found).contains(&LinkKey::Title("terms".to_owned())));
}

#[test]
fn references_in_a_text_are_urls_ids_and_names_of_files() {
    let id = document().id;
    let text = format!(
        "See annex-b.pdf, (https://example.com/a.pdf) and „Safety Manual.docx“.\n\
         Also {id}; <http://example.com/b>, v1.2 and e.g. example.com. \"no file\" \"other.pdf\"\n\
         Whole line Safety Manual.xlsx"
    );
    let found: Vec<&str> = text_references(&text).collect();
    assert_eq!(
        found,
        [
            "annex-b.pdf",
            "https://example.com/a.pdf",
            "Safety Manual.docx",
            id.as_str(),
            "http://example.com/b",
            "other.pdf",
            "Manual.xlsx",
        ]
    );
}

#[test]
fn a_target_is_collected_once_with_its_first_page() {
    let mut collector = LinkCollector::default();
    collector.add_link(1, "the annex", "annex.pdf");
    collector.add_text(2, "annex.pdf other.pdf");
    collector.add_link(3, "", "mailto:a@example.com");
    let (found, is_cut) = collector.finish();
    let shown: Vec<_> = found.iter().map(|link| (link.page, link.anchor.as_str(), link.target.as_str())).collect();
    assert_eq!((shown, is_cut), (vec![(1, "the annex", "annex.pdf"), (2, "", "other.pdf")], false));

    let mut collector = LinkCollector::default();
    let text = (0..=LINK_TARGETS_MAX).map(|number| format!("{number}.pdf")).collect::<Vec<_>>().join(" ");
    collector.add_text(1, &text);
    let (found, is_cut) = collector.finish();
    assert_eq!((found.len(), is_cut), (LINK_TARGETS_MAX, true));
}

proptest! {
    #[test]
    fn hostile_texts_are_bounded(text in "(?s).{0,200}") {
        for target in text_references(&text) {
            prop_assert!(target_keys(target).len() <= 2, "{target}");
        }
        prop_assert!(link_keys(&text, &text).len() <= 3);
        for key in target_keys(&text) {
            prop_assert_eq!(key.digest().len(), 64);
        }
    }
}
