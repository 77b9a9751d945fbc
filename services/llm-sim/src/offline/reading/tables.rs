//! Extracts tables from lines of text: delimited tables (CSV, Markdown), rows below a heading of known columns, columns
//! that spaces separate, and item lines of receipts. The lines of a table are cleared.

use super::labelled_values::{cells, is_label};
use super::labels::{canonical, is_sum};
use super::{Field, Style, Table};

/// Maximum rows of a table.
const ROWS_MAX: usize = 500;
/// Maximum tables of a document.
const TABLES_MAX: usize = 10;

/// Extracts the tables and clears their lines. Two columns of names and values become fields instead of a table.
pub(super) fn take(lines: &mut Vec<&str>, style: Style) -> (Vec<Table>, Vec<Field>) {
    let mut tables = Vec::new();
    let mut fields = Vec::new();
    for separator in ['|', ';', ','] {
        delimited(lines, separator, style, &mut tables, &mut fields);
    }
    headed(lines, style, &mut tables);
    spaced(lines, &mut tables);
    if tables.is_empty() {
        receipt(lines, style, &mut tables);
    }
    tables.retain(|table| !table.rows.is_empty());
    tables.truncate(TABLES_MAX);
    (tables, fields)
}

/// Clears the lines of a table.
fn blank(lines: &mut [&str], from: usize, to: usize) {
    lines.iter_mut().take(to).skip(from).for_each(|line| *line = "");
}

/// Returns the cells of a delimited line, without quotes.
fn split(line: &str, separator: char) -> Vec<String> {
    let mut found = vec![String::new()];
    let mut quoted = false;
    let line = if separator == '|' { line.trim().trim_matches('|') } else { line };
    for c in line.chars() {
        if c == '"' {
            quoted = !quoted;
        } else if c == separator && !quoted {
            found.push(String::new());
        } else if let Some(cell) = found.last_mut() {
            cell.push(c);
        }
    }
    found.into_iter().map(|cell| cell.trim().to_owned()).collect()
}

/// Returns true for the rule below a Markdown heading.
fn is_rule(line: &str) -> bool {
    line.contains('-') && line.chars().all(|c| matches!(c, '-' | '|' | ':' | ' ' | '+' | '='))
}

/// Returns true if cells can be the heading of a table.
fn is_heading(cells: &[String], style: Style) -> bool {
    cells.iter().all(|cell| {
        is_label(cell)
            && cell.split_whitespace().count() <= 4
            && style.number(cell).is_none()
            && style.date(cell).is_none()
    })
}

fn delimited(lines: &mut [&str], separator: char, style: Style, tables: &mut Vec<Table>, fields: &mut Vec<Field>) {
    let mut start = 0;
    while start < lines.len() {
        let columns = lines.get(start).map_or(Vec::new(), |line| split(line, separator));
        let width = columns.len();
        if width < 2 || !is_heading(&columns, style) {
            start += 1;
            continue;
        }
        let rows: Vec<Vec<String>> = lines
            .iter()
            .skip(start + 1)
            .filter(|line| !is_rule(line))
            .map(|line| split(line, separator))
            .take_while(|cells| cells.len() == width)
            .take(ROWS_MAX)
            .collect();
        let rules = lines.iter().skip(start + 1).take(rows.len() + 1).filter(|line| is_rule(line)).count();
        let enough = if separator == ',' && width == 2 { 3 } else { 1 };
        if rows.len() >= enough {
            let end = start + 1 + rows.len() + rules;
            blank(lines, start, end);
            listed_or_table(columns, rows, tables, fields);
            start = end;
        } else {
            start += 1;
        }
    }
}

