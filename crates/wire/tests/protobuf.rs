//! Kubernetes' own protobuf reads as its JSON does.
//!
//! The fixtures were made by Kubernetes v1.37.2: a Go program filled the API's types (k8s.io/api v0.37.2) and wrote each list, object,
//! status and watch through the serializers of client-go's scheme (`scheme.Codecs`, both media types, with their frames), once as
//! `NAME.json` and once as `NAME.pb`.

#![allow(clippy::unwrap_used)] // helpers of tests, too

use std::fmt::Debug;

use kubequota_core::evaluators::{View, ViewKind};
use kubequota_core::inventory::DeviceClassView;
use kubequota_core::{FieldError, Metadata, Object};
use kubequota_wire::json::{self, MetadataOnly, Plain, Quotas, Shape};
use kubequota_wire::protobuf::{self, Frame};
use kubequota_wire::{ListPage, WatchEvent, WireError};

macro_rules! fixture {
    ($name:literal) => {
        (
            include_str!(concat!("protobuf/", $name, ".json")),
            include_bytes!(concat!("protobuf/", $name, ".pb")).as_slice(),
        )
    };
}

const PODS: (&str, &[u8]) = fixture!("pods");
const POD: (&str, &[u8]) = fixture!("pod");
const SERVICES: (&str, &[u8]) = fixture!("services");
const CLAIMS: (&str, &[u8]) = fixture!("persistentvolumeclaims");
const RESOURCE_CLAIMS: (&str, &[u8]) = fixture!("resourceclaims");
const QUOTAS: (&str, &[u8]) = fixture!("resourcequotas");
const DEVICE_CLASSES: (&str, &[u8]) = fixture!("deviceclasses");
const CONFIG_MAPS: (&str, &[u8]) = fixture!("configmaps");
const PARTIAL: (&str, &[u8]) = fixture!("partial");
const STATUS: (&str, &[u8]) = fixture!("status");
const WATCH: (&str, &[u8]) = fixture!("watch");

/// The page of a list, the same in both encodings.
fn page<S: Shape<Output: Debug + PartialEq>>(shape: S, (text, bytes): (&str, &[u8])) -> ListPage<S::Output> {
    let page = protobuf::list_page(shape, bytes).unwrap();
    assert_eq!(page, json::list_page(shape, text.as_bytes()).unwrap());
    page
}

#[test]
fn lists() {
    let pods = page(ViewKind::Pod, PODS);
    assert_eq!(
        (pods.resource_version.as_str(), pods.next.as_deref(), pods.remaining),
        ("1234", Some("next page"), Some(7))
    );
    let names: Vec<_> = pods.items.iter().map(|pod| pod.metadata.name.as_str()).collect();
    assert_eq!(names, ["plain", "full", "bare"]);
    assert_eq!(page(ViewKind::Service, SERVICES).items.len(), 4);
    assert_eq!(page(ViewKind::PersistentVolumeClaim, CLAIMS).items.len(), 3);
    assert_eq!(page(ViewKind::ResourceClaim, RESOURCE_CLAIMS).items.len(), 2);
    assert_eq!(page(Quotas, QUOTAS).items.len(), 2);
    assert_eq!(page(Plain::<DeviceClassView>::default(), DEVICE_CLASSES).items.len(), 2);
    assert_eq!(page(ViewKind::Counted, CONFIG_MAPS).items.len(), 2);
    assert_eq!(page(MetadataOnly, PARTIAL).items.len(), 2);
    assert_eq!(page(MetadataOnly, PODS).items[1], page(MetadataOnly, PARTIAL).items[0]);
}

#[test]
fn an_object() {
    let pod = protobuf::object(ViewKind::Pod, POD.1).unwrap();
    assert_eq!(pod, ViewKind::Pod.read(POD.0).unwrap());
    assert_eq!(pod.metadata.deletion_timestamp.as_deref(), Some("1969-12-31T23:59:59Z"));
    let View::Pod(view) = pod.view.unwrap() else {
        panic!("no pod")
    };
    assert_eq!(view.extended_resource_claim(), Some("full-extended"));
}

