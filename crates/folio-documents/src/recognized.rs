//! The words that Tesseract recognized on a page image, from its TSV output.

use folio_resources::{BoundingBox, WordBoxes};

use crate::normal::is_dropped;

/// Minimum gap between columns, in heights of a word. A smaller gap is a blank.
const COLUMN: f64 = 1.5;
/// The level of the row that describes the page.
const PAGE_LEVEL: &str = "1";
const WORD_LEVEL: &str = "5";

/// A row of the TSV output: level, page, block, paragraph, line and word number, left, top, width, height, confidence, text.
struct Row<'t> {
    level: &'t str,
    /// Block, paragraph and line.
    position: [&'t str; 3],
    area: BoundingBox,
    text: &'t str,
}

impl<'t> Row<'t> {
    /// None: the row is a heading or malformed.
    fn parse(line: &'t str) -> Option<Self> {
        let mut cells = line.splitn(12, '\t');
        let (level, _page) = (cells.next()?, cells.next()?);
        let position = [cells.next()?, cells.next()?, cells.next()?];
        let _word = cells.next()?;
        let mut number = || cells.next()?.parse::<u32>().ok().map(f64::from);
        let (left, top, width, height) = (number()?, number()?, number()?, number()?);
        let area = BoundingBox { left, top, right: left + width, bottom: top + height };
        let (_confidence, text) = (cells.next()?, cells.next().unwrap_or_default());
        Some(Self { level, position, area, text })
    }

    fn height(&self) -> f64 {
        self.area.bottom - self.area.top
    }
}

/// Returns the text and the boxes of its words. Blocks and paragraphs are separated by empty lines, columns by two blanks.
pub(crate) fn read(tsv: &str) -> (String, WordBoxes) {
    let (mut width, mut height) = (0.0, 0.0);
    let (mut text, mut words) = (String::new(), Vec::new());
    let mut last: Option<Row<'_>> = None;
    for row in tsv.lines().filter_map(Row::parse) {
        if row.level == PAGE_LEVEL {
            (width, height) = (row.area.right, row.area.bottom);
        }
        let letters: String = row.text.chars().filter(|c| !is_dropped(*c)).collect();
        if row.level != WORD_LEVEL || letters.trim().is_empty() {
            continue;
        }
        if let Some(last) = &last {
            text.push_str(separator(last, &row));
        }
        for (at, word) in letters.split_whitespace().enumerate() {
            text.push_str(if at == 0 { "" } else { " " });
            text.push_str(word);
            words.push(row.area);
        }
        last = Some(row);
    }
    (text, WordBoxes::new(width, height, words))
}

fn separator(last: &Row<'_>, row: &Row<'_>) -> &'static str {
    let [block, paragraph, line] = row.position;
    if last.position == row.position {
        let gap = row.area.left - last.area.right;
        if gap > COLUMN * last.height().max(row.height()) { "  " } else { " " }
    } else if last.position == [block, paragraph, last.position[2]] && last.position[2] != line {
        "\n"
    } else {
        "\n\n"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADING: &str =
        "level\tpage_num\tblock_num\tpar_num\tline_num\tword_num\tleft\ttop\twidth\theight\tconf\ttext\n";

    #[test]
    fn words_keep_their_lines_columns_and_boxes() {
        let tsv = format!(
            "{HEADING}1\t1\t0\t0\t0\t0\t0\t0\t1000\t2000\t-1\t\n\
             5\t1\t1\t1\t1\t1\t100\t100\t90\t20\t96.1\tTotal\n\
             5\t1\t1\t1\t1\t2\t200\t100\t90\t20\t91.0\tamount\n\
             5\t1\t1\t1\t1\t3\t600\t100\t90\t20\t91.0\t7,10\n\
             5\t1\t1\t1\t2\t1\t100\t140\t90\t20\t91.0\tVAT\n\
             5\t1\t1\t1\t2\t2\t200\t140\t90\t20\t0\t \n\
             5\t1\t1\t2\t1\t1\t100\t240\t90\t20\t91.0\tThanks\n"
        );
        let (text, boxes) = read(&tsv);
        assert_eq!(text, "Total amount  7,10\nVAT\n\nThanks");
        assert_eq!(boxes.len(), 5);
        let area = boxes.fractions(2).unwrap();
        for (found, expected) in [(area.left, 0.6), (area.top, 0.05), (area.right, 0.69), (area.bottom, 0.06)] {
            assert!((found - expected).abs() < 1e-4, "{area:?}");
        }
    }

    #[test]
    fn malformed_rows_are_skipped() {
        let (text, boxes) =
            read("x\n5\t1\t1\t1\t1\t1\t-4\t100\t90\t20\t96\tno\n5\t1\t1\t1\t1\t1\t1\t1\t9\t2\t96\ta\u{ad}b c\n");
        assert_eq!((text.as_str(), boxes.len()), ("ab c", 2));
        assert_eq!(read("").0, "");
    }
}
