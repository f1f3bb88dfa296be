//! What the targets share: which kind an input is about, and what is done with an object once it is read.

pub mod messages;

use std::sync::LazyLock;

use jiff::Timestamp;
use kubequota_core::evaluator::{Context, Lookups, NoLookups};
use kubequota_core::evaluators::ViewKind;
use kubequota_core::inventory::DeviceClassView;
use kubequota_core::{FieldError, Metadata, Object, Quota, Registry, ResourceList, ResourceName};
use kubequota_wire::WireError;
use kubequota_wire::json::{Plain, Quotas, Shape};

/// What an input is read as.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// One that is charged, or counted.
    Charged(ViewKind),
    /// ResourceQuotas.
    Quota,
    /// Device classes.
    DeviceClass,
}

impl Kind {
    /// The kind that a selector stands for.
    pub fn select(selector: u8) -> Kind {
        match selector % 8 {
            0 | 7 => Kind::Charged(ViewKind::Pod),
            1 => Kind::Charged(ViewKind::Service),
            2 => Kind::Charged(ViewKind::PersistentVolumeClaim),
            3 => Kind::Charged(ViewKind::ResourceClaim),
            4 => Kind::Charged(ViewKind::Counted),
            5 => Kind::Quota,
            _ => Kind::DeviceClass,
        }
    }

    /// What it is called in the API.
    pub fn type_meta(self) -> (&'static str, &'static str) {
        match self {
            Kind::Charged(ViewKind::Pod) => ("v1", "Pod"),
            Kind::Charged(ViewKind::Service) => ("v1", "Service"),
            Kind::Charged(ViewKind::PersistentVolumeClaim) => ("v1", "PersistentVolumeClaim"),
            Kind::Charged(ViewKind::ResourceClaim) => ("resource.k8s.io/v1", "ResourceClaim"),
            Kind::Charged(ViewKind::Counted) => ("apps/v1", "Deployment"),
            Kind::Quota => ("v1", "ResourceQuota"),
            Kind::DeviceClass => ("resource.k8s.io/v1", "DeviceClass"),
        }
    }

    /// Reads an object of this kind, twice, and goes on with it. `read` is given the shape.
    pub fn check(self, read: &impl Read) {
        match self {
            Kind::Charged(kind) => {
                if let Some(object) = twice(kind, read) {
                    charge(kind, &object);
                }
            }
            Kind::Quota => {
                if let Some((metadata, Ok(quota))) = twice(Quotas, read) {
                    observe(&metadata, &quota);
                }
            }
            Kind::DeviceClass => {
                if let Some((_, Ok(class))) = twice(Plain::<DeviceClassView>::default(), read) {
                    assert_ne!(class.extended_resource(), Some(""));
                }
            }
        }
    }
}

/// Reads one object as any shape.
pub trait Read {
    /// Reads it.
    ///
    /// # Errors
    /// Where it has no name.
    fn read<S: Shape>(&self, shape: S) -> Result<S::Output, WireError>;
}

/// The same bytes are the same object.
fn twice<S: Shape<Output: PartialEq + std::fmt::Debug>>(shape: S, read: &impl Read) -> Option<S::Output> {
    match (read.read(shape), read.read(shape)) {
        (Ok(object), Ok(again)) => {
            assert_eq!(object, again);
            Some(object)
        }
        (Err(error), Err(again)) => {
            assert_eq!(error.to_string(), again.to_string());
            None
        }
        (object, again) => panic!("{object:?}, then {again:?}"),
    }
}

/// Two device classes, one of them with an extended resource, and a pod that owns every claim.
struct Cluster {
    owner: ResourceList,
}

impl Lookups for Cluster {
    fn has_device_class(&self, name: &str) -> bool {
        ["gpu", "tpu"].contains(&name)
    }

    fn extended_resource(&self, device_class: &str) -> Option<&str> {
        (device_class == "gpu").then_some("example.com/gpu")
    }

    fn is_extended_resource(&self, name: &str) -> bool {
        name == "example.com/gpu"
    }

    fn owner_usage(&self, _: &Metadata) -> Option<&ResourceList> {
        Some(&self.owner)
    }
}

static REGISTRY: LazyLock<Registry> = LazyLock::new(Registry::standard);

static CLUSTER: LazyLock<Cluster> = LazyLock::new(|| Cluster {
    owner: std::iter::once(("requests.example.com/gpu", 1))
        .map(|(name, count)| (ResourceName::from(name), count.into()))
        .collect(),
});

/// What the constraints of pods are about.
static REQUIRED: LazyLock<Vec<ResourceName>> = LazyLock::new(|| {
    [
        "cpu",
        "memory",
        "requests.cpu",
        "requests.memory",
        "limits.cpu",
        "limits.memory",
    ]
    .map(ResourceName::from)
    .to_vec()
});

/// Works out what an object uses, as all evaluators of its view have it.
fn charge(kind: ViewKind, object: &Object) {
    let Ok(view) = &object.view else { return };
    for (_, evaluator) in REGISTRY.iter().filter(|(_, evaluator)| evaluator.view_kind() == kind) {
        let _ = evaluator.constraint(view, &REQUIRED);
        for lookups in [&NoLookups as &dyn Lookups, &*CLUSTER] {
            // Before and after the grace of the deleted ones.
            for now in [Timestamp::UNIX_EPOCH, Timestamp::MAX] {
                let assessment = evaluator.assess(&object.metadata, view, &Context { now, lookups });
                let Ok(assessment) = assessment else { continue };
                if let Some((when, later)) = &assessment.later {
                    assert!(*when >= now, "{when} is before {now}");
                    assert_ne!(*later, assessment.charge);
                }
                for (name, value) in &assessment.charge.usage {
                    let _ = evaluator.tracks(name.as_str(), lookups);
                    let _ = value.to_string();
                }
                let _ = assessment.charge.spec_usage();
            }
        }
    }
}

/// What a quota's names and scopes mean.
fn observe(metadata: &Metadata, quota: &Quota) {
    assert_eq!(quota.uid, metadata.uid);
    let feed = REGISTRY.feed(quota.spec.hard.names(), &*CLUSTER, |_| true);
    for (name, kinds) in feed.names() {
        assert!(feed.tracks(name.as_str()) && !kinds.is_empty());
    }
    let _ = quota.spec.selector.validate().map_err(|error| error.to_string());
    for facts in [
        kubequota_core::scope::ScopeFacts::default(),
        kubequota_core::scope::ScopeFacts::Pod(Default::default()),
        kubequota_core::scope::ScopeFacts::PersistentVolumeClaim(Default::default()),
    ] {
        let _ = quota.spec.selector.matches(&facts);
    }
    if let (Some(hard), Some(used)) = (&quota.status.hard, &quota.status.used) {
        let sum = used.add(hard);
        assert_eq!(sum.subtract(hard).max(used), used.max(&sum.subtract(hard)));
        let _ = (used.exceeding(hard), quota.status.used("pods"));
    }
    for FieldError { field, .. } in &quota.problems {
        assert!(field.contains('['), "{field}");
    }
}
