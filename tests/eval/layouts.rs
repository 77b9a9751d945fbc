//! The five layouts of the generated documents, each with its labelled fields. Pure.

use std::collections::BTreeMap;

use folio_testkit::pdf::{Font, PAGE_HEIGHT, Page};
use serde_json::{Map, Value, json};

use super::content::{Content, Day, Language, Notation};
use super::words::Words;

const FONT_SIZE: f64 = 12.0;
/// Distance of two lines, in points.
const LINE_STEP: f64 = 19.0;
const LEFT: f64 = 56.0;
/// Left ends of columns, in points.
const VALUES: f64 = 190.0;
const RIGHT_BLOCK: f64 = 320.0;
const TABLE: [f64; 5] = [LEFT, 90.0, 270.0, 350.0, 455.0];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Layout {
    /// Labels with colons, and the addresses of two parties in columns.
    Invoice,
    /// Labels and values in two columns, without colons.
    Bill,
    /// A table of items with sums below, and two labelled values in one line.
    Items,
    /// A letter: a date after a city, labelled values, and prose.
    Letter,
    /// A receipt: items and sums without colons.
    Receipt,
}

/// A line of cells, each with its left end. No cells: an empty line.
type Line = Vec<(f64, String)>;

/// A page of lines with its truth.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Sheet {
    lines: Vec<Line>,
    pub(super) fields: BTreeMap<String, Value>,
    properties: Map<String, Value>,
}

impl Layout {
    pub(super) const ALL: [Self; 5] = [Self::Invoice, Self::Bill, Self::Items, Self::Letter, Self::Receipt];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Invoice => "invoice",
            Self::Bill => "bill",
            Self::Items => "items",
            Self::Letter => "letter",
            Self::Receipt => "receipt",
        }
    }

    pub(super) fn sheet(self, content: &Content, language: Language) -> Sheet {
        let words = &Words::of(language);
        match self {
            Self::Invoice => invoice(content, language, words),
            Self::Bill => bill(content, language, words),
            Self::Items => items(content, language, words),
            Self::Letter => letter(content, language, words),
            Self::Receipt => receipt(content, language, words),
        }
    }
}

impl Sheet {
    fn line(&mut self, cells: &[(f64, &str)]) -> &mut Self {
        self.lines.push(cells.iter().map(|(x, text)| (*x, (*text).to_owned())).collect());
        self
    }

    fn gap(&mut self) -> &mut Self {
        self.line(&[])
    }

    fn text(&mut self, text: &str) -> &mut Self {
        self.line(&[(LEFT, text)])
    }

    /// Adds a line with a label that ends with a colon.
    fn labelled(&mut self, label: &str, value: &str) -> &mut Self {
        let label = format!("{label}:");
        self.line(&[(LEFT, label.as_str()), (VALUES, value)])
    }

    /// Adds a line with a label and a value in columns.
    fn columns(&mut self, label: &str, value: &str) -> &mut Self {
        self.line(&[(LEFT, label), (VALUES, value)])
    }

    fn field(&mut self, name: &str, kind: &str, value: Value) -> &mut Self {
        self.properties.insert(name.to_owned(), json!({"type": [kind, "null"]}));
        self.fields.insert(name.to_owned(), value);
        self
    }

    fn text_field(&mut self, name: &str, value: &str) -> &mut Self {
        self.field(name, "string", value.into())
    }

    fn date_field(&mut self, name: &str, date: Day) -> &mut Self {
        self.field(name, "string", date.iso().into());
        self.properties[name]["format"] = "date".into();
        self
    }

    fn amount_field(&mut self, name: &str, cents: u64) -> &mut Self {
        self.field(name, "number", (cents as f64 / 100.0).into())
    }

    /// Adds a field that the document does not contain.
    fn absent_field(&mut self, name: &str) -> &mut Self {
        self.field(name, "string", Value::Null)
    }

    /// Returns the strict JSON Schema of the fields.
    pub(super) fn schema(&self) -> Value {
        let names: Vec<&String> = self.properties.keys().collect();
        json!({"type": "object", "properties": self.properties, "required": names, "additionalProperties": false})
    }

    /// Returns the text with two blanks between the cells of a line.
    pub(super) fn to_text(&self) -> String {
        let line = |line: &Line| line.iter().map(|(_, text)| text.as_str()).collect::<Vec<_>>().join("  ");
        self.lines.iter().map(line).collect::<Vec<_>>().join("\n")
    }

    pub(super) fn page(&self) -> Page {
        let mut page = Page::new();
        let mut y = PAGE_HEIGHT - 60.0;
        for line in &self.lines {
            for (x, text) in line {
                page.text(*x, y, FONT_SIZE, Font::Regular, text);
            }
            y -= LINE_STEP;
        }
        page
    }
}

fn invoice(content: &Content, language: Language, words: &Words) -> Sheet {
    let number = format!("INV-{}-{}", content.date.year, content.number);
    let mut sheet = Sheet::default();
    sheet.text(words.invoice).gap();
    for (seller, buyer) in [
        (content.seller.name, content.buyer.name),
        (content.seller.street, content.buyer.street),
        (content.seller.city, content.buyer.city),
    ] {
        sheet.line(&[(LEFT, seller), (RIGHT_BLOCK, buyer)]);
    }
    sheet.gap().labelled(words.invoice_number, &number);
    sheet.labelled(words.invoice_date, &language.date(content.date, Notation::Plain));
    sheet.labelled(words.due_date, &language.date(content.due, Notation::Plain));
    sheet.labelled(words.currency, content.currency());
    sheet.labelled(words.total, &language.amount(content.total()));
    sheet.text_field("invoice_number", &number).date_field("invoice_date", content.date);
    sheet.date_field("due_date", content.due).text_field("currency", content.currency());
    sheet.amount_field("total", content.total()).absent_field("iban");
    sheet
}

