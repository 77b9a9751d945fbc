//! Structured invoices that are attached to a PDF (Factur-X, ZUGFeRD, XRechnung), in the child process.
//!
//! The elements with text become lines `label: value`, on a page of their own after the pages of the PDF. The page names the
//! attachment. Known elements have the label that an invoice prints, others the names of their last elements. A document
//! type declaration is refused, so that no entity is expanded.

use folio_resources::STRUCTURED_INVOICE_START;
use hayro_interpret::hayro_syntax::Pdf;
use hayro_interpret::hayro_syntax::object::{Array, Dict, Object, Stream, String as PdfString};
use quick_xml::Reader;
use quick_xml::escape::resolve_predefined_entity;
use quick_xml::events::Event;

/// File names of the standards, in lower case.
const NAMES: [&str; 3] = ["factur-x.xml", "zugferd-invoice.xml", "xrechnung.xml"];
/// Maximum number of attachments that are searched.
const FILES_MAX: usize = 32;
/// Maximum number of nodes of the tree of attachments that are searched.
const NODES_MAX: usize = 64;
/// Maximum size of a compressed attachment, in bytes. It decompresses to at most about a thousand times as much.
const COMPRESSED_BYTES: usize = 256 * 1024;
/// Maximum size of an attachment, in bytes. A larger one is dropped with a note.
const XML_BYTES: usize = 1024 * 1024;
/// Maximum nesting of elements.
const DEPTH_MAX: usize = 32;
/// Number of elements in the label of an unknown element.
const LABEL_NAMES: usize = 3;
const ITEM: &str = "IncludedSupplyChainTradeLineItem";

/// Parent and name of elements of an invoice with their labels.
const LABELS: [(&str, &str, &str); 12] = [
    ("ExchangedDocument", "ID", "Invoice Number"),
    ("IssueDateTime", "DateTimeString", "Invoice Date"),
    ("DueDateDateTime", "DateTimeString", "Due Date"),
    ("SellerTradeParty", "Name", "Seller"),
    ("BuyerTradeParty", "Name", "Buyer"),
    ("ApplicableHeaderTradeSettlement", "InvoiceCurrencyCode", "Currency"),
    ("PayeePartyCreditorFinancialAccount", "IBANID", "IBAN"),
    ("SpecifiedTradeSettlementHeaderMonetarySummation", "TaxBasisTotalAmount", "Net Amount"),
    ("SpecifiedTradeSettlementHeaderMonetarySummation", "TaxTotalAmount", "VAT Amount"),
    ("SpecifiedTradeSettlementHeaderMonetarySummation", "GrandTotalAmount", "Total"),
    ("SpecifiedTradeSettlementHeaderMonetarySummation", "DuePayableAmount", "Amount Due"),
    ("SpecifiedTradeProduct", "Name", "Description"),
];

/// Returns the text of the first structured invoice that can be read, and true if the text was cut to `max_chars` and ends with a
/// mark. If none can be read, returns a note and true, so that the text of the document counts as incomplete. None: the PDF has no
/// structured invoice.
pub(super) fn read(pdf: &Pdf, max_chars: usize) -> Option<(String, bool)> {
    let files = attachments(pdf);
    let mut dropped: Option<&'static str> = None;
    for (name, file) in files.iter().filter_map(|file| Some((invoice_name(file)?, file))) {
        match contents(file).and_then(|xml| lines(&xml)) {
            Some(lines) => return Some(page(name, &lines, max_chars)),
            None => dropped = dropped.or(Some(name)),
        }
    }
    let name = dropped?;
    Some((format!("[… the structured invoice {name} was dropped, because it is malformed, empty or too large]"), true))
}

/// Returns the text of the page of an invoice, and true if the text was cut.
fn page(name: &str, lines: &str, max_chars: usize) -> (String, bool) {
    let text = format!("{STRUCTURED_INVOICE_START}{name}. Prefer these values to printed ones.\n\n{lines}");
    match text.char_indices().nth(max_chars) {
        None => (text, false),
        Some((end, _)) => {
            let kept = text.get(..end).unwrap_or_default();
            (format!("{kept}\n[… cut here: the rest of the attachment was dropped]"), true)
        }
    }
}

