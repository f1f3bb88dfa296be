//! Objects in files: YAML or JSON, several documents in one, lists in lists.
//!
//! What can't be read is reported with its place, and spoils nothing else: a syntax error the rest of its document, anything else its
//! object. Documents are read one after the other, and the items of a list as they come.

use std::fmt;
use std::sync::Arc;

use kubequota_core::FieldError;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::json;
use crate::shape::{self, Shape};
use crate::yaml::{self, Part};

/// Where an object stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The file, as the caller named it.
    pub file: Arc<str>,
    /// The document in it, from 1.
    pub document: usize,
    /// The index in the document's `items`, from 0.
    pub item: Option<usize>,
}

/// `pods.yaml, document 3, items[4]`
impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, document {}", self.file, self.document)?;
        self.item.map_or(Ok(()), |item| write!(f, ", items[{item}]"))
    }
}

/// A piece of a file that can't be read, or is no object.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {reason}")]
pub struct FileError {
    /// Where.
    pub place: Place,
    /// Why.
    pub reason: String,
}

/// An object in a file, not yet decoded.
#[derive(Debug)]
pub struct Found<'a> {
    /// Where it stands.
    pub place: Place,
    /// Its API version, such as `apps/v1`.
    pub api_version: String,
    /// Its kind.
    pub kind: String,
    json: &'a str,
    fault: Option<FieldError>,
}

impl Found<'_> {
    /// Its API group, empty for core.
    #[must_use]
    pub fn group(&self) -> &str {
        self.api_version.split_once('/').map_or("", |(group, _)| group)
    }

    /// Its text, as JSON. An item of a typed list, such as a PodList, need not repeat its API version and kind.
    #[must_use]
    pub fn json(&self) -> &str {
        self.json
    }

    /// Decodes it.
    ///
    /// # Errors
    /// Where not even its metadata can be read.
    pub fn read<S: Shape>(&self, shape: S) -> Result<S::Output, FieldError> {
        shape.read(self.json).map_err(|error| {
            shape::surprise(self.json).map_or_else(
                || FieldError {
                    field: "metadata".to_owned(),
                    reason: error.to_string(),
                },
                quote,
            )
        })
    }

    /// What is wrong with it as YAML, though it could be read somehow: a key that is there twice, say.
    #[must_use]
    pub fn fault(&self) -> Option<&FieldError> {
        self.fault.as_ref()
    }
}

/// Hands on every object in `bytes`, and every error, in their order. `file` is what places call it.
pub fn objects(file: &str, bytes: &[u8], each: &mut dyn FnMut(Result<Found<'_>, FileError>)) {
    let mut reader = Reader {
        place: Place {
            file: file.into(),
            document: 1,
            item: None,
        },
        each,
    };
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    let rest = reader.json(bytes);
    let lines_before = line_breaks(&bytes[..rest]);
    for (lines, chunk) in Chunks::new(&bytes[rest..]) {
        reader.yaml(lines_before + lines, chunk);
    }
}

/// What an object is.
#[derive(Clone, Debug, Default)]
struct Naming {
    api_version: Option<String>,
    kind: Option<String>,
}

/// What says how an object, or a list, is to be read.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Outline<'a> {
    #[serde(default)]
    api_version: Option<String>,
    #[serde(default)]
    kind: Option<String>,
    #[serde(borrow, default)]
    items: Option<&'a RawValue>,
}

impl Outline<'_> {
    /// Lists are told by their `items`, as kubectl tells them.
    fn items(&self) -> Option<Vec<&RawValue>> {
        serde_json::from_str(self.items?.get()).ok()
    }

    /// A list whose `items` are something else; what has a name is an object, whatever its kind is called.
    fn is_broken_list(&self, json: &str) -> bool {
        let is_named = || {
            shape::MetadataOnly
                .read(json)
                .is_ok_and(|metadata| !metadata.name.is_empty())
        };
        self.items.is_some() && self.kind.as_deref().is_some_and(|kind| kind.ends_with("List")) && !is_named()
    }

    /// What the items of this list are, where they do not say so themselves.
    fn of_items(&self) -> Naming {
        match self.kind.as_deref().and_then(|kind| kind.strip_suffix("List")) {
            None | Some("") => Naming::default(),
            Some(kind) => Naming {
                api_version: self.api_version.clone(),
                kind: Some(kind.to_owned()),
            },
        }
    }
}

