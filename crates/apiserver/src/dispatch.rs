//! From a request that may be made to the code that answers it.

use std::sync::Arc;

use bytes::Bytes;
use http::header::{ACCEPT, ACCEPT_ENCODING, CONTENT_TYPE, USER_AGENT};
use http::{Method, Request, Response};
use http_body::Frame;
use http_body_util::StreamBody;
use jiff::Timestamp;
use minik8s_api::{Backing, Subresource};
use minik8s_auth::User;
use serde_json::{Value, json};

use crate::answer::{self, Body, JSON};
use crate::api::Api;
use crate::audit::Trail;
use crate::catalog::Served;
use crate::codec;
use crate::error::{ApiError, Result};
use crate::flow::Whole;
use crate::form::{Accepted, Encoding, Form};
use crate::registry::{
    Call, DeleteOptions, Framing, ListBody, MAX_BODY, PatchKind, Written, protobuf_list, refused_watch,
};
use crate::request::{ListOptions, Query, RequestInfo, WriteOptions};
use crate::{body, computed, discovery, gzip, handler, nonresource, review, subresource};

/// A request with what has been found out about it.
pub struct Incoming<B> {
    pub request: Request<B>,
    pub info: RequestInfo,
    pub query: Query,
    pub user: User,
    /// All of the body, read before anything was begun; None for streams, which are passed on as they come.
    pub body: Option<Bytes>,
}

impl<B> Incoming<B> {
    pub fn header(&self, name: http::HeaderName) -> &str {
        self.request.headers().get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }

    /// What is left when the body does not matter.
    pub fn without_body(self) -> Incoming<()> {
        let request = self.request.map(|_| ());
        Incoming { request, info: self.info, query: self.query, user: self.user, body: None }
    }

    pub fn accepted(&self) -> Result<Accepted> {
        Accepted::parse(self.header(ACCEPT), self.query.text("includeObject"))
    }
}

impl<B> Incoming<B>
where
    B: http_body::Body<Data = Bytes> + Send + Unpin + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    /// The whole body.
    pub async fn body(&mut self) -> Result<Bytes> {
        match self.body.take() {
            Some(body) => Ok(body),
            None => body::read(self.request.body_mut(), MAX_BODY, None).await,
        }
    }
}