#[test]
fn a_status() {
    let status = protobuf::status(STATUS.1);
    assert_eq!(status, json::status(STATUS.0.as_bytes()));
    assert_eq!(status.unwrap().details.unwrap().causes[0].field, "status.used[pods]");
    assert_eq!(protobuf::status(POD.1), None);
    assert_eq!(protobuf::status(b"404 page not found"), None);
}

#[test]
fn a_watch() {
    let mut lines = WATCH.0.lines();
    let mut received = WATCH.1;
    let mut seen = Vec::new();
    while let Some(Frame { event, rest }) = protobuf::first_frame(received, 10_000).unwrap() {
        received = rest;
        let event = protobuf::watch_event(ViewKind::Pod, event).unwrap();
        let line = lines.next().unwrap().as_bytes();
        assert_eq!(event, json::watch_event(ViewKind::Pod, line).unwrap());
        seen.push(match event {
            WatchEvent::Applied(pod) => format!("applied {}", pod.metadata.name),
            WatchEvent::Deleted(pod) => format!("deleted {}", pod.metadata.name),
            WatchEvent::Bookmark {
                resource_version,
                initial_events_end,
            } => format!("bookmark {resource_version} {initial_events_end}"),
            WatchEvent::Error(status) => format!("error {}", status.code),
        });
    }
    assert_eq!((received, lines.next()), (&[][..], None));
    assert_eq!(
        seen,
        [
            "applied plain",
            "applied full",
            "deleted bare",
            "bookmark 200 false",
            "bookmark 201 true",
            "error 410"
        ]
    );
}

#[test]
fn frames() {
    let frame = |event, rest| Ok(Some(Frame { event, rest }));
    type Case<'a> = (&'a [u8], Result<Option<Frame<'a>>, &'a str>);
    let table: &[Case<'_>] = &[
        (b"", Ok(None)),
        (b"\0\0\0", Ok(None)),
        (b"\0\0\0\0", frame(b"", b"")),
        (b"\0\0\0\x03ab", Ok(None)),
        (b"\0\0\0\x03abc", frame(b"abc", b"")),
        (b"\0\0\0\x03abc\0\0", frame(b"abc", b"\0\0")),
        (b"\0\0\0\x04", Err("a frame of 4 bytes is longer than the limit of 3")),
        (
            b"\xff\xff\xff\xff",
            Err("a frame of 4294967295 bytes is longer than the limit of 3"),
        ),
    ];
    for (received, expected) in table {
        let frame = protobuf::first_frame(received, 3).map_err(|error| error.to_string());
        match (frame, expected) {
            (Ok(frame), Ok(expected)) => assert_eq!(frame, *expected, "{received:?}"),
            (Err(error), Err(expected)) => assert!(error.ends_with(expected), "{error}"),
            (frame, _) => panic!("{received:?}: {frame:?}"),
        }
    }
}

/// A message made of these parts.
fn join(parts: &[Vec<u8>]) -> Vec<u8> {
    parts.concat()
}

/// A field that holds text or a message (shorter than 128 bytes, or than 16 K).
fn field(number: u32, value: impl AsRef<[u8]>) -> Vec<u8> {
    let value = value.as_ref();
    let mut bytes = key(number, 2);
    bytes.extend([(value.len() & 0x7f) as u8 | 0x80, (value.len() >> 7) as u8]);
    bytes.extend(value);
    bytes
}

/// A field that holds a small number.
fn number(number: u32, value: u8) -> Vec<u8> {
    let mut bytes = key(number, 0);
    bytes.push(value);
    bytes
}

fn key(number: u32, wire_type: u32) -> Vec<u8> {
    let key = number << 3 | wire_type;
    vec![(key & 0x7f) as u8 | 0x80, (key >> 7) as u8]
}

fn envelope(api_version: &str, kind: &str, raw: &[u8]) -> Vec<u8> {
    let type_meta = join(&[field(1, api_version), field(2, kind)]);
    join(&[
        b"k8s\0".to_vec(),
        field(1, type_meta),
        field(2, raw),
        field(3, ""),
        field(4, ""),
    ])
}