/// An item whose kind stands behind it, in the list's own `kind`.
struct Waiting {
    index: usize,
    json: String,
    fault: Option<FieldError>,
}

/// An object does not say what it is.
struct Missing(&'static str);

struct Reader<'e> {
    /// Where it has got to.
    place: Place,
    each: &'e mut dyn FnMut(Result<Found<'_>, FileError>),
}

impl Reader<'_> {
    fn error(&mut self, reason: String) {
        let place = self.place.clone();
        (self.each)(Err(FileError { place, reason }));
    }

    /// Reads JSON documents from the start, up to where something else begins. All JSON is YAML: YAML's parser goes on from there.
    fn json(&mut self, bytes: &[u8]) -> usize {
        if !bytes.trim_ascii_start().starts_with(b"{") {
            return 0;
        }
        let mut documents = serde_json::Deserializer::from_slice(bytes).into_iter::<&RawValue>();
        let mut end = 0;
        while let Some(Ok(document)) = documents.next() {
            self.document(document.get(), None);
            end = documents.byte_offset();
        }
        if bytes[end..].trim_ascii().is_empty() {
            bytes.len()
        } else {
            end
        }
    }

    /// Reads the documents in a chunk of YAML, of which nearly always there is one.
    fn yaml(&mut self, lines_before: usize, bytes: &[u8]) {
        let text = match std::str::from_utf8(bytes) {
            Ok(text) => text,
            Err(error) => {
                let line = lines_before + line_breaks(&bytes[..error.valid_up_to()]) + 1;
                self.error(format!("line {line}: this is not UTF-8"));
                self.place.document += 1;
                return;
            }
        };
        let mut waiting = Vec::new();
        let result = yaml::to_json(text, &mut |part| match part {
            Part::Item { index, json, fault } => {
                if self.item(index, json, fault.as_ref(), &Naming::default()).is_err() {
                    waiting.push(Waiting {
                        index,
                        json: json.to_owned(),
                        fault,
                    });
                }
            }
            Part::Document { json, fault } => {
                if !waiting.is_empty() {
                    let naming = outline(json).map(|outline| outline.of_items()).unwrap_or_default();
                    for Waiting { index, json, fault } in waiting.drain(..) {
                        let read = self.item(index, &json, fault.as_ref(), &naming);
                        self.place.item = Some(index);
                        read.unwrap_or_else(|missing| self.missing(missing));
                        self.place.item = None;
                    }
                }
                self.document(json, fault.as_ref());
            }
        });
        if let Err(error) = result {
            self.error(format!(
                "line {}, column {}: {}",
                lines_before + error.line,
                error.column,
                error.reason
            ));
            self.place.document += 1;
        }
    }

    fn document(&mut self, json: &str, fault: Option<&FieldError>) {
        // There is nothing between two `---`.
        if json != "null" {
            let read = self.object(json, fault, &Naming::default());
            read.unwrap_or_else(|missing| self.missing(missing));
        }
        self.place.document += 1;
    }

    /// Of lists in lists, the outer one's index tells the place.
    fn item(&mut self, index: usize, json: &str, fault: Option<&FieldError>, naming: &Naming) -> Result<(), Missing> {
        let outer = self.place.item;
        self.place.item = outer.or(Some(index));
        let read = self.object(json, fault, naming);
        self.place.item = outer;
        read
    }

    /// One object, or a list of them; `naming` is what it is if it does not say so.
    fn object(&mut self, json: &str, fault: Option<&FieldError>, naming: &Naming) -> Result<(), Missing> {
        if !json.starts_with('{') {
            let what = match json.as_bytes().first() {
                Some(b'[') => "a list",
                Some(b'"') => "text",
                Some(b'n') => "null",
                Some(b't' | b'f') => "a boolean",
                _ => "a number",
            };
            self.error(format!("this is {what}, not an object"));
            return Ok(());
        }
        let outline = match outline(json) {
            Ok(outline) => outline,
            Err(error) => {
                self.error(error.to_string());
                return Ok(());
            }
        };
        if let Some(items) = outline.items() {
            if let Some(fault) = fault {
                self.error(fault.to_string());
            }
            let naming = outline.of_items();
            for (index, item) in items.into_iter().enumerate() {
                let read = self.item(index, item.get(), None, &naming);
                let outer = self.place.item.replace(self.place.item.unwrap_or(index));
                read.unwrap_or_else(|missing| self.missing(missing));
                self.place.item = outer;
            }
            return Ok(());
        }
        if outline.is_broken_list(json) {
            self.error("items: this must be a list of objects".to_owned());
            return Ok(());
        }
        let told = |own: Option<String>, otherwise: &Option<String>| {
            own.or_else(|| otherwise.clone()).filter(|text| !text.is_empty())
        };
        let api_version = told(outline.api_version, &naming.api_version).ok_or(Missing("apiVersion"))?;
        let kind = told(outline.kind, &naming.kind).ok_or(Missing("kind"))?;
        let place = self.place.clone();
        (self.each)(Ok(Found {
            place,
            api_version,
            kind,
            json,
            fault: fault.cloned(),
        }));
        Ok(())
    }

    fn missing(&mut self, Missing(field): Missing) {
        self.error(format!("{field}: missing"));
    }
}

