//! Objects as they go over the wire: in the version that was asked for, or their metadata only.

use serde::ser::{Serialize, SerializeMap, SerializeSeq, Serializer};
use serde_json::Value;

use crate::status::Status;

/// The media types that the real server has. This one answers in the first of them alone.
pub(crate) const MEDIA_TYPES: &str = "application/json, application/yaml, application/vnd.kubernetes.protobuf";

/// What an answer shows of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// All of it.
    Whole,
    /// All of it but its type, as in the lists of built-in kinds.
    Untyped,
    /// A PartialObjectMetadata.
    Metadata,
    /// A Table, as kubectl prints it.
    Table,
}

impl Form {
    /// Picks the form that an `Accept` header wants first and the server has. `list` tells whether the answer is one.
    pub(crate) fn negotiate(accept: &str, list: bool) -> Result<Self, Status> {
        let wanted = if list {
            "PartialObjectMetadataList"
        } else {
            "PartialObjectMetadata"
        };
        let accepted = media_types(accept).find_map(|media_type| match media_type.transform() {
            _ if !media_type.is_json() => None,
            None => Some(Self::Whole),
            Some(("meta.k8s.io", "v1", kind)) if kind == wanted => Some(Self::Metadata),
            Some(("meta.k8s.io", "v1", "Table")) => Some(Self::Table),
            Some(_) => None,
        });
        accepted.ok_or_else(|| {
            let other_list = media_types(accept).any(|media_type| {
                media_type.is_json()
                    && media_type.transform() == Some(("meta.k8s.io", "v1", "PartialObjectMetadataList"))
            });
            if other_list && !list {
                let why = "you requested PartialObjectMetadataList, but the requested object is not a list (an object)";
                return Status::not_acceptable(why);
            }
            if media_types(accept).any(|media_type| media_type.is_json()) {
                return Status::not_acceptable(format!("only the following media types are accepted: {MEDIA_TYPES}"));
            }
            Status::not_acceptable(format!(
                "406: Not Acceptable\n\nAvailable representations: {MEDIA_TYPES}"
            ))
            .with_empty_details()
        })
    }
}

/// One entry of an `Accept` header.
pub(crate) struct MediaType<'a> {
    name: &'a str,
    parameters: Vec<(&'a str, &'a str)>,
}

/// The entries of an `Accept` header; an empty one accepts everything.
pub(crate) fn media_types(accept: &str) -> impl Iterator<Item = MediaType<'_>> {
    let accept = if accept.trim().is_empty() { "*/*" } else { accept };
    accept.split(',').map(|entry| {
        let mut parts = entry.split(';').map(str::trim);
        let name = parts.next().unwrap_or_default();
        MediaType {
            name,
            parameters: parts.filter_map(|part| part.split_once('=')).collect(),
        }
    })
}

impl MediaType<'_> {
    pub(crate) fn is_json(&self) -> bool {
        matches!(self.name, "application/json" | "application/*" | "*/*")
    }

    /// Group, version and kind of the wanted transformation.
    pub(crate) fn transform(&self) -> Option<(&str, &str, &str)> {
        let parameter = |name| {
            self.parameters
                .iter()
                .find(|(key, _)| *key == name)
                .map(|(_, value)| *value)
        };
        parameter("as").map(|kind| {
            (
                parameter("g").unwrap_or_default(),
                parameter("v").unwrap_or_default(),
                kind,
            )
        })
    }
}

/// An object in a form and version.
pub(crate) struct Rendered<'a> {
    pub(crate) object: &'a Value,
    pub(crate) api_version: &'a str,
    pub(crate) form: Form,
}

impl Serialize for Rendered<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Some(fields) = self.object.as_object() else {
            return self.object.serialize(serializer);
        };
        let mut map = serializer.serialize_map(None)?;
        if self.form == Form::Metadata {
            map.serialize_entry("kind", "PartialObjectMetadata")?;
            map.serialize_entry("apiVersion", "meta.k8s.io/v1")?;
            map.serialize_entry("metadata", &self.object["metadata"])?;
            return map.end();
        }
        for (name, value) in fields {
            match name.as_str() {
                "apiVersion" | "kind" if self.form == Form::Untyped => {}
                "apiVersion" => map.serialize_entry(name, self.api_version)?,
                _ => map.serialize_entry(name, value)?,
            }
        }
        map.end()
    }
}

/// Objects in a form and version.
pub(crate) struct RenderedItems<'a, T> {
    pub(crate) items: &'a [T],
    pub(crate) api_version: &'a str,
    pub(crate) form: Form,
}

impl<T: AsRef<Value>> Serialize for RenderedItems<'_, T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut items = serializer.serialize_seq(Some(self.items.len()))?;
        for item in self.items {
            let rendered = Rendered {
                object: item.as_ref(),
                api_version: self.api_version,
                form: self.form,
            };
            items.serialize_element(&rendered)?;
        }
        items.end()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_first_served_form_wins() {
        let metadata = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
        let protobuf = "application/vnd.kubernetes.protobuf";
        assert_eq!(Form::negotiate("", false), Ok(Form::Whole));
        assert_eq!(Form::negotiate("*/*", true), Ok(Form::Whole));
        assert_eq!(Form::negotiate(metadata, false), Ok(Form::Metadata));
        assert_eq!(
            Form::negotiate(&format!("{protobuf}, {metadata},application/json"), false),
            Ok(Form::Metadata)
        );
        assert_eq!(
            Form::negotiate(&format!("application/json,{metadata}"), false),
            Ok(Form::Whole)
        );
        assert_eq!(
            Form::negotiate(&format!("{metadata},application/json"), true),
            Ok(Form::Whole)
        );
        assert_eq!(Form::negotiate(protobuf, false).unwrap_err().code, 406);
        assert_eq!(Form::negotiate(metadata, true).unwrap_err().code, 406);
        assert_eq!(Form::negotiate("text/html", true).unwrap_err().code, 406);
    }

    #[test]
    fn objects_are_rendered_in_their_form() {
        let object = json!({"apiVersion": "g/v1", "kind": "A", "metadata": {"name": "x"}, "spec": 1});
        let render = |form| {
            serde_json::to_value(Rendered {
                object: &object,
                api_version: "g/v2",
                form,
            })
            .unwrap()
        };
        assert_eq!(
            render(Form::Whole),
            json!({"apiVersion": "g/v2", "kind": "A", "metadata": {"name": "x"}, "spec": 1})
        );
        assert_eq!(render(Form::Untyped), json!({"metadata": {"name": "x"}, "spec": 1}));
        let metadata =
            json!({"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata", "metadata": {"name": "x"}});
        assert_eq!(render(Form::Metadata), metadata);
    }
}
