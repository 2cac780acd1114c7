//! The table of Services of one address family in the kernel: where it leads, what it is, and how it is changed.
//!
//! On a cluster of one family there is one of them, and no table of the other family.

use std::time::Instant;

use ipnet::IpNet;
use k8s_openapi::api::core::v1::Service;
use minik8s_meta::IpFamily;
use tracing::debug;

use crate::backends::{Backends, Key};
use crate::proxy::{
    Book, Nft, NftError, Place, Routes, Table, diff, forget_flows, plan_service, ruleset, stale_flows,
    stale_flows_between,
};

pub struct FamilyRules {
    pub family: IpFamily,
    name: String,
    /// Of the cluster's pods.
    cluster: IpNet,
    book: Book,
    /// What the kernel has; `None` if that is not known.
    table: Option<Table>,
    /// What is there could not be changed into what is wanted.
    must_replace: bool,
}

impl FamilyRules {
    /// Of the family of the pods' range.
    pub fn new(name: &str, cluster: IpNet) -> Self {
        FamilyRules {
            family: IpFamily::of(cluster.addr()),
            name: name.to_owned(),
            cluster,
            book: Book::default(),
            table: None,
            must_replace: false,
        }
    }

    /// Whether the kernel has no rules of a former run. Fails where there can be no rules at all.
    pub async fn is_bare(&self) -> Result<bool, NftError> {
        Ok(Nft.list(self.family, &self.name).await?.is_empty())
    }

    /// Whether all rules are about to be compared with the kernel's.
    pub fn is_unknown(&self) -> bool {
        self.table.is_none()
    }

    pub fn plan(&self, service: &Key, object: &Service, backends: &Backends, place: Place<'_>) -> Routes {
        plan_service(object, backends.slices(service), (place, self.family))
    }

    pub fn put(&mut self, service: &Key, routes: Routes) {
        self.book.put(service, routes);
    }

    /// Makes the kernel's rules follow what was put.
    pub async fn apply(&mut self) -> Result<(), NftError> {
        let changes = self.book.take_changes();
        let Some(mut table) = self.table.take() else { return self.load().await };
        if !changes.is_empty() {
            let started = Instant::now();
            Nft.apply(&table.change(&changes).to_string()).await?;
            debug!(family = %self.family, frontends = changes.frontends.len(), took = ?started.elapsed(), "changed the rules of Services");
        }
        self.table = Some(table);
        forget_flows(self.family, &stale_flows(&changes)).await;
        Ok(())
    }

    /// Makes what is there into what is wanted. Only what differs is touched: connections, counters and clients'
    /// endpoints stay as they are.
    async fn load(&mut self) -> Result<(), NftError> {
        let started = Instant::now();
        let routes = self.book.routes();
        let wanted = ruleset(&routes, &self.name, self.cluster);
        let found = match self.must_replace {
            true => None,
            false => Nft.list(self.family, &self.name).await?.into_ruleset(&wanted),
        };
        let change = found.as_ref().and_then(|found| diff(found, &wanted));
        self.must_replace = true;
        match change {
            Some(change) if change.is_empty() => {}
            Some(change) => Nft.apply(&change.to_string()).await?,
            None => Nft.apply(&wanted.to_string()).await?,
        }
        self.must_replace = false;
        debug!(family = %self.family, frontends = routes.frontends.len(), took = ?started.elapsed(), "loaded the rules of Services");
        self.table = Some(Table::new(self.family, &self.name, &routes));
        if let Some(found) = found {
            forget_flows(self.family, &stale_flows_between(&found, &wanted)).await;
        }
        Ok(())
    }
}
