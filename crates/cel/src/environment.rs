//! What an expression may name: variables with their types.

use crate::declaration::Declaration;
use crate::types::Type;

/// Declared variables. The functions of every library are always there.
#[derive(Debug, Clone, Default)]
pub struct Environment {
    variables: Vec<(String, Declaration)>,
    mutation: bool,
}

impl Environment {
    pub fn new() -> Self {
        Environment::default()
    }

    /// A variable of which the schema is known. A dotted name (`variables.x`) is one variable.
    #[must_use]
    pub fn with(mut self, name: impl Into<String>, declaration: Declaration) -> Self {
        let name = name.into();
        self.variables.retain(|(known, _)| *known != name);
        self.variables.push((name, declaration));
        self
    }

    /// A variable of which only the type is known.
    #[must_use]
    pub fn with_type(self, name: impl Into<String>, ty: Type) -> Self {
        self.with(name, Declaration::of_type(ty))
    }

    /// Expressions may make objects: `Object{…}`, `Object.spec{…}` and `JSONPatch{…}`.
    #[must_use]
    pub fn with_mutation(mut self) -> Self {
        self.mutation = true;
        self
    }

    pub fn declaration(&self, name: &str) -> Option<&Declaration> {
        self.variables.iter().find(|(known, _)| known == name).map(|(_, declaration)| declaration)
    }

    /// The types of the fields of an object that expressions may make; dyn where any value fits.
    pub(crate) fn field_of(&self, object: &str, field: &str) -> Option<Type> {
        match (object, field) {
            ("JSONPatch", "op" | "path" | "from") => Some(Type::String),
            ("JSONPatch", "value") => Some(Type::Dyn),
            ("JSONPatch", _) => None,
            _ => Some(Type::Dyn),
        }
    }

    pub(crate) fn makes(&self, object: &str) -> bool {
        self.mutation && (matches!(object, "Object" | "JSONPatch") || object.starts_with("Object."))
    }
}
