//! Reads a document's text by rules: labelled values (`Invoice Number: 17`) and tables. It keeps labels as printed.

use jiff::civil::Date;
use serde_json::Value;

/// Maximum number of labelled values of a document. Further values are omitted.
const FIELDS_MAX: usize = 60;
/// Maximum number of lines that are read.
const LINES_MAX: usize = 20_000;
/// Maximum length of a line, in bytes. Longer lines are skipped as prose.
const LINE_BYTES: usize = 600;

/// Column names by which a heading is recognized if single spaces separate its columns.
const COLUMNS: [&str; 12] = [
    "pos",
    "position",
    "item",
    "description",
    "article",
    "quantity",
    "qty",
    "unit price",
    "price",
    "amount",
    "total",
    "date",
];
/// Columns of [`COLUMNS`] whose cells are texts of several words.
const TEXTS: [&str; 3] = ["item", "description", "article"];

/// Formats of dates.
const DATES: [&str; 7] = ["%Y-%m-%d", "%d.%m.%Y", "%d/%m/%Y", "%d %B %Y", "%d %b %Y", "%B %d, %Y", "%b %d, %Y"];

/// Currency signs and codes at either end of an amount.
const CURRENCIES: [&str; 6] = ["EUR", "USD", "GBP", "CHF", "SEK", "JPY"];

/// Words in labels of identifiers. The value of an identifier is text, even if it has only digits.
const IDENTIFIERS: [&str; 7] = ["number", "no", "id", "code", "reference", "account", "phone"];

/// Values read in a document.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Reading {
    /// Heading. None: not found.
    pub(super) title: Option<String>,
    /// Labels and values as printed, in document order, with unique labels.
    pub(super) fields: Vec<(String, String)>,
    /// Tables in document order.
    pub(super) tables: Vec<Table>,
}

/// A table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Table {
    /// Labels of the columns.
    pub(super) columns: Vec<String>,
    /// Rows with one cell per column.
    pub(super) rows: Vec<Vec<String>>,
}

/// Reads a text.
pub(super) fn read(text: &str) -> Reading {
    let lines = text.lines().take(LINES_MAX).map(str::trim).filter(|line| line.len() <= LINE_BYTES);
    let mut lines = lines.filter(|line| !line.is_empty() && !is_rule(line)).peekable();
    let mut reading = Reading::default();
    let mut read_lines = 0;
    while let Some(line) = lines.next() {
        read_lines += 1;
        if let Some(columns) = heading(line) {
            let mut rows = Vec::new();
            while let Some(row) = lines.peek().and_then(|line| row(line, &columns)) {
                rows.push(row);
                lines.next();
            }
            if !rows.is_empty() {
                reading.tables.push(Table { columns, rows });
                continue;
            }
        }
        let words = line.split_whitespace().count();
        if reading.title.is_none()
            && read_lines <= 3
            && words <= 6
            && !line.contains(|c: char| ":,0123456789".contains(c))
        {
            reading.title = Some(line.trim_start_matches(['#', ' ']).to_owned());
        }
        read_fields(line, &mut reading.fields);
    }
    reading
}

/// Returns true for the rule below a Markdown heading.
fn is_rule(line: &str) -> bool {
    line.contains('-') && line.chars().all(|c| matches!(c, '-' | '|' | ':' | ' ' | '+' | '='))
}

/// Returns the cells of a line, which bars, tabs or gaps separate.
fn cells(line: &str) -> Vec<&str> {
    line.split(['|', '\t']).flat_map(|part| part.split("  ")).map(str::trim).filter(|cell| !cell.is_empty()).collect()
}

/// Returns the columns that a line names: at least three cells without digits and colons, or at least two known columns.
fn heading(line: &str) -> Option<Vec<String>> {
    let cells = cells(line);
    let is_name = |cell: &&str| is_label(cell) && !cell.contains(|c: char| c == ':' || c.is_ascii_digit());
    if cells.len() >= 3 && cells.iter().all(is_name) {
        return Some(cells.into_iter().map(str::to_owned).collect());
    }
    let words: Vec<&str> = line.split_whitespace().collect();
    let (mut columns, mut at) = (Vec::new(), 0);
    while at < words.len() {
        let names = [2, 1].into_iter().filter_map(|count| Some((words.get(at..at + count)?.join(" "), count)));
        let (name, count) = names.into_iter().find(|(name, _)| COLUMNS.contains(&name.to_lowercase().as_str()))?;
        columns.push(name);
        at += count;
    }
    (columns.len() >= 2).then_some(columns)
}

