//! What an expression can cost at most, before it runs: from the sizes that schemas allow.
//!
//! The steps follow upstream's, so that a CustomResourceDefinition is accepted here if it is there, and by the same
//! factor too expensive if it is not.

mod call;
mod range;

use std::collections::HashMap;

use crate::ast::{Access, Comprehension, Expr, Kind, Literal, Loop};
use crate::check::{Checked, Reference};
use crate::cost::{CREATE_LIST, CREATE_MAP, CREATE_OBJECT};
use crate::declaration::Declaration;
use crate::environment::Environment;
use crate::program::Program;
use crate::types::Type;

pub use range::Estimate;

impl Program {
    /// What an evaluation costs at least and at most. The environment must be the one it was compiled in.
    pub fn estimate(&self, environment: &Environment) -> Estimate {
        let mut estimator = Estimator {
            checked: &self.checked,
            environment,
            paths: HashMap::new(),
            sizes: HashMap::new(),
            elements: HashMap::new(),
            locals: Vec::new(),
        };
        estimator.cost(&self.tree)
    }
}

const ITEMS: &str = "@items";
const KEYS: &str = "@keys";
const VALUES: &str = "@values";
const INDICES: &str = "@indices";

struct Estimator<'c> {
    checked: &'c Checked,
    environment: &'c Environment,
    /// The way from a variable to what a node stands for, by the node's id.
    paths: HashMap<usize, Vec<String>>,
    sizes: HashMap<usize, Estimate>,
    /// The sizes of keys and elements of a list or a map.
    elements: HashMap<usize, Elements>,
    locals: Vec<Local>,
}

#[derive(Clone, Copy)]
struct Elements {
    is_list: bool,
    key: Estimate,
    value: Estimate,
}

impl Elements {
    fn or(one: Option<Elements>, two: Option<Elements>) -> Option<Elements> {
        let (one, two) = (one?, two?);
        Some(Elements { is_list: one.is_list, key: one.key.or(two.key), value: one.value.or(two.value) })
    }
}

struct Local {
    name: String,
    path: Vec<String>,
    size: Option<Estimate>,
    elements: Option<Elements>,
}

