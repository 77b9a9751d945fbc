//! The values and the layout of the sample invoice. `cargo run -p folio-testkit --example sample-invoice` writes it to
//! `samples/invoice.pdf`. All names in it are fictitious.

use crate::pdf::{self, Font, Page};

const LEFT: f64 = 56.0;
const RIGHT: f64 = 539.0;

/// Labels and values of the header.
pub const FACTS: [(&str, &str); 5] = [
    ("Invoice Number", "INV-2026-0417"),
    ("Invoice Date", "2026-03-17"),
    ("Due Date", "2026-04-16"),
    ("Purchase Order", "PO-88213"),
    ("Currency", "EUR"),
];

/// Position, description, quantity, unit price and amount of each item.
pub const ITEMS: [[&str; 5]; 4] = [
    ["1", "Recycled paper A4, box of 2500 sheets", "12", "24.90", "298.80"],
    ["2", "Toner cartridge TN-423, black", "4", "87.50", "350.00"],
    ["3", "Archive boxes, pack of 10", "6", "18.40", "110.40"],
    ["4", "Delivery and unloading", "1", "45.00", "45.00"],
];

/// Labels and values of the sums.
pub const SUMS: [(&str, &str); 3] = [("Subtotal", "804.20"), ("VAT", "152.80"), ("Total", "957.00")];

pub fn sample_invoice() -> Vec<u8> {
    let mut page = Page::new();
    heading(&mut page);
    parties(&mut page);
    let end = items(&mut page, 520.0);
    sums(&mut page, end - 26.0);
    payment(&mut page, 190.0);
    pdf::document(&[page])
}

fn heading(page: &mut Page) {
    page.text(LEFT, 780.0, 22.0, Font::Bold, "INVOICE");
    let mut y = 748.0;
    for (label, value) in FACTS {
        labelled(page, y, label, value);
        y -= 16.0;
    }
    page.line((LEFT, 672.0), (RIGHT, 672.0));
}

fn parties(page: &mut Page) {
    let rows = [
        ("Seller", "Nordlicht Papier GmbH"),
        ("Seller Address", "Speicherstrasse 14, 20457 Hamburg, Germany"),
        ("Seller VAT ID", "DE123456789"),
        ("Buyer", "Lindqvist & Partners AB"),
        ("Buyer Address", "Kungsgatan 21, 111 43 Stockholm, Sweden"),
        ("Contact", "billing@nordlicht-papier.example"),
    ];
    let mut y = 652.0;
    for (label, value) in rows {
        labelled(page, y, label, value);
        y -= 16.0;
    }
}

fn labelled(page: &mut Page, y: f64, label: &str, value: &str) {
    page.text(LEFT, y, 10.0, Font::Bold, &format!("{label}: "));
    page.text(LEFT + 110.0, y, 10.0, Font::Regular, value);
}

fn items(page: &mut Page, top: f64) -> f64 {
    let head = |page: &mut Page, x: f64, text: &str| {
        page.text(x, top, 10.0, Font::Bold, text);
    };
    head(page, LEFT, "Pos");
    head(page, LEFT + 34.0, "Description");
    head(page, 360.0, "Quantity");
    head(page, 425.0, "Unit Price");
    head(page, 500.0, "Amount");
    page.line((LEFT, top - 6.0), (RIGHT, top - 6.0));
    let mut y = top - 22.0;
    for [position, description, quantity, price, amount] in ITEMS {
        page.text(LEFT, y, 10.0, Font::Regular, position);
        page.text(LEFT + 34.0, y, 10.0, Font::Regular, description);
        page.number_right(402.0, y, 10.0, Font::Regular, quantity);
        page.number_right(474.0, y, 10.0, Font::Regular, price);
        page.number_right(RIGHT, y, 10.0, Font::Regular, amount);
        y -= 18.0;
    }
    page.line((LEFT, y + 8.0), (RIGHT, y + 8.0));
    y
}

fn sums(page: &mut Page, top: f64) {
    let mut y = top;
    for (label, value) in SUMS {
        let font = if label == "Total" { Font::Bold } else { Font::Regular };
        page.text(400.0, y, 11.0, font, &format!("{label}: "));
        page.number_right(RIGHT, y, 11.0, font, value);
        y -= 18.0;
    }
}

fn payment(page: &mut Page, top: f64) {
    labelled(page, top, "VAT Rate", "19 %");
    labelled(page, top - 16.0, "Payment Terms", "30 days net");
    labelled(page, top - 32.0, "IBAN", "DE89 3704 0044 0532 0130 00");
    labelled(page, top - 48.0, "BIC", "COBADEFFXXX");
    page.text(LEFT, top - 80.0, 9.0, Font::Regular, "Please quote the invoice number with your payment. Thank you.");
}
