//! What a JPEG file leaves of an image: libjpeg-turbo's conversions, without the file.
//!
//! Colours, chroma halved both ways, forward transform and quantisation of its encoder (`jccolor.c`, `jcsample.c`,
//! `jfdctint.c`, `jcdctmgr.c`), then the decoder's inverse transform, "fancy" enlargement of chroma and colours
//! (`jidctint.c`, `jdsample.c`, `jdcolor.c`). Entropy coding loses nothing.

const SIDE: usize = 8;
const BLOCK: usize = SIDE * SIDE;
/// `CONST_BITS` and `PASS1_BITS` of both transforms.
const CONST_BITS: u32 = 13;
const PASS_BITS: u32 = 2;

/// Tables K.1 and K.2 of the standard.
const LUMINANCE: [u16; BLOCK] = [
    16, 11, 10, 16, 24, 40, 51, 61, 12, 12, 14, 19, 26, 58, 60, 55, 14, 13, 16, 24, 40, 57, 69, 56, 14, 17,
    22, 29, 51, 87, 80, 62, 18, 22, 37, 56, 68, 109, 103, 77, 24, 35, 55, 64, 81, 104, 113, 92, 49, 64, 78,
    87, 103, 121, 120, 101, 72, 92, 95, 98, 112, 100, 103, 99,
];
const CHROMINANCE: [u16; BLOCK] = [
    17, 18, 24, 47, 99, 99, 99, 99, 18, 21, 26, 66, 99, 99, 99, 99, 24, 26, 56, 99, 99, 99, 99, 99, 47, 66,
    99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99,
    99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99,
];

/// One component: rows of `width` samples.
struct Plane {
    width: usize,
    height: usize,
    samples: Vec<u8>,
}

impl Plane {
    /// A plane of samples by column and row.
    fn new(width: usize, height: usize, sample: impl Fn(usize, usize) -> u8) -> Self {
        let samples = (0..height).flat_map(|y| (0..width).map(move |x| (x, y)));
        Self { width, height, samples: samples.map(|(x, y)| sample(x, y)).collect() }
    }

    /// The sample, or the nearest where the place is outside.
    fn at(&self, x: usize, y: usize) -> u8 {
        self.samples[y.min(self.height - 1) * self.width + x.min(self.width - 1)]
    }
}

/// (height, width, 3) values as they are read back from a JPEG file that libjpeg-turbo wrote at this quality (1 to
/// 100; Pillow's default is 75, that of `cv2.imwrite` 95), chroma halved both ways.
///
/// # Errors
/// Values that do not fit the size.
pub fn round_trip(rgb: &[u8], (width, height): (u32, u32), quality: u8) -> Result<Vec<u8>, String> {
    let (width, height) = (width as usize, height as usize);
    if rgb.is_empty() || rgb.len() != width * height * 3 {
        return Err(format!("{} values are not an image of {width} by {height} pixels", rgb.len()));
    }
    let pixel = |x: usize, y: usize| {
        let at = (y * width + x) * 3;
        [rgb[at], rgb[at + 1], rgb[at + 2]].map(i32::from)
    };
    let luma = |[r, g, b]: [i32; 3]| (19_595 * r + 38_470 * g + 7_471 * b + 32_768) >> 16;
    const MIDDLE: i32 = (128 << 16) + 32_767;
    let blue = |[r, g, b]: [i32; 3]| (-11_059 * r - 21_709 * g + 32_768 * b + MIDDLE) >> 16;
    let red = |[r, g, b]: [i32; 3]| (32_768 * r - 27_439 * g - 5_329 * b + MIDDLE) >> 16;
    let plane =
        |convert: &dyn Fn([i32; 3]) -> i32| Plane::new(width, height, |x, y| convert(pixel(x, y)) as u8);
    let y = coded(&plane(&luma), &scaled(&LUMINANCE, quality));
    let chroma = scaled(&CHROMINANCE, quality);
    let [cb, cr] =
        [plane(&blue), plane(&red)].map(|plane| enlarged(&coded(&halved(&plane), &chroma), width, height));
    let level = |value: i32| value.clamp(0, 255) as u8;
    let colours = (0..width * height).flat_map(|at| {
        let (y, cb, cr) = (i32::from(y.samples[at]), i32::from(cb[at]) - 128, i32::from(cr[at]) - 128);
        let green = (-22_554 * cb - 46_802 * cr + 32_768) >> 16;
        let (red, blue) = ((91_881 * cr + 32_768) >> 16, (116_130 * cb + 32_768) >> 16);
        [level(y + red), level(y + green), level(y + blue)]
    });
    Ok(colours.collect())
}

