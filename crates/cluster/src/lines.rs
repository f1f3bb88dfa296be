//! Lines out of chunks.

use bytes::{Bytes, BytesMut};

/// Cuts a stream of chunks into lines. A line that comes within one chunk is not copied.
#[derive(Debug)]
pub(crate) struct Lines {
    /// The beginning of a line whose end has not come.
    begun: BytesMut,
    /// What is still to be cut.
    chunk: Bytes,
    limit: usize,
}

/// A line is longer than the limit.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TooLong;

impl Lines {
    pub(crate) fn new(limit: usize) -> Self {
        Lines {
            begun: BytesMut::new(),
            chunk: Bytes::new(),
            limit,
        }
    }

    /// Takes in the next chunk, once [`Lines::next`] has nothing more.
    pub(crate) fn feed(&mut self, chunk: Bytes) {
        self.chunk = chunk;
    }

    /// The next complete line that is not empty, without its end.
    pub(crate) fn next(&mut self) -> Result<Option<Bytes>, TooLong> {
        loop {
            let Some(end) = self.chunk.iter().position(|byte| *byte == b'\n') else {
                self.check(self.chunk.len())?;
                self.begun.extend_from_slice(&self.chunk);
                self.chunk.clear();
                return Ok(None);
            };
            self.check(end)?;
            let mut line = self.chunk.split_to(end + 1);
            line.truncate(end);
            if !self.begun.is_empty() {
                self.begun.extend_from_slice(&line);
                line = self.begun.split().freeze();
            }
            if !line.trim_ascii().is_empty() {
                return Ok(Some(line));
            }
        }
    }

    fn check(&self, more: usize) -> Result<(), TooLong> {
        if self.begun.len() + more > self.limit {
            Err(TooLong)
        } else {
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(chunks: &[&'static str], limit: usize) -> Result<Vec<String>, TooLong> {
        let mut lines = Lines::new(limit);
        let mut found = Vec::new();
        for chunk in chunks {
            lines.feed(Bytes::from_static(chunk.as_bytes()));
            while let Some(line) = lines.next()? {
                found.push(String::from_utf8(line.to_vec()).unwrap());
            }
        }
        Ok(found)
    }

    #[test]
    fn lines_over_chunks() {
        let expected = ["ab", "cd", "e"].map(str::to_owned).to_vec();
        for chunks in [
            &["ab\ncd\ne\n"][..],
            &["a", "b", "\n", "cd\n", "e\nrest"],
            &["ab\r\n".trim_end(), "\ncd", "\n", "\n\r\n", "e", "\n"],
            &["", "ab\nc", "d\ne", "\n"],
        ] {
            assert_eq!(cut(chunks, 10), Ok(expected.clone()), "{chunks:?}");
        }
    }

    #[test]
    fn the_size_of_a_line_is_bounded() {
        assert_eq!(cut(&["1234\n", "12", "34\n"], 4).map(|lines| lines.len()), Ok(2));
        assert_eq!(cut(&["12345\n"], 4), Err(TooLong));
        assert_eq!(cut(&["123", "45"], 4), Err(TooLong), "known before its end comes");
        assert_eq!(cut(&["1\n2\n3\n4\n5\n"], 1).map(|lines| lines.len()), Ok(5));
    }
}