/// Returns the cells of a row: split at gaps if they fit, otherwise numbers from the right and the rest as text.
fn row(line: &str, columns: &[String]) -> Option<Vec<String>> {
    let wide = cells(line);
    if wide.first()?.ends_with(':') {
        return None;
    }
    if wide.len() == columns.len() {
        return Some(wide.into_iter().map(str::to_owned).collect());
    }
    let text = columns.iter().position(|column| TEXTS.contains(&column.to_lowercase().as_str()))?;
    let mut words: Vec<&str> = line.split_whitespace().collect();
    let numbers = words.split_off(words.len().checked_sub(columns.len() - text - 1)?);
    if words.len() <= text || !numbers.iter().all(|word| number(word).is_some()) {
        return None;
    }
    let description = words.split_off(text).join(" ");
    let mut row: Vec<String> = words.into_iter().map(str::to_owned).collect();
    row.push(description);
    row.extend(numbers.into_iter().map(str::to_owned));
    Some(row)
}

/// Adds the labelled values of a line. The value of a label may be in the next cell.
fn read_fields(line: &str, fields: &mut Vec<(String, String)>) {
    let mut open: Option<&str> = None;
    for cell in cells(&line.replace("**", "")) {
        let (label, value) = match cell.split_once(':') {
            Some((label, value)) if is_label(label) && !value.starts_with("//") => (label, value.trim()),
            _ => match open.take() {
                Some(label) => (label, cell),
                None => continue,
            },
        };
        open = value.is_empty().then_some(label);
        let is_new = fields.iter().all(|(other, _)| snake(other) != snake(label));
        if !value.is_empty() && is_new && fields.len() < FIELDS_MAX {
            fields.push((label.trim_start_matches(['-', '*', ' ']).to_owned(), value.to_owned()));
        }
    }
}

/// Returns true if a text can be a label.
fn is_label(text: &str) -> bool {
    let text = text.trim_start_matches(['-', '*', ' ']);
    text.starts_with(char::is_alphabetic)
        && !text.ends_with(|c: char| c.is_ascii_digit())
        && text.len() <= 48
        && text.split_whitespace().count() <= 6
        && !text.contains(['@', '?', '!', ';'])
}

/// Parses a number with an optional currency or percent sign: `1,234.50 EUR`, `1.234,50 €`, `19 %`.
pub(super) fn number(text: &str) -> Option<Value> {
    let text = text.trim_matches(|c: char| c.is_whitespace() || "€$£%".contains(c));
    let bare = CURRENCIES.iter().find_map(|code| text.strip_prefix(code).or_else(|| text.strip_suffix(code)));
    let text = bare.unwrap_or(text).trim();
    let (sign, digits) = text.strip_prefix('-').map_or(("", text), |digits| ("-", digits));
    // The last separator is a decimal one unless three digits follow it.
    let decimal = digits.rfind([',', '.']).filter(|at| digits.len() - at != 4 || digits.starts_with('0'));
    let (whole, fraction) = decimal.and_then(|at| digits.split_at_checked(at)).unwrap_or((digits, ""));
    let fraction = fraction.trim_start_matches([',', '.']);
    let groups: Vec<&str> = whole.split([',', '.']).collect();
    let is_grouped = groups.iter().skip(1).all(|group| group.len() == 3);
    let whole = groups.concat();
    let is_number = [whole.as_str(), fraction].concat().bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || whole.len() > 15 || (whole.len() > 1 && whole.starts_with('0')) || !is_grouped || !is_number
    {
        return None;
    }
    match decimal {
        None => format!("{sign}{whole}").parse::<i64>().ok().map(Value::from),
        Some(_) => format!("{sign}{whole}.{fraction}").parse::<f64>().ok().map(Value::from),
    }
}

/// Parses a date and returns it as `YYYY-MM-DD`.
pub(super) fn date(text: &str) -> Option<String> {
    DATES.iter().find_map(|format| Date::strptime(format, text.trim()).ok()).map(|date| date.to_string())
}

/// Returns true if the value of a label is a number. The value of an identifier is not.
pub(super) fn is_number(label: &str, value: &str) -> bool {
    let words = words(label);
    number(value).is_some() && !IDENTIFIERS.iter().any(|word| words.iter().any(|own| own == word))
}