/// Returns the file specifications of a document: those that belong to it, then all others.
fn attachments(pdf: &Pdf) -> Vec<Dict<'_>> {
    let mut files = Vec::new();
    let Some(catalog) = pdf.xref().get::<Dict<'_>>(pdf.xref().root_id()) else { return files };
    if let Some(associated) = catalog.get::<Array<'_>>("AF") {
        files.extend(dictionaries(&associated).take(FILES_MAX));
    }
    let tree = catalog.get::<Dict<'_>>("Names").and_then(|names| names.get::<Dict<'_>>("EmbeddedFiles"));
    let mut nodes: Vec<Dict<'_>> = tree.into_iter().collect();
    let mut visited = 0;
    while let Some(node) = nodes.pop().filter(|_| visited < NODES_MAX) {
        visited += 1;
        if let Some(pairs) = node.get::<Array<'_>>("Names") {
            // The names between the specifications are no dictionaries.
            files.extend(dictionaries(&pairs).take(FILES_MAX));
        }
        if let Some(kids) = node.get::<Array<'_>>("Kids") {
            nodes.extend(dictionaries(&kids).take(NODES_MAX));
        }
    }
    files.truncate(FILES_MAX);
    files
}

fn dictionaries<'a>(array: &Array<'a>) -> impl Iterator<Item = Dict<'a>> {
    array.iter::<Object<'_>>().filter_map(Object::into_dict)
}

