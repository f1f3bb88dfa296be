//! What the demo prints: lines of at most 80 columns, in colour on a terminal, and kept for a picture.

use std::fmt::Write as _;
use std::io::{self, IsTerminal, Write};
use std::time::Instant;

use kubequota_quantity::Quantity;

use crate::output::Screen;

/// Columns of a line.
pub(super) const WIDTH: usize = 80;

/// Columns of the bar that shows how full a quota is.
const BAR: usize = 10;

/// How a piece of a line looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Style {
    Plain,
    Heading,
    Good,
    Bad,
    Faint,
}

impl Style {
    fn ansi(self) -> &'static str {
        match self {
            Style::Plain => "",
            Style::Heading => "\x1b[1m",
            Style::Good => "\x1b[32m",
            Style::Bad => "\x1b[31m",
            Style::Faint => "\x1b[2m",
        }
    }

    /// For light and dark pages alike.
    fn svg(self) -> &'static str {
        match self {
            Style::Plain => "fill=\"#d0d7de\"",
            Style::Heading => "fill=\"#ffffff\" font-weight=\"bold\"",
            Style::Good => "fill=\"#7ee787\"",
            Style::Bad => "fill=\"#ff7b72\"",
            Style::Faint => "fill=\"#8b949e\"",
        }
    }
}

type Piece = (Style, String);

/// The lines so far, on standard output and kept.
pub(super) struct Page {
    terminal: bool,
    colours: bool,
    progress: bool,
    lines: Vec<Vec<Piece>>,
    written: io::Result<()>,
    began: Instant,
}

impl Page {
    pub(super) fn new() -> Self {
        Page {
            terminal: io::stdout().is_terminal(),
            colours: Screen::stdout().colours,
            progress: false,
            lines: Vec::new(),
            written: Ok(()),
            began: Instant::now(),
        }
    }

    /// What it is busy with, on a terminal only: the next line takes its place.
    pub(super) fn progress(&mut self, what: &str) {
        if self.terminal {
            let since = self.began.elapsed().as_secs_f64();
            let what: String = what.chars().take(WIDTH - 12).collect();
            self.write(&format!("\r\x1b[2K[{since:.1} s] {what}"));
            self.progress = true;
        }
    }

    /// One line of pieces; the caller sees to its width.
    pub(super) fn line(&mut self, pieces: Vec<Piece>) {
        let mut text = String::new();
        self.end_progress();
        for (style, piece) in &pieces {
            match style.ansi() {
                ansi if self.colours && !ansi.is_empty() => text += &format!("{ansi}{piece}\x1b[0m"),
                _ => text += piece,
            }
        }
        self.write(&(text + "\n"));
        self.lines.push(pieces);
    }

    /// Takes the progress line away.
    pub(super) fn end_progress(&mut self) {
        if std::mem::take(&mut self.progress) {
            self.write("\r\x1b[2K");
        }
    }

    /// Text in as many lines as it needs, all of them indented.
    pub(super) fn say(&mut self, style: Style, indent: usize, text: &str) {
        for line in wrapped(text, WIDTH - indent) {
            self.line(vec![(style, format!("{:indent$}{line}", ""))]);
        }
    }

    /// The heading of a step.
    pub(super) fn heading(&mut self, text: &str) {
        self.line(Vec::new());
        self.say(Style::Heading, 0, text);
    }

    /// Text as it is, a line each.
    pub(super) fn verbatim(&mut self, text: &str) {
        for line in text.lines() {
            self.line(vec![(Style::Plain, line.to_owned())]);
        }
    }

    /// How full a quota is under one name.
    pub(super) fn bar(&mut self, name: &str, used: &Quantity, hard: &Quantity) {
        let full = used >= hard;
        let part = if full { 1.0 } else { used.to_f64() / hard.to_f64() };
        // A part of ten is small enough for any integer; what is not zero shows.
        let cells = ((part * BAR as f64).round() as usize).clamp(usize::from(!used.is_zero()), BAR);
        let figures = format!("{used} of {hard}");
        let room = WIDTH - 2 - (BAR + 2) - figures.chars().count() - 1;
        let style = if full { Style::Bad } else { Style::Good };
        self.line(vec![
            (Style::Plain, format!("  {:<50} ", shortened(name, room.min(50)))),
            (style, "█".repeat(cells)),
            (Style::Faint, "░".repeat(BAR - cells)),
            (Style::Plain, format!(" {figures}")),
        ]);
    }

    fn write(&mut self, text: &str) {
        if self.written.is_ok() {
            let mut out = io::stdout().lock();
            self.written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
        }
    }

    /// Whether all of it could be written. A reader that has seen enough is no failure.
    pub(super) fn written(self) -> io::Result<()> {
        match self.written {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            written => written,
        }
    }

    /// All lines, as a picture.
    pub(super) fn svg(&self) -> String {
        const LINE: usize = 18;
        let height = (self.lines.len() + 2) * LINE;
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"720\" height=\"{height}\" font-family=\"ui-monospace, Menlo, Consolas, monospace\" font-size=\"14\">\n\
             <rect width=\"100%\" height=\"100%\" rx=\"8\" fill=\"#161b22\"/>\n"
        );
        for (index, line) in self.lines.iter().enumerate() {
            let y = (index + 2) * LINE - 4;
            let mut column = 0;
            for (style, text) in line.iter().filter(|(_, text)| !text.is_empty()) {
                // Each piece at its place and of its length, whatever font there is.
                let (x, length) = (20.0 + 8.4 * column as f64, 8.4 * text.chars().count() as f64);
                let escaped = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
                let _ = writeln!(
                    svg,
                    "<text x=\"{x:.1}\" y=\"{y}\" textLength=\"{length:.1}\" xml:space=\"preserve\" {}>{escaped}</text>",
                    style.svg()
                );
                column += text.chars().count();
            }
        }
        svg + "</svg>\n"
    }
}

/// The end of a name that is too long says more than its begin.
fn shortened(name: &str, room: usize) -> String {
    let length = name.chars().count();
    if length <= room {
        return name.to_owned();
    }
    format!("…{}", name.chars().skip(length + 1 - room).collect::<String>())
}

/// In lines of no more than `width`, broken at spaces and behind commas; a longer word is broken where it must be.
pub(super) fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_inclusive([' ', ',']) {
        let mut rest: Vec<char> = word.chars().collect();
        while let Some(line) = lines.last_mut() {
            let room = width.saturating_sub(line.chars().count());
            let needed = rest.iter().collect::<String>().trim_end().chars().count();
            if needed <= room {
                line.extend(rest);
                break;
            }
            if line.is_empty() {
                line.extend(rest.drain(..width));
            }
            lines.push(String::new());
        }
    }
    lines.iter().map(|line| line.trim_end().to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wraps() {
        let table: [(&str, usize, &[&str]); 5] = [
            ("one two three", 7, &["one two", "three"]),
            ("a=1,b=2,c=3", 8, &["a=1,b=2,", "c=3"]),
            ("abcdefgh", 3, &["abc", "def", "gh"]),
            ("", 5, &[""]),
            ("x abcdefgh", 4, &["x", "abcd", "efgh"]),
        ];
        for (text, width, expected) in table {
            assert_eq!(wrapped(text, width), expected, "{text}");
        }
    }

    #[test]
    fn shortens() {
        assert_eq!(shortened("pods", 4), "pods");
        assert_eq!(shortened("requests.cpu", 6), "…s.cpu");
    }
}
