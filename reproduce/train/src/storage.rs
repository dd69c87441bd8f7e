//! Values behind a tensor.

use candle_core::{CpuStorage, Layout, Result, Storage};

/// The values of a contiguous tensor, of its storage on the CPU.
pub(crate) fn values<'a>(storage: &'a CpuStorage, layout: &Layout) -> Result<&'a [f32]> {
    let Some((start, end)) = layout.contiguous_offsets() else {
        candle_core::bail!("a kernel got values that are not contiguous")
    };
    Ok(&storage.as_slice::<f32>()?[start..end])
}

/// The values of a contiguous tensor on the CPU.
pub(crate) fn host<'a>(storage: &'a Storage, layout: &Layout) -> Result<&'a [f32]> {
    let Storage::Cpu(storage) = storage else { candle_core::bail!("values are not on the CPU") };
    values(storage, layout)
}