fn outline(json: &str) -> Result<Outline<'_>, FieldError> {
    json::decode(std::marker::PhantomData, json).map_err(quote)
}

/// Tells those who have written `n` and read of a boolean what to do.
pub(crate) fn quote(mut error: FieldError) -> FieldError {
    if error.reason.starts_with("invalid type: boolean") && error.reason.ends_with("expected a string") {
        error
            .reason
            .push_str(" (in YAML y, n, yes, no, on and off are booleans, too: put it in quotes)");
    }
    error
}

fn line_breaks(bytes: &[u8]) -> usize {
    bytes.iter().filter(|byte| **byte == b'\n').count()
}

/// The documents of a YAML text, cut at lines that begin with `---`, so that a broken one does not spoil the next. Each comes with
/// the number of lines before it. What stands before the first `---` is no document of its own if it is only comments and directives.
struct Chunks<'a> {
    rest: &'a [u8],
    lines_before: usize,
}

impl<'a> Chunks<'a> {
    fn new(bytes: &'a [u8]) -> Self {
        Chunks {
            rest: bytes,
            lines_before: 0,
        }
    }
}

impl<'a> Iterator for Chunks<'a> {
    type Item = (usize, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let (mut end, mut lines, mut begun) = (0, 0, false);
        for line in self.rest.split_inclusive(|byte| *byte == b'\n') {
            let is_start = line
                .strip_prefix(b"---")
                .is_some_and(|rest| rest.first().is_none_or(u8::is_ascii_whitespace));
            if is_start && begun {
                break;
            }
            let is_content = !matches!(line.trim_ascii().first(), None | Some(b'#')) && line[0] != b'%';
            begun |= is_start || is_content;
            end += line.len();
            lines += 1;
        }
        let chunk = (self.lines_before, &self.rest[..end]);
        self.rest = &self.rest[end..];
        self.lines_before += lines;
        Some(chunk)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every object and error, a line each.
    fn read(bytes: impl AsRef<[u8]>) -> Vec<String> {
        let mut lines = Vec::new();
        objects("f", bytes.as_ref(), &mut |found| {
            lines.push(match found {
                Ok(found) => {
                    let name = found
                        .read(shape::MetadataOnly)
                        .map_or_else(|error| error.to_string(), |metadata| metadata.display_name());
                    let fault = found.fault().map(|fault| format!(" ({fault})")).unwrap_or_default();
                    format!("{}: {} {} {name}{fault}", found.place, found.api_version, found.kind)
                }
                Err(error) => error.to_string(),
            });
        });
        lines
    }

    const A: &str = "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n";
    const B: &str = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: b, namespace: team}\n";
    const A_JSON: &str = r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"}}"#;