/// `jpeg_set_quality` with baseline values.
fn scaled(table: &[u16; BLOCK], quality: u8) -> [u16; BLOCK] {
    let quality = u32::from(quality.clamp(1, 100));
    let scale = if quality < 50 { 5000 / quality } else { 200 - 2 * quality };
    table.map(|value| ((u32::from(value) * scale + 50) / 100).clamp(1, 255) as u16)
}

/// Means of two by two samples, rounded down and up in turns along a row; the last column and row stand for those
/// that are missing.
fn halved(plane: &Plane) -> Plane {
    // The encoder needs whole blocks across: further columns are means of the repeated last one.
    let width = plane.width.div_ceil(2 * SIDE) * SIDE;
    Plane::new(width, plane.height.div_ceil(2), |x, y| {
        let four = [(0, 0), (1, 0), (0, 1), (1, 1)];
        let sum: u32 = four.iter().map(|(dx, dy)| u32::from(plane.at(2 * x + dx, 2 * y + dy))).sum();
        ((sum + 1 + x as u32 % 2) >> 2) as u8
    })
}

/// A plane after transform, quantisation and the way back.
fn coded(plane: &Plane, table: &[u16; BLOCK]) -> Plane {
    let mut samples = vec![0; plane.samples.len()];
    for top in (0..plane.height).step_by(SIDE) {
        for left in (0..plane.width).step_by(SIDE) {
            let mut block: [i32; BLOCK] =
                std::array::from_fn(|at| i32::from(plane.at(left + at % SIDE, top + at / SIDE)) - 128);
            forward(&mut block);
            for (value, divisor) in block.iter_mut().zip(table) {
                *value = quantised(*value, u32::from(*divisor) << 3) * i32::from(*divisor);
            }
            inverse(&mut block);
            for y in top..(top + SIDE).min(plane.height) {
                for x in left..(left + SIDE).min(plane.width) {
                    let value = block[(y - top) * SIDE + x - left] + 128;
                    samples[y * plane.width + x] = value.clamp(0, 255) as u8;
                }
            }
        }
    }
    Plane { samples, ..*plane }
}

/// Division by a 16-bit reciprocal (`compute_reciprocal`, `quantize`).
fn quantised(value: i32, divisor: u32) -> i32 {
    let bits = 31 - divisor.leading_zeros();
    let (mut shift, mut half) = (16 + bits, divisor / 2);
    let (mut reciprocal, rest) = ((1 << shift) / divisor, (1 << shift) % divisor);
    if rest == 0 {
        reciprocal >>= 1;
        shift -= 1;
    } else if rest <= divisor / 2 {
        half += 1;
    } else {
        reciprocal += 1;
    }
    let quotient = ((u64::from(value.unsigned_abs() + half) * u64::from(reciprocal)) >> shift) as i32;
    if value < 0 { -quotient } else { quotient }
}

fn descale(value: i32, bits: u32) -> i32 {
    (value + (1 << (bits - 1))) >> bits
}

/// What both transforms do with their odd half: four sums from four values (`z1` to `z5`).
fn odd([a, b, c, d]: [i32; 4]) -> [i32; 4] {
    let z5 = (a + c + b + d) * 9_633;
    let (z1, z2) = ((a + d) * -7_373, (b + c) * -20_995);
    let (z3, z4) = ((a + c) * -16_069 + z5, (b + d) * -3_196 + z5);
    [a * 2_446 + z1 + z3, b * 16_819 + z2 + z4, c * 25_172 + z2 + z3, d * 12_299 + z1 + z4]
}

