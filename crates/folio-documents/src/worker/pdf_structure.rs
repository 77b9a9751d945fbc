//! Links and bookmarks of a PDF, in the child process. All walks are bounded, because a file may contain cycles.

use std::collections::{BTreeMap, HashMap, HashSet};

use folio_resources::{BoundingBox, LINK_TARGET_BYTES, LINKS_PER_PAGE, LinkTarget, PageArea};
use hayro_interpret::TransformExt as _;
use hayro_interpret::hayro_syntax::Pdf;
use hayro_interpret::hayro_syntax::object::{Array, Dict, Name, Object, ObjectIdentifier, Rect, String as PdfString};
use hayro_interpret::hayro_syntax::page::Page;
use hayro_interpret::kurbo::{Affine, Point};

use super::found::{Bookmark, FoundLink};
use super::structured_invoice::decoded;

/// Maximum number of annotations of a page that are read.
const ANNOTATIONS_MAX: usize = 4 * LINKS_PER_PAGE;
/// Maximum number of named destinations of a document.
const NAMES_MAX: usize = 20_000;
/// Maximum number of nodes of a tree that are read.
const NODES_MAX: usize = 4_096;
/// Maximum length of a bookmark's title in characters.
const TITLE_CHARS: usize = 400;

/// A page with a position from its top, in fractions of its height. None: the destination has no position.
type Destination = (u32, Option<f32>);

/// The destinations in a document.
pub(super) struct Destinations<'a> {
    pages: &'a [Page<'a>],
    numbers: HashMap<ObjectIdentifier, u32>,
    names: HashMap<Vec<u8>, Object<'a>>,
}

