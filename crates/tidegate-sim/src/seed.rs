//! Randomness: one seed, a tree of named child seeds, and a small generator.
//!
//! A child seed depends on its name only, so that a new consumer of randomness doesn't shift the others' numbers: an
//! old seed goes on showing the fault it was kept for. The generator is xoshiro256** (Blackman, Vigna 2018), seeded
//! by SplitMix64 as its authors advise; both give the same numbers on every platform.

/// A node of the seed tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seed(pub u64);

fn split_mix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

impl Seed {
    /// The child with this name.
    #[must_use]
    pub fn child(self, name: &str) -> Self {
        let mut state = self.0;
        for byte in name.bytes() {
            state = split_mix(&mut state) ^ u64::from(byte);
        }
        Self(split_mix(&mut state))
    }

    /// The child with this number.
    #[must_use]
    pub fn nth(self, number: u64) -> Self {
        let mut state = self.0 ^ number.wrapping_mul(0xd6e8_feb8_6659_fd93);
        Self(split_mix(&mut state))
    }

    /// A generator that begins here.
    pub fn rng(self) -> Rng {
        let mut state = self.0;
        Rng {
            s: std::array::from_fn(|_| split_mix(&mut state)),
        }
    }
}

/// A generator.
#[derive(Debug, Clone)]
pub struct Rng {
    s: [u64; 4],
}

impl Rng {
    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        let result = self.s[1].wrapping_mul(5).rotate_left(7).wrapping_mul(9);
        let t = self.s[1] << 17;
        self.s[2] ^= self.s[0];
        self.s[3] ^= self.s[1];
        self.s[1] ^= self.s[2];
        self.s[0] ^= self.s[3];
        self.s[2] ^= t;
        self.s[3] = self.s[3].rotate_left(45);
        result
    }

    /// A number below `n`; 0 if `n` is 0. The bias of at most `n / 2^64` doesn't matter here.
    pub fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.bits()) * u128::from(n)) >> 64) as u64
    }

    /// An index into a list of `len`.
    pub fn index(&mut self, len: usize) -> usize {
        self.below(len as u64) as usize
    }

    /// A number from `low` to `high`, both included.
    pub fn range(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high.saturating_sub(low) + 1)
    }

    /// True `n` times in `of`.
    pub fn chance(&mut self, n: u64, of: u64) -> bool {
        n > 0 && self.below(of) < n
    }

    /// One of these.
    ///
    /// # Panics
    /// If there are none.
    pub fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.index(of.len())]
    }

    /// An index, by weight. `None` if all weights are 0.
    pub fn weighted(&mut self, weights: &[u64]) -> Option<usize> {
        let total: u64 = weights.iter().sum();
        if total == 0 {
            return None;
        }
        let mut at = self.below(total);
        weights.iter().position(|w| {
            let here = at < *w;
            at = at.wrapping_sub(*w);
            here
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn children_depend_on_their_names_only() {
        let seed = Seed(7);
        assert_eq!(seed.child("store"), Seed(7).child("store"));
        assert_ne!(seed.child("store"), seed.child("stores"));
        assert_ne!(seed.child("a").child("b"), seed.child("ab"));
        assert_ne!(seed.nth(1), seed.nth(2));
    }

    #[test]
    fn numbers_are_pinned() {
        // Kept seeds must show on every platform and for ever what they were kept for.
        let mut rng = Seed(42).rng();
        let drawn: Vec<u64> = (0..3).map(|_| rng.bits()).collect();
        assert_eq!(
            drawn,
            [
                1_546_998_764_402_558_742,
                6_990_951_692_964_543_102,
                12_544_586_762_248_559_009
            ]
        );
    }

    #[test]
    fn draws_stay_in_their_bounds_and_reach_them() {
        let mut rng = Seed(1).rng();
        let drawn: Vec<u64> = (0..1000).map(|_| rng.range(3, 5)).collect();
        assert!(drawn.iter().all(|n| (3..=5).contains(n)));
        assert!([3, 4, 5].iter().all(|n| drawn.contains(n)));
        assert_eq!(rng.weighted(&[0, 0]), None);
        assert!((0..100).all(|_| rng.weighted(&[0, 5, 0]) == Some(1)));
        assert!(!rng.chance(0, 10) && rng.chance(10, 10));
    }
}
