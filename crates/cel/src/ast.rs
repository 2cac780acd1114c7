//! An expression as a tree. Macros are nodes of their own, so that checking, estimating and running can treat a
//! comprehension as the loop it is.

/// A node. `id` numbers the nodes of one expression from 0, so that tables beside the tree can be vectors.
#[derive(Debug, Clone, PartialEq)]
pub struct Expr {
    pub id: usize,
    /// Where errors about it point, in characters from the beginning.
    pub at: u32,
    /// How many levels of nodes there are from here down, itself included.
    pub depth: u16,
    pub kind: Kind,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Kind {
    Literal(Literal),
    Ident(String),
    Select {
        operand: Box<Expr>,
        field: String,
        access: Access,
    },
    Call {
        function: String,
        target: Option<Box<Expr>>,
        args: Vec<Expr>,
    },
    List(Vec<Element>),
    Map(Vec<Entry>),
    Object {
        name: String,
        fields: Vec<Field>,
    },
    Comprehension(Box<Comprehension>),
    /// `cel.bind(name, value, body)`
    Bind {
        name: String,
        value: Box<Expr>,
        body: Box<Expr>,
    },
    /// `target.optMap(name, body)`; flat when the body is optional itself.
    OptionalMap {
        target: Box<Expr>,
        name: String,
        body: Box<Expr>,
        flat: bool,
    },
    /// Something was wrong here, and has been said.
    Broken,
}

/// How a field is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// `a.b`
    Value,
    /// `has(a.b)`
    Presence,
    /// `a.?b`
    Optional,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Literal {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    String(String),
    Bytes(Vec<u8>),
}

/// `x` or `?x` in a list.
#[derive(Debug, Clone, PartialEq)]
pub struct Element {
    pub value: Expr,
    pub optional: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    pub key: Expr,
    pub value: Expr,
    pub optional: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Field {
    pub at: u32,
    pub name: String,
    pub value: Expr,
    pub optional: bool,
}

/// A loop over a list or a map.
#[derive(Debug, Clone, PartialEq)]
pub struct Comprehension {
    pub kind: Loop,
    pub range: Expr,
    pub variable: String,
    /// The value beside the index or key, in the forms with two variables.
    pub second: Option<String>,
    /// What an element must fulfil: the predicate of a quantifier, the filter of the others.
    pub condition: Option<Expr>,
    /// What an element becomes.
    pub transform: Option<Expr>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Loop {
    All,
    Exists,
    ExistsOne,
    /// `map` and `transformList`
    Map,
    Filter,
    TransformMap,
    TransformMapEntry,
    /// `sortBy`: the transform is the key.
    SortBy,
}
