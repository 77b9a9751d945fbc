//! Builds office documents with known content. A file contains only the parts of its format that readers need.

use std::io::{Cursor, Write as _};

use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

/// A cell of a workbook: its address, such as `B2`, its type (`n`, `b` or `inlineStr`) and its value.
pub type Cell<'a> = (&'a str, &'a str, &'a str);

/// Returns an archive with these files.
#[expect(clippy::unwrap_used, reason = "an archive in memory")]
fn archive(files: &[(&str, &str)]) -> Vec<u8> {
    let mut archive = ZipWriter::new(Cursor::new(Vec::new()));
    for (name, content) in files {
        // Readers recognize a document in the OpenDocument format by this file, which is not compressed.
        let method = if *name == "mimetype" { CompressionMethod::Stored } else { CompressionMethod::Deflated };
        archive.start_file(*name, SimpleFileOptions::default().compression_method(method)).unwrap();
        archive.write_all(content.as_bytes()).unwrap();
    }
    archive.finish().unwrap().into_inner()
}

/// Returns the content types of the parts of an archive. Programs recognize the format by the type of its main part.
fn content_types(main_part: &str, format: &str) -> String {
    format!(
        r#"<?xml version="1.0"?><Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">
<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>
<Default Extension="xml" ContentType="application/xml"/>
<Override PartName="/{main_part}" ContentType="application/vnd.openxmlformats-officedocument.{format}.main+xml"/></Types>"#
    )
}

