//! The instruction set of all kernels: the best that the processor has, or a forced one.

use std::fmt;
use std::str::FromStr;
use std::sync::atomic::{AtomicU8, Ordering};

/// An instruction set that the kernels are compiled for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Isa {
    /// AVX-512 F, BW and VL, and BF16: the dot product of pairs of bf16.
    Avx512Bf16,
    /// AVX-512 F, BW and VL.
    Avx512,
    /// AVX2, FMA and F16C.
    Avx2,
    /// What every processor of the architecture has: SSE2 on x86-64, NEON on AArch64.
    Baseline,
}

/// Chosen set as its place in [`Isa::ALL`] plus one; 0 before the first use. Only ever one that the processor has:
/// calls of functions compiled for it rely on that.
static CHOSEN: AtomicU8 = AtomicU8::new(0);

impl Isa {
    /// All instruction sets, best first.
    pub const ALL: [Self; 4] = [Self::Avx512Bf16, Self::Avx512, Self::Avx2, Self::Baseline];

    /// The name on the command line.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Avx512Bf16 => "avx512-bf16",
            Self::Avx512 => "avx512",
            Self::Avx2 => "avx2",
            Self::Baseline => "baseline",
        }
    }

    /// Whether this processor, under this operating system, has the instructions.
    pub(crate) fn is_supported(self) -> bool {
        match self {
            #[cfg(target_arch = "x86_64")]
            Self::Avx512Bf16 => Self::Avx512.is_supported() && std::is_x86_feature_detected!("avx512bf16"),
            #[cfg(target_arch = "x86_64")]
            Self::Avx512 => {
                std::is_x86_feature_detected!("avx512f")
                    && std::is_x86_feature_detected!("avx512bw")
                    && std::is_x86_feature_detected!("avx512vl")
            }
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => {
                std::is_x86_feature_detected!("avx2")
                    && std::is_x86_feature_detected!("fma")
                    && std::is_x86_feature_detected!("f16c")
            }
            #[cfg(not(target_arch = "x86_64"))]
            Self::Avx512Bf16 | Self::Avx512 | Self::Avx2 => false,
            Self::Baseline => true,
        }
    }

    /// Whether it has AVX-512 F, BW and VL.
    #[cfg(target_arch = "x86_64")]
    pub(crate) fn has_avx512(self) -> bool {
        matches!(self, Self::Avx512Bf16 | Self::Avx512)
    }

    /// Instruction sets of this processor, best first.
    pub fn supported() -> impl Iterator<Item = Self> {
        Self::ALL.into_iter().filter(|isa| isa.is_supported())
    }

    fn store(self) {
        let place = Self::ALL.iter().position(|isa| *isa == self).expect("ALL lists every variant");
        CHOSEN.store(place as u8 + 1, Ordering::Relaxed);
    }
}

impl fmt::Display for Isa {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// An instruction set that is unknown, or that this processor lacks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnsupportedIsa(String);

impl fmt::Display for UnsupportedIsa {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let supported: Vec<&str> = Isa::supported().map(Isa::as_str).collect();
        write!(
            f,
            "instruction set `{}` is not available; this processor has {}",
            self.0,
            supported.join(", ")
        )
    }
}

impl std::error::Error for UnsupportedIsa {}

impl FromStr for Isa {
    type Err = UnsupportedIsa;

    fn from_str(name: &str) -> Result<Self, UnsupportedIsa> {
        Self::ALL
            .into_iter()
            .find(|isa| isa.as_str() == name && isa.is_supported())
            .ok_or_else(|| UnsupportedIsa(name.to_owned()))
    }
}

/// The instruction set in use: the best of this processor unless [`set_isa`] chose another.
#[inline]
pub fn isa() -> Isa {
    match CHOSEN.load(Ordering::Relaxed) {
        0 => {
            let best = Isa::supported().next().unwrap_or(Isa::Baseline);
            best.store();
            best
        }
        place => Isa::ALL[usize::from(place) - 1],
    }
}

/// Makes all kernels of the process use one instruction set, e.g. to compare results with those of another machine.
/// To be called before the first product. Other crates' arithmetic is not covered: candle's, of f16 and of training in
/// bf16, detects its own.
///
/// # Errors
/// This processor lacks it.
pub fn set_isa(isa: Isa) -> Result<(), UnsupportedIsa> {
    if !isa.is_supported() {
        return Err(UnsupportedIsa(isa.as_str().to_owned()));
    }
    isa.store();
    Ok(())
}

/// Defines a function that is compiled once for each instruction set and runs the version of [`isa`]. Its body is
/// inlined into each version; what it calls has to be `#[inline(always)]` to be compiled with the instructions too.
/// (`multiversion` and `std::simd` choose by detection alone: neither can be forced.)
macro_rules! per_isa {
    (
        $(#[$meta:meta])*
        $vis:vis fn $name:ident($($arg:ident: $type:ty),* $(,)?) $(-> $result:ty)? $body:block
    ) => {
        $(#[$meta])*
        $vis fn $name($($arg: $type),*) $(-> $result)? {
            #[inline(always)]
            fn body($($arg: $type),*) $(-> $result)? $body

            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx512f,avx512bw,avx512vl")]
                fn avx512($($arg: $type),*) $(-> $result)? {
                    body($($arg),*)
                }
                #[target_feature(enable = "avx2,fma")]
                fn avx2($($arg: $type),*) $(-> $result)? {
                    body($($arg),*)
                }
                match $crate::isa() {
                    // SAFETY: `isa` is only ever an instruction set that the processor has.
                    $crate::Isa::Avx512Bf16 | $crate::Isa::Avx512 => return unsafe { avx512($($arg),*) },
                    // SAFETY: as above.
                    $crate::Isa::Avx2 => return unsafe { avx2($($arg),*) },
                    $crate::Isa::Baseline => {}
                }
            }
            body($($arg),*)
        }
    };
}

#[cfg(test)]
pub(crate) mod tests {
    use std::sync::{Mutex, PoisonError};

    use super::*;

    /// Runs a test under every instruction set of this processor, one test at a time.
    pub(crate) fn for_each_isa(test: impl Fn(Isa)) {
        static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
        let _guard = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        let detected = Isa::supported().next().expect("the baseline at least");
        for isa in Isa::supported() {
            set_isa(isa).expect("supported");
            test(isa);
        }
        set_isa(detected).expect("supported");
    }

    #[test]
    fn names_round_trip_and_unsupported_sets_are_refused() {
        for isa in Isa::ALL {
            match isa.as_str().parse::<Isa>() {
                Ok(parsed) => assert!(parsed == isa && isa.is_supported()),
                Err(error) => {
                    assert!(!isa.is_supported());
                    assert_eq!(set_isa(isa), Err(error));
                }
            }
        }
        let error = "mmx".parse::<Isa>().expect_err("unknown").to_string();
        assert!(error.starts_with("instruction set `mmx` is not available") && error.contains("baseline"));
    }

    #[test]
    fn the_forced_set_is_the_one_in_use() {
        for_each_isa(|forced| assert_eq!(isa(), forced));
    }
}
