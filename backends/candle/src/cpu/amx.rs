//! The matrix units of newer Intel servers (AMX, bfloat16) with the precision of f32.
//!
//! A f32 value is the sum of three bfloat16 values, to the bit. A product of such sums, without the
//! terms below the last bit of f32, takes six products of the unit (three where one side is bfloat16
//! to begin with), each accumulated in f32, and is still faster than the vector units.

#![allow(unsafe_code)]

#[cfg(target_arch = "x86_64")]
use std::arch::asm;
use std::cell::Cell;
use std::marker::PhantomData;
use std::sync::OnceLock;

use half::bf16;

/// Rows and columns of a tile; a tile holds 16 by 32 bfloat16 or 16 by 16 f32 values.
pub const SIDE: usize = 16;
/// Elements along the inner axis per tile.
pub const STEP: usize = 32;
/// Elements of a bfloat16 tile.
pub const TILE: usize = SIDE * STEP;

thread_local! {
    /// Whether this thread's tiles are configured.
    static CONFIGURED: Cell<bool> = const { Cell::new(false) };
}

/// Whether this machine has the units and the system lets us use them. `PARAVT_NO_AMX` in the environment turns them
/// off: for comparing the paths of a machine that has both.
pub fn is_available() -> bool {
    static AVAILABLE: OnceLock<bool> = OnceLock::new();
    *AVAILABLE.get_or_init(detect)
}

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
fn detect() -> bool {
    if std::env::var_os("PARAVT_NO_AMX").is_some() || !std::is_x86_feature_detected!("avx512f") {
        return false;
    }
    let leaf = std::arch::x86_64::__cpuid_count(7, 0);
    let (tile, bf16) = (1 << 24, 1 << 22);
    if leaf.edx & (tile | bf16) != tile | bf16 {
        return false;
    }
    // Linux hands out the tiles' state on request: arch_prctl(ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA).
    let result: i64;
    // SAFETY: a system call that changes nothing but this process's permission to use tiles.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") 158_i64 => result,
            in("rdi") 0x1023_i64,
            in("rsi") 18_i64,
            lateout("rcx") _,
            lateout("r11") _,
        );
    }
    result == 0
}

#[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
fn detect() -> bool {
    false
}

/// The three bfloat16 values that add up to a f32 value.
#[inline(always)]
pub fn split(value: f32) -> [bf16; 3] {
    let first = round(value);
    let rest = value - widen(first);
    let second = round(rest);
    [first, second, round(rest - widen(second))].map(bf16::from_bits)
}

/// Whether [`split`] is exact for all values: infinities and NaN have no second piece, and what is more than the
/// largest bfloat16 rounds up to infinity.
pub fn can_split(values: &[f32]) -> bool {
    // A fold, not `all`: loops that vectorise.
    values.iter().fold(true, |all, value| all & (value.abs() <= LARGEST))
}

/// The largest finite bfloat16.
const LARGEST: f32 = f32::from_bits(0x7f7f_0000);

/// To the nearest bfloat16, ties to even; of values that [`can_split`] allows.
#[inline(always)]
pub fn round(value: f32) -> u16 {
    let bits = value.to_bits();
    (bits.wrapping_add(0x7fff + ((bits >> 16) & 1)) >> 16) as u16
}

/// The value of a bfloat16.
#[inline(always)]
pub fn widen(bits: u16) -> f32 {
    f32::from_bits(u32::from(bits) << 16)
}

/// How many bfloat16 pieces each side of a product has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pieces {
    /// Of the left side.
    pub left: usize,
    /// Of the right side.
    pub right: usize,
}

/// Makes this thread's tiles ready; they are given back when dropped. Tiles are registers: they stay on their thread,
/// and a thread has them once.
pub struct Tiles(PhantomData<*mut ()>);

impl Tiles {
    /// # Panics
    /// Without the units, or while this thread has tiles already.
    pub fn new() -> Self {
        assert!(is_available() && !CONFIGURED.replace(true));
        #[repr(C, align(64))]
        struct Config {
            palette: u8,
            start_row: u8,
            reserved: [u8; 14],
            row_bytes: [u16; 16],
            rows: [u8; 16],
        }
        let mut config =
            Config { palette: 1, start_row: 0, reserved: [0; 14], row_bytes: [0; 16], rows: [0; 16] };
        config.row_bytes[..8].fill(64);
        config.rows[..8].fill(SIDE as u8);
        // SAFETY: the units are there and permitted (asserted above); the configuration is whole.
        #[cfg(target_arch = "x86_64")]
        unsafe {
            asm!("ldtilecfg [{}]", in(reg) &config, options(nostack, readonly));
        }
        Self(PhantomData)
    }

