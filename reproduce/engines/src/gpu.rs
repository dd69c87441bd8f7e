//! Utilisation of the GPUs, through NVML.

use nvml_wrapper::Nvml;

/// Utilisation in per cent below which a GPU counts as idle.
const IDLE: u32 = 5;

/// The GPUs of the machine.
pub(crate) struct Gpus(Option<Nvml>);

impl Gpus {
    pub(crate) fn find() -> Self {
        Self(Nvml::init().ok())
    }

    /// Whether all are idle; `None` where there are none or they do not say.
    pub(crate) fn are_idle(&self) -> Option<bool> {
        let nvml = self.0.as_ref()?;
        let count = nvml.device_count().ok().filter(|count| *count > 0)?;
        let used = |index| nvml.device_by_index(index).ok()?.utilization_rates().ok().map(|rates| rates.gpu);
        let used: Option<Vec<u32>> = (0..count).map(used).collect();
        Some(used?.into_iter().all(|used| used < IDLE))
    }
}
