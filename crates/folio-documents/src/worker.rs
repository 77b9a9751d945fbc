//! The child process that parses users' files.
//!
//! The parent starts the same binary with a marker argument. [`run_if_child`] handles it before any other code of the
//! program: it confines itself ([`sandbox`]), limits its own resources, reads the file from standard input and writes
//! text to standard output, one JSON object per line, or the image of a page. The child has no secrets (its environment contains at most the
//! password of the file that it reads), no core dump and its own process group, and it is killed when its parent dies. Tesseract and pdftoppm replace it (`execve`), so
//! the same confinement and limits apply to them.

mod embedded_image;
pub(crate) mod found;
mod image;
mod layout;
mod office;
mod office_image;
mod pdf;
mod pdf_structure;
pub mod sandbox;
pub(crate) mod split;
mod structured_invoice;
mod text;
pub(crate) mod unpack;
mod workbook;

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::unix::process::CommandExt as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;

use folio_resources::{CellPosition, ImageFormat, PageImage, WordBoxes};
use nix::sys::resource::{Resource, setrlimit};
use serde::{Deserialize, Serialize};

use found::{Bookmark, Found};
use sandbox::RefusedLayer;
use split::FirstLevelBookmark;
use unpack::UnpackLimits;

/// The first argument of a child. The second argument is its task in JSON.
pub const MARKER: &str = "__folio-read-file";

/// The environment variable with the password of a protected PDF. Other users of the machine can read the arguments of a
/// process, but not its environment.
pub(crate) const PASSWORD_VARIABLE: &str = "FOLIO_FILE_PASSWORD";

/// Maximum open files of a program that creates files: LibreOffice keeps its configuration and its libraries open.
const WRITER_OPEN_FILES: u64 = 512;

/// Stack size of the parsing thread. Excessive nesting crashes only the child.
const STACK_BYTES: usize = 64 * 1024 * 1024;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Task {
    /// Maximum address space in bytes.
    pub(crate) memory_bytes: u64,
    /// Maximum processor time in seconds.
    pub(crate) cpu_seconds: u64,
    /// Maximum size of written files in bytes.
    pub(crate) file_bytes: u64,
    /// True: the child exits if the kernel refuses a required layer of its confinement.
    pub(crate) isolation_required: bool,
    pub(crate) job: Job,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Job {
    /// Reads the text of the PDF on standard input, by page, and of a structured invoice that is attached to it.
    Pdf {
        max_pages: u32,
        /// Maximum number of characters per page.
        page_chars: usize,
    },
    /// Reads the text of the office document, HTML file or mail on standard input.
    Office(OfficeSource),
    /// Decodes the text file on standard input, and divides it into pages.
    Text {
        max_pages: u32,
        /// Maximum number of characters of the document.
        document_chars: usize,
    },
    /// Renders a page of the PDF or image file on standard input.
    Image { is_pdf: bool, page: u32, dpi: u32, is_webp: bool },
    /// Writes an image that is embedded in the PDF file on standard input.
    EmbeddedImage { page: u32, number: u32 },
    /// Writes an image of the office document, HTML file or mail on standard input. Its number is that of the text of the page.
    OfficeImage { source: OfficeSource, page: u32, number: u32 },
    /// Writes the image file on standard input as a JPEG image of bounded size, without its metadata.
    ModelImage { max_pixels: u32, max_bytes: u64 },
    /// Writes the pages of the image file on standard input as a PDF file.
    PdfOfImage { max_pages: u32 },
    /// Writes the parts of the mail or archive on standard input.
    Unpack { media_type: String, limits: UnpackLimits },
    /// Writes a part for each range of pages of the PDF on standard input.
    Split {
        /// First and last page of each part, from 1.
        ranges: Vec<(u32, u32)>,
        limits: UnpackLimits,
    },
    /// Reads the bookmarks of the first level of the PDF on standard input.
    Bookmarks,
    /// Executes another program under the limits.
    Program {
        path: PathBuf,
        arguments: Vec<String>,
        /// Files and folders that the program may read, in addition to those of the system.
        readable: Vec<PathBuf>,
        /// True: the program may also create files in the scratch folder, and connect to itself by local sockets.
        #[serde(default)]
        is_writer: bool,
    },
    /// Reports the layers of the confinement that the kernel refuses.
    Probe,
}

/// The form of an office document, HTML file or mail, and the bounds within which its text is divided into pages.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct OfficeSource {
    pub(crate) media_type: String,
    pub(crate) max_pages: u32,
    /// Maximum number of characters of the document.
    pub(crate) document_chars: usize,
}