/// Adds two columns of names and values as fields, and other columns as a table.
fn listed_or_table(columns: Vec<String>, rows: Vec<Vec<String>>, tables: &mut Vec<Table>, fields: &mut Vec<Field>) {
    let names = ["field", "key", "name", "label", "property", "attribute", "item", "detail", "feld"];
    let values = ["value", "content", "data", "wert", "detail", "details"];
    let pair = |row: &[String]| match row {
        [label, value] => Some(Field { label: label.clone(), value: value.clone() }),
        _ => None,
    };
    let headed = match columns.as_slice() {
        [first, second] => {
            names.contains(&first.to_lowercase().as_str()) && values.contains(&second.to_lowercase().as_str())
        }
        _ => false,
    };
    let known = rows.iter().filter(|row| row.first().is_some_and(|label| canonical(label).is_some())).count();
    if columns.len() == 2 && (headed || known * 2 > rows.len()) {
        let heading = (!headed).then(|| pair(&columns)).flatten();
        let listed = heading.into_iter().chain(rows.iter().filter_map(|row| pair(row)));
        fields.extend(listed.filter(|field| !field.label.is_empty() && !field.value.is_empty()));
    } else {
        tables.push(Table { columns, rows });
    }
}

/// Splits a heading with single spaces into at least two known column labels. None if other words remain.
fn known_columns(line: &str) -> Option<Vec<String>> {
    if line.contains(':') || line.chars().any(|c| c.is_ascii_digit()) {
        return None;
    }
    let words: Vec<&str> = line.split_whitespace().collect();
    let mut columns: Vec<String> = Vec::new();
    let mut at = 0;
    while at < words.len() {
        let longest = (1..=3.min(words.len() - at)).rev().find_map(|count| {
            let phrase = words.get(at..at + count)?.join(" ");
            canonical(&phrase).is_some().then_some((phrase, count))
        });
        let (phrase, count) = longest?;
        columns.push(phrase);
        at += count;
    }
    let listing = ["description", "quantity", "unit_price", "amount", "position", "total", "date"];
    let usual = columns.iter().filter(|column| canonical(column).is_some_and(|name| listing.contains(&name))).count();
    (columns.len() >= 2 && usual >= 2).then_some(columns)
}

/// Finds tables below a heading of known columns.
fn headed(lines: &mut [&str], style: Style, tables: &mut Vec<Table>) {
    let mut start = 0;
    while let Some(line) = lines.get(start) {
        start += 1;
        let wide: Vec<String> = cells(line).into_iter().map(str::to_owned).collect();
        let listed = wide.len() >= 2 && wide.iter().filter(|cell| canonical(cell).is_some()).count() * 2 >= wide.len();
        let columns =
            if listed && wide.len() >= 3 && is_heading(&wide, style) { Some(wide) } else { known_columns(line) };
        let Some(columns) = columns else { continue };
        let (rows, end) = rows_below(lines, start, &columns, style);
        if !rows.is_empty() {
            blank(lines, start - 1, end);
            tables.push(Table { columns, rows });
            start = end;
        }
    }
}

/// Returns the rows below a heading, and the index of the line after the last row.
fn rows_below(lines: &[&str], start: usize, columns: &[String], style: Style) -> (Vec<Vec<String>>, usize) {
    let mut rows: Vec<Vec<String>> = Vec::new();
    let mut end = start;
    for (index, line) in lines.iter().enumerate().skip(start).take(ROWS_MAX) {
        if line.is_empty() || is_rule(line) {
            continue;
        }
        let first = cells(line).first().copied().unwrap_or_default();
        let words: Vec<&str> = line.split_whitespace().take_while(|word| style.number(word).is_none()).collect();
        if first.ends_with(':')
            || is_sum(words.join(" ").trim_end_matches(':')) && cells(line).len() < columns.len().max(3)
        {
            break;
        }
        match row(line, columns, style) {
            Some(cells) => rows.push(cells),
            None => break,
        }
        end = index + 1;
    }
    (rows, end)
}

/// Returns true if a column's cells are numbers.
fn is_numeric(column: &str) -> bool {
    matches!(canonical(column), Some("quantity" | "unit_price" | "amount" | "total" | "tax" | "subtotal" | "tax_rate"))
}