impl Estimator<'_> {
    fn cost(&mut self, expr: &Expr) -> Estimate {
        if let Reference::Variable(name) | Reference::TypeName(name) = &self.checked.references[expr.id] {
            self.paths.insert(expr.id, vec![name.clone()]);
            return Estimate::exactly(1);
        }
        match &expr.kind {
            Kind::Literal(_) | Kind::Broken => Estimate::exactly(0),
            Kind::Ident(name) => {
                let path = self.local(name).map_or_else(|| vec![name.clone()], |local| local.path.clone());
                self.paths.insert(expr.id, path);
                Estimate::exactly(1)
            }
            Kind::Select { operand, field, access } => self.select(expr, operand, field, *access),
            Kind::Call { function, target, args } => self.call(expr, function, target.as_deref(), args),
            Kind::List(elements) => {
                let mut size = Estimate::between(if elements.is_empty() { 0 } else { u64::MAX }, 0);
                let mut sum = Estimate::exactly(CREATE_LIST);
                for element in elements {
                    sum = sum.plus(self.cost(&element.value));
                    size = size.or(self.size_or_unknown(&element.value));
                }
                self.elements
                    .insert(expr.id, Elements { is_list: true, key: Estimate::exactly(1), value: size });
                sum
            }
            Kind::Map(entries) => {
                let none = Estimate::between(if entries.is_empty() { 0 } else { u64::MAX }, 0);
                let (mut key, mut value) = (none, none);
                let mut sum = Estimate::exactly(CREATE_MAP);
                for entry in entries {
                    sum = sum.plus(self.cost(&entry.key)).plus(self.cost(&entry.value));
                    key = key.or(self.size_or_unknown(&entry.key));
                    value = value.or(self.size_or_unknown(&entry.value));
                }
                self.elements.insert(expr.id, Elements { is_list: false, key, value });
                sum
            }
            Kind::Object { fields, .. } => fields
                .iter()
                .fold(Estimate::exactly(CREATE_OBJECT), |sum, field| sum.plus(self.cost(&field.value))),
            Kind::Comprehension(each) => self.comprehension(expr, each),
            Kind::Bind { name, value, body } => {
                let sum = Estimate::exactly(CREATE_LIST).plus(self.cost(value));
                self.push(name, value);
                let sum = sum.plus(self.cost(body));
                self.locals.pop();
                self.copy_sizes(expr, body);
                sum
            }
            Kind::OptionalMap { target, name, body, flat } => {
                let target_cost = self.cost(target);
                self.locals.push(Local { name: name.clone(), path: Vec::new(), size: None, elements: None });
                let body = self.cost(body);
                self.locals.pop();
                let wrapped = Estimate::exactly(CREATE_LIST + 1 + u64::from(!flat));
                let value = target_cost.plus(body).plus(wrapped);
                target_cost.plus(Estimate::exactly(1)).plus(value.or(Estimate::exactly(1)))
            }
        }
    }

    fn local(&self, name: &str) -> Option<&Local> {
        self.locals.iter().rev().find(|local| local.name == name)
    }

    fn select(&mut self, expr: &Expr, operand: &Expr, field: &str, access: Access) -> Estimate {
        let sum = self.cost(operand);
        if access == Access::Presence {
            return sum;
        }
        let mut path = self.path(operand);
        path.push(field.to_owned());
        if access == Access::Optional {
            return sum.plus(Estimate::exactly(1));
        }
        self.paths.insert(expr.id, path);
        match self.checked.ty(operand) {
            Type::Map(_) | Type::Object(_) => sum.plus(Estimate::exactly(1)),
            _ => sum,
        }
    }

    /// The variable `name` for what an expression yields.
    fn push(&mut self, name: &str, value: &Expr) {
        let (path, size, elements) = (self.path(value), self.size(value), self.elements_of(value));
        self.locals.push(Local { name: name.to_owned(), path, size, elements });
    }

    fn push_element(&mut self, name: &str, range: &Expr, is_key: bool, alone: bool) {
        let elements = self.elements_of(range);
        let is_list = match elements {
            Some(elements) => elements.is_list,
            None => matches!(self.checked.ty(range), Type::List(_)),
        };
        let (step, size) = match (is_key, is_list) {
            (true, true) if alone => (ITEMS, elements.map(|elements| elements.value)),
            (true, true) => (INDICES, elements.map(|elements| elements.key)),
            (true, false) => (KEYS, elements.map(|elements| elements.key)),
            (false, true) => (ITEMS, elements.map(|elements| elements.value)),
            (false, false) => (VALUES, elements.map(|elements| elements.value)),
        };
        let mut path = self.path(range);
        path.push(step.to_owned());
        self.locals.push(Local { name: name.to_owned(), path, size, elements: None });
    }

    fn comprehension(&mut self, expr: &Expr, each: &Comprehension) -> Estimate {
        let before = self.locals.len();
        let mut sum = self.cost(&each.range);
        self.push_element(&each.variable, &each.range, true, each.second.is_none());
        if let Some(second) = &each.second {
            self.push_element(second, &each.range, false, false);
        }
        let condition = each.condition.as_ref().map(|condition| self.cost(condition));
        let transform =
            each.transform.as_ref().map(|transform| (self.cost(transform), self.size_or_unknown(transform)));
        let variable = self.locals.get(before).and_then(|local| local.size);
        let variable = variable.or_else(|| self.size_at(&self.locals.get(before)?.path));
        self.locals.truncate(before);
        let rounds = self.size_or_unknown(&each.range);
        let (start, round, result) = expansion(each.kind, condition, transform.map(|(cost, _)| cost));
        sum = sum.plus(start).plus(result).plus(rounds.times(round));
        if matches!(each.kind, Loop::All | Loop::Exists | Loop::ExistsOne) {
            self.sizes.insert(expr.id, Estimate::exactly(1));
            return sum;
        }
        self.sizes.insert(expr.id, rounds);
        let is_list = !matches!(each.kind, Loop::TransformMap | Loop::TransformMapEntry);
        let size = transform.map(|(_, size)| size).or(variable).unwrap_or(Estimate::UNKNOWN);
        if is_list && each.kind != Loop::SortBy {
            let value = Estimate::between(0, size.max);
            self.elements.insert(expr.id, Elements { is_list, key: Estimate::exactly(1), value });
        }
        if each.kind == Loop::SortBy {
            let compared = rounds.times(rounds).scaled(2.1).plus(Estimate::exactly(CREATE_LIST + 1));
            sum = sum.plus(compared).plus(Estimate::exactly(CREATE_LIST + 2));
        }
        sum
    }

    fn path(&self, expr: &Expr) -> Vec<String> {
        if let Kind::Ident(name) = &expr.kind
            && let Some(local) = self.local(name)
        {
            return local.path.clone();
        }
        self.paths.get(&expr.id).cloned().unwrap_or_default()
    }

    fn size_or_unknown(&self, expr: &Expr) -> Estimate {
        self.size(expr).unwrap_or(Estimate::UNKNOWN)
    }

    fn size(&self, expr: &Expr) -> Option<Estimate> {
        if let Some(known) = self.sizes.get(&expr.id) {
            return Some(*known);
        }
        if let Some(size) = size_of_literal(expr) {
            return Some(Estimate::exactly(size));
        }
        if let Some(size) = self.size_at(&self.path(expr)) {
            return Some(size);
        }
        if is_scalar(self.checked.ty(expr)) {
            return Some(Estimate::exactly(1));
        }
        match &expr.kind {
            Kind::Ident(name) => self.local(name)?.size,
            _ => None,
        }
    }

    /// What the schema says about the place.
    fn size_at(&self, path: &[String]) -> Option<Estimate> {
        let (variable, steps) = path.split_first()?;
        // What comes from no variable is measured as if it came from `self`, as upstream does.
        let declared = self.environment.declaration(variable);
        let mut declaration: &Declaration = declared.or_else(|| self.environment.declaration("self"))?;
        let mut at_key = false;
        for step in steps {
            if at_key {
                return None;
            }
            match step.as_str() {
                ITEMS | VALUES => declaration = declaration.element.as_deref()?,
                KEYS if matches!(declaration.ty, Type::Map(_)) => at_key = true,
                KEYS => return None,
                name => declaration = &declaration.field(name)?.declaration,
            }
        }
        Some(Estimate::between(0, if at_key { 0 } else { declaration.max_elements }))
    }

    fn elements_of(&self, expr: &Expr) -> Option<Elements> {
        if let Some(known) = self.elements.get(&expr.id) {
            return Some(*known);
        }
        match &expr.kind {
            Kind::Ident(name) => self.local(name)?.elements,
            _ => None,
        }
    }

    fn copy_sizes(&mut self, to: &Expr, from: &Expr) {
        if let Some(size) = self.size(from) {
            self.sizes.insert(to.id, size);
        }
        if let Some(elements) = self.elements_of(from) {
            self.elements.insert(to.id, elements);
        }
    }
}

