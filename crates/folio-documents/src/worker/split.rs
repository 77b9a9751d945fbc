//! Copies pages of a PDF to new files, and reads its bookmarks, in the child process. lopdf reads and writes the files.

mod resources;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::io::{self, Write as _};

use lopdf::{Dictionary, Document, Object, ObjectId};
use serde::{Deserialize, Serialize};

use super::unpack::UnpackLimits;
use super::{Line, Output, caught};

/// Attributes that a page inherits from the nodes above it.
const INHERITED: [&[u8]; 4] = [b"Resources", b"MediaBox", b"CropBox", b"Rotate"];
/// Maximum depth of the tree of pages.
const TREE_DEPTH_MAX: usize = 64;
/// Maximum number of bookmarks that are read.
const BOOKMARKS_MAX: usize = 2_000;
/// Maximum length of the title of a bookmark, in characters.
const TITLE_CHARS: usize = 100;
/// Maximum length of a reason in the output, in characters.
const REASON_CHARS: usize = 200;
/// The reason for users if the library panics.
const DAMAGED: &str = "the file is damaged";
const LOCKED: &str = "it is protected by a password, which Folio does not store";

/// A bookmark of the first level.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FirstLevelBookmark {
    /// The number of its page, from 1.
    pub(crate) page: u32,
    pub(crate) title: String,
}

/// Writes a part for each range of pages (first and last page), or [`Line::Refused`].
pub(super) fn split(input: &[u8], ranges: &[(u32, u32)], limits: UnpackLimits, output: &mut Output) -> io::Result<()> {
    let source = match caught(DAMAGED, || open(input)) {
        Ok(source) => source,
        Err(reason) => return output.refused(reason),
    };
    let mut bytes_left = limits.bytes;
    for (first, last) in ranges {
        let part = match caught(DAMAGED, || source.part(*first, *last)) {
            Ok(part) if part.len() as u64 > limits.part_bytes.min(bytes_left) => {
                let (size, UnpackLimits { part_bytes, bytes, .. }) = (part.len(), limits);
                return output.refused(format!(
                    "pages {first} to {last} have {size} bytes; the maximum is {part_bytes}, and {bytes} for all parts"
                ));
            }
            Ok(part) => part,
            Err(reason) => return output.refused(reason),
        };
        let size = part.len() as u64;
        bytes_left -= size;
        output.line(&Line::Part { path: String::new(), size })?;
        output.out.write_all(&part)?;
    }
    output.line(&Line::End)
}

/// Writes [`Line::FirstLevelBookmarks`], or [`Line::Refused`].
pub(super) fn bookmarks(input: &[u8], output: &mut Output) -> io::Result<()> {
    match caught(DAMAGED, || open(input).map(|source| source.bookmarks())) {
        Ok(found) => {
            output.line(&Line::FirstLevelBookmarks(found))?;
            output.line(&Line::End)
        }
        Err(reason) => output.refused(reason),
    }
}

struct Source {
    file: Document,
    pages: BTreeMap<u32, ObjectId>,
    /// The objects of all pages.
    page_ids: BTreeSet<ObjectId>,
}

fn open(input: &[u8]) -> Result<Source, String> {
    let file = Document::load_mem(input).map_err(damaged)?;
    if file.is_encrypted() {
        return Err(LOCKED.to_owned());
    }
    let pages = file.get_pages();
    let page_ids = pages.values().copied().collect();
    Ok(Source { file, pages, page_ids })
}

fn damaged(error: impl Display) -> String {
    format!("the file is damaged: {error}").chars().take(REASON_CHARS).collect()
}