    /// 32 by 32 products: `left` is `steps` times (pieces, 2 tiles), `right` the same, transposed in
    /// pairs. Written to `out`, row by row.
    ///
    /// # Panics
    /// Panels too short for the steps.
    pub fn multiply(
        &self,
        left: &[bf16],
        right: &[bf16],
        pieces: Pieces,
        steps: usize,
        out: &mut [f32; 1024],
    ) {
        assert!(
            left.len() >= steps * pieces.left * 2 * TILE && right.len() >= steps * pieces.right * 2 * TILE
        );
        assert!(steps > 0);
        // SAFETY: the panels are long enough for the steps (asserted above), `out` for four tiles, and
        // this thread's tiles are configured.
        #[cfg(target_arch = "x86_64")]
        unsafe {
            match (pieces.left, pieces.right) {
                (1, 1) => one(left.as_ptr(), right.as_ptr(), steps, out.as_mut_ptr()),
                (3, 1) => three(left.as_ptr(), right.as_ptr(), steps, out.as_mut_ptr()),
                (3, 3) => six(left.as_ptr(), right.as_ptr(), steps, out.as_mut_ptr()),
                _ => unreachable!("pieces of {pieces:?}"),
            }
        }
    }
}

impl Drop for Tiles {
    fn drop(&mut self) {
        CONFIGURED.set(false);
        // SAFETY: gives back what `new` configured.
        #[cfg(target_arch = "x86_64")]
        unsafe {
            asm!("tilerelease", options(nomem, nostack));
        }
    }
}

/// Loads a pair of tiles and multiplies; `$l` and `$r` are byte offsets, empty where loaded already.
macro_rules! kernel {
    ($name:ident, $left:literal, $right:literal, $($line:literal),+ $(,)?) => {
        #[cfg(target_arch = "x86_64")]
        unsafe fn $name(left: *const bf16, right: *const bf16, steps: usize, out: *mut f32) {
            // SAFETY: see `Tiles::multiply`.
            unsafe {
                asm!(
                    "tilezero tmm0", "tilezero tmm1", "tilezero tmm2", "tilezero tmm3",
                    "2:",
                    $($line,)+
                    concat!("add {l}, ", $left),
                    concat!("add {r}, ", $right),
                    "dec {n}",
                    "jnz 2b",
                    "tilestored [{o} + {s}*2], tmm0",
                    "tilestored [{o} + {s}*2 + 64], tmm1",
                    "tilestored [{o} + {s}*2 + 2048], tmm2",
                    "tilestored [{o} + {s}*2 + 2112], tmm3",
                    l = inout(reg) left => _,
                    r = inout(reg) right => _,
                    n = inout(reg) steps => _,
                    o = in(reg) out,
                    s = in(reg) 64_usize,
                    out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
                    out("tmm4") _, out("tmm5") _, out("tmm6") _, out("tmm7") _,
                    options(nostack),
                );
            }
        }
    };
}

kernel!(
    one,
    "2048",
    "2048",
    "tileloadd tmm4, [{l} + {s}*1]",
    "tileloadd tmm5, [{l} + {s}*1 + 1024]",
    "tileloadd tmm6, [{r} + {s}*1]",
    "tileloadd tmm7, [{r} + {s}*1 + 1024]",
    "tdpbf16ps tmm0, tmm4, tmm6",
    "tdpbf16ps tmm1, tmm4, tmm7",
    "tdpbf16ps tmm2, tmm5, tmm6",
    "tdpbf16ps tmm3, tmm5, tmm7",
);