/// Returns the words of a name in lower case: `invoice`, `number` of `invoiceNumber` and `Invoice Number:`.
pub(super) fn words(name: &str) -> Vec<String> {
    let mut separated = String::with_capacity(name.len());
    let mut is_lower = false;
    for c in name.chars() {
        if c.is_uppercase() && is_lower {
            separated.push(' ');
        }
        is_lower = c.is_lowercase();
        separated.push(if c.is_alphanumeric() { c } else { ' ' });
    }
    separated.to_lowercase().split_whitespace().map(str::to_owned).collect()
}

/// Converts a label to a property name.
pub(super) fn snake(label: &str) -> String {
    let name = words(label).join("_");
    if name.starts_with(|c: char| c.is_alphabetic()) { name } else { format!("field_{name}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pdf_is_read_with_its_table() {
        let text = "\nINVOICE\n\nInvoice Number:  INV-17\n\nInvoice Date:  2026-03-17\n\nPos Description Quantity Unit \
                    Price Amount\n\n1 Recycled paper A4, box of 2500 sheets 12 24.90 298.80\n\n2 Toner 4 87.50 350.00\n\n\
                    Subtotal:  804.20\n\nVAT Rate:  19 %\n\nIBAN:  DE89 3704 0044\n\nThank you. See https://x.example/a\n";
        let reading = read(text);
        assert_eq!(reading.title.as_deref(), Some("INVOICE"));
        let labels: Vec<_> = reading.fields.iter().map(|(label, _)| label.as_str()).collect();
        assert_eq!(labels, ["Invoice Number", "Invoice Date", "Subtotal", "VAT Rate", "IBAN"]);
        let [table] = reading.tables.as_slice() else { panic!("{:?}", reading.tables) };
        assert_eq!(table.columns, ["Pos", "Description", "Quantity", "Unit Price", "Amount"]);
        assert_eq!(table.rows[0], ["1", "Recycled paper A4, box of 2500 sheets", "12", "24.90", "298.80"]);
        assert_eq!(table.rows.len(), 2);
    }

    #[test]
    fn columns_and_markdown_are_read() {
        let text = "# Trip\n\n**Traveller:** Ana Ruiz\n- Destination: Porto\nAccount   Status:  open\n\n| City | Nights | Cost \
                    |\n|---|---|---|\n| Porto | 3 | 240.00 |\n| Braga | 1 | 80.00 |\n";
        let reading = read(text);
        let pair = |label: &str, value: &str| (label.to_owned(), value.to_owned());
        let fields = [pair("Traveller", "Ana Ruiz"), pair("Destination", "Porto"), pair("Status", "open")];
        assert_eq!(reading.fields, fields);
        assert_eq!(reading.tables[0].rows[1], ["Braga", "1", "80.00"]);
    }

    #[test]
    fn numbers_and_dates_are_parsed_in_several_notations() {
        for (text, value) in [
            ("1,234.00", Some(1234.0.into())),
            ("1.234,56 €", Some(1234.56.into())),
            ("EUR 12.50", Some(12.5.into())),
            ("-3.20", Some((-3.2).into())),
            ("19 %", Some(19.into())),
            ("2,000,000", Some(2_000_000.into())),
            ("0.125", Some(0.125.into())),
            ("0042", None),
            ("2026-03-17", None),
            ("12.34.56.78", None),
            ("30 days", None),
            ("", None),
        ] {
            assert_eq!(number(text), value, "{text}");
        }
        for text in ["2026-03-17", "17.03.2026", "17/03/2026", "17 March 2026", "March 17, 2026"] {
            assert_eq!(date(text).as_deref(), Some("2026-03-17"), "{text}");
        }
        assert_eq!(date("99/99/2026"), None);
        assert!(is_number("Total", "5") && !is_number("Customer no.", "5"));
    }

    #[test]
    fn hostile_text_does_not_fail() {
        let long = format!("{}: {}\n", "a".repeat(100_000), "b ".repeat(50_000));
        for text in
            ["", ":::::", "|||\n|||", "\u{0}\u{fffd}: x", &long, &"T: 1\n".repeat(20_000), &"1 ".repeat(100_000)]
        {
            assert!(read(text).fields.len() <= FIELDS_MAX);
        }
    }
}
