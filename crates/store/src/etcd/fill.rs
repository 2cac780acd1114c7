//! Filling an empty etcd with the contents of another store.
//!
//! etcd takes transactions of bounded size, so it is done in several. A key says from the first to the last of
//! them that the store is incomplete: no server opens it then, and whoever fills it may begin again.

use etcd_client::{Client, GetOptions, Txn, TxnOp};

use super::keys::Keys;
use super::requests::request;
use super::{EtcdAddress, EtcdStore, MESSAGE_BYTES};
use crate::{Contents, Error, Result, Revision};

/// etcd refuses more than 128 operations and 1.5 MiB at once.
const OPERATIONS: usize = 100;
const BYTES: usize = 1 << 20;

/// What is there before the store is opened.
pub(super) struct Found {
    pub(super) base: Revision,
    pub(super) filling: bool,
}

pub(super) async fn look(client: &Client, keys: &Keys) -> Result<Found> {
    let mut kv = client.kv_client();
    let base = request("get", kv.get(keys.base_key(), None)).await?;
    let base = match base.kvs().first() {
        None => 0,
        Some(base) => {
            let number = base.value_str().ok().and_then(|text| text.parse().ok());
            number.ok_or_else(|| Error::Engine(format!("{} in etcd is no number", keys.base_key())))?
        }
    };
    let filling = request("get", kv.get(keys.filling_key(), None)).await?;
    Ok(Found { base, filling: !filling.kvs().is_empty() })
}

impl EtcdStore {
    /// Makes these the contents of the store; later revisions are above theirs. Refuses a store that has any
    /// unless `replace`. No server may use it meanwhile.
    pub async fn fill(address: &EtcdAddress, prefix: &str, contents: &Contents, replace: bool) -> Result<()> {
        let client = address.connect().await?;
        let keys = Keys::new(prefix);
        let found = look(&client, &keys).await.map_err(|error| address.refused(&error))?;
        let mut kv = client.kv_client().max_decoding_message_size(MESSAGE_BYTES);
        let (first, end) = keys.range("", None);
        let all = GetOptions::new().with_range(end.clone()).with_count_only();
        let counted = request("count", kv.get(first.clone(), Some(all))).await?;
        if counted.count() > 0 && !found.filling && !replace {
            return Err(Error::NotEmpty(format!("etcd at {address}")));
        }
        let base = found.base.max(contents.revision);
        let begin = Txn::new().and_then([
            TxnOp::put(keys.filling_key(), "", None),
            TxnOp::put(keys.base_key(), base.to_string(), None),
            TxnOp::delete(first, Some(etcd_client::DeleteOptions::new().with_range(end))),
        ]);
        request("clear", kv.txn(begin)).await?;
        let mut group = Vec::new();
        let mut bytes = 0;
        for (key, value) in &contents.entries {
            if group.len() >= OPERATIONS || (bytes + value.len() > BYTES && !group.is_empty()) {
                request("fill", kv.txn(Txn::new().and_then(std::mem::take(&mut group)))).await?;
                bytes = 0;
            }
            bytes += key.len() + value.len();
            group.push(TxnOp::put(keys.encode(key), value.to_vec(), None));
        }
        group.push(TxnOp::delete(keys.filling_key(), None));
        request("fill", kv.txn(Txn::new().and_then(group))).await.map(drop)
    }
}
