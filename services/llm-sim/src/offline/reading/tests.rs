//! Tests with texts of PDF, OCR, CSV and Markdown.

use serde_json::Value;

use super::*;

fn value<'a>(reading: &'a Reading, label: &str) -> &'a str {
    let found = reading.fields.iter().find(|field| field.label == label);
    found.map_or_else(|| panic!("no {label} in {:#?}", reading.fields), |field| field.value.as_str())
}

#[test]
fn an_invoice_from_a_pdf_is_read_with_its_table() {
    let text = "\n\nINVOICE\n\nInvoice Number:  INV-2026-0417\n\nInvoice Date:  2026-03-17\n\nCurrency:  EUR\n\nSeller:  Nordlicht \
                Papier GmbH\n\nPos Description Quantity Unit Price Amount\n\n1 Recycled paper A4, box of 2500 sheets 12 24.90 \
                298.80\n\n2 Toner cartridge TN-423, black 4 87.50 350.00\n\nSubtotal:  804.20\n\nVAT:  152.80\n\nTotal:  \
                957.00\n\nVAT Rate:  19 %\n\nIBAN:  DE89 3704 0044 0532 0130 00\n\nPlease quote the invoice number with your \
                payment. Thank you.\n";
    let reading = read(text);
    assert_eq!(reading.title.as_deref(), Some("INVOICE"));
    assert_eq!(value(&reading, "Invoice Number"), "INV-2026-0417");
    assert_eq!(value(&reading, "Total"), "957.00");
    assert_eq!(value(&reading, "IBAN"), "DE89 3704 0044 0532 0130 00");
    assert_eq!(reading.currency, Some("EUR"));
    let [table] = reading.tables.as_slice() else { panic!("{:?}", reading.tables) };
    assert_eq!(table.columns, ["Pos", "Description", "Quantity", "Unit Price", "Amount"]);
    assert_eq!(table.rows[0], ["1", "Recycled paper A4, box of 2500 sheets", "12", "24.90", "298.80"]);
    assert_eq!(table.rows.len(), 2);
    assert_eq!(reading.fields.len(), 9);
}

#[test]
fn a_receipt_without_labels_for_its_items_is_read() {
    let text = "GREEN GROCER\n12 Market Street\nTel: 555-0134\n\nDate: 04/17/2026 14:22\nReceipt #: 00921\n\nOrganic milk        \
                $3.49\nSourdough bread     $5.20\nApples 1.2kg        $4.15\n\nSUBTOTAL            $12.84\nTAX \
                $0.64\nTOTAL               $13.48\nCASH                $20.00\nCHANGE              $6.52\n\nThank you!\n";
    let reading = read(text);
    assert_eq!(value(&reading, "Receipt #"), "00921");
    assert_eq!(value(&reading, "TOTAL"), "$13.48");
    assert_eq!(value(&reading, "TAX"), "$0.64");
    assert_eq!(reading.style.date(value(&reading, "Date")).as_deref(), Some("2026-04-17"));
    assert_eq!(reading.currency, Some("USD"));
    assert_eq!(
        reading.tables[0].rows,
        [["Organic milk", "$3.49"], ["Sourdough bread", "$5.20"], ["Apples 1.2kg", "$4.15"]]
    );
}

#[test]
fn taxes_and_payments_below_the_sum_are_no_items() {
    let reading = read(
        "CAFE AMELIE\n2 x Espresso             5,20\n1 x Croissant            1,90\nTotal EUR                7,10\nTVA 10%                  0,65\n",
    );
    assert_eq!(reading.tables[0].rows, [["2 x Espresso", "5,20"], ["1 x Croissant", "1,90"]]);
    assert_eq!(value(&reading, "Total EUR"), "7,10");
}

#[test]
fn each_cell_of_a_line_is_read_separately() {
    let reading =
        read("CORNER BAKERY\nDate 14/05/2026   Time 08:41\nTable 4    Server: Maya\n\nTOTAL              £12.45\n");
    assert_eq!(reading.style.date(value(&reading, "Date")).as_deref(), Some("2026-05-14"));
    assert_eq!(value(&reading, "Server"), "Maya");
    assert_eq!(value(&reading, "TOTAL"), "£12.45");
    assert!(reading.fields.iter().all(|field| !field.label.starts_with("Table")));
}