fn bill(content: &Content, language: Language, words: &Words) -> Sheet {
    let account = format!("88{}{}", content.number, 10_000 - content.number);
    let total = format!("{} {}", language.amount(content.total()), content.currency());
    let mut sheet = Sheet::default();
    sheet.line(&[(LEFT, content.seller.name), (RIGHT_BLOCK, words.bill)]);
    sheet.text(content.seller.street).text(content.seller.city).gap();
    sheet.columns(words.account_number, &account);
    sheet.columns(words.customer, content.buyer.name);
    sheet.columns(words.statement_date, &language.date(content.date, Notation::Long));
    sheet.columns(words.due_date, &language.date(content.due, Notation::Long));
    sheet.gap().columns(words.amount_due, &total);
    sheet.text_field("account_number", &account).text_field("customer", content.buyer.name);
    sheet.date_field("statement_date", content.date).date_field("due_date", content.due);
    sheet.amount_field("total_amount_due", content.total()).absent_field("order_number");
    sheet
}

fn items(content: &Content, language: Language, words: &Words) -> Sheet {
    let number = format!("A-{}", content.number);
    let date = language.date(content.date, Notation::Iso);
    let mut sheet = Sheet::default();
    sheet.text(content.seller.name).text(words.invoice).gap();
    let [first, second] = [words.invoice_number, words.invoice_date].map(|label| format!("{label}:"));
    let cells =
        [(LEFT, first.as_str()), (185.0, number.as_str()), (RIGHT_BLOCK, second.as_str()), (445.0, date.as_str())];
    sheet.line(&cells).gap();
    let cells: Vec<_> = TABLE.into_iter().zip(words.columns).collect();
    sheet.line(&cells);
    for (at, item) in content.items.iter().enumerate() {
        let amounts = [item.price_cents, item.quantity * item.price_cents].map(|cents| language.amount(cents));
        let (position, quantity) = ((at + 1).to_string(), item.quantity.to_string());
        let texts = [position.as_str(), item.name, quantity.as_str(), amounts[0].as_str(), amounts[1].as_str()];
        let cells: Vec<_> = TABLE.into_iter().zip(texts).collect();
        sheet.line(&cells);
    }
    sheet.gap();
    for (label, cents) in
        [(words.subtotal, content.subtotal()), (words.tax, content.tax()), (words.total, content.total())]
    {
        sheet.labelled(label, &format!("{} {}", language.amount(cents), content.currency()));
    }
    sheet.text_field("invoice_number", &number).date_field("invoice_date", content.date);
    sheet.amount_field("subtotal", content.subtotal()).amount_field("tax", content.tax());
    sheet.amount_field("total", content.total()).absent_field("due_date");
    sheet
}

fn letter(content: &Content, language: Language, words: &Words) -> Sheet {
    let (customer, reference) = (format!("K-{}", content.number), format!("R{}/7", 10_000 + content.number));
    let total = format!("{} {}", language.amount(content.total()), content.currency());
    let mut sheet = Sheet::default();
    sheet.text(content.seller.name).text(content.seller.street).text(content.seller.city).gap();
    sheet.text(&format!("{}{}", words.city, language.date(content.date, Notation::Plain))).gap();
    sheet.labelled(words.subject, words.reminder);
    sheet.labelled(words.customer_number, &customer).labelled(words.reference, &reference).gap();
    sheet.text(words.greeting).gap();
    for line in words.prose {
        sheet.text(line);
    }
    sheet.gap().labelled(words.letter_total, &total);
    sheet.labelled(words.due_date, &language.date(content.due, Notation::Plain)).gap();
    sheet.text(words.closing).gap().text(content.seller.name);
    sheet.date_field("date", content.date).text_field("customer_number", &customer);
    sheet.text_field("reference", &reference).amount_field("amount_due", content.total());
    sheet.date_field("due_date", content.due).absent_field("invoice_number");
    sheet
}

fn receipt(content: &Content, language: Language, words: &Words) -> Sheet {
    let number = format!("0{}", content.number);
    let mut sheet = Sheet::default();
    sheet.text(words.receipt).text(content.seller.street).gap();
    sheet.labelled(words.receipt_number, &number);
    sheet.labelled(words.date, &language.date(content.date, Notation::Slashed)).gap();
    for item in &content.items {
        sheet.columns(item.name, &price(language, item.quantity * item.price_cents));
    }
    sheet.gap();
    sheet.columns(words.subtotal, &price(language, content.subtotal()));
    sheet.columns(words.tax, &price(language, content.tax()));
    sheet.columns(words.receipt_total, &price(language, content.total())).gap();
    sheet.text(words.thanks);
    sheet.text_field("receipt_number", &number).date_field("date", content.date);
    sheet.amount_field("subtotal", content.subtotal()).amount_field("tax", content.tax());
    sheet.amount_field("total", content.total()).absent_field("order_number");
    sheet
}

/// Returns an amount with the sign or code of its currency.
fn price(language: Language, cents: u64) -> String {
    let amount = language.amount(cents);
    if language == Language::English { format!("${amount}") } else { format!("{amount} EUR") }
}
