//! YAML to JSON, as kubectl does it before it looks at an object.
//!
//! The parser's events become JSON text directly, one object at a time: a list's items are handed on as they end, so that a list of any
//! length needs no more memory than its largest item. Aliases and merge keys are expanded within a bound. What makes an object wrong
//! without breaking the syntax (a key twice, say) is a fault of that object; the text goes on behind it.

mod scalar;

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::fmt::Write;

use kubequota_core::FieldError;
use serde_json::value::RawValue;
use serde_saphyr::granit_parser::{Event, Options, Parser, ScalarStyle, Tag};

use self::scalar::Scalar;

/// How much text aliases may add to a document, in multiples of its own length. Beyond, it is an attack or a mistake.
const MOST_ALIASED: usize = 10;
/// Short documents may add this much in any case.
const ALWAYS_ALIASED: usize = 1 << 20;

/// A piece of a document, as JSON.
#[derive(Debug)]
pub(crate) enum Part<'a> {
    /// An item of the document's top-level `items`.
    Item {
        /// Its place in the list, from 0.
        index: usize,
        json: &'a str,
        fault: Option<FieldError>,
    },
    /// All of the document but the items that came before.
    Document { json: &'a str, fault: Option<FieldError> },
}

/// Text that is not YAML. What stands behind it is lost, up to the next document.
#[derive(Debug, PartialEq)]
pub(crate) struct SyntaxError {
    /// From 1.
    pub(crate) line: usize,
    /// From 1.
    pub(crate) column: usize,
    pub(crate) reason: String,
}

/// Reads the documents in `text`.
pub(crate) fn to_json(text: &str, each: &mut dyn FnMut(Part<'_>)) -> Result<(), SyntaxError> {
    let mut options = Options::default();
    options.set_emit_comments(false);
    // As libyaml has it, and so kubectl.
    options.block_scalar_eof_without_line_feed = true;
    let mut composer = Composer::new(text.len(), each);
    for event in Parser::new_from_str_with_options(text, options) {
        match event {
            Ok((event, _)) => composer.take(event),
            Err(error) => {
                let at = error.marker();
                return Err(SyntaxError {
                    line: at.line(),
                    column: at.col() + 1,
                    reason: error.info(),
                });
            }
        }
    }
    Ok(())
}

/// JSON in the making.
struct Composer<'t, 'e> {
    out: String,
    /// Collections that have begun and not ended.
    frames: Vec<Frame>,
    /// The keys of all mappings in `frames`, outermost first.
    keys: Vec<Cow<'t, str>>,
    anchors: HashMap<usize, String>,
    /// How much text anchors and aliases may still take.
    budget: usize,
    /// The first fault of what is being read: an item, or the document around them.
    fault: Option<FieldError>,
    /// The document's, while an item is read.
    document_fault: Option<FieldError>,
    text_length: usize,
    each: &'e mut dyn FnMut(Part<'_>),
}

struct Frame {
    /// Where its text starts.
    start: usize,
    /// 0 for none.
    anchor: usize,
    /// How many children or members it has so far.
    length: usize,
    body: Body,
}

#[derive(Clone, Copy)]
enum Body {
    Sequence,
    /// The sequence whose children are handed on one by one.
    Items,
    Mapping {
        /// Where its keys start.
        keys: usize,
        next: Next,
        /// Some of its members come from a merge key, and so may be there twice.
        merged: bool,
    },
}

/// What a mapping awaits.
#[derive(Clone, Copy, PartialEq)]
enum Next {
    Key,
    Value,
    /// The value of a merge key.
    Merge,
}

