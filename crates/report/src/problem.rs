//! What was wrong with the input.

use std::fmt;

use kubequota_core::FieldError;
use kubequota_wire::files::{FileError, Place};
use serde::ser::{Serialize, SerializeStruct, Serializer};

/// Something in the input that can't be used, and where it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Problem {
    /// Where it stands, if it came from a file.
    pub place: Option<Place>,
    /// The file, where no more is known of the place.
    pub file: Option<String>,
    /// The object, as `KIND NAMESPACE/NAME`.
    pub object: Option<String>,
    /// Path of the field.
    pub field: Option<String>,
    /// What is wrong.
    pub reason: String,
}

impl Problem {
    /// A problem with a field of an object.
    #[must_use]
    pub fn of(object: impl Into<String>, error: FieldError) -> Self {
        Problem {
            object: Some(object.into()),
            field: Some(error.field),
            reason: error.reason,
            ..Problem::default()
        }
    }

    /// A problem with an object as a whole.
    #[must_use]
    pub fn with(object: impl Into<String>, reason: impl Into<String>) -> Self {
        Problem {
            object: Some(object.into()),
            reason: reason.into(),
            ..Problem::default()
        }
    }

    /// A problem with a whole file.
    #[must_use]
    pub fn with_file(file: impl Into<String>, reason: impl Into<String>) -> Self {
        Problem {
            file: Some(file.into()),
            reason: reason.into(),
            ..Problem::default()
        }
    }

    /// The same, at a place.
    #[must_use]
    pub fn at(mut self, place: Option<&Place>) -> Self {
        self.place = place.cloned();
        self
    }
}

impl From<FileError> for Problem {
    fn from(error: FileError) -> Self {
        Problem {
            place: Some(error.place),
            reason: error.reason,
            ..Problem::default()
        }
    }
}

/// `pods.yaml, document 3, Pod team-a/web: spec.containers[0].resources.requests[cpu]: REASON`
impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = self
            .place
            .as_ref()
            .map(ToString::to_string)
            .or_else(|| self.file.clone());
        let subject: Vec<String> = place.into_iter().chain(self.object.clone()).collect();
        if !subject.is_empty() {
            write!(f, "{}: ", subject.join(", "))?;
        }
        if let Some(field) = &self.field {
            write!(f, "{field}: ")?;
        }
        f.write_str(&self.reason)
    }
}

/// Everything by name, and what is not known left out.
impl Serialize for Problem {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut problem = serializer.serialize_struct("Problem", 6)?;
        match &self.place {
            Some(place) => {
                problem.serialize_field("file", &*place.file)?;
                problem.serialize_field("document", &place.document)?;
            }
            None => match &self.file {
                Some(file) => problem.serialize_field("file", file)?,
                None => problem.skip_field("file")?,
            },
        }
        match self.place.as_ref().and_then(|place| place.item) {
            Some(item) => problem.serialize_field("item", &item)?,
            None => problem.skip_field("item")?,
        }
        for (name, value) in [("object", &self.object), ("field", &self.field)] {
            match value {
                Some(value) => problem.serialize_field(name, value)?,
                None => problem.skip_field(name)?,
            }
        }
        problem.serialize_field("reason", &self.reason)?;
        problem.end()
    }
}