impl Api {
    pub(crate) async fn dispatch<B>(self: &Arc<Self>, incoming: Incoming<B>) -> Result<Response<Body>>
    where
        B: http_body::Body<Data = Bytes> + Send + Unpin + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let snapshot = self.registry.catalog.snapshot();
        if let Some(backend) = self.aggregator.find(&snapshot, &incoming.info.path) {
            return self.aggregator.answer(self, &backend, incoming).await;
        }
        if let Some(route) = self.api_route(&incoming.info) {
            return handler::answer(self, &*route.handler.clone(), incoming).await;
        }
        if !incoming.info.is_resource {
            return match discovery::answer(self, &incoming)? {
                Some(response) => Ok(response),
                None => nonresource::answer(self, incoming).await,
            };
        }
        let info = &incoming.info;
        let served = snapshot.find(&info.group, &info.version, &info.resource).cloned();
        let served = served.ok_or_else(ApiError::no_such_resource)?;
        check_scope(&served, info, incoming.request.method())?;
        let call = Call {
            namespace: if served.namespaced { info.namespace.clone() } else { String::new() },
            name: info.name.clone(),
            subresource: info.subresource.clone(),
            user: incoming.user.clone(),
            options: WriteOptions::parse(&incoming.query, incoming.header(USER_AGENT))?,
            now: Timestamp::now(),
            applies: false,
            warnings: Arc::default(),
            trail: incoming.request.extensions().get::<Trail>().cloned(),
            served,
        };
        let mut response = self.serve(&call, incoming).await?;
        answer::add_warnings(&mut response, &call.warnings.lock());
        Ok(response)
    }

    async fn serve<B>(self: &Arc<Self>, call: &Call, mut incoming: Incoming<B>) -> Result<Response<Body>>
    where
        B: http_body::Body<Data = Bytes> + Send + Unpin + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let info = &incoming.info;
        if !info.subresource.is_empty() && info.subresource != "status" {
            return subresource::answer(self, call, incoming).await;
        }
        let method = incoming.request.method().clone();
        let allowed = match info.subresource.as_str() {
            "" => call.served.verbs.contains(&info.verb.as_str()) && fits_path(info),
            _ if !call.served.has_status() => return Err(ApiError::no_such_resource()),
            _ => matches!(info.verb.as_str(), "get" | "update" | "patch"),
        };
        if !allowed {
            return Err(ApiError::method_not_allowed(&method));
        }
        let accepted = match &call.served.backing {
            Backing::Review => return review::answer(self, call, incoming).await,
            Backing::Computed(computed) => {
                let accepted = incoming.accepted()?;
                return computed::answer(&self.registry, call, &**computed, &incoming.query, &accepted).await;
            }
            Backing::Stored => incoming.accepted()?,
        };
        let content_type = incoming.header(CONTENT_TYPE).to_owned();
        match info.verb.as_str() {
            "get" => {
                let answer = self.get(call, &accepted).await?;
                Ok(gzip::offer(incoming.header(ACCEPT_ENCODING), answer))
            }
            "list" => {
                let answer = self.list(call, &incoming.query, &accepted).await?;
                Ok(gzip::offer(incoming.header(ACCEPT_ENCODING), answer))
            }
            "watch" => self.watch(call, &incoming.query, accepted).await,
            "create" => {
                let body = incoming.body().await?;
                let object = self.registry.decode_body(call, &content_type, &body)?;
                let written = self.registry.create(call, object).await?;
                self.written(call, &accepted, written)
            }
            "update" => {
                let body = incoming.body().await?;
                let object = self.registry.decode_body(call, &content_type, &body)?;
                let written = self.registry.update(call, object).await?;
                self.written(call, &accepted, written)
            }
            "patch" => {
                let kind = PatchKind::of(&content_type)?;
                if kind == PatchKind::Apply && incoming.query.text("fieldManager").is_empty() {
                    return Err(ApiError::bad_request("fieldManager: is required for apply patch"));
                }
                let body = incoming.body().await?;
                let written = self.registry.patch(call, kind, &body).await?;
                self.written(call, &accepted, written)
            }
            "delete" | "deletecollection" => {
                let body = incoming.body().await?;
                let options = delete_body(call, &content_type, &body)?;
                self.delete(call, &incoming.query, options, &accepted).await
            }
            _ => Err(ApiError::method_not_allowed(&method)),
        }
    }

    async fn get(&self, call: &Call, accepted: &Accepted) -> Result<Response<Body>> {
        if accepted.form == Form::Object && accepted.encoding != Encoding::Yaml {
            let json = self.registry.get_json(&call.served, &call.namespace, &call.name).await?;
            return Ok(answer::object_json(200, json, accepted.encoding));
        }
        let object = self.registry.get(&call.served, &call.namespace, &call.name).await?;
        answer::object(200, &accepted.form.shape_one(&call.served, object, false), accepted.encoding)
    }

    async fn list(&self, call: &Call, query: &Query, accepted: &Accepted) -> Result<Response<Body>> {
        let options = ListOptions::parse(query)?;
        let selected = self.registry.select(&call.served, &call.namespace, &options).await?;
        match &accepted.form {
            Form::Object if accepted.encoding == Encoding::Protobuf && call.served.has_protobuf() => {
                let served = call.served.clone();
                let made = tokio::task::spawn_blocking(move || protobuf_list(&served, &selected));
                let (head, content) = made.await.map_err(ApiError::internal)??;
                let whole = Whole(head.len() + content.len());
                let parts = [head, content].map(|part| Ok(Frame::data(Bytes::from(part))));
                let body = StreamBody::new(futures::stream::iter(parts));
                let mut response = answer::stream(200, minik8s_protobuf::MEDIA_TYPE, body);
                response.extensions_mut().insert(whole);
                return Ok(response);
            }
            Form::Object if accepted.encoding != Encoding::Yaml => {
                return Ok(answer::stream(200, JSON, ListBody::new(call.served.clone(), selected)));
            }
            Form::Table { api_version, include } if accepted.encoding != Encoding::Yaml => {
                let body = ListBody::table(call.served.clone(), selected, api_version, *include);
                return Ok(answer::stream(200, JSON, body));
            }
            _ => {}
        }
        let metadata = selected.list_metadata();
        let decode = |entry| codec::decode(&call.served, entry);
        let objects = selected.entries.iter().map(decode).collect::<Result<Vec<Value>>>()?;
        answer::object(200, &accepted.form.shape_list(&call.served, metadata, objects), accepted.encoding)
    }

    async fn watch(
        self: &Arc<Self>,
        call: &Call,
        query: &Query,
        accepted: Accepted,
    ) -> Result<Response<Body>> {
        let mut options = ListOptions::parse(query)?;
        if !call.name.is_empty() {
            let one = format!("metadata.name={}", call.name);
            options.fields =
                minik8s_api::FieldSelector::parse(&one).map_err(|e| ApiError::bad_request(e.to_string()))?;
        }
        let framing = Framing::of(&accepted, &call.served);
        match self.registry.watch(call, &options, accepted.form, framing).await {
            Ok(body) => Ok(answer::stream(200, &framing.content_type(), body.convert(self.clone()))),
            Err(error) if error.code == 410 => {
                Ok(answer::bytes(200, &framing.content_type(), refused_watch(&error, framing)))
            }
            Err(error) => Err(error),
        }
    }

    async fn delete(
        &self,
        call: &Call,
        query: &Query,
        body: Value,
        accepted: &Accepted,
    ) -> Result<Response<Body>> {
        let options = DeleteOptions::parse(query, body)?;
        let mut dry = call.on(&call.namespace, &call.name);
        dry.options.dry_run |= options.dry_run;
        if call.name.is_empty() {
            let list = ListOptions::parse(query)?;
            let objects = self.registry.delete_collection(&dry, &list, &options).await?;
            let revision = self.registry.store.revision().await?;
            let metadata = json!({"resourceVersion": revision.to_string()});
            let answer = Form::Object.shape_list(&call.served, metadata, objects);
            return answer::object(200, &answer, accepted.encoding);
        }
        let deleted = self.registry.delete(&dry, &options).await?;
        if !deleted.gone || call.served.returns_deleted {
            return answer::object(
                200,
                &accepted.form.shape_one(&call.served, deleted.object, false),
                accepted.encoding,
            );
        }
        let status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success",
            "details": {
                "name": call.name, "group": call.served.group, "kind": call.served.plural,
                "uid": deleted.object["metadata"]["uid"],
            },
        });
        answer::object(200, &status, accepted.encoding)
    }

    pub(crate) fn written(
        &self,
        call: &Call,
        accepted: &Accepted,
        written: Written,
    ) -> Result<Response<Body>> {
        let code = if written.created { 201 } else { 200 };
        if accepted.form == Form::Object
            && accepted.encoding != Encoding::Yaml
            && let Some((value, revision)) = &written.stored
            && codec::is_served_form(&call.served, value)
        {
            let mut out = Vec::new();
            codec::write_object(&call.served, value, *revision, &mut out)?;
            return Ok(answer::object_json(code, out, accepted.encoding));
        }
        answer::object(
            code,
            &accepted.form.shape_one(&call.served, written.into_object(), false),
            accepted.encoding,
        )
    }
}

