//! From a checked tree to what runs: names become places, constants are computed, patterns compiled.

use std::sync::Arc;

use indexmap::IndexMap;

use crate::ast::{Access, Comprehension, Expr, Kind, Literal, Loop};
use crate::check::{Checked, Reference};
use crate::cost::Charge;
use crate::library::{Overload, Site, conversions, patterns};
use crate::value::{Key, MadeMap, Map, Text, Value};

/// A step of a program.
#[derive(Debug)]
pub enum Node {
    Constant(Value<'static>),
    /// By its place among the variables of the program.
    Variable(usize),
    /// By its place among the variables of the macros around.
    Local(usize),
    Select {
        operand: Box<Node>,
        field: Box<str>,
        access: Access,
    },
    Index {
        operand: Box<Node>,
        index: Box<Node>,
        optional: bool,
    },
    Call(Box<Call>),
    And(Box<Node>, Box<Node>),
    Or(Box<Node>, Box<Node>),
    Conditional(Box<[Node; 3]>),
    /// `x in [1, 2, 3]`
    InConstants {
        value: Box<Node>,
        constants: Value<'static>,
    },
    List(Vec<(Node, bool)>),
    Map(Vec<(Node, Node, bool)>),
    Object {
        name: Arc<str>,
        fields: Vec<(Box<str>, Node, bool)>,
    },
    Each(Box<Each>),
    Bind {
        slot: usize,
        value: Box<Node>,
        body: Box<Node>,
    },
    /// `target.or(other)`, or with `unwraps` `target.orValue(other)`
    OptionalOr {
        target: Box<Node>,
        other: Box<Node>,
        unwraps: bool,
    },
    OptionalMap {
        target: Box<Node>,
        slot: usize,
        body: Box<Node>,
        flat: bool,
    },
}

#[derive(Debug)]
pub struct Call {
    pub function: Box<str>,
    pub overloads: Vec<&'static Overload>,
    pub args: Vec<Node>,
    pub site: Site,
    pub charge: Charge,
}

/// A loop; its variables are at `slot` and, if there are two, behind it.
#[derive(Debug)]
pub struct Each {
    pub kind: Loop,
    pub range: Node,
    pub slot: usize,
    pub two: bool,
    pub condition: Option<Node>,
    pub transform: Option<Node>,
}

/// The steps, and the variables they read.
pub fn plan(tree: &Expr, checked: &Checked) -> Result<(Node, Vec<String>), String> {
    let mut planner = Planner { checked, variables: Vec::new(), locals: Vec::new() };
    let node = planner.node(tree)?;
    Ok((node, planner.variables))
}

struct Planner<'c> {
    checked: &'c Checked,
    variables: Vec<String>,
    locals: Vec<String>,
}

impl Planner<'_> {
    fn node(&mut self, expr: &Expr) -> Result<Node, String> {
        match &self.checked.references[expr.id] {
            Reference::Variable(name) => return Ok(Node::Variable(self.variable(name))),
            Reference::Presence => return Ok(Node::Constant(Value::Bool(true))),
            Reference::TypeName(name) => return Ok(Node::Constant(Value::Type(Arc::from(name.as_str())))),
            Reference::None | Reference::Overloads { .. } => {}
        }
        Ok(match &expr.kind {
            Kind::Literal(literal) => Node::Constant(constant(literal)),
            Kind::Ident(name) => match self.locals.iter().rposition(|known| known == name) {
                Some(slot) => Node::Local(slot),
                None => return Err(format!("undeclared reference to '{name}' (in container '')")),
            },
            Kind::Select { operand, field, access } => {
                let operand = Box::new(self.node(operand)?);
                Node::Select { operand, field: field.as_str().into(), access: *access }
            }
            Kind::Call { function, target, args } => self.call(expr, function, target.as_deref(), args)?,
            Kind::List(elements) => {
                let nodes = elements.iter().map(|element| Ok((self.node(&element.value)?, element.optional)));
                folded_list(nodes.collect::<Result<_, String>>()?)
            }
            Kind::Map(entries) => {
                let nodes = entries
                    .iter()
                    .map(|entry| Ok((self.node(&entry.key)?, self.node(&entry.value)?, entry.optional)));
                folded_map(nodes.collect::<Result<_, String>>()?)
            }
            Kind::Object { name, fields } => {
                let fields = fields
                    .iter()
                    .map(|field| Ok((field.name.as_str().into(), self.node(&field.value)?, field.optional)));
                Node::Object { name: name.as_str().into(), fields: fields.collect::<Result<_, String>>()? }
            }
            Kind::Comprehension(each) => self.each(each)?,
            Kind::Bind { name, value, body } => {
                let value = Box::new(self.node(value)?);
                let (slot, body) = self.within(std::slice::from_ref(name), |planner| planner.node(body))?;
                Node::Bind { slot, value, body: Box::new(body) }
            }
            Kind::OptionalMap { target, name, body, flat } => {
                let target = Box::new(self.node(target)?);
                let (slot, body) = self.within(std::slice::from_ref(name), |planner| planner.node(body))?;
                Node::OptionalMap { target, slot, body: Box::new(body), flat: *flat }
            }
            Kind::Broken => return Err("the expression is not valid".to_owned()),
        })
    }

    fn variable(&mut self, name: &str) -> usize {
        match self.variables.iter().position(|known| known == name) {
            Some(place) => place,
            None => {
                self.variables.push(name.to_owned());
                self.variables.len() - 1
            }
        }
    }

    /// The place of the first of the names, and what was made with them in scope.
    fn within<T>(
        &mut self,
        names: &[String],
        make: impl FnOnce(&mut Self) -> Result<T, String>,
    ) -> Result<(usize, T), String> {
        let slot = self.locals.len();
        self.locals.extend_from_slice(names);
        let made = make(self);
        self.locals.truncate(slot);
        Ok((slot, made?))
    }

    fn each(&mut self, each: &Comprehension) -> Result<Node, String> {
        let range = self.node(&each.range)?;
        let names: Vec<String> = std::iter::once(&each.variable).chain(&each.second).cloned().collect();
        let (slot, (condition, transform)) = self.within(&names, |planner| {
            let condition = each.condition.as_ref().map(|condition| planner.node(condition)).transpose()?;
            let transform = each.transform.as_ref().map(|transform| planner.node(transform)).transpose()?;
            Ok((condition, transform))
        })?;
        let two = each.second.is_some();
        Ok(Node::Each(Box::new(Each { kind: each.kind, range, slot, two, condition, transform })))
    }

    fn call(
        &mut self,
        expr: &Expr,
        function: &str,
        target: Option<&Expr>,
        args: &[Expr],
    ) -> Result<Node, String> {
        let (overloads, namespaced) = match &self.checked.references[expr.id] {
            Reference::Overloads { fitting, namespaced } => (fitting.clone(), *namespaced),
            _ => return Err(format!("undeclared reference to '{function}' (in container '')")),
        };
        let function = overloads.first().map_or(function, |overload| overload.function.as_str());
        let receiver = target.filter(|_| !namespaced);
        let args = receiver.into_iter().chain(args).map(|argument| self.node(argument));
        let mut args: Vec<Node> = args.collect::<Result<_, _>>()?;
        match function {
            "_&&_" | "_||_" | "_[_]" | "_[?_]" | "_?_:_" | "@in" | "or" | "orValue" => {
                if let Some(node) = special(function, &overloads, &mut args) {
                    return Ok(node);
                }
            }
            _ => {}
        }
        let mut site = Site::default();
        if patterns::FUNCTIONS.contains(&function)
            && let Some(Node::Constant(Value::String(pattern))) = args.get(1)
        {
            site.regex = Some(patterns::compile(pattern)?);
        }
        if conversions::FOLDED.contains(&function)
            && let ([Node::Constant(value)], [overload]) = (args.as_slice(), overloads.as_slice())
        {
            let value =
                (overload.call)(&site, std::slice::from_ref(value)).map_err(|error| error.to_string())?;
            return Ok(Node::Constant(value));
        }
        let charge = Charge::of(function, &overloads);
        Ok(Node::Call(Box::new(Call { function: function.into(), overloads, args, site, charge })))
    }
}

