//! The resources of the pages and forms of a part: those that their contents name.
//!
//! The pages of a file often share one dictionary of resources, so that each part would contain the images and fonts of all pages. A
//! name counts as used if it occurs anywhere in the content, also in a text: a part may contain too much, and lacks nothing. If a
//! content cannot be decoded within the bound, all its resources are kept.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::io::Read as _;
use std::slice;

use flate2::read::ZlibDecoder;
use lopdf::{Dictionary, Document, Object, Stream};

/// Maximum size of a decoded content, in bytes.
const CONTENT_BYTES: usize = 16 * 1024 * 1024;
/// The resources to which a content refers by name.
const KINDS: [&[u8]; 7] = [b"XObject", b"Font", b"ExtGState", b"Pattern", b"Shading", b"ColorSpace", b"Properties"];
/// The color spaces that apply to a content without being named.
const DEFAULTS: [&[u8]; 3] = [b"DefaultGray", b"DefaultRGB", b"DefaultCMYK"];

/// Removes the resources that the contents of a page do not name.
pub(super) fn reduce_page(file: &Document, page: &mut Dictionary) {
    if let Some(content) = content_of_page(file, page) {
        reduce(file, page, &content);
    }
}

/// Removes the resources that a form or a pattern does not name. Other streams have no resources.
pub(super) fn reduce_stream(file: &Document, stream: &mut Stream) {
    if stream.dict.has(b"Resources")
        && let Some(content) = decoded(stream, CONTENT_BYTES)
    {
        reduce(file, &mut stream.dict, &content);
    }
}

fn reduce(file: &Document, holder: &mut Dictionary, content: &[u8]) {
    let resources = file.get_dict_in_dict(holder, b"Resources").ok();
    if let Some(named) = resources.and_then(|resources| named(file, resources, content)) {
        holder.set("Resources", named);
    }
}

/// Returns the resources that a content names. None: they cannot be read, or one of them uses the resources of the content.
fn named(file: &Document, resources: &Dictionary, content: &[u8]) -> Option<Dictionary> {
    let mut kinds = Vec::new();
    let mut known: BTreeSet<&[u8]> = BTreeSet::new();
    for (kind, entries) in resources.iter().filter(|(kind, _)| KINDS.contains(&kind.as_slice())) {
        let (_, entries) = file.dereference(entries).ok()?;
        let entries = entries.as_dict().ok()?;
        known.extend(entries.iter().map(|(name, _)| name.as_slice()));
        kinds.push((kind, entries));
    }
    let mut used: BTreeSet<&[u8]> = BTreeSet::from(DEFAULTS);
    used.extend(names(content).filter_map(|name| known.get(&*name).copied()));
    let mut reduced = resources.clone();
    for (kind, entries) in kinds {
        let mut kept = Dictionary::new();
        for (name, entry) in entries.iter().filter(|(name, _)| used.contains(name.as_slice())) {
            if inherits(file, entry) {
                return None;
            }
            kept.set(name.clone(), entry.clone());
        }
        reduced.set(kind.clone(), kept);
    }
    Some(reduced)
}

/// Returns true for a form, a pattern or a font that draws with the resources of the content which names it.
fn inherits(file: &Document, entry: &Object) -> bool {
    let is = |dictionary: &Dictionary, key: &[u8], name: &[u8]| {
        dictionary.get(key).and_then(Object::as_name).is_ok_and(|found| found == name)
    };
    match file.dereference(entry) {
        Ok((_, Object::Stream(Stream { dict, .. }))) => {
            (is(dict, b"Subtype", b"Form") || dict.has(b"PatternType")) && !dict.has(b"Resources")
        }
        Ok((_, Object::Dictionary(dict))) => is(dict, b"Subtype", b"Type3") && !dict.has(b"Resources"),
        _ => false,
    }
}

/// Returns the decoded contents of a page, and the appearances of its annotations that draw with its resources. None: they cannot be
/// decoded within the bound.
fn content_of_page(file: &Document, page: &Dictionary) -> Option<Vec<u8>> {
    let contents = match page.get(b"Contents") {
        Ok(contents) => match file.dereference(contents).ok()?.1 {
            Object::Array(streams) => streams.as_slice(),
            stream => slice::from_ref(stream),
        },
        Err(_) => &[],
    };
    let mut streams = Vec::with_capacity(contents.len());
    for stream in contents {
        streams.push(file.dereference(stream).ok()?.1.as_stream().ok()?);
    }
    streams.extend(appearances(file, page).into_iter().filter(|stream| !stream.dict.has(b"Resources")));
    let mut content = Vec::new();
    for stream in streams {
        let bytes_left = CONTENT_BYTES.checked_sub(content.len())?;
        content.extend(decoded(stream, bytes_left)?);
        // A name does not continue in the next stream.
        content.push(b'\n');
    }
    Some(content)
}

