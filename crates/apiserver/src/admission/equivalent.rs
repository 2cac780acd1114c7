//! A request as a webhook or a policy sees it whose rule names another version or group of the same kind.
//!
//! Built-in objects are converted through the form in which both are stored, custom ones by the conversion webhook of
//! their definition. What was changed is converted back. A custom kind without such a webhook is not seen to here: its
//! versions differ in nothing but the name.

use std::sync::Arc;

use minik8s_store::Commit;
use serde_json::{Value, json};

use super::matching::Subject;
use super::webhook::review;
use super::{Operation, Request};
use crate::catalog::Served;
use crate::error::{ApiError, Result};
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
    async fn view(&self, registry: &Registry, request: &Request<'_>) -> Result<Option<View>> {
        let (call, Some(other)) = (request.call, self.equivalent.as_ref()) else { return Ok(None) };
        let mut object = request.object.clone();
        let mut old = request.old.cloned();
        if request.is_about_itself() {
            let both = [&mut object].into_iter().chain(&mut old);
            convert(registry, &call.served, other, both).await?;
        }
        Ok(Some(View {
            call: Call { served: other.clone(), ..call.on(&call.namespace, &call.name) },
            operation: request.operation,
            object,
            old,
            also: Commit::default(),
            delete: request.delete.cloned(),
        }))
    }

    /// The `request` of a review; `uid` is empty where nobody is asked.
    pub async fn question(&self, registry: &Registry, uid: &str, request: &Request<'_>) -> Result<Value> {
        let Some(mut view) = self.view(registry, request).await? else {
            return Ok(review::question(uid, self, request));
        };
        let mut question = review::question(uid, self, &view.request());
        let served = &request.call.served;
        let (group, version) = (&served.group, &served.version);
        if request.is_about_itself() {
            question["requestKind"] = json!({"group": group, "version": version, "kind": served.kind});
        }
        question["requestResource"] = json!({"group": group, "version": version, "resource": served.plural});
        Ok(question)
    }

    /// As what the object is seen.
    pub fn served<'a>(&'a self, request: &Request<'a>) -> &'a Arc<Served> {
        self.equivalent.as_ref().unwrap_or(&request.call.served)
    }

    /// Puts what somebody made of what they saw into the request, read like a user's object, and says as what they see
    /// it now.
    pub async fn replace(
        &self,
        registry: &Registry,
        request: &mut Request<'_>,
        changed: Value,
    ) -> Result<Value> {
        let call = request.call;
        let Some(other) = &self.equivalent else {
            *request.object = review::read_changed(registry, call, changed)?;
            return Ok(review::seen(request.object, call, self));
        };
        let on_other = Call { served: other.clone(), ..call.on(&call.namespace, &call.name) };
        let object = review::read_changed(registry, &on_other, changed)?;
        *request.object = object.clone();
        convert(registry, other, &call.served, [&mut *request.object]).await?;
        Ok(review::seen(&object, &on_other, self))
    }

    /// Lets somebody change what they see.
    pub async fn change(
        &self,
        registry: &Registry,
        request: &mut Request<'_>,
        change: impl FnOnce(&mut Request<'_>) -> Result<()>,
    ) -> Result<()> {
        let Some(mut view) = self.view(registry, request).await? else { return change(request) };
        change(&mut view.request())?;
        convert(registry, &view.call.served, &request.call.served, [&mut view.object]).await?;
        *request.object = view.object;
        Ok(())
    }
}

/// A conversion webhook is asked once about all of them.
async fn convert(
    registry: &Registry,
    from: &Served,
    to: &Served,
    objects: impl IntoIterator<Item = &mut Value>,
) -> Result<()> {
    let objects: Vec<&mut Value> = objects.into_iter().collect();
    let Some(conversion) = &to.conversion else {
        objects.into_iter().for_each(|object| convert_built_in(from, to, object));
        return Ok(());
    };
    let named = objects.iter().map(|object| {
        let mut object = Value::clone(object);
        object["apiVersion"] = from.api_version.as_str().into();
        object["kind"] = from.kind.as_str().into();
        object
    });
    let converted = conversion.convert(registry, named.collect(), &to.api_version).await;
    for (object, converted) in objects.into_iter().zip(converted.map_err(ApiError::internal)?) {
        *object = converted;
    }
    Ok(())
}

fn convert_built_in(from: &Served, to: &Served, object: &mut Value) {
    if from.stored_as.is_some() {
        from.strategy.to_stored(object);
    }
    if to.stored_as.is_some() {
        to.strategy.from_stored(object);
    }
    object["apiVersion"] = to.api_version.as_str().into();
}
