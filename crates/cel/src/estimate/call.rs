//! What calls can cost, and how large their results can be.

use super::{Elements, Estimate, Estimator, ITEMS, VALUES};
use crate::ast::{Expr, Kind, Literal};
use crate::check::Reference;
use crate::cost::{AUTHORIZATION_CHECK, CREATE_LIST, CREATE_OBJECT, PER_CHARACTER, PER_PATTERN_CHARACTER};
use crate::types::Type;

const LONGEST_NAME_PATTERN: f64 = 128.0;
/// An address has four or sixteen bytes.
const ADDRESS: Estimate = Estimate::between(4, 16);
/// Functions of Kubernetes that take the same time whatever they are given.
const CONSTANT_COST: &[&str] = &[
    "serviceAccount",
    "path",
    "group",
    "resource",
    "subresource",
    "namespace",
    "name",
    "allowed",
    "reason",
    "error",
    "errored",
    "masked",
    "prefixLength",
    "family",
    "isUnspecified",
    "isLoopback",
    "isLinkLocalMulticast",
    "isLinkLocalUnicast",
    "isGlobalUnicast",
    "format.named",
    "sign",
    "asInteger",
    "isInteger",
    "asApproximateFloat",
    "isGreaterThan",
    "isLessThan",
    "compareTo",
    "add",
    "sub",
    "major",
    "minor",
    "patch",
    "getScheme",
    "getHostname",
    "getHost",
    "getPort",
    "getEscapedPath",
    "getQuery",
];

/// The cost, and the size of the result where it is known.
type Found = (Estimate, Option<Estimate>);

/// What is known about a receiver or an argument.
struct Operand<'e> {
    expr: &'e Expr,
    size: Option<Estimate>,
    path: Vec<String>,
    cost: Estimate,
}

impl Operand<'_> {
    fn size(&self) -> Estimate {
        self.size.unwrap_or(Estimate::UNKNOWN)
    }
}

