//! A path that names exactly one place, where a result can be put.

use serde_json::{Map, Value};

use super::{Invalid, Path, Root, Segment};

/// A path of names and indexes only, below the state's data.
#[derive(Debug, Clone)]
pub struct ReferencePath {
    pub text: String,
    segments: Vec<Segment>,
}

impl ReferencePath {
    pub fn parse(text: &str) -> Result<Self, Invalid> {
        let path = Path::parse(text)?;
        if path.root != Root::Data {
            return Err(Invalid(format!("'{text}' does not begin with $")));
        }
        let plain = |segment: &Segment| match segment {
            Segment::Child(_) => true,
            Segment::Index(index) => *index >= 0,
            _ => false,
        };
        if !path.segments.iter().all(plain) {
            return Err(Invalid(format!("'{text}' is no reference path")));
        }
        Ok(Self { text: path.text, segments: path.segments })
    }

    /// `input` with `result` at this place. Missing objects are made; a value that is no object on the way is an
    /// error, and so is an index beyond the array's end.
    pub fn place(&self, input: Value, result: Value) -> Result<Value, String> {
        let mut root = input;
        if self.segments.is_empty() {
            return Ok(result);
        }
        let refused = || format!("Unable to apply ReferencePath {} to input ", self.text);
        let shown = root.to_string();
        let mut here = &mut root;
        for segment in &self.segments {
            here = match (segment, here) {
                (Segment::Child(name), Value::Object(object)) => {
                    object.entry(name.clone()).or_insert(Value::Null)
                }
                (Segment::Child(name), place @ Value::Null) => {
                    *place = Value::Object(Map::new());
                    let Value::Object(object) = place else { return Err(refused() + &shown) };
                    object.entry(name.clone()).or_insert(Value::Null)
                }
                (Segment::Index(index), Value::Array(items)) => {
                    let length = items.len();
                    match usize::try_from(*index) {
                        Ok(at) if at < length => &mut items[at],
                        _ => return Err(refused() + &shown),
                    }
                }
                _ => return Err(refused() + &shown),
            };
        }
        *here = result;
        Ok(root)
    }
}