fn metadata(name: &str) -> Vec<u8> {
    field(1, join(&[field(1, name), field(3, "ns"), field(5, "u"), field(6, "7")]))
}

/// A map's entry with a quantity.
fn quantity(name: &str, text: &str) -> Vec<u8> {
    join(&[field(1, name), field(2, field(1, text))])
}

fn quota(parts: &[Vec<u8>]) -> (Metadata, Result<kubequota_core::Quota, FieldError>) {
    protobuf::object(Quotas, &envelope("v1", "ResourceQuota", &join(parts))).unwrap()
}

fn hard(parts: &[Vec<u8>]) -> String {
    let quota = quota(&[metadata("q"), field(2, join(parts))]).1.unwrap();
    let problems: String = quota
        .problems
        .iter()
        .map(|problem| format!(" ({})", problem.field))
        .collect();
    format!("{}{problems}", quota.spec.hard)
}

/// As protobuf has it, whatever writes it: the last value counts, messages are joined, and what is missing is the type's default.
#[test]
fn any_order_and_repetition() {
    let entry = |name, text| field(1, quantity(name, text));
    let table = [
        (vec![], ""),
        (vec![entry("pods", "1"), entry("secrets", "2")], "pods=1,secrets=2"),
        (vec![entry("secrets", "2"), entry("pods", "1")], "pods=1,secrets=2"),
        (
            vec![entry("pods", "1"), entry("secrets", "2"), entry("pods", "3")],
            "pods=3,secrets=2",
        ),
        (
            vec![entry("pods", "x"), entry("secrets", "2")],
            "secrets=2 (spec.hard[pods])",
        ),
        (vec![entry("pods", "")], " (spec.hard[pods])"),
        (vec![field(1, field(1, "pods"))], "pods=0"),
        (vec![field(1, join(&[field(1, "pods"), field(2, "")]))], "pods=0"),
        (vec![field(1, field(2, field(1, "5")))], "=5"),
        (
            vec![field(
                1,
                join(&[field(2, field(1, "5")), field(9, "new"), field(1, "pods")]),
            )],
            "pods=5",
        ),
        (
            vec![field(2, "BestEffort"), entry("pods", "1"), field(2, "Terminating")],
            "pods=1",
        ),
    ];
    for (parts, expected) in table {
        assert_eq!(hard(&parts), expected);
    }
    let (metadata, quota) = quota(&[
        field(2, field(1, quantity("pods", "1"))),
        metadata("first"),
        field(99, "from a later version"),
        field(2, field(1, quantity("secrets", "2"))),
        field(1, field(1, "last")),
    ]);
    assert_eq!((metadata.name.as_str(), metadata.namespace.as_str()), ("last", "ns"));
    assert_eq!(quota.unwrap().spec.hard.to_string(), "pods=1,secrets=2");
}

#[test]
fn times() {
    let seconds = |bytes: &[u8]| field(8, [&[0x08], bytes].concat());
    let table = [
        (vec![], ""),
        (field(8, ""), ""),
        (seconds(&[0]), "1970-01-01T00:00:00Z"),
        (field(8, number(2, 5)), "1970-01-01T00:00:00Z"),
        (seconds(&[0xac, 0x02]), "1970-01-01T00:05:00Z"),
        (join(&[seconds(&[0xac, 0x02]), seconds(&[1])]), "1970-01-01T00:00:01Z"),
        (
            seconds(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f]),
            "9223372036854775807 seconds after 1970",
        ),
    ];
    for (bytes, expected) in table {
        let object = field(1, join(&[field(1, "a"), bytes]));
        let metadata = protobuf::object(MetadataOnly, &envelope("v1", "Secret", &object)).unwrap();
        assert_eq!(metadata.creation_timestamp, expected);
    }
}

/// Kubernetes' JSON has a replacement character for each byte that is no UTF-8.
#[test]
fn text_that_is_not_utf_8() {
    for (bytes, expected) in [
        (&b"a\xe2\x82b"[..], "a\u{fffd}\u{fffd}b"),
        (b"\xff", "\u{fffd}"),
        ("é".as_bytes(), "é"),
    ] {
        let object = field(1, field(1, bytes));
        let metadata = protobuf::object(MetadataOnly, &envelope("v1", "Secret", &object)).unwrap();
        assert_eq!(metadata.name, expected);
    }
}

