//! The order of a merged list.
//!
//! Elements that the patch (or its `$setElementOrder`) names come in that order. Elements that only the
//! server has keep their own order and are woven in: each goes before the first named element that stood
//! after it on the server.

use std::collections::HashMap;

use serde_json::Value;

use super::list::identity;

/// Sorts `list` by `wanted`; `server` is the order before the patch.
pub(super) fn arrange(
    list: &mut Vec<Value>,
    key: Option<&str>,
    wanted: &[String],
    server: &[Option<String>],
) {
    let wanted_at = first_places(wanted.iter().map(Some));
    let server_at = first_places(server.iter().map(Option::as_ref));
    let mut named = Vec::new();
    let mut server_only = Vec::new();
    for item in std::mem::take(list) {
        let id = identity(&item, key);
        let place = id.as_deref().and_then(|id| server_at.get(id)).copied();
        match id.as_deref().and_then(|id| wanted_at.get(id)) {
            Some(rank) => named.push((*rank, place, item)),
            None => server_only.push((place, item)),
        }
    }
    named.sort_by_key(|(rank, _, _)| *rank);
    let mut server_only = server_only.into_iter().peekable();
    for (_, place, item) in named {
        while let Some(next) =
            server_only.next_if(|(own, _)| own.is_some() && place.is_some() && *own < place)
        {
            list.push(next.1);
        }
        list.push(item);
    }
    list.extend(server_only.map(|(_, item)| item));
}

fn first_places<'a>(ids: impl Iterator<Item = Option<&'a String>>) -> HashMap<&'a str, usize> {
    let mut places = HashMap::new();
    for (place, id) in ids.enumerate() {
        if let Some(id) = id {
            places.entry(id.as_str()).or_insert(place);
        }
    }
    places
}