impl<'t, 'e> Composer<'t, 'e> {
    fn new(text_length: usize, each: &'e mut dyn FnMut(Part<'_>)) -> Self {
        Composer {
            out: String::new(),
            frames: Vec::new(),
            keys: Vec::new(),
            anchors: HashMap::new(),
            budget: 0,
            fault: None,
            document_fault: None,
            text_length,
            each,
        }
    }

    fn take(&mut self, event: Event<'t>) {
        match event {
            Event::DocumentStart(..) => {
                self.out.clear();
                self.anchors.clear();
                self.budget = (self.text_length * MOST_ALIASED).max(ALWAYS_ALIASED);
                self.fault = None;
            }
            Event::DocumentEnd => {
                let fault = self.fault.take();
                (self.each)(Part::Document { json: &self.out, fault });
            }
            Event::Scalar(text, style, anchor, tag) => self.scalar(text, style, anchor, tag.as_deref()),
            Event::Alias(anchor) => self.alias(anchor),
            Event::SequenceStart(_, anchor, _) => {
                let body = if self.is_items() { Body::Items } else { Body::Sequence };
                self.open('[', anchor, body);
                if matches!(body, Body::Items) {
                    self.document_fault = self.fault.take();
                }
            }
            Event::MappingStart(_, anchor, _) => {
                self.open(
                    '{',
                    anchor,
                    Body::Mapping {
                        keys: self.keys.len(),
                        next: Next::Key,
                        merged: false,
                    },
                );
            }
            Event::SequenceEnd => self.close(']'),
            Event::MappingEnd => self.close('}'),
            // Comments and the like.
            _ => {}
        }
    }

    /// Whether the node that begins is the value of the top-level `items`.
    fn is_items(&self) -> bool {
        let [
            Frame {
                body: Body::Mapping { next: Next::Value, .. },
                ..
            },
        ] = self.frames[..]
        else {
            return false;
        };
        self.keys.last().is_some_and(|key| key == "items")
    }

    fn next(&self) -> Option<Next> {
        match self.frames.last()?.body {
            Body::Mapping { next, .. } => Some(next),
            Body::Sequence | Body::Items => None,
        }
    }

    fn await_next(&mut self, awaited: Next) {
        if let Some(Frame {
            body: Body::Mapping { next, .. },
            ..
        }) = self.frames.last_mut()
        {
            *next = awaited;
        }
    }

    fn scalar(&mut self, text: Cow<'t, str>, style: ScalarStyle, anchor: usize, tag: Option<&Tag>) {
        let at_key = self.next() == Some(Next::Key);
        if at_key && text == "<<" && style == ScalarStyle::Plain && tag.is_none() {
            return self.await_next(Next::Merge);
        }
        let value = match tag {
            Some(tag) => scalar::tagged(tag.core_suffix(), text).unwrap_or_else(|reason| {
                self.wrong(reason);
                Scalar::Null
            }),
            None if style == ScalarStyle::Plain => scalar::plain(text),
            None => Scalar::Text(text),
        };
        if at_key {
            let key = match value {
                Scalar::Text(text) => text,
                Scalar::Bool(value) => value.to_string().into(),
                Scalar::Integer(value) => value.to_string().into(),
                Scalar::Float(value) => value.to_string().into(),
                Scalar::Null => {
                    self.wrong("null can be no key".to_owned());
                    "null".into()
                }
            };
            if anchor != 0 {
                self.anchors.insert(anchor, quoted(&key));
            }
            return self.key(key);
        }
        let start = self.begin();
        match value {
            Scalar::Null => self.out.push_str("null"),
            Scalar::Bool(value) => self.out.push_str(if value { "true" } else { "false" }),
            Scalar::Text(text) => push_quoted(&mut self.out, &text),
            Scalar::Integer(value) => push_shown(&mut self.out, value),
            Scalar::Float(value) if value.is_finite() => push_shown(&mut self.out, value),
            Scalar::Float(value) => {
                self.wrong(format!("{value} is no number that JSON has"));
                self.out.push_str("null");
            }
        }
        self.end(start, anchor);
    }

    fn alias(&mut self, anchor: usize) {
        let text = match self.anchors.get(&anchor) {
            Some(text) if text.len() <= self.budget => text.clone(),
            Some(_) => {
                self.wrong("its aliases make the document too large".to_owned());
                "null".to_owned()
            }
            None => {
                self.wrong("an alias stands within what it refers to".to_owned());
                "null".to_owned()
            }
        };
        self.budget -= text.len().min(self.budget);
        if self.next() == Some(Next::Key) {
            match serde_json::from_str::<String>(&text) {
                Ok(key) => self.key(key.into()),
                Err(_) => self.bad_key(),
            }
            return;
        }
        let start = self.begin();
        self.out.push_str(&text);
        self.end(start, 0);
    }

    fn key(&mut self, key: Cow<'t, str>) {
        self.separate();
        push_quoted(&mut self.out, &key);
        self.out.push(':');
        self.keys.push(key);
        self.await_next(Next::Value);
    }

    fn bad_key(&mut self) {
        self.wrong("a key must be text".to_owned());
        self.key("?".into());
    }

    /// A comma before all members but the first.
    fn separate(&mut self) {
        if let Some(frame) = self.frames.last_mut() {
            if frame.length > 0 {
                self.out.push(',');
            }
            frame.length += 1;
        }
    }

    /// A node that is no key begins here.
    fn begin(&mut self) -> usize {
        match self.frames.last_mut() {
            Some(Frame {
                body: Body::Sequence, ..
            }) => self.separate(),
            Some(frame @ Frame { body: Body::Items, .. }) => frame.length += 1,
            _ => {}
        }
        self.out.len()
    }

    fn open(&mut self, bracket: char, anchor: usize, body: Body) {
        // A collection as a key is read and thrown away, since there is no such key in JSON.
        let start = if self.next() == Some(Next::Key) {
            self.out.len()
        } else {
            self.begin()
        };
        self.out.push(bracket);
        self.frames.push(Frame {
            start,
            anchor,
            length: 0,
            body,
        });
    }

    fn close(&mut self, bracket: char) {
        if let Some(Frame {
            body: Body::Mapping { keys, .. },
            ..
        }) = self.frames.last()
        {
            let keys = *keys;
            self.keys[keys..].sort_unstable();
            let twice = self.keys[keys..].windows(2).find(|pair| pair[0] == pair[1]);
            let twice = twice.map(|pair| pair[0].to_string());
            self.keys.truncate(keys);
            if let Some(twice) = twice {
                let path = self.path();
                let dot = if path.is_empty() { "" } else { "." };
                self.wrong_at(format!("{path}{dot}{twice}"), "this key is there twice".to_owned());
            }
        }
        let Some(Frame {
            start, anchor, body, ..
        }) = self.frames.pop()
        else {
            return;
        };
        self.out.push(bracket);
        match body {
            Body::Mapping { merged: true, .. } => self.keep_last(start),
            Body::Items => self.fault = self.document_fault.take(),
            _ => {}
        }
        if self.next() == Some(Next::Key) {
            self.out.truncate(start);
            self.bad_key();
        } else {
            self.end(start, anchor);
        }
    }

    /// Of members that are there twice only the last is kept.
    fn keep_last(&mut self, start: usize) {
        let text = self.out.split_off(start);
        let members = serde_json::from_str::<BTreeMap<String, &RawValue>>(&text);
        self.out.push_str(
            &members
                .and_then(|members| serde_json::to_string(&members))
                .unwrap_or(text),
        );
    }

    /// The node that began at `start` is complete.
    fn end(&mut self, start: usize, anchor: usize) {
        if anchor != 0 {
            let text = &self.out[start..];
            if text.len() <= self.budget {
                self.budget -= text.len();
                self.anchors.insert(anchor, text.to_owned());
            } else {
                self.wrong("its anchors make the document too large".to_owned());
            }
        }
        match self.frames.last() {
            Some(Frame {
                body: Body::Items,
                length,
                ..
            }) => {
                let fault = self.fault.take();
                (self.each)(Part::Item {
                    index: length - 1,
                    json: &self.out[start..],
                    fault,
                });
                self.out.truncate(start);
            }
            Some(Frame {
                body: Body::Mapping { next: Next::Merge, .. },
                ..
            }) => self.merge(start),
            _ => {}
        }
        self.await_next(Next::Key);
    }

    /// Takes the mapping, or mappings, from `start` on into the mapping around. Later members replace earlier ones, be they merged or
    /// not; of several mappings the first is taken before the others. So does kubectl.
    fn merge(&mut self, start: usize) {
        let text = self.out.split_off(start);
        let sources: Vec<&str> = if text.starts_with('[') {
            serde_json::from_str::<Vec<&RawValue>>(&text)
                .unwrap_or_default()
                .into_iter()
                .rev()
                .map(RawValue::get)
                .collect()
        } else {
            vec![&text]
        };
        for source in sources {
            match source.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')) {
                Some("") => {}
                Some(members) => {
                    self.separate();
                    self.out.push_str(members);
                }
                None => self.wrong("a merge key (<<) takes a mapping, or a list of mappings".to_owned()),
            }
        }
        if let Some(Frame {
            body: Body::Mapping { merged, .. },
            ..
        }) = self.frames.last_mut()
        {
            *merged = true;
        }
    }

    fn wrong(&mut self, reason: String) {
        let path = self.path();
        self.wrong_at(if path.is_empty() { "object".to_owned() } else { path }, reason);
    }

    fn wrong_at(&mut self, field: String, reason: String) {
        self.fault.get_or_insert(FieldError { field, reason });
    }

    /// The path of what is being read, within its item or document.
    fn path(&self) -> String {
        let within_item = matches!(self.frames.get(1), Some(Frame { body: Body::Items, .. }));
        let mut path = String::new();
        for (index, frame) in self.frames.iter().enumerate().skip(if within_item { 2 } else { 0 }) {
            match frame.body {
                Body::Sequence | Body::Items => path.push_str(&format!("[{}]", frame.length.saturating_sub(1))),
                Body::Mapping { next: Next::Merge, .. } => path.push_str(if path.is_empty() { "<<" } else { ".<<" }),
                Body::Mapping { next: Next::Key, .. } => {}
                Body::Mapping {
                    keys,
                    next: Next::Value,
                    ..
                } => {
                    let inner = self.frames[index + 1..].iter().find_map(|frame| match frame.body {
                        Body::Mapping { keys, .. } => Some(keys),
                        _ => None,
                    });
                    if let Some(key) = self.keys[keys..inner.unwrap_or(self.keys.len())].last() {
                        path.push_str(if path.is_empty() { "" } else { "." });
                        path.push_str(key);
                    }
                }
            }
        }
        path
    }
}

