//! Random numbers that are the same for the same seed, on every machine and in every version.

/// SplitMix64.
#[derive(Debug, Clone)]
pub struct Rng(u64);

impl Rng {
    pub fn new(seed: u64) -> Rng {
        Rng(seed)
    }

    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }

    /// Below the bound; 0 if that is 0.
    pub fn below(&mut self, bound: usize) -> usize {
        // No bound here is so large that the remainder would show.
        (self.next_u64() % (bound.max(1) as u64)) as usize
    }

    pub fn byte(&mut self) -> u8 {
        self.next_u64().to_le_bytes()[0]
    }

    /// One of them; there must be some.
    pub fn pick<'a, T: ?Sized>(&mut self, of: &[&'a T]) -> Option<&'a T> {
        let index = self.below(of.len());
        of.get(index).copied()
    }
}
