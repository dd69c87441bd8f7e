//! Exponentials of rows.

/// exp to two units in the last place, in operations that vectorise: 2^n times a polynomial of what is
/// left (Cephes `expf`).
#[inline(always)]
pub(super) fn exp(x: f32) -> f32 {
    // Beyond these the result is no normal number.
    let x = x.clamp(-87.3, 88.3);
    // Adding 1.5 * 2^23 rounds to an integer and leaves it in the low bits.
    let shifted = x * std::f32::consts::LOG2_E + 12_582_912.0;
    let n = shifted - 12_582_912.0;
    let r = x - n * 0.693_359_4 - n * -2.121_944_4e-4;
    let polynomial = ((((1.987_569_1e-4 * r + 1.398_199_9e-3) * r + 8.333_452e-3) * r + 4.166_579_6e-2) * r
        + 1.666_666_5e-1)
        * r
        + 0.5;
    let value = polynomial * r * r + r + 1.0;
    let power = f32::from_bits((shifted.to_bits() << 23).wrapping_add(0x3f80_0000));
    value * power
}
