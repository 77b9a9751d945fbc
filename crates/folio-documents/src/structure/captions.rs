//! The images of a page with their captions.

use folio_resources::{BoundingBox, EmbeddedImage};
use folio_storage::NewPage;

use super::in_one_line;
use super::lines::{Line, lines};
use crate::worker::found::FoundImage;

/// Maximum distance of a caption from its image, in fractions of the page.
const DISTANCE: f64 = 0.05;
/// Part of a page that a scan or a background covers. Such an image is the page itself, which has an image of its own.
const WHOLE_PAGE: f64 = 0.8;
/// First words of captions, in lower case.
const NAMES: [&str; 10] =
    ["figure", "fig.", "image", "chart", "diagram", "photo", "table", "abbildung", "abb.", "bild"];

/// Returns the images of a page, without scans and backgrounds.
pub(super) fn of_images(page: &NewPage, found: Vec<FoundImage>) -> Vec<EmbeddedImage> {
    if found.is_empty() {
        return Vec::new();
    }
    let lines: Vec<(BoundingBox, Line<'_>)> =
        lines(page).into_iter().filter_map(|line| Some((line.area(page)?, line))).collect();
    let covers_page = |image: &FoundImage| {
        image.area.is_some_and(|area| {
            let area = area.fractions();
            (area.right - area.left) * (area.bottom - area.top) >= WHOLE_PAGE
        })
    };
    let image = |image: FoundImage| {
        let FoundImage { number, width, height, area, description } = image;
        let caption = match area {
            _ if !description.is_empty() => in_one_line(description.split_whitespace()),
            Some(area) => caption(area.fractions(), &lines),
            None => String::new(),
        };
        EmbeddedImage { number, width, height, caption, area }
    };
    found.into_iter().filter(|image| !covers_page(image)).map(image).collect()
}

/// Returns the line that describes an image: a line near it that begins like a caption, otherwise the line directly below it.
fn caption(image: BoundingBox, lines: &[(BoundingBox, Line<'_>)]) -> String {
    let overlaps = |line: &BoundingBox| line.left < image.right && line.right > image.left;
    // A line of text may begin slightly inside the area of the image.
    let is_near = |distance: f64| (-DISTANCE / 5.0..=DISTANCE).contains(&distance);
    let near = |distance: fn(&BoundingBox, &BoundingBox) -> f64| {
        let mut near: Vec<(f64, &Line<'_>)> = lines
            .iter()
            .filter(|(area, _)| overlaps(area))
            .map(|(area, line)| (distance(&image, area), line))
            .filter(|(distance, _)| is_near(*distance))
            .collect();
        near.sort_by(|(a, _), (b, _)| a.total_cmp(b));
        near
    };
    let below = near(|image, line| line.top - image.bottom);
    let above = near(|image, line| image.top - line.bottom);
    let named = below.iter().chain(&above).find(|(_, line)| begins_like_caption(line.text));
    let found = named.or_else(|| below.first());
    found.map(|(_, line)| in_one_line(line.text.split_whitespace())).unwrap_or_default()
}

/// Returns the first line of the Markdown after an image, without its marks, if it begins like a caption.
pub(super) fn line_below(after: &str) -> Option<String> {
    let line = after.lines().map(str::trim).find(|line| !line.is_empty())?;
    let plain = line.replace(['*', '_'], "");
    begins_like_caption(&plain).then_some(plain)
}

fn begins_like_caption(text: &str) -> bool {
    let first = text.split_whitespace().next().unwrap_or_default().to_lowercase();
    NAMES.iter().any(|name| first.starts_with(name))
}

#[cfg(test)]
mod tests {
    use folio_resources::{PageArea, WordBoxes};

    use super::*;

    fn found(top: f64, bottom: f64) -> FoundImage {
        let area = PageArea::of_fractions(BoundingBox { left: 0.1, top, right: 0.9, bottom });
        FoundImage { number: 1, width: 64, height: 64, area: Some(area), description: String::new() }
    }

    #[test]
    fn an_image_has_the_line_that_describes_it() {
        let word = |top: f64| BoundingBox { left: 0.2, top, right: 0.3, bottom: top + 0.02 };
        let boxes = [0.1, 0.1, 0.42, 0.44, 0.44].map(word);
        let page =
            NewPage { boxes: WordBoxes::new(1.0, 1.0, boxes), ..NewPage::of_text(1, "Figure 1\ntext\nFig. 2\n") };
        let caption = |image: FoundImage| of_images(&page, vec![image]).pop().map(|image| image.caption);
        assert_eq!(caption(found(0.13, 0.41)).as_deref(), Some("Fig. 2"));
        assert_eq!(caption(found(0.13, 0.3)).as_deref(), Some("Figure 1"));
        assert_eq!(caption(found(0.6, 0.8)).as_deref(), Some(""));
        let described = FoundImage { description: "An\n engine".to_owned(), ..found(0.13, 0.4) };
        assert_eq!(caption(described).as_deref(), Some("An engine"));
        let scan = PageArea::of_fractions(BoundingBox { left: 0.0, top: 0.0, right: 1.0, bottom: 1.0 });
        assert_eq!(caption(FoundImage { area: Some(scan), ..found(0.0, 1.0) }), None, "the image is the page");
    }
}
