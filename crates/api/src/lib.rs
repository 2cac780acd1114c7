//! What a kind is: a [`Resource`] with its [`Strategy`] for defaults, validation and columns, and what kinds are written
//! with ([`At`], [`fill`], [`table`]).
//!
//! Routes, discovery, OpenAPI, tables and storage keys derive from a [`Resource`]. A CustomResourceDefinition builds the
//! same one at run time. The built-in kinds themselves are in `minik8s-kinds`. This crate does no IO, reads no clock and
//! knows of HTTP only the shape of what a feature answers itself ([`Handler`]).

mod admission;
mod at;
mod audit;
mod authorization;
mod backing;
mod column;
mod extension;
pub mod fill;
mod handler;
mod label_selector;
mod log_search;
pub mod metadata;
pub mod openapi;
mod protocol;
mod records;
mod request_header;
mod resource;
mod service_account_tokens;
mod session;
pub mod state_metrics;
mod stored;
mod strategy;
pub mod table;
mod token;

pub use admission::{AdmissionError, AdmissionRequest, AdmissionRule, Operation};
pub use at::At;
pub use audit::AuditSettings;
pub use authorization::{
    AccessAnswer, AccessWebhook, AnswerSource, AuthorizationChain, AuthorizerStep, AuthorizerType, Opinion,
};
pub use backing::{Backing, Computed, Objects, ReadError, ResourceRef, Scope};
pub use column::{Cell, Column, age};
pub use extension::Extension;
pub use handler::{
    Access, Body, Handler, HandlerRequest, Piecewise, Requester, Route, respond, respond_lines,
};
pub use label_selector::validate_label_selector;
pub use log_search::{LOGS_GROUP, LOGS_RESOURCE};
pub use metadata::{validate_metadata, validate_metadata_update};
pub(crate) use minik8s_meta::format;
pub use minik8s_meta::{
    CronError, CronSchedule, FieldSelector, JsonPath, JsonPathError, LabelSelector, NameRule, Operator,
    Quantity, QuantityError, QuantityFormat, Requirement, SelectorError, dns, human_duration, quota, routing,
    scaling_decision, time_zone,
};
pub use minik8s_schema::{FieldError, FieldErrorKind, FieldErrors, Path, Schema};
pub use protocol::{Protocol, RequestBody, ResourceRequest};
pub use records::{Owner, OwnerVersion, Record, RecordChange, RecordOutcome, Records, RecordsError};
pub use request_header::RequestHeaderSettings;
pub use resource::{CUSTOM_RESOURCE_CLEANUP, Definition, Resource, Subresource};
pub use service_account_tokens::ServiceAccountTokens;
pub use session::{BrowserSession, BrowserSessions, Credential, SessionLimits};
pub use stored::{Parse, Stored, StoredObject};
pub use strategy::{FieldPath, Part, Plain, Strategy};
pub use token::{AnonymousRules, TokenAuthenticator, TokenUser};
