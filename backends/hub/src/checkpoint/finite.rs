//! Values that are NaN or infinite.

use safetensors::Dtype;

/// Whether all little-endian numbers are finite: none has all bits of the exponent set. Of other types than f32, bf16 and
/// f16 every value is.
pub fn all_finite(dtype: Dtype, data: &[u8]) -> bool {
    // Without an early end, these loops are vectorised.
    let two = |exponent: u16| {
        let special = |bytes: &[u8; 2]| u16::from_le_bytes(*bytes) & exponent == exponent;
        !data.as_chunks::<2>().0.iter().fold(false, |found, bytes| found | special(bytes))
    };
    let four = |exponent: u32| {
        let special = |bytes: &[u8; 4]| u32::from_le_bytes(*bytes) & exponent == exponent;
        !data.as_chunks::<4>().0.iter().fold(false, |found, bytes| found | special(bytes))
    };
    match dtype {
        Dtype::BF16 => two(0x7f80),
        Dtype::F16 => two(0x7c00),
        Dtype::F32 => four(0x7f80_0000),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use half::{bf16, f16};

    use super::*;

    #[test]
    fn nan_and_infinity_are_found_in_every_type() {
        let f32s = |last: f32| [f32::MAX, f32::MIN_POSITIVE, last].map(f32::to_le_bytes).concat();
        let bf16s = |last: f32| [bf16::MAX, bf16::from_f32(last)].map(bf16::to_le_bytes).concat();
        let f16s = |last: f32| [f16::MAX, f16::from_f32(last)].map(f16::to_le_bytes).concat();
        for last in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            assert!(!all_finite(Dtype::F32, &f32s(last)));
            assert!(!all_finite(Dtype::BF16, &bf16s(last)));
            assert!(!all_finite(Dtype::F16, &f16s(last)));
        }
        assert!(all_finite(Dtype::F32, &f32s(-0.0)));
        assert!(all_finite(Dtype::BF16, &bf16s(-0.0)));
        assert!(all_finite(Dtype::F16, &f16s(-0.0)));
        assert!(all_finite(Dtype::I32, &[0xff; 8]));
    }
}