/// Returns the appearances of the annotations of a page, in all of their states.
fn appearances<'a>(file: &'a Document, page: &'a Dictionary) -> Vec<&'a Stream> {
    let annotations = page.get_deref(b"Annots", file).and_then(Object::as_array);
    let mut found = Vec::new();
    for annotation in annotations.into_iter().flatten() {
        let annotation = file.dereference(annotation).and_then(|(_, annotation)| annotation.as_dict());
        let Ok(appearance) = annotation.and_then(|annotation| file.get_dict_in_dict(annotation, b"AP")) else {
            continue;
        };
        for (_, object) in appearance.iter() {
            match file.dereference(object) {
                Ok((_, Object::Stream(stream))) => found.push(stream),
                Ok((_, Object::Dictionary(states))) => {
                    let states = states.iter().filter_map(|(_, state)| file.dereference(state).ok());
                    found.extend(states.filter_map(|(_, state)| state.as_stream().ok()));
                }
                _ => {}
            }
        }
    }
    found
}

/// Decodes a stream of at most `max` bytes that is stored as it is or deflated, as the streams of contents are. The decoder of lopdf has
/// no bound. None: the stream is larger, damaged or encoded in another way.
fn decoded(stream: &Stream, max: usize) -> Option<Vec<u8>> {
    let mut content = Vec::new();
    if !stream.dict.has(b"Filter") {
        content.extend_from_slice(stream.content.get(..=max).unwrap_or(&stream.content));
    } else if stream.filters().ok()? == [b"FlateDecode"] && !stream.dict.has(b"DecodeParms") {
        let limit = u64::try_from(max).ok()?.saturating_add(1);
        ZlibDecoder::new(stream.content.as_slice()).take(limit).read_to_end(&mut content).ok()?;
    } else {
        return None;
    }
    (content.len() <= max).then_some(content)
}

/// Returns the names in a content, with repetitions.
fn names(content: &[u8]) -> impl Iterator<Item = Cow<'_, [u8]>> {
    content.split(|byte| *byte == b'/').skip(1).map(|rest| {
        let end = rest.iter().position(|byte| is_delimiter(*byte)).unwrap_or(rest.len());
        unescaped(rest.get(..end).unwrap_or_default())
    })
}

fn is_delimiter(byte: u8) -> bool {
    byte == 0 || byte.is_ascii_whitespace() || b"()<>[]{}%".contains(&byte)
}

/// Replaces the escapes `#xx` of a name.
fn unescaped(name: &[u8]) -> Cow<'_, [u8]> {
    if !name.contains(&b'#') {
        return Cow::Borrowed(name);
    }
    let mut text = Vec::with_capacity(name.len());
    let mut rest = name;
    while let [first, after @ ..] = rest {
        let escaped = match rest {
            [b'#', high, low, after @ ..] => digit(*high).zip(digit(*low)).map(|digits| (digits, after)),
            _ => None,
        };
        match escaped {
            Some(((high, low), after)) => {
                text.push((high << 4) | low);
                rest = after;
            }
            None => {
                text.push(*first);
                rest = after;
            }
        }
    }
    Cow::Owned(text)
}

/// Returns the value of a hexadecimal digit.
fn digit(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).and_then(|value| u8::try_from(value).ok())
}

#[cfg(test)]
mod tests {
    use lopdf::dictionary;

    use super::super::open;
    use super::*;

    /// Returns a file with a page for each content. The pages share resources: two images, a form and a form without resources.
    fn shared(contents: Vec<Stream>) -> Vec<u8> {
        let mut file = Document::with_version("1.5");
        let (root, resources) = (file.new_object_id(), file.new_object_id());
        let image = |name: &str| {
            let dictionary = dictionary! { "Type" => "XObject", "Subtype" => "Image", "Width" => 1, "Height" => 1 };
            Stream::new(dictionary, format!("pixels of {name}").into_bytes())
        };
        let form = |resources: Option<Object>, content: &str| {
            let mut dictionary = dictionary! { "Type" => "XObject", "Subtype" => "Form" };
            if let Some(resources) = resources {
                dictionary.set("Resources", resources);
            }
            Stream::new(dictionary, content.as_bytes().to_vec())
        };
        let (first, second) = (file.add_object(image("one")), file.add_object(image("two")));
        let own = file.add_object(form(Some(resources.into()), "/Im2 Do"));
        let inheriting = file.add_object(form(None, "/Im2 Do"));
        let objects = dictionary! { "Im1" => first, "Im2" => second, "Fm1" => own, "Fm2" => inheriting };
        let objects = file.add_object(objects);
        let all = dictionary! { "XObject" => objects, "ProcSet" => vec!["PDF".into(), "ImageC".into()] };
        file.objects.insert(resources, Object::Dictionary(all));
        let mut pages: Vec<Object> = Vec::new();
        for content in contents {
            let content = file.add_object(content);
            let page = dictionary! { "Type" => "Page", "Parent" => root, "Contents" => vec![content.into()] };
            pages.push(file.add_object(page).into());
        }
        let count = i64::try_from(pages.len()).unwrap();
        let tree = dictionary! {
            "Type" => "Pages",
            "Count" => count,
            "Kids" => pages,
            "Resources" => resources,
            "MediaBox" => vec![0.into(), 0.into(), 100.into(), 100.into()],
        };
        file.objects.insert(root, Object::Dictionary(tree));
        let catalog = file.add_object(dictionary! { "Type" => "Catalog", "Pages" => root });
        file.trailer.set("Root", catalog);
        let mut bytes = Vec::new();
        file.save_to(&mut bytes).unwrap();
        bytes
    }

