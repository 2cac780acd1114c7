//! Which types fit each other, and what their parameters must be for that.

use std::sync::Arc;

use crate::types::Type;

/// What has been found out about the variables of one expression.
#[derive(Debug, Default, Clone)]
pub struct Bindings {
    found: Vec<Option<Type>>,
    /// What the assignment under way has changed, to undo it.
    changed: Vec<(usize, Option<Type>)>,
}

impl Bindings {
    pub fn fresh(&mut self) -> Type {
        self.found.push(None);
        Type::Variable(self.found.len() - 1)
    }

    /// True if a value of type `from` may stand where `to` is wanted; then what it says of variables holds.
    pub fn assign(&mut self, to: &Type, from: &Type) -> bool {
        self.assign_all(&[(to, from)])
    }

    /// As [`Self::assign`] for all of them, or nothing is learned.
    pub fn assign_all(&mut self, pairs: &[(&Type, &Type)]) -> bool {
        self.changed.clear();
        let fits = pairs.iter().all(|(to, from)| self.fits(to, from));
        if !fits {
            while let Some((number, before)) = self.changed.pop() {
                self.found[number] = before;
            }
        }
        fits
    }

    fn lookup(&self, variable: &Type) -> Option<&Type> {
        match variable {
            Type::Variable(number) => self.found.get(*number)?.as_ref(),
            _ => None,
        }
    }

    fn fits(&mut self, one: &Type, two: &Type) -> bool {
        if matches!(two, Type::Variable(_)) {
            let (valid, known) = self.stands_for(one, two);
            if valid || known {
                return valid;
            }
        }
        if matches!(one, Type::Variable(_)) {
            return self.stands_for(two, one).0;
        }
        if one.is_dyn_or_error() || two.is_dyn_or_error() {
            return true;
        }
        match (one, two) {
            (Type::Null, other) | (other, Type::Null) => is_nullable(other),
            (Type::Type(_), Type::Type(_)) => true,
            (Type::List(one), Type::List(two)) | (Type::Optional(one), Type::Optional(two)) => {
                self.fits(one, two)
            }
            (Type::Map(one), Type::Map(two)) => self.fits(&one.0, &two.0) && self.fits(&one.1, &two.1),
            _ => one == two,
        }
    }

    /// Whether `ty` can be what the variable stands for, and whether the variable stood for something before.
    fn stands_for(&mut self, ty: &Type, variable: &Type) -> (bool, bool) {
        if ty == variable {
            return (true, true);
        }
        if let Some(known) = self.lookup(variable).cloned() {
            if *ty == known {
                return (true, true);
            }
            if !self.fits(ty, &known) {
                return (false, true);
            }
            let general = most_general(ty, &known);
            if !self.occurs(variable, &general) {
                self.set(variable, general);
            }
            return (true, true);
        }
        if self.occurs(variable, ty) {
            return (false, false);
        }
        self.set(variable, ty.clone());
        (true, false)
    }

    fn set(&mut self, variable: &Type, ty: Type) {
        if let Type::Variable(number) = variable
            && let Some(slot) = self.found.get_mut(*number)
        {
            self.changed.push((*number, slot.replace(ty)));
        }
    }

    fn occurs(&self, variable: &Type, within: &Type) -> bool {
        if variable == within {
            return true;
        }
        match within {
            Type::Variable(_) => self.lookup(within).is_some_and(|known| self.occurs(variable, known)),
            Type::List(of) | Type::Optional(of) | Type::Type(Some(of)) => self.occurs(variable, of),
            Type::Map(of) => self.occurs(variable, &of.0) || self.occurs(variable, &of.1),
            _ => false,
        }
    }

    /// The type with every known variable replaced.
    pub fn resolve(&self, ty: &Type) -> Type {
        self.replace(ty, false)
    }

    /// As [`Self::resolve`]; what nobody knows becomes dyn.
    pub fn finish(&self, ty: &Type) -> Type {
        self.replace(ty, true)
    }

    fn replace(&self, ty: &Type, unknown_is_dyn: bool) -> Type {
        if let Some(known) = self.lookup(ty) {
            return self.replace(known, unknown_is_dyn);
        }
        match ty {
            Type::Variable(_) if unknown_is_dyn => Type::Dyn,
            Type::List(of) => Type::list(self.replace(of, unknown_is_dyn)),
            Type::Optional(of) => Type::optional(self.replace(of, unknown_is_dyn)),
            Type::Type(Some(of)) => Type::of_type(self.replace(of, unknown_is_dyn)),
            Type::Map(of) => {
                Type::map(self.replace(&of.0, unknown_is_dyn), self.replace(&of.1, unknown_is_dyn))
            }
            _ => ty.clone(),
        }
    }

    /// The type with the parameters of a signature replaced by `with`, filled as they come.
    pub fn instantiate(&mut self, ty: &Type, with: &mut Vec<(char, Type)>) -> Type {
        match ty {
            Type::Param(name) => match with.iter().find(|(known, _)| known == name) {
                Some((_, variable)) => variable.clone(),
                None => {
                    let variable = self.fresh();
                    with.push((*name, variable.clone()));
                    variable
                }
            },
            Type::List(of) => Type::list(self.instantiate(of, with)),
            Type::Optional(of) => Type::optional(self.instantiate(of, with)),
            Type::Type(Some(of)) => Type::of_type(self.instantiate(of, with)),
            Type::Map(of) => {
                Type::Map(Arc::new((self.instantiate(&of.0, with), self.instantiate(&of.1, with))))
            }
            _ => ty.clone(),
        }
    }
}

fn is_nullable(ty: &Type) -> bool {
    matches!(
        ty,
        Type::Null | Type::Optional(_) | Type::Object(_) | Type::Opaque(_) | Type::Duration | Type::Timestamp
    )
}

/// Of two types that fit, the one that allows more.
pub fn most_general(one: &Type, two: &Type) -> Type {
    if is_equal_or_less_specific(one, two) { one.clone() } else { two.clone() }
}

fn is_equal_or_less_specific(one: &Type, two: &Type) -> bool {
    match (one, two) {
        (Type::Dyn | Type::Variable(_), _) => true,
        (_, Type::Dyn | Type::Variable(_)) => false,
        (Type::List(one), Type::List(two)) | (Type::Optional(one), Type::Optional(two)) => {
            is_equal_or_less_specific(one, two)
        }
        (Type::Map(one), Type::Map(two)) => {
            is_equal_or_less_specific(&one.0, &two.0) && is_equal_or_less_specific(&one.1, &two.1)
        }
        (Type::Type(_), Type::Type(_)) => true,
        _ => one == two,
    }
}
