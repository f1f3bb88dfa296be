//! What a server answers: pages of lists, watches and statuses, in JSON and in protobuf.
//!
//! The first byte selects which. The objects are read as pods.
#![no_main]

use kubequota_core::evaluators::PodView;
use kubequota_core::{FieldError, Metadata};
use kubequota_wire::json::{self, MetadataOnly, Plain};
use kubequota_wire::protobuf::{self, Frame};
use kubequota_wire::{ListPage, WatchEvent, WireError};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Some((selector, bytes)) = bytes.split_first() else {
        return;
    };
    match selector % 8 {
        0 => lists(json::list_page, json::list_page, bytes),
        1 => lists(protobuf::list_page, protobuf::list_page, bytes),
        2 => {
            for line in bytes.split(|byte| *byte == b'\n') {
                events(json::watch_event, json::watch_event, line);
            }
        }
        3 => events(protobuf::watch_event, protobuf::watch_event, bytes),
        4 => frames(bytes),
        _ => {
            for status in [json::status(bytes), protobuf::status(bytes)].into_iter().flatten() {
                assert_ne!(status.code, 0);
            }
        }
    }
});

type Pods = Plain<PodView>;
type Pod = (Metadata, Result<PodView, FieldError>);

/// As metadata alone, a list has as many objects, and they have the same metadata.
fn lists(
    read: impl Fn(Pods, &[u8]) -> Result<ListPage<Pod>, WireError>,
    read_metadata: impl Fn(MetadataOnly, &[u8]) -> Result<ListPage<Metadata>, WireError>,
    bytes: &[u8],
) {
    match (read(Pods::default(), bytes), read_metadata(MetadataOnly, bytes)) {
        (Ok(page), Ok(metadata)) => {
            assert!(page.items.iter().map(|(metadata, _)| metadata).eq(&metadata.items));
            assert_eq!(page.resource_version, metadata.resource_version);
            assert_eq!((page.next, page.remaining), (metadata.next, metadata.remaining));
        }
        (Err(error), Err(again)) => assert_eq!(error.to_string(), again.to_string()),
        (page, metadata) => panic!("{page:?}, but {metadata:?}"),
    }
}

fn events(
    read: impl Fn(Pods, &[u8]) -> Result<WatchEvent<Pod>, WireError>,
    read_metadata: impl Fn(MetadataOnly, &[u8]) -> Result<WatchEvent<Metadata>, WireError>,
    bytes: &[u8],
) {
    use WatchEvent::{Applied, Bookmark, Deleted, Error};
    match (read(Pods::default(), bytes), read_metadata(MetadataOnly, bytes)) {
        (Ok(Applied((pod, _))), Ok(Applied(metadata))) | (Ok(Deleted((pod, _))), Ok(Deleted(metadata))) => {
            assert_eq!(pod, metadata);
        }
        (Ok(Bookmark { .. }), Ok(Bookmark { .. })) => {}
        (Ok(Error(status)), Ok(Error(again))) => assert_eq!(status, again),
        (Err(error), Err(again)) => assert_eq!(error.to_string(), again.to_string()),
        (event, metadata) => panic!("{event:?}, but {metadata:?}"),
    }
}

fn frames(mut bytes: &[u8]) {
    const LIMIT: usize = 4096;
    while let Ok(Some(Frame { event, rest })) = protobuf::first_frame(bytes, LIMIT) {
        assert!(event.len() <= LIMIT && event.len() + rest.len() + 4 == bytes.len());
        events(protobuf::watch_event, protobuf::watch_event, event);
        bytes = rest;
    }
}