#[test]
fn a_german_invoice_is_read_in_german_notation() {
    let text = "Muster & Söhne GmbH\nRechnung Nr. 2026-0815\nRechnungsdatum: 17. März 2026\nFällig am: 16.04.2026\nKundennummer: \
                004711\n\nPos. Bezeichnung Menge Einzelpreis Gesamtpreis\n1 Beratung vor Ort 8 95,00 € 760,00 €\n2 Anfahrt 1 \
                45,50 € 45,50 €\n\nNettobetrag 805,50 €\nMwSt. 19 % ........ 153,05 €\nGesamtbetrag 958,55 €\n";
    let reading = read(text);
    assert!(reading.style.comma_decimal);
    assert_eq!(value(&reading, "Rechnung Nr"), "2026-0815");
    assert_eq!(reading.style.date(value(&reading, "Rechnungsdatum")).as_deref(), Some("2026-03-17"));
    assert_eq!(value(&reading, "Gesamtbetrag"), "958,55 €");
    assert_eq!(reading.style.number("958,55 €"), Some(Value::from(958.55)));
    assert_eq!(reading.tables[0].rows[0], ["1", "Beratung vor Ort", "8", "95,00 €", "760,00 €"]);
    assert_eq!(reading.tables[0].rows.len(), 2);
    assert_eq!(value_kind(reading.style, "Kundennummer", "004711"), Kind::Text);
}

#[test]
fn a_utility_bill_in_columns_is_read() {
    let text = "City Power & Light            ELECTRICITY BILL\n\nAccount Number    8841 2290 17     Statement Date   March 3, \
                2026\nService Address   14 Elm Court, Springfield\nBilling Period    Feb 1 - Feb 28, 2026\n\nMeter Reading        \
                Previous    Current     Usage\nE-99120              10,112      10,524      412 kWh\nE-99121              \
                2,001       2,150       149 kWh\n\nEnergy charge ............ $49.44\nDelivery .......... $18.10\nTotal Amount \
                Due:  $67.54\nPay by: 03/24/2026\n";
    let reading = read(text);
    assert_eq!(value(&reading, "Service Address"), "14 Elm Court, Springfield");
    assert_eq!(value(&reading, "Total Amount Due"), "$67.54");
    assert_eq!(reading.style.date(value(&reading, "Pay by")).as_deref(), Some("2026-03-24"));
    let meters = reading.tables.iter().find(|table| table.columns.contains(&"Usage".to_owned())).unwrap();
    assert_eq!(meters.rows[1], ["E-99121", "2,001", "2,150", "149 kWh"]);
}

#[test]
fn a_letter_gives_date_subject_recipient_and_sender() {
    let text = "Harbour Dental Practice\n9 Quay Road\nBristol\n\nBristol, 12 May 2026\n\nRe: Change of opening hours\n\nDear Ms \
                Okafor,\n\nfrom June on we open at 8:30 in the morning. Please call us at any time: we are glad to \
                help.\n\nKind regards,\n\nDr Helen Price\n";
    let reading = read(text);
    assert_eq!(reading.style.date(value(&reading, "Date")).as_deref(), Some("2026-05-12"));
    assert_eq!(value(&reading, "Re"), "Change of opening hours");
    assert_eq!(value(&reading, "Recipient"), "Ms Okafor");
    assert_eq!(value(&reading, "Sender"), "Dr Helen Price");
    let dated = read("Ltd\n\n14 June 2026\n\nDear Mr Haddad,\n\n**Start date:** 1 September 2026\n");
    assert_eq!((value(&dated, "Date"), value(&dated, "Start date")), ("14 June 2026", "1 September 2026"));
    assert!(reading.tables.is_empty());
}