/// A line of a child's output, in JSON.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Line {
    /// The next page.
    Page {
        /// None: the page could not be read.
        text: Option<String>,
        /// The boxes of the words. Empty: the format has none.
        #[serde(default)]
        boxes: WordBoxes,
        /// True: text at the end of the page was dropped.
        #[serde(default)]
        is_cut: bool,
        /// The position of the first cell of the table of a sheet. None: the page is no sheet, or the position is unknown.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        first_cell: Option<CellPosition>,
        /// The links and images of the page.
        #[serde(default, skip_serializing_if = "Found::is_empty")]
        found: Found,
    },
    /// The bookmarks of the PDF that refer to a page, from 0. The lines of all pages precede it.
    Bookmarks { page: u32, bookmarks: Vec<Bookmark> },
    /// The file has no text.
    Refused {
        /// A reason for users.
        reason: String,
    },
    /// The password is missing, wrong or not needed.
    Locked {
        /// A reason for users. If the task has a password, the reason continues "the password".
        reason: String,
    },
    /// The image of the page, or the PDF file. Its bytes follow the line.
    Image,
    /// The image of [`Job::ModelImage`] with its size in pixels. Its bytes follow the line.
    ModelImage { width: u32, height: u32 },
    /// The next part. Its bytes follow the line.
    Part {
        /// Name or path in the file. Empty: the part has none.
        path: String,
        /// Number of bytes.
        size: u64,
    },
    /// An entry that becomes no part.
    RefusedPart {
        path: String,
        /// A reason for users.
        reason: String,
    },
    /// The bookmarks of the first level of a PDF.
    FirstLevelBookmarks(Vec<FirstLevelBookmark>),
    /// The refused layers of the confinement. The only line of [`Job::Probe`].
    RefusedLayers(Vec<RefusedLayer>),
    /// The end of the output. Output without it was truncated.
    End,
}

impl Line {
    fn unreadable_page() -> Self {
        Self::page(None, false)
    }

    /// A page whose words have no boxes.
    fn page(text: Option<String>, is_cut: bool) -> Self {
        Self::Page { text, boxes: WordBoxes::default(), is_cut, first_cell: None, found: Found::default() }
    }
}

/// Performs the task and exits if this process was started as a child; otherwise returns immediately. `main` must call
/// it first, before threads and runtimes.
pub fn run_if_child() {
    let mut arguments = std::env::args().skip(1);
    if arguments.next().as_deref() == Some(MARKER) {
        std::process::exit(run(arguments.next().as_deref().unwrap_or_default()));
    }
}

/// Performs the task. Returns the exit status.
fn run(task: &str) -> i32 {
    let Ok(task) = serde_json::from_str::<Task>(task) else {
        return 64;
    };
    let mut refused = sandbox::confine(&task.job);
    if limit(&task).is_err() {
        return 71;
    }
    refused.extend(sandbox::filter(&task.job));
    if task.isolation_required && refused.iter().any(|refused| refused.layer.is_required()) {
        return 71;
    }
    match task.job {
        Job::Program { path, arguments, .. } => {
            // `exec` returns only if the program could not be started.
            let _ = std::process::Command::new(path).args(arguments).exec();
            69
        }
        Job::Probe => match report(refused) {
            Ok(()) => 0,
            Err(_) => 74,
        },
        job => match read(job) {
            Ok(()) => 0,
            Err(_) => 74,
        },
    }
}

fn limit(task: &Task) -> nix::Result<()> {
    nix::sys::prctl::set_pdeathsig(nix::sys::signal::Signal::SIGKILL)?;
    setrlimit(Resource::RLIMIT_CORE, 0, 0)?;
    setrlimit(Resource::RLIMIT_AS, task.memory_bytes, task.memory_bytes)?;
    setrlimit(Resource::RLIMIT_CPU, task.cpu_seconds, task.cpu_seconds.saturating_add(1))?;
    setrlimit(Resource::RLIMIT_FSIZE, task.file_bytes, task.file_bytes)?;
    let open_files = if matches!(task.job, Job::Program { is_writer: true, .. }) { WRITER_OPEN_FILES } else { 64 };
    setrlimit(Resource::RLIMIT_NOFILE, open_files, open_files)
}

