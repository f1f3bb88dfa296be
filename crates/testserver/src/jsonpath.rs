//! The little of JSONPath that printer columns and scale paths are written in.

use serde_json::Value;

/// A path, `.status.conditions[?(@.type=="Ready")].status` for instance. It finds at most one value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct JsonPath(Option<Vec<Step>>);

#[derive(Clone, Debug, PartialEq)]
enum Step {
    Field(String),
    /// An entry of a list; negative counts from its end.
    Index(i64),
    First,
    /// The first entry whose field has this text.
    Where(Vec<String>, String),
}

impl JsonPath {
    /// Reads a path; one that is beyond this parser finds nothing.
    pub(crate) fn parse(text: &str) -> Self {
        Self(steps(text))
    }

    /// What the path leads to.
    pub(crate) fn find<'a>(&self, object: &'a Value) -> Option<&'a Value> {
        self.0.as_ref()?.iter().try_fold(object, |value, step| match step {
            Step::Field(name) => value.get(name),
            Step::First => value.get(0),
            Step::Index(at) => {
                let items = value.as_array()?;
                let at = if *at < 0 { *at + items.len() as i64 } else { *at };
                items.get(usize::try_from(at).ok()?)
            }
            Step::Where(path, wanted) => {
                let matches = |item: &&Value| {
                    let found = path.iter().try_fold(*item, |value, name| value.get(name));
                    let text = |found: &Value| found.as_str().map_or_else(|| found.to_string(), str::to_owned);
                    found.map(text).as_ref() == Some(wanted)
                };
                value.as_array()?.iter().find(matches)
            }
        })
    }

    /// The names of a path that consists of fields only.
    pub(crate) fn fields(&self) -> Option<Vec<&str>> {
        let names = self.0.as_ref()?.iter().map(|step| match step {
            Step::Field(name) => Some(name.as_str()),
            _ => None,
        });
        names.collect()
    }
}

fn steps(text: &str) -> Option<Vec<Step>> {
    let mut rest = text.trim();
    let mut steps = Vec::new();
    while !rest.is_empty() {
        if let Some(inner) = rest.strip_prefix('[') {
            let end = closing(inner)?;
            steps.push(bracketed(inner[..end].trim())?);
            rest = &inner[end + 1..];
            continue;
        }
        let named = rest.strip_prefix('.').unwrap_or(rest);
        let (name, length) = field_name(named);
        if name.is_empty() {
            return None;
        }
        steps.push(Step::Field(name));
        rest = &named[length..];
    }
    Some(steps)
}

/// A name up to the next dot or bracket, and its length; a backslash takes the next character as it is.
fn field_name(text: &str) -> (String, usize) {
    let (mut name, mut escaped) = (String::new(), false);
    for (at, c) in text.char_indices() {
        match c {
            '\\' if !escaped => escaped = true,
            '.' | '[' if !escaped => return (name, at),
            c => {
                name.push(c);
                escaped = false;
            }
        }
    }
    (name, text.len())
}

/// Where the bracket closes, outside of quotes.
fn closing(text: &str) -> Option<usize> {
    let mut quote = None;
    text.char_indices().find_map(|(at, c)| {
        match (quote, c) {
            (None, ']') => return Some(at),
            (None, '\'' | '"') => quote = Some(c),
            (Some(open), c) if open == c => quote = None,
            _ => {}
        }
        None
    })
}

fn bracketed(text: &str) -> Option<Step> {
    if text == "*" {
        return Some(Step::First);
    }
    if let Some(name) = unquoted(text) {
        return Some(Step::Field(name.replace('\\', "")));
    }
    if let Some(condition) = text.strip_prefix("?(").and_then(|text| text.strip_suffix(')')) {
        let (path, wanted) = condition.split_once("==")?;
        let JsonPath(Some(path)) = JsonPath::parse(path.trim().strip_prefix('@')?) else {
            return None;
        };
        let names = JsonPath(Some(path)).fields()?.into_iter().map(str::to_owned).collect();
        let wanted = wanted.trim();
        return Some(Step::Where(names, unquoted(wanted).unwrap_or(wanted).to_owned()));
    }
    text.parse().ok().map(Step::Index)
}

fn unquoted(text: &str) -> Option<&str> {
    ['\'', '"']
        .into_iter()
        .find_map(|quote| text.strip_prefix(quote)?.strip_suffix(quote))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn paths_find_their_value() {
        let object = json!({
            "spec": {"size": 3, "list": ["a", "b"]},
            "metadata": {"labels": {"a.b/c": "x"}},
            "status": {"conditions": [{"type": "A", "status": "False"}, {"type": "Ready", "status": "True"}]},
        });
        for (path, found) in [
            (".spec.size", Some(json!(3))),
            ("spec.size", Some(json!(3))),
            (".spec.list[1]", Some(json!("b"))),
            (".spec.list[-1]", Some(json!("b"))),
            (".spec.list[*]", Some(json!("a"))),
            (".spec.list[7]", None),
            (".metadata.labels['a.b/c']", Some(json!("x"))),
            (r".metadata.labels.a\.b/c", Some(json!("x"))),
            (r#".status.conditions[?(@.type=="Ready")].status"#, Some(json!("True"))),
            (r#".status.conditions[?(@.type == 'B')].status"#, None),
            (".nothing.here", None),
            ("..size", None),
            (".spec[", None),
            (".spec[?(x)]", None),
        ] {
            assert_eq!(JsonPath::parse(path).find(&object), found.as_ref(), "{path}");
        }
    }

    #[test]
    fn plain_paths_have_names() {
        assert_eq!(
            JsonPath::parse(".spec.replicas").fields(),
            Some(vec!["spec", "replicas"])
        );
        assert_eq!(JsonPath::parse(".spec[0]").fields(), None);
    }
}