#[test]
fn delimited_text_gives_tables_or_fields() {
    let reading = read("date,description,amount\n2026-01-02,\"Coffee, beans\",12.50\n2026-01-03,Tea,4.00\n");
    assert_eq!(reading.tables[0].columns, ["date", "description", "amount"]);
    assert_eq!(reading.tables[0].rows[0], ["2026-01-02", "Coffee, beans", "12.50"]);
    let reading = read("Field;Value\nOrder Number;A-17\nTotal;1.234,50 €\n");
    assert_eq!(value(&reading, "Order Number"), "A-17");
    assert!(reading.tables.is_empty());
    let reading = read(
        "# Trip report\n\n**Traveller:** Ana Ruiz\n- Destination: Porto\n\n| City | Nights | Cost |\n|---|---|---|\n| \
                        Porto | 3 | 240.00 |\n| Braga | 1 | 80.00 |\n",
    );
    assert_eq!(value(&reading, "Traveller"), "Ana Ruiz");
    assert_eq!(value(&reading, "Destination"), "Porto");
    assert_eq!(reading.tables[0].rows[1], ["Braga", "1", "80.00"]);
}

#[test]
fn labels_and_values_are_found_in_every_position() {
    let reading = read(
        "Bill To:\nAcme Corp\n5 Main St\n\nInvoice No: 17 Date: 2026-01-02 Total: 5.00\nNotes\nSee https://x.example/a",
    );
    assert_eq!(value(&reading, "Bill To"), "Acme Corp, 5 Main St");
    assert_eq!(value(&reading, "Invoice No"), "17");
    assert_eq!(value(&reading, "Date"), "2026-01-02");
    assert_eq!(value(&reading, "Total"), "5.00");
}

#[test]
fn a_value_whose_type_contradicts_its_label_is_not_read() {
    let reading = read(
        "Total Amount Due:\nApril 16, 2026\n\nDue Date: 957.00\nInvoice No: 2026-03-17\nVAT: 19 %\nInvoice Date: see \
         below\nTotal: 957.00\n",
    );
    let read: Vec<_> = reading.fields.iter().map(|field| (field.label.as_str(), field.value.as_str())).collect();
    assert_eq!(read, [("Total", "957.00"), ("Date", "April 16, 2026")]);
}

#[test]
fn a_column_of_labels_before_a_column_of_values_is_not_paired() {
    let reading = read("Subtotal:\n\nVAT:\n\nTotal:\n\n804.20\n152.80\n957.00\n\nInvoice No:\nA-17\n");
    let read: Vec<_> = reading.fields.iter().map(|field| (field.label.as_str(), field.value.as_str())).collect();
    assert_eq!(read, [("Invoice No", "A-17")]);
}

#[test]
fn address_blocks_in_two_columns_do_not_become_labels() {
    let reading = read(
        "Nordlicht Papier GmbH     Lindqvist & Partners AB\nSpeicherstrasse 14        Kungsgatan 21\nHamburg                   \
         Stockholm\n\nElm Court 4: rear entrance\nTotal     957.00\nDelivery Address     Quay Road 9\n",
    );
    let read: Vec<_> = reading.fields.iter().map(|field| (field.label.as_str(), field.value.as_str())).collect();
    assert_eq!(read, [("Total", "957.00"), ("Delivery Address", "Quay Road 9")]);
}

#[test]
fn prose_does_not_become_values() {
    let reading = read(
        "It was a long day. We walked 12 miles, and then, at last, we slept.\nNobody spoke; the rain had stopped.\n",
    );
    assert_eq!((reading.fields.as_slice(), reading.tables.as_slice()), (&[][..], &[][..]));
}

#[test]
fn hostile_text_does_not_fail() {
    let long = format!("{}: {}\n", "a".repeat(100_000), "b ".repeat(50_000));
    for text in [
        "",
        ":::::",
        "|||\n|||\n|||",
        "\u{0}\u{fffd}: x",
        ",,,\n,,,\n,,,",
        &long,
        &"Total: 1\n".repeat(20_000),
        &"1 ".repeat(100_000),
    ] {
        assert!(read(text).fields.len() <= FIELDS_MAX);
    }
}