fn report(refused: Vec<RefusedLayer>) -> io::Result<()> {
    let mut output = Output { out: io::BufWriter::new(take_stdout()?) };
    output.line(&Line::RefusedLayers(refused))?;
    output.out.flush()
}

fn read(job: Job) -> io::Result<()> {
    // Suppress panic messages, which may contain text of the document. The panics themselves are caught.
    std::panic::set_hook(Box::new(|_| {}));
    let out = take_stdout()?;
    let mut input = Vec::new();
    let needed = match &job {
        Job::Text { document_chars, .. } => text::needed_bytes(*document_chars),
        _ => u64::MAX,
    };
    io::stdin().lock().take(needed).read_to_end(&mut input)?;
    std::thread::Builder::new()
        .stack_size(STACK_BYTES)
        .spawn(move || {
            let mut output = Output { out: io::BufWriter::new(out) };
            match job {
                Job::Pdf { max_pages, page_chars } => {
                    let password = std::env::var(PASSWORD_VARIABLE).ok();
                    pdf::read(input, password.as_deref(), max_pages, page_chars, &mut output)?;
                }
                Job::Office(source) => office::read(input, &source, &mut output)?,
                Job::Image { is_pdf, page, dpi, is_webp } => {
                    let format = if is_webp { ImageFormat::WebP } else { ImageFormat::Png };
                    match PageImage::new(page, dpi, format) {
                        Ok(image) => image::render(input, is_pdf, &image, &mut output)?,
                        Err(error) => output.refused(error.message)?,
                    }
                }
                Job::EmbeddedImage { page, number } => embedded_image::write(input, page, number, &mut output)?,
                Job::OfficeImage { source, page, number } => {
                    embedded_image::write_of_office(input, &source, page, number, &mut output)?;
                }
                Job::ModelImage { max_pixels, max_bytes } => {
                    image::write_for_model(input, max_pixels, max_bytes, &mut output)?;
                }
                Job::PdfOfImage { max_pages } => image::write_pdf(input, max_pages, &mut output)?,
                Job::Text { max_pages, document_chars } => text::read(&input, max_pages, document_chars, &mut output)?,
                Job::Unpack { media_type, limits } => unpack::run(input, &media_type, limits, &mut output)?,
                Job::Split { ranges, limits } => split::split(&input, &ranges, limits, &mut output)?,
                Job::Bookmarks => split::bookmarks(&input, &mut output)?,
                Job::Program { .. } | Job::Probe => {}
            }
            output.out.flush()
        })?
        .join()
        .map_err(|_| io::Error::other("panicked"))?
}

/// Returns the original standard output, and redirects standard output to /dev/null, because libraries may write to it.
fn take_stdout() -> io::Result<File> {
    let output = nix::unistd::dup(io::stdout())?;
    nix::unistd::dup2_stdout(File::options().write(true).open("/dev/null")?)?;
    Ok(File::from(output))
}

pub(crate) struct Output {
    out: io::BufWriter<File>,
}

impl Output {
    fn line(&mut self, line: &Line) -> io::Result<()> {
        serde_json::to_writer(&mut self.out, line)?;
        self.out.write_all(b"\n")
    }

    /// Writes a page whose words have no boxes.
    fn page(&mut self, text: String, is_cut: bool) -> io::Result<()> {
        self.line(&Line::page(Some(text), is_cut))
    }

    fn locked(&mut self, reason: &str) -> io::Result<()> {
        self.line(&Line::Locked { reason: reason.to_owned() })
    }

    fn refused(&mut self, reason: impl Into<String>) -> io::Result<()> {
        self.line(&Line::Refused { reason: reason.into() })
    }

    /// Writes a line and the bytes of an image, or [`Line::Refused`] with the reason.
    fn image(&mut self, made: Result<(Line, Vec<u8>), String>) -> io::Result<()> {
        match made {
            Ok((line, bytes)) => {
                self.line(&line)?;
                self.out.write_all(&bytes)
            }
            Err(reason) => self.refused(reason),
        }
    }
}

/// Returns the result of the libraries that read a file, or the reason `damaged` if the file is malformed and a library panics.
fn caught<T>(damaged: &str, read: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(read)).unwrap_or_else(|_| Err(damaged.to_owned()))
}