#[test]
fn one_bad_object_does_not_spoil_its_page() {
    let containers = |bytes: Vec<u8>| field(2, field(2, bytes));
    let requests = |bytes: Vec<u8>| containers(field(8, field(2, bytes)));
    // The parts of a pod, where it fails and why.
    let table = [
        (
            vec![metadata("a"), number(2, 1)],
            "spec: it is not encoded as text or a message",
        ),
        (
            vec![metadata("a"), field(2, number(2, 1))],
            "spec.containers[0]: it is not encoded as text or a message",
        ),
        (
            vec![metadata("a"), field(2, field(5, "x"))],
            "spec.activeDeadlineSeconds: it is not encoded as a number",
        ),
        (
            vec![metadata("a"), containers(b"\x0a\x05ab".to_vec())],
            "spec.containers[0]: it ends within a field",
        ),
        (
            vec![metadata("a"), requests(join(&[field(1, "cpu"), number(2, 1)]))],
            "spec.containers[0].resources.requests.cpu: it is not encoded as text or a message",
        ),
        (
            vec![metadata("a"), b"\x12\x05ab".to_vec()],
            "object: it ends within a field",
        ),
        (
            vec![metadata("a"), vec![0xff; 20]],
            "object: it has a number of more than 64 bits",
        ),
        (
            vec![metadata("a"), vec![0x00]],
            "object: it has a field that no message can have (number 0, wire type 0)",
        ),
        (
            vec![metadata("a"), field(1, field(10, "x"))],
            "metadata.deletionGracePeriodSeconds: it is not encoded as a number",
        ),
        (
            vec![metadata("a"), field(1, number(13, 1))],
            "metadata.ownerReferences[0]: it is not encoded as text or a message",
        ),
    ];
    for (parts, expected) in table {
        let items = [join(&[metadata("before")]), join(&parts), join(&[metadata("after")])];
        let list = join(&items.map(|item| field(2, item)));
        let page = protobuf::list_page(ViewKind::Pod, &envelope("v1", "PodList", &list)).unwrap();
        let [before, bad, after] = &page.items[..] else {
            panic!("{page:?}")
        };
        assert!(before.view.is_ok() && after.view.is_ok(), "{page:?}");
        assert_eq!(bad.view.as_ref().unwrap_err().to_string(), expected);
        let Metadata {
            name,
            namespace,
            uid,
            resource_version,
            ..
        } = &bad.metadata;
        assert_eq!([name, namespace, uid, resource_version], ["a", "ns", "u", "7"]);
        // To be counted, a name is enough.
        let page = protobuf::list_page(ViewKind::Counted, &envelope("v1", "PodList", &list)).unwrap();
        assert!(page.items.iter().all(|object| object.view == Ok(View::Counted)));
    }
}

#[test]
fn a_quantity_that_is_none_is_kept_as_text() {
    let requests = field(2, field(2, field(8, field(2, quantity("cpu", "lots")))));
    let pod = envelope("v1", "Pod", &join(&[metadata("a"), requests]));
    let json = r#"{"metadata":{"name":"a","namespace":"ns","uid":"u","resourceVersion":"7"},
                   "spec":{"containers":[{"resources":{"requests":{"cpu":"lots"}}}]}}"#;
    let pod = protobuf::object(ViewKind::Pod, &pod).unwrap();
    assert_eq!(pod, ViewKind::Pod.read(json).unwrap());
    assert!(pod.view.is_ok());
}

