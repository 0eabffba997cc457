//! Pseudorandom numbers, the same in every run with the same seed.

/// A small generator (xorshift64): fast and repeatable, and good for nothing else.
#[derive(Clone, Debug)]
pub(crate) struct Dice(u64);

impl Dice {
    /// Returns a generator; every seed gives a sequence of its own.
    pub(crate) fn new(seed: u64) -> Dice {
        Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// Returns a number below `limit`, which must not be 0.
    pub(crate) fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from((self.0 >> 11) % u64::try_from(limit.max(1)).unwrap_or(1)).unwrap_or(0)
    }

    /// Returns true in `percent` of 100 calls.
    pub(crate) fn hits(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    /// Returns one of a list, none of an empty one.
    pub(crate) fn pick<'a, T>(&mut self, of: &'a [T]) -> Option<&'a T> {
        if of.is_empty() { None } else { of.get(self.below(of.len())) }
    }
}