    #[test]
    fn documents() {
        let a = |document: usize| format!("f, document {document}: v1 Pod a");
        let b = |document: usize| format!("f, document {document}: apps/v1 Deployment team/b");
        let table: Vec<(String, Vec<String>)> = vec![
            (String::new(), vec![]),
            ("# nothing\n".into(), vec![]),
            ("---\n".into(), vec![]),
            (A.into(), vec![a(1)]),
            (format!("{A}---\n{B}"), vec![a(1), b(2)]),
            (format!("---\n{A}---\n{B}---\n"), vec![a(1), b(2)]),
            (
                format!("# about\n\n%YAML 1.1\n---\n{A}--- # and\n{B}"),
                vec![a(1), b(2)],
            ),
            (format!("---\n---\n{A}"), vec![a(2)]),
            (format!("{A}---\n# nothing\n---\n{B}"), vec![a(1), b(3)]),
            (format!("{A}...\n---\n{B}...\n"), vec![a(1), b(2)]),
            (format!("{A}---\n{B}").replace('\n', "\r\n"), vec![a(1), b(2)]),
            (format!("\u{feff}{A}"), vec![a(1)]),
            (format!("\u{feff}{A_JSON}"), vec![a(1)]),
            (format!("{A_JSON}\n{A_JSON}"), vec![a(1), a(2)]),
            (format!("{A_JSON}\n---\n{A_JSON}\n---\n{B}"), vec![a(1), a(2), b(3)]),
            ("{apiVersion: v1, kind: Pod, metadata: {name: a}}".into(), vec![a(1)]),
            (format!("--- {A_JSON}\n"), vec![a(1)]),
        ];
        for (text, expected) in table {
            assert_eq!(read(&text), expected, "{text:?}");
        }
    }

    #[test]
    fn lists() {
        let table = [
            (
                "apiVersion: v1\nitems:\n- {apiVersion: v1, kind: Pod, metadata: {name: a}}\n- {apiVersion: apps/v1, kind: Deployment, metadata: {name: b}}\nkind: List\n",
                vec![
                    "f, document 1, items[0]: v1 Pod a",
                    "f, document 1, items[1]: apps/v1 Deployment b",
                ],
            ),
            // What a server sends: the list alone says what its items are, before them or behind them.
            (
                r#"{"kind":"PodList","apiVersion":"v1","metadata":{},"items":[{"metadata":{"name":"a"}},{"metadata":{"name":"b"}}]}"#,
                vec!["f, document 1, items[0]: v1 Pod a", "f, document 1, items[1]: v1 Pod b"],
            ),
            (
                "apiVersion: example.com/v1\nitems:\n- metadata: {name: a}\n- metadata: {name: b}\nkind: WidgetList\n",
                vec![
                    "f, document 1, items[0]: example.com/v1 Widget a",
                    "f, document 1, items[1]: example.com/v1 Widget b",
                ],
            ),
            (
                r#"{"kind":"List","apiVersion":"v1","items":[{"kind":"PodList","apiVersion":"v1","items":[{"metadata":{"name":"a"}}]}, 5, {}]}"#,
                vec![
                    "f, document 1, items[0]: v1 Pod a",
                    "f, document 1, items[1]: this is a number, not an object",
                    "f, document 1, items[2]: apiVersion: missing",
                ],
            ),
            (
                "items:\n- metadata: {name: a}\nkind: List\napiVersion: v1\n",
                vec!["f, document 1, items[0]: apiVersion: missing"],
            ),
            ("kind: PodList\napiVersion: v1\nitems: []\n", vec![]),
            (
                "kind: List\napiVersion: v1\nitems: {apiVersion: v1, kind: Pod, metadata: {name: a}}\n",
                vec!["f, document 1: items: this must be a list of objects"],
            ),
            (
                "kind: AllowList\napiVersion: example.com/v1\nmetadata: {name: a}\nitems: {b: c}\n",
                vec!["f, document 1: example.com/v1 AllowList a"],
            ),
        ];
        for (text, expected) in table {
            assert_eq!(read(text), expected, "{text:?}");
        }
    }

