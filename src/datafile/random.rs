//! Random types of every kind and random values of them, for tests. The same `seed` gives the same values. Used by tests of other crates
//! too, by its path; they have `schema` at their root then.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, BinaryArray, BooleanArray, Date32Array, Decimal128Array, Float32Array, Float64Array, Int8Array, Int16Array,
    Int32Array, Int64Array, ListArray, MapArray, StringArray, StructArray, Time32MillisecondArray, TimestampMicrosecondArray,
    TimestampMillisecondArray, TimestampNanosecondArray, UInt32Array, make_comparator,
};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::compute::{SortOptions, take};
use arrow::datatypes::DataType as ArrowType;
use proptest::prelude::*;

use crate::schema::{DataType, Field, Item};

/// Of one column, types within each other up to `depth` deep (0: none).
pub fn data_type(depth: u32) -> BoxedStrategy<DataType> {
    use DataType::{Array, Map, Multiset, Row};
    if depth == 0 {
        return atomic().boxed();
    }
    let item = move || (data_type(depth - 1), any::<bool>()).prop_map(|(data_type, nullable)| Box::new(Item { data_type, nullable }));
    let key = || key().prop_map(|data_type| Box::new(Item { data_type, nullable: true }));
    prop_oneof![
        3 => atomic(),
        2 => item().prop_map(Array),
        2 => (key(), item()).prop_map(|(k, v)| Map(k, v)),
        1 => key().prop_map(Multiset),
        2 => prop::collection::vec(item(), 1..4).prop_map(|items| {
            Row(items.into_iter().enumerate().map(|(i, item)| field(format!("f{i}"), item.data_type, item.nullable)).collect())
        }),
    ]
    .boxed()
}

/// Columns `c0`, `c1`, ... with the id 0.
pub fn columns(depth: u32, count: std::ops::Range<usize>) -> impl Strategy<Value = Vec<Field>> {
    prop::collection::vec((data_type(depth), any::<bool>()), count)
        .prop_map(|all| all.into_iter().enumerate().map(|(i, (t, nullable))| field(format!("c{i}"), t, nullable)).collect())
}

/// Every type that has no others inside, all precisions included.
pub fn atomic() -> impl Strategy<Value = DataType> {
    use DataType::{BigInt, Boolean, Date, Double, Float, Int, SmallInt, String, Time, TinyInt};
    prop_oneof![
        4 => prop_oneof![Just(Boolean), Just(TinyInt), Just(SmallInt), Just(Int), Just(BigInt), Just(Date), Just(String)],
        1 => prop_oneof![Just(Float), Just(Double)],
        1 => (0u8..=9).prop_map(Time),
        2 => (0u8..=9).prop_map(DataType::Timestamp),
        2 => (0u8..=9).prop_map(DataType::TimestampLtz),
        2 => (1u8..=38).prop_flat_map(|precision| (0..=precision).prop_map(move |scale| DataType::Decimal { precision, scale })),
        2 => (1u32..6).prop_flat_map(|n| prop_oneof![
            Just(DataType::Char(n)), Just(DataType::VarChar(n)), Just(DataType::Binary(n)), Just(DataType::VarBinary(n))
        ]),
        1 => Just(DataType::Bytes),
    ]
}

/// Types of map keys: none whose equality is in doubt.
fn key() -> impl Strategy<Value = DataType> {
    atomic().prop_filter("floats", |t| !matches!(t, DataType::Float | DataType::Double))
}

fn field(name: String, data_type: DataType, nullable: bool) -> Field {
    Field { id: 0, name, data_type, nullable, description: None }
}

/// A fixed sequence of numbers that look random.
pub struct Dice(pub u64);

