//! The types of the loops that macros are.

use super::Checker;
use crate::ast::{Comprehension, Expr, Loop};
use crate::types::Type;

impl Checker<'_, '_> {
    pub(super) fn comprehension(&mut self, each: &Comprehension) -> Type {
        let range = self.check(&each.range);
        let range = self.bindings.resolve(&range);
        let two = each.second.is_some();
        let (first, second) = match &range {
            Type::List(of) if two => (Type::Int, (**of).clone()),
            Type::List(of) => ((**of).clone(), Type::Error),
            Type::Map(of) => (of.0.clone(), of.1.clone()),
            Type::Dyn | Type::Error | Type::Variable(_) => {
                self.bindings.assign(&Type::Dyn, &range);
                (Type::Dyn, Type::Dyn)
            }
            other => {
                let message = format!(
                    "expression of type '{other}' cannot be range of a comprehension (must be list, map, or dynamic)"
                );
                self.faults.add(each.range.at, message);
                (Type::Error, Type::Error)
            }
        };
        let mut variables = vec![(each.variable.clone(), first.clone())];
        variables.extend(each.second.clone().map(|name| (name, second)));
        let transformed = self.scoped(variables, |checker| {
            if let Some(condition) = &each.condition {
                let found = checker.check(condition);
                checker.expect(condition, &Type::Bool, &found);
            }
            each.transform.as_ref().map(|transform| (transform, checker.check(transform)))
        });
        self.result(each.kind, first, transformed, range)
    }

    fn result(&mut self, kind: Loop, key: Type, transformed: Option<(&Expr, Type)>, range: Type) -> Type {
        match (kind, transformed) {
            (Loop::All | Loop::Exists | Loop::ExistsOne, _) => Type::Bool,
            (Loop::Map, Some((_, ty))) => Type::list(ty),
            (Loop::TransformMap, Some((_, ty))) => Type::map(key, ty),
            (Loop::TransformMapEntry, Some((transform, ty))) => {
                let wanted = Type::map(self.bindings.fresh(), self.bindings.fresh());
                self.expect(transform, &wanted, &ty);
                self.bindings.resolve(&wanted)
            }
            (Loop::SortBy, Some((transform, ty))) => {
                self.expect_comparable(transform, &ty);
                range
            }
            _ => Type::list(key),
        }
    }

    fn expect_comparable(&mut self, key: &Expr, ty: &Type) {
        let ty = self.bindings.finish(ty);
        let is_comparable = matches!(
            ty,
            Type::Dyn
                | Type::Error
                | Type::Int
                | Type::Uint
                | Type::Double
                | Type::Bool
                | Type::Duration
                | Type::Timestamp
                | Type::String
                | Type::Bytes
        );
        if !is_comparable {
            let message = format!("found no matching overload for 'sortBy' applied to a key of type '{ty}'");
            self.faults.add(key.at, message);
        }
    }
}