/// A namespaced resource needs a namespace for everything but list and watch.
fn check_scope(served: &Served, info: &RequestInfo, method: &Method) -> Result<()> {
    if !served.namespaced && !info.namespace.is_empty() && !served.is_namespace {
        return Err(ApiError::no_such_resource());
    }
    if served.namespaced && info.namespace.is_empty() && !matches!(info.verb.as_str(), "list" | "watch") {
        // Across namespaces there is a collection to read, and nothing else.
        return Err(if info.name.is_empty() {
            ApiError::method_not_allowed(method)
        } else {
            ApiError::no_such_resource()
        });
    }
    if !info.rest.is_empty() && info.subresource != "proxy" {
        return Err(ApiError::no_such_resource());
    }
    let known = info.subresource.is_empty()
        || served.subresources.iter().any(|sub| match sub {
            Subresource::Status => info.subresource == "status",
            Subresource::Scale { .. } => info.subresource == "scale",
            Subresource::Other { name, .. } => info.subresource == *name,
        });
    if known { Ok(()) } else { Err(ApiError::no_such_resource()) }
}

/// Collections are created in; single objects are updated and patched.
fn fits_path(info: &RequestInfo) -> bool {
    match info.verb.as_str() {
        "create" => info.name.is_empty(),
        "update" | "patch" => !info.name.is_empty(),
        _ => true,
    }
}

/// `DeleteOptions` in the body, if there is one.
fn delete_body(call: &Call, content_type: &str, body: &[u8]) -> Result<Value> {
    if body.iter().all(u8::is_ascii_whitespace) {
        return Ok(json!({}));
    }
    let value = crate::registry::parse_any(call, content_type, body)?;
    match value["kind"].as_str() {
        None | Some("" | "DeleteOptions") => Ok(value),
        Some(other) => {
            Err(ApiError::bad_request(format!("the body of a delete must be DeleteOptions, not {other}")))
        }
    }
}

/// True for requests whose time and number are not bounded like others'.
pub fn is_long_running(method: &Method, info: &RequestInfo) -> bool {
    info.verb == "watch"
        || (info.is_resource
            && matches!(info.subresource.as_str(), "exec" | "attach" | "portforward" | "proxy"))
        || (info.is_resource && info.subresource == "log" && *method == Method::GET)
}
