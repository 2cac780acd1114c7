//! The API as the user who asks: whoever may do it with `kubectl` may do it here, and nobody else.

use std::fmt::Debug;

use http::{Method, Request, StatusCode};
use kube::core::NamespaceResourceScope;
use kube::{Client, Resource};
use minik8s_api::Requester;
use minik8s_meta::error_chain;
use minik8s_meta::function::FunctionSpec;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{Refused, Result};
use crate::code;

pub struct AsUser<'a> {
    /// Of the control plane, which may act as anybody.
    pub client: &'a Client,
    pub requester: &'a Requester,
    pub namespace: &'a str,
}

impl AsUser<'_> {
    pub async fn get<K: Served>(&self, name: &str) -> Result<K> {
        read(self.send(Method::GET, &self.path::<K>(name), None).await?)
    }

    pub async fn list<K: Served>(&self) -> Result<Vec<K>> {
        let mut list = self.send(Method::GET, &self.path::<K>(""), None).await?;
        let items = list["items"].take();
        items.as_array().into_iter().flatten().map(|item| read(item.clone())).collect()
    }

    pub async fn create<K: Served>(&self, object: &K) -> Result<K> {
        read(self.send(Method::POST, &self.path::<K>(""), Some(written(object)?)).await?)
    }

    pub async fn replace<K: Served>(&self, name: &str, object: &K) -> Result<K> {
        read(self.send(Method::PUT, &self.path::<K>(name), Some(written(object)?)).await?)
    }

    /// Code that is too large for a Function goes to the registry.
    pub async fn place_code(&self, name: &str, spec: &mut FunctionSpec) -> Result<()> {
        let placed = code::place(self.client, Some(self.requester), self.namespace, name, spec).await;
        placed.map_err(|error| Refused(error.status(), error_chain(&error)))
    }

    pub async fn delete<K: Served>(&self, name: &str) -> Result<()> {
        self.send(Method::DELETE, &self.path::<K>(name), None).await.map(drop)
    }

    fn path<K: Served>(&self, name: &str) -> String {
        let collection = K::url_path(&K::DynamicType::default(), Some(self.namespace));
        if name.is_empty() { collection } else { format!("{collection}/{name}") }
    }

    async fn send(&self, method: Method, path: &str, body: Option<Vec<u8>>) -> Result<Value> {
        let mut request =
            Request::builder().method(method).uri(path).header("content-type", "application/json");
        request = request.header("impersonate-user", &self.requester.name);
        for group in &self.requester.groups {
            request = request.header("impersonate-group", group);
        }
        let request = request.body(body.unwrap_or_default());
        let request = request.map_err(|error| Refused(StatusCode::BAD_REQUEST, error.to_string()))?;
        self.client.request(request).await.map_err(|error| match error {
            kube::Error::Api(status) => {
                let code = StatusCode::from_u16(status.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
                Refused(code, status.message.clone())
            }
            other => Refused(StatusCode::SERVICE_UNAVAILABLE, other.to_string()),
        })
    }
}

/// What is asked for here.
pub trait Served:
    Resource<DynamicType: Default, Scope = NamespaceResourceScope> + Serialize + DeserializeOwned + Debug
{
}

impl<K> Served for K where
    K: Resource<DynamicType: Default, Scope = NamespaceResourceScope> + Serialize + DeserializeOwned + Debug
{
}

fn read<K: DeserializeOwned>(value: Value) -> Result<K> {
    serde_json::from_value(value)
        .map_err(|error| Refused(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()))
}

fn written(object: &impl Serialize) -> Result<Vec<u8>> {
    serde_json::to_vec(object).map_err(|error| Refused(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()))
}