/// Returns the name of a structured invoice. None: the attachment has another name.
fn invoice_name(file: &Dict<'_>) -> Option<&'static str> {
    let names = ["UF", "F"].into_iter().filter_map(|key| file.get::<PdfString<'_>>(key));
    let mut names = names.map(|name| decoded(name.as_bytes()).to_lowercase());
    names.find_map(|name| NAMES.into_iter().find(|known| *known == name))
}

/// Returns the XML of an attachment. None: it is missing, too large or not UTF-8.
fn contents(file: &Dict<'_>) -> Option<String> {
    let embedded = file.get::<Dict<'_>>("EF")?;
    let stream = embedded.get::<Stream<'_>>("F").or_else(|| embedded.get::<Stream<'_>>("UF"))?;
    if stream.raw_data().len() > COMPRESSED_BYTES {
        return None;
    }
    let bytes = stream.decoded_data().ok().filter(|bytes| bytes.len() <= XML_BYTES)?;
    String::from_utf8(bytes.into_owned()).ok()
}

/// Decodes a text string of a PDF: UTF-16 after a byte order mark, otherwise a superset of ASCII.
pub(super) fn decoded(bytes: &[u8]) -> String {
    match bytes.strip_prefix(b"\xfe\xff") {
        Some(wide) => {
            let (units, _) = wide.as_chunks::<2>();
            char::decode_utf16(units.iter().map(|unit| u16::from_be_bytes(*unit))).filter_map(Result::ok).collect()
        }
        None => bytes.iter().map(|byte| char::from(*byte)).collect(),
    }
}

/// Returns a line for each element with text. None: the XML is malformed, too deep, declares a document type, or is empty.
fn lines(xml: &str) -> Option<String> {
    let mut reader = Reader::from_str(xml.trim_start_matches('\u{feff}'));
    let (mut path, mut text, mut lines): (Vec<String>, String, String) = Default::default();
    // True after a start tag, until a child or the end follows.
    let mut is_leaf = false;
    let mut item = 0_u32;
    loop {
        match reader.read_event().ok()? {
            Event::Start(start) => {
                if path.len() >= DEPTH_MAX {
                    return None;
                }
                let name = String::from_utf8_lossy(start.local_name().into_inner()).into_owned();
                item += u32::from(name == ITEM);
                path.push(name);
                text.clear();
                is_leaf = true;
            }
            Event::End(_) => {
                if is_leaf && !text.trim().is_empty() {
                    lines.push_str(&line(&path, item, &text));
                }
                path.pop();
                text.clear();
                is_leaf = false;
            }
            Event::Empty(_) => is_leaf = false,
            Event::Text(part) => text.push_str(&part.decode().ok()?),
            Event::CData(part) => text.push_str(&part.decode().ok()?),
            Event::GeneralRef(reference) => match reference.resolve_char_ref().ok()? {
                Some(char) => text.push(char),
                None => text.push_str(resolve_predefined_entity(&reference.decode().ok()?)?),
            },
            Event::DocType(_) => return None,
            Event::Eof => break,
            Event::Comment(_) | Event::Decl(_) | Event::PI(_) => {}
        }
    }
    (path.is_empty() && !lines.is_empty()).then_some(lines)
}

/// Returns the line of an element. `item`: number of the current line item.
fn line(path: &[String], item: u32, text: &str) -> String {
    let (parent, name) = match path {
        [.., parent, name] => (parent.as_str(), name.as_str()),
        _ => ("", path.first().map_or("", String::as_str)),
    };
    let known = LABELS.iter().find(|(of, element, _)| (*of, *element) == (parent, name));
    let label = match known {
        Some((_, _, label)) => (*label).to_owned(),
        None => path.get(path.len().saturating_sub(LABEL_NAMES)..).unwrap_or_default().join(" / "),
    };
    let prefix = if path.iter().any(|name| name == ITEM) { format!("Item {item} ") } else { String::new() };
    let value = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let value = if name.starts_with("Date") { date(&value).unwrap_or(value) } else { value };
    format!("{prefix}{label}: {value}\n")
}

/// Returns a date of the form `YYYYMMDD` as `YYYY-MM-DD`.
fn date(text: &str) -> Option<String> {
    let is_date = text.len() == 8 && text.bytes().all(|byte| byte.is_ascii_digit());
    is_date.then(|| Some(format!("{}-{}-{}", text.get(..4)?, text.get(4..6)?, text.get(6..)?)))?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_with_text_become_labelled_lines() {
        let xml = "\u{feff}<?xml version='1.0' encoding='UTF-8'?><!-- c --><rsm:CrossIndustryInvoice xmlns:rsm='a' xmlns:ram='b'>\
                   <rsm:ExchangedDocument><ram:ID>RE&#45;7 &amp; 8</ram:ID><ram:IssueDateTime>\
                   <udt:DateTimeString format='102'>20260317</udt:DateTimeString></ram:IssueDateTime></rsm:ExchangedDocument>\
                   <rsm:SupplyChainTradeTransaction><ram:IncludedSupplyChainTradeLineItem><ram:SpecifiedTradeProduct>\
                   <ram:Name><![CDATA[Tea <green>]]></ram:Name></ram:SpecifiedTradeProduct></ram:IncludedSupplyChainTradeLineItem>\
                   <ram:ApplicableHeaderTradeSettlement><ram:InvoiceCurrencyCode>EUR</ram:InvoiceCurrencyCode><ram:Empty/>\
                   <ram:SpecifiedTradeSettlementHeaderMonetarySummation><ram:LineTotalAmount>800.00</ram:LineTotalAmount>\
                   <ram:GrandTotalAmount>\n 957.00 </ram:GrandTotalAmount>\
                   </ram:SpecifiedTradeSettlementHeaderMonetarySummation></ram:ApplicableHeaderTradeSettlement>\
                   </rsm:SupplyChainTradeTransaction></rsm:CrossIndustryInvoice>";
        let expected = "Invoice Number: RE-7 & 8\nInvoice Date: 2026-03-17\nItem 1 Description: Tea <green>\nCurrency: EUR\n\
                        ApplicableHeaderTradeSettlement / SpecifiedTradeSettlementHeaderMonetarySummation / LineTotalAmount: \
                        800.00\nTotal: 957.00\n";
        assert_eq!(lines(xml).as_deref(), Some(expected));
    }

    #[test]
    fn malformed_and_hostile_xml_is_refused() {
        let deep = format!("{}x{}", "<a>".repeat(DEPTH_MAX + 1), "</a>".repeat(DEPTH_MAX + 1));
        for xml in [
            "",
            "text",
            "<a/>",
            "<a><b>1</b>",
            "<a><b>1</a></b>",
            "<a><b>&unknown;</b></a>",
            "<!DOCTYPE a [<!ENTITY b 'c'>]><a><b>&b;</b></a>",
            &deep,
        ] {
            assert_eq!(lines(xml), None, "{xml}");
        }
        let allowed = format!("{}x{}", "<a>".repeat(DEPTH_MAX), "</a>".repeat(DEPTH_MAX));
        assert_eq!(lines(&allowed).as_deref(), Some("a / a / a: x\n"));
    }
}
