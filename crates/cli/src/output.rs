//! Writing answers: in which form, where to, and what the exit code says.

use std::io::{self, IsTerminal, Write};

use clap::ValueEnum;
use comfy_table::{Table, presets};
use serde::Serialize;

/// Exit code: an answer to look at.
pub(crate) const FOUND: u8 = 1;
/// Exit code: some of the input, or the arguments, can't be used.
pub(crate) const BAD_INPUT: u8 = 2;

/// How many problems are told on standard error: of 100,000 nobody reads the first.
const MOST_COMPLAINTS: usize = 20;

/// A column narrower than this is not worth reading: the terminal may break the lines.
const LEAST_ROOM: usize = 16;

/// Spaces between columns.
const GAP: u16 = 3;

/// How to print.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For people.
    Table,
    /// For programs.
    Json,
    /// For programs, too.
    Yaml,
}

/// An answer that can't be written.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OutputError {
    #[error("can't write the answer: {0}")]
    Write(#[from] io::Error),
    #[error("can't write the answer as JSON: {0}")]
    Json(#[from] serde_json::Error),
    #[error("can't write the answer as YAML: {0}")]
    Yaml(#[from] serde_saphyr::SerializeError),
}

/// What text is made for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Screen {
    pub(crate) colours: bool,
    /// Where lines are to be wrapped; nowhere if it is not known.
    pub(crate) width: Option<u16>,
}

impl Screen {
    /// Colours and wrapping are for terminals only, colours not even there where `NO_COLOR` is set.
    pub(crate) fn stdout() -> Self {
        if !io::stdout().is_terminal() {
            return Screen {
                colours: false,
                width: None,
            };
        }
        Screen {
            colours: std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()),
            width: Table::new().width(),
        }
    }

    /// A table as kubectl's: columns, and nothing drawn around them.
    pub(crate) fn table<const COLUMNS: usize>(self, header: [&str; COLUMNS]) -> Table {
        let mut table = Table::new();
        table.load_style(presets::NOTHING).set_header(header).force_no_tty();
        if self.colours {
            table.enforce_styling();
        }
        for column in table.column_iter_mut() {
            column.set_padding((0, GAP));
        }
        table
    }

    /// How wide the first column of a table may be at most, so that the table fits; `None` where it fits as it is, or can't.
    pub(crate) fn room(self, table: &Table) -> Option<usize> {
        let widths = table.column_max_content_widths();
        let (first, others) = widths.split_first()?;
        let others = others.iter().map(|width| usize::from(*width) + usize::from(GAP)).sum();
        let room = usize::from(self.width?).checked_sub(others)?;
        (LEAST_ROOM..usize::from(*first)).contains(&room).then_some(room)
    }
}

/// Writes an answer to standard output: for people as `text`, for programs as `value`.
pub(crate) fn write(format: Format, value: &impl Serialize, text: impl FnOnce() -> String) -> Result<(), OutputError> {
    let text = match format {
        Format::Table => text(),
        Format::Json => serde_json::to_string_pretty(value)? + "\n",
        Format::Yaml => serde_saphyr::to_string(value)?,
    };
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        // The reader has seen enough.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => Ok(written?),
    }
}

/// Writes problems to standard error, a line each, and of very many the first ones. That this fails can't be said anywhere.
pub(crate) fn complain<T: std::fmt::Display>(problems: &[T]) {
    let mut err = io::stderr().lock();
    for problem in problems.iter().take(MOST_COMPLAINTS) {
        let _ = writeln!(err, "{problem}");
    }
    if let more @ 1.. = problems.len().saturating_sub(MOST_COMPLAINTS) {
        let _ = writeln!(err, "and {more} more (-o json and -o yaml list them all)");
    }
}