impl<'a> Destinations<'a> {
    pub(super) fn of(pdf: &'a Pdf) -> Self {
        let pages: &[Page<'a>] = pdf.pages();
        let numbers = (0..).zip(pages).filter_map(|(number, page)| Some((page.raw().obj_id()?, number))).collect();
        Self { pages, numbers, names: catalog(pdf).map(|catalog| names(&catalog)).unwrap_or_default() }
    }

    /// Resolves a destination: an array, or the name of one.
    fn resolve(&self, destination: Object<'a>) -> Option<Destination> {
        let array = match destination {
            Object::Array(array) => array,
            Object::String(name) => self.named(name.as_bytes())?,
            Object::Name(name) => self.named(&name)?,
            Object::Dict(dict) => dict.get::<Array<'_>>("D")?,
            _ => return None,
        };
        let number = match array.raw_iter().next()?.as_obj_ref() {
            Some(page) => *self.numbers.get(&page.into())?,
            None => u32::try_from(array.iter::<Object<'_>>().next()?.into_i32()?).ok()?,
        };
        let page = self.pages.get(usize::try_from(number).ok()?)?;
        Some((number, top(page, &array)))
    }

    fn named(&self, name: &[u8]) -> Option<Array<'a>> {
        match self.names.get(name)? {
            Object::Array(array) => Some(array.clone()),
            Object::Dict(dict) => dict.get("D"),
            _ => None,
        }
    }

    /// Returns the destination of an outline item or of a link.
    fn of_item(&self, item: &Dict<'a>) -> Option<Destination> {
        let action =
            || item.get::<Dict<'_>>("A").filter(|action| is_named(action, "S", b"GoTo"))?.get::<Object<'_>>("D");
        self.resolve(item.get::<Object<'_>>("Dest").or_else(action)?)
    }

    /// Returns the links of a page. `size`: width and height of the page as it is displayed.
    pub(super) fn links(&self, page: &Page<'a>, (width, height): (f64, f64)) -> Vec<FoundLink> {
        let Some(annotations) = page.raw().get::<Array<'_>>("Annots") else { return Vec::new() };
        let transform = page.initial_transform(true).to_kurbo();
        let annotations = annotations.iter::<Object<'_>>().take(ANNOTATIONS_MAX).filter_map(Object::into_dict);
        let links = annotations.filter(|annotation| is_named(annotation, "Subtype", b"Link")).filter_map(|link| {
            let Rect { x0, y0, x1, y1 } = link.get::<Rect>("Rect")?;
            let corners = [(x0, y0), (x1, y1)].map(|(x, y)| transform * Point::new(x, y));
            let area = BoundingBox::around(corners.map(|corner| (corner.x, corner.y)));
            Some(FoundLink { area: PageArea::new(area, width, height), target: self.target(&link)? })
        });
        links.take(LINKS_PER_PAGE).collect()
    }

    fn target(&self, link: &Dict<'a>) -> Option<LinkTarget> {
        if let Some((page, _)) = self.of_item(link) {
            return Some(LinkTarget::Page(page.saturating_add(1)));
        }
        let action = link.get::<Dict<'_>>("A")?;
        let text = match action.get::<PdfString<'_>>("URI") {
            Some(uri) => decoded(uri.as_bytes()),
            // A link to another file.
            None => match action.get::<Object<'_>>("F")? {
                Object::String(name) => decoded(name.as_bytes()),
                Object::Dict(file) => decoded(file.get::<PdfString<'_>>("UF").or_else(|| file.get("F"))?.as_bytes()),
                _ => return None,
            },
        };
        let text = text.trim();
        (!text.is_empty() && text.len() <= LINK_TARGET_BYTES).then(|| LinkTarget::Url(text.to_owned()))
    }

    /// Returns the bookmarks that refer to a page, by the number of the page, from 0.
    pub(super) fn bookmarks(&self, pdf: &'a Pdf) -> BTreeMap<u32, Vec<Bookmark>> {
        let mut found: BTreeMap<u32, Vec<Bookmark>> = BTreeMap::new();
        let first = catalog(pdf).and_then(|catalog| catalog.get::<Dict<'_>>("Outlines")?.get::<Dict<'_>>("First"));
        let mut next: Vec<(Dict<'a>, u8)> = first.into_iter().map(|item| (item, 1)).collect();
        let (mut seen, mut visited) = (HashSet::new(), 0);
        while let Some((item, level)) = next.pop().filter(|_| visited < NODES_MAX) {
            visited += 1;
            if item.obj_id().is_some_and(|id| !seen.insert(id)) {
                continue;
            }
            // The items below an item precede the next one.
            next.extend(item.get::<Dict<'_>>("Next").map(|item| (item, level)));
            next.extend(item.get::<Dict<'_>>("First").map(|item| (item, level.saturating_add(1))));
            let Some(title) = item.get::<PdfString<'_>>("Title") else { continue };
            let title: String =
                decoded(title.as_bytes()).chars().filter(|c| !c.is_control()).take(TITLE_CHARS).collect();
            if let Some((page, top)) = self.of_item(&item).filter(|_| !title.trim().is_empty()) {
                found.entry(page).or_default().push(Bookmark { level, title, top });
            }
        }
        found
    }
}

fn catalog(pdf: &Pdf) -> Option<Dict<'_>> {
    pdf.xref().get::<Dict<'_>>(pdf.xref().root_id())
}

fn is_named(dict: &Dict<'_>, key: &str, name: &[u8]) -> bool {
    dict.get::<Name<'_>>(key).is_some_and(|found| &*found == name)
}

/// Returns the named destinations: those of the catalog, and those of its tree of names.
fn names<'a>(catalog: &Dict<'a>) -> HashMap<Vec<u8>, Object<'a>> {
    let mut found = HashMap::new();
    if let Some(old) = catalog.get::<Dict<'_>>("Dests") {
        let entries =
            old.keys().take(NAMES_MAX).filter_map(|name| Some((name.to_vec(), old.get::<Object<'_>>(&*name)?)));
        found.extend(entries);
    }
    let root = catalog.get::<Dict<'_>>("Names").and_then(|names| names.get::<Dict<'_>>("Dests"));
    let mut nodes: Vec<Dict<'a>> = root.into_iter().collect();
    let mut visited = 0;
    while let Some(node) = nodes.pop().filter(|_| visited < NODES_MAX && found.len() < NAMES_MAX) {
        visited += 1;
        if let Some(pairs) = node.get::<Array<'_>>("Names") {
            let mut pairs = pairs.iter::<Object<'_>>();
            while let (Some(name), Some(destination)) = (pairs.next(), pairs.next()) {
                if found.len() >= NAMES_MAX {
                    break;
                }
                if let Some(name) = name.into_string() {
                    found.insert(name.to_vec(), destination);
                }
            }
        }
        if let Some(kids) = node.get::<Array<'_>>("Kids") {
            nodes.extend(kids.iter::<Object<'_>>().filter_map(Object::into_dict).take(NODES_MAX));
        }
    }
    found
}

/// Returns the position of a destination from the top of its page, in fractions of the height.
fn top(page: &Page<'_>, destination: &Array<'_>) -> Option<f32> {
    let mut parts = destination.iter::<Object<'_>>().skip(1);
    let fit = parts.next()?.into_name()?;
    let at = match &*fit {
        b"XYZ" => 1,
        b"FitH" | b"FitBH" => 0,
        b"FitR" => 3,
        _ => return None,
    };
    let y = f64::from(parts.nth(at)?.into_f32()?);
    let transform: Affine = page.initial_transform(true).to_kurbo();
    let (_, height) = page.render_dimensions();
    #[expect(clippy::cast_possible_truncation, reason = "a position needs no more than seven digits")]
    let top = ((transform * Point::new(0.0, y)).y / f64::from(height)) as f32;
    top.is_finite().then(|| top.clamp(0.0, 1.0))
}
