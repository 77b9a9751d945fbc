//! Vocabulary of the labels of values in documents, in several languages, and normalization of labels.

use std::collections::HashMap;
use std::sync::LazyLock;

use folio_types::notation::fold;

/// Canonical names, each with the labels that documents print for it, separated by `|` and normalized by [`fold`].
const VOCABULARY: [(&str, &str); 31] = [
    (
        "invoice_number",
        "invoice number|invoice no|invoice nr|invoice|invoice id|inv no|bill number|bill no|rechnungsnummer|rechnungsnr|\
         rechnungs nr|rechnung nr|rechnung|numero de facture|facture no|facture n|numero de factura|factura no|factura n|\
         numero fattura|fattura n|fattura no|factuurnummer|fakturanummer|numero da fatura",
    ),
    (
        "invoice_date",
        "invoice date|date of invoice|date of issue|issue date|issued|issued on|billing date|bill date|statement date|\
         rechnungsdatum|date de facture|date de facturation|date d emission|fecha de factura|fecha de emision|data fattura|\
         factuurdatum|fakturadatum|data de emissao",
    ),
    (
        "due_date",
        "due date|payment due|payment due date|due by|due on|due|pay by|payable by|faelligkeitsdatum|faellig am|zahlbar bis|\
         date d echeance|echeance|fecha de vencimiento|vencimiento|data scadenza|scadenza|vervaldatum|forfallodatum",
    ),
    ("date", "date|datum|fecha|data|dato|belegdatum|receipt date|purchase date|transaction date"),
    (
        "total",
        "total|total amount|total due|amount due|total amount due|grand total|balance due|total payable|amount payable|invoice total|total to pay|\
         total incl vat|please pay|gesamtbetrag|gesamtsumme|gesamt|summe|endbetrag|rechnungsbetrag|zahlbetrag|zu zahlen|\
         total ttc|montant total|net a payer|total a pagar|importe total|totale|totale fattura|totaal|att betala|totalt",
    ),
    (
        "subtotal",
        "subtotal|sub total|net amount|net total|total net|zwischensumme|nettobetrag|netto|sous total|total ht|montant ht|\
         base imponible|imponibile|subtotaal|delsumma",
    ),
    ("tax", "vat|tax|sales tax|vat amount|tax amount|gst|mwst|ust|umsatzsteuer|mehrwertsteuer|tva|iva|btw|moms"),
    ("tax_rate", "vat rate|tax rate|mwst satz|steuersatz|taux de tva|tipo de iva|aliquota iva|btw tarief"),
    ("currency", "currency|waehrung|devise|moneda|valuta|moeda"),
    ("iban", "iban"),
    ("bic", "bic|swift|swift code|bic swift"),
    (
        "seller",
        "seller|vendor|supplier|from|sold by|merchant|issuer|biller|lieferant|verkaeufer|fournisseur|vendeur|proveedor|\
         fornitore|leverancier|store|shop|company",
    ),
    (
        "buyer",
        "buyer|bill to|billed to|customer|customer name|client|sold to|invoice to|account holder|kunde|\
         rechnungsempfaenger|cliente|klant|koper|acheteur|comprador|kund",
    ),
    (
        "account_number",
        "account number|account no|account|kontonummer|numero de compte|numero de cuenta|rekeningnummer",
    ),
    (
        "order_number",
        "order number|order no|purchase order|purchase order number|po number|po no|po|order id|order|bestellnummer|\
         auftragsnummer|numero de commande|numero de pedido|ordernummer",
    ),
    (
        "customer_number",
        "customer number|customer no|customer id|client number|kundennummer|kunden nr|kundennr|numero client|\
         numero de cliente|klantnummer|kundnummer",
    ),
    (
        "tax_id",
        "vat id|vat number|vat no|vat reg no|tax id|tax number|tin|ein|ust idnr|ust id|ust id nr|steuernummer|\
         numero de tva|nif|cif|partita iva|p iva|btw nummer|seller vat id",
    ),
    (
        "payment_terms",
        "payment terms|terms|terms of payment|zahlungsbedingungen|conditions de paiement|betalingstermijn",
    ),
    ("payment_method", "payment method|paid by|payment|zahlungsart|zahlungsweise|mode de paiement|forma de pago"),
    ("reference", "reference|ref|our ref|your ref|our reference|your reference|reference number|referenz|referencia"),
    ("subject", "subject|re|betreff|betrifft|objet|asunto|oggetto|onderwerp|regarding"),
    ("receipt_number", "receipt number|receipt no|receipt|bon nr|beleg nr|belegnummer|ticket no|transaction id"),
    ("period", "billing period|service period|period|statement period|abrechnungszeitraum|leistungszeitraum|periode"),
    ("phone", "phone|telephone|tel|mobile|telefon|telefono|telefoon|fax|phone number"),
    ("email", "email|e mail|mail|courriel|correo"),
    ("quantity", "quantity|qty|menge|anzahl|quantite|qte|cantidad|quantita|aantal|antal|units"),
    (
        "unit_price",
        "unit price|price|price each|rate|each|einzelpreis|preis|ep|prix unitaire|prix|pu|precio unitario|precio|\
         prezzo unitario|prezzo|prijs|a pris|unit cost",
    ),
    (
        "amount",
        "amount|line total|total price|betrag|gesamtpreis|gp|montant|importe|importo|bedrag|belopp|net|value|debit",
    ),
    (
        "description",
        "description|item|items|product|service|article|particulars|details|beschreibung|bezeichnung|artikel|leistung|\
         designation|descripcion|concepto|descrizione|omschrijving|beskrivning|item description|name",
    ),
    ("position", "position|pos|no|nr|line|item no|art nr|artikelnr|sku|code|item number"),
    ("unit", "unit|einheit|unite|unidad|uom|eenheid"),
];