impl Estimator<'_> {
    pub(super) fn call(
        &mut self,
        expr: &Expr,
        function: &str,
        target: Option<&Expr>,
        args: &[Expr],
    ) -> Estimate {
        if function == "dyn" && args.len() == 1 {
            let cost = self.cost(&args[0]);
            self.copy_sizes(expr, &args[0]);
            return cost.plus(Estimate::exactly(1));
        }
        let (overloads, namespaced) = match &self.checked.references[expr.id] {
            Reference::Overloads { fitting, namespaced } => (fitting.clone(), *namespaced),
            _ => return Estimate::exactly(0),
        };
        let function = overloads.first().map_or(function, |overload| overload.function.as_str());
        let args: Vec<Operand> = args.iter().map(|argument| self.operand(argument)).collect();
        let target = target.filter(|_| !namespaced).map(|target| self.operand(target));
        let mut cost = Estimate::between(u64::MAX, 0);
        let mut size: Option<Estimate> = None;
        for overload in overloads {
            let (found, result) = self.overload(expr, function, &overload.id, target.as_ref(), &args);
            cost = cost.or(found);
            size = match (size, result) {
                (Some(before), Some(result)) => Some(before.or(result)),
                (before, result) => result.or(before),
            };
            let step = match overload.id.as_str() {
                "index_list" => Some(ITEMS),
                "index_map" => Some(VALUES),
                _ => None,
            };
            if let (Some(step), Some(first)) = (step, args.first()) {
                size = self.elements_of(first.expr).map(|elements| elements.value);
                let path = first.path.iter().cloned().chain([step.to_owned()]).collect();
                self.paths.insert(expr.id, path);
            }
            size = size.or_else(|| self.size(expr));
        }
        if let Some(size) = size {
            self.sizes.insert(expr.id, size);
        }
        target.map_or(Estimate::exactly(0), |target| target.cost).plus(cost)
    }

    fn operand<'e>(&mut self, expr: &'e Expr) -> Operand<'e> {
        let cost = self.cost(expr);
        Operand { expr, size: self.size(expr), path: self.path(expr), cost }
    }

    fn overload(
        &mut self,
        expr: &Expr,
        function: &str,
        id: &str,
        target: Option<&Operand>,
        args: &[Operand],
    ) -> Found {
        let of_args = args.iter().fold(Estimate::exactly(0), |sum, argument| sum.plus(argument.cost));
        let found = of_list(id, target, args).or_else(|| self.library(function, id, target, args));
        if let Some((cost, size)) = found {
            return (cost.plus(of_args), size);
        }
        match (id, args) {
            ("logical_and" | "logical_or", [left, right]) => {
                (Estimate::between(left.cost.min, left.cost.plus(right.cost).max), None)
            }
            ("conditional", [condition, yes, no]) => {
                let elements = Elements::or(self.elements_of(yes.expr), self.elements_of(no.expr));
                self.note_elements(expr, elements);
                (condition.cost.plus(yes.cost.or(no.cost)), Some(yes.size().or(no.size())))
            }
            ("add_string" | "add_bytes" | "add_list", [left, right]) => {
                let size = left.size().plus(right.size());
                let elements = Elements::or(self.elements_of(left.expr), self.elements_of(right.expr));
                self.note_elements(expr, elements);
                let cost = if id == "add_list" { Estimate::exactly(1) } else { size.scaled(PER_CHARACTER) };
                (cost.plus(of_args), Some(size))
            }
            _ => {
                let (cost, size) = standard(id, target, args);
                (cost.plus(of_args), size)
            }
        }
    }

    fn note_elements(&mut self, expr: &Expr, elements: Option<Elements>) {
        if let Some(elements) = elements {
            self.elements.insert(expr.id, elements);
        }
    }

    /// The functions of Kubernetes.
    fn library(&self, function: &str, id: &str, target: Option<&Operand>, args: &[Operand]) -> Option<Found> {
        let first = args.first();
        let nominal = Some((Estimate::exactly(1), None));
        match function {
            "check" => Some((Estimate::exactly(AUTHORIZATION_CHECK), None)),
            known if CONSTANT_COST.contains(&known) => nominal,
            "fieldSelector" | "labelSelector" => first.map(|argument| (selector(argument.size()), None)),
            "isSorted" | "sum" | "max" | "min" | "indexOf" | "lastIndexOf" | "includes" => {
                target.map(|target| (self.traversal(function, target), None))
            }
            "url" | "jsonpatch.escapeKey" => first.map(|argument| scan(argument.size(), 1.0, true)),
            "lowerAscii" | "upperAscii" | "substring" | "trim" => {
                target.map(|target| scan(target.size(), 1.0, true))
            }
            "replace" => match args {
                [from, to, ..] => target.map(|target| replacement(target.size(), from.size(), to.size())),
                _ => None,
            },
            "split" => target.map(|target| split(target.size(), args)),
            "join" => target.map(|target| self.join(target, first)),
            "find" | "findAll" => match (target, first) {
                (Some(target), Some(pattern)) => {
                    let size = Estimate::between(0, target.size().max);
                    Some((matching(target.size(), pattern.size()), Some(size)))
                }
                _ => None,
            },
            "ip" if id == "cidr_ip" => nominal,
            "cidr" | "isIP" | "isCIDR" | "ip" | "quantity" | "isQuantity" | "semver" | "isSemver" => {
                first.map(|argument| scan(argument.size(), 1.0, false))
            }
            "ip.isCanonical" => first.map(|argument| scan(argument.size(), 2.0, false)),
            "containsIP" | "containsCIDR" => first.map(|argument| (network(id, argument.size()), None)),
            "validate" => first.map(|argument| {
                let text = argument.size().scaled(PER_CHARACTER);
                (text.scaled(LONGEST_NAME_PATTERN * PER_PATTERN_CHARACTER), None)
            }),
            "_==_" => match (args, args.first().map(|left| self.checked.ty(left.expr))) {
                ([left, right], Some(Type::Opaque(name)))
                    if self.checked.ty(left.expr) == self.checked.ty(right.expr) =>
                {
                    let most = if *name == "kubernetes.NamedFormat" { 7 } else { 1 };
                    Some((Estimate::between(1, most), None))
                }
                _ => None,
            },
            _ => None,
        }
    }

    /// Each element once, and the characters of those that have some.
    fn traversal(&self, function: &str, target: &Operand) -> Estimate {
        match self.checked.ty(target.expr) {
            Type::List(of) => {
                let mut element = Estimate::exactly(1);
                if matches!(**of, Type::String | Type::Bytes) {
                    element = element.plus(self.element_size(target).scaled(PER_CHARACTER));
                }
                target.size().times(element)
            }
            _ if function == "includes" => target.size(),
            _ => target.size().scaled(PER_CHARACTER),
        }
    }

    fn element_size(&self, list: &Operand) -> Estimate {
        if list.path.is_empty() {
            return Estimate::UNKNOWN;
        }
        let path: Vec<String> = list.path.iter().cloned().chain([ITEMS.to_owned()]).collect();
        self.size_at(&path).unwrap_or(Estimate::UNKNOWN)
    }

    fn join(&self, list: &Operand, between: Option<&Operand>) -> Found {
        let mut size = list.size().times(self.element_size(list));
        if let Some(between) = between {
            let length = list.size();
            let gaps = Estimate::between(length.min.saturating_sub(1), length.max.saturating_sub(1));
            size = size.plus(between.size().times(gaps));
        }
        scan(size, 1.0, true)
    }
}

fn scan(size: Estimate, factor: f64, keeps_size: bool) -> Found {
    (size.scaled(factor * PER_CHARACTER), keeps_size.then_some(size))
}

fn matching(text: Estimate, pattern: Estimate) -> Estimate {
    text.plus(Estimate::exactly(1)).scaled(PER_CHARACTER).times(pattern.scaled(PER_PATTERN_CHARACTER))
}

fn selector(size: Estimate) -> Estimate {
    let requirements = size.scaled(0.5).scaled((CREATE_LIST + CREATE_OBJECT) as f64);
    Estimate::exactly(CREATE_LIST).plus(size.scaled(PER_CHARACTER)).plus(requirements)
}

