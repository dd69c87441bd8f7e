use half::bf16;
use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};

use super::*;
use crate::isa::tests::for_each_isa;

/// A matrix of random values with gaps between rows, either way round.
fn random(rng: &mut StdRng, rows: usize, cols: usize) -> (Vec<f32>, usize) {
    let stride = cols + rng.random_range(0..3);
    ((0..rows * stride).map(|_| rng.random::<f32>() * 2.0 - 1.0).collect(), stride)
}

/// Every element of C against its sum in f64, on top of `before`.
fn check<T: Element>(c: &[f32], stride: usize, a: MatRef<'_>, b: MatRef<'_, T>, scale: f64, before: f64) {
    for row in 0..a.rows {
        for col in 0..b.cols {
            let term = |i| f64::from(a.at(row, i)) * f64::from(b.at(i, col).value());
            let expected = before + scale * (0..a.cols).map(term).sum::<f64>();
            let error = (f64::from(c[row * stride + col]) - expected).abs();
            let size = (a.rows, a.cols, b.cols);
            let bound = 2e-6 * (a.cols as f64).sqrt() * scale.max(1.0);
            assert!(error < bound, "{} {size:?} at {row}, {col}: {error}", isa());
        }
    }
}

#[test]
fn a_grid_covers_every_element_once() {
    for (rows, cols) in [(1, 1), (17, 5), (240, 384), (241, 385), (640, 4096), (33, 1519), (5000, 31)] {
        let grid = Grid::new(rows, cols);
        let mut covered = vec![0u8; rows * cols];
        for number in 0..grid.len() {
            let (rows, columns) = grid.block(number);
            assert!(!rows.is_empty() && !columns.is_empty());
            for row in rows {
                covered[row * cols..][columns.clone()].iter_mut().for_each(|count| *count += 1);
            }
        }
        assert!(covered.iter().all(|count| *count == 1), "{rows} x {cols}");
    }
}

#[test]
fn rows_at_multiples_of_two_kibibytes_are_packed() {
    for_each_isa(|_| {
        let mut rng = StdRng::seed_from_u64(6);
        for (stride, k) in [(512, 512), (1024, 700), (1536, 1008), (1024, 496)] {
            let mut values =
                |count: usize| -> Vec<f32> { (0..count).map(|_| rng.random::<f32>() * 2.0 - 1.0).collect() };
            let (a, b) = (values(13 * stride), values(k * 40));
            let (a, b) = (MatRef::row_major(&a, 13, k, stride), MatRef::row_major(&b, k, 40, 40));
            let mut c = vec![0.5; 13 * 40];
            gemm_serial(MatMut::new(&mut c, 40), a, b, Update::accumulate(0.25));
            check(&c, 40, a, b, 0.25, 0.5);
        }
    });
}

#[test]
fn products_equal_f64_sums_under_every_isa() {
    for_each_isa(|_| {
        let mut rng = StdRng::seed_from_u64(5);
        for (m, k, n) in [(1, 1, 1), (13, 7, 33), (12, 512, 32), (25, 40, 15), (40, 1100, 70), (300, 65, 400)]
        {
            for transposed in 0..4 {
                products(&mut rng, [m, k, n], [transposed & 1 > 0, transposed & 2 > 0]);
            }
        }
    });
}

#[test]
fn products_of_pairs_equal_f64_sums_where_the_processor_has_them() {
    for_each_isa(|isa| {
        let mut rng = StdRng::seed_from_u64(7);
        let mut side = |count: usize| -> Vec<bf16> {
            (0..count).map(|_| bf16::from_f32(rng.random::<f32>() * 2.0 - 1.0)).collect()
        };
        for (m, k, n) in [(1, 2, 1), (13, 14, 33), (12, 1024, 32), (40, 2210, 70), (300, 66, 400), (5, 7, 3)]
        {
            let (x, w) = (side(m * k), side(n * k));
            let found = gemm_bf16(&x, &w, k, n);
            assert_eq!(found.is_some(), isa == Isa::Avx512Bf16 && k % 2 == 0, "{isa}, {m} x {k} x {n}");
            let wide: Vec<f32> = x.iter().map(|value| value.to_f32()).collect();
            let (a, b) = (MatRef::row_major(&wide, m, k, k), MatRef::row_major(&w, n, k, k).transposed());
            found.inspect(|found| check(found, n, a, b, 1.0, 0.0));
        }
        // Not in aligned pairs.
        let (x, w) = (side(9), side(8));
        assert!(gemm_bf16(&x[1..], &w, 8, 1).is_none());
    });
}

fn view<T: Element>(
    values: &[T],
    rows: usize,
    cols: usize,
    stride: usize,
    transposed: bool,
) -> MatRef<'_, T> {
    if transposed {
        MatRef::row_major(values, cols, rows, stride).transposed()
    } else {
        MatRef::row_major(values, rows, cols, stride)
    }
}

fn products(rng: &mut StdRng, [m, k, n]: [usize; 3], transposed: [bool; 2]) {
    let mut side =
        |rows, cols, transposed| if transposed { random(rng, cols, rows) } else { random(rng, rows, cols) };
    let (a, a_stride) = side(m, k, transposed[0]);
    let (b, b_stride) = side(k, n, transposed[1]);
    let narrow: Vec<bf16> = b.iter().map(|&value| bf16::from_f32(value)).collect();
    let a = view(&a, m, k, a_stride, transposed[0]);
    let b = view(&b, k, n, b_stride, transposed[1]);
    let narrow = view(&narrow, k, n, b_stride, transposed[1]);
    check(&gemm(a, b), n, a, b, 1.0, 0.0);
    check(&gemm(a, narrow), n, a, narrow, 1.0, 0.0);
    let stride = n + 3;
    let mut c = vec![0.5; m * stride];
    gemm_serial(MatMut::new(&mut c, stride), a, b, Update::accumulate(0.25));
    check(&c, stride, a, b, 0.25, 0.5);
    assert!(c.chunks(stride).all(|row| row[n..] == [0.5; 3]), "wrote outside of its columns");
    gemm_serial(MatMut::new(&mut c, stride), a, b, Update::assign(2.0));
    check(&c, stride, a, b, 2.0, 0.0);
    if k <= KC {
        gemm_packed(MatMut::new(&mut c, stride), a, &PackedB::new(b), b.cols(), Update::assign(1.0));
        check(&c, stride, a, b, 1.0, 0.0);
    }
    assert!(c.chunks(stride).all(|row| row[n..] == [0.5; 3]), "wrote outside of its columns");
}

#[test]
#[should_panic(expected = "into 11 values")]
fn a_product_larger_than_its_destination_is_refused() {
    let (a, mut c) = (vec![1.0; 16], vec![0.0; 11]);
    let a = MatRef::row_major(&a, 4, 4, 4);
    gemm_serial(MatMut::new(&mut c, 3), a, a.col_block(0, 3), Update::assign(1.0));
}
