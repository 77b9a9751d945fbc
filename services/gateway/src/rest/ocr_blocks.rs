//! The words of a page as blocks, which clients of DocRouter read as those of Textract.

use folio_resources::{BoundingBox, TextLine, WordBoxes};
use serde::Serialize;
use utoipa::ToSchema;

/// Confidence of every block: none is stored.
const CONFIDENCE: f64 = 100.0;

/// A page, a line or a word with its position.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub(super) struct Block {
    /// `PAGE`, `LINE` or `WORD`.
    block_type: &'static str,
    /// 100: the server stores no confidence.
    confidence: f64,
    /// The text of a line or of a word.
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<String>,
    /// The position on the page.
    geometry: Geometry,
    /// Identifies the block in the document.
    id: String,
    /// The lines of a page, or the words of a line.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    relationships: Vec<Relationship>,
    /// The number of the page, from 1.
    page: u32,
}

/// A position in fractions of the page.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
struct Geometry {
    /// The smallest rectangle.
    bounding_box: Rectangle,
    /// The corners of the rectangle, clockwise from the upper left one.
    polygon: Vec<Point>,
}

/// A rectangle in fractions of the page.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
struct Rectangle {
    width: f64,
    height: f64,
    left: f64,
    top: f64,
}

/// A point in fractions of the page.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
struct Point {
    x: f64,
    y: f64,
}

/// References of a block to others.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
struct Relationship {
    /// `CHILD`.
    r#type: &'static str,
    /// The ids of the blocks.
    ids: Vec<String>,
}

impl From<BoundingBox> for Geometry {
    fn from(BoundingBox { left, top, right, bottom }: BoundingBox) -> Self {
        let corners = [(left, top), (right, top), (right, bottom), (left, bottom)];
        Self {
            bounding_box: Rectangle { width: right - left, height: bottom - top, left, top },
            polygon: corners.map(|(x, y)| Point { x, y }).to_vec(),
        }
    }
}

/// Returns the blocks of a page: the page, then each line with its words. Words without a box have no block. Empty: the page has
/// no boxes.
pub(super) fn of_page(page: u32, text: &str, boxes: &WordBoxes) -> Vec<Block> {
    if boxes.is_empty() {
        return Vec::new();
    }
    let block = |block_type, id, text, area: BoundingBox, children: Vec<String>| {
        let children = Some(children).filter(|ids| !ids.is_empty());
        Block {
            block_type,
            confidence: CONFIDENCE,
            text,
            geometry: area.into(),
            id,
            relationships: children.into_iter().map(|ids| Relationship { r#type: "CHILD", ids }).collect(),
            page,
        }
    };
    let of_page: Vec<&str> = text.split_whitespace().collect();
    let word = |position: usize| {
        let text = of_page.get(position).map(|word| (*word).to_owned());
        Some(block("WORD", format!("p{page}-w{position}"), text, boxes.fractions(position)?, Vec::new()))
    };
    let (mut below, mut lines) = (Vec::new(), Vec::new());
    for TextLine { words, area } in boxes.lines(text) {
        let Some(area) = area else { continue };
        let mut words: Vec<Block> = words.filter_map(word).collect();
        let id = format!("p{page}-l{}", lines.len());
        let text = words.iter().filter_map(|word| word.text.as_deref()).collect::<Vec<_>>().join(" ");
        let ids = words.iter().map(|word| word.id.clone()).collect();
        below.push(block("LINE", id.clone(), Some(text), area, ids));
        below.append(&mut words);
        lines.push(id);
    }
    let whole = BoundingBox { left: 0.0, top: 0.0, right: 1.0, bottom: 1.0 };
    let mut blocks = vec![block("PAGE", format!("p{page}"), None, whole, lines)];
    blocks.append(&mut below);
    blocks
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn area(left: f64, top: f64) -> BoundingBox {
        BoundingBox { left, top, right: left + 10.0, bottom: top + 5.0 }
    }

    #[test]
    fn a_page_has_lines_and_these_have_words() {
        let boxes = WordBoxes::new(100.0, 100.0, [area(0.0, 0.0), area(20.0, 0.0), area(0.0, 50.0)]);
        let blocks = of_page(2, "Total  12.50\n\n \nEUR without\n", &boxes);
        let found: Vec<_> = blocks.iter().map(|b| (b.block_type, b.id.as_str(), b.text.as_deref())).collect();
        let expected = [
            ("PAGE", "p2", None),
            ("LINE", "p2-l0", Some("Total 12.50")),
            ("WORD", "p2-w0", Some("Total")),
            ("WORD", "p2-w1", Some("12.50")),
            ("LINE", "p2-l1", Some("EUR")),
            ("WORD", "p2-w2", Some("EUR")),
        ];
        assert_eq!(found, expected);
        let children = |at: usize| blocks[at].relationships.first().map(|found| found.ids.clone()).unwrap_or_default();
        assert_eq!(children(0), ["p2-l0", "p2-l1"]);
        assert_eq!(children(1), ["p2-w0", "p2-w1"]);
        let line = &blocks[1].geometry.bounding_box;
        assert!((line.left, line.top) == (0.0, 0.0) && (line.width - 0.3).abs() < 1e-4, "{line:?}");
    }

    #[test]
    fn a_block_has_the_members_of_textract() {
        let boxes = WordBoxes::new(2.0, 2.0, [BoundingBox { left: 0.0, top: 0.0, right: 2.0, bottom: 2.0 }]);
        let blocks = json!(of_page(1, "a", &boxes));
        let geometry = json!({
            "BoundingBox": { "Width": 1.0, "Height": 1.0, "Left": 0.0, "Top": 0.0 },
            "Polygon": [{ "X": 0.0, "Y": 0.0 }, { "X": 1.0, "Y": 0.0 }, { "X": 1.0, "Y": 1.0 }, { "X": 0.0, "Y": 1.0 }],
        });
        let page = json!({
            "BlockType": "PAGE", "Confidence": 100.0, "Geometry": geometry, "Id": "p1", "Page": 1,
            "Relationships": [{ "Type": "CHILD", "Ids": ["p1-l0"] }],
        });
        let word = json!({
            "BlockType": "WORD", "Confidence": 100.0, "Geometry": geometry, "Id": "p1-w0", "Page": 1, "Text": "a",
        });
        assert_eq!((&blocks[0], &blocks[2]), (&page, &word));
    }

    #[test]
    fn a_page_without_boxes_has_no_blocks() {
        assert_eq!(of_page(1, "text", &WordBoxes::default()), []);
    }
}