impl Dice {
    fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }
    /// A number less than `n`.
    pub fn below(&mut self, n: usize) -> usize {
        (self.roll() % (n as u64)) as usize
    }
    fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }
    /// Within the limits, often at one of them or near zero.
    fn between(&mut self, min: i128, max: i128) -> i128 {
        match self.below(8) {
            0 => min,
            1 => max,
            2 | 3 => ((self.roll() % 7) as i128 - 3).clamp(min, max),
            _ => {
                let wide = i128::from_ne_bytes([self.roll().to_ne_bytes(), self.roll().to_ne_bytes()].concat().try_into().unwrap());
                match max.checked_sub(min).and_then(|d| d.checked_add(1)) {
                    Some(span) => min + wide.rem_euclid(span),
                    None => wide.clamp(min, max),
                }
            }
        }
    }
    fn text(&mut self, points: usize) -> String {
        const LETTERS: [char; 12] = ['a', 'b', 'Z', '0', ' ', '"', '\\', '\n', 'é', '湖', '\u{10FFFF}', '\0'];
        (0..points).map(|_| LETTERS[self.below(LETTERS.len())]).collect()
    }
    fn bytes(&mut self, n: usize) -> Vec<u8> {
        (0..n).map(|_| [0, 0xff, b'x', self.roll() as u8][self.below(4)]).collect()
    }
    fn double(&mut self) -> f64 {
        const SPECIAL: [f64; 8] = [0.0, -0.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, f64::MAX, f64::MIN_POSITIVE, 0.1];
        if self.one_in(3) { SPECIAL[self.below(8)] } else { (self.roll() as i64) as f64 / 1e9 }
    }
}

/// `rows` values of a column in its Arrow form, some null where they may be.
#[allow(unreachable_patterns, reason = "other crates must say what they do with types to come")]
pub fn array(data_type: &DataType, nullable: bool, rows: usize, dice: &mut Dice) -> ArrayRef {
    let valid: Vec<bool> = (0..rows).map(|_| !nullable || !dice.one_in(5)).collect();
    let mut whole = |min: i128, max: i128| -> Vec<Option<i128>> { valid.iter().map(|v| v.then(|| dice.between(min, max))).collect() };
    macro_rules! primitive {
        ($array:ty, $native:ty, $min:expr, $max:expr) => {
            whole($min as i128, $max as i128).into_iter().map(|v| v.map(|v| v as $native)).collect::<$array>()
        };
    }
    // Years 1 to 9999, and what nanoseconds can tell; no digits beyond the type's.
    const FIRST: i128 = -62_135_596_800;
    const LAST: i128 = 253_402_300_799;
    let digits = |p: u8, unit: u32| 10i64.pow(unit.saturating_sub(u32::from(p)));
    match data_type {
        DataType::Boolean => Arc::new(whole(0, 1).into_iter().map(|v| v.map(|v| v == 1)).collect::<BooleanArray>()),
        DataType::TinyInt => Arc::new(primitive!(Int8Array, i8, i8::MIN, i8::MAX)),
        DataType::SmallInt => Arc::new(primitive!(Int16Array, i16, i16::MIN, i16::MAX)),
        DataType::Int => Arc::new(primitive!(Int32Array, i32, i32::MIN, i32::MAX)),
        DataType::BigInt => Arc::new(primitive!(Int64Array, i64, i64::MIN, i64::MAX)),
        DataType::Float => Arc::new(valid.iter().map(|v| v.then(|| dice.double() as f32)).collect::<Float32Array>()),
        DataType::Double => Arc::new(valid.iter().map(|v| v.then(|| dice.double())).collect::<Float64Array>()),
        DataType::Decimal { precision, scale } => {
            let most = 10i128.pow(u32::from(*precision)) - 1;
            let made = whole(-most, most).into_iter().collect::<Decimal128Array>();
            Arc::new(made.with_precision_and_scale(*precision, i8::try_from(*scale).unwrap()).unwrap())
        }
        DataType::Char(n) | DataType::VarChar(n) => text(&valid, dice, *n as usize),
        DataType::String => text(&valid, dice, 20),
        DataType::Binary(n) => Arc::new(valid.iter().map(|v| v.then(|| dice.bytes(*n as usize))).collect::<BinaryArray>()),
        DataType::VarBinary(n) => bytes(&valid, dice, *n as usize),
        DataType::Bytes => bytes(&valid, dice, 20),
        DataType::Date => Arc::new(primitive!(Date32Array, i32, -719_162, 2_932_896)),
        DataType::Time(_) => Arc::new(primitive!(Time32MillisecondArray, i32, 0, 86_399_999)),
        DataType::Timestamp(p) | DataType::TimestampLtz(p) => {
            let zone = matches!(data_type, DataType::TimestampLtz(_)).then_some("UTC");
            match p {
                0..=3 => {
                    let cut = digits(*p, 3);
                    let made = primitive!(TimestampMillisecondArray, i64, FIRST * 1000, LAST * 1000);
                    Arc::new(made.unary::<_, arrow::datatypes::TimestampMillisecondType>(|v| v / cut * cut).with_timezone_opt(zone))
                }
                4..=6 => {
                    let cut = digits(*p, 6);
                    let made = primitive!(TimestampMicrosecondArray, i64, FIRST * 1_000_000, LAST * 1_000_000);
                    Arc::new(made.unary::<_, arrow::datatypes::TimestampMicrosecondType>(|v| v / cut * cut).with_timezone_opt(zone))
                }
                _ => {
                    let cut = digits(*p, 9);
                    let made = primitive!(TimestampNanosecondArray, i64, i64::MIN, i64::MAX);
                    Arc::new(made.unary::<_, arrow::datatypes::TimestampNanosecondType>(|v| v / cut * cut).with_timezone_opt(zone))
                }
            }
        }
        DataType::Array(_) | DataType::Map(..) | DataType::Multiset(_) | DataType::Row(_) => nested(data_type, &valid, dice),
        other => panic!("no values of {other}"),
    }
}

