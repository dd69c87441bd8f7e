//! OpenCV's cubic and area filters on 8-bit images.

/// Four weights of one output position; the first belongs to input `first`, which may lie outside.
struct Weights {
    first: isize,
    values: [f32; 4],
}

/// Weights of the cubic with a = -0.75: computed in double precision, used in single.
fn cubic_weights(from: usize, to: usize) -> Vec<Weights> {
    const A: f64 = -0.75;
    let scale = from as f64 / to as f64;
    let near = |x: f64| ((A + 2.0) * x - (A + 3.0)) * x * x + 1.0;
    let at = |position: usize| {
        let centre = (position as f64 + 0.5) * scale - 0.5;
        let x = centre - centre.floor();
        let first = ((A * (x + 1.0) - 5.0 * A) * (x + 1.0) + 8.0 * A) * (x + 1.0) - 4.0 * A;
        let (second, third) = (near(x), near(1.0 - x));
        let values = [first, second, third, 1.0 - first - second - third];
        Weights { first: centre.floor() as isize - 1, values: values.map(|value| value as f32) }
    };
    (0..to).map(at).collect()
}

/// The cubic filter as Intel's library has it, which the packages of OpenCV for x86 call: rows, then columns, without
/// rounding to levels in between.
pub(super) fn cubic(rgb: &[u8], from: (usize, usize), to: (usize, usize)) -> Vec<u8> {
    // The input that a position outside stands for is the nearest.
    let inside = |position: isize, size: usize| position.clamp(0, size as isize - 1) as usize;
    let places =
        |first: isize, size| std::array::from_fn::<usize, 4, _>(|tap| inside(first + tap as isize, size));
    let sum = |values: [f32; 4], weights: &[f32; 4]| {
        values.iter().zip(weights).map(|(value, weight)| f64::from(*value) * f64::from(*weight)).sum::<f64>()
            as f32
    };
    let columns = cubic_weights(from.0, to.0);
    let across = |row: &[u8]| -> Vec<f32> {
        let pixel = |Weights { first, values }: &Weights| {
            let places = places(*first, from.0);
            std::array::from_fn::<f32, 3, _>(|channel| {
                sum(places.map(|place| f32::from(row[place * 3 + channel])), values)
            })
        };
        columns.iter().flat_map(pixel).collect()
    };
    let rows: Vec<Vec<f32>> = rgb.chunks_exact(from.0 * 3).map(across).collect();
    let line = |Weights { first, values }: Weights| {
        let rows = places(first, from.1).map(|place| &rows[place]);
        (0..to.0 * 3).map(move |x| sum(rows.map(|row| row[x]), &values).round_ties_even() as u8)
    };
    cubic_weights(from.1, to.1).into_iter().flat_map(line).collect()
}

/// Share that an input has of an output (`DecimateAlpha`).
struct Share {
    to: usize,
    from: usize,
    weight: f32,
}

/// `computeResizeAreaTab`.
fn shares(from: usize, to: usize) -> Vec<Share> {
    /// Parts of a pixel that are too little to count.
    const LEAST: f64 = 1e-3;
    let scale = 1.0 / (to as f64 / from as f64);
    let mut shares = Vec::new();
    for position in 0..to {
        let (start, end) = (position as f64 * scale, position as f64 * scale + scale);
        let width = scale.min(from as f64 - start);
        let last = (end.floor() as usize).min(from - 1);
        let first = (start.ceil() as usize).min(last);
        let mut add =
            |from: usize, weight: f64| shares.push(Share { to: position, from, weight: weight as f32 });
        if first as f64 - start > LEAST {
            add(first - 1, (first as f64 - start) / width);
        }
        for whole in first..last {
            add(whole, 1.0 / width);
        }
        if end - last as f64 > LEAST {
            add(last, (end - last as f64).min(1.0).min(width) / width);
        }
    }
    shares
}

/// `INTER_AREA` (`modules/imgproc/src/resize.cpp` of 4.x): sums in single precision, row after row.
pub(super) fn area(rgb: &[u8], from: (usize, usize), to: (usize, usize)) -> Vec<u8> {
    if from.0.is_multiple_of(to.0) && from.1.is_multiple_of(to.1) {
        return whole_area(rgb, from, (from.0 / to.0, from.1 / to.1));
    }
    let (columns, stride) = (shares(from.0, to.0), to.0 * 3);
    let mut sums = vec![0.0_f32; stride * to.1];
    let mut is_first = vec![true; to.1];
    for Share { to: line, from: row, weight } in shares(from.1, to.1) {
        let row = &rgb[row * from.0 * 3..][..from.0 * 3];
        let mut across = vec![0.0_f32; stride];
        for share in &columns {
            for channel in 0..3 {
                across[share.to * 3 + channel] += f32::from(row[share.from * 3 + channel]) * share.weight;
            }
        }
        let first = std::mem::take(&mut is_first[line]);
        for (sum, value) in sums[line * stride..][..stride].iter_mut().zip(&across) {
            *sum = if first { weight * value } else { *sum + weight * value };
        }
    }
    sums.into_iter().map(|sum| sum.round_ties_even() as u8).collect()
}

/// By a whole number of pixels each way (`resizeAreaFast_`): sums of integers; four are rounded half up.
fn whole_area(rgb: &[u8], (width, height): (usize, usize), (across, down): (usize, usize)) -> Vec<u8> {
    let scale = 1.0_f32 / (across * down) as f32;
    let mut out = Vec::with_capacity(rgb.len() / (across * down));
    for y in (0..height).step_by(down) {
        for x in (0..width).step_by(across) {
            for channel in 0..3 {
                let row =
                    |y: usize| (x..x + across).map(move |x| u32::from(rgb[(y * width + x) * 3 + channel]));
                let sum: u32 = (y..y + down).flat_map(row).sum();
                out.push(match (across, down) {
                    (2, 2) => ((sum + 2) >> 2) as u8,
                    _ => (sum as f32 * scale).round_ties_even() as u8,
                });
            }
        }
    }
    out
}
