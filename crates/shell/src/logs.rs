//! Structured logs to standard error: lines for people, or one JSON object a line for machines.

use std::collections::HashMap;
use std::fmt;
use std::io::IsTerminal as _;
use std::str::FromStr;
use std::time::Duration;

use serde::Serialize;
use serde_json::{Map, Value};
use tokio::time::Instant;
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::format::{JsonFields, Writer};
use tracing_subscriber::fmt::time::FormatTime;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormattedFields, MakeWriter};
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt as _;

/// How log lines look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// `2026-03-01T09:30:00.000Z  INFO quota synced quota=team-a/compute`.
    #[default]
    Text,
    /// `{"ts":"2026-03-01T09:30:00.000Z","level":"info","msg":"quota synced","quota":"team-a/compute"}`.
    Json,
}

impl fmt::Display for LogFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            LogFormat::Text => "text",
            LogFormat::Json => "json",
        })
    }
}

impl FromStr for LogFormat {
    type Err = LogError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "text" => Ok(LogFormat::Text),
            "json" => Ok(LogFormat::Json),
            _ => Err(LogError::Format(text.to_owned())),
        }
    }
}

/// Why logging could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// Not a name of a [`LogFormat`].
    #[error("unknown log format {0:?}; use text or json")]
    Format(String),
    /// The filter can't be read.
    #[error(
        "the log filter {filter:?} can't be read: {source}; \
         give a level (info, debug, ...), or levels by module as in `info,kubequota_cluster=debug`"
    )]
    Filter {
        /// The filter as given.
        filter: String,
        /// What is wrong with it.
        source: tracing_subscriber::filter::ParseError,
    },
    /// Something else has set up logging for this process.
    #[error("logging is set up already; call init once, before anything else logs: {0}")]
    AlreadySet(#[from] tracing_subscriber::util::TryInitError),
}

/// Sets up logging for this process, once. `filter` is a level, or levels by module as in
/// `info,kubequota_cluster=debug`; without one it is `info`. `color` allows colors in text, which are used only when
/// standard error is a terminal.
///
/// # Errors
/// [`LogError`], when the filter can't be read or logging is set up already.
pub fn init(format: LogFormat, filter: Option<&str>, color: bool) -> Result<(), LogError> {
    let color = color && std::io::stderr().is_terminal();
    subscriber(format, filter.unwrap_or("info"), color, std::io::stderr)?.try_init()?;
    Ok(())
}

fn subscriber<W>(
    format: LogFormat,
    filter: &str,
    color: bool,
    writer: W,
) -> Result<Box<dyn Subscriber + Send + Sync>, LogError>
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    let parsed = EnvFilter::builder().parse(filter).map_err(|source| LogError::Filter {
        filter: filter.to_owned(),
        source,
    })?;
    let builder = tracing_subscriber::fmt().with_env_filter(parsed).with_writer(writer);
    Ok(match format {
        LogFormat::Text => Box::new(builder.with_timer(Utc).with_target(false).with_ansi(color).finish()),
        LogFormat::Json => Box::new(builder.fmt_fields(JsonFields::new()).event_format(JsonLine).finish()),
    })
}

fn timestamp() -> impl fmt::Display {
    struct Now(jiff::Timestamp);
    impl fmt::Display for Now {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "{:.3}", self.0)
        }
    }
    Now(jiff::Timestamp::now())
}

/// RFC 3339 in UTC, for text lines.
struct Utc;

impl FormatTime for Utc {
    fn format_time(&self, w: &mut Writer<'_>) -> fmt::Result {
        write!(w, "{}", timestamp())
    }
}

/// One event as one JSON object: `ts`, `level`, `msg`, then the fields of the event and of the spans around it.
struct JsonLine;

#[derive(Serialize)]
struct Line<'a> {
    ts: String,
    level: &'a str,
    msg: &'a str,
    target: &'a str,
    #[serde(flatten)]
    fields: &'a Map<String, Value>,
}

impl<S> FormatEvent<S, JsonFields> for JsonLine
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    fn format_event(&self, ctx: &FmtContext<'_, S, JsonFields>, mut w: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        let mut collected = Fields::default();
        // From the root inwards, so that what is nearest to the event wins.
        for span in ctx.event_scope().into_iter().flat_map(|scope| scope.from_root()) {
            if let Some(formatted) = span.extensions().get::<FormattedFields<JsonFields>>() {
                let fields = serde_json::from_str::<Map<String, Value>>(formatted).unwrap_or_default();
                fields.into_iter().for_each(|(name, value)| collected.put(&name, value));
            }
        }
        event.record(&mut collected);
        let metadata = event.metadata();
        let line = Line {
            ts: timestamp().to_string(),
            level: &metadata.level().as_str().to_ascii_lowercase(),
            msg: &collected.message,
            target: metadata.target(),
            fields: &collected.fields,
        };
        writeln!(w, "{}", serde_json::to_string(&line).map_err(|_| fmt::Error)?)
    }
}

