//! Images of office documents, HTML files and mail, in the child process.
//!
//! | format | reference to an image |
//! |---|---|
//! | documents and presentations of Microsoft | the text names the file in the package |
//! | OpenDocument, RTF and others | the text names the number of an image that the reader of the format returns |
//! | HTML | the text contains the image as a data URL |
//! | workbooks | the drawings of a sheet name files in the package |

use std::collections::BTreeMap;
use std::io::{Cursor, Read as _};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use folio_resources::IMAGES_PER_PAGE;
use image::{ImageReader, RgbImage};
use quick_xml::events::{BytesStart, Event};
use quick_xml::{Reader, XmlVersion};
use zip::ZipArchive;

use super::embedded_image::MAX_PIXELS;
use super::found::{Budget, Found, FoundImage};
use super::image::{on_white, source_limits, within};
use crate::structure::ImageReference;

/// Maximum size of an image, and of a part of the package that names images, in bytes.
const PART_BYTES: u64 = 64 * 1024 * 1024;
/// Number of bytes at the beginning of an image that contain its size.
const HEADER_BYTES: u64 = 256 * 1024;
/// The part that describes a workbook of Microsoft.
const WORKBOOK: &str = "xl/workbook.xml";

/// The images of a file.
pub(super) struct Pictures {
    /// None: the file is no ZIP archive.
    package: Option<ZipArchive<Cursor<Arc<[u8]>>>>,
    /// The folder of the package to which the references in the text are relative.
    folder: &'static str,
    /// The images that the reader of the format returned, by number. Empty images have no bytes.
    read: Vec<Bytes>,
}

impl Pictures {
    /// Opens the images of a file. `file`: the file, if it is a ZIP archive.
    pub(super) fn open(file: Option<Arc<[u8]>>, media_type: &str, read: Vec<Bytes>) -> Self {
        let package = file.and_then(|file| ZipArchive::new(Cursor::new(file)).ok());
        let folder = match media_type {
            text if text.contains("wordprocessingml") => "word",
            slides if slides.contains("presentationml") => "ppt/slides",
            _ => "",
        };
        Self { package, folder, read }
    }

    /// Returns the listed images of a page, with their sizes.
    pub(super) fn found(&mut self, references: &[ImageReference], budget: &mut Budget) -> Found {
        let image = |(number, reference): (u32, &ImageReference)| FoundImage {
            number,
            width: 0,
            height: 0,
            area: None,
            description: reference.description.clone(),
        };
        let images = (1..).zip(references).take(IMAGES_PER_PAGE).map(image).collect();
        let mut found = budget.take(Found { images, ..Found::default() });
        for image in &mut found.images {
            let at = usize::try_from(image.number).unwrap_or(usize::MAX).saturating_sub(1);
            let Some(reference) = references.get(at) else { continue };
            // A malformed image may panic the libraries.
            let size = catch_unwind(AssertUnwindSafe(|| self.size(&reference.target))).ok().flatten();
            (image.width, image.height) = size.unwrap_or_default();
        }
        found
    }

    fn size(&mut self, target: &str) -> Option<(u32, u32)> {
        let (beginning, _) = self.bytes(target, HEADER_BYTES).ok()?;
        ImageReader::new(Cursor::new(beginning)).with_guessed_format().ok()?.into_dimensions().ok()
    }

    /// Decodes the image to which a text refers.
    pub(super) fn decode(&mut self, target: &str) -> Result<RgbImage, String> {
        let (bytes, is_cut) = self.bytes(target, PART_BYTES)?;
        if is_cut {
            return Err(format!("the image has more than {} MiB", PART_BYTES >> 20));
        }
        let mut reader =
            ImageReader::new(Cursor::new(bytes)).with_guessed_format().map_err(|error| error.to_string())?;
        if reader.format().is_none() {
            return Err("unsupported image format: expected PNG, JPEG, GIF, BMP, TIFF or WebP".to_owned());
        }
        reader.limits(source_limits());
        let decoded = reader.decode().map_err(|error| format!("the image cannot be decoded: {error}"))?;
        Ok(within(on_white(decoded), MAX_PIXELS))
    }