/// The operators that are no calls when they run.
fn special(function: &str, overloads: &[&Overload], args: &mut Vec<Node>) -> Option<Node> {
    if function == "_?_:_" {
        let args = std::mem::take(args);
        return <[Node; 3]>::try_from(args).ok().map(|args| Node::Conditional(Box::new(args)));
    }
    if function == "@in" {
        let is_list = matches!(overloads, [one] if one.id == "in_list");
        if !is_list || !matches!(args.get(1), Some(Node::Constant(list)) if is_primitive_list(list)) {
            return None;
        }
    }
    let right = args.pop()?;
    let left = args.pop()?;
    Some(match (function, right) {
        ("_&&_", right) => Node::And(Box::new(left), Box::new(right)),
        ("_||_", right) => Node::Or(Box::new(left), Box::new(right)),
        ("or" | "orValue", other) => Node::OptionalOr {
            target: Box::new(left),
            other: Box::new(other),
            unwraps: function == "orValue",
        },
        ("@in", Node::Constant(constants)) if constants.size() == Some(0) => {
            Node::Constant(Value::Bool(false))
        }
        ("@in", Node::Constant(constants)) => Node::InConstants { value: Box::new(left), constants },
        (operator, right) => {
            let optional = operator == "_[?_]";
            Node::Index { operand: Box::new(left), index: Box::new(right), optional }
        }
    })
}

fn is_primitive_list(value: &Value) -> bool {
    let is_primitive = |value: Value| {
        matches!(value, Value::Bool(_) | Value::Int(_) | Value::Uint(_) | Value::Double(_) | Value::String(_))
    };
    matches!(value, Value::List(list) if list.iter().all(is_primitive))
}

fn constant(literal: &Literal) -> Value<'static> {
    match literal {
        Literal::Null => Value::Null,
        Literal::Bool(value) => Value::Bool(*value),
        Literal::Int(number) => Value::Int(*number),
        Literal::Uint(number) => Value::Uint(*number),
        Literal::Double(number) => Value::Double(*number),
        Literal::String(text) => Value::String(Text::Shared(text.as_str().into())),
        Literal::Bytes(bytes) => Value::Bytes(bytes.as_slice().into()),
    }
}

fn folded_list(nodes: Vec<(Node, bool)>) -> Node {
    let constants: Option<Vec<Value<'static>>> = nodes
        .iter()
        .map(|(node, optional)| match node {
            Node::Constant(value) if !optional => Some(value.clone()),
            _ => None,
        })
        .collect();
    constants.map_or(Node::List(nodes), |constants| Node::Constant(Value::list(constants)))
}

fn folded_map(nodes: Vec<(Node, Node, bool)>) -> Node {
    let mut entries = IndexMap::new();
    for (key, value, optional) in &nodes {
        let (Node::Constant(key), Node::Constant(value), false) = (key, value, optional) else {
            return Node::Map(nodes);
        };
        let Some(plain) = Key::of(key) else { return Node::Map(nodes) };
        if entries.insert(plain, (key.clone(), value.clone())).is_some() {
            return Node::Map(nodes);
        }
    }
    Node::Constant(Value::Map(Map::Made(Arc::new(MadeMap { entries, ..MadeMap::default() }))))
}
