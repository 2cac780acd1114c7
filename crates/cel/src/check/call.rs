//! Which overloads of a function fit a call.

use super::{Checker, Reference};
use crate::ast::{Expr, Kind, Literal};
use crate::library::{self, Overload, duration, patterns};
use crate::parse::qualified_name;
use crate::types::Type;

impl Checker<'_, '_> {
    pub(super) fn call(&mut self, expr: &Expr, function: &str, target: Option<&Expr>, args: &[Expr]) -> Type {
        let mixed = self.mixed;
        self.mixed |= function == "format";
        let mut types: Vec<Type> = args.iter().map(|argument| self.check(argument)).collect();
        self.mixed = mixed;
        let Some(target) = target else {
            let function = function.strip_prefix('.').unwrap_or(function);
            if matches!(function, "_&&_" | "_||_") {
                return self.logical(expr, function, args, &types);
            }
            return self.resolve(expr, function, false, args, &types, false);
        };
        // `sets.contains(…)`: the receiver is the beginning of a name.
        if let Some(prefix) = qualified_name(target)
            && !self.is_local(prefix.split('.').next().unwrap_or_default())
        {
            let name = format!("{prefix}.{function}");
            if !library::overloads(&name).is_empty() {
                return self.resolve(expr, &name, false, args, &types, true);
            }
        }
        let receiver = self.check(target);
        types.insert(0, receiver);
        self.resolve(expr, function, true, args, &types, false)
    }

    fn logical(&mut self, expr: &Expr, function: &str, args: &[Expr], types: &[Type]) -> Type {
        let mut fits = true;
        for (argument, ty) in args.iter().zip(types) {
            if !self.bindings.assign(ty, &Type::Bool) {
                self.mismatch(argument.at, &Type::Bool, ty);
                fits = false;
            }
        }
        let fitting = library::overloads(function).iter().collect();
        self.references[expr.id] = Reference::Overloads { fitting, namespaced: false };
        if fits { Type::Bool } else { Type::Error }
    }

    fn resolve(
        &mut self,
        expr: &Expr,
        function: &str,
        is_member: bool,
        args: &[Expr],
        types: &[Type],
        namespaced: bool,
    ) -> Type {
        let overloads = library::overloads(function);
        if overloads.is_empty() {
            return self.undeclared(expr.at, function);
        }
        let mut fitting: Vec<&'static Overload> = Vec::new();
        let mut result: Option<Type> = None;
        let candidates = overloads
            .iter()
            .filter(|overload| overload.is_member == is_member && overload.params.len() == types.len());
        for overload in candidates {
            let mut with = Vec::new();
            let params: Vec<Type> =
                overload.params.iter().map(|param| self.bindings.instantiate(param, &mut with)).collect();
            let pairs: Vec<(&Type, &Type)> = types.iter().zip(&params).collect();
            if !self.bindings.assign_all(&pairs) {
                continue;
            }
            let found = self.bindings.instantiate(&overload.result, &mut with);
            let found = self.bindings.resolve(&found);
            fitting.push(overload);
            result = Some(match result {
                Some(before) if before != found => Type::Dyn,
                _ => found,
            });
        }
        let Some(result) = result else {
            self.no_matching_overload(expr, function, is_member, types);
            return Type::Error;
        };
        self.check_literal(function, is_member, args);
        self.references[expr.id] = Reference::Overloads { fitting, namespaced };
        result
    }

    fn no_matching_overload(&mut self, expr: &Expr, function: &str, is_member: bool, types: &[Type]) {
        let mut types: Vec<String> = types.iter().map(|ty| self.bindings.finish(ty).to_string()).collect();
        let receiver = if is_member { format!("{}.", types.remove(0)) } else { String::new() };
        let signature = format!("{receiver}({})", types.join(", "));
        let message = format!("found no matching overload for '{function}' applied to '{signature}'");
        self.faults.add(expr.at, message);
    }

    /// Constants that could never be converted are refused now, not when the expression runs.
    fn check_literal(&mut self, function: &str, is_member: bool, args: &[Expr]) {
        let place = match function {
            "duration" | "timestamp" => 0,
            name if patterns::FUNCTIONS.contains(&name) => usize::from(!is_member),
            _ => return,
        };
        let Some(argument) = args.get(place) else { return };
        let Kind::Literal(Literal::String(text)) = &argument.kind else { return };
        let is_valid = match function {
            "duration" => duration::parse(text).is_some(),
            "timestamp" => text.parse::<jiff::Timestamp>().is_ok(),
            _ => patterns::compile(text).is_ok(),
        };
        if !is_valid {
            self.faults.add(argument.at, format!("invalid {function} argument"));
        }
    }
}
