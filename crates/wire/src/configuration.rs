//! The configuration of Kubernetes' admission plugin ResourceQuota: what may only be used under a quota.
//!
//! It is a file of its own ([`plugin`]), or stands in, or is named by, the file that kube-apiserver's `--admission-control-config-file`
//! names ([`admission`]). Both are YAML, or JSON where they begin with `{`, and are read strictly, as `LoadConfiguration` of
//! `k8s.io/apiserver/pkg/admission/plugin/resourcequota` and `ReadAdmissionConfiguration` of `k8s.io/apiserver/pkg/admission` (v1.37)
//! read them, and the plugin's validation after that. Limits that would be passed over there without a word are errors here: a second
//! document, and a second entry of the plugin.
//!
//! No configuration at all limits nothing ([`LimitedResources::default`]); an empty file is an error.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;
use std::path::{Path, PathBuf};

use kubequota_core::decision::{LimitedResource, LimitedResources};
use kubequota_core::object::or_default;
use kubequota_core::scope::Requirement;
use kubequota_core::{FieldError, GroupResource};
use serde::Deserialize;
use serde::de::{DeserializeOwned, Deserializer, IgnoredAny};
use serde_json::value::RawValue;

use crate::files::quote;
use crate::json;
use crate::yaml::{self, Part};

/// What the plugin is called in an AdmissionConfiguration.
pub const PLUGIN_NAME: &str = "ResourceQuota";

const PLUGIN: Kinds = Kinds(&[
    ("ResourceQuotaConfiguration", "apiserver.config.k8s.io/v1"),
    ("Configuration", "resourcequota.admission.k8s.io/v1beta1"),
    ("Configuration", "resourcequota.admission.k8s.io/v1alpha1"),
]);

const ADMISSION: Kinds = Kinds(&[
    ("AdmissionConfiguration", "apiserver.config.k8s.io/v1"),
    ("AdmissionConfiguration", "apiserver.k8s.io/v1alpha1"),
]);

/// What two other plugins kept in this file before it had a kind. It is no error still, and says nothing of quotas.
const LEGACY: [&str; 2] = ["imagePolicy", "podNodeSelectorPluginConfig"];

/// Kinds that a file may hold, each with its API version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kinds(&'static [(&'static str, &'static str)]);

/// `kind A of apiVersion a/v1, or kind B of apiVersion b/v1`
impl fmt::Display for Kinds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (kind, version)) in self.0.iter().enumerate() {
            write!(
                f,
                "{}kind {kind} of apiVersion {version}",
                if index == 0 { "" } else { ", or " }
            )?;
        }
        Ok(())
    }
}

/// A configuration that can't be read. Which file it is in, the caller knows. Where Kubernetes says the same of a file, the text begins
/// as Kubernetes' does.
#[derive(Debug, thiserror::Error)]
pub enum ConfigurationError {
    /// It is no text.
    #[error("line {line}: this is not UTF-8")]
    Encoding {
        /// From 1.
        line: usize,
    },
    /// It is no YAML.
    #[error("line {line}, column {column}: {reason}")]
    Yaml {
        /// From 1.
        line: usize,
        /// From 1.
        column: usize,
        /// What is wrong there.
        reason: String,
    },
    /// It begins as JSON and is none.
    #[error("line {line}, column {column}: {reason} (it is read as JSON, since it begins with a brace)")]
    Json {
        /// From 1.
        line: usize,
        /// From 1.
        column: usize,
        /// What is wrong there.
        reason: String,
    },
    /// There are more documents, and Kubernetes reads the first alone.
    #[error("there are {0} documents, and only the first would be read: leave one")]
    Documents(usize),
    /// It does not say its kind; so does an empty file.
    #[error("Object 'Kind' is missing: expected {expected}")]
    MissingKind {
        /// What it may be.
        expected: Kinds,
    },
    /// It does not say its API version.
    #[error("Object 'apiVersion' is missing: expected {expected}")]
    MissingVersion {
        /// What it may be.
        expected: Kinds,
    },
    /// It is something else.
    #[error("no kind {kind:?} is registered for version {version:?}: expected {expected}")]
    OtherKind {
        /// Its kind.
        kind: String,
        /// Its API version.
        version: String,
        /// What it may be.
        expected: Kinds,
    },
    /// A field is unknown, there twice, or not of its type.
    #[error("strict decoding error: {0}")]
    Field(FieldError),
    /// A field of the right type says what can't be.
    #[error("{0}")]
    Invalid(FieldError),
    /// The plugin's own configuration in an AdmissionConfiguration can't be read.
    #[error("plugins[{index}].configuration: {error}")]
    Embedded {
        /// The plugin's index in the list.
        index: usize,
        /// What is wrong with it.
        error: Box<ConfigurationError>,
    },
}