    /// Returns at most `max` bytes of an image, and true if it is larger.
    fn bytes(&mut self, target: &str, max: u64) -> Result<(Vec<u8>, bool), String> {
        let length = usize::try_from(max).unwrap_or(usize::MAX);
        if let Some(url) = target.strip_prefix("data:") {
            let bytes = of_data_url(url)?;
            let is_cut = bytes.len() > length;
            return Ok((bytes, is_cut));
        }
        let read = number_of(target).and_then(|number| self.read.get(number)).filter(|read| !read.is_empty());
        if let Some(read) = read {
            return Ok((read.iter().copied().take(length).collect(), read.len() > length));
        }
        let path = path_in(self.folder, target).ok_or_else(not_in_file)?;
        self.member(&path, max)
    }

    /// Returns at most `max` bytes of a file in the package, and true if it is larger.
    fn member(&mut self, path: &str, max: u64) -> Result<(Vec<u8>, bool), String> {
        let package = self.package.as_mut().ok_or_else(not_in_file)?;
        let member = package.by_name(path).map_err(|_| not_in_file())?;
        let mut bytes = Vec::new();
        let read = member.take(max.saturating_add(1)).read_to_end(&mut bytes);
        read.map_err(|error| format!("the image is damaged: {error}"))?;
        let length = usize::try_from(max).unwrap_or(usize::MAX);
        let is_cut = bytes.len() > length;
        bytes.truncate(length);
        Ok((bytes, is_cut))
    }

    /// Returns the images of each sheet of a workbook, by the name of the sheet. Empty if the file cannot be read.
    pub(super) fn of_sheets(&mut self) -> BTreeMap<String, Vec<ImageReference>> {
        if let Some(content) = self.part("content.xml") {
            return of_tables(&content);
        }
        let Some(workbook) = self.part(WORKBOOK) else { return BTreeMap::new() };
        let mut sheets = Vec::new();
        each_element(&workbook, |name, element| {
            if name == b"sheet" {
                sheets.extend(attribute(element, "name").zip(attribute(element, "id")));
            }
        });
        let parts = self.relationships(WORKBOOK);
        let mut found = BTreeMap::new();
        for (name, id) in sheets {
            if let Some(sheet) = parts.iter().find(|part| part.id == id) {
                let images = self.of_sheet(&sheet.path);
                found.insert(name, images);
            }
        }
        found
    }

    fn of_sheet(&mut self, sheet: &str) -> Vec<ImageReference> {
        let mut images = Vec::new();
        for drawing in self.relationships(sheet).into_iter().filter(|part| part.kind.ends_with("/drawing")) {
            images.extend(self.of_drawing(&drawing.path));
            if images.len() >= IMAGES_PER_PAGE {
                break;
            }
        }
        images
    }

    fn of_drawing(&mut self, drawing: &str) -> Vec<ImageReference> {
        let Some(content) = self.part(drawing) else { return Vec::new() };
        let files = self.relationships(drawing);
        let (mut images, mut description) = (Vec::new(), String::new());
        each_element(&content, |name, element| match name {
            b"cNvPr" => description = attribute(element, "descr").unwrap_or_default(),
            b"blip" => {
                let id = attribute(element, "embed");
                if let Some(file) = files.iter().find(|file| Some(&file.id) == id.as_ref()) {
                    let description = std::mem::take(&mut description);
                    images.push(ImageReference { description, target: format!("/{}", file.path) });
                }
            }
            _ => {}
        });
        images
    }

    /// Returns a part of the package. None: it does not exist, or is too large.
    fn part(&mut self, path: &str) -> Option<Vec<u8>> {
        let (bytes, is_cut) = self.member(path, PART_BYTES).ok()?;
        (!is_cut).then_some(bytes)
    }

    /// Returns the files in the package to which a part refers.
    fn relationships(&mut self, part: &str) -> Vec<Relationship> {
        let (folder, name) = part.rsplit_once('/').unwrap_or(("", part));
        let Some(content) = self.part(&format!("{folder}/_rels/{name}.rels")) else { return Vec::new() };
        let mut found = Vec::new();
        each_element(&content, |name, element| {
            if name != b"Relationship" || attribute(element, "TargetMode").as_deref() == Some("External") {
                return;
            }
            let path = attribute(element, "Target").and_then(|target| path_in(folder, &target));
            if let (Some(id), Some(kind), Some(path)) = (attribute(element, "Id"), attribute(element, "Type"), path) {
                found.push(Relationship { id, kind, path });
            }
        });
        found
    }
}

struct Relationship {
    id: String,
    /// The type, a URL.
    kind: String,
    /// The path of the file in the package.
    path: String,
}

