//! The way to the node a walk stands on, kept on the stack.
//!
//! A walk visits thousands of fields and reports a handful, so a [`Path`] is built only when something is
//! reported.

use crate::Path;

pub(crate) enum Trail<'a> {
    Base(&'a Path),
    Field(&'a Trail<'a>, &'a str),
    Index(&'a Trail<'a>, usize),
    Key(&'a Trail<'a>, &'a str),
}

impl Trail<'_> {
    pub(crate) fn path(&self) -> Path {
        match self {
            Trail::Base(path) => (*path).clone(),
            Trail::Field(parent, name) => parent.path().field(name),
            Trail::Index(parent, index) => parent.path().index(*index),
            Trail::Key(parent, key) => parent.path().key(key),
        }
    }
}