/// Where an AdmissionConfiguration has the plugin's limits.
#[derive(Debug, PartialEq, Eq)]
pub enum Source {
    /// In itself.
    Here(LimitedResources),
    /// In another file: what it holds is to be given to [`plugin`].
    File(PathBuf),
}

/// Reads the plugin's own file.
///
/// # Errors
/// What is wrong, and where.
pub fn plugin(file: &[u8]) -> Result<LimitedResources, ConfigurationError> {
    limits(&Document::read(file)?)
}

/// Reads an AdmissionConfiguration, the file at `path`. Paths in it are relative to its folder. Other plugins' configurations may be
/// anything.
///
/// # Errors
/// What is wrong, and where.
pub fn admission(path: &Path, file: &[u8]) -> Result<Source, ConfigurationError> {
    let document = Document::read(file)?;
    let configuration: AdmissionConfiguration = match document.decode(ADMISSION) {
        Err(
            ConfigurationError::MissingKind { .. }
            | ConfigurationError::MissingVersion { .. }
            | ConfigurationError::OtherKind { .. },
        ) if LEGACY.iter().any(|field| document.members.contains_key(*field)) => {
            return Ok(Source::Here(LimitedResources::default()));
        }
        decoded => decoded?,
    };
    let plugins = configuration.plugins.iter().enumerate();
    let mut ours = plugins.filter(|(_, plugin)| plugin.name == PLUGIN_NAME);
    let Some((index, plugin)) = ours.next() else {
        return Ok(Source::Here(LimitedResources::default()));
    };
    if let Some((second, _)) = ours.next() {
        return Err(ConfigurationError::Invalid(FieldError {
            field: format!("plugins[{second}].name"),
            reason: format!(
                "{PLUGIN_NAME} is in plugins[{index}] already, which alone would be read: leave one of them"
            ),
        }));
    }
    if let Some(embedded) = &plugin.configuration {
        let read = Document::of(Cow::Borrowed(embedded.get()), None).and_then(|document| limits(&document));
        return read.map(Source::Here).map_err(|error| ConfigurationError::Embedded {
            index,
            error: Box::new(error),
        });
    }
    if plugin.path.is_empty() {
        return Ok(Source::Here(LimitedResources::default()));
    }
    let folder = path.parent().unwrap_or(Path::new(""));
    Ok(Source::File(folder.join(&plugin.path)))
}

fn limits(document: &Document<'_>) -> Result<LimitedResources, ConfigurationError> {
    let configuration: ResourceQuotaConfiguration = document.decode(PLUGIN)?;
    let entries = configuration.limited_resources.into_iter().map(LimitedText::limited);
    LimitedResources::new(entries.collect()).map_err(ConfigurationError::Invalid)
}

/// The one document of a file, as JSON.
struct Document<'a> {
    json: Cow<'a, str>,
    /// What is wrong with it as YAML, though it could be read somehow.
    fault: Option<FieldError>,
    members: BTreeMap<String, Box<RawValue>>,
}

impl<'a> Document<'a> {
    fn read(file: &'a [u8]) -> Result<Self, ConfigurationError> {
        let text = std::str::from_utf8(file).map_err(|error| ConfigurationError::Encoding {
            line: 1 + file[..error.valid_up_to()]
                .iter()
                .filter(|byte| **byte == b'\n')
                .count(),
        })?;
        if text.trim_ascii_start().starts_with('{') {
            serde_json::from_str::<IgnoredAny>(text).map_err(|error| ConfigurationError::Json {
                line: error.line(),
                column: error.column(),
                reason: json::message(&error),
            })?;
            return Document::of(Cow::Borrowed(text), None);
        }
        let mut documents = Vec::new();
        yaml::to_json(text, &mut |part| {
            // No kind here has `items`, which are handed on apart: in what is left they are an unknown field.
            if let Part::Document { json, fault } = part {
                documents.push((json.to_owned(), fault));
            }
        })
        .map_err(|error| ConfigurationError::Yaml {
            line: error.line,
            column: error.column,
            reason: error.reason,
        })?;
        // Nothing stands behind a last `---`.
        while documents.len() > 1 && documents.last().is_some_and(|(json, _)| json == "null") {
            documents.pop();
        }
        if documents.len() > 1 {
            return Err(ConfigurationError::Documents(documents.len()));
        }
        let (json, fault) = documents.pop().unwrap_or_else(|| ("null".to_owned(), None));
        Document::of(Cow::Owned(json), fault)
    }

