//! The tree of an expression, as it is after `process.rs`: paths are steps, tail calls are marked.

use std::sync::Arc;

use crate::signature::Signature;

#[derive(Debug, Clone)]
pub struct Node {
    pub kind: Kind,
    pub position: usize,
    /// Filters on something that is no step.
    pub predicate: Vec<Stage>,
    /// Filters and index bindings on a step.
    pub stages: Vec<Stage>,
    pub group: Option<Box<Group>>,
    pub keep_array: bool,
    pub keep_singleton: bool,
    pub cons_array: bool,
    pub tuple: bool,
    pub focus: Option<Arc<str>>,
    pub index: Option<Arc<str>>,
    /// The slot of a parent operator that means this step.
    pub ancestor: Option<usize>,
    /// Slots whose step is still looked for.
    pub seeking: Vec<usize>,
}

#[derive(Debug, Clone)]
pub enum Kind {
    String(Arc<str>),
    Number(f64),
    Boolean(bool),
    Null,
    Name(Arc<str>),
    Variable(Arc<str>),
    Regex(Arc<regex::Regex>),
    Wildcard,
    Descendant,
    /// `%`: which slot.
    Parent(usize),
    Path(Vec<Node>),
    Binary {
        operator: Operator,
        left: Box<Node>,
        right: Box<Node>,
    },
    Negate(Box<Node>),
    Array(Vec<Node>),
    Object(Vec<(Node, Node)>),
    Block(Vec<Node>),
    Condition {
        condition: Box<Node>,
        then: Box<Node>,
        otherwise: Option<Box<Node>>,
    },
    /// `left ?: right` where left is not true, `left ?? right` where there is none.
    Default {
        left: Box<Node>,
        right: Box<Node>,
        coalesce: bool,
    },
    /// `tail`: the last thing a function does.
    Call {
        procedure: Box<Node>,
        arguments: Vec<Node>,
        tail: bool,
    },
    Partial {
        procedure: Box<Node>,
        arguments: Vec<Node>,
    },
    /// `?` among a partial application's arguments.
    Placeholder,
    Lambda {
        parameters: Arc<[Arc<str>]>,
        body: Arc<Node>,
        signature: Option<Arc<Signature>>,
    },
    Bind {
        name: Arc<str>,
        value: Box<Node>,
    },
    Apply {
        left: Box<Node>,
        right: Box<Node>,
    },
    Transform(Arc<Transform>),
    Sort(Vec<(Node, bool)>),
    /// An operator where a value stands: only `and`, `or`, `in` are names too.
    Word(Arc<str>),
}

#[derive(Debug, Clone)]
pub struct Transform {
    pub pattern: Node,
    pub update: Node,
    pub delete: Option<Node>,
}

#[derive(Debug, Clone)]
pub enum Stage {
    Filter(Node),
    Index(Arc<str>),
}

#[derive(Debug, Clone)]
pub struct Group {
    pub pairs: Vec<(Node, Node)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operator {
    Add,
    Subtract,
    Multiply,
    Divide,
    Modulo,
    Equal,
    NotEqual,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
    Concatenate,
    And,
    Or,
    In,
    Range,
    // Only until they are processed.
    Dot,
    Filter,
    Focus,
    Index,
}

impl Operator {
    pub fn text(self) -> &'static str {
        match self {
            Self::Add => "+",
            Self::Subtract => "-",
            Self::Multiply => "*",
            Self::Divide => "/",
            Self::Modulo => "%",
            Self::Equal => "=",
            Self::NotEqual => "!=",
            Self::Less => "<",
            Self::LessEqual => "<=",
            Self::Greater => ">",
            Self::GreaterEqual => ">=",
            Self::Concatenate => "&",
            Self::And => "and",
            Self::Or => "or",
            Self::In => "in",
            Self::Range => "..",
            Self::Dot => ".",
            Self::Filter => "[",
            Self::Focus => "@",
            Self::Index => "#",
        }
    }
}

impl Node {
    pub fn new(kind: Kind, position: usize) -> Self {
        Self {
            kind,
            position,
            predicate: Vec::new(),
            stages: Vec::new(),
            group: None,
            keep_array: false,
            keep_singleton: false,
            cons_array: false,
            tuple: false,
            focus: None,
            index: None,
            ancestor: None,
            seeking: Vec::new(),
        }
    }
}