    #[test]
    fn errors_spoil_nothing_else() {
        let broken = format!("{A}---\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: [never, closed\n---\n{B}");
        let lines = read(&broken);
        assert_eq!(lines.len(), 3, "{lines:?}");
        assert_eq!(lines[0], "f, document 1: v1 Pod a");
        assert!(lines[1].starts_with("f, document 2: line "), "{lines:?}");
        assert_eq!(lines[2], "f, document 3: apps/v1 Deployment team/b");

        let table: Vec<(Vec<u8>, Vec<&str>)> = vec![
            ([b"a: \"\xff\"\n---\n", A.as_bytes()].concat(), vec!["f, document 1: line 1: this is not UTF-8", "f, document 2: v1 Pod a"]),
            (b"just text\n---\n- 1\n---\nyes\n---\n5\n".to_vec(), vec![
                "f, document 1: this is text, not an object",
                "f, document 2: this is a list, not an object",
                "f, document 3: this is a boolean, not an object",
                "f, document 4: this is a number, not an object",
            ]),
            (b"kind: Pod\n".to_vec(), vec!["f, document 1: apiVersion: missing"]),
            (b"apiVersion: v1\nkind: ''\n".to_vec(), vec!["f, document 1: kind: missing"]),
            (b"apiVersion: v1\nkind: yes\n".to_vec(), vec!["f, document 1: kind: invalid type: boolean `true`, expected a string (in YAML y, n, yes, no, on and off are booleans, too: put it in quotes)"]),
            (b"apiVersion: v1\nkind: Pod\nmetadata: {name: a, namespace: n}\n".to_vec(), vec![
                "f, document 1: v1 Pod metadata.namespace: invalid type: boolean `false`, expected a string (in YAML y, n, yes, no, on and off are booleans, too: put it in quotes)",
            ]),
            (b"apiVersion: v1\nkind: Pod\n".to_vec(), vec!["f, document 1: v1 Pod "]),
            (b"apiVersion: v1\nkind: Pod\nmetadata: {name: 5}\n".to_vec(), vec![
                "f, document 1: v1 Pod metadata.name: invalid type: integer `5`, expected a string",
            ]),
            (b"apiVersion: v1\nkind: Pod\nmetadata: {name: a, labels: {b: c, b: c}}\n".to_vec(), vec![
                "f, document 1: v1 Pod a (metadata.labels.b: this key is there twice)",
            ]),
            (b"items:\n- {apiVersion: v1, kind: Pod, metadata: {name: a}}\n- {apiVersion: v1, kind: Pod, metadata: {name: b}\n---\nx\n".to_vec(), vec![
                "f, document 1, items[0]: v1 Pod a",
            ]),
        ];
        for (bytes, expected) in table {
            let lines = read(&bytes);
            assert_eq!(
                lines[..expected.len()],
                expected,
                "{:?}",
                String::from_utf8_lossy(&bytes)
            );
        }
    }

    #[test]
    fn lines_are_counted_through_the_whole_file() {
        let text = format!("{A_JSON}\n{{\n---\n{A}---\n{A}x\n");
        let lines = read(&text);
        assert!(
            lines.iter().any(|line| line.starts_with("f, document 2: line 2, ")),
            "{lines:?}"
        );
        assert!(
            lines.iter().any(|line| line.starts_with("f, document 4: line 11, ")),
            "{lines:?}"
        );
    }
}
