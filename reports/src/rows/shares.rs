//! What a run in this process used of its GPU.

use std::collections::BTreeMap;

use serde::Serialize;

use super::aggregate::Digest;

/// Shares of a GPU's rates at the median call. Absent where the engine or the GPU does not state its part: on a CPU, of
/// servers.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Shares {
    /// Of the memory's bandwidth in decoding, by the weights alone: a token reads each of them once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bandwidth: Option<f64>,
    /// Of the matrix units' rate until the first token: each token of a prompt costs two operations per weight.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub matrix_rate: Option<f64>,
}

impl Shares {
    /// Of a run, by what its backend says of itself.
    pub(crate) fn of(details: &BTreeMap<String, String>, digest: &Digest) -> Option<Self> {
        let number = |name: &str| details.get(name)?.parse::<f64>().ok().filter(|value| *value > 0.0);
        let (bytes, token, prompt) = (number("weights_bytes")?, digest.token, digest.prompt_rate);
        let weights =
            bytes / if details.get("dtype").is_some_and(|dtype| dtype == "f32") { 4.0 } else { 2.0 };
        let bandwidth = number("gpu_bandwidth").filter(|_| token.n > 0 && token.p50 > 0.0);
        let matrix_rate = number("gpu_matrix_rate").filter(|_| prompt.n > 0);
        let shares = Self {
            bandwidth: bandwidth.map(|bandwidth| bytes / token.p50 / bandwidth),
            matrix_rate: matrix_rate.map(|rate| 2.0 * weights * prompt.p50 / rate),
        };
        (shares.bandwidth.is_some() || shares.matrix_rate.is_some()).then_some(shares)
    }
}

#[cfg(test)]
mod tests {
    use super::super::aggregate::Spread;
    use super::*;

    #[test]
    fn shares_are_absent_where_the_gpu_is() {
        let spread = |p50| Spread { n: 3, p50, ..Spread::default() };
        let digest = Digest { token: spread(0.01), prompt_rate: spread(10_000.0), ..Digest::default() };
        let details = |rows: &[(&str, &str)]| {
            rows.iter()
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                .collect::<BTreeMap<_, _>>()
        };
        // 8.2 billion weights in bf16 on an H100.
        let all = [
            ("weights_bytes", "16400000000"),
            ("dtype", "bf16"),
            ("gpu_bandwidth", "3352000000000"),
            ("gpu_matrix_rate", "989400000000000"),
        ];
        let shares = Shares::of(&details(&all), &digest).unwrap();
        assert!((shares.bandwidth.unwrap() - 0.489).abs() < 1e-3, "{shares:?}");
        assert!((shares.matrix_rate.unwrap() - 0.166).abs() < 1e-3, "{shares:?}");
        assert_eq!(Shares::of(&details(&all[..2]), &digest), None, "a CPU");
        assert_eq!(Shares::of(&details(&all[2..]), &digest), None, "a server");
        let unseen = Digest { token: Spread::default(), ..digest };
        assert_eq!(Shares::of(&details(&all), &unseen).unwrap().bandwidth, None);
    }
}