    fn of(json: Cow<'a, str>, fault: Option<FieldError>) -> Result<Self, ConfigurationError> {
        let members: Option<_> = decode(&json).map_err(ConfigurationError::Field)?;
        Ok(Document {
            json,
            fault,
            members: members.unwrap_or_default(),
        })
    }

    /// Reads it as one of these kinds, which are alike but for their names.
    fn decode<T: DeserializeOwned>(&self, expected: Kinds) -> Result<T, ConfigurationError> {
        let kind = self.text("kind")?;
        let version = self.text("apiVersion")?;
        if kind.is_empty() {
            return Err(ConfigurationError::MissingKind { expected });
        }
        if version.is_empty() {
            return Err(ConfigurationError::MissingVersion { expected });
        }
        if !expected.0.contains(&(kind.as_str(), version.as_str())) {
            return Err(ConfigurationError::OtherKind {
                kind,
                version,
                expected,
            });
        }
        if let Some(fault) = &self.fault {
            return Err(ConfigurationError::Field(fault.clone()));
        }
        decode(&self.json).map_err(ConfigurationError::Field)
    }

    fn text(&self, field: &str) -> Result<String, ConfigurationError> {
        let Some(value) = self.members.get(field) else {
            return Ok(String::new());
        };
        let text = decode::<Option<String>>(value.get()).map_err(|error| {
            ConfigurationError::Field(FieldError {
                field: field.to_owned(),
                ..error
            })
        })?;
        Ok(text.unwrap_or_default())
    }
}

fn decode<T: DeserializeOwned>(json: &str) -> Result<T, FieldError> {
    json::decode(PhantomData, json).map_err(quote)
}

/// The plugin's configuration, in any of its versions.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ResourceQuotaConfiguration {
    #[serde(rename = "apiVersion")]
    _api_version: IgnoredAny,
    #[serde(rename = "kind")]
    _kind: IgnoredAny,
    #[serde(default, deserialize_with = "list")]
    limited_resources: Vec<LimitedText>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
struct LimitedText {
    #[serde(deserialize_with = "or_default")]
    api_group: String,
    #[serde(deserialize_with = "or_default")]
    resource: String,
    #[serde(deserialize_with = "list")]
    match_contains: Vec<String>,
    #[serde(deserialize_with = "list")]
    match_scopes: Vec<RequirementText>,
}

