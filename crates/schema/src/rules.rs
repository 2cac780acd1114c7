//! Value validation beyond types, as custom kinds declare it.

/// `enum`, `pattern`, bounds, `allOf` and the like of one node.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Rules {}
