//! The protobuf of one object, read as a kind's view, and what is worked out from it.
//!
//! The first byte selects the kind, and whether the rest is the object's message or the making of one (see `messages`).
#![no_main]

use kubequota_fuzz::{Kind, Read, messages};
use kubequota_wire::protobuf::{self, MetadataOnly};
use kubequota_wire::{Shape, WatchEvent, WireError};
use libfuzzer_sys::fuzz_target;

struct Protobuf<'a> {
    kind: Kind,
    message: &'a [u8],
}

impl Read for Protobuf<'_> {
    fn read<S: Shape>(&self, shape: S) -> Result<S::Output, WireError> {
        let (version, kind) = self.kind.type_meta();
        protobuf::object(shape, &messages::envelope(version, kind, self.message))
    }
}

fuzz_target!(|bytes: &[u8]| {
    let Some((selector, rest)) = bytes.split_first() else {
        return;
    };
    let kind = Kind::select(*selector);
    let made;
    let message = if selector & 8 == 0 {
        rest
    } else {
        made = messages::make(rest);
        &made
    };
    let object = Protobuf { kind, message };
    kind.check(&object);
    in_answers(&object);
});

/// In a page and in an event it is the same object as alone.
fn in_answers(object: &Protobuf<'_>) {
    let (version, name) = object.kind.type_meta();
    let alone = object.read(MetadataOnly).ok();
    let list = messages::envelope(version, &format!("{name}List"), &messages::field(2, object.message));
    let page = protobuf::list_page(MetadataOnly, &list).ok();
    assert_eq!(page.and_then(|mut page| page.items.pop()), alone);
    let raw = messages::field(1, &messages::envelope(version, name, object.message));
    let event = [messages::field(1, b"ADDED"), messages::field(2, &raw)].concat();
    match protobuf::watch_event(MetadataOnly, &event) {
        Ok(WatchEvent::Applied(metadata)) => assert_eq!(Some(metadata), alone),
        Ok(event) => panic!("{event:?}"),
        Err(_) => assert_eq!(alone, None),
    }
}