fn network(id: &str, argument: Estimate) -> Estimate {
    let mut cost = ADDRESS.plus(ADDRESS).scaled(PER_CHARACTER);
    if id.starts_with("cidr_contains_cidr") {
        cost = cost.plus(ADDRESS.scaled(PER_CHARACTER)).plus(Estimate::exactly(1));
    }
    if id.ends_with("_string") { cost.plus(argument.scaled(PER_CHARACTER)) } else { cost }
}

fn split(text: Estimate, args: &[Operand]) -> Found {
    let limit = match args.get(1).map(|limit| &limit.expr.kind) {
        Some(Kind::Literal(Literal::Int(limit))) => *limit as u64,
        _ => text.max,
    };
    (text.scaled(2.0 * PER_CHARACTER), Some(Estimate::between(0, limit)))
}

/// The longest result replaces the shortest parts by the longest text, as often as they fit; the shortest likewise.
fn replacement(text: Estimate, from: Estimate, to: Estimate) -> Found {
    let fits = |text: u64, part: u64| (text as f64 / part as f64).ceil() as u64;
    let (most, kept_at_most) = if from.min == 0 {
        (text.max.saturating_add(1), text.max)
    } else if to.max <= from.min {
        (0, text.max)
    } else {
        (fits(text.max, from.min), 0)
    };
    let (least, kept_at_least) = if from.max == 0 {
        (text.min.saturating_add(1), text.min)
    } else if from.max <= to.min {
        (0, text.min)
    } else {
        (fits(text.min, from.max), 0)
    };
    let size = Estimate::between(least, most).times(to).plus(Estimate::between(kept_at_least, kept_at_most));
    (text.scaled(2.0 * PER_CHARACTER), Some(size))
}

/// The functions of the lists and sets extensions.
fn of_list(id: &str, target: Option<&Operand>, args: &[Operand]) -> Option<Found> {
    let made = |size: Estimate, factor: f64| {
        (size.scaled(factor).plus(Estimate::exactly(CREATE_LIST + 1)), Some(size))
    };
    let constant = |index: usize, otherwise: u64| match args.get(index).map(|argument| &argument.expr.kind) {
        Some(Kind::Literal(Literal::Int(number))) => u64::try_from(*number).unwrap_or(0),
        _ => otherwise,
    };
    let list = target.map(Operand::size);
    Some(match id {
        "list_slice" => {
            let end = constant(1, list?.max);
            made(Estimate::exactly(end.saturating_sub(constant(0, 0))), 1.0)
        }
        "list_flatten" => made(list?, 1.0),
        "list_flatten_int" => made(list?, constant(0, u64::MAX) as f64),
        "lists_range" => made(Estimate::exactly(constant(0, u64::MAX)), 1.0),
        "list_reverse" => made(list?, 1.0),
        "list_distinct" => made(list?.times(list?), 2.0),
        "list_string_sort" | "list_bytes_sort" => made(list?.times(list?), 2.1),
        sort if sort.starts_with("list_") && sort.ends_with("_sort") => made(list?.times(list?), 2.0),
        "list_sets_contains_list" | "list_sets_intersects_list" | "list_sets_equivalent_list" => {
            let factor = if id == "list_sets_equivalent_list" { 2.0 } else { 1.0 };
            let pairs = args.first()?.size().times(args.get(1)?.size());
            (pairs.scaled(factor).plus(Estimate::exactly(1)), None)
        }
        _ => return None,
    })
}

/// The functions of the language.
fn standard(id: &str, target: Option<&Operand>, args: &[Operand]) -> Found {
    let first = args.first().map_or(Estimate::UNKNOWN, Operand::size);
    let second = args.get(1).map_or(Estimate::UNKNOWN, Operand::size);
    let receiver = target.map_or(Estimate::UNKNOWN, Operand::size);
    match id {
        "string_format" => (receiver.scaled(PER_CHARACTER), None),
        "string_to_bytes" => {
            let size = Estimate::between(first.min, first.max.saturating_mul(4));
            (first.scaled(PER_CHARACTER), Some(size))
        }
        "bytes_to_string" => (first.scaled(PER_CHARACTER), Some(Estimate::between(first.min / 4, first.max))),
        "strings_quote" => {
            let size = Estimate::between(first.min + 2, first.max.saturating_mul(2).saturating_add(2));
            (first.scaled(PER_CHARACTER), Some(size))
        }
        "starts_with_string" | "ends_with_string" => (first.scaled(PER_CHARACTER), None),
        "in_list" => (second, None),
        "matches_string" => (matching(receiver, first), None),
        "contains_string" => (receiver.scaled(PER_CHARACTER).times(first.scaled(PER_CHARACTER)), None),
        "equals"
        | "not_equals"
        | "less_string"
        | "less_equals_string"
        | "greater_string"
        | "greater_equals_string"
        | "less_bytes"
        | "less_equals_bytes"
        | "greater_bytes"
        | "greater_equals_bytes" => {
            let most = first.max.min(second.max);
            (Estimate::between(u64::from(most > 0), most).scaled(PER_CHARACTER), None)
        }
        _ => (Estimate::exactly(1), None),
    }
}
