//! Which charges have landed, as noted on the quota itself: what settles a write whose answer was lost.
//!
//! Every write that charges also notes, in an annotation of the quota, who wrote and that writer's number of the write. A process has one
//! write of a quota under way at a time, so its newest number there tells of each earlier one. `WRITER:NUMBER WRITER:NUMBER ...`, the last
//! one newest.

use std::collections::hash_map::RandomState;
use std::fmt;
use std::hash::BuildHasher as _;
use std::sync::atomic::{AtomicU64, Ordering};

/// So many writers are noted. A replica that starts again is another writer.
const MOST_WRITERS: usize = 8;

/// One process that charges, and how often it has.
#[derive(Debug)]
pub(crate) struct Writer {
    id: String,
    last: AtomicU64,
}

impl Writer {
    /// A writer unlike all others.
    pub(crate) fn new() -> Self {
        Writer {
            id: format!("{:016x}", RandomState::new().hash_one(std::process::id())),
            last: AtomicU64::new(0),
        }
    }

    /// The number of its next write.
    pub(crate) fn next(&self) -> u64 {
        self.last.fetch_add(1, Ordering::Relaxed) + 1
    }
}

/// The note.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LastCharges(Vec<(String, u64)>);

impl LastCharges {
    /// Reads a note. What is no entry, since someone else wrote there, is passed over.
    pub(crate) fn read(note: Option<&str>) -> Self {
        let entries = note.unwrap_or_default().split_whitespace();
        let entry = |text: &str| {
            let (writer, number) = text.split_once(':')?;
            Some((writer.to_owned(), number.parse().ok()?))
        };
        LastCharges(entries.filter_map(entry).collect())
    }

    /// The number of the write that landed last of all by this writer; `None` where it has written nothing, or so long ago that it is no
    /// longer noted.
    pub(crate) fn of(&self, writer: &Writer) -> Option<u64> {
        let entry = self.0.iter().find(|(id, _)| *id == writer.id);
        entry.map(|(_, number)| *number)
    }

    /// The note of a write to come.
    pub(crate) fn with(mut self, writer: &Writer, number: u64) -> Self {
        self.0.retain(|(id, _)| *id != writer.id);
        self.0.push((writer.id.clone(), number));
        let spent = self.0.len().saturating_sub(MOST_WRITERS);
        self.0.drain(..spent);
        self
    }
}

impl fmt::Display for LastCharges {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (writer, number)) in self.0.iter().enumerate() {
            let space = if index == 0 { "" } else { " " };
            write!(f, "{space}{writer}:{number}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn writer(id: &str) -> Writer {
        Writer {
            id: id.to_owned(),
            last: AtomicU64::new(0),
        }
    }

    #[test]
    fn a_note_keeps_the_newest_of_each_writer() {
        let (a, b) = (writer("a"), writer("b"));
        let mut note = LastCharges::default();
        let table = [
            (&a, 1, "a:1"),
            (&b, 1, "a:1 b:1"),
            (&a, 2, "b:1 a:2"),
            (&a, 5, "b:1 a:5"),
        ];
        for (writer, number, text) in table {
            note = note.with(writer, number);
            assert_eq!(note.to_string(), text);
            assert_eq!(LastCharges::read(Some(text)), note, "{text}");
        }
        assert_eq!(
            (note.of(&a), note.of(&b), note.of(&writer("c"))),
            (Some(5), Some(1), None)
        );
    }

    #[test]
    fn the_oldest_writers_go() {
        let writers: Vec<Writer> = (0..=MOST_WRITERS).map(|index| writer(&format!("w{index}"))).collect();
        let note = writers
            .iter()
            .fold(LastCharges::default(), |note, writer| note.with(writer, 7));
        assert_eq!(note.of(&writers[0]), None);
        assert!(writers[1..].iter().all(|writer| note.of(writer) == Some(7)));
    }

    #[test]
    fn what_others_wrote_there_does_no_harm() {
        for (text, kept) in [
            ("", ""),
            ("nonsense", ""),
            ("a:x b:2", "b:2"),
            (":: a:-1 c:3 ", "c:3"),
            ("a:1:2", ""),
        ] {
            assert_eq!(LastCharges::read(Some(text)).to_string(), kept, "{text:?}");
        }
        assert_eq!(LastCharges::read(None), LastCharges::default());
    }

    #[test]
    fn writers_differ_and_count() {
        let (a, b) = (Writer::new(), Writer::new());
        assert_ne!(a.id, b.id);
        assert_eq!((a.next(), a.next(), b.next()), (1, 2, 1));
    }
}
