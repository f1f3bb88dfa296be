//! An audit of objects from files.

use jiff::Timestamp;
use kubequota_core::evaluators::View;
use kubequota_core::inventory::DeviceClassView;
use kubequota_core::{FieldError, Metadata, QuotaKey};
use kubequota_wire::files::{FileError, Found, Place};
use kubequota_wire::json::{MetadataOnly, Plain, Quotas};

use crate::audit::{Audit, Auditor};
use crate::kinds::{self, DefinitionView, Kinds, Scope, Served};
use crate::problem::Problem;

/// Where objects live that don't say so.
const DEFAULT_NAMESPACE: &str = "default";

/// Without a quota there is no finding, which must not look like a good one: whoever made the input may have failed.
const NO_QUOTA: &str = "no ResourceQuota in the input: there is nothing to audit. Give the quotas along with the objects they count, \
                        and if a command wrote the input (such as kubectl get), see whether it failed";

/// Objects from files, of all kinds and in any order.
#[derive(Debug)]
pub struct Files {
    auditor: Auditor,
    kinds: Kinds,
    /// Objects whose resource a definition further on may name.
    undefined: Vec<Undefined>,
    served: Vec<Served>,
    /// There was a quota, though maybe none that can be read.
    any_quota: bool,
}

#[derive(Debug)]
struct Undefined {
    group: String,
    kind: String,
    metadata: Metadata,
    place: Place,
}

impl Files {
    /// Nothing yet, at `now`. What is in `served` counts as served, as what is built in does.
    #[must_use]
    pub fn new(now: Timestamp, served: Vec<Served>) -> Self {
        let mut auditor = Auditor::new(now);
        for resource in kinds::served() {
            auditor.serve(&resource);
        }
        Files {
            auditor,
            kinds: Kinds::default(),
            undefined: Vec::new(),
            served,
            any_quota: false,
        }
    }

    /// Takes an object in, or what there was instead.
    pub fn add(&mut self, found: Result<Found<'_>, FileError>) {
        match found {
            Ok(found) => {
                self.any_quota |= (found.group(), found.kind.as_str()) == ("", "ResourceQuota");
                let place = found.place.clone();
                if let Err(error) = self.object(&found) {
                    self.auditor.problem(Problem::of(found.kind, error), Some(&place));
                }
            }
            Err(error) => self.problem(error.into()),
        }
    }

    /// Notes what could not be read.
    pub fn problem(&mut self, problem: Problem) {
        self.auditor.problem(problem, None);
    }

    fn object(&mut self, found: &Found<'_>) -> Result<(), FieldError> {
        let place = Some(&found.place);
        match (found.group(), found.kind.as_str()) {
            ("resource.k8s.io", "DeviceClass") => {
                let (metadata, class) = found.read(Plain::<DeviceClassView>::default())?;
                match sound(found, class) {
                    Ok(class) => self.auditor.device_class(&metadata.name, class.extended_resource()),
                    Err(error) => self.spoiled(found, &metadata, error),
                }
            }
            ("apiextensions.k8s.io", "CustomResourceDefinition") => {
                let (metadata, definition) = found.read(Plain::<DefinitionView>::default())?;
                match sound(found, definition) {
                    Ok(definition) => self.kinds.define(definition),
                    Err(error) => self.spoiled(found, &metadata, error),
                }
            }
            (group, kind) => match kinds::built_in(group, kind) {
                Some(built_in) if built_in.scope == Some(Scope::Namespaced) => {
                    let Some(id) = self.auditor.serve(&built_in.resource) else {
                        return Ok(());
                    };
                    let mut object = found.read(self.auditor.view_kind(id))?;
                    settle(&mut object.metadata, &found.place, DEFAULT_NAMESPACE)?;
                    match found.fault() {
                        // To be counted, a name is enough.
                        Some(fault) if object.view == Ok(View::Counted) => {
                            self.spoiled(found, &object.metadata, fault.clone());
                        }
                        Some(fault) => object.view = Err(fault.clone()),
                        None if (group, kind) == ("", "ResourceQuota") => self.quota(found, &object.metadata)?,
                        None => {}
                    }
                    self.auditor.observe(id, &object, kind, place);
                }
                Some(_) => {}
                None => {
                    let mut metadata = found.read(MetadataOnly)?;
                    settle(&mut metadata, &found.place, "")?;
                    if let Some(fault) = found.fault() {
                        self.spoiled(found, &metadata, fault.clone());
                    }
                    // Of the metadata no more is needed.
                    let Metadata {
                        name, namespace, uid, ..
                    } = metadata;
                    let metadata = Metadata {
                        name,
                        namespace,
                        uid,
                        ..Metadata::default()
                    };
                    self.undefined.push(Undefined {
                        group: group.to_owned(),
                        kind: kind.to_owned(),
                        metadata,
                        place: found.place.clone(),
                    });
                }
            },
        }
        Ok(())
    }