impl Source {
    /// Returns a file with the pages and the objects that they need. Links to other pages and form fields are removed.
    fn part(&self, first: u32, last: u32) -> Result<Vec<u8>, String> {
        let count = self.pages.len();
        if first == 0 || first > last || last as usize > count {
            return Err(format!("invalid pages {first} to {last}: the file has {count} pages"));
        }
        let ids: Vec<ObjectId> = self.pages.range(first..=last).map(|(_, id)| *id).collect();
        let mut part = Document::with_version(self.file.version.clone());
        // The objects keep their ids until all of them are copied.
        part.max_id = self.file.max_id;
        let (root, catalog) = (part.new_object_id(), part.new_object_id());
        let mut copy = PartCopy { source: self, pages: ids.iter().copied().collect(), pending: Vec::new(), part };
        for id in copy.pages.clone() {
            let mut page = self.page(id)?;
            resources::reduce_page(&self.file, &mut page);
            page.set("Parent", Object::Reference(root));
            let mut page = Object::Dictionary(page);
            copy.keep_references(&mut page);
            copy.part.objects.insert(id, page);
        }
        let kids = ids.iter().map(|id| Object::Reference(*id)).collect::<Vec<_>>();
        let mut tree = Dictionary::new();
        tree.set("Type", Object::Name(b"Pages".to_vec()));
        tree.set("Count", i64::try_from(kids.len()).map_err(damaged)?);
        tree.set("Kids", kids);
        copy.part.objects.insert(root, Object::Dictionary(tree));
        let mut contents = Dictionary::new();
        contents.set("Type", Object::Name(b"Catalog".to_vec()));
        contents.set("Pages", Object::Reference(root));
        // The part keeps the settings that show or hide layers.
        if let Ok(layers) = self.file.catalog().and_then(|catalog| catalog.get(b"OCProperties")) {
            let mut layers = layers.clone();
            copy.keep_references(&mut layers);
            contents.set("OCProperties", layers);
        }
        copy.copy_pending();
        let mut part = copy.part;
        part.objects.insert(catalog, Object::Dictionary(contents));
        part.trailer.set("Root", Object::Reference(catalog));
        part.renumber_objects();
        let mut bytes = Vec::new();
        part.save_to(&mut bytes).map_err(damaged)?;
        Ok(bytes)
    }

    /// Returns a page with the attributes that it inherits.
    fn page(&self, id: ObjectId) -> Result<Dictionary, String> {
        let mut page = self.file.get_dictionary(id).map_err(damaged)?.clone();
        // The beads of articles refer to other pages of the file.
        page.remove(b"B");
        let mut parent = page.get(b"Parent").and_then(Object::as_reference);
        for _ in 0..TREE_DEPTH_MAX {
            let Some(node) = parent.ok().and_then(|id| self.file.get_dictionary(id).ok()) else { break };
            for key in INHERITED {
                if let Ok(value) = node.get(key).cloned()
                    && !page.has(key)
                {
                    page.set(key, value);
                }
            }
            parent = node.get(b"Parent").and_then(Object::as_reference);
        }
        Ok(page)
    }

    /// Returns the bookmarks of the first level whose target is a page of the file. Named targets are skipped.
    fn bookmarks(&self) -> Vec<FirstLevelBookmark> {
        let numbers: BTreeMap<ObjectId, u32> = self.pages.iter().map(|(number, id)| (*id, *number)).collect();
        let mut found = Vec::new();
        let outlines = self.file.catalog().and_then(|catalog| self.file.get_dict_in_dict(catalog, b"Outlines"));
        let mut next = outlines.and_then(|outlines| outlines.get(b"First")).and_then(Object::as_reference).ok();
        for _ in 0..BOOKMARKS_MAX {
            let Some(item) = next.and_then(|id| self.file.get_dictionary(id).ok()) else { break };
            if let Some(page) = self.target(item).and_then(|id| numbers.get(&id)) {
                let title = item.get(b"Title").ok().and_then(|title| lopdf::decode_text_string(title).ok());
                let title = title.unwrap_or_default().chars().filter(|c| !c.is_control()).take(TITLE_CHARS).collect();
                found.push(FirstLevelBookmark { page: *page, title });
            }
            next = item.get(b"Next").and_then(Object::as_reference).ok();
        }
        found
    }

    fn target(&self, item: &Dictionary) -> Option<ObjectId> {
        let target = match item.get_deref(b"Dest", &self.file) {
            Ok(target) => target,
            Err(_) => self.file.get_dict_in_dict(item, b"A").ok()?.get_deref(b"D", &self.file).ok()?,
        };
        target.as_array().ok()?.first()?.as_reference().ok()
    }
}

