//! The linked texts of the annotations of a page.

use folio_resources::{BoundingBox, Link, words};
use folio_storage::NewPage;

use super::in_one_line;
use crate::worker::found::FoundLink;

/// Returns the links of a page with the words in their areas.
pub(super) fn with_anchors(page: &NewPage, found: Vec<FoundLink>) -> Vec<Link> {
    if found.is_empty() {
        return Vec::new();
    }
    let positioned: Vec<(BoundingBox, &str)> =
        words(&page.text).enumerate().map_while(|(at, (_, word))| Some((page.boxes.fractions(at)?, word))).collect();
    let link = |FoundLink { area, target }: FoundLink| {
        let inside = area.fractions();
        let anchor = positioned.iter().filter(|(word, _)| contains(inside, *word)).map(|(_, word)| *word);
        Link { anchor: in_one_line(anchor), target, area: Some(area) }
    };
    found.into_iter().map(link).collect()
}

/// Returns true if an area contains the center of a word.
fn contains(area: BoundingBox, word: BoundingBox) -> bool {
    let (x, y) = (f64::midpoint(word.left, word.right), f64::midpoint(word.top, word.bottom));
    (area.left..=area.right).contains(&x) && (area.top..=area.bottom).contains(&y)
}

#[cfg(test)]
mod tests {
    use folio_resources::{LinkTarget, PageArea, WordBoxes};

    use super::*;

    #[test]
    fn a_link_has_the_words_in_its_area() {
        let word = |left: f64| BoundingBox { left, top: 0.1, right: left + 0.1, bottom: 0.12 };
        let boxes = WordBoxes::new(1.0, 1.0, [0.1, 0.3, 0.5].map(word));
        let page = NewPage { boxes, ..NewPage::of_text(1, "see our terms here") };
        let area = PageArea::of_fractions(BoundingBox { left: 0.3, top: 0.09, right: 0.62, bottom: 0.13 });
        let target = LinkTarget::Page(2);
        let found = with_anchors(&page, vec![FoundLink { area, target: target.clone() }]);
        assert_eq!(found, [Link { anchor: "our terms".to_owned(), target, area: Some(area) }]);
    }
}
