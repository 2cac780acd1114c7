//! JSONPath as AWS runs it, which is Jayway's dialect: a definite path gives one value and fails when it is
//! missing, an indefinite one (wildcard, slice, filter, descent, union) gives a list and never fails. Roots are `$`
//! (the state's data), `$$` (the context object) and `$name` (a variable).
//!
//! It never writes: where a result is placed is `reference.rs`.

mod evaluate;
mod filter;
mod parse;
mod reference;

use serde_json::Value;

pub use reference::ReferencePath;

use filter::Filter;

/// Where a path begins.
#[derive(Debug, Clone, PartialEq)]
pub enum Root {
    Data,
    Context,
    Variable(String),
}

/// A parsed path; `text` is kept for messages, which quote it.
#[derive(Debug, Clone)]
pub struct Path {
    pub text: String,
    pub root: Root,
    segments: Vec<Segment>,
}

#[derive(Debug, Clone)]
enum Segment {
    Child(String),
    Children(Vec<String>),
    Index(i64),
    Indexes(Vec<i64>),
    Slice {
        from: Option<i64>,
        to: Option<i64>,
        step: i64,
    },
    Wildcard,
    Descent(Box<Segment>),
    Filter(Box<Filter>),
    /// `(@.length-1)`.
    FromEnd(i64),
}

impl Segment {
    fn is_definite(&self) -> bool {
        matches!(self, Self::Child(_) | Self::Index(_) | Self::FromEnd(_))
    }
}

/// Why a definite path gave nothing; the text is Jayway's.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{0}")]
pub struct Missing(pub String);

/// Why a text is no path.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{0}")]
pub struct Invalid(pub String);

/// What a path may look at.
pub trait Lookup {
    fn data(&self) -> &Value;
    fn context(&self) -> &Value;
    fn variable(&self, name: &str) -> Option<&Value>;
}

impl Path {
    pub fn parse(text: &str) -> Result<Self, Invalid> {
        parse::path(text)
    }

    /// True when it gives one value rather than a list.
    pub fn is_definite(&self) -> bool {
        self.segments.iter().all(Segment::is_definite)
    }

    pub fn query(&self, lookup: &dyn Lookup) -> Result<Value, Missing> {
        let root = match &self.root {
            Root::Data => lookup.data(),
            Root::Context => lookup.context(),
            Root::Variable(name) => {
                lookup.variable(name).ok_or_else(|| Missing(format!("No results for path: $['{name}']")))?
            }
        };
        self.find(root)
    }

    /// What it gives below `root`, whatever its own root says.
    pub fn find(&self, root: &Value) -> Result<Value, Missing> {
        evaluate::find(&self.segments, root, root)
    }
}
