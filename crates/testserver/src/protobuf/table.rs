//! The messages of the kinds that clients send, as `messages.txt` describes them.

use std::collections::HashMap;
use std::sync::LazyLock;

/// All messages. That the file can be read is tested; were it not, no kind would be known.
pub(super) static TABLE: LazyLock<Table> =
    LazyLock::new(|| Table::parse(include_str!("messages.txt")).unwrap_or_default());

/// Messages, and which of them the kinds are.
#[derive(Debug, Default)]
pub(super) struct Table {
    kinds: HashMap<(String, String), MessageId>,
    messages: Vec<Vec<Field>>,
}

/// A message's place in the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MessageId(usize);

/// A field of a message.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Field {
    pub(super) number: u32,
    /// Its name in JSON. Without one it is a message whose fields stand in JSON beside the others.
    pub(super) name: Option<String>,
    /// Whether JSON leaves it out where it is empty.
    pub(super) omit_empty: bool,
    pub(super) of: Type,
}

/// The type of a field.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Type {
    Text,
    Bytes,
    Int32,
    Int64,
    Boolean,
    Double,
    Quantity,
    IntOrString,
    /// To the second.
    Time,
    /// To the microsecond.
    MicroTime,
    /// JSON as such.
    Json,
    /// A schema, or whether anything is allowed.
    SchemaOrBool(MessageId),
    /// A schema, or several.
    SchemaOrList(MessageId),
    /// A schema, or names of properties.
    SchemaOrNames(MessageId),
    Message(MessageId),
    /// May be absent, which is something else than being empty.
    Optional(Box<Type>),
    List(Box<Type>),
    /// By texts.
    Map(Box<Type>),
}

impl Table {
    /// Reads the file's text. Messages may be used before they are described.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let lines = || text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
        let names = lines().filter_map(|line| line.strip_prefix("message "));
        let ids: HashMap<&str, MessageId> = names.zip((0..).map(MessageId)).collect();
        let mut table = Self::default();
        for line in lines() {
            let words: Vec<&str> = line.split(' ').collect();
            match (words.as_slice(), table.messages.last_mut()) {
                (["kind", api_version, kind, message], _) => {
                    let id = ids.get(message).ok_or_else(|| format!("{line}: no such message"))?;
                    table.kinds.insert(((*api_version).to_owned(), (*kind).to_owned()), *id);
                }
                (["message", _], _) => table.messages.push(Vec::new()),
                ([number, name, of], Some(message)) => {
                    let (omit_empty, of) = of.strip_prefix('?').map_or((false, *of), |of| (true, of));
                    message.push(Field {
                        number: number.parse().map_err(|error| format!("{line}: {error}"))?,
                        name: (*name != ".").then(|| (*name).to_owned()),
                        omit_empty,
                        of: Type::parse(of, &ids).ok_or_else(|| format!("{line}: no such type"))?,
                    });
                }
                _ => return Err(format!("{line}: no line of this table")),
            }
        }
        Ok(table)
    }

    /// The message of a kind. Every group has the same DeleteOptions.
    pub(super) fn message_of(&self, api_version: &str, kind: &str) -> Option<MessageId> {
        let api_version = if kind == "DeleteOptions" {
            "meta.k8s.io/v1"
        } else {
            api_version
        };
        self.kinds.get(&(api_version.to_owned(), kind.to_owned())).copied()
    }

    /// The fields of a message.
    pub(super) fn fields(&self, MessageId(at): MessageId) -> &[Field] {
        self.messages.get(at).map_or(&[], Vec::as_slice)
    }
}

impl Type {
    fn parse(text: &str, messages: &HashMap<&str, MessageId>) -> Option<Self> {
        type Holder = fn(Box<Type>) -> Type;
        let holders: [(&str, Holder); 3] = [("*", Type::Optional), ("[]", Type::List), ("{}", Type::Map)];
        for (prefix, holder) in holders {
            if let Some(inner) = text.strip_prefix(prefix) {
                return Some(holder(Box::new(Self::parse(inner, messages)?)));
            }
        }
        let schema = messages.get("apiextensions.v1.JSONSchemaProps").copied();
        Some(match text {
            "text" => Self::Text,
            "bytes" => Self::Bytes,
            "int32" => Self::Int32,
            "int64" => Self::Int64,
            "bool" => Self::Boolean,
            "float64" => Self::Double,
            "quantity" => Self::Quantity,
            "int-or-string" => Self::IntOrString,
            "time" => Self::Time,
            "micro-time" => Self::MicroTime,
            "json" => Self::Json,
            "schema-or-bool" => Self::SchemaOrBool(schema?),
            "schema-or-list" => Self::SchemaOrList(schema?),
            "schema-or-names" => Self::SchemaOrNames(schema?),
            message => Self::Message(*messages.get(message)?),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::{Kinds, api_version};

    #[test]
    fn every_built_in_kind_has_a_message() {
        let table = Table::parse(include_str!("messages.txt")).unwrap();
        for kind in Kinds::built_in().all() {
            for version in &kind.versions {
                let api_version = api_version(&kind.group, version);
                let message = table
                    .message_of(&api_version, &kind.kind)
                    .unwrap_or_else(|| panic!("{kind:?}"));
                assert_eq!(table.fields(message)[0].name.as_deref(), Some("metadata"), "{kind:?}");
            }
        }
        for (api_version, kind) in [("autoscaling/v1", "Scale"), ("apps/v1", "DeleteOptions")] {
            assert!(table.message_of(api_version, kind).is_some(), "{kind}");
        }
        assert_eq!(table.message_of("v2", "Pod"), None);
    }

    #[test]
    fn lines() {
        let table = Table::parse("# text\nkind v1 A a\nmessage a\n1 x ?*int32\n2 . b\nmessage b\n1 y {}[]b\n").unwrap();
        let a = table.message_of("v1", "A").unwrap();
        let field = |number, name: Option<&str>, omit_empty, of| Field {
            number,
            name: name.map(str::to_owned),
            omit_empty,
            of,
        };
        let b = MessageId(1);
        assert_eq!(
            table.fields(a),
            [
                field(1, Some("x"), true, Type::Optional(Box::new(Type::Int32))),
                field(2, None, false, Type::Message(b)),
            ]
        );
        let list = Type::List(Box::new(Type::Message(b)));
        assert_eq!(table.fields(b), [field(1, Some("y"), false, Type::Map(Box::new(list)))]);
        for broken in [
            "1 x text",
            "message a\none x text",
            "message a\n1 x odd",
            "kind v1 A a",
            "message a\n1 x",
        ] {
            assert!(Table::parse(broken).is_err(), "{broken}");
        }
    }
}