kernel!(
    three,
    "6144",
    "2048",
    "tileloadd tmm6, [{r} + {s}*1]",
    "tileloadd tmm7, [{r} + {s}*1 + 1024]",
    "tileloadd tmm4, [{l} + {s}*1 + 4096]",
    "tileloadd tmm5, [{l} + {s}*1 + 5120]",
    "tdpbf16ps tmm0, tmm4, tmm6",
    "tdpbf16ps tmm1, tmm4, tmm7",
    "tdpbf16ps tmm2, tmm5, tmm6",
    "tdpbf16ps tmm3, tmm5, tmm7",
    "tileloadd tmm4, [{l} + {s}*1 + 2048]",
    "tileloadd tmm5, [{l} + {s}*1 + 3072]",
    "tdpbf16ps tmm0, tmm4, tmm6",
    "tdpbf16ps tmm1, tmm4, tmm7",
    "tdpbf16ps tmm2, tmm5, tmm6",
    "tdpbf16ps tmm3, tmm5, tmm7",
    "tileloadd tmm4, [{l} + {s}*1]",
    "tileloadd tmm5, [{l} + {s}*1 + 1024]",
    "tdpbf16ps tmm0, tmm4, tmm6",
    "tdpbf16ps tmm1, tmm4, tmm7",
    "tdpbf16ps tmm2, tmm5, tmm6",
    "tdpbf16ps tmm3, tmm5, tmm7",
);

kernel!(
    six,
    "6144",
    "6144",
    // third by first
    "tileloadd tmm6, [{r} + {s}*1]",
    "tileloadd tmm7, [{r} + {s}*1 + 1024]",
    "tileloadd tmm4, [{l} + {s}*1 + 4096]",
    "tileloadd tmm5, [{l} + {s}*1 + 5120]",
    "tdpbf16ps tmm0, tmm4, tmm6",
    "tdpbf16ps tmm1, tmm4, tmm7",
    "tdpbf16ps tmm2, tmm5, tmm6",
    "tdpbf16ps tmm3, tmm5, tmm7",
    // second by first
    "tileloadd tmm4, [{l} + {s}*1 + 2048]",
    "tileloadd tmm5, [{l} + {s}*1 + 3072]",
    "tdpbf16ps tmm0, tmm4, tmm6",
    "tdpbf16ps tmm1, tmm4, tmm7",
    "tdpbf16ps tmm2, tmm5, tmm6",
    "tdpbf16ps tmm3, tmm5, tmm7",
    // second by second
    "tileloadd tmm6, [{r} + {s}*1 + 2048]",
    "tileloadd tmm7, [{r} + {s}*1 + 3072]",
    "tdpbf16ps tmm0, tmm4, tmm6",
    "tdpbf16ps tmm1, tmm4, tmm7",
    "tdpbf16ps tmm2, tmm5, tmm6",
    "tdpbf16ps tmm3, tmm5, tmm7",
    // first by second
    "tileloadd tmm4, [{l} + {s}*1]",
    "tileloadd tmm5, [{l} + {s}*1 + 1024]",
    "tdpbf16ps tmm0, tmm4, tmm6",
    "tdpbf16ps tmm1, tmm4, tmm7",
    "tdpbf16ps tmm2, tmm5, tmm6",
    "tdpbf16ps tmm3, tmm5, tmm7",
    // first by third
    "tileloadd tmm6, [{r} + {s}*1 + 4096]",
    "tileloadd tmm7, [{r} + {s}*1 + 5120]",
    "tdpbf16ps tmm0, tmm4, tmm6",
    "tdpbf16ps tmm1, tmm4, tmm7",
    "tdpbf16ps tmm2, tmm5, tmm6",
    "tdpbf16ps tmm3, tmm5, tmm7",
    // first by first
    "tileloadd tmm6, [{r} + {s}*1]",
    "tileloadd tmm7, [{r} + {s}*1 + 1024]",
    "tdpbf16ps tmm0, tmm4, tmm6",
    "tdpbf16ps tmm1, tmm4, tmm7",
    "tdpbf16ps tmm2, tmm5, tmm6",
    "tdpbf16ps tmm3, tmm5, tmm7",
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_pieces_add_up_to_the_value_wherever_it_can_be_split() {
        for value in [0.0f32, -0.0, 1.0, -1.000_000_1, 1e-30, 2.345_678_9, -1e38, LARGEST] {
            assert!(can_split(&[value]));
            let pieces = split(value).map(|piece| f64::from(piece.to_f32()));
            assert_eq!(pieces.iter().sum::<f64>(), f64::from(value), "{value}");
        }
    }

    #[test]
    fn values_without_pieces_are_found() {
        // The third rounds up to an infinite first piece.
        for value in [f32::NAN, f32::INFINITY, 3.4e38, f32::NEG_INFINITY, f32::MAX] {
            assert!(!can_split(&[1.0, value]), "{value}");
            // Rounding them does not panic.
            split(value);
        }
        split(f32::from_bits(u32::MAX));
    }
}
