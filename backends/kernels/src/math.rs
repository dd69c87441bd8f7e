//! Functions of one value that vectorise.

/// exp to two units in the last place, clamped to normal numbers: 2^n times a polynomial of the remainder
/// (Cephes `expf`).
#[inline(always)]
pub(crate) fn exp(x: f32) -> f32 {
    // Outside of these the result is subnormal, infinite or NaN.
    let x = x.clamp(-87.3, 88.3);
    // Adding 1.5 * 2^23 rounds to an integer and leaves it in the low bits.
    let shifted = x.mul_add(std::f32::consts::LOG2_E, 12_582_912.0);
    let n = shifted - 12_582_912.0;
    let r = n.mul_add(2.121_944_4e-4, n.mul_add(-0.693_359_4, x));
    let polynomial = 1.987_569_1e-4f32
        .mul_add(r, 1.398_199_9e-3)
        .mul_add(r, 8.333_452e-3)
        .mul_add(r, 4.166_579_6e-2)
        .mul_add(r, 1.666_666_5e-1)
        .mul_add(r, 0.5);
    let value = polynomial.mul_add(r * r, r) + 1.0;
    let power = f32::from_bits((shifted.to_bits() << 23).wrapping_add(0x3f80_0000));
    value * power
}

/// Replaces x by exp(x - max) and returns the sum.
#[inline(always)]
pub(crate) fn exp_and_sum(values: &mut [f32], max: f32) -> f32 {
    let mut sums = [0.0f32; 16];
    let mut chunks = values.chunks_exact_mut(16);
    for chunk in &mut chunks {
        for lane in 0..16 {
            chunk[lane] = exp(chunk[lane] - max);
            sums[lane] += chunk[lane];
        }
    }
    let mut sum = 0.0;
    for value in chunks.into_remainder() {
        *value = exp(*value - max);
        sum += *value;
    }
    sum + sums.iter().sum::<f32>()
}

/// Cumulative distribution function of the standard normal distribution, within 3e-7.
///
/// erf is the rational function that Eigen and XLA use for f32.
#[inline(always)]
pub(crate) fn normal_cdf(x: f32) -> f32 {
    const NUMERATOR: [f32; 7] = [
        -2.726_142_3e-10, 2.770_681_4e-8, -2.101_024_1e-6, -5.692_506_4e-5, -7.349_906_3e-4, -2.954_6e-3,
        -1.609_603_3e-2,
    ];
    const DENOMINATOR: [f32; 5] =
        [-1.456_607_2e-5, -2.133_740_6e-4, -1.682_827e-3, -7.373_329_2e-3, -1.426_473_9e-2];
    let z = (x * std::f32::consts::FRAC_1_SQRT_2).clamp(-4.0, 4.0);
    let square = z * z;
    let (mut numerator, mut denominator) = (NUMERATOR[0], DENOMINATOR[0]);
    // No closures: one that is not inlined would be compiled without the vector instructions.
    for coefficient in &NUMERATOR[1..] {
        numerator = numerator.mul_add(square, *coefficient);
    }
    for coefficient in &DENOMINATOR[1..] {
        denominator = denominator.mul_add(square, *coefficient);
    }
    0.5 + 0.5 * z * numerator / denominator
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exp_is_within_two_units_in_the_last_place() {
        for number in 0..100_000 {
            let x = -(number as f32) / 1000.0;
            let expected = f64::from(x).exp();
            let error = (f64::from(exp(x)) - expected).abs();
            assert!(error <= 2.5e-7 * expected || x < -87.0, "{x}: {} {expected}", exp(x));
        }
    }
}
