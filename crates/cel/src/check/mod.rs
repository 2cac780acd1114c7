//! The type checker: gives every node a type and every call its overloads, or says what does not fit.

mod call;
mod comprehension;

use std::collections::HashMap;
use std::sync::Arc;

use crate::ast::{Access, Element, Entry, Expr, Field, Kind, Literal};
use crate::environment::Environment;
use crate::library::Overload;
use crate::parse::qualified_name;
use crate::source::Faults;
use crate::types::{ObjectType, Type};
use crate::unify::{Bindings, most_general};

/// What checking found out, by the ids of the nodes.
#[derive(Debug)]
pub struct Checked {
    pub types: Vec<Type>,
    pub references: Vec<Reference>,
}

/// What a node refers to.
#[derive(Debug, Clone, Default)]
pub enum Reference {
    #[default]
    None,
    /// A variable of the environment, also for `a.b` if that is one name.
    Variable(String),
    /// `has(a.b)` where `a.b` is one name: it always is there.
    Presence,
    /// The name of a type, used as a value.
    TypeName(String),
    /// The overloads that fit; `namespaced` if the receiver is a part of the name.
    Overloads { fitting: Vec<&'static Overload>, namespaced: bool },
}

impl Checked {
    pub fn ty(&self, expr: &Expr) -> &Type {
        &self.types[expr.id]
    }
}

/// Checks a tree of `count` nodes.
pub fn check(environment: &Environment, tree: &Expr, count: usize, faults: &mut Faults) -> Checked {
    let types = vec![Type::Error; count];
    let references = vec![Reference::None; count];
    let bindings = Bindings::default();
    let (locals, mixed) = (Vec::new(), false);
    let mut checker = Checker { environment, locals, types, references, bindings, mixed, faults };
    checker.check(tree);
    let Checker { types, references, bindings, .. } = checker;
    Checked { types: types.iter().map(|ty| bindings.finish(ty)).collect(), references }
}

struct Checker<'c, 't> {
    environment: &'c Environment,
    /// The variables of the macros around, the innermost last.
    locals: Vec<(String, Type)>,
    types: Vec<Type>,
    references: Vec<Reference>,
    bindings: Bindings,
    /// Elements may be of different types here: in the arguments of `format`.
    mixed: bool,
    faults: &'c mut Faults<'t>,
}

impl Checker<'_, '_> {
    /// The type of the node, which is noted as well.
    fn check(&mut self, expr: &Expr) -> Type {
        let ty = match &expr.kind {
            Kind::Literal(literal) => type_of_literal(literal),
            Kind::Ident(name) => self.ident(expr, name),
            Kind::Select { operand, field, access } => self.select(expr, operand, field, *access),
            Kind::Call { function, target, args } => self.call(expr, function, target.as_deref(), args),
            Kind::List(elements) => self.list(elements),
            Kind::Map(entries) => self.map(entries),
            Kind::Object { name, fields } => self.object(expr, name, fields),
            Kind::Comprehension(each) => self.comprehension(each),
            Kind::Bind { name, value, body } => {
                let value = self.check(value);
                self.scoped(vec![(name.clone(), value)], |checker| checker.check(body))
            }
            Kind::OptionalMap { target, name, body, flat } => self.optional_map(target, name, body, *flat),
            Kind::Broken => Type::Error,
        };
        self.types[expr.id] = ty.clone();
        ty
    }

    fn scoped<T>(&mut self, variables: Vec<(String, Type)>, inner: impl FnOnce(&mut Self) -> T) -> T {
        let before = self.locals.len();
        self.locals.extend(variables);
        let found = inner(self);
        self.locals.truncate(before);
        found
    }

    fn undeclared(&mut self, at: u32, name: &str) -> Type {
        self.faults.add(at, format!("undeclared reference to '{name}' (in container '')"));
        Type::Error
    }

    fn mismatch(&mut self, at: u32, expected: &Type, found: &Type) {
        let (expected, found) = (self.bindings.resolve(expected), self.bindings.resolve(found));
        self.faults.add(at, format!("expected type '{expected}' but found '{found}'"));
    }

    fn expect(&mut self, expr: &Expr, expected: &Type, found: &Type) {
        if !self.bindings.assign(expected, found) {
            self.mismatch(expr.at, expected, found);
        }
    }

    fn ident(&mut self, expr: &Expr, name: &str) -> Type {
        if let Some((_, ty)) = self.locals.iter().rev().find(|(known, _)| known == name) {
            return ty.clone();
        }
        match self.global(expr.id, name) {
            Some(ty) => ty,
            None => self.undeclared(expr.at, name),
        }
    }

    /// The type of a variable of the environment or of a type's name, which becomes the node's reference.
    fn global(&mut self, id: usize, name: &str) -> Option<Type> {
        let name = name.strip_prefix('.').unwrap_or(name);
        if let Some(declaration) = self.environment.declaration(name) {
            self.references[id] = Reference::Variable(name.to_owned());
            return Some(declaration.ty.clone());
        }
        let ty = Type::named(name)?;
        self.references[id] = Reference::TypeName(name.to_owned());
        Some(Type::of_type(ty))
    }

