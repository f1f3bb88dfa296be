//! The JSON of one object, read as a kind's view, and what is worked out from it.
//!
//! The first byte selects the kind.
#![no_main]

use kubequota_fuzz::{Kind, Read};
use kubequota_wire::WireError;
use kubequota_wire::json::Shape;
use libfuzzer_sys::fuzz_target;

struct Json<'a>(&'a str);

impl Read for Json<'_> {
    fn read<S: Shape>(&self, shape: S) -> Result<S::Output, WireError> {
        shape.read(self.0)
    }
}

fuzz_target!(|bytes: &[u8]| {
    if let Some((selector, text)) = bytes.split_first()
        && let Ok(text) = std::str::from_utf8(text)
    {
        Kind::select(*selector).check(&Json(text));
    }
});