fn push_shown(out: &mut String, value: impl std::fmt::Display) {
    // Writing to a String does not fail.
    let _ = write!(out, "{value}");
}

fn push_quoted(out: &mut String, text: &str) {
    if text.bytes().any(|byte| byte < b' ' || byte == b'"' || byte == b'\\') {
        out.push_str(&quoted(text));
    } else {
        out.push('"');
        out.push_str(text);
        out.push('"');
    }
}

fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every part, a line each.
    fn read(text: &str) -> String {
        let mut lines = Vec::new();
        let result = to_json(text, &mut |part| {
            lines.push(match part {
                Part::Item {
                    index,
                    json,
                    fault: None,
                } => format!("{index}: {json}"),
                Part::Item {
                    index,
                    json,
                    fault: Some(fault),
                } => format!("{index}: {json} ({fault})"),
                Part::Document { json, fault: None } => json.to_owned(),
                Part::Document {
                    json,
                    fault: Some(fault),
                } => format!("{json} ({fault})"),
            });
        });
        if let Err(error) = result {
            lines.push(format!("{}:{}: {}", error.line, error.column, error.reason));
        }
        lines.join("\n")
    }

    #[test]
    fn documents() {
        let table = [
            ("", ""),
            ("# nothing\n", ""),
            ("---", "null"),
            ("---\n...\n", "null"),
            ("a: 1\n", r#"{"a":1}"#),
            ("a: 1\n...\n---\nb: 2\n", "{\"a\":1}\n{\"b\":2}"),
            ("a: 1\n...\nb: 2\n", "{\"a\":1}\n{\"b\":2}"),
            ("%YAML 1.1\n---\na: yes\n", r#"{"a":true}"#),
            ("a: 1\r\nb:\r\n  - c\r\n", r#"{"a":1,"b":["c"]}"#),
            ("\u{feff}a: 1\n", r#"{"a":1}"#),
            ("{a: [1, {b: c}], \"d\": 'e'}", r#"{"a":[1,{"b":"c"}],"d":"e"}"#),
            ("a:\n- 1\n-\n- x: w\n  z:\n", r#"{"a":[1,null,{"x":"w","z":null}]}"#),
            ("a: |\n  x\n   y\n", r#"{"a":"x\n y\n"}"#),
            ("a: |\n  x", r#"{"a":"x"}"#),
            ("a: >-\n  x\n  y\n", r#"{"a":"x y"}"#),
            (
                "a: \"tab\\tquote\\\" \\x01 \\u00e9\"",
                r#"{"a":"tab\tquote\" \u0001 é"}"#,
            ),
            ("- 1", "[1]"),
            ("x", r#""x""#),
        ];
        for (text, expected) in table {
            assert_eq!(read(text), expected, "{text:?}");
        }
    }

    #[test]
    fn scalars() {
        let table = [
            ("yes", "true"),
            ("No", "false"),
            ("'yes'", r#""yes""#),
            ("\"no\"", r#""no""#),
            ("~", "null"),
            ("", "null"),
            ("1", "1"),
            ("0.5", "0.5"),
            ("1e3", "1000"),
            ("1e21", "1000000000000000000000"),
            ("1e-7", "0.0000001"),
            ("0777", "511"),
            ("0x10", "16"),
            ("100m", r#""100m""#),
            ("2026-01-01T00:00:00Z", r#""2026-01-01T00:00:00Z""#),
            ("!!str 5", r#""5""#),
            ("!!int \"5\"", "5"),
            ("!own 5", r#""5""#),
            ("! 5", r#""5""#),
        ];
        for (text, expected) in table {
            assert_eq!(read(&format!("a: {text}")), format!("{{\"a\":{expected}}}"), "{text:?}");
        }
    }

    #[test]
    fn keys() {
        let table = [
            ("y: 1", r#"{"true":1}"#),
            ("1: a", r#"{"1":"a"}"#),
            ("1.5: a", r#"{"1.5":"a"}"#),
            ("? a\n: b", r#"{"a":"b"}"#),
            ("&k a: 1\nb: *k\n", r#"{"a":1,"b":"a"}"#),
            ("a: &k b\n*k : c\n", r#"{"a":"b","b":"c"}"#),
            ("null: a", r#"{"null":"a"} (object: null can be no key)"#),
            ("a: {[x, y]: b}", r#"{"a":{"?":"b"}} (a: a key must be text)"#),
            ("a: 1\na: 2", "{\"a\":1,\"a\":2} (a: this key is there twice)"),
            ("a: 1\n\"a\": 2", "{\"a\":1,\"a\":2} (a: this key is there twice)"),
            (
                "y: 1\nyes: 2",
                "{\"true\":1,\"true\":2} (true: this key is there twice)",
            ),
            (
                "a: [{b: {c: 1, d: 2, c: 3}}]",
                "{\"a\":[{\"b\":{\"c\":1,\"d\":2,\"c\":3}}]} (a[0].b.c: this key is there twice)",
            ),
        ];
        for (text, expected) in table {
            assert_eq!(read(text), expected, "{text:?}");
        }
    }

    #[test]
    fn faults_that_are_no_syntax_errors() {
        let table = [
            ("a: .inf", "{\"a\":null} (a: inf is no number that JSON has)"),
            ("a: !!int x", "{\"a\":null} (a: \"x\" can't be read as !!int)"),
            (
                "a: &x [*x]",
                "{\"a\":[null]} (a[0]: an alias stands within what it refers to)",
            ),
            (
                "a: {<<: 5}",
                "{\"a\":{}} (a.<<: a merge key (<<) takes a mapping, or a list of mappings)",
            ),
        ];
        for (text, expected) in table {
            assert_eq!(read(text), expected, "{text:?}");
        }
    }

    #[test]
    fn aliases_and_merge_keys() {
        let table = [
            ("a: &x {b: 1}\nc: [*x, *x]", r#"{"a":{"b":1},"c":[{"b":1},{"b":1}]}"#),
            ("a: &x\nb: *x", r#"{"a":null,"b":null}"#),
            ("a: {<<: {b: 1}}", r#"{"a":{"b":1}}"#),
            ("a: {\"<<\": {b: 1}}", r#"{"a":{"<<":{"b":1}}}"#),
            (
                "a: &x {b: 1, c: 2}\nd: {<<: *x, c: 3}",
                r#"{"a":{"b":1,"c":2},"d":{"b":1,"c":3}}"#,
            ),
            // Not as YAML's merge key is specified, but what kubectl does.
            (
                "a: &x {b: 1, c: 2}\nd: {c: 3, <<: *x}",
                r#"{"a":{"b":1,"c":2},"d":{"b":1,"c":2}}"#,
            ),
            (
                "a: &x {b: 1, c: 2}\nz: &z {b: 9, q: 1}\nd: {<<: [*x, *z], c: 3}",
                r#"{"a":{"b":1,"c":2},"z":{"b":9,"q":1},"d":{"b":1,"c":3,"q":1}}"#,
            ),
            ("d: {<<: {a: 1}, <<: {b: 2}}", r#"{"d":{"a":1,"b":2}}"#),
        ];
        for (text, expected) in table {
            assert_eq!(read(text), expected, "{text:?}");
        }
    }

    #[test]
    fn a_billion_laughs() {
        let mut text = "a0: &a0 [lol, lol, lol, lol, lol, lol, lol, lol, lol]\n".to_owned();
        for level in 1..30 {
            let previous = vec![format!("*a{}", level - 1); 9].join(", ");
            text.push_str(&format!("a{level}: &a{level} [{previous}]\n"));
        }
        let read = read(&text);
        assert!(read.len() < 4 << 20, "{}", read.len());
        assert!(read.contains("make the document too large"), "no fault");
    }

    #[test]
    fn lists_are_handed_on_item_by_item() {
        let text = "apiVersion: v1\nitems:\n- &x {a: 1}\n- *x\n- {b: 1, b: 2}\n-\nkind: List\n";
        let expected = [
            r#"0: {"a":1}"#,
            r#"1: {"a":1}"#,
            r#"2: {"b":1,"b":2} (b: this key is there twice)"#,
            "3: null",
            r#"{"apiVersion":"v1","items":[],"kind":"List"}"#,
        ];
        assert_eq!(read(text), expected.join("\n"));
        assert_eq!(
            read("a: 1\na: 2\nitems: [{b: {c: .nan}}]\n"),
            "0: {\"b\":{\"c\":null}} (b.c: NaN is no number that JSON has)\n{\"a\":1,\"a\":2,\"items\":[]} (a: this key is there twice)"
        );
        assert_eq!(read("spec: {items: [1]}"), r#"{"spec":{"items":[1]}}"#);
        assert_eq!(read("items: {a: [1]}"), r#"{"items":{"a":[1]}}"#);
    }

    #[test]
    fn syntax_errors_say_where() {
        for (text, line) in [
            ("a:\n\tb: 1", 2),
            ("a: {b: 1", 1),
            ("a: *nope", 1),
            ("a: b: c", 1),
            ("a: 'x", 1),
            ("- a\nb: c", 2),
        ] {
            let error = to_json(text, &mut |_| {}).unwrap_err();
            assert_eq!(error.line, line, "{text:?}: {error:?}");
            assert!(!error.reason.is_empty(), "{text:?}");
        }
    }
}
