//! Writing answers: in which form, where to, and what the exit code says.

use std::io::{self, IsTerminal, Write};

use clap::ValueEnum;
use comfy_table::{ColumnConstraint, ContentArrangement, Table, presets};
use serde::Serialize;

/// Exit code: an answer to look at.
pub(crate) const FOUND: u8 = 1;
/// Exit code: some of the input, or the arguments, can't be used.
pub(crate) const BAD_INPUT: u8 = 2;

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
        if let Some(width) = self.width {
            table
                .set_content_arrangement(ContentArrangement::Dynamic)
                .set_width(width);
        }
        for column in table.column_iter_mut() {
            column.set_padding((0, 3));
        }
        // Where the screen is narrow, names are wrapped and figures are not.
        for column in table.column_iter_mut().skip(1) {
            column.set_constraint(ColumnConstraint::ContentWidth);
        }
        table
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

/// Writes a line to standard error. That this fails can't be said anywhere.
pub(crate) fn complain(line: impl std::fmt::Display) {
    let _ = writeln!(io::stderr().lock(), "{line}");
}