    fn quota(&mut self, found: &Found<'_>, metadata: &Metadata) -> Result<(), FieldError> {
        let (_, quota) = found.read(Quotas)?;
        match quota {
            Ok(mut quota) => {
                quota.key = QuotaKey::new(&metadata.namespace, &metadata.name);
                self.auditor.quota(quota, Some(&found.place));
            }
            Err(error) => self.spoiled(found, metadata, error),
        }
        Ok(())
    }

    fn spoiled(&mut self, found: &Found<'_>, metadata: &Metadata, error: FieldError) {
        let object = format!("{} {}", found.kind, metadata.display_name());
        self.auditor.problem(Problem::of(object, error), Some(&found.place));
    }

    /// Works out the findings.
    #[must_use]
    pub fn finish(mut self) -> Audit {
        for resource in self.kinds.defined() {
            self.auditor.serve(resource);
        }
        for served in &self.served {
            self.auditor.serve(&self.kinds.resource(served));
        }
        for Undefined {
            group,
            kind,
            mut metadata,
            place,
        } in self.undefined
        {
            let found = self.kinds.get(&group, &kind);
            let namespaced = match found.scope {
                Some(scope) => scope == Scope::Namespaced,
                // Nothing tells: what came from a server without a namespace has none, a manifest may leave the default one out.
                None => !metadata.namespace.is_empty() || metadata.uid.is_empty(),
            };
            if !namespaced {
                continue;
            }
            if metadata.namespace.is_empty() {
                metadata.namespace.push_str(DEFAULT_NAMESPACE);
            }
            if let Some(id) = self.auditor.serve(&found.resource) {
                self.auditor.observe_counted(id, metadata, &kind, Some(&place));
            }
        }
        let mut audit = self.auditor.finish();
        if !self.any_quota {
            // Before all else: nobody should have to look for it.
            audit.errors.insert(
                0,
                Problem {
                    reason: NO_QUOTA.to_owned(),
                    ..Problem::default()
                },
            );
        }
        audit
    }
}

/// What was read, unless the object is not sound as YAML.
fn sound<T>(found: &Found<'_>, read: Result<T, FieldError>) -> Result<T, FieldError> {
    found.fault().map_or(read, |fault| Err(fault.clone()))
}

/// Fills in what a manifest may leave to the server.
fn settle(metadata: &mut Metadata, place: &Place, namespace: &str) -> Result<(), FieldError> {
    if metadata.namespace.is_empty() {
        metadata.namespace.push_str(namespace);
    }
    if metadata.name.is_empty() {
        if metadata.generate_name.is_empty() {
            return Err(FieldError {
                field: "metadata.name".to_owned(),
                reason: "missing".to_owned(),
            });
        }
        // Each such object becomes another one: its place tells them apart.
        if metadata.uid.is_empty() {
            metadata.uid = place.to_string();
        }
    }
    Ok(())
}