/// Returns the images of the sheets of a workbook in the OpenDocument format, which has no alternative texts in attributes.
fn of_tables(content: &[u8]) -> BTreeMap<String, Vec<ImageReference>> {
    let mut found: BTreeMap<String, Vec<ImageReference>> = BTreeMap::new();
    let mut table = None;
    each_element(content, |name, element| match name {
        b"table" => table = attribute(element, "name").or(table.take()),
        b"image" => {
            if let (Some(table), Some(path)) = (&table, attribute(element, "href")) {
                let images = found.entry(table.clone()).or_default();
                images.push(ImageReference { description: String::new(), target: format!("/{path}") });
            }
        }
        _ => {}
    });
    found
}

fn not_in_file() -> String {
    "the file does not contain the image".to_owned()
}

/// Returns the number in a reference such as `image_3.png`.
fn number_of(target: &str) -> Option<usize> {
    target.strip_prefix("image_")?.split_once('.')?.0.parse().ok()
}

/// Decodes the part of a data URL after its scheme.
fn of_data_url(url: &str) -> Result<Vec<u8>, String> {
    let malformed = || "the data URL of the image cannot be decoded".to_owned();
    let (_, data) = url.split_once(";base64,").ok_or_else(malformed)?;
    STANDARD.decode(data.trim()).map_err(|_| malformed())
}

/// Returns the path in a package of a reference that is relative to a folder. None: the path leaves the package.
fn path_in(folder: &str, target: &str) -> Option<String> {
    let (folder, target) = match target.strip_prefix('/') {
        Some(absolute) => ("", absolute),
        None => (folder, target),
    };
    let mut path: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                path.pop()?;
            }
            part => path.push(part),
        }
    }
    (!path.is_empty()).then(|| path.join("/"))
}

/// Calls a function with the local name of each element, until the end or an error of the XML.
fn each_element(xml: &[u8], mut visit: impl FnMut(&[u8], &BytesStart<'_>)) {
    let mut reader = Reader::from_reader(xml);
    while let Ok(event) = reader.read_event() {
        match event {
            Event::Start(element) | Event::Empty(element) => visit(element.local_name().as_ref(), &element),
            Event::Eof => return,
            _ => {}
        }
    }
}

/// Returns an attribute by its local name.
fn attribute(element: &BytesStart<'_>, name: &str) -> Option<String> {
    let mut attributes = element.attributes().filter_map(Result::ok);
    let found = attributes.find(|attribute| attribute.key.local_name().as_ref() == name.as_bytes())?;
    found.normalized_value(XmlVersion::Implicit1_0).ok().map(std::borrow::Cow::into_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_relative_to_its_folder_and_stays_in_the_package() {
        for (folder, target, expected) in [
            ("word", "media/image1.png", Some("word/media/image1.png")),
            ("ppt/slides", "../media/a.png", Some("ppt/media/a.png")),
            ("word", "/xl/media/a.png", Some("xl/media/a.png")),
            ("", "./Pictures//a.png", Some("Pictures/a.png")),
            ("word", "../../etc/passwd", None),
            ("word", "..", None),
        ] {
            assert_eq!(path_in(folder, target).as_deref(), expected, "{folder} {target}");
        }
    }

    #[test]
    fn references_name_numbers_and_data() {
        assert_eq!(
            ["image_12.png", "image_x.png", "media/image_1.png", "image_1"].map(number_of),
            [Some(12), None, None, None]
        );
        assert_eq!(of_data_url("image/png;base64,QUJD"), Ok(b"ABC".to_vec()));
        assert!(of_data_url("image/svg+xml,<svg/>").is_err() && of_data_url("image/png;base64,?").is_err());
    }

    #[test]
    fn sheets_of_open_documents_have_their_images() {
        let content = br#"<o:document xmlns:t="t" xmlns:d="d" xmlns:x="x"><t:table t:name="A"><d:image x:href="Pictures/1.png"/>
            <t:table-cell/></t:table><t:table t:name="B &amp; C"><d:frame><d:image x:href="Pictures/2.png"></d:image></d:frame></t:table>
            <d:image"#;
        let found = of_tables(content);
        let targets: Vec<_> = found.iter().map(|(name, images)| (name.as_str(), images[0].target.as_str())).collect();
        assert_eq!(targets, [("A", "/Pictures/1.png"), ("B & C", "/Pictures/2.png")]);
    }
}