#[derive(Default)]
struct Fields {
    message: String,
    fields: Map<String, Value>,
}

impl Fields {
    fn put(&mut self, name: &str, value: Value) {
        match name {
            "message" => {
                self.message = match value {
                    Value::String(text) => text,
                    other => other.to_string(),
                }
            }
            // A field must not stand twice in the object.
            "ts" | "level" | "msg" | "target" => drop(self.fields.insert(format!("{name}_"), value)),
            _ => drop(self.fields.insert(name.to_owned(), value)),
        }
    }
}

impl Visit for Fields {
    fn record_f64(&mut self, field: &Field, value: f64) {
        self.put(field.name(), value.into());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(field.name(), value.into());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put(field.name(), value.into());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put(field.name(), value.into());
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.put(field.name(), value.into());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.put(field.name(), format!("{value:?}").into());
    }
}

/// Says which repeated troubles are worth a log line: a new one, one that changed, and one that is still there after
/// an interval. Pure: time is an argument.
///
/// ```
/// # use std::time::Duration;
/// # use kubequota_shell::OncePer;
/// # use tokio::time::Instant;
/// let mut troubles = OncePer::new(Duration::from_secs(600));
/// let mut lines = 0;
/// for attempt in 0..100 {
///     if let Some(repeats) = troubles.check("list pods", "pods is forbidden", Instant::now()) {
///         lines += 1; // tracing::warn!(repeats, "pods is forbidden; grant list and watch on pods")
///     }
/// }
/// assert_eq!(lines, 1);
/// ```
#[derive(Clone, Debug)]
pub struct OncePer {
    interval: Duration,
    seen: HashMap<String, Seen>,
    swept: Option<Instant>,
}

#[derive(Clone, Debug)]
struct Seen {
    trouble: String,
    logged: Instant,
    last: Instant,
    repeats: u64,
}

impl OncePer {
    /// Repeats the same trouble no more often than once per `interval`.
    pub fn new(interval: Duration) -> Self {
        Self {
            interval,
            seen: HashMap::new(),
            swept: None,
        }
    }

    /// `Some` when `trouble` should be logged now, with how often it was kept silent since its last line. `key` says
    /// what is in trouble; the same key with another trouble is logged at once.
    pub fn check(&mut self, key: &str, trouble: &str, now: Instant) -> Option<u64> {
        self.sweep(now);
        match self.seen.get_mut(key) {
            Some(seen) if seen.trouble == trouble && now.saturating_duration_since(seen.logged) < self.interval => {
                seen.last = now;
                seen.repeats += 1;
                None
            }
            Some(seen) => {
                let repeats = if seen.trouble == trouble { seen.repeats } else { 0 };
                *seen = Seen {
                    trouble: trouble.to_owned(),
                    logged: now,
                    last: now,
                    repeats: 0,
                };
                Some(repeats)
            }
            None => {
                let seen = Seen {
                    trouble: trouble.to_owned(),
                    logged: now,
                    last: now,
                    repeats: 0,
                };
                self.seen.insert(key.to_owned(), seen);
                Some(0)
            }
        }
    }

    /// The trouble of `key` is over: the next one is new. True when there was one, so that its end is worth a line.
    pub fn over(&mut self, key: &str) -> bool {
        self.seen.remove(key).is_some()
    }

