//! A request as a webhook or a policy sees it whose rule names another version or group of the same built-in kind.
//!
//! Objects are converted through the form in which both are stored, and what was changed is converted back. Conversion
//! webhooks of custom kinds are never asked here: their versions differ in nothing but the name.

use std::sync::Arc;

use minik8s_store::Commit;
use serde_json::{Value, json};

use super::matching::Subject;
use super::webhook::review;
use super::{Operation, Request};
use crate::catalog::Served;
use crate::error::Result;
use crate::registry::{Call, DeleteOptions, Registry};

/// The request, converted.
pub struct View {
    call: Call,
    operation: Operation,
    object: Value,
    old: Option<Value>,
    also: Commit,
    delete: Option<DeleteOptions>,
}

impl View {
    pub fn request(&mut self) -> Request<'_> {
        Request {
            delete: self.delete.as_ref(),
            ..Request::new(&self.call, self.operation, &mut self.object, self.old.as_ref(), &mut self.also)
        }
    }
}

impl Subject {
    /// None where the request is seen as it came.
    pub fn view(&self, request: &Request<'_>) -> Option<View> {
        let (call, other) = (request.call, self.equivalent.as_ref()?);
        let is_about_itself = request.is_about_itself();
        let converted = |object: &Value| {
            let mut object = object.clone();
            if is_about_itself {
                convert(&call.served, other, &mut object);
            }
            object
        };
        Some(View {
            call: Call { served: other.clone(), ..call.on(&call.namespace, &call.name) },
            operation: request.operation,
            object: converted(&*request.object),
            old: request.old.map(converted),
            also: Commit::default(),
            delete: request.delete.cloned(),
        })
    }

    /// The `request` of a review; `uid` is empty where nobody is asked.
    pub fn question(&self, uid: &str, request: &Request<'_>) -> Value {
        let Some(mut view) = self.view(request) else { return review::question(uid, self, request) };
        let mut question = review::question(uid, self, &view.request());
        let served = &request.call.served;
        let (group, version) = (&served.group, &served.version);
        if request.is_about_itself() {
            question["requestKind"] = json!({"group": group, "version": version, "kind": served.kind});
        }
        question["requestResource"] = json!({"group": group, "version": version, "resource": served.plural});
        question
    }

    pub fn seen(&self, request: &Request<'_>) -> Value {
        match self.view(request) {
            Some(view) => review::seen(&view.object, &view.call, self),
            None => review::seen(request.object, request.call, self),
        }
    }

    /// As what the object is seen.
    pub fn served<'a>(&'a self, request: &Request<'a>) -> &'a Arc<Served> {
        self.equivalent.as_ref().unwrap_or(&request.call.served)
    }

    /// What somebody made of what they saw, read like a user's object, as the request has it.
    pub fn read_changed(&self, registry: &Registry, request: &Request<'_>, changed: Value) -> Result<Value> {
        let call = request.call;
        let Some(view) = self.view(request) else { return review::read_changed(registry, call, changed) };
        let mut object = review::read_changed(registry, &view.call, changed)?;
        convert(&view.call.served, &call.served, &mut object);
        Ok(object)
    }

    /// Lets somebody change what they see.
    pub fn change(
        &self,
        request: &mut Request<'_>,
        change: impl FnOnce(&mut Request<'_>) -> Result<()>,
    ) -> Result<()> {
        let Some(mut view) = self.view(request) else { return change(request) };
        change(&mut view.request())?;
        convert(&view.call.served, &request.call.served, &mut view.object);
        *request.object = view.object;
        Ok(())
    }
}

fn convert(from: &Served, to: &Served, object: &mut Value) {
    if from.stored_as.is_some() {
        from.strategy.to_stored(object);
    }
    if to.stored_as.is_some() {
        to.strategy.from_stored(object);
    }
    object["apiVersion"] = to.api_version.as_str().into();
}