/// A part that is copied from its source.
struct PartCopy<'a> {
    source: &'a Source,
    /// The pages of the part.
    pages: BTreeSet<ObjectId>,
    /// Objects to which the part refers and which are not copied yet.
    pending: Vec<ObjectId>,
    part: Document,
}

impl PartCopy<'_> {
    fn copy_pending(&mut self) {
        while let Some(id) = self.pending.pop() {
            if self.part.objects.contains_key(&id) {
                continue;
            }
            let mut object = self.source.file.objects.get(&id).cloned().unwrap_or(Object::Null);
            // A reference to another page must not copy the contents of that page.
            if is_page_node(&object) {
                object = Object::Null;
            }
            if let Object::Stream(stream) = &mut object {
                resources::reduce_stream(&self.source.file, stream);
            }
            self.keep_references(&mut object);
            self.part.objects.insert(id, object);
        }
    }

    /// Removes the references to pages that are not in the part, and adds all others to the pending objects.
    fn keep_references(&mut self, object: &mut Object) {
        match object {
            Object::Reference(id) if self.pages.contains(id) || *id > (self.source.file.max_id, 0) => {}
            Object::Reference(id) if self.source.page_ids.contains(id) => *object = Object::Null,
            Object::Reference(id) => self.pending.push(*id),
            Object::Array(items) => items.iter_mut().for_each(|item| self.keep_references(item)),
            Object::Dictionary(dictionary) => {
                if is_widget(dictionary) {
                    // The parent is the field, which contains the values on other pages.
                    dictionary.remove(b"Parent");
                }
                dictionary.iter_mut().for_each(|(_, value)| self.keep_references(value));
            }
            Object::Stream(stream) => stream.dict.iter_mut().for_each(|(_, value)| self.keep_references(value)),
            _ => {}
        }
    }
}

fn is_page_node(object: &Object) -> bool {
    let kind = object.as_dict().and_then(|dictionary| dictionary.get(b"Type")).and_then(Object::as_name);
    matches!(kind, Ok(b"Pages" | b"Page"))
}

/// Returns true if the object is an annotation that shows a form field on a page.
fn is_widget(dictionary: &Dictionary) -> bool {
    matches!(dictionary.get(b"Subtype").and_then(Object::as_name), Ok(b"Widget"))
}

#[cfg(test)]
mod tests {
    use lopdf::dictionary;

    use super::*;

    /// Returns a file of two pages with a form field that has a widget with a value on each page.
    fn form() -> Vec<u8> {
        let mut file = Document::with_version("1.5");
        let (root, field) = (file.new_object_id(), file.new_object_id());
        let (mut pages, mut widgets): (Vec<Object>, Vec<Object>) = (Vec::new(), Vec::new());
        for value in ["value of page one", "value of page two"] {
            let widget = file.add_object(dictionary! {
                "Type" => "Annot",
                "Subtype" => "Widget",
                "Parent" => field,
                "V" => Object::string_literal(value),
            });
            let page = dictionary! {
                "Type" => "Page",
                "Parent" => root,
                "MediaBox" => vec![0.into(), 0.into(), 100.into(), 100.into()],
                "Annots" => vec![widget.into()],
            };
            widgets.push(widget.into());
            pages.push(file.add_object(page).into());
        }
        file.objects.insert(field, Object::Dictionary(dictionary! { "Kids" => widgets }));
        let tree = dictionary! { "Type" => "Pages", "Count" => 2, "Kids" => pages };
        file.objects.insert(root, Object::Dictionary(tree));
        let catalog = file.add_object(dictionary! {
            "Type" => "Catalog",
            "Pages" => root,
            "AcroForm" => dictionary! { "Fields" => vec![field.into()] },
        });
        file.trailer.set("Root", catalog);
        let mut bytes = Vec::new();
        file.save_to(&mut bytes).unwrap();
        bytes
    }

    #[test]
    fn a_part_contains_no_form_values_of_other_pages() {
        let source = open(&form()).unwrap();
        for (page, own, other) in [(1, "page one", "page two"), (2, "page two", "page one")] {
            let part = String::from_utf8_lossy(&source.part(page, page).unwrap()).into_owned();
            assert!(part.contains(own) && !part.contains(other), "{part}");
        }
    }
}
