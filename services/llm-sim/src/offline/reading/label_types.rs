//! The type of value that a label requires. A value of another type was read from the wrong position, so it is dropped.

use folio_types::notation::fold;

use super::labels::canonical;
use super::{Style, currency};

/// Type that the meaning of a label requires.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ValueType {
    /// A number that is not a percentage.
    Amount,
    Number,
    Date,
    /// A text with a digit that is not a date.
    Identifier,
    Currency,
    Email,
    Phone,
    Iban,
    /// Any value except a date: an unknown label with a word for amounts.
    NoDate,
    /// Any value except a number: an unknown label with a word for dates.
    NoNumber,
}

/// Folded words for amounts in labels that the vocabulary does not contain.
const AMOUNT_WORDS: [&str; 9] = ["amount", "total", "sum", "price", "betrag", "summe", "preis", "montant", "prix"];
/// Folded words for dates in labels that the vocabulary does not contain.
const DATE_WORDS: [&str; 3] = ["date", "datum", "fecha"];
/// Minimum digits of a phone number.
const PHONE_DIGITS_MIN: usize = 5;

/// Returns true if the value has the type that the label, or the name of a property, requires.
pub(crate) fn accepts(label: &str, value: &str, style: Style) -> bool {
    let digits = value.chars().filter(char::is_ascii_digit).count();
    let (is_number, is_date) = (style.number(value).is_some(), style.date(value).is_some());
    match required(label) {
        None => true,
        Some(ValueType::Amount) => is_number && !value.contains('%'),
        Some(ValueType::Number) => is_number,
        Some(ValueType::Date) => is_date,
        Some(ValueType::Identifier) => digits > 0 && !is_date,
        Some(ValueType::Currency) => currency(value).is_some(),
        Some(ValueType::Email) => value.contains('@'),
        Some(ValueType::Phone) => digits >= PHONE_DIGITS_MIN,
        Some(ValueType::Iban) => is_iban(value),
        Some(ValueType::NoDate) => !is_date,
        Some(ValueType::NoNumber) => !is_number,
    }
}

/// Returns the required type. None: the label permits any value.
fn required(label: &str) -> Option<ValueType> {
    if let Some(name) = canonical(label) {
        return match name {
            "total" | "subtotal" | "tax" => Some(ValueType::Amount),
            "tax_rate" | "quantity" | "unit_price" | "amount" => Some(ValueType::Number),
            "invoice_date" | "due_date" | "date" => Some(ValueType::Date),
            "invoice_number" | "account_number" | "order_number" | "customer_number" | "receipt_number" => {
                Some(ValueType::Identifier)
            }
            "currency" => Some(ValueType::Currency),
            "email" => Some(ValueType::Email),
            "phone" => Some(ValueType::Phone),
            "iban" => Some(ValueType::Iban),
            _ => None,
        };
    }
    let folded = fold(&label.replace('_', " "));
    let has = |words: &[&str]| folded.split(' ').any(|word| words.contains(&word));
    match (has(&DATE_WORDS), has(&AMOUNT_WORDS)) {
        (true, false) => Some(ValueType::NoNumber),
        (false, true) => Some(ValueType::NoDate),
        _ => None,
    }
}

/// Returns true for two letters, two digits, and 11 to 30 further letters and digits, possibly in groups.
fn is_iban(text: &str) -> bool {
    let compact: String = text.chars().filter(|c| *c != ' ').collect();
    let mut characters = compact.chars();
    let country = characters.by_ref().take(2).all(|c| c.is_ascii_uppercase());
    let check = characters.by_ref().take(2).all(|c| c.is_ascii_digit());
    country && check && (15..=34).contains(&compact.len()) && characters.all(|c| c.is_ascii_alphanumeric())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_accepts_only_values_of_its_type() {
        for (label, right, wrong) in [
            ("Total", "957.00 EUR", "2026-03-17"),
            ("total_amount_due", "$12.50", "April 16, 2026"),
            ("VAT", "152.80", "19 %"),
            ("VAT Rate", "19 %", "included"),
            ("Quantity", "12 kg", "a few"),
            ("Invoice Date", "17 March 2026", "957.00"),
            ("Fällig am", "16.04.2026", "4711"),
            ("Invoice Number", "INV-17", "2026-03-17"),
            ("Rechnungsnummer", "2026-0815", "siehe oben"),
            ("Currency", "EUR", "Hamburg"),
            ("Email", "a@b.example", "none"),
            ("Tel", "+49 40 1234", "ask us"),
            ("IBAN", "DE89 3704 0044 0532 0130 00", "COBADEFFXXX"),
            ("Deposit amount", "5.00", "2026-03-17"),
            ("Start date", "next week", "957.00"),
        ] {
            assert!(accepts(label, right, Style::default()), "{label}: {right}");
            assert!(!accepts(label, wrong, Style::default()), "{label}: {wrong}");
        }
        for value in ["957.00", "2026-03-17", "Porto", ""] {
            assert!(accepts("Destination", value, Style::default()), "{value}");
        }
    }
}
