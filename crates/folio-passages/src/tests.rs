//! Chunks of paragraphs and tables, their bounds, and their context.

use std::collections::BTreeSet;

use folio_types::{DocumentId, Reason};
use proptest::prelude::*;

use super::*;

/// One token per word and per punctuation mark, and one per character of scripts without spaces.
fn words(text: &str) -> u64 {
    use unicode_segmentation::UnicodeSegmentation as _;
    text.split_word_bounds().filter(|word| !word.trim().is_empty()).count() as u64
}

const COUNTER: Estimate = Estimate(words);

fn paragraph(page: u32, start: u32, text: &str) -> Block {
    Block::Paragraph { page, start, text: text.to_owned() }
}

fn table(page: u32, rows: &[&[&str]]) -> Block {
    let row = |(at, cells): (usize, &&[&str])| TableRow {
        cells: cells.iter().map(|cell| (*cell).to_owned()).collect(),
        span: Span { page, start: at as u32 * 100, end: at as u32 * 100 + 50 },
    };
    Block::Table { rows: rows.iter().enumerate().map(row).collect() }
}

fn section(id: &str, blocks: Vec<Block>) -> Section {
    Section { id: id.to_owned(), title_path: vec!["Contract".to_owned(), id.to_owned()], blocks }
}

fn document(sections: Vec<Section>) -> Document {
    Document {
        id: DocumentId::derive(&["a document"]),
        file_name: "contract.pdf".to_owned(),
        metadata: [("customer".to_owned(), "ACME".to_owned())].into(),
        sections,
        context: Context::default(),
    }
}

fn options(window: u32, overlap: u32, padding: u32) -> ChunkOptions {
    ChunkOptions { window, overlap, padding, input_tokens_max: None }
}

fn chunks(document: &Document, options: ChunkOptions) -> Vec<Chunk> {
    let chunking = chunk_document(document, &options, &COUNTER).unwrap();
    assert_eq!(chunking.counting, Counting::Estimated);
    chunking.chunks
}

fn texts(chunks: &[Chunk]) -> Vec<&str> {
    chunks.iter().map(|chunk| chunk.text.as_str()).collect()
}

fn sentences(count: usize) -> String {
    (0..count).map(|at| format!("Clause {at} obliges the supplier to deliver goods. ")).collect()
}

#[test]
fn sentences_are_joined_up_to_the_window() {
    // Each sentence has 9 tokens.
    let found = chunks(&document(vec![section("1", vec![paragraph(1, 0, &sentences(10))])]), options(40, 0, 0));
    assert_eq!(found.iter().map(|chunk| chunk.tokens).collect::<Vec<_>>(), [36, 36, 18]);
    assert!(found.iter().all(|chunk| chunk.text.starts_with("Clause") && chunk.text.ends_with("goods.")));
    assert_eq!(found.iter().map(|chunk| chunk.number).collect::<Vec<_>>(), [0, 1, 2]);
}

#[test]
fn a_chunk_repeats_the_last_sentences_of_the_chunk_before() {
    let found = chunks(&document(vec![section("1", vec![paragraph(1, 0, &sentences(8))])]), options(40, 10, 0));
    let repeated: String = found[1].text.chars().take(found[1].overlap_chars as usize).collect();
    assert!(repeated.starts_with("Clause 3"), "{repeated:?}");
    assert!(found[0].text.ends_with(repeated.trim()));
    assert_eq!(found[0].overlap_chars, 0);
    assert!(found.iter().all(|chunk| chunk.tokens <= 40));
}

#[test]
fn the_last_words_of_a_long_sentence_are_repeated() {
    let long = (0..60).map(|at| format!("word{at} ")).collect::<String>();
    let found = chunks(&document(vec![section("1", vec![paragraph(1, 0, &long)])]), options(40, 5, 0));
    assert!(found[1].text.starts_with("word35 word36"), "{}", found[1].text);
    let span = found[1].segments[0].span;
    let start: String = long.chars().skip(span.start as usize).take(6).collect();
    assert_eq!(start, "word35");
}

#[test]
fn a_chunk_never_crosses_a_section() {
    let short = |id: &str| section(id, vec![paragraph(1, 0, "A short section.")]);
    let found = chunks(&document(vec![short("1"), short("2"), section("3", vec![])]), options(200, 20, 0));
    assert_eq!(found.len(), 2);
    assert_eq!(found.iter().map(|chunk| chunk.section_id.as_str()).collect::<Vec<_>>(), ["1", "2"]);
    assert_eq!(found[1].overlap_chars, 0);
}

