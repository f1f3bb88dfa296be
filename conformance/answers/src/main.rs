//! Answers upstream's questions: one JSON question a line on standard input, one JSON answer a line on standard output, in order.
//!
//! The conformance suites ask the same of Kubernetes' own packages, and of this program what kubequota's crates say. It holds no rule of
//! its own: each module only reads a question, calls the crates, and writes what they answer.

mod admission;
mod configuration;
mod lists;
mod namespaces;
mod objects;
mod quantities;
mod units;

use std::io::{self, BufRead, BufWriter, Write};
use std::process::ExitCode;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// All questions.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
enum Question {
    Quantity(quantities::Question),
    List(lists::Question),
    Object(Box<objects::Question>),
    Namespace(Box<namespaces::Question>),
    Admission(Box<admission::Question>),
    Configuration(configuration::Question),
    Unit(Box<units::Question>),
}

/// A question that can't be read, or does not make sense: a mistake of the one who asks.
#[derive(Debug, thiserror::Error)]
enum Mistake {
    #[error("the question can't be read: {0}")]
    Question(#[from] serde_json::Error),
    #[error("{what}: {why}")]
    Part { what: &'static str, why: String },
}

impl Mistake {
    fn part(what: &'static str) -> impl Fn(&dyn std::fmt::Display) -> Mistake {
        move |why| Mistake::Part {
            what,
            why: why.to_string(),
        }
    }
}

fn answer(line: &str) -> Result<Box<RawValue>, Mistake> {
    fn json(answer: impl Serialize) -> Result<Box<RawValue>, Mistake> {
        Ok(serde_json::value::to_raw_value(&answer)?)
    }
    match serde_json::from_str(line)? {
        Question::Quantity(question) => json(question.answer()),
        Question::List(question) => json(question.answer()),
        Question::Object(question) => json(question.answer()?),
        Question::Namespace(question) => json(question.answer()?),
        Question::Admission(question) => json(question.answer()?),
        Question::Configuration(question) => json(question.answer()),
        Question::Unit(question) => json(question.answer()?),
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
enum Line {
    Answer(Box<RawValue>),
    Mistake(String),
}

fn run() -> io::Result<()> {
    let mut output = BufWriter::with_capacity(1 << 16, io::stdout().lock());
    let mut input = io::BufReader::with_capacity(1 << 16, io::stdin().lock());
    let mut line = String::new();
    while input.read_line(&mut line)? > 0 {
        let reply = match answer(&line) {
            Ok(answer) => Line::Answer(answer),
            Err(mistake) => Line::Mistake(mistake.to_string()),
        };
        serde_json::to_writer(&mut output, &reply)?;
        output.write_all(b"\n")?;
        // Whoever asks one question at a time waits for its answer; whoever asks many at once is served in bulk.
        if !input.buffer().contains(&b'\n') {
            output.flush()?;
        }
        line.clear();
    }
    output.flush()
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(io::stderr(), "answers: {error}");
            ExitCode::FAILURE
        }
    }
}
