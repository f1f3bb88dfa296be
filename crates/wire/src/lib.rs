//! Decoding: from the bytes that a server or a file holds to the narrow views of `kubequota-core`.
//!
//! A view that can't be read spoils its own object and no other: a list's page or a watch's event is taken apart into objects first, and
//! an object whose fields are not what they should be still has its metadata, so that it can be kept as unreadable by name.
//! The codecs are leaves: nothing else knows whether the bytes are [`json`] or [`protobuf`], which offer the same functions.

mod answer;
pub mod configuration;
pub mod files;
pub mod json;
pub mod protobuf;
pub mod review;
mod shape;
pub mod status;
mod yaml;

pub use answer::{ListPage, WatchEvent, WireError};
pub use shape::{Encoded, Shape};
pub use status::Status;
