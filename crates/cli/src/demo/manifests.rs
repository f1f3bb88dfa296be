//! The manifests of `examples/`, which are part of the program: the demo needs no checkout.

use kubequota_wire::files;
use serde_json::Value;

use super::DemoError;

/// Every file of `examples/`, by its path there.
pub(super) const FILES: [(&str, &str); 7] = [
    ("cluster.yaml", include_str!("../../../../examples/cluster.yaml")),
    (
        "team-a/database.yaml",
        include_str!("../../../../examples/team-a/database.yaml"),
    ),
    (
        "team-a/quotas.yaml",
        include_str!("../../../../examples/team-a/quotas.yaml"),
    ),
    ("team-a/web.yaml", include_str!("../../../../examples/team-a/web.yaml")),
    (
        "team-b/objects.yaml",
        include_str!("../../../../examples/team-b/objects.yaml"),
    ),
    (
        "team-b/pods.json",
        include_str!("../../../../examples/team-b/pods.json"),
    ),
    (
        "team-b/quotas.yaml",
        include_str!("../../../../examples/team-b/quotas.yaml"),
    ),
];

/// The objects of the files, in their order.
pub(super) fn objects() -> Result<Vec<Value>, DemoError> {
    let (mut objects, mut problem) = (Vec::new(), None);
    for (name, text) in FILES {
        files::objects(name, text.as_bytes(), &mut |found| match found {
            Ok(found) => match serde_json::from_str::<Value>(found.json()) {
                Ok(mut object) => {
                    object["apiVersion"] = found.api_version.into();
                    object["kind"] = found.kind.into();
                    objects.push(object);
                }
                Err(error) => problem = Some(format!("{name}: {error}")),
            },
            Err(error) => problem = Some(format!("{name}: {error:?}")),
        });
    }
    problem.map_or(Ok(objects), |problem| Err(DemoError::Examples(problem)))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use super::*;

    #[test]
    fn every_example_is_part_of_the_program() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
        let mut found = BTreeSet::new();
        let mut folders = vec![root.clone()];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                } else {
                    found.insert(path.strip_prefix(&root).unwrap().to_str().unwrap().to_owned());
                }
            }
        }
        assert_eq!(found, FILES.iter().map(|(name, _)| (*name).to_owned()).collect());
        let objects = objects().unwrap();
        let kinds: BTreeSet<&str> = objects.iter().filter_map(|object| object["kind"].as_str()).collect();
        for kind in [
            "Deployment",
            "Widget",
            "CustomResourceDefinition",
            "Pod",
            "ResourceQuota",
        ] {
            assert!(kinds.contains(kind), "no {kind} in {kinds:?}");
        }
    }
}