    /// Keys may name objects that come and go: what has not been seen for two intervals is forgotten.
    fn sweep(&mut self, now: Instant) {
        let due = self
            .swept
            .is_none_or(|swept| now.saturating_duration_since(swept) >= self.interval);
        if due {
            self.swept = Some(now);
            self.seen
                .retain(|_, seen| now.saturating_duration_since(seen.last) < self.interval * 2);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use parking_lot::Mutex;

    use super::*;

    #[derive(Clone, Default)]
    struct Buffer(Arc<Mutex<Vec<u8>>>);

    impl std::io::Write for Buffer {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    /// What `log` writes, with colors off.
    fn written(format: LogFormat, filter: &str, log: impl FnOnce()) -> String {
        let buffer = Buffer::default();
        let writer = buffer.clone();
        let subscriber = subscriber(format, filter, false, move || writer.clone()).unwrap();
        tracing::subscriber::with_default(subscriber, log);
        let bytes = buffer.0.lock().clone();
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn json_is_one_flat_object_a_line() {
        let text = written(LogFormat::Json, "info", || {
            let _outer = tracing::info_span!("quota", quota = "team-a/compute", attempt = 1).entered();
            let _inner = tracing::info_span!("write", attempt = 2).entered();
            tracing::warn!(code = 409, dry = true, ratio = 0.5, level = "x", error = %"a\n\"b\"", "conflict on {}", 7);
            tracing::debug!("not shown");
            tracing::info!(names = ?["cpu"], "second");
        });
        let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(lines.len(), 2, "{text}");
        assert!(text.starts_with("{\"ts\":\""), "{text}");
        let mut first = lines[0].clone();
        let ts = first.as_object_mut().unwrap().remove("ts").unwrap();
        let ts = ts.as_str().unwrap();
        assert!(
            ts.ends_with('Z') && ts.len() == "2026-03-01T09:30:00.000Z".len(),
            "{ts}"
        );
        assert!(ts.parse::<jiff::Timestamp>().is_ok(), "{ts}");
        assert_eq!(
            first,
            serde_json::json!({
                "level": "warn", "msg": "conflict on 7", "target": "kubequota_shell::logs::tests",
                "quota": "team-a/compute", "attempt": 2, "code": 409, "dry": true, "ratio": 0.5, "level_": "x",
                "error": "a\n\"b\"",
            })
        );
        assert_eq!(lines[1]["names"], "[\"cpu\"]");
    }

    #[test]
    fn text_is_readable() {
        let text = written(LogFormat::Text, "warn", || {
            tracing::info!("not shown");
            tracing::warn!(quota = %"team-a/compute", "foreign status writer");
        });
        let (ts, rest) = text.split_once(' ').unwrap();
        assert!(ts.parse::<jiff::Timestamp>().is_ok(), "{text}");
        assert_eq!(rest, " WARN foreign status writer quota=team-a/compute\n");
    }

    #[test]
    fn errors_say_what_to_do() {
        let error = subscriber(LogFormat::Text, "info,a=loud", false, std::io::sink)
            .map(|_| ())
            .unwrap_err();
        assert!(error.to_string().contains("give a level (info, debug, ...)"), "{error}");
        let error = "xml".parse::<LogFormat>().unwrap_err();
        assert_eq!(error.to_string(), "unknown log format \"xml\"; use text or json");
        for format in [LogFormat::Text, LogFormat::Json] {
            assert_eq!(format.to_string().parse::<LogFormat>().unwrap(), format);
        }
    }

    #[test]
    fn a_trouble_is_said_once_per_interval() {
        let mut troubles = OncePer::new(Duration::from_secs(60));
        let begin = Instant::now();
        let table = [
            (0, "pods", "forbidden", Some(0), "new"),
            (1, "pods", "forbidden", None, "the same"),
            (1, "secrets", "forbidden", Some(0), "another key"),
            (59, "pods", "forbidden", None, "the same, within the interval"),
            (60, "pods", "forbidden", Some(2), "the interval is over"),
            (61, "pods", "not found", Some(0), "it changed"),
            (62, "pods", "forbidden", Some(0), "it changed back"),
            (63, "pods", "forbidden", None, "the same"),
        ];
        for (at, key, trouble, expected, why) in table {
            assert_eq!(
                troubles.check(key, trouble, begin + Duration::from_secs(at)),
                expected,
                "{at}: {why}"
            );
        }
        assert!(troubles.over("pods"));
        assert!(!troubles.over("pods"));
        assert_eq!(
            troubles.check("pods", "forbidden", begin + Duration::from_secs(64)),
            Some(0)
        );
    }

    #[test]
    fn what_is_no_longer_seen_is_forgotten() {
        let mut troubles = OncePer::new(Duration::from_secs(60));
        let begin = Instant::now();
        for n in 0..100 {
            troubles.check(&format!("pod {n}"), "unreadable", begin);
        }
        troubles.check("pod 7", "unreadable", begin + Duration::from_secs(100));
        troubles.check("other", "x", begin + Duration::from_secs(180));
        let mut left: Vec<_> = troubles.seen.keys().map(String::as_str).collect();
        left.sort_unstable();
        assert_eq!(left, ["other", "pod 7"]);
    }
}
