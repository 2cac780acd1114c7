//! What is kept beside an object goes with it.

use async_trait::async_trait;

use super::{Admission, Request};
use crate::error::Result;
use crate::object::Object;
use crate::records;
use crate::registry::Registry;

pub struct Records;

#[async_trait]
impl Admission for Records {
    async fn release(&self, registry: &Registry, request: &mut Request<'_>) -> Result<()> {
        let Some(old) = request.old.filter(|_| request.call.served.strategy.keeps_records()) else {
            return Ok(());
        };
        Ok(records::release(registry, old.uid(), request.also).await?)
    }
}
