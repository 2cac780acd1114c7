//! Query parameters of operations.

/// One query parameter; all of them are optional.
#[derive(Debug, Clone, Copy)]
pub(super) struct Parameter {
    pub name: &'static str,
    pub ty: &'static str,
}

const fn string(name: &'static str) -> Parameter {
    Parameter { name, ty: "string" }
}

const fn integer(name: &'static str) -> Parameter {
    Parameter { name, ty: "integer" }
}

const fn boolean(name: &'static str) -> Parameter {
    Parameter { name, ty: "boolean" }
}

pub(super) const NONE: &[Parameter] = &[];

pub(super) const LIST: &[Parameter] = &[
    boolean("allowWatchBookmarks"),
    string("continue"),
    string("fieldSelector"),
    string("labelSelector"),
    integer("limit"),
    string("resourceVersion"),
    string("resourceVersionMatch"),
    boolean("sendInitialEvents"),
    integer("timeoutSeconds"),
    boolean("watch"),
];

/// Clients look here for `fieldValidation`: without it they would validate by themselves.
pub(super) const WRITE: &[Parameter] = &[string("dryRun"), string("fieldManager"), string("fieldValidation")];

/// Clients look at the parameters of PATCH to learn what a kind supports.
pub(super) const PATCH: &[Parameter] =
    &[string("dryRun"), string("fieldManager"), string("fieldValidation"), boolean("force")];

pub(super) const DELETE: &[Parameter] = &[
    string("dryRun"),
    integer("gracePeriodSeconds"),
    boolean("orphanDependents"),
    string("propagationPolicy"),
];

pub(super) const DELETE_COLLECTION: &[Parameter] = &[
    string("continue"),
    string("dryRun"),
    string("fieldSelector"),
    integer("gracePeriodSeconds"),
    string("labelSelector"),
    integer("limit"),
    boolean("orphanDependents"),
    string("propagationPolicy"),
    string("resourceVersion"),
    string("resourceVersionMatch"),
    boolean("sendInitialEvents"),
    integer("timeoutSeconds"),
];
