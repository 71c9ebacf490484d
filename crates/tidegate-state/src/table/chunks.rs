//! The memory of blocks: chunks of raw bytes, aligned to 2 MiB pages once a table is large.
//!
//! Owns: allocation and its growth. Does not own: what is in a block. A table starts with room for one block, so that
//! an operator with many small states stays small; the first chunk grows by copying up to half a megabyte and becomes
//! a full chunk then; after that nothing is ever copied. Large pages matter: with small ones the table of ten million
//! keys costs a page walk an access.

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::ptr::NonNull;

const HUGE_PAGE_BYTES: usize = 2 << 20;
/// The first chunk grows by copying until it is this large; what is copied at once stays below.
const SMALL_CHUNK_BYTES: usize = 512 * 1024;

pub(super) const fn align_up(value: usize, to: usize) -> usize {
    value.div_ceil(to) * to
}

/// The memory of blocks: one growing chunk while the table is small, then chunks of equal size.
pub(super) struct Chunks {
    starts: Vec<NonNull<u8>>,
    layouts: Vec<Layout>,
    /// Blocks that the only chunk has room for, as long as there is only one.
    first_capacity: u32,
    /// A full chunk has `1 << shift` blocks.
    shift: u32,
    align: usize,
    stride_bytes: usize,
    bytes: u64,
}

impl Chunks {
    pub(super) fn new(stride_bytes: usize, align: usize) -> Self {
        Self {
            starts: Vec::new(),
            layouts: Vec::new(),
            first_capacity: 0,
            shift: chunk_shift(stride_bytes),
            align,
            stride_bytes,
            bytes: 0,
        }
    }

    /// Where a block begins.
    ///
    /// # Safety
    /// `reserve` must have been called for this block.
    #[inline]
    pub(super) unsafe fn block(&self, block: u32) -> NonNull<u8> {
        let start = self.starts[(block >> self.shift) as usize];
        let within = block as usize & ((1 << self.shift) - 1);
        // SAFETY: a chunk has room for all blocks up to the one last reserved in it.
        unsafe { start.add(within * self.stride_bytes) }
    }

    /// Makes room for block number `len`, the one after the last.
    pub(super) fn reserve(&mut self, len: u32) {
        let full = 1u32 << self.shift;
        if len >= full {
            if (len >> self.shift) as usize == self.starts.len() {
                let chunk = self.allocate(full);
                self.add(chunk);
            }
            return;
        }
        if len < self.first_capacity {
            return;
        }
        let mut capacity = (self.first_capacity * 4).clamp(1, full);
        if capacity as usize * self.stride_bytes > SMALL_CHUNK_BYTES {
            capacity = full;
        }
        let grown = self.allocate(capacity);
        if let Some((old, layout)) = self.starts.pop().zip(self.layouts.pop()) {
            let used = self.first_capacity as usize * self.stride_bytes;
            // SAFETY: both are at least `used` long and distinct; entries are moved bitwise and the old memory
            // is released without dropping them. No reference into it exists: `&mut self` comes from `push`.
            unsafe { std::ptr::copy_nonoverlapping(old.as_ptr(), grown.0.as_ptr(), used) };
            self.release(old, layout);
        }
        self.add(grown);
        self.first_capacity = capacity;
    }

    fn add(&mut self, (memory, layout): (NonNull<u8>, Layout)) {
        self.starts.push(memory);
        self.layouts.push(layout);
    }

    /// Memory held for `len` blocks: allocated, without the pages of the last chunk that were never touched.
    pub(super) fn bytes(&self, len: u32) -> u64 {
        let touched = align_up(len as usize * self.stride_bytes, HUGE_PAGE_BYTES) as u64;
        self.bytes.min(touched)
    }

    fn allocate(&mut self, blocks: u32) -> (NonNull<u8>, Layout) {
        let bytes = blocks as usize * self.stride_bytes;
        let huge = bytes >= HUGE_PAGE_BYTES;
        let (size, align) = match huge {
            true => (align_up(bytes, HUGE_PAGE_BYTES), HUGE_PAGE_BYTES.max(self.align)),
            false => (bytes, self.align),
        };
        let layout = Layout::from_size_align(size, align).expect("a chunk is at most tens of megabytes");
        // SAFETY: a block has groups, so the size isn't 0.
        let memory = unsafe { alloc(layout) };
        let Some(memory) = NonNull::new(memory) else {
            handle_alloc_error(layout)
        };
        if huge {
            advise_huge_pages(memory, size);
        }
        self.bytes += size as u64;
        (memory, layout)
    }

    fn release(&mut self, memory: NonNull<u8>, layout: Layout) {
        self.bytes -= layout.size() as u64;
        // SAFETY: it was allocated with this layout and its owner gave it up.
        unsafe { dealloc(memory.as_ptr(), layout) };
    }
}

impl Drop for Chunks {
    fn drop(&mut self) {
        while let Some((memory, layout)) = self.starts.pop().zip(self.layouts.pop()) {
            self.release(memory, layout);
        }
    }
}

/// How many blocks make a chunk (as a power of two) that wastes at most a sixteenth of its 2 MiB pages.
fn chunk_shift(stride_bytes: usize) -> u32 {
    let mut shift = (HUGE_PAGE_BYTES / stride_bytes).max(1).ilog2();
    loop {
        let bytes = stride_bytes << shift;
        let pages = align_up(bytes, HUGE_PAGE_BYTES);
        if bytes >= HUGE_PAGE_BYTES && (pages - bytes <= bytes / 16 || bytes >= 16 * HUGE_PAGE_BYTES) {
            return shift;
        }
        shift += 1;
    }
}

#[cfg(all(target_os = "linux", not(miri)))]
fn advise_huge_pages(memory: NonNull<u8>, bytes: usize) {
    // SAFETY: the range was just allocated and belongs to us whole; the advice doesn't change its content. A
    // refusal (a kernel without huge pages) only costs speed.
    unsafe { libc::madvise(memory.as_ptr().cast(), bytes, libc::MADV_HUGEPAGE) };
}

#[cfg(not(all(target_os = "linux", not(miri))))]
fn advise_huge_pages(_: NonNull<u8>, _: usize) {}