/// The costs of the beginning, each round and the result of what upstream expands a macro to.
fn expansion(
    kind: Loop,
    condition: Option<Estimate>,
    transform: Option<Estimate>,
) -> (Estimate, Estimate, Estimate) {
    let one = Estimate::exactly(1);
    let condition_cost = condition.unwrap_or_default();
    let transform = transform.unwrap_or(one);
    let filtered = |step: Estimate| match condition {
        Some(condition) => condition.plus(step.or(one)),
        None => step,
    };
    match kind {
        Loop::All => {
            (Estimate::exactly(0), Estimate::between(3, 3 + condition_cost.max.min(u64::MAX - 3)), one)
        }
        Loop::Exists => {
            (Estimate::exactly(0), Estimate::between(4, 4 + condition_cost.max.min(u64::MAX - 4)), one)
        }
        Loop::ExistsOne => {
            (Estimate::exactly(0), condition_cost.plus(Estimate::between(1, 2)), Estimate::exactly(2))
        }
        Loop::Map | Loop::Filter | Loop::SortBy => {
            let step = transform.plus(Estimate::exactly(CREATE_LIST + 2));
            (Estimate::exactly(CREATE_LIST), filtered(step), one)
        }
        Loop::TransformMap => {
            (Estimate::exactly(CREATE_MAP), filtered(transform.plus(Estimate::exactly(3))), one)
        }
        Loop::TransformMapEntry => {
            (Estimate::exactly(CREATE_MAP), filtered(transform.plus(Estimate::exactly(2))), one)
        }
    }
}

fn size_of_literal(expr: &Expr) -> Option<u64> {
    Some(match &expr.kind {
        Kind::Literal(Literal::String(text)) => text.chars().count() as u64,
        Kind::Literal(Literal::Bytes(bytes)) => bytes.len() as u64,
        Kind::Literal(_) => 1,
        Kind::List(elements) => elements.len() as u64,
        Kind::Map(entries) => entries.len() as u64,
        _ => return None,
    })
}

fn is_scalar(ty: &Type) -> bool {
    match ty {
        Type::Bool | Type::Double | Type::Duration | Type::Int | Type::Timestamp | Type::Uint => true,
        Type::Optional(of) => is_scalar(of),
        _ => false,
    }
}