/// Returns the cells of a row: split at gaps, else numbers from the right and the rest as text. None: neither fits.
fn row(line: &str, columns: &[String], style: Style) -> Option<Vec<String>> {
    let wide = cells(line);
    let fits = |cells: &[&str]| {
        cells.len() == columns.len()
            && cells.iter().zip(columns).all(|(cell, column)| !is_numeric(column) || style.number(cell).is_some())
    };
    if fits(&wide) {
        return Some(wide.into_iter().map(str::to_owned).collect());
    }
    let text = columns.iter().position(|column| canonical(column) == Some("description"));
    let text = text.or_else(|| columns.iter().position(|column| !is_numeric(column)))?;
    let mut words: Vec<&str> = line.split_whitespace().collect();
    let mut right = Vec::new();
    for column in columns.iter().skip(text + 1).rev() {
        right.push(take_right(&mut words, column, style)?);
    }
    let mut row = Vec::with_capacity(columns.len());
    for column in columns.iter().take(text) {
        let word = (words.len() > 1).then(|| words.remove(0))?;
        if is_numeric(column) && style.number(word).is_none() {
            return None;
        }
        row.push(word.to_owned());
    }
    if words.is_empty() {
        return None;
    }
    row.push(words.join(" "));
    row.extend(right.into_iter().rev());
    Some(row)
}

/// Removes a column's cell from the right end: a number with its currency or unit, otherwise one word.
fn take_right(words: &mut Vec<&str>, column: &str, style: Style) -> Option<String> {
    for count in [2, 1] {
        let from = words.len().checked_sub(count)?;
        let cell = words.get(from..)?.join(" ");
        let number = style.number(&cell).is_some()
            && (count == 1 || cell.chars().any(|c| !c.is_ascii_digit() && !" .,'".contains(c)));
        if number || (count == 1 && !is_numeric(column)) {
            words.truncate(from);
            return Some(cell);
        }
        if words.len() < 2 {
            return None;
        }
    }
    None
}

/// Finds tables whose columns are separated by spaces: at least three lines with the same number of cells, at least
/// three each. The cells of the first line are labels.
fn spaced(lines: &mut [&str], tables: &mut Vec<Table>) {
    let mut start = 0;
    while start < lines.len() {
        let heading: Vec<String> =
            lines.get(start).map_or(Vec::new(), |line| cells(line).into_iter().map(str::to_owned).collect());
        let width = heading.len();
        if width < 3 || !heading.iter().all(|cell| is_label(cell) && !cell.contains(':')) {
            start += 1;
            continue;
        }
        let mut rows = Vec::new();
        let mut end = start + 1;
        for (index, line) in lines.iter().enumerate().skip(start + 1).take(ROWS_MAX) {
            let cells = cells(line);
            if cells.len() != width {
                if line.is_empty() {
                    continue;
                }
                break;
            }
            rows.push(cells.into_iter().map(str::to_owned).collect());
            end = index + 1;
        }
        if rows.len() >= 2 {
            blank(lines, start, end);
            tables.push(Table { columns: heading, rows });
            start = end;
        } else {
            start += 1;
        }
    }
}

/// Finds the item lines of a receipt: at least two lines with a text and an amount, above the sum.
fn receipt(lines: &mut [&str], style: Style, tables: &mut Vec<Table>) {
    let mut rows = Vec::new();
    let mut item_lines = Vec::new();
    for (index, line) in lines.iter().enumerate() {
        let mut words: Vec<&str> = line.split_whitespace().collect();
        let Some(amount) = take_right(&mut words, "amount", style).filter(|amount| amount.contains(['.', ','])) else {
            continue;
        };
        let text = words.join(" ");
        // Below the sum are taxes and payments.
        if is_sum(&text) && !rows.is_empty() {
            break;
        }
        let item = !text.contains(':') && !is_sum(&text) && canonical(&text).is_none() && style.date(line).is_none();
        let wordy = text.chars().filter(|c| c.is_alphabetic()).count() >= 3 && text.split_whitespace().count() <= 8;
        if item && wordy && !text.ends_with('.') {
            rows.push(vec![text, amount]);
            item_lines.push(index);
        }
    }
    if rows.len() >= 2 {
        for index in item_lines {
            blank(lines, index, index + 1);
        }
        tables.push(Table { columns: vec!["Description".to_owned(), "Amount".to_owned()], rows });
    }
}
