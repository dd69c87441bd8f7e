use rand_mt::Mt;

/// `random.Random`: the Mersenne Twister MT19937, seeded and drawn from as CPython does.
pub struct Random(Mt);

impl Random {
    /// `random.seed(seed)` with a whole number: its 32-bit digits, lowest first, are the key.
    pub fn seeded(seed: u64) -> Self {
        let (low, high) = (seed as u32, (seed >> 32) as u32);
        let digits = if high == 0 { 1 } else { 2 };
        Self(Mt::new_with_key([low, high].into_iter().take(digits)))
    }

    /// `random.shuffle(values)`.
    pub fn shuffle<T>(&mut self, values: &mut [T]) {
        for last in (1..values.len()).rev() {
            let other = self.below(last as u64 + 1);
            values.swap(last, other as usize);
        }
    }

    /// `_randbelow(bound)`: as many bits as the bound has, drawn until they are below it.
    fn below(&mut self, bound: u64) -> u64 {
        let bits = u64::BITS - bound.leading_zeros();
        loop {
            let drawn = self.bits(bits);
            if drawn < bound {
                return drawn;
            }
        }
    }

    /// `getrandbits(bits)` for 1 to 64 bits: words of 32, lowest first, the last cut to its upper bits.
    fn bits(&mut self, bits: u32) -> u64 {
        let mut word = |bits: u32| u64::from(self.0.next_u32() >> (32 - bits));
        if bits <= 32 { word(bits) } else { word(32) | word(bits - 32) << 32 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shuffled(seed: u64, count: u32) -> Vec<u32> {
        let mut values: Vec<u32> = (0..count).collect();
        Random::seeded(seed).shuffle(&mut values);
        values
    }

    #[test]
    fn shuffles_equal_those_of_cpython() {
        // CPython 3.11: random.seed(SEED); random.shuffle(list(range(COUNT)))
        assert_eq!(shuffled(42, 0), [0; 0]);
        assert_eq!(shuffled(42, 1), [0]);
        assert_eq!(shuffled(42, 10), SEED_42);
        assert_eq!(shuffled(0, 10), SEED_0);
        assert_eq!(shuffled((7 << 32) + 5, 10), SEED_OF_TWO_WORDS);
        // As many rows as the release trains on.
        let rows = shuffled(42, 97_000);
        let sum = rows.iter().fold(0u64, |sum, &row| sum.wrapping_mul(31).wrapping_add(u64::from(row)));
        assert_eq!(sum, SUM_OF_97_000);
    }

    const SEED_42: [u32; 10] = [7, 3, 2, 8, 5, 6, 9, 4, 0, 1];
    const SEED_0: [u32; 10] = [7, 8, 1, 5, 3, 4, 2, 0, 9, 6];
    const SEED_OF_TWO_WORDS: [u32; 10] = [9, 4, 7, 1, 3, 8, 0, 6, 2, 5];
    const SUM_OF_97_000: u64 = 10_692_813_690_421_577_880;
}
