//! What a keyed state stores per key, and how that becomes bytes.
//!
//! Owns: [`Cell`], the contract between the kinds of state and the [`Core`] they share, and [`Plain`], the cell
//! of states with one value per key. Lists and maps have cells of their own (`list`, `map`).

use tidegate_types::codec::{CodecError, CodecErrorKind, Key, Record, TypeFormat, decode_as, encode_as};
use tidegate_types::snapshot::Encoding;

use crate::context::KeyContext;
use crate::core::Core;
use crate::cuts::Cuts;
use crate::describe::{Formats, TypeDescription, TypePart};
use crate::error::StatePlace;
use crate::keyed::Progress;
use crate::ttl::Ttl;

/// What stands in a slot beside the key.
pub(crate) trait Cell: Sized + Send {
    /// The formats of its types.
    type Formats: Send;
    /// Where cells that have grown too large for their block keep their content.
    type Store<K: Key>: Store<Self>;

    /// Works its formats out.
    fn formats(formats: &Formats) -> Self::Formats;

    /// Describes its types, in the order of a section's shapes behind the key.
    fn describe(formats: &Formats) -> Vec<TypeDescription>;

    /// Appends it. On an error the caller restores `out`.
    fn encode(&self, encoding: Encoding, out: &mut Vec<u8>) -> Result<(), CodecError>;

    /// Reads what [`Self::encode`] wrote. `None` if its content stands in parts.
    fn decode(encoding: Encoding, input: &mut &[u8]) -> Result<Option<Self>, CodecError>;

    /// Adds a stored part to a key's content; without entries only sees to it that there is a place for parts.
    fn restore_part<K: Key>(
        core: &mut Core<K, Self>,
        at: KeyContext<'_, K>,
        part: StoredPart<'_, '_>,
    ) -> Result<(), CodecError>;

    /// It was found to be large when it was encoded: the next write takes it apart.
    fn outgrown(&mut self) {}

    /// Checks that values survive an encoding, by looking at the first ever.
    fn check(&self, encoding: Encoding, formats: &Self::Formats) -> Result<(), CodecError>;

    /// Where its content is, if that has blocks of its own.
    fn apart(&self) -> Option<u32> {
        None
    }
}

/// A stored part of one key's content.
pub(crate) struct StoredPart<'a, 'b> {
    pub(crate) ordinal: u32,
    pub(crate) entries: u32,
    pub(crate) encoding: Encoding,
    pub(crate) input: &'a mut &'b [u8],
}

/// What a sweep of a store is told.
pub(crate) struct StoreContext<'a> {
    pub(crate) cuts: &'a mut Cuts,
    pub(crate) place: &'a StatePlace,
    pub(crate) ttl: Option<Ttl>,
}

/// The content of cells that have blocks of their own.
pub(crate) trait Store<C>: Send + Default {
    /// A cell is gone; what it had apart stays until no cut wants it.
    fn dispose(&mut self, cell: C, cuts: &Cuts);

    /// The time at which a cell was last touched.
    fn touch(&mut self, apart: u32, stamp_ms: i64);

    /// Preserves what open cuts are owed; goes on where it stopped.
    fn sweep(&mut self, context: StoreContext<'_>, more: &mut dyn FnMut() -> bool) -> Progress;

    /// A lap of the sweep begins.
    fn restart(&mut self);

    /// No cut is open.
    fn idle(&mut self);

    /// Memory held.
    fn memory_bytes(&self) -> u64;
}

/// The store of cells that are never apart.
#[derive(Debug, Default)]
pub(crate) struct NoStore;

impl<C> Store<C> for NoStore {
    fn dispose(&mut self, cell: C, _: &Cuts) {
        drop(cell);
    }

    fn touch(&mut self, _: u32, _: i64) {}

    fn sweep(&mut self, _: StoreContext<'_>, _: &mut dyn FnMut() -> bool) -> Progress {
        Progress::Done
    }

    fn restart(&mut self) {}

    fn idle(&mut self) {}

    fn memory_bytes(&self) -> u64 {
        0
    }
}

/// One value.
pub(crate) struct Plain<V>(pub(crate) V);

impl<V: Record> Cell for Plain<V> {
    type Formats = TypeFormat<V>;
    type Store<K: Key> = NoStore;

    fn formats(formats: &Formats) -> TypeFormat<V> {
        formats.of()
    }

    fn describe(formats: &Formats) -> Vec<TypeDescription> {
        vec![TypeDescription::of::<V>(TypePart::Value, formats)]
    }

    #[inline]
    fn encode(&self, encoding: Encoding, out: &mut Vec<u8>) -> Result<(), CodecError> {
        encode_as(encoding, &self.0, out)
    }

    fn decode(encoding: Encoding, input: &mut &[u8]) -> Result<Option<Self>, CodecError> {
        Ok(Some(Self(decode_as(encoding, input)?)))
    }

    fn restore_part<K: Key>(
        _: &mut Core<K, Self>,
        _: KeyContext<'_, K>,
        _: StoredPart<'_, '_>,
    ) -> Result<(), CodecError> {
        Err(invalid("this kind of state has no parts"))
    }

    fn check(&self, encoding: Encoding, formats: &TypeFormat<V>) -> Result<(), CodecError> {
        formats.check_first(encoding, &self.0)
    }
}

/// Bytes that no cell encodes to.
pub(crate) fn invalid(what: &str) -> CodecError {
    CodecErrorKind::InvalidValue(what.into()).into()
}

/// The input ends within a number.
pub(crate) fn truncated(needed: u64, input: &[u8]) -> CodecError {
    CodecErrorKind::Truncated {
        needed,
        available: input.len() as u64,
    }
    .into()
}

/// Stands for an attempt at native encoding that was never made.
pub(crate) fn not_native() -> CodecError {
    CodecErrorKind::NotNative("canonical was asked for".into()).into()
}
