//! What to read an object as, whatever its encoding.

use std::fmt;
use std::marker::PhantomData;

use kubequota_core::evaluators::{View, ViewKind};
use kubequota_core::quota::QuotaView;
use kubequota_core::{FieldError, Metadata, Object, Quota};
use serde::Deserialize;
use serde::de::{DeserializeOwned, DeserializeSeed};

use crate::answer::WireError;

/// The bytes of one object: the text of JSON (`&str`), or a [`protobuf::Message`](crate::protobuf::Message).
pub trait Encoded<'a>: Copy {
    /// Decodes the object.
    ///
    /// # Errors
    /// The field that is not what it should be, and why.
    fn decode<S: DeserializeSeed<'a> + Copy>(self, seed: S) -> Result<S::Value, FieldError>;

    /// Decodes what every kind has, `metadata`: for some encodings that takes less knowledge of the kind.
    ///
    /// # Errors
    /// As [`Encoded::decode`].
    fn decode_common<S: DeserializeSeed<'a> + Copy>(self, seed: S) -> Result<S::Value, FieldError> {
        self.decode(seed)
    }

    /// Decodes as little as tells which object it is, from an object that is not as it should be.
    ///
    /// # Errors
    /// Why even that can't be read.
    fn outline<T: Deserialize<'a>>(self) -> Result<T, String>;

    /// Decodes something that is no object of a user but the server's own.
    ///
    /// # Errors
    /// That it is not as `expected`.
    fn plain<T: Deserialize<'a>>(self, expected: &'static str) -> Result<T, WireError>;
}

/// What to read an object as.
pub trait Shape: Copy {
    /// The result.
    type Output;

    /// Reads one object.
    ///
    /// # Errors
    /// Only where not even metadata can be read.
    fn read<'a>(self, object: impl Encoded<'a>) -> Result<Self::Output, WireError>;

    /// The metadata of what was read.
    fn metadata(output: &Self::Output) -> &Metadata;

    /// Whether metadata is all that is read, so that a server need not send more.
    fn metadata_only(self) -> bool {
        false
    }
}

/// Objects of a kind that is charged.
impl Shape for ViewKind {
    type Output = Object;

    fn read<'a>(self, object: impl Encoded<'a>) -> Result<Object, WireError> {
        let (metadata, surprise) = metadata(object)?;
        let view = match surprise {
            // To be counted, a name is enough.
            _ if self == ViewKind::Counted => Ok(View::Counted),
            Some(error) => Err(error),
            None => object.decode(self),
        };
        Ok(Object { metadata, view })
    }

    fn metadata(output: &Object) -> &Metadata {
        &output.metadata
    }

    fn metadata_only(self) -> bool {
        self == ViewKind::Counted
    }
}

/// Metadata alone, of any kind.
#[derive(Clone, Copy, Debug)]
pub struct MetadataOnly;

impl Shape for MetadataOnly {
    type Output = Metadata;

    fn read<'a>(self, object: impl Encoded<'a>) -> Result<Metadata, WireError> {
        Ok(metadata(object)?.0)
    }

    fn metadata(output: &Metadata) -> &Metadata {
        output
    }

    fn metadata_only(self) -> bool {
        true
    }
}

/// ResourceQuotas.
#[derive(Clone, Copy, Debug)]
pub struct Quotas;

impl Shape for Quotas {
    type Output = (Metadata, Result<Quota, FieldError>);

    fn read<'a>(self, object: impl Encoded<'a>) -> Result<Self::Output, WireError> {
        let (metadata, view) = Plain::<QuotaView>::default().read(object)?;
        let quota = view.map(|view| view.quota(&metadata));
        Ok((metadata, quota))
    }

    fn metadata(output: &Self::Output) -> &Metadata {
        &output.0
    }
}

/// Objects of a plain serde type, with their metadata.
pub struct Plain<T>(PhantomData<fn() -> T>);

impl<T> Default for Plain<T> {
    fn default() -> Self {
        Plain(PhantomData)
    }
}

impl<T> Clone for Plain<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Plain<T> {}

impl<T> fmt::Debug for Plain<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Plain")
    }
}

impl<T: DeserializeOwned> Shape for Plain<T> {
    type Output = (Metadata, Result<T, FieldError>);

    fn read<'a>(self, object: impl Encoded<'a>) -> Result<Self::Output, WireError> {
        Ok((metadata(object)?.0, object.decode(PhantomData)))
    }

    fn metadata(output: &Self::Output) -> &Metadata {
        &output.0
    }
}

/// Which field of the metadata can't be read.
pub(crate) fn surprise<'a>(object: impl Encoded<'a>) -> Option<FieldError> {
    object.decode_common(PhantomData::<WithMetadata>).err()
}

#[derive(Deserialize)]
struct WithMetadata {
    #[serde(default)]
    metadata: Metadata,
}

/// The metadata of an object; an object whose metadata has surprises still has a name and a uid, and the first surprise is told.
fn metadata<'a>(object: impl Encoded<'a>) -> Result<(Metadata, Option<FieldError>), WireError> {
    #[derive(Deserialize)]
    struct Outline {
        metadata: Named,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Named {
        name: String,
        #[serde(default)]
        namespace: String,
        #[serde(default)]
        uid: String,
        #[serde(default)]
        resource_version: String,
    }
    let surprise = match object.decode_common(PhantomData::<WithMetadata>) {
        Ok(object) => return Ok((object.metadata, None)),
        Err(error) => error,
    };
    let Named {
        name,
        namespace,
        uid,
        resource_version,
    } = object.outline::<Outline>().map_err(WireError::Nameless)?.metadata;
    Ok((
        Metadata {
            name,
            namespace,
            uid,
            resource_version,
            ..Metadata::default()
        },
        Some(surprise),
    ))
}
