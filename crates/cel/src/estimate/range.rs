//! Between how much and how much: sizes and costs that are not known, but bounded.

/// Both ends included. Sums and products stop at the largest number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Estimate {
    pub min: u64,
    pub max: u64,
}

impl Estimate {
    pub const UNKNOWN: Estimate = Estimate { min: 0, max: u64::MAX };

    pub const fn exactly(amount: u64) -> Self {
        Estimate { min: amount, max: amount }
    }

    pub const fn between(min: u64, max: u64) -> Self {
        Estimate { min, max }
    }

    pub fn plus(self, other: Estimate) -> Self {
        Estimate { min: self.min.saturating_add(other.min), max: self.max.saturating_add(other.max) }
    }

    pub fn times(self, other: Estimate) -> Self {
        Estimate { min: self.min.saturating_mul(other.min), max: self.max.saturating_mul(other.max) }
    }

    /// Rounded up.
    pub fn scaled(self, factor: f64) -> Self {
        // Conversions of doubles stop at the largest number by themselves.
        let scale = |amount: u64| (amount as f64 * factor).ceil() as u64;
        Estimate { min: scale(self.min), max: scale(self.max) }
    }

    /// What holds whichever of the two it is.
    pub fn or(self, other: Estimate) -> Self {
        Estimate { min: self.min.min(other.min), max: self.max.max(other.max) }
    }
}