/// Returns the XML of relationships with these types and targets. Their ids are `rId1`, `rId2` and so on.
fn relationships(list: &[(&str, &str)]) -> String {
    let row = |(at, (kind, target)): (usize, &(&str, &str))| {
        let kind = format!("http://schemas.openxmlformats.org/officeDocument/2006/relationships/{kind}");
        format!(r#"<Relationship Id="rId{}" Type="{kind}" Target="{target}"/>"#, at + 1)
    };
    let rows: String = list.iter().enumerate().map(row).collect();
    format!(
        r#"<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">{rows}</Relationships>"#
    )
}

/// Returns a text document with these paragraphs and a table of two cells.
pub fn docx(paragraphs: &[&str], cells: [&str; 2]) -> Vec<u8> {
    let paragraph = |text: &&str| format!("<w:p><w:r><w:t>{text}</w:t></w:r></w:p>");
    let text: String = paragraphs.iter().map(paragraph).collect();
    let cells: String = cells.iter().map(|cell| format!("<w:tc>{}</w:tc>", paragraph(cell))).collect();
    let document = format!(
        r#"<w:document xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"><w:body>{text}<w:tbl><w:tr>{cells}</w:tr></w:tbl></w:body></w:document>"#
    );
    archive(&[
        ("[Content_Types].xml", &content_types("word/document.xml", "wordprocessingml.document")),
        ("_rels/.rels", &relationships(&[("officeDocument", "word/document.xml")])),
        ("word/document.xml", &document),
    ])
}

/// Returns a workbook with these sheets: the name, and the cells as address, type and value.
pub fn xlsx(sheets: &[(&str, &[Cell<'_>])]) -> Vec<u8> {
    let names = sheets.iter().enumerate().map(|(at, (name, _))| {
        let number = at + 1;
        format!(r#"<sheet name="{name}" sheetId="{number}" r:id="rId{number}"/>"#)
    });
    let workbook = format!(
        r#"<workbook xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main" xmlns:r="http://schemas.openxmlformats.org/officeDocument/2006/relationships"><sheets>{}</sheets></workbook>"#,
        names.collect::<String>()
    );
    let sheet = |(_, cells): &(&str, &[Cell<'_>])| {
        let cell = |(address, kind, value): &Cell<'_>| {
            let row = address.trim_start_matches(|c: char| c.is_alphabetic());
            let value = match *kind {
                "inlineStr" => format!("<is><t>{value}</t></is>"),
                _ => format!("<v>{value}</v>"),
            };
            format!(r#"<row r="{row}"><c r="{address}" t="{kind}">{value}</c></row>"#)
        };
        let rows: String = cells.iter().map(cell).collect();
        format!(
            r#"<worksheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"><sheetData>{rows}</sheetData></worksheet>"#
        )
    };
    let contents: Vec<(String, String)> =
        (1..).zip(sheets).map(|(number, one)| (format!("xl/worksheets/sheet{number}.xml"), sheet(one))).collect();
    let targets: Vec<String> = (1..=sheets.len()).map(|number| format!("worksheets/sheet{number}.xml")).collect();
    let targets: Vec<(&str, &str)> = targets.iter().map(|target| ("worksheet", target.as_str())).collect();
    let (root, rows) = (relationships(&[("officeDocument", "xl/workbook.xml")]), relationships(&targets));
    let types = content_types("xl/workbook.xml", "spreadsheetml.sheet");
    let mut files = vec![
        ("[Content_Types].xml", types.as_str()),
        ("_rels/.rels", &root),
        ("xl/workbook.xml", &workbook),
        ("xl/_rels/workbook.xml.rels", &rows),
    ];
    files.extend(contents.iter().map(|(name, content)| (name.as_str(), content.as_str())));
    archive(&files)
}

/// Returns a presentation with the text of each slide.
pub fn pptx(slides: &[&str]) -> Vec<u8> {
    const NAMES: &str = r#"xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main" xmlns:p="http://schemas.openxmlformats.org/presentationml/2006/main" xmlns:r="http://schemas.openxmlformats.org/officeDocument/2006/relationships""#;
    let slide = |text: &&str| {
        format!(
            r#"<p:sld {NAMES}><p:cSld><p:spTree><p:sp><p:txBody><a:bodyPr/><a:p><a:r><a:t>{text}</a:t></a:r></a:p></p:txBody></p:sp></p:spTree></p:cSld></p:sld>"#
        )
    };
    let ids: String = (1..=slides.len()).map(|id| format!(r#"<p:sldId id="{}" r:id="rId{id}"/>"#, 255 + id)).collect();
    let presentation = format!(r#"<p:presentation {NAMES}><p:sldIdLst>{ids}</p:sldIdLst></p:presentation>"#);
    let contents: Vec<(String, String)> =
        (1..).zip(slides).map(|(number, text)| (format!("ppt/slides/slide{number}.xml"), slide(text))).collect();
    let targets: Vec<String> = (1..=slides.len()).map(|number| format!("slides/slide{number}.xml")).collect();
    let targets: Vec<(&str, &str)> = targets.iter().map(|target| ("slide", target.as_str())).collect();
    let (root, rows) = (relationships(&[("officeDocument", "ppt/presentation.xml")]), relationships(&targets));
    let types = content_types("ppt/presentation.xml", "presentationml.presentation");
    let mut files = vec![
        ("[Content_Types].xml", types.as_str()),
        ("_rels/.rels", &root),
        ("ppt/presentation.xml", &presentation),
        ("ppt/_rels/presentation.xml.rels", &rows),
    ];
    files.extend(contents.iter().map(|(name, content)| (name.as_str(), content.as_str())));
    archive(&files)
}

/// Returns a text document in the OpenDocument format with one paragraph.
pub fn odt(paragraph: &str) -> Vec<u8> {
    let content = format!(
        r#"<office:document-content xmlns:office="urn:oasis:names:tc:opendocument:xmlns:office:1.0" xmlns:text="urn:oasis:names:tc:opendocument:xmlns:text:1.0"><office:body><office:text><text:p>{paragraph}</text:p></office:text></office:body></office:document-content>"#
    );
    archive(&[("mimetype", "application/vnd.oasis.opendocument.text"), ("content.xml", &content)])
}

/// Returns a workbook in the OpenDocument format with one sheet. `empty`: the numbers of empty rows above and of empty columns left
/// of the cells. A text that is a number becomes a cell with a number.
pub fn ods(sheet: &str, empty: (u32, u32), rows: &[&[&str]]) -> Vec<u8> {
    let cell = |text: &&str| {
        if text.parse::<f64>().is_ok() {
            return format!(r#"<table:table-cell office:value-type="float" office:value="{text}"/>"#);
        }
        format!(r#"<table:table-cell office:value-type="string"><text:p>{text}</text:p></table:table-cell>"#)
    };
    let columns = match empty.1 {
        0 => String::new(),
        columns => format!(r#"<table:table-cell table:number-columns-repeated="{columns}"/>"#),
    };
    let row = |row: &&[&str]| {
        format!("<table:table-row>{columns}{}</table:table-row>", row.iter().map(cell).collect::<String>())
    };
    let above = match empty.0 {
        0 => String::new(),
        rows => {
            format!(r#"<table:table-row table:number-rows-repeated="{rows}"><table:table-cell/></table:table-row>"#)
        }
    };
    let rows: String = rows.iter().map(row).collect();
    let content = format!(
        r#"<office:document-content xmlns:office="urn:oasis:names:tc:opendocument:xmlns:office:1.0" xmlns:table="urn:oasis:names:tc:opendocument:xmlns:table:1.0" xmlns:text="urn:oasis:names:tc:opendocument:xmlns:text:1.0"><office:body><office:spreadsheet><table:table table:name="{sheet}">{above}{rows}</table:table></office:spreadsheet></office:body></office:document-content>"#
    );
    let manifest = r#"<manifest:manifest xmlns:manifest="urn:oasis:names:tc:opendocument:xmlns:manifest:1.0"/>"#;
    archive(&[
        ("mimetype", "application/vnd.oasis.opendocument.spreadsheet"),
        ("META-INF/manifest.xml", manifest),
        ("content.xml", &content),
    ])
}