#[test]
fn a_table_that_fits_is_whole() {
    let rows: &[&[&str]] = &[&["Item", "Price"], &["Pen", "1"], &["Ink\nblack", "2"]];
    let blocks = vec![paragraph(1, 0, &sentences(4)), table(2, rows), paragraph(3, 0, "After the table.")];
    let found = chunks(&document(vec![section("1", blocks)]), options(40, 0, 0));
    assert_eq!(found.len(), 2);
    assert_eq!(found[1].text, "Item | Price\nPen | 1\nInk black | 2\nAfter the table.");
    assert_eq!(found[1].source_page, 2);
    assert!(!found[1].segments[0].is_verbatim);
    let after = *found[1].segments.last().unwrap();
    assert!(after.is_verbatim && after.span == Span { page: 3, start: 0, end: 16 });
    assert_eq!(found[1].text.chars().skip(after.text_start as usize).collect::<String>(), "After the table.");
}

#[test]
fn a_table_that_exceeds_the_window_repeats_its_header() {
    let rows: Vec<Vec<String>> = (0..40).map(|at| vec![format!("item{at}"), format!("{at}")]).collect();
    let rows: Vec<Vec<&str>> = rows.iter().map(|row| row.iter().map(String::as_str).collect()).collect();
    let mut all: Vec<&[&str]> = vec![&["Item", "Price"]];
    all.extend(rows.iter().map(Vec::as_slice));
    let found = chunks(&document(vec![section("1", vec![table(1, &all)])]), options(40, 10, 0));
    assert!(found.len() > 2);
    assert!(found.iter().all(|chunk| chunk.text.starts_with("Item | Price\n") && chunk.tokens <= 40));
    let joined = found.iter().map(|chunk| chunk.text.clone() + "\n").collect::<String>();
    assert!((0..40).all(|at| joined.matches(&format!("item{at} | {at}\n")).count() == 1), "{joined}");
}

#[test]
fn a_row_that_exceeds_the_window_is_split() {
    let long = "word ".repeat(100);
    let found = chunks(&document(vec![section("1", vec![table(1, &[&["Item"], &[&long]])])]), options(40, 0, 0));
    assert!(found.iter().all(|chunk| chunk.tokens <= 40));
    assert_eq!(texts(&found).concat().matches("word").count(), 100);
}

#[test]
fn sentences_of_several_languages_are_split() {
    for (text, sentence) in [
        ("これは契約です。支払いは月末です。", "これは契約です。"),
        ("यह अनुबंध है। भुगतान मासिक है।", "यह अनुबंध है। "),
        ("Das ist\nder Vertrag. Zahlung monatlich.", "Das ist\nder Vertrag. "),
        ("هذا هو العقد؟ الدفع شهري.", "هذا هو العقد؟ "),
        ("First paragraph\n\nSecond paragraph", "First paragraph\n"),
    ] {
        let parts = crate::split::split(text, 100, &COUNTER).unwrap();
        assert_eq!(&text[parts[0].range.clone()], sentence);
    }
}

#[test]
fn a_text_without_any_boundary_is_split_at_characters() {
    let letters = Estimate(|text| text.chars().count() as u64);
    let long = "a".repeat(10_000) + &"\u{301}".repeat(500) + &"漢".repeat(500);
    let document = document(vec![section("1", vec![paragraph(1, 0, &long)])]);
    let found = chunk_document(&document, &options(32, 0, 0), &letters).unwrap().chunks;
    assert!(found.iter().all(|chunk| chunk.tokens <= 32));
    assert_eq!(texts(&found).concat(), long);
}

