//! Objects without a controller may be adopted: they wake every owner that would take them.

use minik8s_runtime::{Key, Object, Selector, Watches, controller_of, key_of};

/// Wakes all owners of kind `O` in an orphan's namespace whose selector matches it.
pub fn wake_owners_of_orphans<K: Object, O: Object>(
    watches: &Watches<Key>,
    selector: impl Fn(&O) -> Selector + Send + Sync + 'static,
) {
    watches.needs::<O>();
    watches.on::<K>(move |caches, object| {
        let meta = object.meta();
        if controller_of(meta).is_some() || meta.deletion_timestamp.is_some() {
            return Vec::new();
        }
        let owners = caches.of::<O>().in_namespace(meta.namespace.as_deref().unwrap_or(""));
        let takers = owners.iter().filter(|owner| selector(owner).matches_object(meta));
        takers.map(|owner| key_of(&**owner)).collect()
    });
}