impl LimitedText {
    fn limited(self) -> LimitedResource {
        LimitedResource {
            kind: GroupResource::new(&self.api_group, &self.resource),
            match_contains: self.match_contains,
            match_scopes: self
                .match_scopes
                .into_iter()
                .map(RequirementText::requirement)
                .collect(),
        }
    }
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
struct RequirementText {
    #[serde(deserialize_with = "or_default")]
    scope_name: String,
    #[serde(deserialize_with = "or_default")]
    operator: String,
    #[serde(deserialize_with = "list")]
    values: Vec<String>,
}

impl RequirementText {
    fn requirement(self) -> Requirement {
        Requirement {
            scope: self.scope_name.as_str().into(),
            operator: self.operator.as_str().into(),
            values: self.values,
        }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct AdmissionConfiguration {
    #[serde(rename = "apiVersion")]
    _api_version: IgnoredAny,
    #[serde(rename = "kind")]
    _kind: IgnoredAny,
    #[serde(default, deserialize_with = "list")]
    plugins: Vec<PluginText>,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct PluginText {
    #[serde(deserialize_with = "or_default")]
    name: String,
    #[serde(deserialize_with = "or_default")]
    path: String,
    configuration: Option<Box<RawValue>>,
}

fn list<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(deserializer: D) -> Result<Vec<T>, D::Error> {
    let values: Vec<Option<T>> = or_default(deserializer)?;
    Ok(values.into_iter().map(Option::unwrap_or_default).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const V1: &str = "kind: ResourceQuotaConfiguration\napiVersion: apiserver.config.k8s.io/v1\n";
    const V1_JSON: &str = r#""kind":"ResourceQuotaConfiguration","apiVersion":"apiserver.config.k8s.io/v1""#;
    const V1BETA1: &str = "kind: Configuration\napiVersion: resourcequota.admission.k8s.io/v1beta1\n";
    const V1ALPHA1: &str = "kind: Configuration\napiVersion: resourcequota.admission.k8s.io/v1alpha1\n";

    const EXPECTED: &str = "expected kind ResourceQuotaConfiguration of apiVersion apiserver.config.k8s.io/v1, or kind Configuration of apiVersion resourcequota.admission.k8s.io/v1beta1, or kind Configuration of apiVersion resourcequota.admission.k8s.io/v1alpha1";
    const EXPECTED_ADMISSION: &str = "expected kind AdmissionConfiguration of apiVersion apiserver.config.k8s.io/v1, or kind AdmissionConfiguration of apiVersion apiserver.k8s.io/v1alpha1";

    /// The entries, such as `pods.group [part] [{scope operator [values]}]`, or the error.
    fn shown(limits: Result<LimitedResources, ConfigurationError>) -> String {
        let entries = match limits {
            Ok(limits) => limits.entries().to_vec(),
            Err(error) => return error.to_string(),
        };
        let shown = entries.iter().map(|entry| {
            let scopes: Vec<String> = entry.match_scopes.iter().map(Requirement::to_string).collect();
            format!("{} {:?} {scopes:?}", entry.kind, entry.match_contains)
        });
        shown.collect::<Vec<_>>().join("; ")
    }

    fn check(table: &[(String, &str)]) {
        for (text, expected) in table {
            let expected = expected
                .replace("EXPECTED_ADMISSION", EXPECTED_ADMISSION)
                .replace("EXPECTED", EXPECTED);
            assert_eq!(shown(plugin(text.as_bytes())), expected, "{text:?}");
        }
    }

    /// As upstream's `TestLoadConfiguration` and `TestValidateConfiguration` have them, with the errors in full.
    #[test]
    fn upstreams_cases() {
        const LIMITS: &str = r#"
limitedResources:
- apiGroup: ""
  resource: persistentvolumeclaims
  matchContains:
  - .storageclass.storage.k8s.io/requests.storage
- apiGroup: ""
  resource: pods
  matchScopes:
  - scopeName: PriorityClass
    operator: In
    values:
    - cluster-services
"#;
        const READ: &str = r#"persistentvolumeclaims [".storageclass.storage.k8s.io/requests.storage"] []; pods [] ["{PriorityClass In [cluster-services]}"]"#;
        check(&[
            (String::new(), "Object 'Kind' is missing: EXPECTED"),
            (
                r#"{"kind":"Unknown","apiVersion":"v1"}"#.into(),
                r#"no kind "Unknown" is registered for version "v1": EXPECTED"#,
            ),
            (
                format!("{V1}limitedResources:\n- apiGroup: \"\"\n  resource: pods\n  resource: pods\n"),
                "strict decoding error: limitedResources[0].resource: this key is there twice",
            ),
            (
                format!("{V1}limitedResources:\n- apiGroup: \"\"\n  foo:      bar\n  resource: pods\n"),
                "strict decoding error: limitedResources[0].foo: unknown field `foo`, expected one of `apiGroup`, `resource`, `matchContains`, `matchScopes`",
            ),
            (format!("{V1ALPHA1}{LIMITS}"), READ),
            (format!("{V1BETA1}{LIMITS}"), READ),
            (format!("{V1}{LIMITS}"), READ),
            (
                format!("{V1}limitedResources: [{{resource: pods, matchContains: [requests.cpu]}}]"),
                r#"pods ["requests.cpu"] []"#,
            ),
            (
                format!(
                    "{V1}limitedResources: [{{resource: persistentvolumeclaims, matchContains: [requests.storage]}}]"
                ),
                r#"persistentvolumeclaims ["requests.storage"] []"#,
            ),
            (
                format!("{V1}limitedResources: [{{matchContains: [requests.cpu]}}]"),
                "limitedResources[0].resource: is required",
            ),
        ]);
    }

    #[test]
    fn texts() {
        check(&[
            ("# nothing\n".into(), "Object 'Kind' is missing: EXPECTED"),
            ("---\n".into(), "Object 'Kind' is missing: EXPECTED"),
            ("null".into(), "Object 'Kind' is missing: EXPECTED"),
            ("{}".into(), "Object 'Kind' is missing: EXPECTED"),
            (
                "[]".into(),
                "strict decoding error: object: invalid type: sequence, expected a map",
            ),
            (
                "x".into(),
                r#"strict decoding error: object: invalid type: string "x", expected a map"#,
            ),
            (V1.into(), ""),
            (format!("# about\n---\n{V1}---\n"), ""),
            (format!("\u{feff}{V1}"), ""),
            (V1.replace('\n', "\r\n"), ""),
            (
                format!("{V1}---\n{V1}limitedResources: [{{resource: pods}}]"),
                "there are 2 documents, and only the first would be read: leave one",
            ),
            (format!("{{{V1_JSON}}}"), ""),
            (format!("\u{feff}{{{V1_JSON}}}"), ""),
            (
                format!("{{{V1_JSON}}}\n{{}}"),
                "line 2, column 1: trailing characters (it is read as JSON, since it begins with a brace)",
            ),
            (
                format!("{{{V1_JSON},\n \"limitedResources\":[{{\"resource\":\"pods\",}}]}}"),
                "line 2, column 41: key must be a string (it is read as JSON, since it begins with a brace)",
            ),
            (
                "{kind: Configuration}".into(),
                "line 1, column 2: key must be a string (it is read as JSON, since it begins with a brace)",
            ),
            (
                format!("{{{V1_JSON},\"limitedResources\":[{{\"resource\":\"pods\",\"resource\":\"pods\"}}]}}"),
                "strict decoding error: limitedResources[0]: duplicate field `resource`",
            ),
            (
                format!("{{{V1_JSON},\"limitedResources\":[{{\"resource\":\"pods\",\"foo\":1}}]}}"),
                "strict decoding error: limitedResources[0].foo: unknown field `foo`, expected one of `apiGroup`, `resource`, `matchContains`, `matchScopes`",
            ),
        ]);
        assert_eq!(
            shown(plugin(b"kind: Configuration\nx: \"\xff\"\n")),
            "line 2: this is not UTF-8"
        );
        let error = shown(plugin(format!("{V1}limitedResources: [{{\n").as_bytes()));
        assert!(error.starts_with("line 3, column 20: "), "{error}");
    }

    #[test]
    fn kinds() {
        let of = |kind: &str, version: &str| format!("kind: {kind}\napiVersion: {version}\n");
        check(&[
            ("apiVersion: v1\n".into(), "Object 'Kind' is missing: EXPECTED"),
            (
                "Kind: Configuration\napiVersion: v1\n".into(),
                "Object 'Kind' is missing: EXPECTED",
            ),
            (of("null", "v1"), "Object 'Kind' is missing: EXPECTED"),
            (
                "kind: Configuration\n".into(),
                "Object 'apiVersion' is missing: EXPECTED",
            ),
            (
                of("5", "v1"),
                "strict decoding error: kind: invalid type: integer `5`, expected a string",
            ),
            (
                of("y", "v1"),
                "strict decoding error: kind: invalid type: boolean `true`, expected a string (in YAML y, n, yes, no, on and off are booleans, too: put it in quotes)",
            ),
            (
                of("ResourceQuotaConfiguration", "apiserver.config.k8s.io/v1alpha1"),
                r#"no kind "ResourceQuotaConfiguration" is registered for version "apiserver.config.k8s.io/v1alpha1": EXPECTED"#,
            ),
            (
                of("Configuration", "resourcequota.admission.k8s.io/v1"),
                r#"no kind "Configuration" is registered for version "resourcequota.admission.k8s.io/v1": EXPECTED"#,
            ),
            (
                of("ResourceQuotaConfiguration", "resourcequota.admission.k8s.io/v1beta1"),
                r#"no kind "ResourceQuotaConfiguration" is registered for version "resourcequota.admission.k8s.io/v1beta1": EXPECTED"#,
            ),
            (
                of("AdmissionConfiguration", "apiserver.config.k8s.io/v1"),
                r#"no kind "AdmissionConfiguration" is registered for version "apiserver.config.k8s.io/v1": EXPECTED"#,
            ),
            (
                format!("{V1}kind: ResourceQuotaConfiguration\n"),
                "strict decoding error: kind: this key is there twice",
            ),
            (
                format!("{{{V1_JSON},\"kind\":\"ResourceQuotaConfiguration\"}}"),
                "strict decoding error: object: duplicate field `kind`",
            ),
        ]);
    }

    #[test]
    fn fields() {
        let entry = |entry: &str| format!("{V1}limitedResources: [{{resource: services}}, {entry}]");
        let scope = |scope: &str| entry(&format!("{{resource: pods, matchScopes: [{scope}]}}"));
        check(&[
            (format!("{V1}limitedResources: null"), ""),
            (format!("{V1}limitedResources: []"), ""),
            (
                format!("{V1}limitedResources: {{}}"),
                "strict decoding error: limitedResources: invalid type: map, expected a sequence",
            ),
            (
                format!("{V1}metadata: {{name: a}}"),
                "strict decoding error: metadata: unknown field `metadata`, expected one of `apiVersion`, `kind`, `limitedResources`",
            ),
            (
                format!("{V1}items: [{{a: 1, a: 2}}]"),
                "strict decoding error: items: unknown field `items`, expected one of `apiVersion`, `kind`, `limitedResources`",
            ),
            (entry("null"), "limitedResources[1].resource: is required"),
            (entry("{resource: null}"), "limitedResources[1].resource: is required"),
            (entry("{apiGroup: apps}"), "limitedResources[1].resource: is required"),
            (
                entry("{Resource: pods}"),
                "strict decoding error: limitedResources[1].Resource: unknown field `Resource`, expected one of `apiGroup`, `resource`, `matchContains`, `matchScopes`",
            ),
            (
                entry("{resource: 5}"),
                "strict decoding error: limitedResources[1].resource: invalid type: integer `5`, expected a string",
            ),
            (
                entry("{resource: pods, matchContains: cpu}"),
                r#"strict decoding error: limitedResources[1].matchContains: invalid type: string "cpu", expected a sequence"#,
            ),
            (
                entry("{resource: pods, apiGroup: null, matchContains: null, matchScopes: null}"),
                "services [] []; pods [] []",
            ),
            // It matches every name, as upstream's.
            (
                entry("{resource: pods, matchContains: [null]}"),
                r#"services [] []; pods [""] []"#,
            ),
            (
                entry("{resource: deployments, apiGroup: apps, matchContains: [a, b]}"),
                r#"services [] []; deployments.apps ["a", "b"] []"#,
            ),
            (scope("null"), r#"services [] []; pods [] ["{  []}"]"#),
            (
                scope("{scopeName: Terminating}"),
                r#"services [] []; pods [] ["{Terminating  []}"]"#,
            ),
            (
                scope("{scopeName: PriorityClass, foo: In}"),
                "strict decoding error: limitedResources[1].matchScopes[0].foo: unknown field `foo`, expected one of `scopeName`, `operator`, `values`",
            ),
            (
                scope("{scopeName: PriorityClass, operator: In, values: [a, y]}"),
                "strict decoding error: limitedResources[1].matchScopes[0].values[1]: invalid type: boolean `true`, expected a string (in YAML y, n, yes, no, on and off are booleans, too: put it in quotes)",
            ),
            (
                scope("{scopeName: PriorityClass, operator: In}"),
                "limitedResources[1].matchScopes: scopeSelector for PriorityClass: operator In needs at least one value",
            ),
            (
                format!("{V1}limitedResources:\n- &a {{resource: pods}}\n- {{<<: *a, apiGroup: x}}\n"),
                "pods [] []; pods.x [] []",
            ),
        ]);
    }

    #[test]
    fn admission_configurations() {
        const OURS: &str = "{kind: Configuration, apiVersion: resourcequota.admission.k8s.io/v1beta1, limitedResources: [{resource: pods}]}";
        const HEAD: &str = "kind: AdmissionConfiguration\napiVersion: apiserver.config.k8s.io/v1\n";
        let plugins = |plugins: &str| format!("{HEAD}plugins: [{}]", plugins.replace("OURS", OURS));
        let json = |plugin: &str| {
            format!(
                r#"{{"kind":"AdmissionConfiguration","apiVersion":"apiserver.config.k8s.io/v1","plugins":[{plugin}]}}"#
            )
        };
        let table = [
            (String::new(), "Object 'Kind' is missing: EXPECTED_ADMISSION"),
            (HEAD.into(), ""),
            (
                "kind: AdmissionConfiguration\napiVersion: apiserver.k8s.io/v1alpha1\n".into(),
                "",
            ),
            (
                "kind: AdmissionConfiguration\napiVersion: apiserver.k8s.io/v1\n".into(),
                r#"no kind "AdmissionConfiguration" is registered for version "apiserver.k8s.io/v1": EXPECTED_ADMISSION"#,
            ),
            (
                V1.into(),
                r#"no kind "ResourceQuotaConfiguration" is registered for version "apiserver.config.k8s.io/v1": EXPECTED_ADMISSION"#,
            ),
            ("imagePolicy: {kubeConfigFile: x}\n".into(), ""),
            ("podNodeSelectorPluginConfig: {}\n".into(), ""),
            ("kind: X\napiVersion: v1\nimagePolicy: {}\n".into(), ""),
            ("kind: AdmissionConfiguration\nimagePolicy: {}\n".into(), ""),
            ("other: {}\n".into(), "Object 'Kind' is missing: EXPECTED_ADMISSION"),
            (
                format!("{HEAD}imagePolicy: {{}}\n"),
                "strict decoding error: imagePolicy: unknown field `imagePolicy`, expected one of `apiVersion`, `kind`, `plugins`",
            ),
            (format!("{HEAD}plugins: null\n"), ""),
            (plugins("null"), ""),
            (plugins("{name: ResourceQuota}"), ""),
            (plugins("{name: ResourceQuota, path: null, configuration: null}"), ""),
            (plugins("{name: resourcequota, configuration: OURS}"), ""),
            (plugins("{name: Other, configuration: [5]}, {name: Other, path: x}"), ""),
            (plugins("{name: ResourceQuota, configuration: OURS}"), "pods [] []"),
            (
                plugins("{name: ResourceQuota, path: x, configuration: OURS}"),
                "pods [] []",
            ),
            (
                plugins("{name: ResourceQuota}, {name: Other}, {name: ResourceQuota, configuration: OURS}"),
                "plugins[2].name: ResourceQuota is in plugins[0] already, which alone would be read: leave one of them",
            ),
            (
                plugins("{name: Other, foo: 5}"),
                "strict decoding error: plugins[0].foo: unknown field `foo`, expected one of `name`, `path`, `configuration`",
            ),
            (
                plugins("{name: Other, configuration: {a: [{b: 1, b: 2}]}}"),
                "strict decoding error: plugins[0].configuration.a[0].b: this key is there twice",
            ),
            (json(r#"{"name":"Other","configuration":{"a":1,"a":2}}"#), ""),
            (
                json(
                    r#"{"name":"ResourceQuota","configuration":{"kind":"Configuration","apiVersion":"resourcequota.admission.k8s.io/v1beta1","limitedResources":[{"resource":"pods","resource":"x"}]}}"#,
                ),
                "plugins[0].configuration: strict decoding error: limitedResources[0]: duplicate field `resource`",
            ),
            (
                plugins("{name: Other}, {name: ResourceQuota, configuration: {}}"),
                "plugins[1].configuration: Object 'Kind' is missing: EXPECTED",
            ),
            (
                plugins("{name: ResourceQuota, configuration: 5}"),
                "plugins[0].configuration: strict decoding error: object: invalid type: integer `5`, expected a map",
            ),
            (
                plugins("{name: ResourceQuota, path: quota.yaml}"),
                "read /etc/k8s/quota.yaml",
            ),
            (
                plugins("{name: ResourceQuota, path: ../q.yaml}"),
                "read /etc/k8s/../q.yaml",
            ),
            (plugins("{name: ResourceQuota, path: /q.yaml}"), "read /q.yaml"),
        ];
        for (text, expected) in table {
            let expected = expected
                .replace("EXPECTED_ADMISSION", EXPECTED_ADMISSION)
                .replace("EXPECTED", EXPECTED);
            let read = match admission(Path::new("/etc/k8s/admission.yaml"), text.as_bytes()) {
                Ok(Source::File(path)) => format!("read {}", path.display()),
                Ok(Source::Here(limits)) => shown(Ok(limits)),
                Err(error) => error.to_string(),
            };
            assert_eq!(read, expected, "{text:?}");
        }
        let relative = admission(
            Path::new("admission.yaml"),
            plugins("{name: ResourceQuota, path: q.yaml}").as_bytes(),
        );
        assert_eq!(relative.unwrap(), Source::File(PathBuf::from("q.yaml")));
    }
}
