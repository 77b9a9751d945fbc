//! The structure of a page.

use folio_resources::{EmbeddedImage, Heading, Link, LinkTarget, PageArea, Table};

use super::{Sample, sample};
use crate::value::{PageElements, PageHeadings};

pub(super) fn structure(area: Option<PageArea>) -> Vec<Sample> {
    let headings = vec![Heading { level: 2, title: "Größe".into(), word: 7 }];
    let rows = vec![vec!["Item".to_owned(), "Price".into()], vec!["№ 7".into(), String::new()]];
    let table = Table { word: 3, words: 4, rows, area, is_cut: true };
    let link = |anchor: &str, target, area| Link { anchor: anchor.to_owned(), target, area };
    let url = LinkTarget::Url("https://example.com/a?b=c".to_owned());
    let image = EmbeddedImage { number: 1, width: 640, height: 480, caption: "Figure 1: Parts".to_owned(), area };
    let whole = PageElements {
        number: 3,
        tables: vec![table.clone()],
        links: vec![link("terms", url.clone(), area), link("2", LinkTarget::Page(2), None)],
        images: vec![image.clone()],
    };
    // As in a format without positions.
    let tables = vec![Table { area: None, is_cut: false, ..table }];
    let images = vec![EmbeddedImage { area: None, ..image }];
    vec![
        sample("plain", PageHeadings { number: 3, headings }),
        sample("plain", whole),
        sample("without_areas", PageElements { number: 3, tables, links: vec![link("", url, None)], images }),
    ]
}