/// Runs a transform of eight values over the rows or the columns of a block.
fn along(block: &mut [i32; BLOCK], by_row: bool, transform: impl Fn([i32; SIDE]) -> [i32; SIDE]) {
    for line in 0..SIDE {
        let at = |index: usize| if by_row { line * SIDE + index } else { index * SIDE + line };
        let values = transform(std::array::from_fn(|index| block[at(index)]));
        for (index, value) in values.into_iter().enumerate() {
            block[at(index)] = value;
        }
    }
}

/// `jpeg_fdct_islow`: eight times the transform.
fn forward(block: &mut [i32; BLOCK]) {
    let transform = |d: [i32; SIDE], even: &dyn Fn(i32) -> i32, bits: u32| {
        let sum = |index: usize| d[index] + d[7 - index];
        let (plus, minus) = ([sum(0) + sum(3), sum(1) + sum(2)], [sum(0) - sum(3), sum(1) - sum(2)]);
        let z1 = (minus[0] + minus[1]) * 4_433;
        let [seventh, fifth, third, first] = odd([d[3] - d[4], d[2] - d[5], d[1] - d[6], d[0] - d[7]]);
        [
            even(plus[0] + plus[1]),
            descale(first, bits),
            descale(z1 + minus[0] * 6_270, bits),
            descale(third, bits),
            even(plus[0] - plus[1]),
            descale(fifth, bits),
            descale(z1 - minus[1] * 15_137, bits),
            descale(seventh, bits),
        ]
    };
    along(block, true, |row| transform(row, &|value| value << PASS_BITS, CONST_BITS - PASS_BITS));
    along(block, false, |column| {
        transform(column, &|value| descale(value, PASS_BITS), CONST_BITS + PASS_BITS)
    });
}

/// `jpeg_idct_islow`.
fn inverse(block: &mut [i32; BLOCK]) {
    let transform = |d: [i32; SIDE], bits: u32| {
        let z1 = (d[2] + d[6]) * 4_433;
        let (low, high) = (z1 - d[6] * 15_137, z1 + d[2] * 6_270);
        let (plus, minus) = ((d[0] + d[4]) << CONST_BITS, (d[0] - d[4]) << CONST_BITS);
        let even = [plus + high, minus + low, minus - low, plus - high];
        let [seventh, fifth, third, first] = odd([d[7], d[5], d[3], d[1]]);
        let odd = [first, third, fifth, seventh];
        std::array::from_fn(|index| match index {
            0..4 => descale(even[index] + odd[index], bits),
            _ => descale(even[7 - index] - odd[7 - index], bits),
        })
    };
    along(block, false, |column| transform(column, CONST_BITS - PASS_BITS));
    along(block, true, |row| transform(row, CONST_BITS + PASS_BITS + 3));
}

/// Samples of a halved plane for every pixel (`h2v2_fancy_upsample`): nine, three, three and one sixteenths of the four
/// nearest, rounded down and up in turns. Planes of two columns or fewer are only repeated.
fn enlarged(plane: &Plane, width: usize, height: usize) -> Vec<u8> {
    let (columns, rows) = (width.div_ceil(2), height.div_ceil(2));
    let sample = |x: usize, y: usize| i32::from(plane.samples[y * plane.width + x]);
    let mut out = Vec::with_capacity(width * height);
    for y in 0..height {
        let (near, up) = (y / 2, y % 2 == 0);
        let far = if up { near.saturating_sub(1) } else { (near + 1).min(rows - 1) };
        let sums: Vec<i32> = (0..columns).map(|x| 3 * sample(x, near) + sample(x, far)).collect();
        out.extend((0..width).map(|x| {
            let (column, left) = (x / 2, x % 2 == 0);
            if columns <= 2 {
                return sample(column, near) as u8;
            }
            let beside = if left { column.saturating_sub(1) } else { (column + 1).min(columns - 1) };
            ((3 * sums[column] + sums[beside] + if left { 8 } else { 7 }) >> 4) as u8
        }));
    }
    out
}
