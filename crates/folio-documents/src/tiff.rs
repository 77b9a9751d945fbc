//! Finds the pages of a TIFF file by following its chain of image file directories.

use std::io::{self, Cursor, Read, Seek, SeekFrom};

/// Returns the number of pages, at most `max + 1`. None if the chain is broken or cyclic.
pub(crate) fn count_pages(file: &mut (impl Read + Seek), max: u32) -> io::Result<Option<u32>> {
    let Some(format) = Format::read(file)? else { return Ok(None) };
    let mut at = format.first;
    let mut pages = 0;
    let mut seen = std::collections::HashSet::new();
    while at != 0 {
        if !seen.insert(at) {
            return Ok(None);
        }
        pages += 1;
        if pages > max {
            break;
        }
        match format.next(file, at) {
            Ok(next) => at = next,
            Err(error) if matches!(error.kind(), io::ErrorKind::UnexpectedEof | io::ErrorKind::InvalidInput) => {
                return Ok(None);
            }
            Err(error) => return Err(error),
        }
    }
    Ok((pages > 0).then_some(pages))
}

/// Changes the file so that a page, from 1 on, becomes the first one. Returns false if the file does not have this page.
pub(crate) fn select_page(file: &mut [u8], page: u32) -> bool {
    let mut reader = Cursor::new(&*file);
    let Ok(Some(format)) = Format::read(&mut reader) else { return false };
    let mut at = format.first;
    for _ in 1..page {
        match format.next(&mut reader, at) {
            Ok(next) if next != 0 => at = next,
            _ => return false,
        }
    }
    let (start, bytes) = if format.big { (8, 8) } else { (4, 4) };
    let (little, big) = (at.to_le_bytes(), at.to_be_bytes());
    let offset = if format.little { little.get(..bytes) } else { big.get(8 - bytes..) };
    match (file.get_mut(start..start + bytes), offset) {
        (Some(to), Some(offset)) => to.copy_from_slice(offset),
        _ => return false,
    }
    true
}

struct Format {
    little: bool,
    big: bool,
    first: u64,
}

impl Format {
    fn read(file: &mut (impl Read + Seek)) -> io::Result<Option<Self>> {
        file.seek(SeekFrom::Start(0))?;
        let mut head = [0; 4];
        if file.read_exact(&mut head).is_err() {
            return Ok(None);
        }
        let (little, big) = match &head {
            b"II*\0" => (true, false),
            b"MM\0*" => (false, false),
            b"II+\0" => (true, true),
            b"MM\0+" => (false, true),
            _ => return Ok(None),
        };
        let mut format = Self { little, big, first: 0 };
        if big {
            // Skip the size of an offset, and two zero bytes.
            file.seek(SeekFrom::Start(8))?;
        }
        match format.number(file, if big { 8 } else { 4 }) {
            Ok(first) => format.first = first,
            Err(_) => return Ok(None),
        }
        Ok(Some(format))
    }

    /// Returns the offset of the directory after the one at `at`. 0: `at` is the last one.
    fn next(&self, file: &mut (impl Read + Seek), at: u64) -> io::Result<u64> {
        file.seek(SeekFrom::Start(at))?;
        let (count_bytes, entry_bytes, offset_bytes) = if self.big { (8, 20, 8) } else { (2, 12, 4) };
        let entries = self.number(file, count_bytes)?;
        let start = at.checked_add(count_bytes as u64).ok_or(io::ErrorKind::InvalidInput)?;
        let end = entries.checked_mul(entry_bytes).and_then(|length| length.checked_add(start));
        file.seek(SeekFrom::Start(end.ok_or(io::ErrorKind::InvalidInput)?))?;
        self.number(file, offset_bytes)
    }

    fn number(&self, file: &mut impl Read, bytes: usize) -> io::Result<u64> {
        let mut raw = [0_u8; 8];
        let part = raw.get_mut(..bytes).ok_or(io::ErrorKind::InvalidInput)?;
        file.read_exact(part)?;
        if !self.little {
            part.reverse();
        }
        Ok(u64::from_le_bytes(raw))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::io::Cursor;

    fn chain(offsets: &[u32]) -> Vec<u8> {
        let mut file = b"II*\0".to_vec();
        file.extend(8_u32.to_le_bytes());
        for next in offsets {
            file.extend(1_u16.to_le_bytes());
            file.extend([0; 12]);
            file.extend(next.to_le_bytes());
        }
        file
    }

    fn big_endian(offsets: &[u32]) -> Vec<u8> {
        let mut file = b"MM\0*".to_vec();
        file.extend(8_u32.to_be_bytes());
        for next in offsets {
            file.extend(1_u16.to_be_bytes());
            file.extend([0; 12]);
            file.extend(next.to_be_bytes());
        }
        file
    }

    #[test]
    fn directories_are_counted() {
        assert_eq!(count_pages(&mut Cursor::new(chain(&[26, 44, 0])), 10).unwrap(), Some(3));
        assert_eq!(count_pages(&mut Cursor::new(chain(&[26, 44, 0])), 2).unwrap(), Some(3));
    }

    #[test]
    fn a_selected_page_becomes_the_first() {
        for (file, first) in
            [(chain(&[26, 44, 0]), 44_u32.to_le_bytes()), (big_endian(&[26, 44, 0]), 44_u32.to_be_bytes())]
        {
            let mut third = file.clone();
            assert!(select_page(&mut third, 3));
            assert_eq!((&third[4..8], &third[8..]), (&first[..], &file[8..]));
            let mut first = file.clone();
            assert!(select_page(&mut first, 1) && first == file);
            assert!(!select_page(&mut first, 4) && first == file);
        }
        assert!(!select_page(&mut b"%PDF".to_vec(), 2));
    }

    #[test]
    fn cycles_and_broken_chains_are_detected() {
        assert_eq!(count_pages(&mut Cursor::new(chain(&[26, 8])), 10).unwrap(), None);
        assert_eq!(count_pages(&mut Cursor::new(chain(&[9_999])), 10).unwrap(), None);
        assert_eq!(count_pages(&mut Cursor::new(b"II*\0"), 10).unwrap(), None);
    }

    proptest! {
        #[test]
        fn any_bytes_end(bytes in prop::collection::vec(any::<u8>(), 0..200), big: bool) {
            let mut file = if big { b"II+\0\x08\0\0\0".to_vec() } else { b"MM\0*".to_vec() };
            file.extend(bytes);
            let pages = count_pages(&mut Cursor::new(file), 5).unwrap();
            prop_assert!(pages.is_none_or(|pages| pages <= 6));
        }
    }
}