/// Words that mark the label of an identifier. The value of an identifier is text, even if it has only digits.
const IDENTIFIERS: &str = "number no nr id code iban bic swift phone telephone tel telefon fax mobile zip postcode \
                           postal account reference ref nummer numero serial sku ean isbn vin konto kundennummer \
                           rechnungsnummer receipt order meter";

/// Returns the words of a name, normalized by [`fold`], with expanded abbreviations, without `the`, `of` and `a`.
pub fn tokens(name: &str) -> Vec<String> {
    let expanded = |word: &str| match word {
        "no" | "nr" | "num" | "nummer" => "number".to_owned(),
        "qty" => "quantity".to_owned(),
        "amt" => "amount".to_owned(),
        "tel" | "telephone" => "phone".to_owned(),
        "addr" => "address".to_owned(),
        "desc" => "description".to_owned(),
        other => other.to_owned(),
    };
    let mut separated = String::with_capacity(name.len());
    let mut lower = false;
    for c in name.chars() {
        if c.is_uppercase() && lower {
            separated.push(' ');
        }
        lower = c.is_lowercase();
        separated.push(c);
    }
    fold(&separated).split(' ').filter(|word| !matches!(*word, "" | "the" | "of" | "a")).map(expanded).collect()
}

/// Returns the canonical name of a label. None: the label is unknown.
pub fn canonical(label: &str) -> Option<&'static str> {
    static NAMES: LazyLock<HashMap<String, &'static str>> = LazyLock::new(|| {
        let mut names = HashMap::new();
        for (name, phrases) in VOCABULARY {
            let phrases = phrases.split('|').map(|phrase| phrase.trim().to_owned());
            for phrase in phrases.chain(std::iter::once(name.replace('_', " "))) {
                names.entry(phrase).or_insert(name);
            }
        }
        names
    });
    // No known label is longer than 80 bytes.
    if label.len() > 80 { None } else { NAMES.get(&fold(&label.replace('_', " "))).copied() }
}

/// Returns true if a label names a sum instead of an item.
pub(super) fn is_sum(label: &str) -> bool {
    matches!(canonical(label), Some("total" | "subtotal" | "tax")) || {
        let folded = fold(label);
        let sums = [
            "total", "subtotal", "tax", "vat", "change", "cash", "card", "discount", "mwst", "summe", "tip", "balance",
            "bar", "netto", "brutto",
        ];
        folded.split(' ').any(|word| sums.contains(&word))
    }
}

/// Returns true if a label names an identifier, such as the number of an invoice.
pub fn is_identifier(label: &str) -> bool {
    let folded = fold(label);
    folded
        .split(' ')
        .any(|word| IDENTIFIERS.split(' ').any(|own| own == word) || word.ends_with("nummer") || word.ends_with("nr"))
        || matches!(canonical(label), Some("invoice_number" | "order_number" | "receipt_number"))
}

/// Converts a label to the name of a property of a schema, such as `seller_vat_id`. Empty: the normalized label has no ASCII letters
/// or digits.
pub fn property_name(label: &str) -> String {
    let ascii: String = fold(label).chars().map(|c| if c.is_ascii_alphanumeric() { c } else { ' ' }).collect();
    let mut name = ascii.split_whitespace().collect::<Vec<_>>().join("_");
    name.truncate(60);
    if name.starts_with(|c: char| c.is_ascii_digit()) { format!("field_{name}") } else { name }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_labels_mean_the_same_in_each_language() {
        for label in ["Invoice Number", "Invoice No.", "Invoice #", "Rechnungs-Nr.", "invoice_number", "Facture n°"] {
            assert_eq!(canonical(label), Some("invoice_number"), "{label}");
        }
        assert_eq!(canonical("Fälligkeitsdatum"), Some("due_date"));
        assert_eq!(canonical("Shoe size"), None);
    }

    #[test]
    fn labels_become_names_of_properties() {
        assert_eq!(property_name("Seller VAT ID"), "seller_vat_id");
        assert_eq!(property_name("Straße / Nº"), "strasse_no");
        assert_eq!(property_name("1st choice"), "field_1st_choice");
        assert_eq!(property_name("漢字"), "");
        assert_eq!(tokens("invoiceNumber"), ["invoice", "number"]);
        assert!(is_identifier("Customer no.") && !is_identifier("Total"));
    }
}
