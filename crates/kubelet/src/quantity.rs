//! Kubernetes quantities as the whole numbers that limits and sizes are set with. [`Quantity`] reads them.

use minik8s_meta::Quantity;

/// In whole units, rounded up: bytes, counts.
pub fn value(text: &str) -> Option<i64> {
    Quantity::parse(text).ok().map(|quantity| quantity.value())
}

/// In thousandths, rounded up: cpu.
pub fn milli(text: &str) -> Option<i64> {
    Quantity::parse(text).ok().map(|quantity| quantity.milli())
}
