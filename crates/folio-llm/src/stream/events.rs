//! Server-sent events: splits bytes into the data of each event.

use super::StreamError;

/// Maximum length of an event and of a line, in bytes.
pub const EVENT_BYTES_MAX: usize = 1024 * 1024;

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Splits bytes into the data of events. Lines end with LF, CRLF or CR. The `data` lines of an event are joined with
/// LF. Other fields and comments are skipped.
#[derive(Debug, Default)]
pub struct EventSplitter {
    /// Partial line.
    line: Vec<u8>,
    /// Data of the partial event.
    data: Vec<u8>,
    has_data: bool,
    /// True if the last byte was a CR: a following LF belongs to it.
    after_carriage_return: bool,
    /// True after the first line.
    is_after_first_line: bool,
}

impl EventSplitter {
    /// Parses the next bytes and calls `event` with the data of each completed event. Fails with the errors of `event`,
    /// or if a line or event is longer than [`EVENT_BYTES_MAX`].
    pub fn feed(
        &mut self,
        mut bytes: &[u8],
        mut event: impl FnMut(&[u8]) -> Result<(), StreamError>,
    ) -> Result<(), StreamError> {
        if self.after_carriage_return && !bytes.is_empty() {
            bytes = bytes.strip_prefix(b"\n").unwrap_or(bytes);
            self.after_carriage_return = false;
        }
        while let Some((line, end, rest)) = split_line(bytes) {
            if self.line.is_empty() {
                self.take_line(line, &mut event)?;
            } else {
                self.buffer(line)?;
                let mut complete = std::mem::take(&mut self.line);
                self.take_line(&complete, &mut event)?;
                // The buffer is reused for the next line.
                complete.clear();
                self.line = complete;
            }
            bytes = rest;
            if end == b'\r' {
                self.after_carriage_return = rest.is_empty();
                bytes = rest.strip_prefix(b"\n").unwrap_or(rest);
            }
        }
        self.buffer(bytes)
    }

    /// Ends the stream. A last event without a blank line counts.
    pub fn end(&mut self, mut event: impl FnMut(&[u8]) -> Result<(), StreamError>) -> Result<(), StreamError> {
        let line = std::mem::take(&mut self.line);
        if !line.is_empty() {
            self.take_line(&line, &mut event)?;
        }
        self.dispatch(&mut event)
    }

    fn buffer(&mut self, bytes: &[u8]) -> Result<(), StreamError> {
        if self.line.len().saturating_add(bytes.len()) > EVENT_BYTES_MAX {
            return Err(StreamError::TooLarge("one line of the stream"));
        }
        self.line.extend_from_slice(bytes);
        Ok(())
    }

    fn take_line(
        &mut self,
        mut line: &[u8],
        event: &mut impl FnMut(&[u8]) -> Result<(), StreamError>,
    ) -> Result<(), StreamError> {
        if !self.is_after_first_line {
            self.is_after_first_line = true;
            line = line.strip_prefix(BYTE_ORDER_MARK).unwrap_or(line);
        }
        if line.is_empty() {
            return self.dispatch(event);
        }
        let value = match line.strip_prefix(b"data:") {
            Some(value) => value.strip_prefix(b" ").unwrap_or(value),
            None if line == b"data" => &[],
            None => return Ok(()),
        };
        if self.data.len().saturating_add(value.len()) >= EVENT_BYTES_MAX {
            return Err(StreamError::TooLarge("one event of the stream"));
        }
        if self.has_data {
            self.data.push(b'\n');
        }
        self.has_data = true;
        self.data.extend_from_slice(value);
        Ok(())
    }

    fn dispatch(&mut self, event: &mut impl FnMut(&[u8]) -> Result<(), StreamError>) -> Result<(), StreamError> {
        if !std::mem::take(&mut self.has_data) {
            return Ok(());
        }
        let outcome = event(&self.data);
        self.data.clear();
        outcome
    }
}

/// Returns the first line, the byte that ends it, and the rest.
fn split_line(bytes: &[u8]) -> Option<(&[u8], u8, &[u8])> {
    let at = memchr::memchr2(b'\n', b'\r', bytes)?;
    let (line, rest) = bytes.split_at_checked(at)?;
    let (end, rest) = rest.split_first()?;
    Some((line, *end, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(chunks: &[&[u8]]) -> Vec<String> {
        let mut found = Vec::new();
        let mut splitter = EventSplitter::default();
        let mut take = |data: &[u8]| {
            found.push(String::from_utf8(data.to_vec()).unwrap());
            Ok(())
        };
        for chunk in chunks {
            splitter.feed(chunk, &mut take).unwrap();
        }
        splitter.end(&mut take).unwrap();
        found
    }

    #[test]
    fn events_are_split_with_every_line_ending_and_at_every_chunk_boundary() {
        let expected = vec!["one".to_owned(), "two\nlines".to_owned(), String::new(), "last".to_owned()];
        for end in ["\n", "\r\n", "\r"] {
            let text = [
                "\u{feff}data: one",
                "",
                ": comment",
                "event: x",
                "data:two",
                "data: lines",
                "id: 7",
                "",
                "",
                "data",
                "",
                "datax: no",
                "",
                "data: last",
            ]
            .join(end);
            let bytes = text.as_bytes();
            assert_eq!(split(&[bytes]), expected, "{end:?}");
            for at in 0..bytes.len() {
                assert_eq!(split(&[&bytes[..at], &bytes[at..]]), expected, "{end:?} cut at {at}");
            }
            let single: Vec<_> = bytes.chunks(1).collect();
            assert_eq!(split(&single), expected, "{end:?} byte by byte");
        }
    }

    #[test]
    fn an_endless_line_is_refused_at_the_bound() {
        let mut splitter = EventSplitter::default();
        let chunk = [b'x'; 64 * 1024];
        let outcome = (0..100).try_for_each(|_| splitter.feed(&chunk, |_| Ok(())));
        assert_eq!(outcome, Err(StreamError::TooLarge("one line of the stream")));
        assert!(splitter.line.len() <= EVENT_BYTES_MAX);
    }

    #[test]
    fn an_event_of_endless_lines_is_refused_at_the_bound() {
        let mut splitter = EventSplitter::default();
        let line = [b"data: ".as_slice(), &[b'x'; 1_000], b"\n"].concat();
        let outcome = (0..2_000).try_for_each(|_| splitter.feed(&line, |_| Ok(())));
        assert_eq!(outcome, Err(StreamError::TooLarge("one event of the stream")));
        assert!(splitter.data.len() <= EVENT_BYTES_MAX);
    }
}