/// Where the kind's fields are not known, nothing is taken for an object that asks for nothing.
#[test]
fn kinds_that_are_not_known() {
    for (api_version, kind) in [
        ("v1", "Secret"),
        ("v2", "Pod"),
        ("resource.k8s.io/v1beta1", "ResourceClaim"),
    ] {
        let body = envelope(api_version, kind, &metadata("a"));
        let Object { metadata, view } = protobuf::object(ViewKind::Pod, &body).unwrap();
        assert_eq!(metadata.name, "a");
        let error = view.unwrap_err().to_string();
        assert!(
            error.starts_with(&format!("kind: of {api_version} {kind} only the metadata")),
            "{error}"
        );
        let counted = protobuf::object(ViewKind::Counted, &body).unwrap();
        assert_eq!((counted.metadata, counted.view), (metadata, Ok(View::Counted)));
    }
}

#[test]
fn what_is_no_answer() {
    let type_meta = |kind| field(1, join(&[field(1, "v1"), field(2, kind)]));
    let body = |parts: &[Vec<u8>]| join(&[b"k8s\0".to_vec(), join(parts)]);
    let nameless = envelope("v1", "Pod", &field(1, number(1, 1)));
    let table = [
        (
            b"".to_vec(),
            "as an object in protobuf: it does not begin with the bytes k8s and 0",
        ),
        (b"k8s".to_vec(), "it does not begin with the bytes k8s and 0"),
        (
            br#"{"kind":"Pod"}"#.to_vec(),
            "it does not begin with the bytes k8s and 0",
        ),
        (b"k8s\0".to_vec(), "it does not say of which kind it is"),
        (b"k8s\0\x0a\x7f".to_vec(), "it ends within a field"),
        (body(&[number(1, 1)]), "it is not encoded as text or a message"),
        (body(&[type_meta("")]), "it does not say of which kind it is"),
        (
            body(&[type_meta("Pod"), field(4, "application/json")]),
            r#"it holds "application/json", encoded as "", not protobuf"#,
        ),
        (
            body(&[type_meta("Pod"), field(3, "gzip")]),
            r#"it holds "", encoded as "gzip", not protobuf"#,
        ),
        (
            nameless,
            "has no metadata that can be read: it is not encoded as text or a message",
        ),
        (
            envelope("v1", "Pod", b"\x0a\x7f"),
            "has no metadata that can be read: missing field `metadata`",
        ),
    ];
    for (bytes, expected) in table {
        let error = protobuf::object(ViewKind::Pod, &bytes).unwrap_err().to_string();
        assert!(error.ends_with(expected), "{error}");
    }
    for (kind, expected) in [
        ("Pod", "as a list in protobuf: Pod is no list of one kind"),
        ("List", "as a list in protobuf: List is no list of one kind"),
    ] {
        let error = protobuf::list_page(ViewKind::Pod, &envelope("v1", kind, b""))
            .unwrap_err()
            .to_string();
        assert!(error.ends_with(expected), "{error}");
    }
    let event = |r#type: &str, object: &[u8]| {
        let event = join(&[field(1, r#type), field(2, field(1, object))]);
        protobuf::watch_event(ViewKind::Pod, &event)
    };
    let pod = envelope("v1", "Pod", &metadata("a"));
    assert!(matches!(event("ADDED", &pod), Ok(WatchEvent::Applied(_))));
    assert!(matches!(event("GONE", &pod), Err(WireError::UnknownEvent(kind)) if kind == "GONE"));
    for bytes in [&b""[..], b"\x0a\x05ADDED", b"\x0a\x7f"] {
        let error = protobuf::watch_event(ViewKind::Pod, bytes).unwrap_err().to_string();
        assert!(error.contains("as a watch event in protobuf: "), "{error}");
    }
}

/// Wherever it breaks off or a byte is another one, what comes is an answer.
#[test]
fn no_bytes_panic() {
    for (_, bytes) in [PODS, QUOTAS, RESOURCE_CLAIMS, STATUS] {
        for at in 0..bytes.len() {
            let _ = protobuf::list_page(ViewKind::Pod, &bytes[..at]);
            let mut changed = bytes.to_vec();
            for byte in [0, 0x0b, 0xff] {
                changed[at] = byte;
                let _ = protobuf::list_page(ViewKind::Pod, &changed);
                let _ = protobuf::list_page(Quotas, &changed);
                let _ = protobuf::status(&changed);
            }
        }
    }
}
