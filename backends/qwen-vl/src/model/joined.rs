//! Products of the same rows by several matrices: one product where the engine joins them.

use crate::error::Error;
use crate::ops::{Linear, Ops};

/// Matrices (out, in) of one input.
pub(super) struct Joined<T, const N: usize> {
    /// One of all, (sum of outs, in), or each.
    matrices: Vec<Linear<T>>,
    widths: [usize; N],
}

impl<T: Clone, const N: usize> Joined<T, N> {
    pub(super) fn new<O: Ops<Tensor = T>>(ops: &O, parts: [Linear<T>; N]) -> Result<Self, Error> {
        let widths = parts.each_ref().map(|part| ops.shape(&part.weight)[0]);
        let matrices = ops.join(&parts)?.map_or_else(|| Vec::from(parts), |joined| vec![joined]);
        Ok(Self { matrices, widths })
    }

    /// x (n, in) by each of them; see [`Joined::some`].
    pub(super) fn all<O: Ops<Tensor = T>>(&self, ops: &O, x: &T, dim: usize) -> Result<[T; N], Error> {
        self.some(ops, x, 0, dim)
    }

    /// x (n, in) by `M` of them from `first` on: (n, out), or of heads of size `dim`, if that is not 1, (n, heads, dim).
    pub(super) fn some<O: Ops<Tensor = T>, const M: usize>(
        &self,
        ops: &O,
        x: &T,
        first: usize,
        dim: usize,
    ) -> Result<[T; M], Error> {
        // Before a product is cut: rows of a part are apart, and would be copied.
        let heads = |product: T| match ops.shape(&product)[..] {
            [n, width] if dim > 1 => ops.reshape(&product, &[n, width / dim, dim]),
            _ => Ok(product),
        };
        let chosen = first..first + M;
        let products = match &self.matrices[..] {
            [joined] if N > 1 => {
                let widths = &self.widths[chosen];
                let (start, length) = (self.widths[..first].iter().sum(), widths.iter().sum());
                let rows = |x: &T| if M == N { Ok(x.clone()) } else { ops.narrow(x, 0, start, length) };
                let bias = joined.bias.as_ref().map(rows).transpose()?;
                let product = heads(ops.linear(x, &Linear { weight: rows(&joined.weight)?, bias })?)?;
                let starts = widths.iter().scan(0, |end, width| {
                    *end += width;
                    Some((*end - width, *width))
                });
                starts.map(|(start, width)| ops.narrow(&product, 1, start / dim, width / dim)).collect()
            }
            each => {
                let product = |matrix| heads(ops.linear(x, matrix)?);
                each[chosen].iter().map(product).collect::<Result<Vec<_>, _>>()
            }
        };
        let wrong = |_| Error::Compute("matrices that were joined came apart".to_owned());
        products?.try_into().map_err(wrong)
    }
}