#[test]
fn the_context_is_in_lines_before_the_text() {
    let mut document = document(vec![section("7", vec![paragraph(3, 0, "Pay in MY by bank transfer. it is due.")])]);
    let term = |term: &str, expansion: &str| DictionaryTerm {
        term: term.to_owned(),
        expansion: expansion.to_owned(),
        disambiguation: (term == "MY").then(|| "region".to_owned()),
    };
    let image = |page, id: &str, section_id: Option<&str>| ImageSummary {
        image_id: id.to_owned(),
        page,
        section_id: section_id.map(str::to_owned),
        summary: format!("A diagram\nSection: {id}"),
        file_name: None,
    };
    document.context = Context {
        document_summary: Some("A supply contract.".to_owned()),
        section_summaries: [("7".to_owned(), "Payment terms.".to_owned())].into(),
        dictionary: vec![
            term("IT", "Information Technology"),
            term("bank transfer", "a payment"),
            term("MY", "Malaysia"),
        ],
        images: vec![image(3, "here", Some("7")), image(3, "other", Some("8")), image(4, "later", None)],
    };
    let found = chunks(&document, options(200, 0, 200));
    let expected = "Section: Contract > 7\nDictionary: bank transfer = a payment\nDictionary: MY = Malaysia (region)\n\
                    Image Summary: A diagram Section: here\nSection Summary: Payment terms.\nDocument Summary: A supply contract.";
    assert_eq!(found[0].padding, expected);
    assert!(!found[0].is_padding_cut);
    assert_eq!(found[0].padding_tokens, words(expected));
    assert_eq!(found[0].embedded_text(), format!("{expected}\n{}", found[0].text));
    let pair = |key: &str| {
        let mut values = found[0].metadata_pairs.iter().filter(|(name, _)| name == key);
        values.next().map(|(_, value)| value.as_str())
    };
    assert_eq!(pair("customer"), Some("ACME"));
    assert_eq!(pair("source_page"), Some("3"));
    assert_eq!(pair("document_path"), Some(document_path(&document.id).as_str()));
    assert_eq!(
        [pair("image_id"), pair("image_page"), pair("image_file_name")],
        [Some("here"), Some("3"), Some("contract.pdf")]
    );
}

#[test]
fn context_beyond_the_padding_is_shortened_and_marked() {
    let mut document = document(vec![section("1", vec![paragraph(1, 0, "Text.")])]);
    document.context.document_summary = Some("word ".repeat(500));
    let found = chunks(&document, options(200, 0, 30));
    assert!(found[0].is_padding_cut && found[0].padding.ends_with('…'), "{}", found[0].padding);
    assert!(found[0].padding_tokens <= 30 && found[0].padding_tokens > 20);
    assert_eq!(chunks(&document, options(200, 0, 0))[0].padding, "");
}

#[test]
fn metadata_cannot_replace_the_pairs_of_a_chunk() {
    let mut document = document(vec![section("1", vec![paragraph(1, 0, "Text.")])]);
    document.metadata.insert("source_page".to_owned(), "99".to_owned());
    document.metadata.insert(crate::LINKED_DOCUMENT.to_owned(), "other".to_owned());
    let found = chunks(&document, options(200, 0, 0));
    assert!(!found[0].metadata_pairs.iter().any(|(key, _)| key == crate::LINKED_DOCUMENT));
    let pages: Vec<_> = found[0].metadata_pairs.iter().filter(|(key, _)| key == "source_page").collect();
    assert_eq!(pages, [&("source_page".to_owned(), "1".to_owned())]);
}

#[test]
fn counts_are_exact_with_the_file_of_a_tokenizer() {
    let file = serde_json::json!({
        "version": "1.0", "truncation": {"direction": "Right", "max_length": 4, "strategy": "LongestFirst", "stride": 0},
        "padding": null, "added_tokens": [], "normalizer": {"type": "Lowercase"},
        "pre_tokenizer": {"type": "Whitespace"}, "post_processor": null, "decoder": null,
        "model": {"type": "WordLevel", "vocab": {"[UNK]": 0, "clause": 1, "goods": 2}, "unk_token": "[UNK]"},
    });
    let counter = FileTokenizer::parse("test", file.to_string().as_bytes()).unwrap();
    assert_eq!(counter.count("Clause 1: goods, and more goods.").unwrap(), 9);
    let document = document(vec![section("1", vec![paragraph(1, 0, &sentences(10))])]);
    let chunking = chunk_document(&document, &options(40, 10, 50), &counter).unwrap();
    assert_eq!(chunking.counting, Counting::Exact { tokenizer: "test".to_owned() });
    for chunk in &chunking.chunks {
        assert_eq!(chunk.tokens, counter.count(&chunk.text).unwrap());
        assert!(chunk.tokens <= 40 && chunk.tokens > 9);
    }
    let error = FileTokenizer::parse("broken", b"{}").unwrap_err();
    assert!(error.message.contains("broken"), "{error}");
}