    fn select(&mut self, expr: &Expr, operand: &Expr, field: &str, access: Access) -> Type {
        if access == Access::Value
            && let Some(name) = qualified_name(expr)
            && !self.is_local(name.split('.').next().unwrap_or_default())
            && let Some(ty) = self.global(expr.id, &name)
        {
            return ty;
        }
        let operand_type = self.check(operand);
        let operand_type = self.bindings.resolve(&operand_type);
        let (target, was_optional) = match &operand_type {
            Type::Optional(of) => ((**of).clone(), true),
            other => (other.clone(), false),
        };
        if access == Access::Presence && self.is_declared(operand, &target, field) {
            self.references[expr.id] = Reference::Presence;
            return Type::Bool;
        }
        let found = self.field_type(expr, &target, field);
        match access {
            Access::Presence => Type::Bool,
            Access::Optional => Type::optional(found),
            Access::Value if was_optional => Type::optional(found),
            Access::Value => found,
        }
    }

    fn field_type(&mut self, expr: &Expr, target: &Type, field: &str) -> Type {
        match target {
            Type::Map(of) => of.1.clone(),
            Type::Object(object) => match object.fields.get(field) {
                Some(found) => found.declaration.ty.clone(),
                None => {
                    self.faults.add(expr.at, format!("undefined field '{field}'"));
                    Type::Error
                }
            },
            Type::Variable(_) => {
                self.bindings.assign(&Type::Dyn, target);
                Type::Dyn
            }
            Type::Dyn | Type::Error => Type::Dyn,
            other => {
                self.faults.add(expr.at, format!("type '{other}' does not support field selection"));
                Type::Dyn
            }
        }
    }

    /// Whether the field is a variable of its own, as those of `variables` are.
    fn is_declared(&self, operand: &Expr, ty: &Type, field: &str) -> bool {
        let name = qualified_name(operand).filter(|_| matches!(ty, Type::Object(_)));
        name.is_some_and(|name| {
            let is_local = self.is_local(name.split('.').next().unwrap_or_default());
            !is_local && self.environment.declaration(&format!("{name}.{field}")).is_some()
        })
    }

    fn is_local(&self, name: &str) -> bool {
        self.locals.iter().any(|(known, _)| known == name)
    }

    fn list(&mut self, elements: &[Element]) -> Type {
        let mut joined = None;
        for element in elements {
            let ty = self.check(&element.value);
            let ty = if element.optional { self.unwrapped(&element.value, ty) } else { ty };
            joined = Some(self.join(&element.value, joined, ty));
        }
        Type::list(joined.unwrap_or_else(|| self.bindings.fresh()))
    }

    fn map(&mut self, entries: &[Entry]) -> Type {
        let (mut keys, mut values) = (None, None);
        for entry in entries {
            let key = self.check(&entry.key);
            keys = Some(self.join(&entry.key, keys, key));
            let value = self.check(&entry.value);
            let value = if entry.optional { self.unwrapped(&entry.value, value) } else { value };
            values = Some(self.join(&entry.value, values, value));
        }
        let keys = keys.unwrap_or_else(|| self.bindings.fresh());
        Type::map(keys, values.unwrap_or_else(|| self.bindings.fresh()))
    }

    /// What stands behind `?` must be optional.
    fn unwrapped(&mut self, expr: &Expr, ty: Type) -> Type {
        match self.bindings.resolve(&ty) {
            Type::Optional(of) => (*of).clone(),
            dynamic @ (Type::Dyn | Type::Error) => dynamic,
            other => {
                self.mismatch(expr.at, &Type::optional(other.clone()), &other);
                other
            }
        }
    }

    /// The type of elements that stand beside each other.
    fn join(&mut self, expr: &Expr, before: Option<Type>, ty: Type) -> Type {
        let Some(before) = before else { return ty };
        if self.bindings.assign(&before, &ty) {
            return most_general(&before, &ty);
        }
        if self.mixed {
            return Type::Dyn;
        }
        self.mismatch(expr.at, &before, &ty);
        Type::Error
    }

    fn object(&mut self, expr: &Expr, name: &str, fields: &[Field]) -> Type {
        let values: Vec<Type> = fields.iter().map(|field| self.check(&field.value)).collect();
        if !self.environment.makes(name) {
            return self.undeclared(expr.at, name);
        }
        for (field, value) in fields.iter().zip(values) {
            let value = if field.optional { self.unwrapped(&field.value, value) } else { value };
            match self.environment.field_of(name, &field.name) {
                None => self.faults.add(field.at, format!("undefined field '{}'", field.name)),
                Some(wanted) if !self.bindings.assign(&wanted, &value) => {
                    let (name, value) = (&field.name, self.bindings.resolve(&value));
                    let message = format!(
                        "expected type of field '{name}' is '{wanted}' but provided type is '{value}'"
                    );
                    self.faults.add(field.at, message);
                }
                Some(_) => {}
            }
        }
        Type::Object(Arc::new(ObjectType { name: name.to_owned(), fields: HashMap::new() }))
    }

    fn optional_map(&mut self, target: &Expr, name: &str, body: &Expr, flat: bool) -> Type {
        let found = self.check(target);
        let of = self.bindings.fresh();
        self.expect(target, &Type::optional(of.clone()), &found);
        let body_type = self.scoped(vec![(name.to_owned(), of)], |checker| checker.check(body));
        if !flat {
            return Type::optional(body_type);
        }
        let result = Type::optional(self.bindings.fresh());
        self.expect(body, &result, &body_type);
        self.bindings.resolve(&result)
    }
}

fn type_of_literal(literal: &Literal) -> Type {
    match literal {
        Literal::Null => Type::Null,
        Literal::Bool(_) => Type::Bool,
        Literal::Int(_) => Type::Int,
        Literal::Uint(_) => Type::Uint,
        Literal::Double(_) => Type::Double,
        Literal::String(_) => Type::String,
        Literal::Bytes(_) => Type::Bytes,
    }
}
