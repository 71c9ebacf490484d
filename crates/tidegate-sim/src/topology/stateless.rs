//! What random jobs do with single records. Pure; the oracle uses the same functions.

use super::item::{Item, mix};

/// Records that a `flat_map` puts out for one, now and then.
pub const MANY: u64 = 40;

/// Another tag.
pub fn map(salt: u64, of: u64, item: &Item) -> Item {
    let tag = mix(item.tag, salt);
    Item {
        tag: if of == 0 { tag } else { mix(tag % of, salt) },
        ..item.clone()
    }
}

/// Whether a filter keeps it.
pub fn keeps(salt: u64, keep: u64, item: &Item) -> bool {
    mix(item.tag, salt) % 8 < keep
}

/// What a `flat_map` makes of it.
pub fn spread(salt: u64, most: u64, item: &Item) -> impl Iterator<Item = Item> + Send + use<> {
    let drawn = mix(item.tag, salt);
    let count = if drawn.is_multiple_of(97) {
        MANY
    } else {
        drawn % (most + 1)
    };
    let (n, at) = (item.n, item.at);
    (0..count).map(move |i| Item {
        tag: mix(drawn, i),
        n,
        at,
    })
}

/// Whether user code refuses it.
pub fn diverts(salt: u64, item: &Item) -> bool {
    mix(item.tag, salt).is_multiple_of(4)
}

/// Whether a keyed operator puts it aside.
pub fn goes_aside(salt: u64, item: &Item) -> bool {
    mix(item.tag, salt + 1).is_multiple_of(3)
}

/// What two records with equal keys make.
pub fn pair(salt: u64, left: &Item, right: &Item) -> Item {
    Item {
        tag: mix(mix(left.tag, salt), right.tag),
        n: left.n * right.n,
        at: left.at.max(right.at),
    }
}
