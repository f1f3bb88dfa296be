//! Exact Kubernetes quantities (`resource.Quantity`), useful by themselves.
//!
//! A [`Quantity`] is what a Kubernetes API object writes as `500m`, `1Gi`, `2` or `12e6`. This crate parses, prints,
//! compares and adds them with the answers of k8s.io/apimachinery v0.37.2 (Kubernetes v1.37.2), in exact arithmetic of
//! any size, without a panic and in bounded time on any input.
//!
//! ```
//! use kubequota_quantity::Quantity;
//!
//! let half: Quantity = "0.5".parse()?;
//! assert_eq!(half.to_string(), "500m");
//! assert_eq!((&half + &half).to_string(), "1");
//! assert!(Quantity::parse("1Gi")? > Quantity::parse("1G")?);
//! # Ok::<(), kubequota_quantity::ParseError>(())
//! ```
//!
//! # The rules
//!
//! - Text is a sign, digits with an optional point, and a suffix: `n u m k M G T P E` or none ([`Format::DecimalSi`]),
//!   `Ki Mi Gi Ti Pi Ei` ([`Format::BinarySi`]), or `e`/`E` with an exponent ([`Format::DecimalExponent`]). `1E` is an
//!   exa, `1E3` is a thousand.
//! - The finest step is one nano; what is finer is rounded up, away from zero. Parsed binary quantities are capped at
//!   2^63-1 units in magnitude; sums are not.
//! - A quantity remembers its format, and prints in it: without a fraction and with the largest suffix that leaves an
//!   integer. Some texts are kept as written (`1.500k`, `+5`) until the first arithmetic; [`Quantity::parse`] says which.
//! - Equality, order and hash are by value: `1000m` equals `1`.
//!
//! # Where it differs from upstream
//!
//! - An exponent outside -1000..=1000, or text longer than 1000 characters, is an error. Upstream wraps huge exponents
//!   modulo 2^32, or computes on them for minutes. (Values near these limits may print as text beyond them.)
//! - Values whose suffix would be beyond the largest one print in the largest one: `1000E`, `1024Ei`. Upstream prints
//!   them without any suffix, so that `1000E` becomes `1`.

mod amount;
mod format;
mod parse;
mod quantity;
#[cfg(feature = "serde")]
mod serde;

pub use format::Format;
pub use parse::{MAX_EXPONENT, MAX_TEXT, ParseError, Reason};
pub use quantity::Quantity;
