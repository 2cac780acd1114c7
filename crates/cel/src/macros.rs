//! The macros: calls whose arguments are expressions to run, not values.

use crate::ast::{Access, Comprehension, Expr, Kind, Loop};
use crate::parse::{Parsed, Parser};

/// `function(args)`: `has` is a macro, anything else a call.
pub fn global(parser: &mut Parser, at: u32, function: String, mut args: Vec<Expr>) -> Parsed<Expr> {
    if function != "has" || args.len() != 1 {
        return parser.call(at, &function, args);
    }
    match args.pop().map(|argument| argument.kind) {
        Some(Kind::Select { operand, field, access: Access::Value }) => {
            parser.node(at, Kind::Select { operand, field, access: Access::Presence })
        }
        _ => {
            parser.fault(at, "invalid argument to has() macro");
            parser.node(at, Kind::Broken)
        }
    }
}

/// `target.function(args)`
pub fn member(
    parser: &mut Parser,
    at: u32,
    function: String,
    target: Expr,
    mut args: Vec<Expr>,
) -> Parsed<Expr> {
    let is_cel = matches!(&target.kind, Kind::Ident(name) if name == "cel");
    if is_cel && function == "bind" && args.len() == 3 {
        return bind(parser, at, args);
    }
    if matches!(function.as_str(), "optMap" | "optFlatMap") && args.len() == 2 {
        let Some(body) = args.pop() else { return parser.node(at, Kind::Broken) };
        let name = args.pop().and_then(|argument| simple_name(&argument));
        let Some(name) = name else {
            parser.fault(at, format!("{function}() variable name must be a simple identifier"));
            return parser.node(at, Kind::Broken);
        };
        let flat = function == "optFlatMap";
        let (target, body) = (Box::new(target), Box::new(body));
        return parser.node(at, Kind::OptionalMap { target, name, body, flat });
    }
    let Some(shape) = shape(&function, args.len()) else {
        let target = Some(Box::new(target));
        return parser.node(at, Kind::Call { function, target, args });
    };
    comprehension(parser, at, &shape, target, args)
}

fn bind(parser: &mut Parser, at: u32, args: Vec<Expr>) -> Parsed<Expr> {
    let [name, value, body] = <[Expr; 3]>::try_from(args).map_err(|_| crate::parse::Stopped)?;
    match simple_name(&name) {
        Some(name) => parser.node(at, Kind::Bind { name, value: Box::new(value), body: Box::new(body) }),
        None => {
            parser.fault(name.at, "cel.bind() variable names must be simple identifiers");
            parser.node(at, Kind::Broken)
        }
    }
}

/// What the arguments of a macro are.
struct Shape {
    kind: Loop,
    variables: usize,
    has_condition: bool,
    has_transform: bool,
}

fn shape(function: &str, args: usize) -> Option<Shape> {
    let shape = |kind, variables, has_condition, has_transform| Shape {
        kind,
        variables,
        has_condition,
        has_transform,
    };
    Some(match (function, args) {
        ("all", 2 | 3) => shape(Loop::All, args - 1, true, false),
        ("exists", 2 | 3) => shape(Loop::Exists, args - 1, true, false),
        ("exists_one", 2) | ("existsOne", 2 | 3) => shape(Loop::ExistsOne, args - 1, true, false),
        ("map", 2 | 3) => shape(Loop::Map, 1, args == 3, true),
        ("filter", 2) => shape(Loop::Filter, 1, true, false),
        ("transformList", 3 | 4) => shape(Loop::Map, 2, args == 4, true),
        ("transformMap", 3 | 4) => shape(Loop::TransformMap, 2, args == 4, true),
        ("transformMapEntry", 3 | 4) => shape(Loop::TransformMapEntry, 2, args == 4, true),
        ("sortBy", 2) => shape(Loop::SortBy, 1, false, true),
        _ => return None,
    })
}

fn comprehension(parser: &mut Parser, at: u32, shape: &Shape, range: Expr, args: Vec<Expr>) -> Parsed<Expr> {
    let mut args = args.into_iter();
    let mut names = Vec::new();
    for argument in args.by_ref().take(shape.variables) {
        match simple_name(&argument) {
            Some(name) if names.contains(&name) => {
                parser.fault(argument.at, format!("duplicate variable name: {name}"));
            }
            Some(name) => {
                names.push(name);
                continue;
            }
            None => parser.fault(argument.at, "argument must be a simple name"),
        }
        return parser.node(at, Kind::Broken);
    }
    let condition = if shape.has_condition { args.next() } else { None };
    let transform = if shape.has_transform { args.next() } else { None };
    let mut names = names.into_iter();
    let (variable, second) = (names.next().unwrap_or_default(), names.next());
    let each = Comprehension { kind: shape.kind, range, variable, second, condition, transform };
    parser.node(at, Kind::Comprehension(Box::new(each)))
}

fn simple_name(expr: &Expr) -> Option<String> {
    match &expr.kind {
        Kind::Ident(name) if !name.starts_with('.') => Some(name.clone()),
        _ => None,
    }
}