#[test]
fn sizes_out_of_bounds_are_refused() {
    assert!(ChunkOptions::default().validate().is_ok());
    for (refused, field) in [
        (options(31, 0, 0), "window"),
        (options(8_193, 0, 0), "window"),
        (options(100, 50, 0), "overlap"),
        (options(200, 0, 2_049), "padding"),
        (ChunkOptions { input_tokens_max: Some(319), ..options(200, 0, 120) }, "window"),
    ] {
        assert_eq!(refused.validate().unwrap_err().violations[0].field, field);
    }
    assert!(ChunkOptions { input_tokens_max: Some(320), ..options(200, 0, 120) }.validate().is_ok());
}

#[test]
fn input_out_of_bounds_is_refused() {
    let many = document(vec![section("1", vec![]); 50_001]);
    let titles = Section { title_path: vec![String::new(); 17], ..section("1", vec![]) };
    let reversed = Block::Table { rows: vec![TableRow { cells: vec![], span: Span { page: 1, start: 2, end: 1 } }] };
    for (refused, reason) in [
        (many, Reason::TooLarge),
        (document(vec![titles]), Reason::TooLarge),
        (document(vec![section("1", vec![paragraph(1, 0, &"a".repeat(5 * 1024 * 1024))])]), Reason::TooLarge),
        (document(vec![section("1", vec![paragraph(0, 0, "a")])]), Reason::InvalidField),
        (document(vec![section("1", vec![paragraph(1, u32::MAX, "a")])]), Reason::InvalidField),
        (document(vec![section("1", vec![reversed])]), Reason::InvalidField),
    ] {
        let error = chunk_document(&refused, &ChunkOptions::default(), &COUNTER).unwrap_err();
        assert_eq!(error.reason, reason, "{error}");
    }
}

#[test]
fn a_document_with_too_many_chunks_is_refused() {
    let sections = vec![section("1", vec![paragraph(1, 0, "a")]); 20_001];
    let error = chunk_document(&document(sections), &ChunkOptions::default(), &COUNTER).unwrap_err();
    assert_eq!(error.reason, Reason::TooLarge);
}

/// A text of words, sentences, line breaks and scripts without spaces.
fn any_text() -> impl Strategy<Value = String> {
    let part = prop_oneof![
        "[a-z]{1,12}",
        " ",
        "\\. ",
        "\n",
        "\n\n",
        "[0-9]{1,9}",
        "漢字かな",
        "。",
        "\u{e9}\u{301}",
        "[ -~]{0,20}",
        "ไทย",
        "👩‍👩‍👧",
    ];
    proptest::collection::vec(part, 0..120).prop_map(|parts| parts.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn chunks_cover_the_text_and_keep_the_bounds(
        paragraphs in proptest::collection::vec(any_text(), 1..6),
        window in 32u32..80,
        overlap in 0u32..16,
    ) {
        let mut start = 0;
        let mut blocks = Vec::new();
        for text in &paragraphs {
            blocks.push(paragraph(1, start, text));
            start += text.chars().count() as u32 + 1;
        }
        let page: Vec<char> = paragraphs.join("\n").chars().collect();
        let found = chunks(&document(vec![section("1", blocks)]), options(window, overlap, 20));
        let mut covered = BTreeSet::new();
        let mut joined = String::new();
        for chunk in &found {
            prop_assert!(chunk.tokens <= u64::from(window));
            prop_assert_eq!(chunk.tokens, words(&chunk.text));
            prop_assert!(chunk.padding_tokens <= 20);
            let text: Vec<char> = chunk.text.chars().collect();
            let repeated: String = text.iter().take(chunk.overlap_chars as usize).collect();
            prop_assert!(words(&repeated) <= u64::from(overlap) + 1);
            joined.extend(text.iter().skip(chunk.overlap_chars as usize));
            for segment in &chunk.segments {
                prop_assert!(segment.is_verbatim);
                covered.extend(segment.span.start..segment.span.end);
                let length = (segment.span.end - segment.span.start) as usize;
                let of_page = &page[segment.span.start as usize..segment.span.end as usize];
                let of_chunk: String = text.iter().skip(segment.text_start as usize).take(length).collect();
                let of_page: String = of_page.iter().collect();
                prop_assert!(of_page.starts_with(&of_chunk), "{:?} {:?}", of_page, of_chunk);
            }
        }
        let visible = |text: &str| text.split_whitespace().collect::<String>();
        prop_assert_eq!(visible(&joined), visible(&paragraphs.concat()));
        for (at, c) in page.iter().enumerate().filter(|(_, c)| !c.is_whitespace()) {
            prop_assert!(covered.contains(&(at as u32)), "{} {:?}", at, c);
        }
    }
}