    fn content(text: &str) -> Stream {
        Stream::new(Dictionary::new(), text.as_bytes().to_vec())
    }

    /// Returns true for each image that the part with a page contains.
    fn images(file: &[u8], page: u32) -> (bool, bool) {
        let part = open(file).unwrap().part(page, page).unwrap();
        // The part is a valid file.
        assert_eq!(open(&part).unwrap().pages.len(), 1);
        let part = String::from_utf8_lossy(&part);
        (part.contains("pixels of one"), part.contains("pixels of two"))
    }

    #[test]
    fn a_part_contains_the_shared_resources_that_its_pages_name() {
        let mut deflated = content("q /Im2 Do Q");
        deflated.dict.set("Filter", "FlateDecode");
        let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::default());
        std::io::Write::write_all(&mut encoder, &deflated.content).unwrap();
        deflated.set_content(encoder.finish().unwrap());
        let file = shared(vec![content("q/Im1 Do Q"), deflated, content("/I#6d1 Do"), content("BT ET")]);
        assert_eq!(images(&file, 1), (true, false));
        assert_eq!(images(&file, 2), (false, true));
        assert_eq!(images(&file, 3), (true, false));
        assert_eq!(images(&file, 4), (false, false));
        let both = open(&file).unwrap().part(1, 2).unwrap();
        let both = String::from_utf8_lossy(&both);
        assert!(both.contains("pixels of one") && both.contains("pixels of two"));
    }

    #[test]
    fn a_form_keeps_the_resources_that_it_names() {
        let file = shared(vec![content("/Fm1 Do"), content("/Fm2 Do")]);
        assert_eq!(images(&file, 1), (false, true), "the form has resources of its own");
        assert_eq!(images(&file, 2), (true, true), "the form uses the resources of the page");
    }

    #[test]
    fn an_annotation_without_resources_keeps_those_of_its_page() {
        let mut file = Document::with_version("1.5");
        let image = |name: &str| Stream::new(dictionary! { "Subtype" => "Image" }, name.as_bytes().to_vec());
        let (own, stamp, other) =
            (file.add_object(image("own")), file.add_object(image("stamp")), file.add_object(image("other")));
        let appearance = file.add_object(Stream::new(dictionary! { "Subtype" => "Form" }, b"/Stamp Do".to_vec()));
        let states = dictionary! { "On" => appearance };
        let annotation = dictionary! { "Subtype" => "Stamp", "AP" => dictionary! { "N" => states } };
        let annotation = file.add_object(annotation);
        let content = file.add_object(content("/Own Do"));
        let mut page = dictionary! {
            "Contents" => content,
            "Annots" => vec![annotation.into()],
            "Resources" => dictionary! { "XObject" => dictionary! { "Own" => own, "Stamp" => stamp, "Other" => other } },
        };
        reduce_page(&file, &mut page);
        let kept = page.get(b"Resources").and_then(Object::as_dict).and_then(|kinds| kinds.get(b"XObject")).unwrap();
        let kept: Vec<_> = kept.as_dict().unwrap().iter().map(|(name, _)| name.as_slice()).collect();
        assert_eq!(kept, [&b"Own"[..], b"Stamp"]);
    }

    #[test]
    fn a_content_that_cannot_be_read_keeps_all_resources() {
        let mut encoded = content("/Im1 Do");
        encoded.dict.set("Filter", "RunLengthDecode");
        let mut damaged = content("/Im1 Do");
        damaged.dict.set("Filter", "FlateDecode");
        let file = shared(vec![encoded, damaged]);
        assert_eq!(images(&file, 1), (true, true));
        assert_eq!(images(&file, 2), (true, true));
        assert_eq!(decoded(&content("abc"), 2), None);
        assert_eq!(decoded(&content("abc"), 3).as_deref(), Some(&b"abc"[..]));
    }

    #[test]
    fn names_end_at_delimiters_and_are_unescaped() {
        let found: Vec<_> = names(b"/A/B#43 12[/D]<</E(f)>>/G#zz %/H\n/").map(Cow::into_owned).collect();
        assert_eq!(found, [&b"A"[..], b"BC", b"D", b"E", b"G#zz", b"H", b""]);
    }
}