fn text(valid: &[bool], dice: &mut Dice, longest: usize) -> ArrayRef {
    let mut value = || {
        let points = dice.below(longest + 1);
        dice.text(points)
    };
    Arc::new(valid.iter().map(|v| v.then(&mut value)).collect::<StringArray>())
}

fn bytes(valid: &[bool], dice: &mut Dice, longest: usize) -> ArrayRef {
    let mut value = || {
        let n = dice.below(longest + 1);
        dice.bytes(n)
    };
    Arc::new(valid.iter().map(|v| v.then(&mut value)).collect::<BinaryArray>())
}

fn nested(data_type: &DataType, valid: &[bool], dice: &mut Dice) -> ArrayRef {
    let nulls = valid.contains(&false).then(|| NullBuffer::from(valid));
    // A null may have values under it that nobody sees.
    let mut lengths: Vec<usize> = valid.iter().map(|v| if *v || dice.one_in(3) { dice.below(4) } else { 0 }).collect();
    match (data_type, data_type.to_arrow()) {
        (DataType::Array(item), ArrowType::List(field)) => {
            let values = array(&item.data_type, item.nullable, lengths.iter().sum(), dice);
            Arc::new(ListArray::new(field, OffsetBuffer::from_lengths(lengths), values, nulls))
        }
        (DataType::Map(key, _) | DataType::Multiset(key), ArrowType::Map(field, _)) => {
            let keys = keys(&key.data_type, &mut lengths, dice);
            let values = match data_type {
                DataType::Map(_, value) => array(&value.data_type, value.nullable, keys.len(), dice),
                _ => Arc::new((0..keys.len()).map(|_| Some(dice.below(5) as i32 + 1)).collect::<Int32Array>()),
            };
            let ArrowType::Struct(fields) = field.data_type() else { panic!("a map is made of structs") };
            let entries = StructArray::new(fields.clone(), vec![keys, values], None);
            Arc::new(MapArray::new(field, OffsetBuffer::from_lengths(lengths), entries, nulls, false))
        }
        (DataType::Row(fields), ArrowType::Struct(arrow)) => {
            let columns = fields.iter().map(|f| array(&f.data_type, f.nullable, valid.len(), dice)).collect();
            Arc::new(StructArray::new(arrow, columns, nulls))
        }
        (other, _) => panic!("{other} is not nested"),
    }
}

/// No key twice in one map; `lengths` shrink where there are not enough.
fn keys(data_type: &DataType, lengths: &mut [usize], dice: &mut Dice) -> ArrayRef {
    let pool = array(data_type, false, 40, dice);
    let order = make_comparator(&pool, &pool, SortOptions::default()).unwrap();
    let mut picked: Vec<u32> = Vec::new();
    for length in lengths {
        let mut of_map: Vec<u32> = Vec::new();
        for _ in 0..*length {
            let key = dice.below(pool.len());
            if of_map.iter().all(|k| order(*k as usize, key).is_ne()) {
                of_map.push(key as u32);
            }
        }
        *length = of_map.len();
        picked.extend(of_map);
    }
    take(&pool, &UInt32Array::from(picked), None).unwrap()
}
