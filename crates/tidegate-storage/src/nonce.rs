//! Nonces: what tells one leader's or writer's objects from another's.
//!
//! Nothing here reads the operating system: whoever starts a process seeds [`Nonces`] once (from the OS in
//! production, from the run's seed in the simulator) and hands it on. Two processes need different seeds; the
//! epoch and the create-only write guard what a nonce only makes cheap to recognise.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A number that nobody else drew.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Nonce(pub u64);

impl fmt::Display for Nonce {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl Nonce {
    /// Reads what `Display` wrote.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let plain = text.len() == 16
            && text
                .bytes()
                .all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
        plain
            .then(|| u64::from_str_radix(text, 16).ok().map(Self))
            .flatten()
    }
}

/// A source of nonces: SplitMix64 (Steele, Lea, Flood 2014), which visits every 64-bit number once per period,
/// so one source never repeats itself.
#[derive(Debug, Clone)]
pub struct Nonces {
    state: u64,
}

impl Nonces {
    /// The sequence that belongs to `seed`.
    pub fn seeded(seed: u64) -> Self {
        Self { state: seed }
    }

    /// The next one.
    pub fn draw(&mut self) -> Nonce {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        Nonce(z ^ (z >> 31))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn one_source_never_repeats_and_one_seed_gives_one_sequence() {
        let (mut a, mut b) = (Nonces::seeded(7), Nonces::seeded(7));
        let drawn: BTreeSet<_> = (0..10_000).map(|_| a.draw()).collect();
        assert_eq!(drawn.len(), 10_000);
        assert!((0..10_000).all(|_| drawn.contains(&b.draw())));
    }

    #[test]
    fn text_comes_back_and_nothing_else_is_taken() {
        let nonce = Nonce(0xab);
        assert_eq!(Nonce::parse(&nonce.to_string()), Some(nonce));
        for other in [
            "",
            "ab",
            "00000000000000AB",
            "+0000000000000ab",
            "00000000000000abc",
        ] {
            assert_eq!(Nonce::parse(other), None, "{other}");
        }
    }
}
